//! Missing privileges.

use crate::common::*;
use crate::support::*;
use ringside_testkit::need_root;
use std::path::Path;
use std::process::Command;

/// `nobody`, with these capabilities only, in a network namespace.
fn nobody(namespace: &str, capabilities: &str, program: &Path, args: &[&str]) -> Outcome {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", namespace, "setpriv", "--reuid=65534", "--regid=65534"]);
    command.args(["--clear-groups", &format!("--inh-caps={capabilities}")]);
    if capabilities != "-all" {
        command.arg(format!("--ambient-caps={capabilities}"));
    }
    command.arg(program).args(args);
    Running::start(command).finish()
}

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
        let args = ["capture", "-i", "rx0", "-w", arg(&output)];
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
    let args = ["capture", "-i", "rx0", "-c", "50", "--json", "greater 90"];
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
        let run = ["capture", "-i", "rx0", "--for", "0.1s"];
        let args = [&[&runtime, "RINGSIDE_LOG=info", arg(&program)], &run[..]].concat();
        let outcome = nobody(network.receiver(), "+net_raw,+net_admin", Path::new("env"), &args);
        assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
        outcome.stderr
    };
    let said = capture(arg(&user));
    let place = format!("control socket {}/ringside/capture-", user.display());
    assert!(said.contains(&place), "{said}");
    assert_eq!(
        std::fs::read_dir(user.join("ringside")).unwrap().count(),
        0,
        "it goes with the run"
    );
    let said = capture("");
    assert!(said.contains("there is no control socket"), "{said}");
}
