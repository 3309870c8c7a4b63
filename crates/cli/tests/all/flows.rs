//! `flows`: of files, of a live interface next to a recorder, of an attached ring; the accounts.

use crate::common::flow_runs::{flow_counts, send_flows, start_flows};
use crate::common::*;
use ringside_core::Ledger;
use ringside_lab::LabConfig;
use ringside_testkit::{by_run, capture_files, need_root};
use ringside_transmit::{SenderKind, Shape, Sizes};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// What was written: records, and the objects at the end.
struct Written {
    records: Vec<Value>,
    ledger: Option<Ledger>,
    account: Value,
}

impl Written {
    fn of(outcome: &Outcome) -> Written {
        let mut records = outcome.json_lines();
        let account = records.pop().expect("an account")["account"].take();
        assert_eq!(account["balances"], true, "{account}");
        let at = records.iter().position(|line| line.get("ledger").is_some());
        let ledger = at.map(|at| records.remove(at)["ledger"].take());
        let ledger = ledger.map(|ledger| serde_json::from_value(ledger).unwrap());
        Written { records, ledger, account }
    }

    fn flows(&self) -> BTreeMap<String, [u64; 4]> {
        flow_counts(&self.records)
    }

    /// Packets that the flow table was given.
    fn received(&self) -> u64 {
        self.account["received"]["packets"].as_u64().unwrap()
    }
}

fn flows(args: &[&str]) -> Outcome {
    run_ringside(&[&["flows"], args].concat())
}

fn of_file(path: &Path) -> Written {
    let outcome = flows(&["-r", arg(path), "--json"]);
    assert!(matches!(outcome.code(), Some(0 | 1)), "{}", outcome.stderr);
    Written::of(&outcome)
}

#[test]
fn flows_of_files_account_for_every_packet_that_is_read() {
    for path in capture_files("flows_of_files").into_iter().take(40) {
        let packets = run_ringside(&["read", "-r", arg(&path), "--json"]);
        if packets.code() == Some(2) {
            continue;
        }
        let written = of_file(&path);
        let count = packets.text().lines().count() as u64;
        assert_eq!(written.received(), count, "{}", path.display());
        // The table shows the same sums, and so do groups.
        let table = flows(&["-r", arg(&path), "--top", "3"]);
        assert_eq!(table.code(), packets.code(), "{}", table.stderr);
        let groups = flows(&["-r", arg(&path), "--json", "--group", "protocol,src/16"]);
        let groups = groups.json_lines();
        let (account, groups) = groups.split_last().unwrap();
        assert_eq!(account["account"]["exported"], written.account["exported"]);
        let sum: u64 = groups.iter().map(|group| group["packets"].as_u64().unwrap()).sum();
        assert_eq!(Value::from(sum), written.account["exported"]["packets"]);
    }
}

/// `ringside flows ARGS` of what rx0 receives, once it listens.
fn start(network: &Network, args: &[&str]) -> Running {
    start_flows(network, &[args, &["-Q", "in"]].concat())
}

#[test]
fn live_flows_are_those_of_the_recording_and_of_the_attached_ring() {
    if !need_root("live_flows_are_those_of_the_recording") {
        return;
    }
    let (network, folder) = (Network::up(), tempfile::tempdir().unwrap());
    let (recording, socket) = (folder.path().join("recording"), folder.path().join("share"));
    let capture = network.capture(&["-i", "rx0", "--share", arg(&socket), "-w", arg(&recording)]);
    let mut attach = Command::new(ringside());
    attach.args(["flows", "--attach", arg(&socket), "--json", "--no-control"]);
    let attached = Running::start(attach);
    attached.wait_for_stderr("listening on");
    let copy = folder.path().join("copy");
    let recorded = start(&network, &["--json", "--no-control", "-w", arg(&copy)]);
    let alone = start(&network, &["--json", "--no-control"]);
    send_flows(&network, 300, 30_000);
    let sent = network.received();
    let of_live = [alone.stop(), recorded.stop()].map(|outcome| {
        assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
        Written::of(&outcome)
    });
    capture.stop().checked_ledger(sent);
    let attached = Written::of(&attached.finish());
    let stored = of_file(&recording);
    for written in &of_live {
        check_ledger(written.ledger.as_ref().unwrap(), sent);
        assert_eq!(written.received(), sent);
        assert_eq!(written.account["received"]["bytes"], stored.account["received"]["bytes"]);
        assert_eq!(written.flows(), stored.flows());
    }
    assert_eq!((attached.received(), attached.flows()), (sent, stored.flows()));
    assert_eq!(of_file(&copy).flows(), stored.flows());
    let from_start = stored.flows().into_values().map(|counts| counts[0]).sum::<u64>();
    assert!(from_start >= 30_000, "{from_start}");
}

/// A table that holds some thousand flows.
const SMALL_TABLE: &str = "2MiB";

#[test]
fn records_and_named_losses_are_what_the_interface_counted_at_every_fill() {
    if !need_root("records_and_named_losses_are_what_the_interface_counted") {
        return;
    }
    let room = small_table_run(1, 1, 100).account["flows_max"].as_u64().unwrap();
    // As many frames as two flows for each entry, at least.
    let frames = by_run(50_000, 12_500_000);
    assert!((1_000..frames / 2).contains(&room), "{room}");
    for queues in [1, 4] {
        for percent in [1, 50, 100, 200] {
            let flows = u32::try_from(room * percent / 100).unwrap();
            let written = small_table_run(queues, flows, frames);
            let sum =
                |name| written.records.iter().map(|group| group[name].as_u64().unwrap()).sum();
            let exported = &written.account["exported"];
            let sums: [u64; 2] = ["packets", "bytes"].map(sum);
            assert_eq!(Value::from(sums[0]), exported["packets"]);
            assert_eq!(Value::from(sums[1]), exported["bytes"]);
            // Without loss each frame is in a record; a lost one is in the ledger, by its cause.
            let ledger = written.ledger.as_ref().unwrap();
            assert_eq!(sums[0] + ledger.lost(), ledger.received.unwrap(), "{ledger:#?}");
            let evicted =
                written.account["records"]["lack_of_resources"].as_u64().unwrap_or_default();
            match percent {
                200 => assert!(evicted > 0, "{}", written.account),
                1 => assert_eq!(evicted, 0, "{}", written.account),
                // A set of entries may be full before all are.
                _ => {}
            }
        }
    }
}

/// Groups of what `flows` with a small table made of these frames; its ledger is checked.
fn small_table_run(queues: u16, flows: u32, frames: u64) -> Written {
    let network = Network::with(LabConfig { queues, ..LabConfig::default() });
    let lanes = queues.to_string();
    let args = ["--json", "--no-control", "--group", "protocol", "--flow-memory", SMALL_TABLE];
    let live = start(&network, &[&args[..], &["--queues", &lanes]].concat());
    let shape = Shape::new(Sizes::fixed(64).unwrap(), flows).unwrap();
    network.send(SenderKind::Live, &shape, frames, None);
    let sent = network.received();
    assert!(sent >= frames, "{sent}");
    let outcome = live.stop();
    assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
    let written = Written::of(&outcome);
    check_ledger(written.ledger.as_ref().unwrap(), sent);
    written
}

#[test]
fn time_outs_change_while_it_runs() {
    if !need_root("time_outs_change_while_it_runs") {
        return;
    }
    let (network, folder) = (Network::up(), tempfile::tempdir().unwrap());
    let socket = folder.path().join("control");
    let live = start(&network, &["--json", "--control", arg(&socket), "--idle", "2h"]);
    let order = |args: &[&str]| run_ringside(&[&["control", arg(&socket), "flows"], args].concat());
    let timeouts = || {
        let reply = order(&["--json"]).json_lines().remove(0);
        let flows = &reply["flows"];
        [&flows["idle_ms"], &flows["active_ms"]].map(|ms| ms.as_u64().unwrap())
    };
    assert_eq!(timeouts(), [7_200_000, 60_000]);
    let wrong = order(&["--idle", "3h"]);
    assert_eq!(wrong.code(), Some(2));
    assert!(wrong.stderr.contains("two hours"), "{}", wrong.stderr);
    assert_eq!(order(&["--idle", "100ms"]).code(), Some(0));
    // The time of packets has to go on.
    wait_until("the new time-out", || {
        send_flows(&network, 5, 10);
        timeouts() == [100, 60_000]
    });
    wait_until("records of idle flows", || {
        send_flows(&network, 5, 1);
        String::from_utf8_lossy(&live.stdout_so_far()).contains(r#""end":"idle""#)
    });
    let sent = network.received();
    let written = Written::of(&live.stop());
    assert_eq!(written.received(), sent);
    check_ledger(written.ledger.as_ref().unwrap(), sent);
}

#[test]
fn a_stream_has_the_flows_of_its_file() {
    for path in capture_files("a_stream_has_the_flows_of_its_file").into_iter().take(10) {
        let mut command = Command::new("sh");
        command.args(["-c", "cat \"$1\" | \"$2\" flows -r - --json", "sh", arg(&path)]);
        let stream = Running::start({
            command.arg(ringside());
            command
        });
        let (stream, file) = (stream.finish(), flows(&["-r", arg(&path), "--json"]));
        assert_eq!(stream.code(), file.code(), "{}", path.display());
        assert_eq!(stream.stdout, file.stdout, "{}", path.display());
    }
}

#[test]
fn records_that_cannot_be_written_are_an_error_and_a_closed_pipe_is_none() {
    let test = "records_that_cannot_be_written";
    let Some(path) = capture_files(test).into_iter().find(|path| of_file(path).received() > 20)
    else {
        return;
    };
    let shell = |line: &str| run("bash", &["-c", line, "bash", arg(&ringside()), arg(&path)]);
    for format in ["--csv", "--json"] {
        let full = shell(&format!("\"$1\" flows -r \"$2\" {format} > /dev/full"));
        assert_eq!(full.code(), Some(2), "{format}: {}", full.stderr);
        assert!(full.stderr.contains("write_failed"), "{format}: {}", full.stderr);
        assert!(full.stderr.contains("No space left"), "{format}: {}", full.stderr);
        let closed = shell(&format!("set -o pipefail; \"$1\" flows -r \"$2\" {format} | true"));
        assert_eq!(closed.code(), Some(0), "{format}: {}", closed.stderr);
    }
}

#[test]
fn a_live_run_ends_when_its_records_cannot_be_written() {
    if !need_root("a_live_run_ends_when_its_records_cannot_be_written") {
        return;
    }
    let network = Network::up();
    let mut command = Command::new("sh");
    let line =
        "exec \"$0\" flows --netns \"$1\" -i rx0 --json --no-control --active 100ms > /dev/full";
    command.args(["-c", line, arg(&ringside()), network.receiver()]);
    let live = Running::start(command);
    live.wait_for_stderr("listening on");
    wait_until("the end of the run", || {
        send_flows(&network, 5, 10);
        live.is_over()
    });
    let outcome = live.finish();
    assert_eq!(outcome.code(), Some(2), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("No space left"), "{}", outcome.stderr);
}

#[test]
fn what_does_not_go_together_is_refused_with_what_does() {
    for (args, said) in [
        (&["-i", "rx0", "-r", "x"][..], "cannot be used with"),
        (&["--attach", "x", "-i", "rx0"], "cannot be used with"),
        (&[], "--interface"),
        (&["-r", "x", "--group", "sorce"], "src/24"),
        (&["-r", "x", "--by", "size"], "bytes, packets, flows"),
        (&["-r", "x", "--names", "zek", "--json"], "zeek"),
        (&["-r", "x", "--names", "zeek"], "--json or --csv"),
        (&["-r", "x", "-w", "y"], "ringside read -w"),
        (&["-i", "rx0", "-w", "-"], "standard output"),
        (&["-i", "rx0", "--last", "10m"], "--attach"),
        (&["-r", "x", "--idle", "3h"], "two hours"),
        (&["-r", "x", "--flow-memory", "1MiB"], "at least 2097152"),
        (&["-r", "x", "--flow-memory", "100TB"], "are available"),
        (&["-r", "x", "--export", "192.0.2.1"], "udp:HOST:PORT"),
        (&["-r", "x", "--export", "tcp:a", "--export-format", "netflow9"], "IPFIX alone"),
        (&["-r", "x", "--export", "udp:a", "--spool", "y"], "by TCP"),
        (&["-r", "x", "--export", "udp:a", "--export", "udp:a"], "twice"),
        (&["-r", "x", "--spool", "y"], "--export"),
        (&["-r", "/does/not/exist"], "/does/not/exist"),
    ] {
        let outcome = flows(args);
        assert_eq!(outcome.code(), Some(2), "{args:?}");
        assert!(outcome.stderr.contains(said), "{args:?}: {}", outcome.stderr);
    }
}
