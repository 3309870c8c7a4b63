//! Hosts and routers as network namespaces, joined by veth pairs.

#![allow(clippy::unwrap_used, dead_code)]

use ringside_ebpf::XdpProgram;
use ringside_sys::netns::Namespace;
use ringside_sys::packet_tx::{PacketTx, SEND_FRAMES_MAX};
use ringside_testkit::wait_until;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// Longest frame that a tap reads.
const FRAME_BYTES_MAX: usize = 2048;

/// Namespaces of one test, which go with it.
pub struct Net {
    prefix: String,
    spaces: Vec<&'static str>,
}

impl Net {
    pub fn new(spaces: &[&'static str]) -> Net {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let prefix = format!("ringside-rt{}-{number}", std::process::id());
        let net = Net { prefix, spaces: spaces.to_vec() };
        for space in spaces {
            run("ip", &["netns", "add", &net.ns(space)]);
            net.ip(space, "link set lo up");
            // Nothing is asked and said on its own: frames are counted.
            for (key, value) in [
                ("net.ipv6.conf.default.accept_dad", "0"),
                ("net.ipv6.conf.default.dad_transmits", "0"),
                ("net.ipv6.conf.default.router_solicitations", "0"),
                ("net.ipv4.conf.all.rp_filter", "0"),
                ("net.ipv4.conf.default.rp_filter", "0"),
            ] {
                net.sysctl(space, key, value);
            }
        }
        net
    }

    /// Name of a namespace.
    pub fn ns(&self, space: &str) -> String {
        format!("{}-{space}", self.prefix)
    }

    /// A pair, with what a host's stack does to segments off: ends are `space/interface/mac`.
    pub fn link(&self, a: &str, b: &str) {
        let part = |end: &str, at: usize| end.split('/').nth(at).unwrap().to_owned();
        let [(na, ia, ma), (nb, ib, mb)] =
            [a, b].map(|end| (part(end, 0), part(end, 1), part(end, 2)));
        let peer = self.ns(&nb);
        self.ip(
            &na,
            &format!(
                "link add {ia} address {ma} type veth peer name {ib} netns {peer} address {mb}"
            ),
        );
        for (space, interface) in [(&na, &ia), (&nb, &ib)] {
            let off = "tx off tso off gso off gro off rxvlan off rx-vlan-stag-hw-parse off";
            let line = format!("netns exec {} ethtool -K {interface} {off}", self.ns(space));
            run("ip", &line.split(' ').collect::<Vec<_>>());
        }
        for (space, interface) in [(&na, &ia), (&nb, &ib)] {
            self.ip(space, &format!("link set {interface} up"));
        }
        for (space, interface) in [(&na, &ia), (&nb, &ib)] {
            let line = format!("-o link show {interface}");
            wait_until("the link", || self.ip(space, &line).contains("state UP"));
        }
    }

    /// Gives an end a NAPI, so that frames that are redirected to the other end arrive.
    pub fn pass(&self, space: &str, interface: &str) {
        let ifindex = self.ifindex(space, interface);
        self.inside(space, || XdpProgram::pass().unwrap().attach(ifindex).unwrap().keep());
    }

    /// `ip -n SPACE WORDS`, which must succeed.
    pub fn ip(&self, space: &str, words: &str) -> String {
        let name = self.ns(space);
        let words = ["-n", &name].into_iter().chain(words.split(' '));
        run("ip", &words.collect::<Vec<_>>())
    }

    /// Several such lines.
    pub fn ips(&self, space: &str, lines: &[&str]) {
        for line in lines {
            self.ip(space, line);
        }
    }

    /// Sets it; one of IPv6 where there is no IPv6 is none.
    pub fn sysctl(&self, space: &str, key: &str, value: &str) {
        if key.starts_with("net.ipv6.") && !Path::new("/proc/sys/net/ipv6").exists() {
            return;
        }
        let path = format!("/proc/sys/{}", key.replace('.', "/"));
        let set = || std::fs::write(&path, value).map_err(|e| format!("{path}: {e}"));
        self.inside(space, || set().unwrap());
    }

    pub fn ifindex(&self, space: &str, interface: &str) -> u32 {
        let text = self.ip(space, &format!("-o link show {interface}"));
        text.split(':').next().unwrap().trim().parse().unwrap()
    }

    /// Runs `work` on a thread in a namespace; what it opens stays there.
    pub fn inside<T: Send>(&self, space: &str, work: impl FnOnce() -> T + Send) -> T {
        let name = self.ns(space);
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                Namespace::open(&name).unwrap().enter().unwrap();
                work()
            });
            thread.join().unwrap()
        })
    }

    pub fn transmitter(&self, space: &str, interface: &str) -> PacketTx {
        let ifindex = self.ifindex(space, interface);
        self.inside(space, || PacketTx::open(ifindex, true).unwrap())
    }

    /// Reads what the interfaces of a namespace receive.
    pub fn tap(&self, space: &str) -> Tap {
        let every_protocol = rustix::net::Protocol::from_raw(0x0300.try_into().unwrap());
        self.inside(space, || {
            let (family, kind) = (AddressFamily::PACKET, SocketType::RAW);
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let socket = socket_with(family, kind, flags, Some(every_protocol)).unwrap();
            rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, 8 << 20).unwrap();
            Tap { socket }
        })
    }
}

/// Hosts `a` and `b`, and a router `r` between them, with routes for IPv4 and IPv6: 10.1.0.2 and
/// fd01::2 here, 10.2.0.2 and fd02::2 there.
pub fn hosts() -> Net {
    let net = Net::new(&["r", "a", "b"]);
    for (number, host) in [(1, "a"), (2, "b")] {
        net.link(
            &format!("r/eth{number}/02:00:00:00:0{number}:01"),
            &format!("{host}/far/02:00:00:00:0{number}:02"),
        );
        net.pass(host, "far");
        for (space, interface, last) in [("r", format!("eth{number}"), 1), (host, "far".into(), 2)]
        {
            net.ip(space, &format!("addr add 10.{number}.0.{last}/24 dev {interface}"));
            net.ip(space, &format!("addr add fd0{number}::{last}/64 dev {interface} nodad"));
        }
        net.ip(host, &format!("route add default via 10.{number}.0.1"));
        net.ip(host, &format!("-6 route add default via fd0{number}::1"));
    }
    for version in [4, 6] {
        net.sysctl("r", &format!("net.ipv{version}.conf.all.forwarding"), "1");
    }
    net
}

impl Drop for Net {
    fn drop(&mut self) {
        for space in &self.spaces {
            let _ = Command::new("ip").args(["netns", "del", &self.ns(space)]).output();
        }
    }
}

/// A packet socket.
pub struct Tap {
    socket: OwnedFd,
}

impl Tap {
    /// Frames that have come since, in order.
    pub fn frames(&self) -> Vec<Vec<u8>> {
        let mut frames = Vec::new();
        let mut buffer = [0u8; FRAME_BYTES_MAX];
        let flags = rustix::net::RecvFlags::empty();
        while let Ok((_, bytes)) = rustix::net::recv(&self.socket, &mut buffer[..], flags) {
            frames.push(buffer[..bytes].to_vec());
        }
        frames
    }
}

/// Sends in small batches, with a rest after each, so that no ring on the way overflows.
pub fn send(transmitter: &PacketTx, frames: &[Vec<u8>]) {
    for batch in frames.chunks(SEND_FRAMES_MAX.min(32)) {
        let batch: Vec<&[u8]> = batch.iter().map(Vec::as_slice).collect();
        let mut rest = &batch[..];
        while !rest.is_empty() {
            rest = &rest[transmitter.send_batch(rest).unwrap()..];
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Runs a program, which must succeed; its output.
pub fn run(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}
