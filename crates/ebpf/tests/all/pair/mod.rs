//! A veth pair between two namespaces of its own, in which nothing else sends.

#![allow(clippy::unwrap_used, dead_code)]

use ringside_ebpf::socket_filter::SocketFilter;
use ringside_sys::netns::Namespace;
use ringside_sys::packet_tx::{PacketTx, SEND_FRAMES_MAX};
use ringside_testkit::wait_until;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use std::os::fd::OwnedFd;
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Two namespaces joined by a veth pair, in which nothing else sends. One test of a process has a
/// pair at a time: a program that another starts meanwhile holds all descriptors of the process
/// until it runs, so that what a test closes would not be gone yet.
pub struct Pair {
    pub sender: String,
    pub receiver: String,
    _turn: MutexGuard<'static, ()>,
}

static TURN: Mutex<()> = Mutex::new(());

impl Pair {
    pub fn new(name: &str) -> Pair {
        let id = std::process::id();
        let pair = Pair {
            _turn: TURN.lock().unwrap_or_else(PoisonError::into_inner),
            sender: format!("rsflt-{name}-a-{id}"),
            receiver: format!("rsflt-{name}-b-{id}"),
        };
        for namespace in [&pair.sender, &pair.receiver] {
            ip(&["netns", "add", namespace]);
            // No router solicitations and the like among the frames that are counted.
            let quiet = "for f in /proc/sys/net/ipv6/conf/*/disable_ipv6; do echo 1 > $f; done";
            ip(&["netns", "exec", namespace, "sh", "-c", quiet]);
        }
        let (a, b) = (pair.sender.as_str(), pair.receiver.as_str());
        // With an index of its own the kernel notices the link at once (linkwatch_urgent_event).
        ip(&[
            "-n", a, "link", "add", "end", "index", "1000", "mtu", "65535", "type", "veth", "peer",
            "end", "mtu", "65535", "netns", b,
        ]);
        for namespace in [a, b] {
            ip(&["-n", namespace, "link", "set", "end", "up"]);
        }
        // Until the kernel has noticed the link it drops what is sent.
        wait_until("the link", || ip(&["-n", a, "-o", "link", "show", "end"]).contains("state UP"));
        pair
    }

    pub fn transmitter(&self) -> PacketTx {
        inside(&self.sender, || PacketTx::open(ifindex(&self.sender), true).unwrap())
    }

    pub fn sockets(&self, count: usize) -> Vec<OwnedFd> {
        let every_protocol = rustix::net::Protocol::from_raw(0x0300.try_into().unwrap());
        let open = || {
            let (family, kind) = (AddressFamily::PACKET, SocketType::RAW);
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            socket_with(family, kind, flags, Some(every_protocol)).unwrap()
        };
        inside(&self.receiver, || (0..count).map(|_| open()).collect())
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        for namespace in [&self.sender, &self.receiver] {
            let _ = Command::new("ip").args(["netns", "del", namespace]).status();
        }
    }
}

pub fn ip(arguments: &[&str]) -> String {
    let output = Command::new("ip").args(arguments).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {arguments:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

/// Number of the pair's end in a namespace.
pub fn ifindex(namespace: &str) -> u32 {
    let text = ip(&["-n", namespace, "-o", "link", "show", "end"]);
    text.split(':').next().unwrap().trim().parse().unwrap()
}

/// Runs `work` in a thread of a namespace; what it opens stays there.
pub fn inside<T: Send>(namespace: &str, work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let run = || {
            Namespace::open(namespace).unwrap().enter().unwrap();
            work()
        };
        scope.spawn(run).join().unwrap()
    })
}

/// Sends in small batches and waits for each, so that no queue on the way overflows.
pub fn send(transmitter: &PacketTx, frames: &[&[u8]], witness: &SocketFilter) {
    let mut seen = witness.counters().unwrap().seen;
    for batch in frames.chunks(SEND_FRAMES_MAX) {
        let mut rest = batch;
        while !rest.is_empty() {
            rest = &rest[transmitter.send_batch(rest).unwrap()..];
        }
        seen += batch.len() as u64;
        let start = Instant::now();
        while witness.counters().unwrap().seen < seen {
            assert!(start.elapsed() < Duration::from_secs(20), "frames were lost on the way");
            std::thread::yield_now();
        }
    }
}
