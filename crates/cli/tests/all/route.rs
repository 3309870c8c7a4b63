//! `ringside route`: hosts with real programs, and a router between them.

use crate::common::*;

use ringside_core::{Cause, Ledger};
use ringside_route::Ledger as Account;
use ringside_testkit::{Random, by_run, need_bpf_fs, need_root};
use rustix::process::Signal;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::time::Duration;

#[path = "../../../route/tests/all/net/mod.rs"]
mod net;

use net::{Net, hosts};

/// Bytes of a TCP session.
const SESSION_BYTES: usize = 2 << 20;

/// A router between hosts.
struct Routed {
    net: Net,
    _directory: tempfile::TempDir,
    running: Running,
}

impl Routed {
    fn start() -> Routed {
        Routed::on(hosts(), &["eth1", "eth2"])
    }

    fn on(net: Net, interfaces: &[&str]) -> Routed {
        let directory = tempfile::tempdir().unwrap();
        let mut start = command(&net, interfaces);
        start.args(["--control", arg(&directory.path().join("control.sock"))]);
        let running = Running::start(start);
        running.wait_for_stderr("forwarding between");
        Routed { net, _directory: directory, running }
    }

    /// Ends it; its account and ledger balance.
    fn stop(self) -> (Net, Account, Ledger) {
        let outcome = self.running.stop();
        assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
        let lines = outcome.json_lines();
        let account = lines.iter().rev().find_map(|line| line.get("route")).unwrap();
        let account: Account = serde_json::from_value(account.clone()).unwrap();
        assert_eq!(account.balance(), Ok(()), "{account:#?}");
        let ledger = outcome.ledger();
        assert_eq!(ledger.balance(), Ok(()), "{ledger:#?}");
        (self.net, account, ledger)
    }
}

fn command(net: &Net, interfaces: &[&str]) -> Command {
    let mut command = Command::new("env");
    command.arg("--default-signal=INT,HUP").arg(ringside());
    command.args(["route", "--json", "--netns", &net.ns("r")]);
    for interface in interfaces {
        command.args(["-i", interface]);
    }
    command
}

/// Runs a program in a namespace, and gives what it said, whatever its status.
fn said(net: &Net, space: &str, line: &str) -> String {
    let name = net.ns(space);
    let words = ["netns", "exec", &name].into_iter().chain(line.split(' '));
    let output = Command::new("ip").args(words).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    String::from_utf8_lossy(&text).into_owned()
}

/// Sends a session's bytes from `a` to a server of `b`, and gets them back.
fn session(net: &Net, address: &str) {
    let listener = net.inside("b", || TcpListener::bind(address).unwrap());
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut bytes = vec![0; SESSION_BYTES];
            stream.read_exact(&mut bytes).unwrap();
            stream.write_all(&bytes).unwrap();
        });
        net.inside("a", || {
            let mut stream = TcpStream::connect(address).unwrap();
            let sent: Vec<u8> = (0..SESSION_BYTES).map(|at| (at / 3) as u8).collect();
            stream.write_all(&sent).unwrap();
            let mut back = vec![0; SESSION_BYTES];
            stream.read_exact(&mut back).unwrap();
            assert!(back == sent, "the same bytes come back");
        });
    });
}

#[test]
fn hosts_talk_through_it_and_the_counters_of_both_ends_agree() {
    if !need_root("hosts_talk_through_it_and_the_counters_of_both_ends_agree") {
        return;
    }
    let routed = Routed::start();
    let net = &routed.net;
    for address in ["10.2.0.2", "fd02::2"] {
        let answers = said(net, "a", &format!("ping -n -c 3 -i 0.2 -W 5 {address}"));
        assert!(answers.contains("3 received"), "{answers}");
        // Both ways the router takes one hop.
        assert!(answers.contains("ttl=63"), "{answers}");
    }
    session(net, "10.2.0.2:7001");
    session(net, "[fd02::2]:7002");
    let (net, account, ledger) = routed.stop();
    let [one, two] = &account.interfaces[..] else { panic!("{account:#?}") };
    // At least a frame for each full segment, both ways.
    let segments = (2 * SESSION_BYTES / 1460) as u64;
    assert!(one.forwarded > segments && two.forwarded > segments, "{account:#?}");
    assert_eq!((one.forwarded, two.forwarded), (two.sent, one.sent), "{account:#?}");
    let passed = one.passed_total() + two.passed_total();
    assert!(passed < 50, "only what needs the host: {account:#?}");
    assert_eq!(ledger.consumers[0].missed[&Cause::InterfaceDrop], 0);
    // What the far ends have received is what the router sent, with the few frames of the host.
    for (one, host) in [(one, "a"), (two, "b")] {
        let received = net.inside(host, || ringside_netdev::by_name("far").unwrap().unwrap());
        let received = received.statistics.rx_packets;
        assert!((one.sent..one.sent + 50).contains(&received), "{received}: {one:#?}");
        assert_eq!((one.device.send_errors, one.device.send_dropped), (0, 0), "{one:#?}");
    }
}

#[test]
fn what_the_host_must_answer_is_answered() {
    if !need_root("what_the_host_must_answer_is_answered") {
        return;
    }
    let routed = Routed::start();
    let net = &routed.net;
    // The way of a packet is traced by packets that end on it, and its MTU by those that do not
    // fit.
    for (host, router, hops) in
        [("10.2.0.2", "10.1.0.1", "Time to live exceeded"), ("fd02::2", "fd01::1", "Hop limit")]
    {
        let traced = said(net, "a", &format!("ping -n -c 1 -W 5 -t 1 {host}"));
        let is_right = traced.contains(router) && traced.contains(hops);
        assert!(is_right || traced.contains("Time exceeded"), "{traced}");
    }
    net.ip("r", "route replace 10.2.0.0/24 dev eth2 src 10.2.0.1 mtu lock 1300");
    net.ip("r", "-6 route add fd02::/64 dev eth2 metric 100 mtu lock 1300");
    for host in ["10.2.0.2", "fd02::2"] {
        let answer = said(net, "a", &format!("ping -n -c 1 -W 5 -M do -s 1400 {host}"));
        assert!(answer.contains("1300"), "{answer}");
    }
    // Real sessions find that out by themselves.
    session(net, "10.2.0.2:7003");
    session(net, "[fd02::2]:7004");
    net.ip("r", "route add blackhole 192.0.2.0/24");
    net.ip("r", "route add prohibit 198.51.100.0/24");
    assert!(said(net, "a", "ping -n -c 1 -W 1 192.0.2.1").contains(" 0 received"));
    let answer = said(net, "a", "ping -n -c 1 -W 5 198.51.100.1");
    assert!(answer.contains("Packet filtered"), "{answer}");
    let (_, account, _) = routed.stop();
    let passed = &account.interfaces[0].passed;
    for cause in ["hop_limit", "too_long", "blackhole", "prohibited"] {
        assert!(passed.contains_key(cause), "{cause}: {passed:?}");
    }
}

#[test]
fn equal_ways_are_shared_by_ports() {
    if !need_root("equal_ways_are_shared_by_ports") {
        return;
    }
    let net = hosts();
    // A second link between the router and `b`.
    net.link("r/eth3/02:00:00:00:03:01", "b/far3/02:00:00:00:03:02");
    net.pass("b", "far3");
    net.ips("r", &["addr add 10.3.0.1/24 dev eth3"]);
    net.ips("b", &["addr add 10.3.0.2/24 dev far3", "addr add 192.0.2.1/32 dev lo"]);
    net.sysctl("r", "net.ipv4.fib_multipath_hash_policy", "1");
    net.ip("r", "route add 192.0.2.1 nexthop via 10.2.0.2 nexthop via 10.3.0.2");
    let routed = Routed::on(net, &["eth1", "eth2", "eth3"]);
    let receiver = routed.net.inside("b", || UdpSocket::bind("192.0.2.1:7000").unwrap());
    receiver.set_read_timeout(Some(WAIT_MAX)).unwrap();
    let mut buffer = [0; 16];
    for flow in 0..200u32 {
        let sender = routed.net.inside("a", || UdpSocket::bind("10.1.0.2:0").unwrap());
        for _ in 0..3 {
            sender.send_to(&flow.to_be_bytes(), "192.0.2.1:7000").unwrap();
            receiver.recv(&mut buffer).unwrap();
        }
    }
    let (_, account, _) = routed.stop();
    let sent = [account.interfaces[1].sent, account.interfaces[2].sent];
    assert!(sent.iter().all(|sent| *sent > 100), "{sent:?} of 600");
}

#[test]
fn it_can_be_looked_at_and_ended_and_a_second_one_is_refused() {
    if !need_root("it_can_be_looked_at_and_ended") {
        return;
    }
    let net = hosts();
    // Its socket is where the sockets of all runs are.
    let running = Running::start(command(&net, &["eth1", "eth2"]));
    running.wait_for_stderr("forwarding between");
    assert!(said(&net, "a", "ping -n -c 2 -i 0.2 -W 5 10.2.0.2").contains("2 received"));

    let in_r = ["--netns", &net.ns("r")];
    let second = run_ringside(&[&["route", "-i", "eth2", "-i", "eth1"], &in_r[..]].concat());
    assert_eq!(second.code(), Some(2), "{}", second.stderr);
    assert!(second.stderr.contains("route off -i eth2"), "{}", second.stderr);

    let status = run_ringside(&[&["route", "status", "-i", "eth2"], &in_r[..]].concat());
    assert_eq!(status.code(), Some(0), "{}", status.stderr);
    assert!(status.text().contains("eth1") && status.text().contains("came in by"));
    let status = run_ringside(&[&["route", "status", "--json"], &in_r[..]].concat());
    let account = status.json_lines()[0]["status"]["route"].clone();
    let account: Account = serde_json::from_value(account).unwrap();
    assert!(account.interfaces[0].received >= 2, "{account:#?}");

    let off = run_ringside(&[&["route", "off", "-i", "eth1"], &in_r[..]].concat());
    assert_eq!(off.code(), Some(0), "{}", off.stderr);
    assert_eq!(running.finish().code(), Some(0));
    for command in [&["route", "off", "-i", "eth1"][..], &["route", "status"]] {
        let outcome = run_ringside(&[command, &in_r].concat());
        assert_eq!(outcome.code(), Some(1), "{command:?}: {}", outcome.stderr);
    }
    // The kernel goes on by itself.
    assert!(said(&net, "a", "ping -n -c 1 -W 5 10.2.0.2").contains("1 received"));
}

/// XDP programs on the router's interfaces.
fn programs(net: &Net) -> usize {
    let of = |name| ringside_netdev::by_name(name).unwrap().unwrap().xdp_programs.len();
    net.inside("r", || of("eth1") + of("eth2"))
}

#[test]
fn killed_at_any_moment_it_leaves_the_interfaces_as_they_were() {
    if !need_bpf_fs("killed_at_any_moment_it_leaves_the_interfaces_as_they_were") {
        return;
    }
    let net = hosts();
    let in_r = ["--netns", &net.ns("r")];
    let mut random = Random::new(9);
    for round in 0..by_run(8, 200) {
        let mut start = command(&net, &["eth1", "eth2"]);
        let is_pinned = round % 2 == 1;
        start.args(is_pinned.then_some("--pin"));
        let running = Running::start(start);
        std::thread::sleep(Duration::from_millis(random.below(600) as u64));
        running.signal(Signal::KILL);
        running.finish();
        if is_pinned {
            // Half of it may be pinned; one order ends that too.
            let off = run_ringside(&[&["route", "off", "-i", "eth1"], &in_r[..]].concat());
            assert!(matches!(off.code(), Some(0 | 1)), "{}", off.stderr);
            let off = run_ringside(&[&["route", "off", "-i", "eth2"], &in_r[..]].concat());
            assert!(matches!(off.code(), Some(0 | 1)), "{}", off.stderr);
        }
        wait_until("the interfaces are as they were", || programs(&net) == 0);
    }
    assert!(said(&net, "a", "ping -n -c 1 -W 5 10.2.0.2").contains("1 received"));
    let routed = Routed::on(net, &["eth1", "eth2"]);
    session(&routed.net, "10.2.0.2:7012");
    let (_, account, _) = routed.stop();
    assert!(account.interfaces[0].forwarded > 0, "{account:#?}");
}

/// Ends what is pinned also where a test fails.
struct Unpin(String);

impl Drop for Unpin {
    fn drop(&mut self) {
        run_ringside(&["route", "off", "-i", "eth1", "--netns", &self.0]);
    }
}

#[test]
fn pinned_it_outlives_its_process_next_to_others_and_is_ended_by_a_command() {
    if !need_bpf_fs("pinned_it_outlives_its_process") {
        return;
    }
    let net = hosts();
    let _unpin = Unpin(net.ns("r"));
    let in_r = ["--netns", &net.ns("r")];
    let route = |more: &[&str]| run_ringside(&[&["route"], more, &in_r[..]].concat());
    let both = ["-i", "eth1", "-i", "eth2"];
    let forwarded = || {
        let outcome = route(&["status", "--json"]);
        assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
        let account = outcome.json_lines()[0]["pinned"]["route"].clone();
        let account: Account = serde_json::from_value(account).unwrap();
        assert_eq!(account.balance(), Ok(()), "{account:#?}");
        account.interfaces.iter().map(|one| one.forwarded).sum::<u64>()
    };
    let detached = route(&[&both[..], &["--pin", "--detach"]].concat());
    assert_eq!(detached.code(), Some(0), "{}", detached.stderr);
    assert!(detached.stderr.contains("route off -i eth1"), "{}", detached.stderr);
    session(&net, "10.2.0.2:7006");
    let first = forwarded();
    assert!(first > (SESSION_BYTES / 1460) as u64, "{first}");
    // One without --pin is refused; one with it takes the place.
    assert_eq!(route(&both).code(), Some(2));
    let mut command = command(&net, &both[1..2]);
    command.args(["-i", "eth2", "--pin"]);
    let running = Running::start(command);
    running.wait_for_stderr("forwarding between");
    session(&net, "10.2.0.2:7007");
    running.signal(Signal::KILL);
    running.finish();
    session(&net, "[fd02::2]:7008");
    let second = forwarded();
    assert!(second > (2 * SESSION_BYTES / 1460) as u64, "{second}");
    // Rules come and go next to it.
    let rule = ["drop", "-i", "eth1", "--no-control", "--rule", "icmp => drop"];
    let mut command = Command::new(ringside());
    command.args(rule).args(in_r);
    let dropping = Running::start(command);
    dropping.wait_for_stderr("listening on");
    session(&net, "10.2.0.2:7009");
    assert_eq!(dropping.stop().code(), Some(0));
    session(&net, "10.2.0.2:7010");
    assert!(forwarded() > second);
    let off = route(&["off", "-i", "eth2"]);
    assert_eq!(off.code(), Some(0), "{}", off.stderr);
    assert!(off.stderr.contains("no router is pinned"), "{}", off.stderr);
    assert_eq!(route(&["status"]).code(), Some(1));
    assert_eq!(programs(&net), 0);
    session(&net, "10.2.0.2:7011");
}

#[test]
fn rules_that_protect_the_host_come_first() {
    if !need_root("rules_that_protect_the_host_come_first") {
        return;
    }
    let routed = Routed::start();
    let mut command = Command::new("env");
    command.arg("--default-signal=INT,HUP").arg(ringside());
    command.args(["drop", "--json", "-i", "eth1", "--netns", &routed.net.ns("r")]);
    command.args(["--no-control", "--rule", "icmp => drop"]);
    let dropping = Running::start(command);
    dropping.wait_for_stderr("listening on");
    assert!(said(&routed.net, "a", "ping -n -c 1 -W 1 10.2.0.2").contains(" 0 received"));
    session(&routed.net, "10.2.0.2:7005");
    let ledger = dropping.stop().ledger();
    assert_eq!(ledger.dropped[&Cause::ByRule], 1, "{ledger:#?}");
    assert!(said(&routed.net, "a", "ping -n -c 1 -W 5 10.2.0.2").contains("1 received"));
    let (_, account, _) = routed.stop();
    let segments = (SESSION_BYTES / 1460) as u64;
    assert!(account.interfaces[0].forwarded > segments, "{account:#?}");
}

#[test]
fn a_dry_run_says_of_each_frame_what_would_become_of_it() {
    if !need_root("a_dry_run_says_of_each_frame_what_would_become_of_it") {
        return;
    }
    let net = hosts();
    net.ip("r", "neigh add 10.2.0.2 lladdr 02:00:00:00:02:02 dev eth2 nud permanent");
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("in.pcap");
    let frame = |to: [u8; 6], destination: [u8; 4], ttl: u8| {
        let mut frame = [&to[..], &[2, 0, 0, 0, 1, 2, 8, 0]].concat();
        let mut ip = [&[0x45, 0, 0, 46, 0, 1, 0x40, 0, ttl, 17, 0, 0][..], &[10, 1, 0, 2]].concat();
        ip.extend(destination);
        let sum = ringside_wire::checksum::checksum(&ip);
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        ip.resize(46, 0);
        frame.extend(ip);
        frame
    };
    let router = [2, 0, 0, 0, 1, 1];
    let frames = [
        (frame(router, [10, 2, 0, 2], 64), "forwarded", "out of eth2 to 10.2.0.2"),
        (frame([2, 9, 9, 9, 9, 9], [10, 2, 0, 2], 64), "foreign", "02:00:00:00:01:01"),
        (frame(router, [10, 2, 0, 2], 1), "hop_limit", "TTL"),
        (frame(router, [10, 2, 0, 99], 64), "no_neighbour", "10.2.0.99"),
        (frame(router, [8, 8, 8, 8], 64), "host", "ip route get"),
    ];
    write_pcap(&file, frames.iter().map(|one| one.0.as_slice()));
    let explain = |more: &[&str]| {
        let at = ["route", "-i", "eth1", "-i", "eth2", "--netns", &net.ns("r")];
        run_ringside(&[&at[..], &["--explain", arg(&file)], more].concat())
    };
    let outcome = explain(&["--json"]);
    assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
    for (line, (_, what, why)) in outcome.json_lines().iter().zip(&frames) {
        assert_eq!(line["what"], *what, "{line}");
        assert!(line["why"].as_str().unwrap().contains(why), "{line}");
    }
    assert_eq!(outcome.json_lines().len(), frames.len());
    let text = explain(&[]).text();
    assert!(text.starts_with("1 forwarded: out of eth2"), "{text}");
    assert!(text.contains("no_neighbour       1"), "{text}");
    // Nothing was attached.
    assert_eq!(programs(&net), 0);
}

#[test]
fn what_cannot_be_is_refused_with_the_fix() {
    if !need_root("what_cannot_be_is_refused_with_the_fix") {
        return;
    }
    for (args, words) in [
        (&["-i", "lo"][..], "2 to 32"),
        (&["-i", "no-such-if", "-i", "lo"], "ip link"),
        (&[], "--interface"),
        (&["-i", "a", "-i", "b", "--ask-neighbours", "1ms"], "at least 250ms"),
    ] {
        let outcome = run_ringside(&[&["route"], args].concat());
        assert_eq!(outcome.code(), Some(2), "{args:?}");
        assert!(outcome.stderr.contains(words), "{args:?}: {}", outcome.stderr);
    }
}
