//! Suricata, unmodified, over a shared ring with our library preloaded: the events that it finds in
//! the file which was recorded meanwhile.

use super::*;
use ringside_testkit::skip;
use serde_json::Value;
use std::collections::BTreeMap;

const RULES: &str = "alert tcp any any -> any any (msg:\"syn\"; flags:S; sid:1; rev:1;)\n\
    alert dns any any -> any any (msg:\"dns\"; sid:2; rev:1;)\n";

/// One thread that sees all packets in order, so that both runs see the same; offloaded checksums
/// are not looked at, and what was counted is said each second.
const ARGS: [&str; 6] = ["--runmode", "single", "-k", "none", "--set", "stats.interval=1"];

/// How often each event came, by what it says of the packets: kind, ends, protocol, alert.
fn events(folder: &Path) -> BTreeMap<String, u32> {
    let text = std::fs::read_to_string(folder.join("eve.json")).unwrap();
    let mut events = BTreeMap::new();
    for line in text.lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        if event["event_type"] == "stats" {
            continue;
        }
        let names = ["event_type", "src_ip", "src_port", "dest_ip", "dest_port", "proto"];
        let mut said: Vec<String> = names.iter().map(|name| event[name].to_string()).collect();
        said.push(event["alert"]["signature"].to_string());
        *events.entry(said.join(" ")).or_default() += 1;
    }
    events
}

/// What Suricata counted last.
fn last_statistics(folder: &Path) -> Value {
    let text = std::fs::read_to_string(folder.join("eve.json")).unwrap_or_default();
    // The last line may not be whole yet.
    let events = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let last = events.rev().find(|event| event["event_type"] == "stats");
    last.map_or(Value::Null, |event| event["stats"].clone())
}

fn packets(folder: &Path) -> Option<u64> {
    last_statistics(folder)["decoder"]["pkts"].as_u64()
}

#[test]
fn suricata_finds_the_same_over_a_ring_as_over_the_file() {
    let test = "suricata_finds_the_same_over_a_ring_as_over_the_file";
    if Command::new("suricata").arg("-V").output().is_err() {
        return skip(test, "needs suricata, which Debian's backports have");
    }
    if !need_root(test) {
        return;
    }
    let Some(sent) = real_frames(test) else { return };
    let network = Network::up();
    let folder = tempfile::tempdir().unwrap();
    let place = |name: &str| folder.path().join(name);
    let [socket, recorded, rules, ring, file] =
        ["share", "recorded.pcapng", "test.rules", "ring", "file"].map(place);
    std::fs::write(&rules, RULES).unwrap();
    [&ring, &file].iter().for_each(|log| std::fs::create_dir(log).unwrap());

    let record = ["-i", "rx0", "--share", arg(&socket), "-w", arg(&recorded)];
    let capture = network.capture(&record);
    let device = format!("--pcap={}", shared(&socket));
    let live = [&ARGS[..], &[&device, "-l", arg(&ring), "-S", arg(&rules)]].concat();
    let suricata = preloaded(&network, "suricata", &live);
    suricata.wait_for_stdout("Engine started");
    network.replay(&sent);
    // It would wait for the device to come back after the end of the capture.
    let all_came = || network.received() >= sent.len() as u64;
    wait_until("the frames to come", || all_came() && packets(&ring) == Some(network.received()));
    suricata.signal(Signal::INT);
    let outcome = suricata.finish();
    capture.stop().checked_ledger(network.received());
    assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);

    let stored = [&ARGS[..], &["-r", arg(&recorded), "-l", arg(&file), "-S", arg(&rules)]].concat();
    run_clean("suricata", &stored);
    assert_eq!(packets(&ring), Some(frames(&recorded).len() as u64));
    assert_eq!(last_statistics(&ring)["capture"]["kernel_drops"].as_u64(), Some(0));
    let (over_ring, over_file) = (events(&ring), events(&file));
    assert!(over_ring.len() > 100, "{over_ring:?}");
    assert_eq!(over_ring, over_file);
}
