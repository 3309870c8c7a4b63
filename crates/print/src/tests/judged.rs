//! Every line of every real capture next to tcpdump's: how many are the same, by protocol.
//!
//! `RINGSIDE_TESTS=long cargo test -p ringside-print tests::judged -- --nocapture` prints the share
//! over all captures and what differs most; a short run takes a sample of them.

use super::{frames, lines, need_tool};
use crate::{PrintOptions, TimeStyle};
use ringside_core::{LinkType, OwnedFrame};
use ringside_testkit::{by_run, capture_files, judge};
use ringside_wire::{LayerKind, Level, Stop, Tcp, Udp, dissect};
use std::collections::BTreeMap;
use std::path::Path;

/// Of the captures in order of their names, a short run takes each that is so far from the last.
const SAMPLE_STEP: usize = 4;
/// Differences of one protocol that are shown.
const SHOWN_MAX: usize = 2;
/// Characters of a text that are shown.
const SHOWN_CHARACTERS: usize = 600;

/// What became of the lines of one protocol.
#[derive(Default)]
struct Tally {
    compared: usize,
    same: usize,
    /// Ours say more, for a reason that `better` gives.
    better: usize,
    examples: Vec<String>,
}

/// tcpdump's texts, one a packet: what it prints below a line belongs to that line.
fn texts(path: &Path, options: &[&str]) -> Vec<String> {
    let fixed = ["-n", "-tt", "--time-stamp-precision=nano"];
    let output = judge::ask("tcpdump", &[&fixed, options, &["-r"]].concat(), path).stdout;
    let mut texts: Vec<String> = Vec::new();
    for line in String::from_utf8_lossy(&output).lines() {
        match texts.last_mut() {
            Some(last) if !begins_with_time(line) => {
                last.push('\n');
                last.push_str(line);
            }
            _ => texts.push(line.to_owned()),
        }
    }
    texts
}

/// What tcpdump prints instead of a time whose fraction is more than a second.
const NO_TIME: &str = "[Error converting time] ";

/// True for `SECONDS.NANOSECONDS ` at the start.
fn begins_with_time(line: &str) -> bool {
    if line.starts_with(NO_TIME) {
        return true;
    }
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let Some((time, _)) = line.split_once(' ') else { return false };
    let parts = time.split_once('.');
    parts.is_some_and(|(seconds, nanos)| digits(seconds) && nanos.len() == 9 && digits(nanos))
}

/// Why a line of ours that is not tcpdump's says more; the table is in `docs/printing.md`.
fn better(ours: &str, theirs: &str) -> Option<&'static str> {
    if let Some(rest) = theirs.strip_prefix(NO_TIME) {
        let same = ours.split_once(' ').is_some_and(|(_, ours)| ours == rest);
        return same.then_some("a time is shown also where its fraction is more than a second");
    }
    let reasons = [
        ("gre-proto-0x88be", "ERSPAN", "frames that switches mirror are decoded"),
        ("gre-proto-0x8909", "CMD", "tags of Cisco's metadata are decoded"),
        ("ethertype Unknown (0x8926)", "VN-Tag", "tags of virtual interfaces are decoded"),
        ("MPLS", "PW ", "Ethernet in a pseudowire is decoded"),
        ("CDPv", "CDPv", "a line a packet, without the bytes of fields"),
        ("UNSUPPORTED", "link type", "the link type is named"),
        (" ?  ", "ifindex", "the interface's index stands where its name is not known"),
        ("UDP, length", "GTP-U", "packets in a mobile network's tunnels are decoded"),
    ];
    let has = |(theirs_has, ours_has, _): &&(&str, &str, &str)| {
        theirs.contains(theirs_has) && ours.contains(ours_has)
    };
    reasons.iter().find(has).map(|reason| reason.2)
}

/// The innermost header and the lower known port behind it.
fn protocol(link: LinkType, frame: &OwnedFrame) -> String {
    let layers = dissect(&frame.bytes, link);
    let Some(last) = layers.last() else { return format!("link type {link}") };
    let mut name = last.kind.name().to_owned();
    if let Some(transport) = layers.transport(Level::Inner) {
        let here = &frame.bytes[transport.start()..];
        let ports = match transport.kind {
            LayerKind::Tcp => Tcp::new(here).map(|tcp| (tcp.source(), tcp.destination())).ok(),
            LayerKind::Udp => Udp::new(here).map(|udp| (udp.source(), udp.destination())).ok(),
            _ => None,
        };
        if let Some((source, destination)) = ports {
            let port = source.0.min(destination.0);
            name += &if port < 9000 { format!(" {port}") } else { String::new() };
        }
    }
    match layers.stop() {
        Stop::Complete => name,
        Stop::Unknown { protocol } => format!("{name} of 0x{protocol:04x}"),
        stop => format!("{name}, {}", stop.name()),
    }
}

fn shown(text: &str) -> String {
    text.chars().take(SHOWN_CHARACTERS).collect::<String>().replace('\n', "\n      ")
}

fn compare(test: &str, ours: PrintOptions, theirs: &[&str]) -> BTreeMap<String, Tally> {
    let mut tallies: BTreeMap<String, Tally> = BTreeMap::new();
    let options = PrintOptions { time: TimeStyle::Epoch, ..ours };
    let step = by_run(SAMPLE_STEP, 1);
    for path in capture_files(test).iter().step_by(step) {
        let frames = frames(path);
        let ours = lines(&frames, &options);
        for (number, theirs) in texts(path, theirs).iter().enumerate() {
            let frame = frames.get(number);
            let protocol = frame.map_or("not read".into(), |(link, frame)| protocol(*link, frame));
            let tally = tallies.entry(protocol).or_default();
            tally.compared += 1;
            let ours = ours.get(number).map_or("", |ours| ours);
            if ours == theirs {
                tally.same += 1;
            } else if better(ours, theirs).is_some() {
                tally.better += 1;
            } else if tally.examples.len() < SHOWN_MAX {
                let (name, number) = (path.file_name().unwrap().display(), number + 1);
                let (ours, theirs) = (shown(ours), shown(theirs));
                let example = format!("{name} {number}\n    ours   {ours}\n    theirs {theirs}");
                tally.examples.push(example);
            }
        }
    }
    tallies
}

/// Prints what differs, the most first, and gives the lines that are the same or better, and all.
fn ranked(test: &str, ours: PrintOptions, theirs: &[&str]) -> Option<(usize, usize)> {
    if !need_tool(test, "tcpdump") {
        return None;
    }
    let tallies = compare(test, ours, theirs);
    let sum = |of: fn(&Tally) -> usize| tallies.values().map(of).sum::<usize>();
    let (compared, same) = (sum(|tally| tally.compared), sum(|tally| tally.same));
    let better = sum(|tally| tally.better);
    let differ = |tally: &Tally| tally.compared - tally.same - tally.better;
    let mut rank: Vec<_> = tallies.iter().filter(|(_, tally)| differ(tally) > 0).collect();
    rank.sort_by_key(|(_, tally)| std::cmp::Reverse(differ(tally)));
    for (protocol, tally) in rank {
        eprintln!("{:>6} of {:>6}: {protocol}", differ(tally), tally.compared);
        tally.examples.iter().for_each(|example| eprintln!("  {example}"));
    }
    let share = 100.0 * (same + better) as f64 / compared.max(1) as f64;
    eprintln!("{test}: {same} of {compared} are tcpdump's, {better} say more: {share:.2} %");
    (compared > 0).then_some((same + better, compared))
}

/// Shares in hundredths of a percent, of a short run and a long one: what was reached.
fn check(test: &str, ours: PrintOptions, theirs: &[&str], least: [usize; 2]) {
    let Some((good, compared)) = ranked(test, ours, theirs) else { return };
    let least = by_run(least[0], least[1]);
    assert!(good * 10_000 >= least * compared, "{good} of {compared} fall below {least} / 10,000");
}

#[test]
fn all_lines() {
    check("all_lines", PrintOptions::default(), &[], [9968, 9981]);
}

#[test]
fn all_verbose_texts() {
    let options = PrintOptions { verbosity: 1, ..PrintOptions::default() };
    check("all_verbose_texts", options, &["-v"], [9967, 9975]);
}
