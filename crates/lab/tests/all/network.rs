//! The life of a test network: made, found, kept, removed, also after its maker was killed.

use crate::common::{config, namespaces, numbered, send, tool, up};
use ringside_ebpf::{attached_program, redirect_reaches};
use ringside_lab::{Error, Lab, LabConfig, Napi, RECEIVER_ADDRESS, SENDER_ADDRESS};
use ringside_sys::netns::Namespace;
use ringside_testkit::{need_root, need_tool};
use ringside_transmit::{Job, SenderKind};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// Tells a child of these tests what to do: `hold NAME` or `keep NAME`.
const CHILD: &str = "RINGSIDE_LAB_TEST_CHILD";

fn state_file(name: &str) -> PathBuf {
    PathBuf::from(format!("/run/ringside-lab/{name}.json"))
}

fn assert_gone(name: &str) {
    assert!(!namespaces().contains(&format!("ringside-{name}-")), "{}", namespaces());
    assert!(!state_file(name).exists());
}

/// Asks `question` in a namespace of the network.
fn ask<T: Send>(namespace: &str, question: impl FnOnce(u32) -> T + Send, interface: &str) -> T {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let namespace = Namespace::open(namespace).expect("the namespace");
            namespace.enter().expect("root");
            let device = ringside_netdev::by_name(interface).expect("netlink");
            question(device.expect("the interface").ifindex)
        });
        thread.join().expect("an answer")
    })
}

#[test]
fn a_network_carries_real_programs_and_leaves_nothing() {
    let test = "a_network_carries_real_programs_and_leaves_nothing";
    if !need_root(test) || !need_tool(test, "ping") {
        return;
    }
    let name;
    {
        let lab = Lab::up(&LabConfig { queues: 2, ..config("real") }).unwrap();
        let status = lab.status();
        name = status.config.name.clone();
        assert!(status.whole && !status.leftover);
        for (from, to) in [
            (&status.sender_namespace, RECEIVER_ADDRESS),
            (&status.receiver_namespace, SENDER_ADDRESS),
            (&status.sender_namespace, SENDER_ADDRESS),
        ] {
            tool(&format!("ip netns exec {from} ping -c 3 -i 0.01 -W 10 {to}"));
        }
        let program = ask(&status.receiver_namespace, attached_program, "rx0").unwrap();
        assert!(program.is_some(), "the pass program is on rx0");
        let again = Lab::up(&status.config).unwrap_err().to_string();
        assert!(again.contains("is up already") && again.contains("remove it first"), "{again}");
    }
    assert_gone(&name);
    let error = ringside_lab::status(&name).unwrap_err().to_string();
    assert!(error.contains(&format!("no test network {name}")), "{error}");
}

#[test]
fn the_wire_is_silent_until_a_program_sends() {
    if !need_root("the_wire_is_silent_until_a_program_sends") {
        return;
    }
    let lab = up("silent");
    let report = send(&numbered(SenderKind::Live, &lab, "64", 1, 500));
    assert_eq!(report.received_by_interface, Some(500));
    let link = |namespace: &str, interface: &str| {
        tool(&format!("ip -n {namespace} -j -s link show {interface}"))
    };
    let status = lab.status();
    let far = link(&status.receiver_namespace, "rx0");
    assert!(far.contains("\"rx\":{\"bytes\":32000,\"packets\":500"), "{far}");
    assert!(far.contains("\"tx\":{\"bytes\":0,\"packets\":0"), "no host answers: {far}");
}

#[test]
fn without_the_program_the_far_end_has_no_napi() {
    if !need_root("without_the_program_the_far_end_has_no_napi") {
        return;
    }
    for xdp_pass in [true, false] {
        let lab = Lab::up(&LabConfig { xdp_pass, ..config("napi") }).unwrap();
        let reached = ask(&lab.status().sender_namespace, redirect_reaches, "tx0").unwrap();
        assert!(reached.is_none_or(|reaches| reaches == xdp_pass), "{reached:?}");
    }
}

#[test]
fn merging_makes_a_napi_without_a_program() {
    if !need_root("merging_makes_a_napi_without_a_program") {
        return;
    }
    let lab = Lab::up(&LabConfig { xdp_pass: false, gro: true, ..config("gro") }).unwrap();
    let program = ask(&lab.status().receiver_namespace, attached_program, "rx0").unwrap();
    assert_eq!(program, None);
    let report = send(&numbered(SenderKind::Live, &lab, "64", 1, 500));
    assert_eq!((report.handed, report.received_by_interface), (500, Some(500)));
}

#[test]
fn every_pair_carries_frames_of_its_own() {
    if !need_root("every_pair_carries_frames_of_its_own") {
        return;
    }
    let name;
    {
        let lab = Lab::up(&LabConfig { pairs: 3, ..config("pairs") }).unwrap();
        name = lab.status().config.name.clone();
        let wires = lab.wires();
        let ends: Vec<_> =
            wires.iter().map(|wire| wire.receiver.as_ref().unwrap().interface.as_str()).collect();
        assert_eq!(ends, ["rx0", "rx1", "rx2"]);
        for (wire, count) in wires.into_iter().zip([100, 200, 300]) {
            let job = numbered(SenderKind::Live, &lab, "64", 1, count);
            let report = send(&Job { wire, ..job });
            assert_eq!((report.handed, report.received_by_interface), (count, Some(count)));
        }
    }
    assert_gone(&name);
}

#[test]
fn napi_threads_run_where_they_are_placed() {
    if !need_root("napi_threads_run_where_they_are_placed") {
        return;
    }
    let cpu = *ringside_sys::thread::allowed_cpus().unwrap().last().unwrap();
    let pinned = |cpu: usize| {
        let tasks = tool("ps -e -o pid=,comm=");
        let ours = tasks.lines().filter(|line| line.contains("napi/rx0-"));
        let pids = ours.filter_map(|line| line.split_whitespace().next());
        let status = |pid: &str| std::fs::read_to_string(format!("/proc/{pid}/status"));
        let list = format!("Cpus_allowed_list:\t{cpu}\n");
        pids.filter_map(|pid| status(pid).ok()).filter(|text| text.contains(&list)).count()
    };
    let lab =
        Lab::up(&LabConfig { queues: 3, napi: Napi::Pinned(cpu), ..config("pinned") }).unwrap();
    assert!(pinned(cpu) >= 3);
    drop(lab);
    let refused = LabConfig { napi: Napi::Pinned(1023), ..config("pinned") };
    let error = Lab::up(&refused).unwrap_err().to_string();
    assert!(error.contains("1023") && error.contains("nproc"), "{error}");
    assert_gone(&refused.name);
}

#[test]
fn a_namespace_of_another_program_is_left_alone() {
    if !need_root("a_namespace_of_another_program_is_left_alone") {
        return;
    }
    let config = config("foreign");
    let [_, foreign] = config.namespaces();
    tool(&format!("ip netns add {foreign}"));
    assert!(matches!(Lab::up(&config), Err(Error::Foreign { name }) if name == foreign));
    assert!(namespaces().contains(&foreign) && !state_file(&config.name).exists());
    tool(&format!("ip netns delete {foreign}"));

    // The same name, made again by another program while our network was up.
    let lab = Lab::up(&config).unwrap();
    tool(&format!("ip netns delete {foreign}"));
    tool(&format!("ip netns add {foreign}"));
    assert!(!ringside_lab::status(&config.name).unwrap().whole);
    drop(lab);
    assert!(namespaces().contains(&foreign), "not ours to delete");
    tool(&format!("ip netns delete {foreign}"));
    assert_gone(&config.name);
}

/// Not a test of its own: what a child process of the tests below does.
#[test]
fn child() {
    let Ok(order) = std::env::var(CHILD) else { return };
    let (verb, name) = order.split_once(' ').unwrap();
    let lab = Lab::up(&LabConfig { name: name.into(), ..LabConfig::default() }).unwrap();
    if verb == "keep" {
        lab.keep().unwrap();
        return;
    }
    println!("up");
    // Until it is killed; its parent's end closes the pipe if that comes first.
    let _ = std::io::stdin().read_line(&mut String::new());
}

fn child_process(order: &str) -> Child {
    Command::new(std::env::current_exe().expect("this test"))
        .args(["--exact", "network::child", "--nocapture"])
        .env(CHILD, order)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a child")
}

#[test]
fn what_a_killed_process_left_is_removed_by_the_next_network() {
    if !need_root("what_a_killed_process_left_is_removed_by_the_next_network") {
        return;
    }
    let name = config("killed").name;
    let mut child = child_process(&format!("hold {name}"));
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().ends_with("up")), "the child made its network");
    let status = ringside_lab::status(&name).unwrap();
    assert_eq!((status.owner_pid, status.leftover), (Some(child.id()), false));

    child.kill().unwrap();
    child.wait().unwrap();
    let status = ringside_lab::status(&name).unwrap();
    assert!(status.leftover && status.whole, "kill -9 leaves it behind: {status:?}");

    let next = up("next");
    assert_gone(&name);
    assert!(next.status().whole);
}

#[test]
fn a_kept_network_stays_until_it_is_taken_down() {
    if !need_root("a_kept_network_stays_until_it_is_taken_down") {
        return;
    }
    let name = config("kept").name;
    assert!(child_process(&format!("keep {name}")).wait().unwrap().success());
    drop(up("other"));
    let status = ringside_lab::status(&name).unwrap();
    assert!(status.whole && !status.leftover && status.owner_pid.is_none(), "{status:?}");
    assert!(ringside_lab::list().unwrap().iter().any(|lab| lab.config.name == name));
    let program = ask(&status.receiver_namespace, attached_program, "rx0").unwrap();
    assert!(program.is_some(), "the pass program outlives the process that attached it");
    ringside_lab::down(&name).unwrap();
    assert_gone(&name);
    assert!(matches!(ringside_lab::down(&name), Err(Error::NotUp { .. })));
}
