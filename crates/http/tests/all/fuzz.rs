//! Hostile frames: nothing panics, and the account holds.

use crate::support::{Connection, Kept, see};
use ringside_core::{SourceInterface, Timestamp};
use ringside_http::{HttpObserver, Options};
use ringside_inspect::Observer;

/// Frames, each after its length in two bytes.
fn seed(made: &Connection) -> Vec<u8> {
    let frames = made.packets.iter().map(|packet| packet.frame());
    frames.flat_map(|frame| [(frame.len() as u16).to_be_bytes().to_vec(), frame].concat()).collect()
}

fn frames(mut input: &[u8]) -> Vec<&[u8]> {
    let mut frames = Vec::new();
    while let [high, low, rest @ ..] = input {
        let bytes = usize::from(u16::from_be_bytes([*high, *low])).min(rest.len());
        let (frame, after) = rest.split_at(bytes);
        frames.push(frame);
        input = after;
    }
    frames
}

#[test]
fn any_frames_keep_the_account() {
    let get = "GET /a HTTP/1.1\r\nHost: h\r\n\r\n";
    let chunked = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n";
    let post = "POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc";
    let seeds = [
        seed(&Connection::new(1).ask(get).answer(chunked).ask(post).answer(chunked).end()),
        seed(&Connection::new(1).ask(get).lose().answer(chunked).ask(get).answer(chunked)),
        seed(
            &Connection::new(1)
                .ask("CONNECT h:1 HTTP/1.1\r\n\r\n")
                .answer("HTTP/1.1 200 OK\r\n\r\n"),
        ),
    ];
    let interface = SourceInterface::ethernet("eth1");
    ringside_testkit::fuzz("http", 4_000, &seeds, |input| {
        for headers_only in [false, true] {
            let kept = Kept::default();
            let options = Options { headers_only, ..Options::default() };
            let mut observer = HttpObserver::new(options, kept.sinks());
            for (index, frame) in frames(input).into_iter().enumerate() {
                let stamp = 1_000_000_000 + index as u64 * 400_000_000;
                see(&mut observer, frame, stamp, &interface);
                observer.tick(Timestamp(stamp));
                assert!(observer.balances());
            }
            observer.finish();
            assert!(observer.balances() && observer.open() == 0);
        }
    });
}
