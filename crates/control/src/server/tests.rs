use super::*;
use crate::Found;
use ringside_testkit::Random;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Longest wait for a reply: no test depends on its length.
const WAIT_MAX: Duration = Duration::from_secs(30);

/// Runs `work` next to a server whose commands are counted.
fn with_server<T>(work: impl FnOnce(&Path, &AtomicU64) -> T) -> T {
    let directory = tempfile::tempdir().unwrap();
    let path: PathBuf = directory.path().join("a.sock");
    let socket = ControlSocket::bind(&path).unwrap();
    let asked = AtomicU64::new(0);
    let answer = |command| {
        asked.fetch_add(1, Ordering::Relaxed);
        match command {
            Command::Stop {} => panic!("a command that fails"),
            _ => Reply::done(),
        }
    };
    let (result, _) = serve_while(Some(socket), answer, || work(&path, &asked));
    assert!(!path.exists());
    result
}

fn connect(path: &Path) -> UnixStream {
    let stream = UnixStream::connect(path).unwrap();
    stream.set_read_timeout(Some(WAIT_MAX)).unwrap();
    stream.set_write_timeout(Some(WAIT_MAX)).unwrap();
    stream
}

/// Asks, and gives the reply; `None` if the server closed the connection.
fn ask(stream: &mut UnixStream, line: &[u8]) -> Option<Reply> {
    stream.write_all(line).ok()?;
    reply(stream)
}

fn reply(stream: &mut UnixStream) -> Option<Reply> {
    let (mut line, mut byte) = (Vec::new(), [0]);
    while !line.ends_with(b"\n") {
        if stream.read(&mut byte).ok()? == 0 {
            return None;
        }
        line.push(byte[0]);
    }
    Some(serde_json::from_slice(&line).unwrap())
}

fn status() -> Vec<u8> {
    (Command::Status {}.line() + "\n").into_bytes()
}

/// Asks until there is a place: of clients that went the server learns in its next round.
fn ask_until_answered(path: &Path) {
    let start = Instant::now();
    while !ask(&mut connect(path), &status()).is_some_and(|reply| reply.ok) {
        assert!(start.elapsed() < WAIT_MAX);
    }
}

#[test]
fn of_a_hundred_clients_as_many_are_served_as_there_are_places() {
    with_server(|path, _| {
        let mut clients: Vec<_> = (0..100).map(|_| connect(path)).collect();
        // The first to connect is in.
        let replies: Vec<_> = clients
            .iter_mut()
            .map(|client| ask(client, &status()).or_else(|| reply(client)))
            .collect();
        let served = replies.iter().flatten().filter(|reply| reply.ok).count();
        assert_eq!(served, LIMITS.clients_max);
        let refused = replies.iter().flatten().filter(|reply| !reply.ok);
        for reply in refused {
            assert!(reply.error.as_ref().unwrap().contains("16 clients"), "{reply:?}");
        }
        drop(clients);
        ask_until_answered(path);
    });
}

#[test]
fn the_client_of_this_program_is_answered() {
    with_server(|path, asked| {
        let mut found = Found::at(Some(path));
        let client = &mut found.clients[0];
        assert!(client.ask(&Command::Rotate {}).unwrap().ok);
        assert!(client.ask(&Command::Ledger {}).unwrap().ok);
        assert_eq!(asked.load(Ordering::Relaxed), 2);
        let none = Found::at(Some(&path.with_extension("none")));
        assert!(none.clients.is_empty() && none.errors.is_empty());
    });
}

#[test]
fn hostile_clients_do_not_keep_others_from_an_answer() {
    with_server(|path, _| {
        let mut random = Random::new(11);
        let megabyte = vec![b'['; 1 << 20];
        let mut lasting = Vec::new();
        for round in 0..300 {
            let mut stream = connect(path);
            stream.set_nonblocking(true).unwrap();
            // What the other end does not take is not sent.
            let _ = match round % 5 {
                0 => stream.write(&megabyte),
                1 => {
                    let length = random.below(5000);
                    stream.write(&random.bytes(length))
                }
                2 => stream.write(&status()[..10]),
                // Asks and never reads.
                3 => stream.write(&status().repeat(100)),
                _ => Ok(0),
            };
            if random.below(4) == 0 {
                lasting.push(stream);
            }
            if lasting.len() > 10 {
                lasting.remove(random.below(10));
            }
            if round % 50 == 0 {
                ask_until_answered(path);
            }
        }
        ask_until_answered(path);
    });
}

#[test]
fn a_command_that_panics_ends_the_server_and_not_the_run() {
    let stop = (Command::Stop {}.line() + "\n").into_bytes();
    let answer = with_server(|path, _| ask(&mut connect(path), &stop));
    assert!(answer.is_none());
}

#[test]
fn who_asked_waits_until_the_end() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.sock");
    let socket = ControlSocket::bind(&path).unwrap();
    let (mut client, remaining) = serve_while(
        Some(socket),
        |_| Reply::done(),
        || {
            let mut client = connect(&path);
            assert!(ask(&mut client, &status()).unwrap().ok);
            client
        },
    );
    client.set_nonblocking(true).unwrap();
    let open = client.read(&mut [0]).unwrap_err();
    assert_eq!(open.kind(), ErrorKind::WouldBlock);
    drop(remaining);
    assert_eq!(client.read(&mut [0]).unwrap(), 0);
    let nothing = serve_while(None, |_| Reply::done(), || 7);
    assert_eq!(nothing.0, 7);
}
