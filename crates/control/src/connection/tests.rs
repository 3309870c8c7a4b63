use super::*;
use ringside_testkit::Random;
use std::cell::Cell;

const SECOND: Duration = Duration::from_secs(1);

/// A connection with its client, and what was asked of it.
struct Pair {
    connection: Connection,
    client: UnixStream,
    begun: Instant,
    asked: Cell<u64>,
}

impl Pair {
    fn new() -> Pair {
        let (ours, client) = UnixStream::pair().unwrap();
        ours.set_nonblocking(true).unwrap();
        client.set_nonblocking(true).unwrap();
        let begun = Instant::now();
        let connection = Connection::new(ours, begun, &LIMITS);
        Pair { connection, client, begun, asked: Cell::new(0) }
    }

    /// The client sends all of it, in pieces of `piece` bytes, while the server looks on. What is
    /// sent after the server closed is lost.
    fn send(&mut self, mut bytes: &[u8], piece: usize) {
        while !bytes.is_empty() && !self.connection.is_closed() {
            let most = bytes.len().min(piece);
            match self.client.write(&bytes[..most]) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(_) => return,
            }
            self.step(Duration::ZERO);
        }
    }

    fn step(&mut self, after: Duration) {
        let asked = &self.asked;
        let answer = |_| {
            asked.set(asked.get() + 1);
            Reply::done()
        };
        self.connection.step(self.begun + after, &LIMITS, &answer);
        let (input, output) = (&self.connection.input, &self.connection.output);
        assert!(input.len() <= LINE_BYTES_MAX + READ_BYTES && output.len() <= LINE_BYTES_MAX);
    }

    /// Everything that the client gets until nothing more comes.
    fn replies(&mut self) -> Vec<Reply> {
        let mut bytes = Vec::new();
        let mut unchanged = 0;
        // A step may read as much as it takes a line of: that happens once, for it reads all.
        while unchanged < 2 {
            let connection = &self.connection;
            let before = (bytes.len(), connection.input.len(), connection.ending);
            if !connection.is_closed() {
                self.step(Duration::ZERO);
            }
            let _ = self.client.read_to_end(&mut bytes);
            let connection = &self.connection;
            let is_same = before == (bytes.len(), connection.input.len(), connection.ending);
            unchanged = if is_same { unchanged + 1 } else { 0 };
        }
        let lines = bytes.split_inclusive(|&byte| byte == b'\n');
        lines.map(|line| serde_json::from_slice(line).unwrap()).collect()
    }
}

fn status() -> Vec<u8> {
    (Command::Status {}.line() + "\n").into_bytes()
}

#[test]
fn every_request_has_one_reply_however_it_is_cut() {
    let requests: Vec<u8> = status().repeat(50);
    for piece in [1, 7, 64, 4096, 1 << 20] {
        let mut pair = Pair::new();
        pair.send(&requests, piece);
        let replies = pair.replies();
        assert_eq!((replies.len(), pair.asked.get()), (50, 50), "pieces of {piece}");
        assert!(replies.iter().all(|reply| reply.ok) && !pair.connection.is_closed());
    }
}

#[test]
fn a_request_without_an_end_is_answered_when_no_more_can_come() {
    let mut pair = Pair::new();
    pair.send(&[b"\n \n", &status()[..], Command::Stop {}.line().as_bytes()].concat(), 100);
    assert_eq!(pair.replies().len(), 1);
    pair.client.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(pair.replies().len(), 1);
    assert!(pair.connection.is_closed());
}

#[test]
fn garbage_is_answered_and_the_next_request_too() {
    let mut pair = Pair::new();
    pair.send(&[b"\xff\x00 half a li\nine\n{}\n", &status()[..]].concat(), 5);
    let ok: Vec<bool> = pair.replies().iter().map(|reply| reply.ok).collect();
    assert_eq!(ok, [false, false, false, true]);
}

#[test]
fn a_line_that_is_too_long_is_refused_and_ends_the_connection() {
    for length in [LINE_BYTES_MAX + 1, 1 << 20] {
        let mut pair = Pair::new();
        pair.send(&vec![b' '; length], 4096);
        pair.send(b"\n", 1);
        let replies = pair.replies();
        assert_eq!(replies.len(), 1);
        assert!(replies[0].error.as_ref().unwrap().contains("65536"), "{replies:?}");
        assert!(pair.connection.is_closed() && pair.asked.get() == 0);
    }
    let mut pair = Pair::new();
    let blanks = vec![b' '; LINE_BYTES_MAX - Command::Status {}.line().len()];
    pair.send(&[&blanks[..], &status()[..]].concat(), 4096);
    assert_eq!(pair.replies().len(), 1);
    assert_eq!((pair.asked.get(), pair.connection.is_closed()), (1, false));
}

#[test]
fn who_does_not_read_is_asked_no_more_and_given_up() {
    let mut pair = Pair::new();
    let requests = status().repeat(1000);
    let (mut sent, mut rounds) = (0, 0);
    // Until neither side moves: both buffers of the kernel are full.
    while rounds < 100_000 {
        let count = pair.client.write(&requests[sent % status().len()..]).unwrap_or(0);
        let asked = pair.asked.get();
        pair.step(Duration::ZERO);
        if count == 0 && asked == pair.asked.get() {
            break;
        }
        (sent, rounds) = (sent + count, rounds + 1);
    }
    assert_eq!(pair.connection.interest(), PollFlags::OUT);
    let asked = pair.asked.get();
    pair.step(LIMITS.exchange - SECOND);
    assert!(!pair.connection.is_closed());
    pair.step(LIMITS.exchange);
    assert!(pair.connection.is_closed() && pair.asked.get() == asked);
}

#[test]
fn who_reads_slowly_gets_the_whole_of_a_long_reply() {
    let mut pair = Pair::new();
    let long = "x".repeat(8 << 20);
    let answer = |_| Reply::flows(serde_json::json!(long));
    pair.client.write_all(&status()).unwrap();
    let (mut taken, mut bytes, mut second) = (0, vec![0; 1 << 20], 0);
    while taken < long.len() {
        pair.connection.step(pair.begun + SECOND * second, &LIMITS, &answer);
        assert!(!pair.connection.is_closed(), "after {second} s");
        while let Ok(count @ 1..) = pair.client.read(&mut bytes) {
            taken += count;
        }
        second += 4;
    }
    assert!(SECOND * second > LIMITS.exchange * 2);
}

#[test]
fn half_a_line_and_idleness_end_at_their_limits() {
    let mut idle = Pair::new();
    idle.step(LIMITS.idle - SECOND);
    assert!(!idle.connection.is_closed());
    idle.step(LIMITS.idle);
    assert!(idle.connection.is_closed());

    let mut slow = Pair::new();
    for second in 0..60 {
        // One more byte does not prolong it.
        let _ = slow.client.write(b"x");
        slow.step(SECOND * second);
        if slow.connection.is_closed() {
            assert_eq!(SECOND * second, LIMITS.exchange);
            break;
        }
    }
    assert!(slow.connection.is_closed());
    let replies = slow.replies();
    assert!(replies[0].error.as_ref().unwrap().contains("in time"), "{replies:?}");

    // Who asks now and then stays.
    let mut watching = Pair::new();
    for minute in 0..10 {
        watching.client.write_all(&status()).unwrap();
        watching.step(SECOND * (59 * minute));
        assert_eq!(watching.replies().len(), 1);
    }
}

#[test]
fn hostile_bytes_get_at_most_one_reply_a_line() {
    let seeds = [status(), status().repeat(3), b"{\"version\":1}\n\n\x80\x00\n".to_vec()];
    let random = std::cell::RefCell::new(Random::new(3));
    ringside_testkit::fuzz("control-connection", 10_000, &seeds, |bytes| {
        let mut pair = Pair::new();
        let piece = 1 + random.borrow_mut().below(5000);
        pair.send(bytes, piece);
        if !pair.connection.is_closed() {
            pair.client.shutdown(std::net::Shutdown::Write).unwrap();
        }
        // A full buffer holds the server up, so that replies are taken in between.
        let replies = pair.replies().len();
        let lines = bytes.split(|&byte| byte == b'\n').filter(|line| !line.trim_ascii().is_empty());
        assert!(pair.connection.is_closed() && replies <= lines.count());
    });
}
