use super::*;
use crate::backend::file::FileLane;
use crate::packer::{Packer, Put, Reading};
use proptest::prelude::*;
use ringside_core::limits::FRAME_BYTES_MAX;
use ringside_core::{FrameMeta, InterfaceId, OwnedFrame, Source, Timestamp};
use ringside_filter::Compiler;
use ringside_ring::{HugePages, ReadOutcome, RingLayout, RingStart};
use ringside_rules::engine::Engine;
use ringside_rules::language::{self, Sets};
use ringside_store::block::{blocks, packet};
use ringside_testkit::capture_files;
use std::time::Duration;

const COMPILER: Compiler = Compiler::InProcess { optimise: true };
const BLOCK_BYTES: usize = 512 << 10;

/// Ethernet, IPv4 and UDP or TCP from one port to port 443, at a time.
struct Packet<'p> {
    tcp: bool,
    port: u16,
    sequence: u32,
    payload: &'p [u8],
}

impl Packet<'_> {
    const TCP_HEADERS: usize = 54;
    const UDP_HEADERS: usize = 42;

    fn bytes(&self) -> Vec<u8> {
        let mut out = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 8, 0];
        let transport = if self.tcp { 20 } else { 8 };
        let total = (20 + transport + self.payload.len()) as u16;
        let protocol = if self.tcp { 6 } else { 17 };
        out.extend([0x45, 0]);
        out.extend(total.to_be_bytes());
        out.extend([0, 1, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        out.extend(self.port.to_be_bytes());
        out.extend(443u16.to_be_bytes());
        match self.tcp {
            true => {
                out.extend(self.sequence.to_be_bytes());
                out.extend([0, 0, 0, 0, 0x50, 0x10, 0, 0, 0, 0, 0, 0]);
            }
            false => {
                out.extend((total - 20).to_be_bytes());
                out.extend([0, 0]);
            }
        }
        out.extend(self.payload);
        out
    }
}

fn udp(port: u16, payload: &[u8]) -> Vec<u8> {
    Packet { tcp: false, port, sequence: 0, payload }.bytes()
}

fn tcp(port: u16, sequence: u32, payload: &[u8]) -> Vec<u8> {
    Packet { tcp: true, port, sequence, payload }.bytes()
}

fn interface() -> SourceInterface {
    SourceInterface::ethernet("eth1")
}

fn rules(text: &str) -> RulesBuilder {
    let set = language::parse(text.as_bytes(), &mut Sets::none()).unwrap();
    RulesBuilder::new(set, COMPILER).unwrap()
}

/// What came out of a selection.
struct Chosen {
    frames: Vec<OwnedFrame>,
    turned_away: TurnedAway,
    put: Put,
    interfaces: Vec<SourceInterface>,
}

/// Chooses frames, stamped by their number, packs them in a ring and reads them back.
fn choose(options: SelectionOptions, snaplen: u32, frames: &[Vec<u8>]) -> Chosen {
    let mut interfaces = vec![interface()];
    let selection = Selection::new(options, &mut interfaces).unwrap();
    let mut selector = selection.selector(&[interface()], snaplen, 1, None, None).unwrap();
    let memory = frames.concat();
    let mut offset = 0;
    let slot = |(number, frame): (u64, &Vec<u8>)| {
        let timestamp = Timestamp(1 + number);
        let meta = FrameMeta { timestamp, ..FrameMeta::default() };
        let slot = FrameSlot::new(offset, frame.len() as u32, meta);
        offset += frame.len();
        slot
    };
    let slots: Vec<_> = (0..).zip(frames).map(slot).collect();
    let layout =
        RingLayout { lanes: 1, blocks_per_lane: 4, block_bytes: BLOCK_BYTES, lossless_readers: 0 };
    let ring = CaptureRing::create(layout, HugePages::No).unwrap();
    let mut packer = Packer::new(ring.writer(0).unwrap(), InterfaceId(0), snaplen, BLOCK_BYTES);
    let batch = Batch::new(&memory, &slots);
    let turned_away = selector.choose(&batch);
    let put = packer.put_offered(&selector.offered(&batch), &Reading::default());
    packer.finish(&Reading::default());
    let mut reader = ring.view().unwrap().copy_reader(0, RingStart::Oldest);
    let (mut bytes, mut found) = (Vec::new(), Vec::new());
    while let ReadOutcome::Frames(_) = reader.read(&mut bytes) {
        found.extend(blocks(&bytes).filter_map(|(_, b)| Some(packet(b)?.to_owned_frame())));
        bytes.clear();
    }
    Chosen { frames: found, turned_away, put, interfaces }
}

fn lengths(chosen: &Chosen) -> Vec<usize> {
    chosen.frames.iter().map(|frame| frame.bytes.len()).collect()
}

#[test]
fn rules_take_leave_drop_and_cut() {
    let text = "1: src port 1 => take, cap 60\n2: src port 2 => drop\n3: src port 3 => take\n\
                4: src port 4 => pass\n5: src port 5 => take, keep 0-9,40-\n6: any => count";
    let rules = rules(text);
    let frames: Vec<_> = [1, 2, 3, 4, 5, 6, 5].map(|port| udp(port, &[0xee; 100])).into();
    let chosen = choose(
        SelectionOptions { rules: Some(rules), ..SelectionOptions::default() },
        FRAME_BYTES_MAX,
        &frames,
    );
    assert_eq!(chosen.turned_away, TurnedAway { filtered: 2, by_rule: 1 });
    assert_eq!(lengths(&chosen), [60, 142, 112, 112]);
    assert!(chosen.frames.iter().all(|frame| frame.meta.wire_bytes == 142));
    let pieces = [&frames[4][..10], &frames[4][40..]].concat();
    assert_eq!(chosen.frames[2].bytes, pieces);
    let interfaces = chosen.frames.iter().map(|frame| frame.meta.interface.0);
    assert_eq!(interfaces.collect::<Vec<_>>(), [0, 0, 1, 1]);
    assert_eq!(chosen.interfaces[1].description, "ringside: kept bytes 0-9,40-");
    assert_eq!(chosen.put.taken_bytes, 60 + 142 + 112 + 112);
    assert_eq!((chosen.put.cuts.frames, chosen.put.cuts.bytes), (3, 82 + 30 + 30));
}

#[test]
fn a_frame_of_an_interface_that_nobody_named_is_not_read_as_ethernet() {
    let options =
        SelectionOptions { rules: Some(rules("1: udp => drop\n")), ..SelectionOptions::default() };
    let selection = Selection::new(options, &mut vec![interface()]).unwrap();
    let mut selector = selection.selector(&[interface()], FRAME_BYTES_MAX, 1, None, None).unwrap();
    let memory = udp(1, b"");
    let slots = [0, 1].map(|interface| {
        let meta = FrameMeta { interface: InterfaceId(interface), ..FrameMeta::default() };
        FrameSlot::new(0, memory.len() as u32, meta)
    });
    // No rule can be asked about the second.
    let turned_away = selector.choose(&Batch::new(&memory, &slots));
    assert_eq!(turned_away, TurnedAway { filtered: 1, by_rule: 1 });
}

#[test]
fn of_a_frame_that_ends_before_its_pieces_nothing_is_kept() {
    let options = SelectionOptions {
        rules: Some(rules("any => take, keep 50-60")),
        ..SelectionOptions::default()
    };
    let chosen = choose(options, FRAME_BYTES_MAX, &[udp(1, b"")]);
    assert_eq!((lengths(&chosen), chosen.frames[0].meta.wire_bytes), (vec![0], 42));
}

#[test]
fn what_needs_the_driver_is_refused_with_the_fix() {
    let refused = |text: &str| {
        let set = language::parse(text.as_bytes(), &mut Sets::none()).unwrap();
        RulesBuilder::new(set, COMPILER).err().map(|error| error.to_string())
    };
    for (text, action) in [
        ("7: udp => redirect eth9", "`redirect eth9`"),
        ("7: udp => redirect queue 3", "`redirect queue 3`"),
        ("7: udp => redirect cpu 1", "`redirect cpu 1`"),
    ] {
        let message = refused(text).unwrap();
        let names = message.contains("rule 7") && message.contains(action);
        assert!(names && message.contains("write `"), "{message}");
    }
    assert_eq!(refused("udp => take, cap 7, sample 1/3"), None);
    let keeps = (0..=pieces::LISTS_MAX).map(|n| format!("any => take, keep 5-{}\n", 6 + n));
    let select = |text: &str| {
        let options = SelectionOptions { rules: Some(rules(text)), ..SelectionOptions::default() };
        Selection::new(options, &mut vec![interface()]).err().map(|error| error.to_string())
    };
    assert!(select(&keeps.collect::<String>()).is_some());
    // Actions that this run cannot do.
    for (text, action, why) in [
        ("7: udp => mirror eth9", "`mirror eth9`", "sends none"),
        ("7: udp => digest", "`digest`", "writes none"),
    ] {
        let message = select(text).unwrap();
        assert!(["rule 7", action, why].iter().all(|word| message.contains(word)), "{message}");
    }
}

/// Patterns that lie across segments, in the judge of a lane's only thread; with several threads,
/// which share the segments, each is looked at alone.
#[test]
fn payloads_are_followed_by_a_lane_of_one_thread() {
    for (threads, taken) in [(1, 1), (2, 0)] {
        let options = SelectionOptions {
            rules: Some(rules("payload \"needle\" => take\ndefault drop")),
            ..SelectionOptions::default()
        };
        let selection = Selection::new(options, &mut vec![interface()]).unwrap();
        let selector = selection.selector(&[interface()], FRAME_BYTES_MAX, threads, None, None);
        let mut selector = selector.unwrap();
        let mut chosen = 0;
        for frame in [tcp(1, 10, b"...nee"), tcp(1, 16, b"dle...")] {
            let slots = [FrameSlot::new(0, frame.len() as u32, FrameMeta::default())];
            let batch = Batch::new(&frame, &slots);
            selector.choose(&batch);
            chosen += selector.offered(&batch).slots().len();
        }
        assert_eq!(chosen, taken, "{threads} threads");
    }
}

#[test]
fn payloads_that_are_no_text_are_cut() {
    let frames = [
        tcp(1, 0, b"GET /index.html HTTP/1.1\r\nHost: example.com\r\n\r\n"),
        tcp(1, 0, &[0xee; 400]),
        udp(1, &[0xee; 400]),
        udp(1, &[0xee; 5]),
    ];
    let options = SelectionOptions { binary_cap: Some(10), ..SelectionOptions::default() };
    let chosen = choose(options, FRAME_BYTES_MAX, &frames);
    let (tcp, udp) = (Packet::TCP_HEADERS, Packet::UDP_HEADERS);
    assert_eq!(lengths(&chosen), [frames[0].len(), tcp + 10, udp + 10, udp + 5]);
}

#[test]
fn after_so_many_bytes_only_headers_of_a_flow_are_kept() {
    let frames: Vec<_> = (0..6).flat_map(|_| [udp(1, &[7; 100]), udp(2, &[7; 30])]).collect();
    let options = SelectionOptions {
        flow_cutoff: Some(FlowCutoff::Bytes(250)),
        ..SelectionOptions::default()
    };
    let chosen = choose(options, FRAME_BYTES_MAX, &frames);
    let of = |skip: usize| lengths(&chosen).into_iter().skip(skip).step_by(2).collect::<Vec<_>>();
    let headers = Packet::UDP_HEADERS;
    assert_eq!(of(0), [100, 100, 50, 0, 0, 0].map(|bytes| headers + bytes));
    assert_eq!(of(1), [30; 6].map(|bytes| headers + bytes));
}

#[test]
fn after_the_tls_handshake_only_headers_are_kept() {
    let record =
        |kind: u8, bytes: u8| [&[kind, 3, 3, 0, bytes][..], &vec![0xee; bytes.into()]].concat();
    let both = [record(20, 1), record(23, 50)].concat();
    let sent = [record(22, 100), both, record(23, 90)];
    let mut sequence = 1000;
    let mut frames: Vec<Vec<u8>> = Vec::new();
    for payload in &sent {
        frames.push(tcp(1, sequence, payload));
        frames.push(tcp(2, sequence, b"not TLS"));
        sequence += payload.len() as u32;
    }
    let options =
        SelectionOptions { flow_cutoff: Some(FlowCutoff::Tls), ..SelectionOptions::default() };
    let chosen = choose(options, FRAME_BYTES_MAX, &frames);
    let headers = Packet::TCP_HEADERS;
    assert_eq!(lengths(&chosen), [105, 7, 6, 7, 0, 7].map(|bytes| headers + bytes));
}

/// An adaptive cap at its least, without a ring that fills.
fn least_cap(selector: &mut Selector, ring: &Arc<CaptureRing>) {
    let bounds = AdaptiveBounds { min: CAP_BYTES_MIN, max: CAP_BYTES_MIN + 1 };
    selector.adaptive = Some(AdaptiveCap::new(bounds, ring.clone(), 0));
}

#[test]
fn no_header_of_a_real_frame_is_lost_to_caps() {
    let test = "no_header_of_a_real_frame_is_lost_to_caps";
    let ring = CaptureRing::create_for_boards(1).unwrap();
    for path in capture_files(test) {
        let Ok(mut source) = FileLane::open(&[path]) else { continue };
        let mut interfaces = source.interfaces().to_vec();
        let own = interfaces.clone();
        let flow_cutoff = Some(FlowCutoff::Bytes(2_000));
        let options =
            SelectionOptions { binary_cap: Some(0), flow_cutoff, ..SelectionOptions::default() };
        let selection = Selection::new(options, &mut interfaces).unwrap();
        let mut selector = selection.selector(&own, FRAME_BYTES_MAX, 1, None, None).unwrap();
        least_cap(&mut selector, &ring);
        while !source.is_finished() {
            let Ok(Some(batch)) = source.next_batch(Duration::ZERO) else { continue };
            assert_eq!(selector.choose(&batch), TurnedAway::default());
            let offered = selector.offered(&batch);
            assert_eq!(offered.slots().len(), batch.frame_count());
            for (kept, whole) in offered.slots().iter().zip(batch.slots()) {
                let frame = whole.lend(batch.memory());
                let link = own[frame.meta.interface.0 as usize].link_type;
                let headers = ringside_wire::dissect(frame.bytes, link).payload_offset();
                let captured = kept.captured_bytes() as usize;
                assert!(captured >= headers.min(frame.bytes.len()), "{headers} in {captured}");
                assert!(captured <= headers.max(CAP_BYTES_MIN as usize + 1));
                assert_eq!(kept.meta(), whole.meta());
            }
        }
    }
}

#[test]
fn rules_of_a_run_judge_real_frames_as_an_engine_does() {
    let text = "1: tcp port 80,443 => take, cap 60\n2: udp => take, keep 0-13,20-60,100-\n\
                3: ip6 => drop\n4: payload \"HTTP\" => count\n5: length 1000- => take, sample 1/3\n\
                default drop";
    for path in capture_files("rules_of_a_run_judge_real_frames_as_an_engine_does") {
        let Ok(mut source) = FileLane::open(&[path]) else { continue };
        let [first, ..] = source.interfaces() else { continue };
        let (link, own) = (first.link_type, source.interfaces().to_vec());
        if own.iter().any(|interface| interface.link_type != link) {
            continue;
        }
        let rules = rules(text);
        let mut engine = Engine::new(rules_set(text), link, &COMPILER).unwrap();
        let options = SelectionOptions { rules: Some(rules), ..SelectionOptions::default() };
        let selection = Selection::new(options, &mut own.clone()).unwrap();
        let mut selector = selection.selector(&own, FRAME_BYTES_MAX, 1, None, None).unwrap();
        let (mut taken, mut expected) = (0, 0);
        while !source.is_finished() {
            let Ok(Some(batch)) = source.next_batch(Duration::ZERO) else { continue };
            selector.choose(&batch);
            taken += selector.slots.len();
            for frame in batch.iter() {
                let dissected = DissectedFrame::new(frame.bytes, frame.meta.wire_bytes, link);
                let take = ringside_rules::engine::Fate::Verdict(language::Verdict::Take);
                expected += usize::from(engine.judge(&dissected).fate == take);
            }
        }
        drop(selector);
        let report = selection.rules_report().unwrap();
        let counted: Vec<_> = engine.counts().map(|(_, counts)| counts).collect();
        let reported: Vec<_> = report.rules.iter().map(|(_, counts)| *counts).collect();
        assert_eq!((taken, reported), (expected, counted));
        assert_eq!(report.undecided, engine.default_counts().1);
    }
}

fn rules_set(text: &str) -> language::RuleSet {
    language::parse(text.as_bytes(), &mut Sets::none()).unwrap()
}

/// What the shortest of all cuts leaves of a frame.
fn expected(frame: &[u8], snaplen: u32, cap: Option<u32>, keep: &[(u32, u32)]) -> Vec<u8> {
    let limit = cap.unwrap_or(u32::MAX).min(snaplen) as usize;
    let is_kept = |at: usize| {
        let at = at as u32;
        keep.is_empty() || keep.iter().any(|&(first, last)| (first..=last).contains(&at))
    };
    (0..frame.len().min(limit)).filter(|&at| is_kept(at)).map(|at| frame[at]).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn the_shortest_cut_wins(
        frames in prop::collection::vec((1u16..4, 0usize..300), 1..40),
        snaplen in prop_oneof![Just(FRAME_BYTES_MAX), 1u32..400],
        cap in 1u32..400,
        keep in prop::collection::vec((0u32..400, 0u32..60), 1..6),
        binary in prop::option::of(0u32..300),
    ) {
        let keep: Vec<_> = keep.into_iter().map(|(first, more)| (first, first + more)).collect();
        let list: Vec<_> = keep.iter().map(|(first, last)| format!("{first}-{last}")).collect();
        let text = format!(
            "1: src port 1 => take, cap {cap}\n2: src port 2 => take, keep {}\n3: any => take",
            list.join(",")
        );
        let payload = |length| (0..length).map(|at| at as u8 | 0x80).collect::<Vec<_>>();
        let bytes: Vec<_> =
            frames.iter().map(|&(port, length)| udp(port, &payload(length))).collect();
        let (rules, binary_cap) = (Some(rules(&text)), binary);
        let options = SelectionOptions { rules, binary_cap, ..SelectionOptions::default() };
        let chosen = choose(options, snaplen, &bytes);
        prop_assert_eq!(chosen.frames.len(), frames.len());
        let mut cut = (0, 0);
        for ((frame, (port, _)), whole) in chosen.frames.iter().zip(&frames).zip(&bytes) {
            let binary = binary.map(|bytes| bytes + Packet::UDP_HEADERS as u32);
            let cap = [binary, (*port == 1).then_some(cap)].into_iter().flatten().min();
            let keep = if *port == 2 { &keep[..] } else { &[] };
            prop_assert_eq!(&frame.bytes, &expected(whole, snaplen, cap, keep));
            prop_assert_eq!(frame.meta.wire_bytes as usize, whole.len());
            prop_assert_eq!(frame.meta.interface.0, u32::from(*port == 2));
            cut.0 += u64::from(frame.bytes.len() < whole.len());
            cut.1 += (whole.len() - frame.bytes.len()) as u64;
        }
        prop_assert_eq!((chosen.put.cuts.frames, chosen.put.cuts.bytes), cut);
    }
}
