//! `ringside balance` next to IPVS, the kernel's own balancer: what the one sends through tunnels,
//! the other's servers take, and clients see no difference.

use crate::common::*;
use crate::link::{BALANCER, CLIENT, Link, SERVERS, v4};
use ringside_testkit::{need_tool, skip};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

const VIP: &str = "192.0.2.1:80";
/// Connections of the client; by turns they come out even.
const CONNECTIONS: usize = 40;

/// Has two servers answer each connection with their number, as long as the test runs.
fn serve(link: &Link) {
    for number in &SERVERS[..2] {
        let mut listener = None;
        inside(&link.name(*number), || listener = Some(TcpListener::bind(VIP).unwrap()));
        let (listener, number) = (listener.unwrap(), *number);
        std::thread::spawn(move || {
            for connection in listener.incoming() {
                connection.unwrap().write_all(&[number]).unwrap();
            }
        });
    }
}

/// How many connections each server has answered.
fn answers(link: &Link) -> BTreeMap<u8, usize> {
    let mut all = BTreeMap::new();
    inside(&link.name(CLIENT), || {
        for _ in 0..CONNECTIONS {
            let mut connection =
                TcpStream::connect_timeout(&VIP.parse().unwrap(), WAIT_MAX).unwrap();
            connection.set_read_timeout(Some(WAIT_MAX)).unwrap();
            let mut number = [0];
            connection.read_exact(&mut number).unwrap();
            *all.entry(number[0]).or_default() += 1;
        }
    });
    all
}

#[test]
fn ipvs_sends_through_tunnels_what_decap_takes() {
    let test = "ipvs_sends_through_tunnels_what_decap_takes";
    if !need_tool(test, "ipvsadm") {
        return;
    }
    let link = Link::up();
    // A packet to the host itself is what IPVS looks at.
    link.run(BALANCER, "ip addr add 192.0.2.1/32 dev lo");
    let name = link.name(BALANCER);
    let ipvs = |line: &str| {
        let words = format!("netns exec {name} ipvsadm {line}");
        run("ip", &words.split(' ').collect::<Vec<_>>())
    };
    let made = ipvs(&format!("-A -t {VIP} -s rr"));
    if made.code() != Some(0) {
        return skip(test, &format!("the kernel has no IPVS: {}", made.stderr.trim()));
    }
    for server in &SERVERS[..2] {
        let address = v4(*server);
        assert_eq!(ipvs(&format!("-a -t {VIP} -r {address} -i")).code(), Some(0));
        let (balancer, words) = (v4(BALANCER), ["decap", "-i", "end", "--to", &address]);
        let rest = ["--from", &balancer, "--pin", "--detach"];
        let outcome = link.ringside(*server, &[&words[..], &rest].concat());
        assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
    }
    serve(&link);
    let half = CONNECTIONS / 2;
    assert_eq!(answers(&link), BTreeMap::from([(SERVERS[0], half), (SERVERS[1], half)]));
}

#[test]
fn the_kernels_tunnels_take_what_balance_sends() {
    let link = Link::up();
    for server in &SERVERS[..2] {
        let line = "ip link add tun type ipip local LOCAL && ip link set tun up && \
                    echo 0 > /proc/sys/net/ipv4/conf/tun/rp_filter";
        link.run(*server, &line.replace("LOCAL", &v4(*server)));
    }
    serve(&link);
    let mut text = "[[vip]]\nname = \"web\"\naddress = \"192.0.2.1\"\nport = 80\n".to_owned();
    text += "protocol = \"tcp\"\nslots = 1021\n";
    for server in &SERVERS[..2] {
        text += &format!("[[vip.real]]\naddress = \"{}\"\n", v4(*server));
    }
    link.configure(&text);
    let running = link.balance(&[]);
    let found = answers(&link);
    assert_eq!(found.len(), 2, "{found:?}");
    assert_eq!(found.values().sum::<usize>(), CONNECTIONS);
    let outcome = running.stop();
    assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
    let lines = outcome.json_lines();
    let account = lines.iter().rev().find_map(|line| line.get("balance")).unwrap();
    let account: ringside_balancer::Ledger = serde_json::from_value(account.clone()).unwrap();
    assert_eq!(account.balance(), Ok(()), "{account:#?}");
}
