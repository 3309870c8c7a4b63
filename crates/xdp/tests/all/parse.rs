//! What the program reads of a frame is what user space reads: addresses, ports, protocol, flags,
//! and where headers are.

use ringside_core::LinkType;
use ringside_ebpf::rules::Report;
use ringside_inspect::DissectedFrame;
use ringside_rules::key::Key;
use ringside_rules::language::RuleSet;
use ringside_testkit::{Random, need_root};
use ringside_wire::{LayerKind, Level, Tcp};
use ringside_xdp::{DriverRules, Options};

/// Longest frame that a test run takes in one piece or several: that of a jumbo frame.
const FRAME_BYTES_MAX: usize = 9_000;
/// Frames that are made of those of captures.
const MUTATIONS: usize = 300_000;

fn program() -> DriverRules {
    let options = Options { reports: true, ..Options::default() };
    DriverRules::unattached(RuleSet::default(), &options).unwrap()
}

/// What user space says.
fn expected(frame: &[u8]) -> ([u64; 5], Option<u16>, [Option<u32>; 4]) {
    let dissected = DissectedFrame::new(frame, frame.len() as u32, LinkType::ETHERNET);
    let layers = dissected.layers();
    let flags = layers.transport(Level::Outer).filter(|layer| layer.kind == LayerKind::Tcp);
    let flags = flags.and_then(|layer| Tcp::new(&frame[layer.start()..]).ok());
    let ends = |layer: &ringside_wire::Layer| layer.kind.is_network() || layer.kind.is_tunnel();
    let link = layers.as_slice();
    let link = &link[..link.iter().position(ends).unwrap_or(link.len())];
    let offsets = [
        link.iter().find(|layer| layer.kind == LayerKind::Ethernet).map(|layer| layer.offset),
        layers.network(Level::Outer).map(|layer| layer.offset),
        layers.transport(Level::Outer).map(|layer| layer.offset),
        layers.transport(Level::Outer).map(|layer| layer.end() as u32),
    ];
    (Key::of(&dissected, Level::Outer).words(), flags.map(|tcp| tcp.flags()), offsets)
}

/// True if the program could read the frame.
fn compare(rules: &DriverRules, frame: &[u8]) -> bool {
    rules.test_run(frame).unwrap();
    let report: Report = rules.program().report();
    if report.fate.is_none() {
        return false;
    }
    let found = (report.key, report.tcp_flags, report.offsets);
    assert_eq!(found, expected(frame), "{frame:02x?}");
    true
}

fn ethernet_frames(test: &str) -> Vec<Vec<u8>> {
    let frames = crate::support::corpus(test).into_iter();
    let ethernet = frames.filter(|(link, _)| *link == LinkType::ETHERNET);
    let fits = |frame: &Vec<u8>| (14..=FRAME_BYTES_MAX).contains(&frame.len());
    ethernet.map(|(_, frame)| frame).filter(fits).collect()
}

#[test]
fn every_frame_of_the_captures() {
    if !need_root("parsing in XDP") {
        return;
    }
    let rules = program();
    let frames = ethernet_frames("parsing in XDP");
    let unread = frames.iter().filter(|frame| !compare(&rules, frame)).count();
    let totals = rules.totals();
    assert_eq!(totals.seen(), frames.len() as u64);
    assert_eq!((totals.unjudged, unread), (0, 0), "no real frame has headers of a kilobyte");
    eprintln!("{} frames, {} of them the long way", frames.len(), totals.walked);
}

#[test]
fn frames_that_were_cut_and_changed() {
    if !need_root("parsing of hostile frames in XDP") {
        return;
    }
    let rules = program();
    let mut seeds = ethernet_frames("parsing of hostile frames in XDP");
    seeds.retain(|frame| frame.len() <= 400);
    seeds.push((0..200).collect());
    let mut random = Random::new(5);
    let mut unread = 0u32;
    for _ in 0..MUTATIONS {
        // Headers are at the front.
        let mut frame = seeds[random.below(seeds.len())].clone();
        for _ in 0..=random.below(3) {
            let at = random.below(frame.len().min(90));
            match random.below(5) {
                0 => frame[at] = random.next_u64() as u8,
                1 => frame[at] ^= 1 << random.below(8),
                2 => frame.truncate(at.max(14)),
                3 => {
                    const TYPES: [[u8; 2]; 14] = [
                        [8, 0],
                        [8, 6],
                        [0x81, 0],
                        [0x86, 0xdd],
                        [0x88, 0x47],
                        [0x88, 0x64],
                        [0x88, 0xa8],
                        [0x89, 9],
                        [0x89, 0x26],
                        [0x91, 0],
                        [0x65, 0x58],
                        [0, 50],
                        [0x88, 0x48],
                        [0x80, 0x35],
                    ];
                    let place = [12, 16, 20, 24][random.below(4)];
                    if frame.len() > place + 2 {
                        frame[place..place + 2].copy_from_slice(&TYPES[random.below(TYPES.len())]);
                    }
                }
                _ => {
                    let piece = frame[at..(at + 4 + random.below(8)).min(frame.len())].to_vec();
                    frame.splice(at..at, piece);
                }
            }
        }
        unread += u32::from(!compare(&rules, &frame));
    }
    assert!(unread < MUTATIONS as u32 / 100, "{unread} frames were not read");
    assert!(rules.totals().walked > MUTATIONS as u64 / 10);
}

/// Stacks of headers as deep as they are followed, and one deeper.
#[test]
fn deep_stacks() {
    if !need_root("parsing of deep frames in XDP") {
        return;
    }
    let rules = program();
    let ipv4 = [0x45, 0, 0, 46, 0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
    let udp = [0, 53, 0, 99, 0, 26, 0, 0];
    let ipv6 = |next: u8| {
        let mut header = vec![0x60, 0, 0, 0, 0, 0, next, 64];
        header.extend((0..32).map(|at| at as u8));
        header
    };
    for depth in 0..24 {
        let addresses = [2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8];
        let tags = [0x81, 0, 0, 5].repeat(depth);
        let tagged = [&addresses[..], &tags, &[8, 0], &ipv4, &udp, &[0; 30]].concat();
        assert!(compare(&rules, &tagged));
        let mut labels = [0, 0, 0x10, 64].repeat(depth);
        labels.extend([0, 0, 0x11, 64]);
        let labelled = [&addresses[..], &[0x88, 0x47], &labels, &ipv4, &udp, &[0; 30]].concat();
        assert!(compare(&rules, &labelled));
        let options = [0, 0, 1, 4, 0, 0, 0, 0].repeat(depth);
        let first = if depth == 0 { 17 } else { 0 };
        let mut chain = options;
        if let Some(last) = depth.checked_sub(1) {
            chain[8 * last] = 17;
        }
        let extended =
            [&addresses[..], &[0x86, 0xdd], &ipv6(first), &chain, &udp, &[0; 30]].concat();
        assert!(compare(&rules, &extended));
    }
    // Headers that end behind what the program looks at.
    let far = [0, 255].into_iter().chain([0; 2046]).collect::<Vec<u8>>();
    let unread =
        [&[2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8, 0x86, 0xdd][..], &ipv6(0), &far, &[0; 60]].concat();
    assert!(!compare(&rules, &unread));
    assert_eq!(rules.totals().unjudged, 1);
}
