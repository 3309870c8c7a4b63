//! A client, a balancer and three servers on one link, each in a namespace of its own, joined by a
//! bridge. The servers answer the client directly.

use crate::common::folder::Folder;
use crate::common::*;
use ringside_ebpf::XdpProgram;
use ringside_netdev as netdev;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// Servers by number; 1 is the client, 2 the balancer. Host N has 10.77.0.N and fd77::N.
pub const SERVERS: [u8; 3] = [11, 12, 13];
pub const CLIENT: u8 = 1;
pub const BALANCER: u8 = 2;
/// Tunnels begin here.
pub const SOURCES: &str = "source_v4 = \"10.99.0.0/16\"\nsource_v6 = \"fd99::/64\"\n";

pub struct Link {
    id: String,
    pub folder: Folder,
}

/// The emulated machine has none: what IPv6 sends by itself is in the way of tests that count.
fn has_ipv6() -> bool {
    Path::new("/proc/sys/net/ipv6").exists()
}

impl Link {
    pub fn up() -> Link {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let link = Link { id: format!("{}-{number}", std::process::id()), folder: Folder::new() };
        let bridge = link.name(0);
        ip(&["netns", "add", &bridge]);
        ip(&["-n", &bridge, "link", "add", "name", "hub", "type", "bridge"]);
        ip(&["-n", &bridge, "link", "set", "hub", "up"]);
        for host in [CLIENT, BALANCER].into_iter().chain(SERVERS) {
            link.add(host, &bridge);
        }
        for host in [CLIENT, BALANCER] {
            // What a program sends on has the checksum that it came with.
            link.run(host, "ethtool -K end tx off");
        }
        let versions = if has_ipv6() { 2 } else { 1 };
        for vips in &["192.0.2.0/24", "2001:db8::/32"][..versions] {
            let of = |host| if vips.contains(':') { format!("fd77::{host}") } else { v4(host) };
            // An acknowledgment that waits is sent by a timer, maybe on a CPU that has not seen the
            // flow and so does not remember it.
            let via = of(BALANCER);
            link.run(CLIENT, &format!("ip route add {vips} via {via} quickack 1"));
            // Health is asked as a client asks; the host's own route leads where clients are.
            link.run(BALANCER, &format!("ip route add {vips} via {}", of(CLIENT)));
        }
        link.run(CLIENT, "echo 1024 65535 > /proc/sys/net/ipv4/ip_local_port_range");
        link.run(BALANCER, "echo 1 > /proc/sys/net/ipv4/ip_forward");
        if has_ipv6() {
            link.run(BALANCER, "echo 1 > /proc/sys/net/ipv6/conf/all/forwarding");
        }
        for host in SERVERS {
            for address in &[v4(host), format!("fd77::{host}")][..versions] {
                let line = format!("ip neigh add {address} lladdr {} dev end", mac(host));
                link.run(BALANCER, &line);
            }
            link.run(host, "ip addr add 192.0.2.1/32 dev lo");
            if has_ipv6() {
                link.run(host, "ip addr add 2001:db8::1/128 dev lo nodad");
            }
        }
        link
    }

    /// Name of a host's namespace.
    pub fn name(&self, host: u8) -> String {
        format!("ringside-bal-{host}-{}", self.id)
    }

    fn add(&self, host: u8, bridge: &str) {
        let (name, port, mac) = (self.name(host), format!("p{host}"), mac(host));
        ip(&["netns", "add", &name]);
        ip(&["-n", &name, "link", "set", "lo", "up"]);
        // With an index of its own the kernel notices the link at once (linkwatch_urgent_event).
        ip(&[
            "-n", &name, "link", "add", "end", "index", "1000", "address", &mac, "type", "veth",
            "peer", "name", &port, "netns", bridge,
        ]);
        ip(&["-n", bridge, "link", "set", &port, "master", "hub", "up"]);
        ip(&["-n", &name, "addr", "add", &format!("{}/24", v4(host)), "dev", "end"]);
        if has_ipv6() {
            ip(&["-n", &name, "addr", "add", &format!("fd77::{host}/64"), "dev", "end", "nodad"]);
        }
        ip(&["-n", &name, "link", "set", "end", "up"]);
        // What a program transmits on a veth pair arrives if there is a program at the other end,
        // too (veth_xdp_flush, drivers/net/veth.c).
        inside(bridge, || {
            let ifindex = netdev::by_name(&port).unwrap().unwrap().ifindex;
            XdpProgram::pass().unwrap().attach(ifindex).unwrap().keep();
        });
    }

    /// Runs a line of a shell on a host.
    pub fn run(&self, host: u8, line: &str) {
        ip(&["netns", "exec", &self.name(host), "sh", "-c", line]);
    }

    /// `ringside WORDS` on a host, from its start to its end.
    pub fn ringside(&self, host: u8, words: &[&str]) -> Outcome {
        Running::start(self.command(host, words)).finish()
    }

    /// The same, to be started.
    pub fn command(&self, host: u8, words: &[&str]) -> Command {
        let mut command = Command::new("env");
        command.arg("--default-signal=INT,HUP").arg(ringside());
        command.args(words).args(["--netns", &self.name(host)]);
        command
    }

    /// Has tunnels end on every server, without a process.
    pub fn unpack(&self) {
        for host in SERVERS {
            let (v4, v6) = (v4(host), format!("fd77::{host}"));
            let words = ["decap", "-i", "end", "--to", &v4, "--to", &v6, "--from"];
            let rest = ["10.99.0.0/16", "--from", "fd99::/64", "--pin", "--detach"];
            let outcome = self.ringside(host, &[&words[..], &rest].concat());
            assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
        }
    }

    /// Writes the balancer's configuration.
    pub fn configure(&self, text: &str) -> PathBuf {
        self.folder.add("balance.toml", format!("{SOURCES}{text}"))
    }

    /// A balancer with the file that was written, at work.
    pub fn balance(&self, more: &[&str]) -> Running {
        let config = self.folder.path("balance.toml");
        let words = ["balance", "-i", "end", "--json", "--config", arg(&config)];
        let running = Running::start(self.command(BALANCER, &[&words[..], more].concat()));
        running.wait_for_stderr("listening on end");
        running
    }

    /// XDP programs on the balancer's interface.
    pub fn programs(&self) -> usize {
        inside(&self.name(BALANCER), || netdev::by_name("end").unwrap().unwrap().xdp_programs.len())
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        // Where a test has failed something may be pinned.
        self.ringside(BALANCER, &["balance", "off", "-i", "end"]);
        for host in SERVERS {
            self.ringside(host, &["decap", "off", "-i", "end"]);
        }
        for host in [0, CLIENT, BALANCER].into_iter().chain(SERVERS) {
            let _ = Command::new("ip").args(["netns", "del", &self.name(host)]).status();
        }
    }
}

pub fn v4(host: u8) -> String {
    format!("10.77.0.{host}")
}

pub fn mac(host: u8) -> String {
    format!("02:00:00:00:77:{host:02x}")
}

pub fn ip(args: &[&str]) -> String {
    run_clean("ip", args)
}
