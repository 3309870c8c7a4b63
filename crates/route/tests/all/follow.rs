//! Interfaces and neighbours that change while packets are forwarded.

use crate::net::{Net, hosts};
use crate::routing::{Routing, options};
use ringside_ebpf::Error;
use ringside_route::{RouteError, Router};
use ringside_testkit::{need_root, wait_until};
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Runs `work` while `a` sends datagrams to `b` all the time; it gets the socket that receives.
fn under_load(net: &Net, work: impl FnOnce(&UdpSocket)) {
    let receiver = net.inside("b", || UdpSocket::bind("10.2.0.2:7000").unwrap());
    receiver.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
    let sender = net.inside("a", || UdpSocket::bind("10.1.0.2:0").unwrap());
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut number = 0u64;
            while !is_over.load(Ordering::Acquire) {
                // Before its neighbour is known the kernel may refuse.
                let _ = sender.send_to(&number.to_be_bytes(), "10.2.0.2:7000");
                number += 1;
                std::thread::sleep(Duration::from_millis(2));
            }
        });
        let _end = OnDrop(&is_over);
        work(&receiver);
    });
}

/// Ends the load also when a test fails.
struct OnDrop<'a>(&'a AtomicBool);

impl Drop for OnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// Takes all that is there already.
fn drain(receiver: &UdpSocket) {
    let mut buffer = [0; 64];
    receiver.set_nonblocking(true).unwrap();
    while receiver.recv(&mut buffer).is_ok() {}
    receiver.set_nonblocking(false).unwrap();
}

#[test]
fn a_neighbour_with_a_new_address_that_it_has_not_announced_gets_its_packets_again() {
    if !need_root("a_neighbour_with_a_new_address") {
        return;
    }
    let net = hosts();
    let routing = Routing::start(&net, "r", options(&["eth1", "eth2"]));
    under_load(&net, |receiver| {
        drain(receiver);
        wait_for_one(receiver);
        wait_until("frames that are forwarded", || routing.ledger().interfaces[0].forwarded > 100);
        // Some time before the kernel would ask by itself.
        net.ip("b", "link set far address 02:00:00:00:02:77");
        drain(receiver);
        let changed = Instant::now();
        wait_for_one(receiver);
        // It is to be a second at most; a busy machine may take longer.
        eprintln!("forwarded again after {:?}", changed.elapsed());
        let forwarded = routing.ledger().interfaces[0].forwarded;
        wait_until("forwarded again", || {
            routing.ledger().interfaces[0].forwarded > forwarded + 100
        });
    });
    let ledger = routing.stop();
    assert_eq!(ledger.balance(), Ok(()), "{ledger:#?}");
    assert!(ledger.neighbours.sought >= 1 && ledger.neighbours.probes >= 1, "{ledger:#?}");
    assert!(net.ip("r", "neigh show 10.2.0.2").contains("02:00:00:00:02:77"));
}

/// Waits for one more datagram.
fn wait_for_one(receiver: &UdpSocket) {
    let mut buffer = [0; 64];
    wait_until("a datagram", || receiver.recv(&mut buffer).is_ok());
}

/// Flows of two ports are one to the router until a rule tells them apart.
#[test]
fn a_rule_that_asks_for_a_port_is_followed() {
    if !need_root("a_rule_that_asks_for_a_port_is_followed") {
        return;
    }
    let net = hosts();
    let routing = Routing::start(&net, "r", options(&["eth1", "eth2"]));
    let [other, sender] = [("b", "10.2.0.2:7001"), ("a", "10.1.0.2:0")]
        .map(|(space, address)| net.inside(space, || UdpSocket::bind(address).unwrap()));
    other.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
    let send = || sender.send_to(b"to the other port", "10.2.0.2:7001");
    under_load(&net, |receiver| {
        wait_until("a datagram to the other port", || {
            let _ = send();
            other.recv(&mut [0; 64]).is_ok()
        });
        net.ips(
            "r",
            &["route add blackhole default table 100", "rule add ipproto udp dport 7001 table 100"],
        );
        wait_until("the rule to count", || {
            let _ = send();
            std::thread::sleep(Duration::from_millis(1));
            routing.ledger().interfaces[0].passed.get("blackhole") > Some(&10)
        });
        drain(receiver);
        wait_for_one(receiver);
    });
    let ledger = routing.stop();
    assert_eq!(ledger.balance(), Ok(()), "{ledger:#?}");
}

#[test]
fn what_leads_to_an_interface_that_is_down_or_takes_no_frames_is_left_to_the_host() {
    if !need_root("what_leads_to_an_interface_that_is_down") {
        return;
    }
    let net = hosts();
    let routing = Routing::start(&net, "r", options(&["eth1", "eth2"]));
    let is_member = |index: usize| routing.ledger().interfaces[index].is_member;
    under_load(&net, |receiver| {
        wait_for_one(receiver);
        wait_until("frames that are forwarded", || routing.ledger().interfaces[0].forwarded > 50);
        net.ip("r", "link set eth2 down");
        wait_until("eth2 is out", || !routing.ledger().interfaces.is_empty() && !is_member(1));
        assert!(routing.said().contains("eth2 is down"), "{}", routing.said());
        net.ip("r", "link set eth2 up");
        wait_until("eth2 is in", || is_member(1));
        // Without a NAPI at its other end redirected frames would vanish.
        net.ip("b", "link set far xdp off");
        wait_until("eth2 takes no frames", || !is_member(1));
        assert!(routing.said().contains("gro on"), "{}", routing.said());
        drain(receiver);
        wait_for_one(receiver);
        // The frame that came may be one that was under way when it changed.
        wait_until("frames that are left to the host", || {
            let passed = &routing.ledger().interfaces[0].passed;
            passed.get("not_member").is_some_and(|&frames| frames > 0)
        });
        net.ip("r", "link del eth2");
        wait_until("eth2 is gone", || routing.said().contains("eth2 is gone"));
    });
    let ledger = routing.stop();
    assert_eq!(ledger.balance(), Ok(()), "{ledger:#?}");
}

#[test]
fn an_interface_has_one_router_and_every_refusal_says_what_to_do() {
    if !need_root("an_interface_has_one_router") {
        return;
    }
    let net = hosts();
    net.ips("r", &["link add br0 type bridge", "link add v0 type veth peer name v1"]);
    net.ips("r", &["link set v0 master br0", "link set v0 up", "link set lo up"]);
    let routing = Routing::start(&net, "r", options(&["eth1", "eth2"]));
    let refused = |interfaces: &[&str]| {
        let options = options(interfaces);
        net.inside("r", || Router::open(&options).map(drop).unwrap_err())
    };
    let error = refused(&["eth2", "eth1"]);
    assert!(matches!(error, RouteError::Program(Error::NoRoutePlace { .. })), "{error}");
    assert!(error.to_string().contains("route off -i eth2"), "{error}");
    for (interfaces, words) in [
        (&["eth1"][..], "2 to 32"),
        (&["eth1", "eth1"], "twice"),
        (&["eth1", "none"], "no interface is called none"),
        (&["eth1", "lo"], "no Ethernet"),
        (&["eth1", "v1"], "ip link set v1 up"),
        (&["eth1", "v0"], "nomaster"),
    ] {
        let error = refused(interfaces).to_string();
        assert!(error.contains(words), "{error}");
    }
    let ledger = routing.stop();
    assert_eq!(ledger.balance(), Ok(()), "{ledger:#?}");
    // The place is free again.
    Routing::start(&net, "r", options(&["eth2", "eth1"])).stop();
}

#[test]
fn settings_that_forbid_forwarding_are_named() {
    if !need_root("settings_that_forbid_forwarding_are_named") {
        return;
    }
    let net = hosts();
    net.sysctl("r", "net.ipv4.conf.all.forwarding", "0");
    let routing = Routing::start(&net, "r", options(&["eth1", "eth2"]));
    assert!(routing.said().contains("net.ipv4.conf.all.forwarding=1"), "{}", routing.said());
    under_load(&net, |_| {
        wait_until("frames that are passed", || {
            let ledger = routing.ledger();
            ledger.interfaces.first().is_some_and(|one| one.passed.contains_key("off"))
        });
    });
    assert_eq!(routing.stop().interfaces[0].forwarded, 0);
}
