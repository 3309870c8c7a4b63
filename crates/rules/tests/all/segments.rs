//! Payload patterns across segments in real captures: an engine that follows flows by a few bytes,
//! and questions about all bytes that came before.

use crate::common::{CaptureFile, captures};
use ringside_core::LinkType;
use ringside_filter::Compiler;
use ringside_inspect::DissectedFrame;
use ringside_rules::language::{self, RuleSet, Sets};
use ringside_rules::patterns::{Seam, Seams, Stream};
use ringside_rules::question::Known;
use ringside_rules::{Engine, Question};
use ringside_testkit::{Random, fuzz};
use ringside_wire::{FlowDirection, FlowKey, LayerKind, Level, Tcp};
use std::collections::HashMap;

const COMPILER: Compiler = Compiler::InProcess { optimise: true };
/// More than any pattern is long.
const LONG: usize = 4096;

/// Each direction of each flow: the next sequence number, and all bytes since it began anew.
#[derive(Default)]
struct Flows(HashMap<(FlowKey, FlowDirection, Level), (u32, Vec<u8>)>);

impl Flows {
    fn seams(&mut self, dissected: &DissectedFrame<'_>) -> Seams {
        let mut seams = Seams::default();
        for level in [Level::Outer, Level::Inner] {
            seams.put(level, self.seam(dissected, level).unwrap_or_default());
        }
        seams
    }

    fn seam(&mut self, dissected: &DissectedFrame<'_>, level: Level) -> Option<Seam> {
        let layers = dissected.layers();
        let transport = layers.transport(level).filter(|layer| layer.kind == LayerKind::Tcp)?;
        if level == Level::Inner && !layers.is_tunnelled() {
            return None;
        }
        let tcp = Tcp::new(&dissected.bytes()[transport.start()..]).ok()?;
        let payload = &dissected.bytes()[layers.transport_payload(level)?];
        let (key, way) = FlowKey::of(dissected.bytes(), layers, level)?;
        let is_syn = tcp.has(Tcp::SYN);
        if is_syn {
            self.0.remove(&(key, way, level));
        }
        if is_syn && !tcp.has(Tcp::ACK) {
            let ways = [FlowDirection::LowToHigh, FlowDirection::HighToLow];
            ways.into_iter().for_each(|way| drop(self.0.remove(&(key, way, level))));
        }
        if payload.is_empty() {
            return None;
        }
        let first = tcp.sequence().wrapping_add(is_syn.into());
        let (next, run) = self.0.entry((key, way, level)).or_insert((first, Vec::new()));
        let behind = next.wrapping_sub(first) as usize;
        let mut seam = Seam::default();
        if behind < payload.len() {
            let mut stream = Stream::new();
            stream.take_in(&run[run.len().saturating_sub(LONG)..], LONG, &mut seam);
            stream.take_in(&payload[behind..], LONG, &mut seam);
            run.extend(&payload[behind..]);
        } else if behind <= 65_535 {
            return None;
        } else {
            *run = payload.to_vec();
        }
        *next = first.wrapping_add(payload.len() as u32);
        if dissected.bytes().len() < dissected.wire_bytes() as usize {
            self.0.remove(&(key, way, level));
        }
        Some(seam)
    }
}

/// An engine, and the same rules as questions.
struct Both {
    engine: Engine,
    questions: Vec<Question>,
    flows: Flows,
    counted: Vec<u64>,
    /// Frames that a question means only together with what came before.
    across: u64,
}

impl Both {
    fn new(patterns: &[Vec<u8>], link: LinkType) -> Both {
        let line = |(id, bytes): (usize, &Vec<u8>)| {
            let text: String = bytes.iter().map(|byte| format!("\\x{byte:02x}")).collect();
            let nocase = if id % 2 == 0 { " nocase" } else { "" };
            let term = format!("payload \"{text}\"{nocase}");
            format!("{term} => count\ninner ({term}) => count\n")
        };
        let text: String = patterns.iter().enumerate().map(line).collect();
        let set: RuleSet = language::parse(text.as_bytes(), &mut Sets::none()).unwrap();
        let ready =
            |rule: &ringside_rules::Rule| Question::new(&rule.matches, link, &COMPILER).unwrap();
        let questions: Vec<Question> = set.rules.iter().map(ready).collect();
        let (flows, counted) = (Flows::default(), vec![0; questions.len()]);
        let engine = Engine::new(set, link, &COMPILER).unwrap();
        Both { engine, questions, flows, counted, across: 0 }
    }

    fn judge(&mut self, dissected: &DissectedFrame<'_>) {
        let seams = self.flows.seams(dissected);
        let known = Known { findings: None, seams: &seams };
        for (question, counted) in self.questions.iter().zip(&mut self.counted) {
            let holds = question.holds_with(dissected, known);
            *counted += u64::from(holds);
            self.across += u64::from(holds && !question.holds(dissected));
        }
        self.engine.judge(dissected);
    }

    #[track_caller]
    fn check(&self, what: &str) {
        let counts: Vec<u64> = self.engine.counts().map(|(_, counts)| counts.frames).collect();
        assert_eq!(counts, self.counted, "{what}");
    }
}

fn dissected_frames(file: &CaptureFile) -> impl Iterator<Item = DissectedFrame<'_>> {
    file.frames
        .iter()
        .map(|frame| DissectedFrame::new(&frame.bytes, frame.wire_bytes, file.link_type))
}

/// What lies across the borders between segments of a capture, some of it.
fn borders(file: &CaptureFile, count: usize) -> Vec<Vec<u8>> {
    let mut flows = Flows::default();
    let mut found: Vec<Vec<u8>> = Vec::new();
    for (number, dissected) in dissected_frames(file).enumerate() {
        let seams = flows.seams(&dissected);
        for level in [Level::Outer, Level::Inner] {
            let around = seams.at(level).around(3 + number % 6);
            if around.len() == 2 * (2 + number % 6) {
                found.push(around.to_vec());
            }
        }
    }
    let step = found.len().div_ceil(count).max(1);
    found.into_iter().step_by(step).collect()
}

#[test]
fn patterns_across_segments_of_real_captures_are_found() {
    let files = captures("patterns_across_segments_of_real_captures_are_found");
    let mut across = 0;
    for (number, file) in files.iter().enumerate() {
        // Few are looked for one by one, many at once.
        let patterns = borders(file, if number % 2 == 0 { 6 } else { 40 });
        if patterns.is_empty() {
            continue;
        }
        let mut both = Both::new(&patterns, file.link_type);
        dissected_frames(file).for_each(|dissected| both.judge(&dissected));
        both.check(&file.path.display().to_string());
        across += both.across;
    }
    assert!(files.is_empty() || across > 1_000, "{across} frames");
}

/// Frames of an input: each its length in two bytes, then its bytes.
fn try_one(input: &[u8]) {
    let patterns = [b"HTTP".as_slice(), b"e", b"\0\0", b"needle and more"].map(<[u8]>::to_vec);
    let mut both = Both::new(&patterns, LinkType::ETHERNET);
    let mut rest = input;
    while let Some((length, behind)) = rest.split_first_chunk() {
        let length = usize::from(u16::from_be_bytes(*length) % 2048).min(behind.len());
        let (frame, behind) = behind.split_at(length);
        let cut = u32::from(frame.first() == Some(&0xff));
        both.judge(&DissectedFrame::new(frame, length as u32 + cut, LinkType::ETHERNET));
        rest = behind;
    }
    both.check("any frames");
}

#[test]
fn any_frames_one_after_the_other() {
    let mut random = Random::new(9);
    let mut seeds = Vec::new();
    let files = captures("fuzzing of segments");
    for file in files.iter().filter(|file| file.link_type == LinkType::ETHERNET) {
        let from = random.below(file.frames.len().max(1));
        let mut seed = Vec::new();
        for frame in file.frames.iter().skip(from).filter(|f| f.bytes.len() < 2048).take(8) {
            seed.extend((frame.bytes.len() as u16).to_be_bytes());
            seed.extend(&frame.bytes);
        }
        seeds.push(seed);
    }
    // Segments in order, which small changes bring out of it.
    let mut seed = Vec::new();
    for (number, payload) in b"some needle and more, HTTP".chunks(3).enumerate() {
        let mut frame = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 8, 0, 0x45, 0];
        frame.extend((40 + payload.len() as u16).to_be_bytes());
        frame.extend([0, 1, 0, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 4, 0, 0, 80]);
        frame.extend((3 * number as u32).to_be_bytes());
        frame.extend([0, 0, 0, 0, 0x50, 0x10, 0, 0, 0, 0, 0, 0]);
        frame.extend(payload);
        seed.extend((frame.len() as u16).to_be_bytes());
        seed.extend(frame);
    }
    seeds.push(seed);
    fuzz("segments", 1_000, &seeds, try_one);
}
