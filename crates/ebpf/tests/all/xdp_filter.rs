//! Filters translated for XDP against the reference evaluator, by test runs: the function that
//! judges every frame, and the fast one, which may ask instead.

use crate::common::{CapturedFrame, captures, expressions, program};
use crate::random_program::random_program;
use ringside_core::LinkType;
use ringside_core::bpf::ClassicProgram;
use ringside_ebpf::abi::{METADATA_HASH, METADATA_VLAN, XdpMetadata};
use ringside_filter::translate::{XDP_ACCEPTS, XDP_ASKS, XDP_REJECTS};
use ringside_filter::{Prepared, Target, TranslateOptions, translate};
use ringside_sys::bpf::{self, Program, ProgramType};
use ringside_testkit::{Random, by_run, need_root};
use std::os::fd::AsFd;

/// Frames of each file: a run is a system call; more run in `capture_live`.
fn frames_per_file() -> usize {
    by_run(15, 25)
}

/// What the kernel takes for a test run; longer frames lie in several pieces there.
const FRAME_BYTES: std::ops::Range<usize> = 14..20_000;

/// Both functions of one filter.
struct Filter {
    whole: Program,
    fast: Program,
    reference: Prepared,
    asked: u64,
}

impl Filter {
    fn load(classic: &ClassicProgram, link_type: LinkType, tags: bool) -> Filter {
        let load = |target| {
            let options = TranslateOptions { target, link_type, snaplen_bytes: 0, counters: None };
            let code = translate(classic, &options).unwrap();
            Program::load(ProgramType::Xdp, "rs_test", &code).unwrap()
        };
        Filter {
            whole: load(Target::Xdp { tags }),
            fast: load(Target::XdpFast { tags }),
            reference: Prepared::new(classic).unwrap(),
            asked: 0,
        }
    }

    /// Runs both on `frame`, which was `wire` there; true if it is accepted.
    fn check(&mut self, metadata: &[u8], frame: &[u8], wire: &[u8], text: &str) -> bool {
        let accepted = self.reference.accepts(wire, wire.len() as u32);
        let expected = if accepted { XDP_ACCEPTS } else { XDP_REJECTS };
        let run = |program: &Program| {
            let run = bpf::test_run_xdp(program.as_fd(), metadata, frame, 1, &mut []);
            run.unwrap_or_else(|e| panic!("{text}, {} bytes: {e}", frame.len())).0.return_value
        };
        assert_eq!(run(&self.whole), expected, "{text} on {frame:?}");
        let answer = run(&self.fast);
        if answer == XDP_ASKS {
            self.asked += 1;
        } else {
            assert_eq!(answer, expected, "fast: {text} on {frame:?}");
        }
        accepted
    }
}

/// The frame without its outer tag, as some NICs give it, and the metadata that has it.
fn take_tag_out(wire: &[u8]) -> Option<(Vec<u8>, [u8; 24])> {
    let tpid = u16::from_be_bytes([*wire.get(12)?, *wire.get(13)?]);
    if !matches!(tpid, 0x8100 | 0x88a8) || wire.len() < 18 {
        return None;
    }
    let vlan_tci = u16::from_be_bytes([wire[14], wire[15]]);
    let metadata = XdpMetadata {
        flags: METADATA_VLAN | METADATA_HASH,
        vlan_tpid: tpid,
        vlan_tci,
        hash: 0x0102_0304,
        ..XdpMetadata::default()
    };
    Some(([&wire[..12], &wire[16..]].concat(), metadata.to_bytes()))
}

/// The few frames with tags are all run, in addition to the first ones of each file.
fn chosen(frames: &[CapturedFrame]) -> impl Iterator<Item = &[u8]> {
    let bytes = |frame: &'_ CapturedFrame| frame.bytes.len();
    frames
        .iter()
        .enumerate()
        .filter(move |(at, frame)| {
            let is_tagged = matches!(frame.bytes.get(12..14), Some([0x81, 0] | [0x88, 0xa8]));
            FRAME_BYTES.contains(&bytes(frame)) && (*at < frames_per_file() || is_tagged)
        })
        .map(|(_, frame)| &frame.bytes[..])
}

#[test]
fn both_functions_equal_the_reference_for_every_primitive() {
    let test = "filters for XDP";
    if !need_root(test) {
        return;
    }
    let files: Vec<_> =
        captures(test).into_iter().filter(|f| f.link_type == LinkType::ETHERNET).collect();
    let (mut runs, mut accepted, mut asked, mut tagged) = (0u64, 0u64, 0u64, 0u64);
    // To load a program takes the kernel longer than to run it on all frames.
    let step = by_run(4, 1);
    for (at, text) in expressions::all().into_iter().step_by(step).enumerate() {
        let Some(classic) = program(text, LinkType::ETHERNET, at % 2 == 0) else { continue };
        let mut plain = Filter::load(&classic, LinkType::ETHERNET, false);
        let mut with_tags = Filter::load(&classic, LinkType::ETHERNET, true);
        for wire in files.iter().flat_map(|file| chosen(&file.frames)) {
            runs += 1;
            accepted += u64::from(plain.check(&[], wire, wire, text));
            if let Some((frame, metadata)) = take_tag_out(wire).filter(|(f, _)| f.len() >= 14) {
                with_tags.check(&metadata, &frame, wire, text);
                // Without metadata the same program sees the frame as it is.
                with_tags.check(&[], wire, wire, text);
                tagged += 1;
            } else if runs.is_multiple_of(8) {
                let untagged = XdpMetadata { flags: METADATA_HASH, ..XdpMetadata::default() };
                with_tags.check(&untagged.to_bytes(), wire, wire, text);
            }
        }
        asked += plain.asked;
    }
    eprintln!("{runs} frames, {accepted} accepted, {asked} asked, {tagged} tags out");
    assert!(
        runs == 0 || (runs > by_run(10_000, 100_000) && accepted > runs / 100 && asked < runs / 2)
    );
    assert!(runs == 0 || tagged > by_run(200, 1_000));
}

#[test]
fn random_programs_give_equal_answers() {
    if !need_root("random filters for XDP") {
        return;
    }
    let seed = std::env::var("RINGSIDE_FUZZ_SEED").ok().and_then(|s| s.parse().ok()).unwrap_or(1);
    let mut random = Random::new(seed);
    let (mut accepted, mut asked) = (0, 0);
    for round in 0..1_500 {
        let classic = random_program(&mut random);
        let tags = round % 3 > 0;
        let link_type = [LinkType::ETHERNET, LinkType::RAW][usize::from(round % 5 == 0)];
        let tags_there = tags && link_type == LinkType::ETHERNET;
        let mut filter = Filter::load(&classic, link_type, tags);
        for _ in 0..8 {
            let bound = [20, 100, 1_500, 6_000][random.below(4)];
            let length = 14 + random.below(bound);
            let mask = [0xff, 0x3f, 0x07][random.below(3)];
            let mut wire: Vec<u8> = random.bytes(length).iter().map(|byte| byte & mask).collect();
            let text = format!("seed {seed} round {round}: {classic:?}");
            if tags_there && random.below(2) == 0 && length >= 18 {
                wire[12..14].copy_from_slice(&[0x88, 0xa8]);
                let (frame, metadata) = take_tag_out(&wire).unwrap();
                accepted += u32::from(filter.check(&metadata, &frame, &wire, &text));
            } else {
                accepted += u32::from(filter.check(&[], &wire, &wire, &text));
            }
        }
        asked += filter.asked;
    }
    eprintln!("{accepted} accepted, {asked} asked");
    assert!(accepted > 1_000 && asked > 1_000 && asked < 9_000);
}

#[test]
fn loads_at_every_border_of_the_pieces_see_the_frame() {
    if !need_root("filters for XDP at borders") {
        return;
    }
    let frame = |length: usize| -> Vec<u8> { (0..length).map(|at| (at * 7) as u8).collect() };
    // A test run's first piece ends some 3,400 bytes behind its begin.
    let offsets = (0..70).chain([124, 127, 128, 1_510]).chain(3_380..3_420).chain([9_000, 19_990]);
    let lengths = [14, 15, 58, 59, 60, 61, 64, 1_514, 3_000, 3_400, 3_500, 9_018, 19_999];
    let mut accepted = 0;
    for offset in offsets {
        for size in [1, 2, 4] {
            let field = &frame(20_010)[offset..offset + size];
            let number = field.iter().fold(0u64, |sum, byte| sum << 8 | u64::from(*byte));
            // The fourth byte of every frame is 21.
            let indirect = offset.checked_sub(21);
            let texts = [
                Some(format!("ether[{offset}:{size}] = {number}")),
                indirect.map(|rest| format!("ether[ether[3] + {rest}:{size}] = {number}")),
                Some(format!("ether[len - 1] != 0 and ether[{offset}:{size}] = {number}")),
            ];
            for text in texts.iter().flatten() {
                let classic = program(text, LinkType::ETHERNET, true).unwrap();
                let mut filter = Filter::load(&classic, LinkType::ETHERNET, false);
                for length in lengths {
                    let frame = frame(length);
                    accepted += u32::from(filter.check(&[], &frame, &frame, text));
                }
            }
        }
    }
    assert!(accepted > 3_000, "{accepted}");
}

#[test]
fn the_usual_filter_reads_in_place_and_many_hosts_load() {
    if !need_root("usual filters for XDP") {
        return;
    }
    let text = "tcp port 80 or host 10.0.0.1";
    let classic = program(text, LinkType::ETHERNET, true).unwrap();
    let mut filter = Filter::load(&classic, LinkType::ETHERNET, false);
    let mut frame = vec![0; 60];
    frame[12..15].copy_from_slice(&[8, 0, 0x45]);
    frame[23] = 17;
    for (last, accepted) in [(1, true), (2, false)] {
        frame[26..30].copy_from_slice(&[10, 0, 0, last]);
        assert_eq!(filter.check(&[], &frame, &frame, text), accepted);
        for (name, program) in [("fast", &filter.fast), ("whole", &filter.whole)] {
            let (run, _) = bpf::test_run(program.as_fd(), &frame, 100_000, &mut []).unwrap();
            eprintln!("{text}: {accepted} {name} {} ns", run.duration_ns);
        }
    }
    assert_eq!(filter.asked, 0, "the shortest frame is judged at once");
    // The kernel's verifier takes its time.
    let hosts = by_run(300u32, 1000);
    let terms: Vec<String> =
        (0..hosts).map(|n| format!("host 10.{}.{}.7", n / 250, n % 250)).collect();
    let classic = program(&terms.join(" or "), LinkType::ETHERNET, false).unwrap();
    let start = std::time::Instant::now();
    let mut filter = Filter::load(&classic, LinkType::ETHERNET, true);
    eprintln!("{hosts} hosts: both loaded in {:?}", start.elapsed());
    let last = hosts - 1;
    for (n, end, accepted) in [(0, 7, true), (last, 7, true), (last, 8, false), (hosts, 7, false)] {
        frame[30..34].copy_from_slice(&[10, (n / 250) as u8, (n % 250) as u8, end]);
        assert_eq!(filter.check(&[], &frame, &frame, "many hosts"), accepted);
    }
}
