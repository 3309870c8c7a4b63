//! Missing privileges.

use super::support::*;
use crate::common::user::{nobody, public_folder};
use crate::common::*;
use ringside_testkit::need_root;
use std::path::Path;
use std::process::Command;

#[test]
fn without_privileges_the_capability_and_the_command_are_named() {
    if !need_root("without_privileges") {
        return;
    }
    let network = Network::up();
    let (_folder, program) = public_folder();
    for backend in ["af-packet", "pcap"] {
        let args = ["capture", "-i", "rx0", "--backend", backend];
        let outcome = nobody(network.receiver(), "-all", &program, &args);
        assert_eq!(outcome.code(), Some(2), "{}", outcome.stderr);
        for text in ["rx0", "CAP_NET_RAW", "sudo", "setcap "] {
            assert!(outcome.stderr.contains(text), "{backend}: {text}: {}", outcome.stderr);
        }
    }
    let send = ["send", "-i", "rx0", "-c", "1", "--engine"];
    for engine in ["auto", "af-xdp", "af-packet", "pcap"] {
        let outcome =
            nobody(network.receiver(), "-all", &program, &[&send[..], &[engine]].concat());
        assert_eq!(outcome.code(), Some(2), "{}", outcome.stderr);
        for text in ["ermitted", "sudo", "setcap "] {
            assert!(outcome.stderr.contains(text), "{engine}: {text}: {}", outcome.stderr);
        }
    }
    let args = ["capture", "--netns", network.receiver(), "-i", "rx0"];
    let outcome = nobody(network.sender(), "-all", &program, &args);
    assert_eq!(outcome.code(), Some(2), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("needs root"), "{}", outcome.stderr);
    let outcome = nobody(network.sender(), "-all", &program, &["lab", "up", "--name", "e2e-no"]);
    assert_eq!(outcome.code(), Some(2), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("root"), "{}", outcome.stderr);
}

#[test]
fn a_directory_that_may_not_be_written_is_named() {
    if !need_root("a_directory_that_may_not_be_written") {
        return;
    }
    let network = Network::up();
    let (folder, program) = public_folder();
    let capabilities = "+net_raw,+net_admin";
    for output in
        [folder.path().to_owned(), folder.path().join("new"), folder.path().join("a.pcap")]
    {
        let args = ["capture", "-Qin", "-i", "rx0", "-w", arg(&output)];
        let outcome = nobody(network.receiver(), capabilities, &program, &args);
        let said = &outcome.stderr;
        assert_eq!(outcome.code(), Some(2), "{said}");
        assert!(said.contains(arg(&output)), "{said}");
        assert_eq!(said.matches("Permission denied").count(), 1, "{said}");
        assert!(!said.contains("listening on"), "{said}");
    }
}

#[test]
fn without_bpf_a_filter_runs_in_the_worker_and_the_counts_are_exact() {
    if !need_root("without_bpf") {
        return;
    }
    let network = Network::up();
    let (_folder, program) = public_folder();
    let namespace = network.receiver().to_owned();
    let args = ["capture", "-i", "rx0", "-Qin", "-c", "50", "--count", "--json", "greater 90"];
    let run = std::thread::scope(|scope| {
        let capture = scope.spawn(|| nobody(&namespace, "+net_raw,+net_admin", &program, &args));
        // Frames until the fifty have come: when the capture listens is not seen here.
        while !capture.is_finished() {
            send(&network, 60, 10);
            send(&network, 100, 10);
        }
        capture.join().unwrap()
    });
    assert!(run.stderr.contains("setcap cap_bpf"), "{}", run.stderr);
    assert_eq!(run.code(), Some(0), "{}", run.stderr);
    let ledger = run.ledger();
    check_ledger(&ledger, ledger.received.unwrap());
    assert_eq!(ledger.taken, 50);
    assert!(ledger.filtered.unwrap() >= 40, "{ledger:#?}");
}

#[test]
fn without_root_the_control_socket_lies_with_the_user_or_nowhere() {
    if !need_root("without_root_the_control_socket") {
        return;
    }
    let network = Network::up();
    let (folder, program) = public_folder();
    let user = folder.path().join("user");
    std::fs::create_dir(&user).unwrap();
    std::os::unix::fs::chown(&user, Some(65534), Some(65534)).unwrap();
    let capture = |runtime: &str| {
        let runtime = format!("XDG_RUNTIME_DIR={runtime}");
        let run = ["capture", "-i", "rx0", "--count", "--for", "0.1s"];
        let args = [&[&runtime, "RINGSIDE_LOG=info", arg(&program)], &run[..]].concat();
        let outcome = nobody(network.receiver(), "+net_raw,+net_admin", Path::new("env"), &args);
        assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
        outcome.stderr
    };
    let said = capture(arg(&user));
    let place = format!("control socket {}/ringside/capture-", user.display());
    assert!(said.contains(&place), "{said}");
    // Only the file that is locked while sockets come and go.
    assert_eq!(
        std::fs::read_dir(user.join("ringside")).unwrap().count(),
        1,
        "it goes with the run"
    );
    let said = capture("");
    assert!(said.contains("there is no control socket"), "{said}");
}

/// The id of the user that a run of root's becomes.
fn without_rights() -> String {
    let found = Command::new("id").args(["-u", "ringside"]).output().unwrap();
    let text = String::from_utf8(found.stdout).unwrap();
    if found.status.success() { text.trim().to_owned() } else { "65534".to_owned() }
}

/// Every thread of the worker has these rights, the keeper these capabilities.
fn check_rights(running: &Running, user: &str, worker: u64, keeper: u64) {
    let threads_of_worker = threads(running.worker_pid());
    assert!(threads_of_worker.len() >= 3, "{threads_of_worker:?}");
    for [name, uid, permitted, no_new_privileges, seccomp] in threads_of_worker {
        assert_eq!((uid.as_str(), &*permitted), (user, &*format!("{worker:016x}")), "{name}");
        assert_eq!((&*no_new_privileges, &*seccomp), ("1", "2"), "{name}");
    }
    // The keeper hears that the run has begun when it gets to it.
    let permitted = format!("{keeper:016x}");
    wait_until("the keeper's rights", || {
        let threads = threads(running.pid());
        threads.iter().all(|[_, _, has, no_new, seccomp]| {
            (has, no_new.as_str(), seccomp.as_str()) == (&permitted, "1", "2")
        })
    });
}

const CAP_DAC_OVERRIDE: u64 = 1 << 1;
const CAP_KILL: u64 = 1 << 5;

#[test]
fn a_run_has_the_capabilities_that_the_document_lists() {
    if !need_root("a_run_has_the_capabilities") {
        return;
    }
    let network = Network::up();
    let folder = tempfile::tempdir().unwrap();
    let [own, others] = ["own", "others"].map(|name| folder.path().join(name));
    std::fs::create_dir(&others).unwrap();
    let uid = without_rights().parse().unwrap();
    std::os::unix::fs::chown(&others, Some(uid), Some(uid)).unwrap();
    let file = folder.path().join("a.pcapng");
    let other = &*without_rights();
    let cases: [(&[&str], &str, u64, u64); 5] = [
        (&["udp"], other, 0, 0),
        (&["-w", arg(&own), "udp"], other, 0, CAP_DAC_OVERRIDE),
        (&["-w", arg(&file), "udp"], "0", 0, 0),
        (&["-w", arg(&others), "udp"], other, 0, CAP_DAC_OVERRIDE),
        (&["-w", arg(&others), "--user", "root"], "0", CAP_DAC_OVERRIDE, CAP_DAC_OVERRIDE),
    ];
    for (args, user, worker, keeper) in cases {
        let running = network.capture(&[&["-i", "rx0"], args].concat());
        check_rights(&running, user, worker, keeper | CAP_KILL);
        let report = send(&network, 200, 500);
        let ledger = running.stop().checked_ledger(report.handed);
        assert_eq!((ledger.taken, ledger.filtered), (500, Some(0)), "{args:?}");
    }
}

#[test]
fn another_user_records_files_of_its_own() {
    use std::os::unix::fs::MetadataExt;
    if !need_root("another_user_records") {
        return;
    }
    let network = Network::up();
    let (folder, _) = public_folder();
    let directory = folder.path().join("recording");
    let args = ["-i", "rx0", "-w", arg(&directory), "--user", "nobody"];
    let running = network.capture(&args);
    check_rights(&running, "65534", 0, CAP_DAC_OVERRIDE | CAP_KILL);
    let report = send(&network, 200, 500);
    running.stop().checked_ledger(report.handed);
    let owners = |path: &Path| std::fs::metadata(path).unwrap().uid();
    assert_eq!(owners(&directory), 65534);
    for file in files_in(&directory) {
        assert_eq!(owners(&file), 65534, "{}", file.display());
    }
    assert_eq!(count(&[directory]), 500);
    let unknown = network.capture_command().args(["-i", "rx0", "--user", "rsafp-none"]).output();
    let said = String::from_utf8(unknown.unwrap().stderr).unwrap();
    assert!(said.contains("--user rsafp-none: there is no such user"), "{said}");
}
