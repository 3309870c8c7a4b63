//! What is kept of messages, and what bounds it; the same transactions however bytes are cut.

use crate::support::{Connection, Packet, find, find_with, text, texts};
use ringside_http::{Ending, Options, Transaction};
use ringside_testkit::{Random, by_run};

const ASKED: &str = "POST http://me:word@h/x?token=t HTTP/1.1\r\nHost: h\r\nCookie: c=1\r\n\
    Authorization: Basic bWU6d29yZA==\r\nReferer: http://r/?sid=1\r\nX-Forwarded-For: 10.9.8.7\r\n\
    Content-Type: a/b\r\nContent-Length: 3\r\n\r\nabc";
const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello";

fn shown(transaction: &Transaction) -> String {
    let request = transaction.request.as_ref().unwrap();
    let plain = |text: &Option<Box<[u8]>>| {
        text.as_ref().map_or("-".into(), |text| String::from_utf8_lossy(text).into_owned())
    };
    let target = String::from_utf8_lossy(&request.target);
    let fields = [&request.user, &request.password, &request.cookie, &request.referrer];
    let fields: Vec<_> = fields.into_iter().map(plain).collect();
    format!("{target} {}", fields.join(" "))
}

#[test]
fn credentials_are_hidden_unless_asked_for() {
    let made = Connection::new(1).ask(ASKED).answer(OK);
    assert_eq!(shown(&find(&made)[0]), "http://***@h/x?token=*** me - - http://r/?sid=***");
    let options = Options { shows_credentials: true, ..Options::default() };
    let expected = "http://me:word@h/x?token=t me word c=1 http://r/?sid=1";
    assert_eq!(shown(&find_with(options, &made.packets)[0]), expected);
    let found = find(&made);
    let proxied = &found[0].request.as_ref().unwrap().proxied;
    assert_eq!(proxied, &[b"X-FORWARDED-FOR -> 10.9.8.7".as_slice().into()]);
}

#[test]
fn heads_without_end_are_given_up() {
    let mut made = Connection::new(1).ask("GET / HTTP/1.1\r\n");
    for _ in 0..100 {
        made = made.ask(&format!("X: {}\r\n", "x".repeat(1_000)));
    }
    assert!(texts(&made.ask("\r\n").answer(OK)).iter().all(|text| text.ends_with("unseen")));
    // A request that is longer than what is kept of it.
    let long = format!("GET /{} HTTP/1.1\r\n\r\n", "a".repeat(20_000));
    let found = find(&Connection::new(1).ask(&long).answer(OK));
    assert_eq!(found[0].request.as_ref().unwrap().target.len(), 8 << 10);
    assert_eq!(found[0].ending, Ending::Complete);
}

#[test]
fn requests_without_an_answer_are_bounded() {
    let mut made = Connection::new(1);
    for number in 0..150 {
        made = made.ask(&format!("GET /{number} HTTP/1.1\r\n\r\n"));
    }
    for _ in 0..150 {
        made = made.answer(OK);
    }
    let found = find(&made.ask("GET /last HTTP/1.1\r\n\r\n").answer(OK));
    let count = |ending| found.iter().filter(|found| found.ending == ending).count();
    assert_eq!((count(Ending::NoRoom), count(Ending::Complete)), (50, 101));
    assert_eq!(text(found.last().unwrap()), "GET /last 200 5 complete");
}

/// A conversation of all kinds of messages, as the bytes of both sides by turns.
fn conversation() -> Vec<(bool, Vec<u8>)> {
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\na;x=y\r\n\
        0123456789\r\n0\r\nT: r\r\n\r\n";
    let turns: [(bool, &str); 11] = [
        (false, ASKED),
        (true, "HTTP/1.1 100 Continue\r\n\r\n"),
        (true, OK),
        (false, "GET /a HTTP/1.1\r\nHost: h\r\n\r\nGET /b HTTP/1.1\r\n\r\n"),
        (true, chunked),
        (true, "HTTP/1.1 204 No\r\n\r\n"),
        (false, "\r\nPUT /c HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n"),
        (true, "HTTP/1.1 201 Made\r\nContent-Length: 0\r\n\r\n"),
        (false, "GET /d HTTP/1.0\r\n\r\n"),
        (true, "HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\n"),
        (true, "up to the end"),
    ];
    turns.map(|(is_back, text)| (is_back, text.as_bytes().to_vec())).to_vec()
}

/// Its packets, each turn cut at random, all at the same time.
fn cut(random: &mut Random) -> Vec<Packet> {
    let mut made = Connection::new(7);
    for (is_back, bytes) in conversation() {
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(1 + random.below(rest.len().min(60)));
            made.push(is_back, 0, piece);
            rest = after;
        }
    }
    let mut made = made.end();
    made.packets.iter_mut().for_each(|packet| packet.stamp = 1_000_000_000);
    made.packets
}

/// Of each side the order is another one; which of two segments is sent again as well.
fn reorder(packets: &[Packet], random: &mut Random) -> Vec<Packet> {
    let mut out = packets[..2].to_vec();
    let mut turns: Vec<Vec<Packet>> = Vec::new();
    for packet in &packets[2..] {
        match turns.last_mut() {
            Some(turn) if turn[0].is_back == packet.is_back => turn.push(packet.clone()),
            _ => turns.push(vec![packet.clone()]),
        }
    }
    for mut turn in turns {
        if random.below(2) == 0 {
            turn.push(turn[random.below(turn.len())].clone());
        }
        for index in (1..turn.len()).rev() {
            turn.swap(index, random.below(index + 1));
        }
        out.extend(turn);
    }
    out
}

#[test]
fn any_cut_and_any_order_give_the_same_transactions() {
    let whole: Vec<Packet> = {
        let mut made = Connection::new(7);
        for (is_back, bytes) in conversation() {
            made.push(is_back, 0, &bytes);
        }
        let mut made = made.end();
        made.packets.iter_mut().for_each(|packet| packet.stamp = 1_000_000_000);
        made.packets
    };
    let expected = find_with(Options::default(), &whole);
    let texts: Vec<_> = expected.iter().map(text).collect();
    let lines = [
        "POST http://***@h/x?token=*** 200 5 complete",
        "GET /a 200 15 complete",
        "GET /b 204 0 complete",
        "PUT /c 201 0 complete",
        "GET /d 200 13 complete",
    ];
    assert_eq!(texts, lines);
    for seed in 0..by_run(400, 20_000) {
        let mut random = Random::new(seed);
        let packets = cut(&mut random);
        assert_eq!(find_with(Options::default(), &packets), expected, "seed {seed}");
        let packets = reorder(&packets, &mut random);
        assert_eq!(find_with(Options::default(), &packets), expected, "seed {seed}, reordered");
    }
}

/// Whatever is lost, what is not named as lost or unseen is right.
#[test]
fn what_is_lost_has_a_name() {
    let request = |number| format!("GET /{number} HTTP/1.1\r\nHost: h\r\n\r\n");
    for seed in 0..by_run(600, 30_000) {
        let mut random = Random::new(seed);
        let mut made = Connection::new(7);
        for number in 0..8 {
            let response = format!(
                "HTTP/1.1 {} X\r\nContent-Length: 40\r\n\r\n{}",
                400 + number,
                "y".repeat(40)
            );
            for (is_back, text) in [(false, request(number)), (true, response)] {
                for piece in text.as_bytes().chunks(1 + random.below(90)) {
                    made.push(is_back, 0, piece);
                }
            }
        }
        let mut made = made.end();
        for _ in 0..1 + random.below(4) {
            let lost = 2 + random.below(made.packets.len() - 2);
            made.packets.remove(lost);
        }
        for found in find(&made).iter().filter(|found| found.ending == Ending::Complete) {
            let request =
                String::from_utf8_lossy(&found.request.as_ref().unwrap().target).into_owned();
            let response = found.response.as_ref().unwrap();
            assert_eq!(format!("/{}", response.status - 400), request, "seed {seed}");
            assert_eq!(response.message.body_bytes + response.message.missing_bytes, 40);
        }
    }
}
