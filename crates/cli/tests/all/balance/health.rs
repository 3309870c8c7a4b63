//! Reals that are asked whether they answer, on the way that clients' packets go.

use super::link::{BALANCER, Link, SERVERS, v4};
use crate::common::*;
use ringside_balancer::{HealthLedger, Ledger};
use ringside_sys::netns::Namespace;
use ringside_testkit::{need_bpf_fs, need_tool};
use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// What a service does: 0 is to end, else the status that it answers with.
type Orders = Arc<AtomicU16>;

/// An HTTP service on a host; it refuses connections once it has ended.
struct Service {
    orders: Orders,
    thread: Option<JoinHandle<()>>,
}

impl Service {
    fn start(link: &Link, host: u8, address: &'static str) -> Service {
        let (orders, namespace) = (Orders::new(AtomicU16::new(200)), link.name(host));
        let (ready, is_ready) = std::sync::mpsc::channel();
        let order = orders.clone();
        let thread = std::thread::spawn(move || {
            Namespace::open(&namespace).unwrap().enter().unwrap();
            let listener = TcpListener::bind(address).unwrap();
            listener.set_nonblocking(true).unwrap();
            ready.send(()).unwrap();
            loop {
                let status = order.load(Ordering::Relaxed);
                if status == 0 {
                    break;
                }
                let Ok((mut stream, _)) = listener.accept() else {
                    std::thread::sleep(Duration::from_millis(2));
                    continue;
                };
                // A client that only connects says nothing.
                let _ = stream.set_nonblocking(false);
                let _ = stream.set_read_timeout(Some(Duration::from_millis(300)));
                if matches!(stream.read(&mut [0; 1024]), Ok(1..)) {
                    let _ = write!(stream, "HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n");
                }
            }
        });
        is_ready.recv().unwrap();
        Service { orders, thread: Some(thread) }
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        self.orders.store(0, Ordering::Relaxed);
        let _ = self.thread.take().unwrap().join();
    }
}

/// What is known of each real of a VIP, by address.
fn healths(link: &Link, vip: &str) -> Vec<(String, String, HealthLedger)> {
    let outcome = link.ringside(BALANCER, &["balance", "status", "--json"]);
    assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
    let account = outcome.json_lines()[0]["status"]["balance"].clone();
    let ledger: Ledger = serde_json::from_value(account).unwrap();
    let vip = ledger.vips.into_iter().find(|one| one.name == vip).unwrap();
    let reals = vip.reals.into_iter();
    reals.map(|real| (real.address.to_string(), real.state, real.health.unwrap())).collect()
}

const QUICK: &str = "interval_ms = 100, timeout_ms = 2000, rise = 2, fall = 2";

#[test]
fn a_real_that_does_not_answer_is_down_until_it_does() {
    let name = "a_real_that_does_not_answer_is_down_until_it_does";
    if !need_bpf_fs(name) || !need_tool(name, "ethtool") {
        return;
    }
    let link = Link::up();
    link.unpack();
    let address = "192.0.2.1:80";
    let _first = Service::start(&link, SERVERS[0], address);
    let second = Service::start(&link, SERVERS[1], address);
    let text = format!(
        "[[vip]]\nname = \"web\"\naddress = \"192.0.2.1\"\nport = 80\nprotocol = \"tcp\"\n\
         slots = 251\nhealth = {{ kind = \"http\", path = \"/up\", {QUICK} }}\n"
    );
    let real = |host: u8| format!("[[vip.real]]\naddress = \"{}\"\n", v4(host));
    link.configure(&format!("{text}{}{}", real(SERVERS[0]), real(SERVERS[1])));
    let running = link.balance(&[]);
    let both_answer = || healths(&link, "web").iter().all(|(_, _, health)| health.good >= 3);
    wait_until("answers of both", both_answer);
    assert!(healths(&link, "web").iter().all(|(_, state, health)| state == "up" && health.is_up));
    // Another status; then no service.
    second.orders.store(503, Ordering::Relaxed);
    running.wait_for_stderr("10.77.0.12 of web is down: status 503");
    let known = healths(&link, "web");
    assert_eq!((known[0].1.as_str(), known[1].1.as_str()), ("up", "down"), "{known:?}");
    second.orders.store(204, Ordering::Relaxed);
    running.wait_for_stderr("10.77.0.12 of web answers again");
    drop(second);
    running.wait_for_stderr("10.77.0.12 of web is down: connection refused");
    let _second = Service::start(&link, SERVERS[1], address);
    wait_until("it to be up", || healths(&link, "web").iter().all(|one| one.1 == "up"));
    let outcome = running.stop();
    assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
    assert!(!outcome.stderr.contains("10.77.0.11 of web is down"), "{}", outcome.stderr);
}

#[test]
fn every_way_to_a_real_is_asked_and_what_is_no_service_is_down() {
    let name = "every_way_to_a_real_is_asked";
    if !need_bpf_fs(name) || !need_tool(name, "ethtool") {
        return;
    }
    let link = Link::up();
    link.unpack();
    let (real_v4, real_v6) = (v4(SERVERS[0]), format!("fd77::{}", SERVERS[0]));
    let mut text = String::new();
    let _services = [
        Service::start(&link, SERVERS[0], "192.0.2.1:80"),
        Service::start(&link, SERVERS[0], "[2001:db8::1]:80"),
    ];
    let ways = [
        ("4in4", "192.0.2.1", "ipip", &real_v4),
        ("4in6", "192.0.2.1", "ipip", &real_v6),
        ("6in6", "2001:db8::1", "ipip", &real_v6),
        ("gue4", "192.0.2.1", "gue", &real_v4),
        ("gue6", "2001:db8::1", "gue", &real_v6),
        ("direct", "192.0.2.1", "direct", &real_v4),
        ("direct6", "2001:db8::1", "direct", &real_v6),
    ];
    for (port, (name, address, via, real)) in (1000..).zip(&ways) {
        text += &format!(
            "[[vip]]\nname = \"{name}\"\naddress = \"{address}\"\nport = {port}\nslots = 251\n\
             protocol = \"tcp\"\nvia = \"{via}\"\n\
             health = {{ kind = \"http\", port = 80, {QUICK} }}\n\
             [[vip.real]]\naddress = \"{real}\"\n"
        );
    }
    // One with the next hop's hardware address, of which nothing else is a service.
    let hop = super::link::mac(SERVERS[0]);
    text += &format!(
        "[[vip]]\nname = \"hop\"\naddress = \"192.0.2.1\"\nport = 80\nslots = 251\n\
         protocol = \"tcp\"\nhealth = {{ kind = \"tcp\", {QUICK} }}\n\
         [[vip.real]]\naddress = \"{real_v4}\"\nnext_hop = \"{hop}\"\n"
    );
    let udp = inside(&link.name(SERVERS[0]), || UdpSocket::bind("192.0.2.1:53").unwrap());
    udp.set_read_timeout(Some(Duration::from_millis(20))).unwrap();
    text += &format!(
        "[[vip]]\nname = \"dns\"\naddress = \"192.0.2.1\"\nport = 53\nslots = 251\n\
         protocol = \"udp\"\n\
         health = {{ kind = \"udp\", send = \"0a0b\", expect = \"0b\", {QUICK} }}\n\
         [[vip.real]]\naddress = \"{real_v4}\"\n\
         [[vip.real]]\naddress = \"{}\"\n",
        v4(SERVERS[1])
    );
    link.configure(&text);
    let running = link.balance(&[]);
    let answer = || {
        let mut bytes = [0; 16];
        if let Ok((2, from)) = udp.recv_from(&mut bytes) {
            assert_eq!(bytes[..2], [0x0a, 0x0b]);
            let _ = udp.send_to(&[0x0b, 1], from);
        }
    };
    for (name, ..) in ways.iter().chain(&[("hop", "", "", &real_v4)]) {
        wait_until(&format!("answers by {name}, {:?}", healths(&link, name)), || {
            healths(&link, name)[0].2.good >= 2
        });
    }
    wait_until("the question by UDP", || {
        answer();
        let known = healths(&link, "dns");
        known[0].2.good >= 2 && !known[1].2.is_up
    });
    assert!(running.stderr_so_far().contains("10.77.0.12 of dns is down: "));
    let outcome = running.stop();
    assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
}
