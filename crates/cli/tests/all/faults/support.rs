//! What several of these tests need.

use crate::common::*;
use ringside_core::ledger::ByCause;
use ringside_core::{Consumer, LaneCounters, Ledger};
use ringside_transmit::{Report, SenderKind, Shape, Sizes, Stamp};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub use super::small_disk::SmallDisk;
pub use crate::common::wireshark::packets_by_wireshark;

/// Sends `count` frames of `bytes` bytes in 16 flows, at a rate that every machine records.
pub fn send(network: &Network, bytes: u16, count: u64) -> Report {
    let shape = Shape::new(Sizes::fixed(bytes).unwrap(), 16).unwrap();
    network.send(SenderKind::Live, &shape, count, Some(50_000))
}

/// Packets that this project's reader finds in files and directories.
pub fn count(paths: &[PathBuf]) -> u64 {
    let mut count = 0;
    for_each_frame(paths, |_, _| count += 1);
    count
}

/// Frames of a recording; in each stream their numbers must follow each other from 0.
pub fn contiguous_frames(path: &Path) -> u64 {
    let mut next = BTreeMap::new();
    let mut frames = 0;
    for_each_frame(&[path.to_owned()], |frame, _| {
        let stamp = Stamp::read(frame.bytes).unwrap();
        let expected = next.entry(stamp.stream).or_insert(0);
        assert_eq!(stamp.sequence, *expected, "stream {}", stamp.stream);
        *expected += 1;
        frames += 1;
    });
    frames
}

/// The ledger that a run printed for people; both stages balance and nothing is in flight.
pub fn printed_ledger(stderr: &str) -> Ledger {
    let (filtered, in_flight) = (Some(0), Some(0));
    let mut lane = LaneCounters { filtered, in_flight, ..LaneCounters::default() };
    let mut consumers: Vec<Consumer> = Vec::new();
    let start = stderr.find("\nreceived").unwrap_or_else(|| panic!("no ledger: {stderr}"));
    for line in stderr[start + 1..].lines() {
        if line.len() < 30 {
            continue;
        }
        let (name, rest) = line.split_at(14);
        let mut words = rest.split_whitespace();
        let Ok(number) = words.next().unwrap().replace(',', "").parse() else { continue };
        let note = words.next();
        match (name.trim_end(), note) {
            ("received", _) => lane.received = Some(number),
            ("  taken", _) => lane.taken = number,
            ("  filtered", _) => lane.filtered = Some(number),
            ("  in flight", _) => lane.in_flight = Some(number),
            ("  dropped", Some(cause)) => note_cause(&mut lane.dropped, cause, number),
            ("  missed", Some(cause)) => {
                note_cause(&mut consumers.last_mut().unwrap().missed, cause, number);
            }
            (name, Some("delivered")) => {
                let consumer =
                    Consumer { name: name.to_owned(), delivered: number, ..Consumer::default() };
                consumers.push(consumer);
            }
            _ => {}
        }
    }
    assert!(stderr.contains("the ledger balances"), "{stderr}");
    let mut ledger = Ledger::from_lanes(vec![lane]);
    ledger.consumers = consumers;
    check_ledger(&ledger, ledger.received.unwrap());
    ledger
}

fn note_cause(by_cause: &mut ByCause, cause: &str, count: u64) {
    by_cause.insert(serde_json::from_value(cause.into()).unwrap(), count);
}

/// The ledger of a run that failed with status 2; it balances all the same.
pub fn failed_ledger(outcome: &Outcome) -> Ledger {
    assert_eq!(outcome.code(), Some(2), "{}", outcome.stderr);
    let ledger = outcome.ledger();
    check_ledger(&ledger, ledger.received.unwrap());
    ledger
}

/// `ringside capture --netns RECEIVER --json -Qin ARGS` by way of another program.
pub fn capture_by(prefix: &[&str], network: &Network, args: &[&str]) -> Command {
    let mut command = Command::new(prefix[0]);
    command.args(&prefix[1..]).arg(ringside());
    command.args(["capture", "--netns", network.receiver(), "--json", "-Qin"]).args(args);
    command
}

/// Runs `ip ARGS`, which must succeed.
pub fn ip(args: &[&str]) -> String {
    let outcome = run("ip", args);
    assert!(outcome.status.success(), "ip {args:?}: {}", outcome.stderr);
    outcome.text()
}

/// How often the receiving end was set promiscuous.
pub fn promiscuity(network: &Network) -> u64 {
    let text = ip(&["-n", network.receiver(), "-d", "-j", "link", "show", "rx0"]);
    let links: serde_json::Value = serde_json::from_str(&text).unwrap();
    links[0]["promiscuity"].as_u64().unwrap()
}

/// A program that is ended with its guard, its input and output where the test puts them.
pub struct Helper(pub std::process::Child);

impl Helper {
    /// `cat`, from a pipe into a file.
    pub fn cat(from: std::io::PipeReader, to: &Path) -> Helper {
        let file = std::fs::File::create(to).unwrap();
        let mut command = Command::new("cat");
        command.stdin(from).stdout(file).stderr(Stdio::null());
        Helper(command.spawn().unwrap())
    }

    /// Waits for its end.
    pub fn finish(mut self) {
        wait_until("the end of a helper", || self.0.try_wait().unwrap().is_some());
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        // An error says that it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
