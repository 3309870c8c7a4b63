use super::*;
use crate::limits::PIPELINED_MAX;
use ringside_core::{InterfaceId, Timestamp};
use ringside_inspect::Key;
use ringside_inspect::key::Around;
use ringside_wire::IpProtocol;

const GET: &str = "GET /a HTTP/1.1\r\nHost: h\r\n\r\n";
const OK: &str = "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nServer: s\r\nLocation: /\r\n\r\n";

/// A conversation whose lower endpoint asks, and what came of it.
struct Probe {
    conversation: Conversation,
    shared: Shared,
    ended: Vec<Transaction>,
}

impl Probe {
    fn new() -> Probe {
        let conversation = Conversation::new([true, true]);
        Probe { conversation, shared: Shared::default(), ended: Vec::new() }
    }

    fn say(&mut self, from_high: bool, text: &str) {
        let ends = (("10.0.0.1".parse().unwrap(), 40_000), ("10.0.0.2".parse().unwrap(), 80));
        let (protocol, interface) = (IpProtocol::TCP, InterfaceId(0));
        let around = Around { protocol, vlan: None, tunnel: None, interface };
        let (key, is_high) = Key::new(ends.0, ends.1, &around, false);
        assert!(!is_high);
        let (initiator_high, stamp) = (false, Timestamp(1));
        let at = At { key: &key, connection: 1, from_high, initiator_high, stamp };
        let Probe { conversation, shared, ended } = self;
        let out = &mut |transaction| ended.push(transaction);
        conversation.data(text.as_bytes(), &at, shared, out);
    }
}

fn bytes_of<T>(queue: &VecDeque<T>) -> usize {
    queue.capacity() * size_of::<T>()
}

#[test]
fn a_connection_that_is_idle_takes_little() {
    let mut probe = Probe::new();
    probe.say(false, &GET.repeat(PIPELINED_MAX));
    probe.say(true, &OK.repeat(PIPELINED_MAX));
    assert_eq!((probe.ended.len(), probe.shared.kept_memory), (PIPELINED_MAX, 0));
    let bytes = size_of::<Conversation>() + bytes_of(&probe.conversation.open);
    assert!(bytes <= 260, "{bytes} bytes are kept of it: docs/http.md says how many");
}

#[test]
fn all_texts_count() {
    let kept = |kind: &str| {
        let mut probe = Probe::new();
        probe.say(false, &GET.replace("Host", "Content-Type: {}\r\nHost").replace("{}", kind));
        probe.shared.kept_memory
    };
    assert_eq!(kept(&"x".repeat(1_000)), kept("x") + 999);
}

#[test]
fn what_does_not_fit_any_more_is_left_out() {
    let mut probe = Probe::new();
    probe.say(false, GET);
    // Others have all the rest.
    let (room, own) = (2, probe.shared.kept_memory);
    probe.shared.kept_memory = KEPT_BYTES_MAX - room;
    probe.say(true, &OK.replace("Content-Length: 0", "Content-Length: 1"));
    assert!(probe.shared.kept_memory <= KEPT_BYTES_MAX);
    probe.say(true, "x");
    assert_eq!(probe.shared.kept_memory, KEPT_BYTES_MAX - room - own);
    let response = probe.ended.pop().and_then(|transaction| transaction.response).unwrap();
    assert_eq!((response.status, response.server, response.location), (200, None, None));
    // A request whose response came before it: each half is written alone.
    probe.shared.kept_memory = 0;
    probe.say(true, OK);
    probe.shared.kept_memory = KEPT_BYTES_MAX - room;
    probe.say(false, GET);
    let endings: Vec<_> = probe.ended.iter().map(|transaction| transaction.ending).collect();
    assert_eq!(endings, [Ending::NoRoom, Ending::RequestUnseen]);
    assert_eq!(probe.conversation.without_room, 0);
}
