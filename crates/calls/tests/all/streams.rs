//! Streams of real captures: the same numbers as tshark prints.

use ringside_calls::codec::{Codec, Content};
use ringside_calls::rtp::{JitterBuffer, Statistics};
use ringside_core::{LaneId, Source};
use ringside_inspect::{DissectedFrame, Observer, Pump, Received};
use ringside_proto::rtp;
use ringside_testkit::{capture_files, judge, need_tool};
use ringside_wire::Level;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Streams of which we say something else than tshark, by file and SSRC, which of its numbers, and
/// why.
const DIFFERENCES: &[(&str, u32, &[&str], &str)] = &[
    ("ndpi-FAX-Call-t38-CA-TDM-SIP-FB-1.pcap", 0x17d9_0134, &["delta_mean"], MEAN),
    ("ndpi-FAX-Call-t38-CA-TDM-SIP-FB-1.pcap", 0x0eaf_0eaf, &["packets", "delta_mean"], FAX),
    ("ndpi-fuzz-2006-06-26-2594.pcap", 0xaaaa_aaaa, &["packets"], "the header is malformed"),
    ("ndpi-rtp.pcapng", 0x001a_759f, &["delta_mean"], MEAN),
    ("ndpi-rtp.pcapng", 0x0000_1646, &["delta_mean", "jitter_mean"], MEAN),
    ("rtpproxy-rtp_analyze-dups.a.pcap", 0xae9d_d7af, DUPLICATE_FIELDS, DUPLICATES),
    ("sipp-dtmf_2833_1.pcap", 0x0e05_384e, &["lost", "delta_min", "delta_mean"], DUPLICATES),
];

const MEAN: &str = "tshark divides by all packets, those too that are no samples; we by samples";
const FAX: &str = "tshark takes what follows the switch to T.38 for that";
const DUPLICATES: &str = "duplicates are no samples here, and make up for no loss";
const DUPLICATE_FIELDS: &[&str] = &["lost", "delta_mean", "delta_max", "jitter_mean", "jitter_max"];

/// Counts every stream, by what tshark calls it.
#[derive(Default)]
struct Streams(BTreeMap<(String, String, u32), (Statistics, bool)>);

impl Observer for Streams {
    fn see(&mut self, frame: &DissectedFrame<'_>, received: &Received<'_>) {
        let level = Level::Inner;
        let Some(tuple) = frame.tuple(level) else { return };
        let (Some((from, to)), Some(payload)) = (tuple.ports, frame.payload(level)) else { return };
        let missing = frame.wire_bytes() as usize - frame.bytes().len();
        let Some(rtp) = rtp::parse(payload, payload.len() + missing).found() else { return };
        let key =
            (format!("{} {}", tuple.source, from.0), format!("{} {}", tuple.destination, to.0));
        let (statistics, is_known) = self
            .0
            .entry((key.0, key.1, rtp.ssrc))
            .or_insert_with(|| (Statistics::new(JitterBuffer::DEPTH_NS), true));
        let codec = Codec::of_static(rtp.payload_type);
        *is_known &= codec.is_some();
        let content = codec.as_ref().map_or(Content::Media, Codec::content);
        let clock_rate = codec.map(|codec| codec.clock_rate);
        statistics.take(received.meta.timestamp.0, &rtp, content, clock_rate);
    }
}

/// A line of tshark's table.
#[derive(Debug)]
struct Theirs {
    key: (String, String, u32),
    packets: u64,
    lost: i64,
    /// Delta and jitter: least, mean and greatest, in milliseconds.
    times: [f64; 6],
}

fn theirs(path: &Path) -> Vec<Theirs> {
    const ARGS: [&str; 7] =
        ["-n", "--enable-heuristic", "rtp_udp", "-q", "-z", "rtp,streams", "-r"];
    let answer = judge::ask("tshark", &ARGS, path);
    let line = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let at = words.iter().position(|word| word.starts_with("0x"))?;
        let ssrc = u32::from_str_radix(words[at].strip_prefix("0x")?, 16).ok()?;
        let from_end = |back: usize| words.get(words.len().checked_sub(back)?).copied();
        let marked = usize::from(words.last() == Some(&"X"));
        let number = |back: usize| from_end(back + marked)?.parse::<f64>().ok();
        Some(Theirs {
            key: (
                format!("{} {}", words.get(2)?, words.get(3)?),
                format!("{} {}", words.get(4)?, words.get(5)?),
                ssrc,
            ),
            packets: number(9)? as u64,
            lost: number(8)? as i64,
            times: [number(6)?, number(5)?, number(4)?, number(3)?, number(2)?, number(1)?],
        })
    };
    answer.text().lines().filter_map(line).collect()
}

fn ours(path: &Path) -> Streams {
    let mut streams = Streams::default();
    if let Ok(mut source) = ringside_store::open(&[path.to_owned()]) {
        let pump = Pump::new(vec![Box::new(&mut streams as &mut dyn Observer)]);
        let source: &mut dyn Source = &mut *source;
        pump.run(source, LaneId(0), &|| false);
    }
    streams
}

/// The numbers in which we differ.
fn different(theirs: &Theirs, ours: &Statistics, is_known: bool) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut check = |name: &str, theirs: f64, ours: f64, tolerance: f64| {
        if (theirs - ours).abs() > tolerance {
            wrong.push(format!("{name} {theirs} {ours}"));
        }
    };
    check("packets", theirs.packets as f64, ours.packets as f64, 0.0);
    check("lost", theirs.lost as f64, ours.lost() as f64, 0.0);
    let deltas = ours.timing.deltas.values();
    let jitters = ours.timing.jitters.values();
    let names = ["delta_min", "delta_mean", "delta_max", "jitter_min", "jitter_mean", "jitter_max"];
    let ours = [deltas, jitters].map(|values| values.unwrap_or([-1e6, 0.0, 0.0])).concat();
    for ((name, theirs), ours) in names.into_iter().zip(theirs.times).zip(ours) {
        // Without a description it is not known how fast the timestamps of dynamic types count.
        if is_known || name.starts_with("delta") {
            check(name, theirs, ours / 1e6, 0.0011);
        }
    }
    wrong
}

#[test]
fn tshark_counts_the_same() {
    let test = "tshark_counts_the_same";
    if !need_tool(test, "tshark") {
        return;
    }
    let is_voip = |path: &PathBuf| path.parent().is_some_and(|folder| folder.ends_with("voip"));
    let mut wrong = Vec::new();
    let (mut streams, mut same) = (0, 0);
    for path in capture_files(test).into_iter().filter(is_voip) {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let found = ours(&path);
        for theirs in theirs(&path) {
            streams += 1;
            let Some((statistics, is_known)) = found.0.get(&theirs.key) else {
                wrong.push(format!("{name}: {theirs:?} is not found"));
                continue;
            };
            let differences = different(&theirs, statistics, *is_known);
            let fields: Vec<&str> =
                differences.iter().filter_map(|text| text.split(' ').next()).collect();
            let known = DIFFERENCES
                .iter()
                .find(|(file, ssrc, ..)| (*file, *ssrc) == (name.as_str(), theirs.key.2));
            if fields != known.map_or(&[][..], |known| known.2) {
                wrong.push(format!("{name} {:#010x}: {differences:?}", theirs.key.2));
            }
            same += usize::from(fields.is_empty());
        }
    }
    eprintln!("{test}: {same} of {streams} streams have the same numbers in all fields");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
