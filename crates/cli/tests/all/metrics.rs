//! Metrics of a run, from a process next to it, for every user of this host.

use crate::common::folder::Folder;
use crate::common::user::nobody;
use crate::common::*;
use ringside_testkit::{need_root, need_tool};
use ringside_transmit::{SenderKind, Shape, Sizes};
use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

const LOAD: u64 = 1_000;

/// What a user without rights is answered.
fn ask(network: &Network, socket: &Path, path: &str) -> Outcome {
    let url = format!("http://localhost{path}");
    let args = ["--silent", "--fail", "--unix-socket", arg(socket), &url];
    nobody(network.receiver(), "-all", Path::new("curl"), &args)
}

#[test]
fn counts_of_a_run_are_there_for_every_user_as_long_as_it_lasts() {
    let test = "metrics::counts_of_a_run";
    if !need_root(test) || !need_tool(test, "curl") {
        return;
    }
    let (network, folder) = (Network::up(), tempfile::tempdir().unwrap());
    std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let socket = folder.path().join("metrics.sock");
    let place = format!("unix:{}", arg(&socket));
    let run = network.capture(&["-i", "rx0", "--metrics", &place]);
    assert!(run.stderr_so_far().contains(&format!("metrics at {place}")));
    let shape = Shape::new(Sizes::fixed(64).unwrap(), 16).unwrap();
    assert_eq!(network.send(SenderKind::Live, &shape, LOAD, Some(50_000)).handed, LOAD);
    wait_until("frames in the metrics", || {
        let metrics = ask(&network, &socket, "/metrics").text();
        let mut taken = metrics.lines().filter(|line| line.starts_with("ringside_taken_frames"));
        taken.any(|line| line.contains("rx0") && line.ends_with(&format!(" {LOAD}")))
    });
    for other in ["/", "/api/v1/captures", "/api/v1/session"] {
        assert_eq!(ask(&network, &socket, other).code(), Some(22), "{other}");
    }
    let outcome = run.stop();
    outcome.checked_ledger(LOAD);
    assert!(!socket.exists(), "it ended with the run");
}

#[test]
fn it_ends_as_its_run_is_killed() {
    if !need_root("metrics::it_ends_as_its_run_is_killed") {
        return;
    }
    let (network, folder) = (Network::up(), Folder::new());
    let socket = folder.path("metrics.sock");
    let place = format!("unix:{}", arg(&socket));
    let run = network.capture(&["-i", "rx0", "--metrics", &place]);
    assert!(UnixStream::connect(&socket).is_ok());
    run.signal(rustix::process::Signal::KILL);
    run.finish();
    wait_until("the end of the service", || !socket.exists());
}

#[test]
fn a_place_that_is_taken_or_wrong_begins_no_run() {
    let (folder, taken) = (Folder::new(), std::net::TcpListener::bind("127.0.0.1:0").unwrap());
    let taken = taken.local_addr().unwrap().to_string();
    let file = folder.add("empty.pcap", b"");
    for (place, words) in [
        (taken.as_str(), "cannot listen at"),
        ("0.0.0.0:9184", "can be reached from other hosts"),
        ("9184", "unix:PATH"),
    ] {
        let outcome = run_ringside(&["capture", "-r", arg(&file), "--metrics", place]);
        assert_eq!(outcome.code(), Some(2), "{outcome:?}");
        assert!(outcome.stderr.contains(words), "{place}: {outcome:?}");
    }
}

#[test]
fn its_address_is_said_as_prometheus_asks_for_it() {
    let folder = Folder::new();
    let file = folder.path("empty.pcap");
    write_pcap(&file, std::iter::empty());
    let args = ["capture", "-r", arg(&file), "--count", "--metrics", "127.0.0.1:0"];
    let outcome = run_ringside(&args);
    assert_eq!(outcome.code(), Some(0), "{outcome:?}");
    let mut said = outcome.stderr.lines().filter_map(|line| line.strip_prefix("metrics at "));
    let address = said.next().unwrap();
    assert!(address.starts_with("http://127.0.0.1:") && address.ends_with("/metrics"), "{address}");
}
