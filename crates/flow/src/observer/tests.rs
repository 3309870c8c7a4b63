use super::*;
use crate::{Limits, NoFlow, SinkCounts, Sums};
use ringside_core::LaneId;
use ringside_inspect::Pump;
use ringside_testkit::{capture_files, capture_sample, judge, need_tool};
use ringside_wire::{Fragment, IpProtocol, LayerKind, Level};
use std::collections::BTreeMap;
use std::path::Path;

/// Keeps all records.
#[derive(Default)]
struct Keep(Vec<Record>);

impl RecordSink for &mut Keep {
    fn put(&mut self, record: &Record, _interface: &str, _now: Timestamp) {
        self.0.push(record.clone());
    }

    fn finish(&mut self, _now: Timestamp) {}

    fn counts(&self) -> SinkCounts {
        SinkCounts::default()
    }
}

/// Counts what is in a file, and whether flows and conversations are the same for it.
#[derive(Default)]
struct Count {
    frames: Sums,
    /// Why some frame is looked at in another way by tshark.
    differs: Option<&'static str>,
}

impl Observer for Count {
    fn see(&mut self, frame: &DissectedFrame<'_>, _received: &Received<'_>) {
        self.frames += Sums::one(frame.wire_bytes());
        let layers = frame.layers();
        let icmp_kind = |kind| layers.find(kind).and_then(|layer| frame.from(layer).first());
        let is_error = matches!(icmp_kind(LayerKind::Icmp), Some(3 | 4 | 5 | 11 | 12))
            || matches!(icmp_kind(LayerKind::Icmpv6), Some(1..=4 | 137));
        let is_cut = (frame.bytes().len() as u32) < frame.wire_bytes();
        let differs = [
            (layers.is_tunnelled(), "tunnel"),
            (layers.fragment(Level::Outer) != Fragment::No, "fragment"),
            (is_error, "ICMP error"),
            (is_cut, "cut"),
            (!matches!(layers.stop().name(), "complete"), "dissection that stops early"),
        ];
        let differs = differs.into_iter().find(|(is_there, _)| *is_there);
        self.differs = self.differs.or(differs.map(|(_, why)| why));
    }
}

/// Has another look at no frame ahead.
struct Blind<'o>(&'o mut dyn Observer);

impl Observer for Blind<'_> {
    fn see(&mut self, frame: &DissectedFrame<'_>, received: &Received<'_>) {
        self.0.see(frame, received);
    }

    fn tick(&mut self, low_water: Timestamp) {
        self.0.tick(low_water);
    }

    fn finish(&mut self) {
        self.0.finish();
    }
}

/// Records of a file, what was counted in it, and the observer's account.
fn flows_of(path: &Path) -> Option<(Vec<Record>, Count, crate::FlowLedger)> {
    let (mut keep, mut count) = (Keep::default(), Count::default());
    let limits = Limits { memory_bytes: Limits::MEMORY_BYTES_MIN, ..Limits::default() };
    let mut flows = FlowObserver::new(FlowTable::new(limits).unwrap(), vec![Box::new(&mut keep)]);
    let mut source = ringside_store::open(&[path.to_owned()]).ok()?;
    let observers: Vec<Box<dyn Observer>> = vec![Box::new(&mut flows), Box::new(&mut count)];
    Pump::new(observers).run(&mut *source, LaneId(0), &|| false);
    let ledger = flows.table().ledger().clone();
    assert!(ledger.balances(flows.table().held()), "{}", path.display());
    drop(flows);
    Some((keep.0, count, ledger))
}

#[test]
fn every_frame_of_every_capture_is_accounted_for() {
    let mut total = Sums::default();
    for path in capture_files("every_frame_of_every_capture_is_accounted_for") {
        let Some((records, count, ledger)) = flows_of(&path) else { continue };
        assert_eq!(ledger.received, count.frames, "{}", path.display());
        let mut sums = Sums::default();
        for record in &records {
            sums += Sums { packets: record.packets(), octets: record.octets() };
        }
        for cause in NoFlow::ALL {
            sums += ledger.no_flow[cause as usize];
        }
        assert_eq!(sums, count.frames, "{}", path.display());
        total += sums;
    }
    eprintln!("{total:?}");
}

#[test]
fn a_look_ahead_changes_nothing() {
    for path in capture_files("a_look_ahead_changes_nothing") {
        let Some((records, _, ledger)) = flows_of(&path) else { continue };
        let mut keep = Keep::default();
        let limits = Limits { memory_bytes: Limits::MEMORY_BYTES_MIN, ..Limits::default() };
        let table = FlowTable::new(limits).unwrap();
        let mut flows = FlowObserver::new(table, vec![Box::new(&mut keep)]);
        let mut source = ringside_store::open(std::slice::from_ref(&path)).unwrap();
        Pump::new(vec![Box::new(Blind(&mut flows))]).run(&mut *source, LaneId(0), &|| false);
        assert_eq!(*flows.table().ledger(), ledger, "{}", path.display());
        drop(flows);
        assert_eq!(keep.0, records, "{}", path.display());
    }
}

/// Packets from the one end to the other and back.
type Conversations = BTreeMap<[String; 2], [u64; 2]>;

/// TCP and UDP of our records, with the ends in the order of their text.
fn ours(records: &[Record], protocol: IpProtocol) -> Conversations {
    let mut found = Conversations::new();
    for record in records.iter().filter(|record| record.protocol == protocol) {
        let from = format!("{}:{}", record.source, record.source_port);
        let to = format!("{}:{}", record.destination, record.destination_port);
        // Without ports there is no conversation: the header is cut or wrong.
        if record.source_port != 0 || record.destination_port != 0 {
            add(&mut found, from, to, [record.forward.packets, record.reverse.packets]);
        }
    }
    found
}

fn add(found: &mut Conversations, from: String, to: String, packets: [u64; 2]) {
    let is_in_order = from <= to;
    let (key, [there, back]) = match is_in_order {
        true => ([from, to], packets),
        false => ([to, from], [packets[1], packets[0]]),
    };
    let sums = found.entry(key).or_default();
    (sums[0], sums[1]) = (sums[0] + there, sums[1] + back);
}

/// What `-z conv,…` lists: `A <-> B`, frames and bytes from B to A, from A to B, and of both.
fn tsharks(path: &Path, protocol: &str) -> Conversations {
    let conv = format!("conv,{protocol}");
    let off = ["ip.defragment:FALSE", "ipv6.defragment:FALSE"];
    let args = ["-n", "-q", "-o", off[0], "-o", off[1], "-z", &conv, "-r"];
    let answer = judge::ask("tshark", &args, path);
    let mut found = Conversations::new();
    for line in answer.text().lines().filter(|line| line.contains(" <-> ")) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let numbers: Vec<u64> = words[3..].iter().filter_map(|word| word.parse().ok()).collect();
        // Frames and bytes by turns; of a large number the unit is another.
        add(&mut found, words[0].into(), words[2].into(), [numbers[2], numbers[0]]);
    }
    found
}

/// Where both mean the same: docs/flows.md says where they do not.
#[test]
fn flows_are_tsharks_conversations() {
    let test = "flows_are_tsharks_conversations";
    if !need_tool(test, "tshark") {
        return;
    }
    let (mut compared, mut conversations, mut left_out) = (0, 0, BTreeMap::new());
    let mut wrong = Vec::new();
    // Each file costs two starts of tshark, the first time on a machine.
    for path in capture_sample(test, 16) {
        let Some((records, count, _)) = flows_of(&path) else { continue };
        if let Some(why) = count.differs {
            *left_out.entry(why).or_insert(0) += 1;
            continue;
        }
        for (name, protocol) in [("tcp", IpProtocol::TCP), ("udp", IpProtocol::UDP)] {
            let (mut ours, mut theirs) = (ours(&records, protocol), tsharks(&path, name));
            conversations += theirs.len();
            let both = ours.clone();
            ours.retain(|ends, packets| theirs.get(ends) != Some(packets));
            theirs.retain(|ends, packets| both.get(ends) != Some(packets));
            if !ours.is_empty() || !theirs.is_empty() {
                wrong.push(format!("{} {name}: {ours:?}, tshark {theirs:?}", path.display()));
            }
        }
        compared += 1;
    }
    eprintln!("{compared} files, {conversations} conversations; left out {left_out:?}");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
