//! Streams of real captures: the same bytes as tshark's `follow` has.

use crate::{Follower, Side};
use ringside_core::{LaneId, Source};
use ringside_inspect::{Observer, Pump};
use ringside_testkit::{capture_sample, judge, need_tool};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;

/// Streams of a file that are compared: each costs tshark another pass.
const STREAMS_MAX: usize = 40;

type Ends = [(IpAddr, u16); 2];

/// What each side of each conversation said, all with the same ends together.
type Streams = BTreeMap<Ends, [Vec<u8>; 2]>;

/// Also how many bytes are missing, and how many came when a connection was over.
fn ours(path: &Path) -> Option<(Streams, u64, u64)> {
    let mut follower = Follower::default();
    let mut source = ringside_store::open(&[path.to_owned()]).ok()?;
    let source: &mut dyn Source = &mut *source;
    let pump = Pump::new(vec![Box::new(&mut follower as &mut dyn Observer)]);
    pump.run(source, LaneId(0), &|| false).failure.is_none().then_some(())?;
    let mut streams = Streams::new();
    let mut missing = 0;
    for (ends, sides) in std::mem::take(&mut follower.said.0) {
        let sums = streams.entry(ends).or_default();
        for (sum, Side { bytes, missing: gap }) in sums.iter_mut().zip(sides) {
            sum.extend(bytes);
            missing += gap;
        }
    }
    Some((streams, missing, follower.streams.ledger().after_end_bytes))
}

/// What tshark says of `count` streams; an empty list for those that it says nothing of.
fn theirs(path: &Path, count: usize) -> Streams {
    let follows: Vec<String> = (0..count).map(|n| format!("follow,tcp,raw,{n}")).collect();
    let mut args = vec!["-n", "-q"];
    follows.iter().for_each(|follow| args.extend(["-z", follow]));
    args.push("-r");
    let answer = judge::ask("tshark", &args, path);
    let text = String::from_utf8_lossy(&answer.stdout);
    let mut streams = Streams::new();
    let (mut nodes, mut ends): (Vec<(IpAddr, u16)>, Option<Ends>) = (Vec::new(), None);
    for line in text.lines() {
        if line.starts_with("=====") {
            (nodes, ends) = (Vec::new(), None);
        } else if let Some(node) = line.strip_prefix("Node ") {
            let Some((address, port)) = node[3..].rsplit_once(':') else { continue };
            let address = address.trim_matches(['[', ']']).parse();
            nodes.extend(address.ok().zip(port.parse().ok()));
            if let [one, other] = nodes[..] {
                ends = Some(if one <= other { [one, other] } else { [other, one] });
            }
        } else if let (Some(ends), Some(hex)) = (ends, bytes(line.trim_start_matches('\t'))) {
            let node = nodes[usize::from(line.starts_with('\t'))];
            let side = usize::from(ends[0] != node);
            streams.entry(ends).or_default()[side].extend(hex);
        }
    }
    streams
}

fn bytes(hex: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| (byte as char).to_digit(16);
    let pairs = hex.as_bytes().chunks(2);
    pairs.map(|pair| Some((digit(pair[0])? * 16 + digit(*pair.get(1)?)?) as u8)).collect()
}

/// tshark goes on behind a reset; nothing else may differ.
fn is_same(ours: &[Vec<u8>; 2], theirs: &[Vec<u8>; 2], after_end: u64) -> bool {
    let pairs = || ours.iter().zip(theirs);
    let more: usize = pairs().map(|(ours, theirs)| theirs.len().saturating_sub(ours.len())).sum();
    pairs().all(|(ours, theirs)| theirs.starts_with(ours)) && more as u64 <= after_end
}

#[test]
fn tshark_follows_to_the_same_bytes() {
    let test = "tshark_follows_to_the_same_bytes";
    if !need_tool(test, "tshark") {
        return;
    }
    let (mut compared, mut differing, mut with_gaps) = (0, Vec::new(), 0);
    for path in capture_sample(test, 4) {
        let folder = path.parent().and_then(Path::file_name).unwrap_or_default();
        if !["http", "tls", "mixed"].iter().any(|name| folder == *name) {
            continue;
        }
        let Some((ours, missing, after_end)) = ours(&path) else { continue };
        // Where bytes are missing tshark's stream is another one.
        if missing > 0 || ours.len() > STREAMS_MAX {
            with_gaps += 1;
            continue;
        }
        let theirs = theirs(&path, ours.len());
        for (ends, sides) in theirs {
            compared += 1;
            if !ours.get(&ends).is_some_and(|ours| is_same(ours, &sides, after_end)) {
                let lengths = |sides: &[Vec<u8>; 2]| sides.each_ref().map(Vec::len);
                let of_ours = ours.get(&ends).map(lengths);
                let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                differing.push(format!("{name} {ends:?}: {:?}, ours {of_ours:?}", lengths(&sides)));
            }
        }
    }
    eprintln!("{test}: {compared} streams, {with_gaps} files not compared");
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}
