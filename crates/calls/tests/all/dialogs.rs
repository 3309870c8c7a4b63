//! States and times of calls.

use crate::support::{INVITE, MS, START, Traffic, find, find_with, message, rtp, sdp};
use ringside_calls::{Call, Ending, Options, Party};

/// A call that rings for two seconds and is talked in for ten, of which every tenth packet from
/// alice is lost.
fn talk() -> Traffic {
    let mut traffic = Traffic::new();
    traffic.say(false, &message(INVITE, "c1", "1 INVITE", "", &sdp(1, 4000)));
    traffic.wait(50).say(true, &message("SIP/2.0 100 Trying", "c1", "1 INVITE", "", ""));
    traffic.wait(450).say(true, &message("SIP/2.0 180 Ringing", "c1", "1 INVITE", "b1", ""));
    traffic.wait(2_000);
    traffic.say(true, &message("SIP/2.0 200 OK", "c1", "1 INVITE", "b1", &sdp(2, 6000)));
    traffic.wait(20).say(false, &message("ACK sip:bob@b SIP/2.0", "c1", "1 ACK", "b1", ""));
    for number in 0..500 {
        traffic.wait(20);
        if number % 10 != 5 {
            traffic.put((1, 4000), (2, 6000), &rtp(number, 7));
        }
        traffic.put((2, 6000), (1, 4000), &rtp(number, 8));
    }
    traffic.say(false, &message("BYE sip:bob@b SIP/2.0", "c1", "2 BYE", "b1", ""));
    traffic.wait(5).say(true, &message("SIP/2.0 200 OK", "c1", "2 BYE", "b1", ""));
    traffic
}

fn one(traffic: &Traffic) -> Call {
    let calls = find(traffic);
    assert_eq!(calls.len(), 1, "{calls:#?}");
    calls.into_iter().next().unwrap()
}

#[test]
fn a_call_from_dial_to_talk() {
    let call = one(&talk());
    let dialog = call.dialog.as_ref().unwrap();
    assert_eq!((call.ending, dialog.status), (Ending::HungUp, Some(200)));
    assert_eq!(dialog.hung_up_by, Some(Party::Caller));
    assert_eq!(dialog.caller.as_deref(), Some("sip:alice@a"));
    assert_eq!(dialog.callee.as_deref(), Some("sip:bob@b"));
    assert_eq!(dialog.post_dial_ns(), Some(500 * MS));
    assert_eq!(dialog.ring_ns(), Some(2_000 * MS));
    assert_eq!(dialog.talk_ns(), Some(10_020 * MS));
    assert_eq!(dialog.confirmed_ns, Some(START + 2_520 * MS));
    assert_eq!((dialog.messages, dialog.repeated, dialog.reinvites), (7, 0, 0));
}

/// Of a rate that is known the numbers are: 50 of 500 packets, none in bursts.
#[test]
fn loss_is_what_was_lost() {
    let call = one(&talk());
    let [there, back] = call.streams.as_slice() else { panic!("{:#?}", call.streams) };
    assert_eq!((there.statistics.packets, there.statistics.lost()), (450, 50));
    assert_eq!((back.statistics.packets, back.statistics.lost()), (500, 0));
    let codec = there.codec.as_ref().unwrap();
    assert_eq!((codec.name.as_str(), codec.clock_rate), ("PCMU", 8_000));
    // Every tenth packet: nine good ones between two losses make one burst of all of them.
    let bursts = there.statistics.bursts();
    assert_eq!((bursts.bursts, bursts.burst_losses, bursts.discarded), (1, 50, 0));
    let (bad, good) = (there.quality().unwrap(), back.quality().unwrap());
    assert_eq!((bad.loss_percent, good.loss_percent), (10.0, 0.0));
    assert!((good.mos - 4.41).abs() < 0.01, "{good:?}");
    assert!((3.2..3.5).contains(&bad.mos), "{bad:?}");
}

#[test]
fn a_codec_that_is_not_known_has_no_quality() {
    let mut traffic = talk();
    for (_, frame) in &mut traffic.frames {
        if frame.len() == 42 + 172 {
            frame[43] = 97;
        }
    }
    let call = one(&traffic);
    let stream = &call.streams[0];
    assert_eq!((stream.codec.as_ref(), stream.quality()), (None, None));
    assert_eq!((stream.statistics.lost(), stream.statistics.timing.jitter_ns()), (50, None));
}

/// How a call of these responses ends.
#[track_caller]
fn ends(steps: &[(bool, &str, &str)], expected: Ending, status: Option<u16>) -> Call {
    let mut traffic = Traffic::new();
    traffic.say(false, &message(INVITE, "c", "1 INVITE", "", ""));
    for (is_back, first, cseq) in steps {
        let tag = if first.starts_with("INVITE") { "" } else { "b" };
        traffic.wait(100).say(*is_back, &message(first, "c", cseq, tag, ""));
    }
    let call = one(&traffic);
    let dialog = call.dialog.as_ref().unwrap();
    assert_eq!((call.ending, dialog.status), (expected, status), "{steps:?}");
    call
}

#[test]
fn every_way_to_end() {
    const CANCEL: &str = "CANCEL sip:bob@b SIP/2.0";
    ends(&[(true, "SIP/2.0 486 Busy Here", "1 INVITE")], Ending::Rejected, Some(486));
    ends(&[(true, "SIP/2.0 302 Moved", "1 INVITE")], Ending::Redirected, Some(302));
    ends(&[(true, "SIP/2.0 100 Trying", "1 INVITE")], Ending::Forced, None);
    let steps = [
        (true, "SIP/2.0 180 Ringing", "1 INVITE"),
        (false, CANCEL, "1 CANCEL"),
        (true, "SIP/2.0 200 OK", "1 CANCEL"),
        (true, "SIP/2.0 487 Terminated", "1 INVITE"),
    ];
    let call = ends(&steps, Ending::Cancelled, Some(487));
    assert_eq!(call.dialog.as_ref().unwrap().ring_ns(), Some(100 * MS));
    assert_eq!(call.dialog.unwrap().talk_ns(), None);
    // The answer was under way when the caller gave up.
    let steps = [(false, CANCEL, "1 CANCEL"), (true, "SIP/2.0 200 OK", "1 INVITE")];
    ends(&steps, Ending::Forced, Some(200));
    ends(&[(true, "SIP/2.0 407 Who", "1 INVITE")], Ending::Challenged, Some(407));
    let steps = [
        (true, "SIP/2.0 407 Who", "1 INVITE"),
        (false, "ACK sip:bob@b SIP/2.0", "1 ACK"),
        (false, INVITE, "2 INVITE"),
        (true, "SIP/2.0 200 OK", "2 INVITE"),
        (true, "BYE sip:alice@a SIP/2.0", "1 BYE"),
    ];
    let call = ends(&steps, Ending::HungUp, Some(200));
    let dialog = call.dialog.unwrap();
    assert_eq!((dialog.retries, dialog.reinvites), (1, 0));
    assert_eq!(dialog.post_dial_ns(), Some(400 * MS), "a challenge is no sign of the callee");
}

#[test]
fn silence_ends_a_call_and_time_is_that_of_packets() {
    let mut traffic = Traffic::new();
    traffic.say(false, &message(INVITE, "c1", "1 INVITE", "", ""));
    traffic.wait(300_000).say(false, &message(INVITE, "c2", "1 INVITE", "", ""));
    let endings: Vec<_> = find(&traffic).iter().map(|call| call.ending).collect();
    assert_eq!(endings, [Ending::Unanswered, Ending::Forced]);
}

#[test]
fn noise_is_counted_and_self_calls_are_left_out() {
    use ringside_calls::CallsObserver;
    use ringside_inspect::Observer;
    let mut traffic = Traffic::new();
    let myself = message(INVITE, "me", "1 INVITE", "", "").replace("bob@b", "alice@a");
    traffic.say(false, &myself);
    traffic.say(false, &message("OPTIONS sip:b SIP/2.0", "o", "1 OPTIONS", "", ""));
    traffic.say(true, &message("SIP/2.0 200 OK", "o", "1 OPTIONS", "x", ""));
    traffic.say(false, &message("REGISTER sip:b SIP/2.0", "r", "1 REGISTER", "", ""));
    traffic.say(false, &message("BYE sip:b SIP/2.0", "unseen", "9 BYE", "x", ""));
    traffic.say(false, &message("NOTIFY sip:b SIP/2.0", "n", "1 NOTIFY", "", ""));
    traffic.say(false, "\r\n\r\n").say(false, "hello").say(false, "INVITE sip:x SIP/2.0\r\n\r\n");
    traffic.put((1, 53), (2, 5353), b"something else");
    let mut observer = CallsObserver::new(Options::default(), Vec::new());
    traffic.frames.iter().for_each(|(at, bytes)| crate::support::see(&mut observer, bytes, *at));
    observer.finish();
    let ledger = observer.ledger();
    assert!(observer.balances(), "{ledger:?}");
    assert_eq!((ledger.begun, ledger.self_calls, ledger.given()), (1, 1, 0));
    assert_eq!((ledger.options, ledger.registers, ledger.other_methods), (2, 1, 1));
    assert_eq!((ledger.without_call, ledger.keepalives, ledger.sip_malformed_udp), (1, 1, 2));
    assert_eq!((ledger.sip_udp, ledger.other_udp, ledger.datagrams), (6, 1, 10));
}

#[test]
fn forks_early_media_and_changes() {
    let mut traffic = Traffic::new();
    traffic.say(false, &message(INVITE, "c", "1 INVITE", "", &sdp(1, 4000)));
    let progress = "SIP/2.0 183 Session Progress";
    traffic.wait(10).say(true, &message(progress, "c", "1 INVITE", "b1", &sdp(2, 6000)));
    traffic.put((2, 6000), (1, 4000), &rtp(1, 8));
    traffic.wait(10).say(true, &message("SIP/2.0 180 Ringing", "c", "1 INVITE", "b2", ""));
    traffic.wait(10).say(true, &message("SIP/2.0 200 OK", "c", "1 INVITE", "b2", &sdp(3, 7000)));
    traffic.put((1, 4000), (3, 7000), &rtp(1, 7));
    traffic.wait(10).say(false, &message(INVITE, "c", "2 INVITE", "b2", &sdp(1, 4002)));
    traffic.wait(10).say(true, &message("SIP/2.0 200 OK", "c", "2 INVITE", "b2", &sdp(3, 7000)));
    traffic.put((3, 7000), (1, 4002), &rtp(9, 9));
    let call = one(&traffic);
    let dialog = call.dialog.as_ref().unwrap();
    assert_eq!((dialog.forks.len(), dialog.to_tag.as_deref()), (2, Some("b2")));
    assert!(dialog.has_early_media);
    assert_eq!((dialog.reinvites, dialog.retries, call.streams.len()), (1, 0, 3));
    assert_eq!(call.ending, Ending::Forced);
    assert_eq!(dialog.talk_ns(), None, "no party hung up");
}

#[test]
fn media_that_no_call_announced_is_found_where_asked_for() {
    let mut traffic = Traffic::new();
    for number in 0..10 {
        traffic.wait(20).put((1, 4000), (2, 6000), &rtp(number, 7));
    }
    traffic.put((1, 4002), (2, 6002), &rtp(9, 7));
    assert!(find(&traffic).is_empty());
    let options = Options { finds_unannounced: true, ..Options::default() };
    let calls = find_with(options, &traffic);
    assert_eq!(calls.len(), 1, "one packet alone is no stream");
    assert_eq!((calls[0].ending, calls[0].streams[0].statistics.packets), (Ending::Media, 10));
}

#[test]
fn keys_are_found() {
    let mut traffic = talk();
    let mut event = |number: u16, timestamp: u32, key: u8, end: u8| {
        let mut packet = rtp(number, 7);
        packet.truncate(12);
        packet[1] = 101;
        packet[4..8].copy_from_slice(&timestamp.to_be_bytes());
        packet.extend([key, end, 0, 160]);
        traffic.frames.push((traffic.now, crate::support::datagram((1, 4000), (2, 6000), &packet)));
    };
    for (number, timestamp, key, end) in
        [(500, 80_000, 4, 0), (501, 80_000, 4, 0x80), (502, 80_000, 4, 0x80), (503, 90_000, 11, 0)]
    {
        event(number, timestamp, key, end);
    }
    let call = one(&traffic);
    assert_eq!(call.streams[0].digits, "4#");
    assert_eq!(call.streams[0].codec.as_ref().unwrap().name, "PCMU");
}

/// A TCP segment between 10.0.0.1:5000 and 10.0.0.2:5060.
fn segment(is_back: bool, sequence: u32, flags: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 8, 0, 0x45, 0];
    out.extend((40 + payload.len() as u16).to_be_bytes());
    let (from, to) = if is_back { (2, 1) } else { (1, 2) };
    out.extend([0, 1, 0, 0, 64, 6, 0, 0, 10, 0, 0, from, 10, 0, 0, to]);
    let ports: [u16; 2] = if is_back { [5060, 5000] } else { [5000, 5060] };
    ports.iter().for_each(|port| out.extend(port.to_be_bytes()));
    out.extend(sequence.to_be_bytes());
    out.extend([0, 0, 0, 0, 0x50, flags, 255, 255, 0, 0, 0, 0]);
    out.extend(payload);
    out
}

/// However a connection cuts its messages, the call is the same.
#[test]
fn over_tcp_a_call_is_the_same_however_it_is_cut() {
    let there = [
        "\r\n\r\n".to_owned(),
        message(INVITE, "c", "1 INVITE", "", &sdp(1, 4000)),
        message("ACK sip:bob@b SIP/2.0", "c", "1 ACK", "b", ""),
        message("BYE sip:bob@b SIP/2.0", "c", "2 BYE", "b", ""),
    ];
    let back = message("SIP/2.0 200 OK", "c", "1 INVITE", "b", &sdp(2, 6000));
    for piece in [1, 2, 7, 100, 10_000] {
        let mut traffic = Traffic::new();
        let put = |traffic: &mut Traffic, is_back: bool, at: &mut u32, text: &str| {
            for part in text.as_bytes().chunks(piece) {
                traffic.wait(1);
                traffic.frames.push((traffic.now, segment(is_back, *at, 16, part)));
                *at += part.len() as u32;
            }
        };
        let (mut here, mut far) = (100, 900);
        for (flags, is_back, sequence) in [(2, false, 99), (18, true, 899)] {
            traffic.frames.push((traffic.now, segment(is_back, sequence, flags, b"")));
        }
        put(&mut traffic, false, &mut here, &there[..2].concat());
        put(&mut traffic, true, &mut far, &back);
        traffic.put((1, 4000), (2, 6000), &rtp(1, 7));
        put(&mut traffic, false, &mut here, &there[2..].concat());
        let call = one(&traffic);
        let dialog = call.dialog.as_ref().unwrap();
        assert_eq!((call.ending, dialog.messages), (Ending::HungUp, 4), "pieces of {piece}");
        assert_eq!((dialog.callee_at.1, call.streams.len()), (5060, 1));
        assert!(dialog.confirmed_ns.is_some() && dialog.hung_up_by == Some(Party::Caller));
    }
}
