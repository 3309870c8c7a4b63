//! Names and locks that any user may take stop nobody else.

use crate::common::*;
use ringside_sys::netns::Namespace;
use ringside_testkit::need_bpf_fs;
use ringside_transmit::{SenderKind, Shape, Sizes};
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
        ringside_sys::netdev::by_name("rx0").unwrap().unwrap().ifindex
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
