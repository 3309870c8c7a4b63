//! `ringside route` between a VLAN and an untagged interface. The tags are those of the kernel's
//! own VLAN devices (8021q), which many test machines lack.

use crate::common::*;
use crate::net::Net;
use ringside_route::Ledger as Account;
use ringside_testkit::skip;
use std::process::Command;

/// A host `a` in VLAN 5, a router `r`, a host `b` without VLANs; none if the kernel has no VLANs.
fn hosts(test: &str) -> Option<Net> {
    let net = Net::new(&["r", "a", "b"]);
    for (number, host) in [(1, "a"), (2, "b")] {
        net.link(
            &format!("r/eth{number}/02:00:00:00:0{number}:01"),
            &format!("{host}/far/02:00:00:00:0{number}:02"),
        );
        net.pass(host, "far");
    }
    for (space, below) in [("a", "far"), ("r", "eth1")] {
        let name = net.ns(space);
        // Tags stand in the frames, as on a wire.
        run_clean("ip", &["netns", "exec", &name, "ethtool", "-K", below, "txvlan", "off"]);
        let line = format!("-n {name} link add link {below} name {below}.5 type vlan id 5");
        if run("ip", &line.split(' ').collect::<Vec<_>>()).code() != Some(0) {
            skip(test, "the kernel has no VLANs");
            return None;
        }
        net.ip(space, &format!("link set {below}.5 up"));
    }
    for (space, interface, address) in [
        ("a", "far.5", "10.1.0.2"),
        ("r", "eth1.5", "10.1.0.1"),
        ("r", "eth2", "10.2.0.1"),
        ("b", "far", "10.2.0.2"),
    ] {
        net.ip(space, &format!("addr add {address}/24 dev {interface}"));
    }
    net.ip("a", "route add default via 10.1.0.1");
    net.ip("b", "route add default via 10.2.0.1");
    net.sysctl("r", "net.ipv4.conf.all.forwarding", "1");
    Some(net)
}

#[test]
fn a_vlan_of_the_kernel_is_routed_to_an_interface_without() {
    let Some(net) = hosts("a_vlan_of_the_kernel_is_routed_to_an_interface_without") else { return };
    let mut command = Command::new("env");
    command.arg("--default-signal=INT,HUP").arg(ringside());
    command.args(["route", "--json", "--no-control", "--netns", &net.ns("r")]);
    command.args(["-i", "eth1.5", "-i", "eth2"]);
    let running = Running::start(command);
    running.wait_for_stderr("forwarding between");
    let ping = ["netns", "exec", &net.ns("a"), "ping", "-n", "-c", "20", "-i", "0.2", "-W", "20"];
    let answers = run("ip", &[&ping[..], &["10.2.0.2"]].concat()).text();
    assert!(answers.contains("20 received") && answers.contains("ttl=63"), "{answers}");
    let outcome = running.stop();
    assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
    let lines = outcome.json_lines();
    let account = lines.iter().rev().find_map(|line| line.get("route")).unwrap();
    let account: Account = serde_json::from_value(account.clone()).unwrap();
    assert_eq!(account.balance(), Ok(()), "{account:#?}");
    let [vlan, plain] = &account.interfaces[..] else { panic!("{account:#?}") };
    // The first of each way may wait for a neighbour's address, and go by the host then.
    assert!((15..=20).contains(&vlan.forwarded), "{account:#?}");
    assert!((15..=20).contains(&plain.forwarded), "{account:#?}");
    assert_eq!((vlan.sent, plain.sent), (plain.forwarded, vlan.forwarded), "{account:#?}");
}
