//! What is asked of every backend, but for its death.

use super::*;
use crate::backend::{BackendError, LaneKind, Unable};
use ringside_core::ledger::total;
use ringside_core::limits::FRAME_BYTES_MAX;
use ringside_core::{LinkType, SourceError, Timestamp};
use ringside_filter::Compiler;
use ringside_sys::clock;

/// Order, content, lengths and stamps of frames of every form, and an account exact to the frame.
pub(super) fn content(subject: &Subject, wire: &Wire) {
    let mut source = subject.start_one(&subject.request(wire, 1));
    let fits = |frame: &Vec<u8>| {
        let has_other_tag = frame[12..14] == [0x88, 0xa8];
        let has_empty_tag = frame[12..14] == [0x81, 0] && frame[14..16] == [0, 0];
        frame.len() <= subject.frame_bytes_max
            && (subject.keeps_tag_protocols || !has_other_tag)
            && (subject.keeps_empty_tags || !has_empty_tag)
    };
    let zoo: Vec<Vec<u8>> = zoo().into_iter().filter(fits).collect();
    let (mut newest, mut nanoseconds) = (Timestamp(0), false);
    for _ in 0..5 {
        let before = clock::realtime_now();
        let got = send_and_take(source.as_mut(), &zoo);
        let after = clock::realtime_now();
        assert_same_bytes(&got, &zoo);
        for frame in &got {
            let stamp = frame.meta.timestamp;
            assert_eq!(frame.meta.timestamp_kind, subject.stamped_by);
            assert!((before..=after).contains(&stamp), "{before:?} {stamp:?} {after:?}");
            assert!(stamp >= newest, "{newest:?} {stamp:?}");
            newest = stamp;
            nanoseconds |= !stamp.0.is_multiple_of(1_000);
        }
        assert!(source.low_water() >= newest);
    }
    assert!(nanoseconds, "the unit of the stamps");
    source.detach().unwrap();
    assert_eq!(drain(source.as_mut()), 0);
    let (sent, counters) = (5 * zoo.len() as u64, source.counters());
    subject.assert_account(source.as_mut(), sent, sent);
    assert_eq!((counters.filtered, total(&counters.dropped)), (Some(0), 0), "{counters:?}");
    assert_eq!((counters.passed, counters.inversions), (0, 0), "{counters:?}");
    assert_eq!(source.low_water(), Timestamp::MAX);
    assert!(source.next_batch(Duration::ZERO).unwrap().is_none(), "finished for good");
}

/// Frames of before the start and of after the end are neither lent nor counted; those between come
/// all, also if there was no look before the end.
pub(super) fn beginning_and_end(subject: &Subject, wire: &Wire) {
    let request = subject.request(wire, 1);
    let frames = |from: u32| -> Vec<Vec<u8>> {
        (from..from + 300).map(|number| numbered(number, 100)).collect()
    };
    deliver(TX, &frames(0));
    let mut source = subject.open(&request).remove(0);
    if subject.begins_at_start {
        deliver(TX, &frames(1_000));
        assert_eq!(source.counters().received, subject.counts_losses.then_some(0));
        assert!(source.next_batch(Duration::ZERO).unwrap().is_none());
    }
    source.start().unwrap();
    source.start().unwrap();
    deliver(TX, &frames(2_000));
    source.detach().unwrap();
    deliver(TX, &frames(3_000));
    // What was ordered to end does not begin again.
    source.start().unwrap();
    assert_same_bytes(&take_rest(source.as_mut()), &frames(2_000));
    subject.assert_account(source.as_mut(), 300, 300);
}

/// Begun and ended while frames come: as many are lent as were counted at the end.
pub(super) fn detaching_in_full_traffic(subject: &Subject, wire: &Wire) {
    let request = subject.request(wire, 1);
    let load = Load::start((0..640).map(|i| numbered(i, 60 + i as usize % 900)).collect());
    for round in 0..10 {
        let memory_bytes = if round % 2 == 0 { 256 << 10 } else { 4 << 20 };
        let mut source = subject.start_one(&OpenRequest { memory_bytes, ..request.clone() });
        load.run_for(2_000);
        let first = source.next_batch(Duration::ZERO).unwrap();
        let mut lent = first.map_or(0, |batch| batch.frame_count() as u64);
        source.detach().unwrap();
        let at_detach = source.counters();
        load.run_for(500);
        lent += drain(source.as_mut());
        assert_eq!(source.counters().received, at_detach.received, "nothing is counted any more");
        assert!(lent > 0);
        subject.assert_account(source.as_mut(), lent, at_detach.received.unwrap_or(0));
    }
}

/// Every frame is in one lane, in the order of sending, and each lane has a fair part.
pub(super) fn several_lanes(subject: &Subject, wire: &Wire) {
    let mut request = subject.request(wire, subject.lanes);
    if subject.lanes == 1 {
        request.lanes = Some(2);
        let error = subject.backend.open(&request).err().unwrap();
        assert!(matches!(error, BackendError::Unable(Unable::OneLane)), "{error}");
        assert_eq!(subject.backend.lane, LaneKind::Device);
        return;
    }
    let mut sources = subject.start(&request);
    assert_eq!(sources.len(), usize::from(subject.lanes));
    let frames: Vec<Vec<u8>> =
        (0..8_000).map(|number| udp(number, (number % 1000) as u16, 128)).collect();
    let mut lanes: Vec<Vec<OwnedFrame>> = sources.iter().map(|_| Vec::new()).collect();
    for piece in frames.chunks(1_000) {
        deliver(TX, piece);
        for (source, lane) in sources.iter_mut().zip(&mut lanes) {
            while let Some(batch) = source.next_batch(Duration::ZERO).unwrap() {
                lane.extend(batch.iter().map(|frame| frame.to_owned_frame()));
            }
        }
    }
    sources.iter_mut().for_each(|source| source.detach().unwrap());
    let mut seen = vec![false; frames.len()];
    for (source, lane) in sources.iter_mut().zip(&mut lanes) {
        lane.extend(take_rest(source.as_mut()));
        let received = source.counters().received.unwrap_or(0);
        subject.assert_account(source.as_mut(), lane.len() as u64, received);
        assert!(lane.len() * 2 * lanes_of(subject) >= frames.len(), "{} in a lane", lane.len());
        assert!(lane.is_sorted_by_key(udp_number), "order within the lane");
        for frame in lane.iter() {
            let number = udp_number(frame) as usize;
            assert!(!std::mem::replace(&mut seen[number], true), "{number} twice");
            assert!(frame.bytes == frames[number], "frame {number}");
        }
    }
    assert_eq!(seen.iter().filter(|seen| !**seen).count(), 0);
}

fn lanes_of(subject: &Subject) -> usize {
    usize::from(subject.lanes)
}

/// Number behind Ethernet, IPv4 and UDP headers.
fn udp_number(frame: &OwnedFrame) -> u32 {
    u32::from_be_bytes(frame.bytes[42..46].try_into().unwrap())
}

/// A filter takes what it says, also by tags, and the rest is accounted for.
pub(super) fn filters(subject: &Subject, wire: &Wire) {
    let request = subject.request(wire, 1);
    let plain: Vec<Vec<u8>> = (0..200).map(|number| udp(number, 1, 100)).collect();
    let with_tag: Vec<Vec<u8>> =
        (0..100).map(|number| tagged(number, 100, &[(0x8100, 9)])).collect();
    let all = [&plain[..], &with_tag].concat();
    for (expression, taken) in [("udp", &plain[..]), ("vlan 9", &with_tag), ("vlan 8", &[])] {
        let compiler = Compiler::InProcess { optimise: true };
        let compiled =
            ringside_filter::compile(expression, LinkType::ETHERNET, FRAME_BYTES_MAX, &compiler);
        let filter = Some((compiled.unwrap().program, expression.to_owned()));
        let mut source = subject.start_one(&OpenRequest { filter, ..request.clone() });
        assert_eq!(source.interfaces()[0].filter, expression);
        deliver(TX, &all);
        source.detach().unwrap();
        assert_same_bytes(&take_rest(source.as_mut()), taken);
        let counters = source.counters();
        let rest = (all.len() - taken.len()) as u64;
        let expected = match subject.rest {
            Rest::Filtered => (subject.counts_losses.then_some(all.len() as u64), Some(rest), 0),
            Rest::Passed => (Some(all.len() as u64), Some(0), rest),
            Rest::Uncounted => (None, None, 0),
        };
        let counted = (counters.received, counters.filtered, counters.passed);
        assert_eq!(counted, expected, "{expression}: {counters:?}");
    }
}

/// A snapshot length leaves what is to be kept, and the length on the wire as it was.
pub(super) fn snapshot_lengths(subject: &Subject, wire: &Wire) {
    let request = subject.request(wire, 1);
    let frames: Vec<Vec<u8>> =
        (0..60).map(|number| numbered(number, 14 + 24 * number as usize)).collect();
    for snaplen_bytes in [1, 15, 60, 96] {
        let mut source = subject.start_one(&OpenRequest { snaplen_bytes, ..request.clone() });
        send(TX, &frames);
        for (got, sent) in take(source.as_mut(), frames.len()).iter().zip(&frames) {
            assert_eq!(got.meta.wire_bytes as usize, sent.len());
            let captured = sent.len().min(snaplen_bytes as usize);
            // Who lends in place may leave the cut to the copy.
            assert_eq!(got.bytes[..captured], sent[..captured], "snaplen {snaplen_bytes}");
        }
    }
}

/// What the memory does not hold is lost and counted, or nothing claims to have counted it.
pub(super) fn too_much(subject: &Subject, wire: &Wire) {
    let request = OpenRequest { memory_bytes: 256 << 10, ..subject.request(wire, 1) };
    let mut source = subject.start_one(&request);
    let frames: Vec<Vec<u8>> = (0..4_000).map(|number| numbered(number, 1_514)).collect();
    deliver(TX, &frames);
    source.detach().unwrap();
    let lent = drain(source.as_mut());
    let counters = source.counters();
    assert!((1..4_000).contains(&lent), "{lent} lent: {counters:?}");
    subject.assert_account(source.as_mut(), lent, 4_000);
    let lost = if subject.counts_losses { 4_000 - lent } else { 0 };
    assert_eq!(total(&counters.dropped), lost, "{counters:?}");
}

/// An interface that is set down ends the source with what it had.
pub(super) fn set_down(subject: &Subject, wire: &Wire) {
    goes_away(subject, wire, &format!("link set {RX} down"), "was set down");
}

/// So does one that is removed.
pub(super) fn removed(subject: &Subject, wire: &Wire) {
    goes_away(subject, wire, &format!("link del {RX}"), "was removed");
}

fn goes_away(subject: &Subject, wire: &Wire, words: &str, event: &str) {
    let mut source = subject.start_one(&subject.request(wire, 1));
    let frames: Vec<Vec<u8>> = (0..300).map(|number| numbered(number, 200)).collect();
    deliver(TX, &frames);
    wire.ip(words);
    let (mut got, start) = (Vec::new(), Instant::now());
    let error = loop {
        assert!(start.elapsed() < PATIENCE && !source.is_finished());
        match source.next_batch(Duration::from_millis(20)) {
            Ok(Some(batch)) => got.extend(batch.iter().map(|frame| frame.to_owned_frame())),
            Ok(None) => {}
            Err(error) => break error,
        }
    };
    assert!(matches!(error, SourceError::InterfaceGone { .. }), "{error}");
    assert!(error.to_string().contains(&format!("interface {RX} {event}")), "{error}");
    assert_same_bytes(&got, &frames);
    assert!(source.is_finished());
    assert!(source.next_batch(Duration::ZERO).unwrap().is_none());
    subject.assert_account(source.as_mut(), 300, 300);
}

/// What is not there, or down, is refused with what to do.
pub(super) fn refusals(subject: &Subject, wire: &Wire) {
    let request = subject.request(wire, 1);
    let misspelt = request.interface.replace(RX, "rsafp-rd");
    let error = subject.backend.open(&OpenRequest::new(&misspelt)).err().unwrap().to_string();
    assert!(error.contains("did you mean rsafp-rx"), "{error}");
    wire.ip(&format!("link set {RX} down"));
    let error = subject.backend.open(&request).err().unwrap();
    assert!(matches!(error, BackendError::InterfaceDown { .. }), "{error}");
    assert!(error.to_string().contains(&format!("ip link set {RX} up")), "{error}");
}
