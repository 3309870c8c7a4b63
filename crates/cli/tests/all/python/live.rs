//! Python next to a capture that runs.

use super::*;
use ringside_testkit::need_root;
use ringside_transmit::{SenderKind, Shape, Sizes};
use rustix::process::Signal;

const FRAMES: u64 = 20_000;

/// A capture that shares its ring, and the socket at which it does.
fn shared(network: &Network, folder: &Path) -> (Running, PathBuf) {
    let socket = folder.join("share");
    let capture = network.capture(&["-i", "rx0", "--share", arg(&socket)]);
    (capture, socket)
}

fn send(network: &Network, frames: u64) {
    let shape = Shape::new(Sizes::fixed(100).unwrap(), 10).unwrap();
    network.send(SenderKind::Live, &shape, frames, Some(20_000));
}

#[test]
fn a_running_capture_is_read_along_to_its_end() {
    if !need_root("a_running_capture_is_read_along_to_its_end") {
        return;
    }
    let (package, folder) = (Package::new(), tempfile::tempdir().unwrap());
    let network = Network::up();
    let (capture, socket) = shared(&network, folder.path());
    let reader = Running::start(package.command(include_str!("along.py"), &[arg(&socket)]));
    reader.wait_for_stderr("ready");
    send(&network, FRAMES);
    wait_until("the capture to have all", || network.received() >= FRAMES);
    let ledger = capture.stop().checked_ledger(FRAMES);
    let outcome = reader.finish();
    assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
    let lines = outcome.json_lines();
    assert_eq!(lines[0][0], 1000, "{lines:?}");
    assert_eq!(lines[0][1]["end"], "stopped");
    // Frames that came faster than they were read are counted.
    let (read, account) = (&lines[1][0], &lines[1][1]);
    let missed = account["packets_missed"].as_u64().unwrap();
    assert_eq!(read.as_u64().unwrap() + missed, ledger.taken, "{account}");
    assert_eq!((&account["packets"], &account["end"]), (read, &json!("complete")));
}

#[test]
fn flows_of_a_running_capture_end_with_the_time_that_is_given() {
    if !need_root("flows_of_a_running_capture_end_with_the_time_that_is_given") {
        return;
    }
    let (package, folder) = (Package::new(), tempfile::tempdir().unwrap());
    let network = Network::up();
    let (capture, socket) = shared(&network, folder.path());
    send(&network, FRAMES);
    wait_until("the capture to have all", || network.received() >= FRAMES);
    // What came before is read first, so that the limit of time cuts nothing of it off.
    let script = "p = ringside.attach(sys.argv[1]).last('1h').filter('udp').limit(time='3s')\n\
        f = p.flows()\n\
        print(json.dumps([sum(r['packets'] + r['reverse_packets'] for r in rows(f)), f.ledger()]))";
    let found = package.lines(script, &[arg(&socket)]);
    let account = &found[0][1]["records"];
    assert_eq!(found[0][0], FRAMES, "{found:?}");
    assert_eq!(account["balances"], true, "{account}");
    assert_eq!(account["exported"]["packets"], FRAMES, "{account}");
    capture.stop().checked_ledger(FRAMES);
}

#[test]
fn ctrl_c_ends_a_reading_that_waits() {
    if !need_root("ctrl_c_ends_a_reading_that_waits") {
        return;
    }
    let (package, folder) = (Package::new(), tempfile::tempdir().unwrap());
    let network = Network::up();
    let (capture, socket) = shared(&network, folder.path());
    for way in ["count", "one by one", "columns"] {
        let command = package.command(include_str!("interrupted.py"), &[arg(&socket), way]);
        let reader = Running::start(command);
        reader.wait_for_stderr("ready");
        reader.signal(Signal::INT);
        let outcome = reader.finish();
        assert_eq!(outcome.code(), Some(0), "{way}: {}", outcome.stderr);
        assert!(outcome.text().contains("KeyboardInterrupt"), "{way}: {}", outcome.text());
    }
    capture.stop();
}
