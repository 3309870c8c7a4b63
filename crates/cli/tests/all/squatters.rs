//! Names and locks that any user may take stop no other user's run.

use crate::common::user::public_folder;
use crate::common::*;
use ringside_sys::netns::Namespace;
use ringside_testkit::need_bpf_fs;
use ringside_transmit::{SenderKind, Shape, Sizes};
use std::fs::{Permissions, create_dir, set_permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::process::Command;

/// Binds abstract names, says so, and keeps them until it is ended.
const BIND: &str = "
import signal, socket, sys
kept = []
for name in sys.argv[1:]:
    kept.append(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
    kept[-1].bind('\\0' + name)
print('bound', flush=True)
signal.pause()
";

/// Tries to take the lock of each file that it may open.
const LOCK: &str = "
import fcntl, sys
for name in sys.argv[1:]:
    try:
        fcntl.flock(open(name), fcntl.LOCK_EX | fcntl.LOCK_NB)
        print('has', name)
    except PermissionError:
        print('may not open', name)
    except BlockingIOError:
        print('may wait for', name)
";

/// A program as a user without rights.
fn nobody() -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    command
}

/// All that a user without rights can take of an interface in `namespace`: the names of all places
/// among the programs, and the turn to change them, plain and as processes of ours make them.
fn squat(namespace: &str, ifindex: u32) -> Running {
    let places = ["turn", "0", "1", "2", "3"];
    let plain = places.map(|place| format!("ringside-xdp.{ifindex}.{place}"));
    let ours = places.map(|place| format!("ringside-xdp.{ifindex}.{place}.1-{:016x}", 7));
    let mut command = Command::new("ip");
    command.args(["netns", "exec", namespace, "setpriv", "--reuid=65534", "--regid=65534"]);
    command.args(["--clear-groups", "/usr/bin/python3", "-c", BIND]).args(plain).args(ours);
    let running = Running::start(command);
    running.wait_for_stdout("bound");
    running
}

#[test]
fn names_that_another_user_binds_deny_no_capture_no_drop_and_no_end_of_it() {
    if !need_bpf_fs("names_that_another_user_binds") {
        return;
    }
    let network = Network::up();
    let namespace = network.receiver().to_owned();
    let entered = std::thread::spawn(move || {
        Namespace::open(&namespace).unwrap().enter().unwrap();
        ringside_netdev::by_name("rx0").unwrap().unwrap().ifindex
    });
    let squatter = squat(network.receiver(), entered.join().unwrap());
    let shape = Shape::new(Sizes::fixed(100).unwrap(), 1).unwrap();
    for backend in ["af-xdp", "xdp-ring"] {
        let running = network.capture(&["-i", "rx0", "--backend", backend]);
        network.send(SenderKind::Packet, &shape, 100, None);
        running.wait_for_stdout("\"taken\":100");
        running.stop().checked_ledger(100);
    }
    let folder = tempfile::tempdir().unwrap();
    let rules = folder.path().join("drop.rules");
    std::fs::write(&rules, "udp => drop\n").unwrap();
    let drop = |more: &[&str]| {
        run_ringside(&[&["drop"], more, &["-i", "rx0", "--netns", network.receiver()]].concat())
    };
    let pinned = drop(&["--rules", arg(&rules), "--pin", "--detach"]);
    assert_eq!(pinned.code(), Some(0), "{}", pinned.stderr);
    assert_eq!(drop(&["status"]).code(), Some(0));
    let off = drop(&["off"]);
    assert_eq!(off.code(), Some(0), "{}", off.stderr);
    assert_eq!(drop(&["status"]).code(), Some(1), "nothing is left");
    assert!(!squatter.is_over());
    squatter.signal(rustix::process::Signal::TERM);
    squatter.finish();
}

#[test]
fn who_may_read_a_recording_may_not_take_its_locks_and_is_told_what_that_hides() {
    if !ringside_testkit::need_root("who_may_read_a_recording") {
        return;
    }
    let network = Network::up();
    let (folder, program) = public_folder();
    let directory = folder.path().join("recording");
    create_dir(&directory).unwrap();
    // What is made in it is of the group.
    chown(&directory, None, Some(65534)).unwrap();
    set_permissions(&directory, Permissions::from_mode(0o2750)).unwrap();
    let running = network.capture(&["-i", "rx0", "-w", arg(&directory), "--limit-bytes", "1GiB"]);
    let shape = Shape::new(Sizes::fixed(100).unwrap(), 1).unwrap();
    network.send(SenderKind::Packet, &shape, 100, None);
    running.wait_for_stdout("\"delivered\":100");

    let entries = std::fs::read_dir(&directory).unwrap();
    let names = entries.map(|entry| entry.unwrap().path());
    let (locks, files): (Vec<_>, Vec<_>) = names.partition(|path| arg(path).ends_with(".lock"));
    assert_eq!((locks.len(), files.is_empty()), (2, false), "{locks:?} {files:?}");
    let mut command = nobody();
    command.args(["/usr/bin/python3", "-c", LOCK]).args(&locks);
    let tried = Running::start(command).finish();
    let refused = tried.text().lines().filter(|line| line.starts_with("may not open")).count();
    assert_eq!(refused, 2, "{} {}", tried.text(), tried.stderr);

    let read = || {
        let mut command = nobody();
        command.arg(&program).args(["read", "-r", arg(&directory), "-c", "1"]);
        Running::start(command).finish()
    };
    let outcome = read();
    assert_eq!(outcome.text().lines().count(), 1, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("only the user who recorded it"), "{}", outcome.stderr);
    running.stop().checked_ledger(100);
    let outcome = read();
    assert!(!outcome.stderr.contains("only the user"), "{}", outcome.stderr);
}
