//! Payload patterns across the segments of TCP flows.

use super::*;
use crate::patterns::{Seam, Seams, Stream};
use crate::question::Known;
use std::collections::{BTreeMap, BTreeSet};

/// A TCP segment from 10.0.0.1, port `port`, to port 80, or back.
fn segment(port: u16, is_back: bool, sequence: u32, payload: &[u8]) -> Vec<u8> {
    let (from, to) = if is_back { (2, 1) } else { (1, 2) };
    let ports = if is_back { (80, port) } else { (port, 80) };
    let mut bytes = frame(from, to, 6, ports, payload);
    bytes[38..42].copy_from_slice(&sequence.to_be_bytes());
    bytes[47] = 0x10;
    bytes
}

fn judge(engine: &mut Engine, bytes: &[u8]) -> Judgement {
    engine.judge(&DissectedFrame::new(bytes, bytes.len() as u32, LinkType::ETHERNET))
}

/// The rules that counted a frame more than before.
fn newly_counted(engine: &Engine, before: &mut Vec<u64>) -> BTreeSet<u32> {
    let now: Vec<u64> = engine.counts().map(|(_, counts)| counts.frames).collect();
    before.resize(now.len(), 0);
    let ids = engine.counts().map(|(rule, _)| rule.id.0);
    let more = ids.zip(now.iter().zip(&*before)).filter(|(_, (now, before))| now > before);
    let more = more.map(|(id, _)| id).collect();
    *before = now;
    more
}

/// A text to look for, and whether letters of either case are the same.
type Sought = (Vec<u8>, bool);

fn rules_of(patterns: &[Sought]) -> String {
    let line = |(id, (bytes, ignore_case)): (usize, &Sought)| {
        let text: String = bytes.iter().map(|byte| format!("\\x{byte:02x}")).collect();
        let nocase = if *ignore_case { " nocase" } else { "" };
        format!("{id}: payload \"{text}\"{nocase} => count\n")
    };
    patterns.iter().enumerate().map(line).collect()
}

/// The patterns that end in `text` behind `old`, place by place.
fn ending(patterns: &[Sought], text: &[u8], old: usize) -> BTreeSet<u32> {
    let ends = |(bytes, ignore_case): &Sought| {
        text.windows(bytes.len()).enumerate().any(|(start, here)| {
            let is_it = here == bytes || *ignore_case && here.eq_ignore_ascii_case(bytes);
            is_it && start + bytes.len() > old
        })
    };
    (0..).zip(patterns).filter(|(_, pattern)| ends(pattern)).map(|(id, _)| id).collect()
}

fn sought() -> impl Strategy<Value = Sought> {
    let letters = prop::sample::select(b"aAbB\0".to_vec());
    let length = prop_oneof![8 => 1usize..9, 1 => 60usize..140];
    let bytes = length.prop_flat_map(move |length| prop::collection::vec(letters.clone(), length));
    (bytes, any::<bool>())
}

proptest! {
    /// Few patterns are looked for one by one, many at once: in both cases any segments of a text
    /// count what the text as a whole does, in the frame where it ends.
    #[test]
    fn any_split_of_a_payload_counts_as_the_whole(
        patterns in prop_oneof![
            prop::collection::vec(sought(), 1..8),
            prop::collection::vec(sought(), 30..60),
        ],
        text in prop::collection::vec(prop::sample::select(b"aAbB\0".to_vec()), 1..200),
        cuts in prop::collection::vec(0usize..200, 0..12),
        first: u32,
        is_back: bool,
    ) {
        let mut cuts: BTreeSet<usize> = cuts.into_iter().filter(|&at| at < text.len()).collect();
        cuts.extend([0, text.len()]);
        let cuts: Vec<usize> = cuts.into_iter().collect();
        let mut engine = engine(&rules_of(&patterns));
        let mut before = Vec::new();
        let mut all = BTreeSet::new();
        for ends in cuts.windows(2) {
            let sequence = first.wrapping_add(ends[0] as u32);
            judge(&mut engine, &segment(1, is_back, sequence, &text[ends[0]..ends[1]]));
            let counted = newly_counted(&engine, &mut before);
            prop_assert_eq!(&counted, &ending(&patterns, &text[..ends[1]], ends[0]));
            all.extend(counted);
            // Sent again, it is looked at alone.
            if ends[1] % 3 == 0 {
                judge(&mut engine, &segment(1, is_back, sequence, &text[ends[0]..ends[1]]));
                let again = ending(&patterns, &text[ends[0]..ends[1]], 0);
                prop_assert_eq!(newly_counted(&engine, &mut before), again);
            }
        }
        prop_assert_eq!(all, ending(&patterns, &text, 0));
    }
}

/// Directions by port and way: the next number, and all bytes since it began anew.
#[derive(Default)]
struct Flows(BTreeMap<(u16, bool), (u32, Vec<u8>)>);

impl Flows {
    /// What lies around the border before a segment, as a stream of all bytes has it.
    fn seams(&mut self, (port, is_back, sequence): (u16, bool, u32), payload: &[u8]) -> Seams {
        let mut seams = Seams::default();
        if payload.is_empty() {
            return seams;
        }
        let (next, run) = self.0.entry((port, is_back)).or_insert((sequence, Vec::new()));
        let behind = next.wrapping_sub(sequence) as usize;
        let (mut stream, mut seam, longest) = (Stream::new(), Seam::default(), 1 << 12);
        if behind < payload.len() {
            stream.take_in(run, longest, &mut seam);
            stream.take_in(&payload[behind..], longest, &mut seam);
            run.extend(&payload[behind..]);
        } else if behind <= 65_535 {
            return seams;
        } else {
            run.clear();
            run.extend(payload);
        }
        *next = sequence.wrapping_add(payload.len() as u32);
        seams.put(Level::Outer, seam);
        seams
    }
}

/// A segment of few flows, in order or not.
fn step() -> impl Strategy<Value = (u16, bool, i32, usize)> {
    let jump =
        prop_oneof![10 => Just(0i32), 2 => -6i32..6, 1 => Just(100_000i32), 1 => Just(-70_000)];
    (1u16..4, any::<bool>(), jump, 0usize..9)
}

proptest! {
    /// Whole sets of rules over interleaved flows, with segments that are repeated, missing or in
    /// disorder: as the questions say, one after the other, of all bytes that came before.
    #[test]
    fn rules_over_segments_are_asked_as_questions_are(
        text in rules(),
        steps in prop::collection::vec(step(), 1..80),
        seed: u64,
    ) {
        let (mut engine, mut reference) = (engine(&text), Reference::new(&text));
        let mut random = ringside_testkit::Random::new(seed);
        let (mut flows, mut places) = (Flows::default(), BTreeMap::new());
        for (port, is_back, jump, length) in steps {
            let place = places.entry((port, is_back)).or_insert(u32::MAX - 20);
            let sequence = place.wrapping_add_signed(jump);
            let alphabet = b"abcdefghijklmnoxX";
            let from = (sequence as usize) % alphabet.len();
            let mut payload: Vec<u8> =
                alphabet.iter().cycle().skip(from).take(length).copied().collect();
            if random.below(4) == 0 {
                payload.make_ascii_uppercase();
            }
            *place = sequence.wrapping_add(length as u32);
            let bytes = segment(port, is_back, sequence, &payload);
            let dissected = DissectedFrame::new(&bytes, bytes.len() as u32, LinkType::ETHERNET);
            let seams = flows.seams((port, is_back, sequence), &payload);
            let known = Known { findings: None, seams: &seams };
            let expected = reference.judge_with(&dissected, known);
            prop_assert_eq!(engine.judge(&dissected), expected, "{}", text);
        }
    }
}

#[test]
fn a_place_and_what_no_flow_has_stay_with_the_frame() {
    let text = "1: payload \"GET /\" => count\n2: payload \"ET /\" at 0 => count\n\
                3: not payload \"GET /\" => count\n4: udp payload \"GET /\" => count\n\
                5: http.method GET => count";
    let mut engine = engine(text);
    let mut before = Vec::new();
    let mut ids = |engine: &mut Engine, bytes: &[u8]| {
        judge(engine, bytes);
        newly_counted(engine, &mut before).into_iter().collect::<Vec<u32>>()
    };
    assert_eq!(ids(&mut engine, &segment(1, false, 10, b"G")), [3]);
    assert_eq!(ids(&mut engine, &segment(1, false, 11, b"ET / HTTP/1.1\r\n")), [1, 2]);
    for payload in [b"GE", b"T ", b"/ "] {
        assert_eq!(ids(&mut engine, &frame(1, 2, 17, (1, 80), payload)), [3], "no order in UDP");
    }
}

/// The inner flow of a tunnel is followed by what it is, whatever carries it.
#[test]
fn flows_within_tunnels_are_followed() {
    let mut engine =
        engine("1: inner (payload \"needle\") => count\n2: payload \"needle\" => count");
    let vxlan = |number: u8, inner: &[u8]| {
        let header = [8, 0, 0, 0, 0, 0, number, 0];
        frame(3, 4, 17, (5, 4789), &[&header[..], inner].concat())
    };
    let mut before = Vec::new();
    let mut ids = |bytes: &[u8]| {
        judge(&mut engine, bytes);
        newly_counted(&engine, &mut before).into_iter().collect::<Vec<u32>>()
    };
    assert_eq!(ids(&vxlan(1, &segment(1, false, 10, b"..nee"))), []);
    assert_eq!(ids(&vxlan(2, &segment(1, false, 15, b"dle"))), [], "another tunnel");
    assert_eq!(ids(&vxlan(1, &segment(1, false, 15, b"dle"))), [1]);
    assert_eq!(ids(&vxlan(1, &segment(1, false, 18, b"needle"))), [1, 2]);
    assert_eq!(ids(&segment(1, false, 40, b"nee")), []);
    assert_eq!(ids(&segment(1, false, 43, b"dle")), [2]);
}

/// Segments of which an earlier rule decides are followed too.
#[test]
fn a_rule_before_takes_nothing_from_a_flow() {
    let text = "1: length -58 => drop\n2: payload \"needle\" => take\ndefault pass";
    let mut engine = engine(text);
    for (sequence, payload, decides) in
        [(1, "some nee", None), (9, "d", Some(1)), (10, "le and more", Some(2))]
    {
        let judgement = judge(&mut engine, &segment(1, false, sequence, payload.as_bytes()));
        assert_eq!(judgement.decided_by, decides.map(RuleId), "{payload:?}");
    }
}

/// Changes of rules while a flow goes on.
#[test]
fn flows_go_on_under_changes_or_begin_anew() {
    let set = |text: &str| language::parse(text.as_bytes(), &mut Sets::none()).unwrap();
    let rule = |id, text: &str| {
        language::parse_rule(text.as_bytes(), RuleId(id), &mut Sets::none()).unwrap()
    };
    let mut live = Live::new(set("1: udp => drop"), LinkType::ETHERNET, &COMPILER).unwrap();
    let mut judge = live.judge(Follows::Flows).unwrap();
    let mut alone = live.judge(Follows::Nothing).unwrap();
    let mut sequence = 1u32;
    let mut decides = |payload: &[u8]| {
        let bytes = segment(1, false, sequence, payload);
        sequence += payload.len() as u32;
        let dissected = DissectedFrame::new(&bytes, bytes.len() as u32, LinkType::ETHERNET);
        judge.refresh();
        alone.refresh();
        assert_eq!(alone.judge(&dissected).decided_by, None, "each segment alone");
        judge.judge(&dissected).decided_by.map(|id| id.0)
    };
    assert_eq!(decides(b"nee"), None);
    // The flow is followed from here on.
    live.add(rule(2, "payload \"needle\" => drop")).unwrap();
    assert_eq!(decides(b"dle nee"), None);
    assert_eq!(decides(b"dle one tw"), Some(2));
    // One that is no longer changes nothing for the flow.
    live.add(rule(3, "payload \"twotwo\" => drop")).unwrap();
    assert_eq!(decides(b"otwo nee"), Some(3));
    assert!(live.remove(RuleId(3)));
    assert_eq!(decides(b"dle nee"), Some(2));
    // A longer one needs more of each flow than was kept.
    assert_eq!(decides(b"dle nee"), Some(2));
    live.add(rule(4, "payload \"a longer wish\" => drop")).unwrap();
    assert_eq!(decides(b"dle a long"), None);
    assert_eq!(decides(b"er wi"), None);
    assert_eq!(decides(b"sh nee"), Some(4));
    // A load begins anew too.
    live.load(set("2: payload \"needle\" => drop")).unwrap();
    assert_eq!(decides(b"dle nee"), None);
    assert_eq!(decides(b"dle"), Some(2));
}

/// Many more flows than are followed: nothing is found that is not there.
#[test]
fn flows_that_were_given_up_are_counted() {
    let long = "x".repeat(1000);
    let mut engine = engine(&format!("1: payload \"{long}\" => count\n2: payload \"ab\" => count"));
    for round in 0..2u32 {
        for port in 0..60_000 {
            judge(&mut engine, &segment(port, false, 1 + round, &b"ab"[round as usize..][..1]));
        }
    }
    let counts: Vec<u64> = engine.counts().map(|(_, counts)| counts.frames).collect();
    assert_eq!(counts[0], 0);
    assert!(engine.flows_given_up() > 60_000, "{}", engine.flows_given_up());
}
