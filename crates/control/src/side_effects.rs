//! Side effects of rules (mirrored and digested frames, flows given up), for people, as JSON and
//! over the control socket.

use ringside_capture::keep::{DigestCounts, DigestSums, MirrorCounts, SideEffects};
use ringside_terminal::units;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write;

/// What was counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SideEffectsStatus {
    /// Flows whose segments were not followed any more, because others needed their places.
    #[serde(default)]
    pub flows_given_up: u64,
    /// Copies by interface.
    #[serde(default)]
    pub mirrors: Vec<MirrorStatus>,
    /// Records, if some are written.
    #[serde(default)]
    pub digests: Option<DigestStatus>,
}

/// Where frames are that rules digested. What is neither written nor missed is still added up, or
/// on its way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DigestStatus {
    /// Frames that rules digested.
    pub frames: u64,
    /// Their bytes on the wire.
    pub bytes: u64,
    /// What was written of them.
    pub written: RecordStatus,
    /// What was not, by reason.
    pub missed: BTreeMap<String, RecordStatus>,
}

/// Records, and the frames that are in them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordStatus {
    /// Number of records.
    pub records: u64,
    /// Frames in them.
    pub frames: u64,
    /// Bytes of these on the wire.
    pub bytes: u64,
}

/// Copies that were to go to one interface: each is sent, or failed for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MirrorStatus {
    /// Name of the interface.
    pub interface: String,
    /// Copies that it took.
    pub frames: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Copies that it did not take, by reason.
    pub failed: BTreeMap<String, u64>,
}

impl From<SideEffects> for SideEffectsStatus {
    fn from(side_effects: SideEffects) -> SideEffectsStatus {
        let SideEffects { flows_given_up, mirrors, digests } = side_effects;
        let mirrors = mirrors.into_iter().map(MirrorStatus::from).collect();
        SideEffectsStatus { flows_given_up, mirrors, digests: digests.map(DigestStatus::from) }
    }
}

impl From<DigestCounts> for DigestStatus {
    fn from(counts: DigestCounts) -> DigestStatus {
        let DigestCounts { digested, written, missed } = counts;
        let missed = missed.into_iter().map(|(why, sums)| (why.name().to_owned(), sums.into()));
        let (frames, bytes) = (digested.frames, digested.bytes);
        DigestStatus { frames, bytes, written: written.into(), missed: missed.collect() }
    }
}

impl From<DigestSums> for RecordStatus {
    fn from(DigestSums { records, frames, bytes }: DigestSums) -> RecordStatus {
        RecordStatus { records, frames, bytes }
    }
}

impl From<MirrorCounts> for MirrorStatus {
    fn from(counts: MirrorCounts) -> MirrorStatus {
        let MirrorCounts { interface, sent, failed } = counts;
        let failed = failed.into_iter().map(|(why, frames)| (why.name().to_owned(), frames));
        let (frames, bytes) = (sent.frames, sent.bytes);
        MirrorStatus { interface, frames, bytes, failed: failed.collect() }
    }
}

impl SideEffectsStatus {
    /// An object for each line; none where there is nothing to say.
    pub fn json(&self) -> Vec<serde_json::Value> {
        let mut lines: Vec<_> =
            self.mirrors.iter().map(|mirror| serde_json::json!({ "mirror": mirror })).collect();
        lines.extend(self.digests.iter().map(|all| serde_json::json!({ "digests": all })));
        if self.flows_given_up > 0 {
            lines.push(serde_json::json!({ "flows": { "given_up": self.flows_given_up } }));
        }
        lines
    }

    /// Lines for people; empty where there is nothing to say.
    pub fn text(&self) -> String {
        let mut out = String::new();
        for mirror in &self.mirrors {
            let MirrorStatus { interface, frames, bytes, failed } = mirror;
            let (frames, bytes) = (units::grouped(*frames), units::grouped(*bytes));
            let _ = write!(out, "mirror {interface}: {frames} frames sent, {bytes} bytes");
            for (why, frames) in failed {
                let _ = write!(out, "; {} not sent: {why}", units::grouped(*frames));
            }
            out.push('\n');
        }
        if let Some(DigestStatus { frames, written, missed, .. }) = &self.digests {
            let (frames, records) = (units::grouped(*frames), units::grouped(written.records));
            let _ = write!(out, "digests: {frames} frames, {records} records written");
            for (why, sums) in missed {
                let (records, frames) = (units::grouped(sums.records), units::grouped(sums.frames));
                let _ = write!(out, "; {records} of {frames} frames not written: {why}");
            }
            out.push('\n');
        }
        if self.flows_given_up > 0 {
            let flows = units::grouped(self.flows_given_up);
            let _ = writeln!(
                out,
                "{flows} flows were not followed to their end, because others needed their places: \
                 payload patterns across their segments may have been missed"
            );
        }
        out.truncate(out.trim_end().len());
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_counted_is_reported_and_nothing_else() {
        let nothing = SideEffectsStatus::default();
        assert_eq!((nothing.json().len(), nothing.text().as_str()), (0, ""));
        let failed = BTreeMap::from([("too_long".to_owned(), 3)]);
        let interface = "eth9".to_owned();
        let mirror = MirrorStatus { interface, frames: 1_000, bytes: 64_000, failed };
        let sums = |records, frames| RecordStatus { records, frames, bytes: 100 * frames };
        let missed = BTreeMap::from([("disk_full".to_owned(), sums(2, 30))]);
        let digests = DigestStatus { frames: 40, bytes: 4_000, written: sums(1, 10), missed };
        let digests = Some(digests);
        let status = SideEffectsStatus { flows_given_up: 7, mirrors: vec![mirror], digests };
        let lines = status.json();
        assert_eq!(lines[0]["mirror"]["failed"]["too_long"], 3);
        assert_eq!(lines[1]["digests"]["missed"]["disk_full"]["frames"], 30);
        assert_eq!(lines[2]["flows"]["given_up"], 7);
        let text = status.text();
        assert!(text.contains("eth9: 1,000 frames sent, 64,000 bytes; 3 not sent: too_long"));
        assert!(
            text.contains("40 frames, 1 records written; 2 of 30 frames not written: disk_full")
        );
        assert!(text.contains("7 flows were not followed"), "{text}");
    }
}
