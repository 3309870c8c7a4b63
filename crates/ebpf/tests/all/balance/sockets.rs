//! Real connections through a balancer: a client, three servers and the balancer on one link, each
//! in a namespace of its own. The servers take packets out of tunnels by our program, and answer
//! the client directly.

use super::support::config;
use crate::pair::{ifindex, inside, ip};
use ringside_balance::Tables;
use ringside_balance::balancer::Count;
use ringside_balance::decap::Decap;
use ringside_ebpf::XdpProgram;
use ringside_ebpf::balance::{BalanceAttachmentConfig, BalanceProgram, BalanceRoom, DecapProgram};
use ringside_sys::clock::monotonic_ns;
use ringside_sys::netns::Namespace;
use ringside_sys::thread::{allowed_cpus, pin_to_cpu};
use ringside_testkit::{by_run, need_root, need_tool};
use ringside_wire::MacAddr;
use std::collections::BTreeSet;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Servers by number; 10.77.0.1 is the client, 10.77.0.2 the balancer.
const SERVERS: [u8; 3] = [11, 12, 13];
const VIP: &str = "192.0.2.1:80";
const ANSWER_MAX: Duration = Duration::from_secs(20);

fn mac(host: u8) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0x77, host])
}

/// The namespaces: hosts are joined by a bridge.
struct Link {
    id: u32,
}

impl Link {
    fn name(&self, host: u8) -> String {
        format!("ringside-bal-{host}-{}", self.id)
    }

    fn up() -> Link {
        let link = Link { id: std::process::id() };
        let bridge = link.name(0);
        ip(&["netns", "add", &bridge]);
        ip(&["-n", &bridge, "link", "add", "name", "hub", "type", "bridge"]);
        ip(&["-n", &bridge, "link", "set", "hub", "up"]);
        for host in [1, 2].into_iter().chain(SERVERS) {
            link.add(host, &bridge);
        }
        let of_client = [
            // What a balancer sends on has the checksum that it came with.
            "ethtool -K end tx off".to_owned(),
            "ip route add 192.0.2.1 via 10.77.0.2".to_owned(),
            "echo 1024 65535 > /proc/sys/net/ipv4/ip_local_port_range".to_owned(),
        ];
        of_client.iter().for_each(|line| link.run(1, line));
        link.run(2, "echo 1 > /proc/sys/net/ipv4/ip_forward");
        for host in SERVERS {
            link.run(2, &format!("ip neigh add 10.77.0.{host} lladdr {} dev end", mac(host)));
            link.run(host, "ip addr add 192.0.2.1/32 dev lo");
        }
        link
    }

    fn add(&self, host: u8, bridge: &str) {
        let name = self.name(host);
        let (port, mac) = (format!("p{host}"), mac(host).to_string());
        ip(&["netns", "add", &name]);
        ip(&["-n", &name, "link", "set", "lo", "up"]);
        ip(&[
            "-n", &name, "link", "add", "end", "address", &mac, "type", "veth", "peer", "name",
            &port, "netns", bridge,
        ]);
        ip(&["-n", bridge, "link", "set", &port, "master", "hub", "up"]);
        ip(&["-n", &name, "addr", "add", &format!("10.77.0.{host}/24"), "dev", "end"]);
        ip(&["-n", &name, "link", "set", "end", "up"]);
        // What a program transmits on a veth pair arrives if there is a program at the other end,
        // too (veth_xdp_flush, drivers/net/veth.c).
        let of_port = ip(&["-n", bridge, "-o", "link", "show", &port]);
        let ifindex = of_port.split(':').next().unwrap().trim().parse().unwrap();
        inside(bridge, || XdpProgram::pass().unwrap().attach(ifindex).unwrap().keep());
    }

    fn run(&self, host: u8, line: &str) {
        ip(&["netns", "exec", &self.name(host), "sh", "-c", line]);
    }

    fn place(&self, host: u8) -> BalanceAttachmentConfig<'static> {
        let ifindex = ifindex(&self.name(host));
        BalanceAttachmentConfig { interface: "end", ifindex, generic_allowed: false }
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        for host in [0, 1, 2].into_iter().chain(SERVERS) {
            let name = self.name(host);
            let _ = std::process::Command::new("ip").args(["netns", "del", &name]).status();
        }
    }
}

/// A server that answers each line with its number.
fn serve(namespace: String, number: u8, stop: Arc<AtomicBool>) -> JoinHandle<()> {
    let (ready, is_ready) = std::sync::mpsc::channel();
    let server = std::thread::spawn(move || {
        Namespace::open(&namespace).unwrap().enter().unwrap();
        let listener = TcpListener::bind(VIP).unwrap();
        listener.set_nonblocking(true).unwrap();
        ready.send(()).unwrap();
        let mut connections = Vec::new();
        let mut bytes = [0; 4096];
        while !stop.load(Ordering::Relaxed) {
            while let Ok((connection, _)) = listener.accept() {
                connection.set_nonblocking(true).unwrap();
                connections.push(connection);
            }
            for connection in &mut connections {
                while let Ok(count @ 1..) = connection.read(&mut bytes) {
                    let lines = bytes[..count].iter().filter(|byte| **byte == b'\n').count();
                    let _ = connection.write_all(&vec![number; lines]);
                }
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    });
    is_ready.recv().unwrap();
    server
}

/// Connects, and asks which server answers.
fn connect() -> (TcpStream, u8) {
    let address = VIP.parse().unwrap();
    let mut connection = TcpStream::connect_timeout(&address, ANSWER_MAX).unwrap();
    connection.set_read_timeout(Some(ANSWER_MAX)).unwrap();
    let server = ask(&mut connection, 0).unwrap();
    (connection, server)
}

/// Sends a line of this length; the server's number, if it answers.
fn ask(connection: &mut TcpStream, bytes: usize) -> Result<u8, ErrorKind> {
    let line = [vec![b'x'; bytes], vec![b'\n']].concat();
    connection.write_all(&line).map_err(|error| error.kind())?;
    let mut answer = [0];
    connection.read_exact(&mut answer).map_err(|error| error.kind())?;
    Ok(answer[0])
}

fn text(servers: &[(u8, &str)]) -> String {
    let mut text = "source_v4 = \"10.99.0.0/16\"\n[[vip]]\nname = \"web\"\n".to_owned();
    text += "address = \"192.0.2.1\"\nport = 80\nprotocol = \"tcp\"\nslots = 4093\n";
    for (server, rest) in servers {
        text += &format!("[[vip.real]]\naddress = \"10.77.0.{server}\"\n{rest}\n");
    }
    text
}

#[test]
fn connections_live_through_restart_growth_and_drain() {
    let name = "connections through a balancer";
    if !need_root(name) || !need_tool(name, "ethtool") {
        return;
    }
    // A CPU remembers the flows that it sees. A network card gives all of a flow to one, but here
    // it is the one of the sender, or where an acknowledgment is due.
    pin_to_cpu(allowed_cpus().unwrap()[0]).unwrap();
    let link = Link::up();
    let stop = Arc::new(AtomicBool::new(false));
    let unpacks = SERVERS.map(|host| {
        let decap = Decap {
            mac: mac(host),
            addresses: vec![[10, 77, 0, host].into()],
            source_v4: Some("10.99.0.0/16".parse().unwrap()),
            source_v6: None,
            gue_port: 6080,
        };
        let open = || DecapProgram::open(&link.place(host), &decap).unwrap();
        inside(&link.name(host), open)
    });
    let servers = SERVERS.map(|host| serve(link.name(host), host, stop.clone()));
    let up = |servers: &[u8]| text(&servers.iter().map(|server| (*server, "")).collect::<Vec<_>>());
    let first = Tables::new(&config(&up(&SERVERS[..2])), monotonic_ns());
    let open = |tables: &Tables| {
        let room = BalanceRoom { reals: 8, ..BalanceRoom::twice(tables, 1 << 15) };
        let open = || BalanceProgram::open(&link.place(2), tables, &room, mac(2)).unwrap();
        inside(&link.name(2), open)
    };
    let mut balancer = open(&first);
    inside(&link.name(1), || {
        let mut all: Vec<(TcpStream, u8)> = (0..by_run(300, 10_000)).map(|_| connect()).collect();
        let used: BTreeSet<u8> = all.iter().map(|(_, server)| *server).collect();
        assert_eq!(used, BTreeSet::from([11, 12]));
        let mut none_is_broken = |what: &str| {
            for (connection, server) in &mut all {
                assert_eq!(ask(connection, 0), Ok(*server), "{what}");
            }
        };
        none_is_broken("at first");
        // Another process, which remembers nothing.
        balancer.stop().unwrap();
        balancer = open(&first);
        none_is_broken("after a restart");
        let second = first.next(&config(&up(&SERVERS)), monotonic_ns());
        balancer.change(&second, monotonic_ns()).unwrap();
        none_is_broken("with one more server");
        let draining = text(&[(11, "state = \"draining\""), (12, ""), (13, "")]);
        let third = second.next(&config(&draining), monotonic_ns());
        balancer.change(&third, monotonic_ns()).unwrap();
        none_is_broken("with a server that drains");
        let new: BTreeSet<u8> = (0..60).map(|_| connect().1).collect();
        assert_eq!(new, BTreeSet::from([12, 13]));
        // Full segments do not fit the tunnel: the client learns that, and sends shorter ones.
        let before = balancer.counts(0)[Count::Answered as usize];
        let (connection, server) = &mut all[0];
        assert_eq!(ask(connection, 300_000), Ok(*server));
        assert!(balancer.counts(0)[Count::Answered as usize] > before);
        let live = balancer.live_flows(&third, monotonic_ns(), 60_000_000_000);
        assert!(live.iter().sum::<u64>() >= all.len() as u64, "{live:?}");
    });
    stop.store(true, Ordering::Relaxed);
    servers.into_iter().for_each(|server| server.join().unwrap());
    let counts = balancer.counts(0);
    assert_eq!(counts[3..Count::FATES], [0; 6], "nothing was dropped: {counts:?}");
    let unpacked: u64 = unpacks.iter().map(|unpack| unpack.counts().unpacked).sum();
    assert!(unpacked > 0 && unpacks.iter().all(|unpack| unpack.counts().no_room == 0));
}
