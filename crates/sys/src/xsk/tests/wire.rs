//! A veth pair in a namespace of its own, whose one end hands its frames to AF_XDP sockets.

use crate::bpf::{FdArray, Program, ProgramType, XdpMode, attach_xdp};
use crate::netns::Namespace;
use crate::packet_tx::PacketTx;
use crate::{ethtool, thread};
use ringside_core::bpf::EbpfInstruction;
use rustix::net::netdevice::name_to_index;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::panic::resume_unwind;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Receive queues of the end that receives.
pub const QUEUES: u32 = 2;
/// What the program puts before each frame.
pub const METADATA: u64 = 0x1122_3344;

const BPF_REDIRECT_MAP: i32 = 51;
const BPF_XDP_ADJUST_META: i32 = 54;
const XDP_PASS: i32 = 2;

/// The pair, and the program at its receiving end.
pub struct Wire {
    namespace: String,
    pub transmitter: PacketTx,
    pub ifindex: u32,
    pub sockets: FdArray,
    _link: OwnedFd,
}

/// Runs `test` on a thread in a fresh namespace with a quiet pair, if this is root.
pub fn on_a_wire(name: &str, test: impl FnOnce(&Wire) + Send + 'static) {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    if !ringside_testkit::need_root(name) {
        return;
    }
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let namespace = format!("rsxsk-{}-{number}", std::process::id());
    let body = move || {
        // A sender that changes its CPU may use another queue of the same flow.
        thread::pin_to_cpu(thread::allowed_cpus().unwrap()[0]).unwrap();
        let _kept = Kept::new(&namespace);
        test(&Wire::new(namespace));
    };
    std::thread::spawn(body).join().unwrap_or_else(|panic| resume_unwind(panic));
}

/// The namespace, deleted in the end.
struct Kept(String);

impl Kept {
    fn new(namespace: &str) -> Kept {
        remove_leftovers();
        run("ip", &["netns", "add", namespace]);
        Kept(namespace.to_owned())
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let _ = Command::new("ip").args(["netns", "del", &self.0]).status();
    }
}

/// Deletes the namespaces of test processes that were killed.
fn remove_leftovers() {
    let Ok(entries) = std::fs::read_dir("/run/netns") else { return };
    for name in entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()) {
        let owner = name.strip_prefix("rsxsk-").and_then(|rest| rest.split('-').next());
        let Some(owner) = owner else { continue };
        if !std::path::Path::new("/proc").join(owner).exists() {
            let _ = Command::new("ip").args(["netns", "del", &name]).status();
        }
    }
}

impl Wire {
    fn new(namespace: String) -> Wire {
        Namespace::open(&namespace).unwrap().enter().unwrap();
        for family in ["all", "default"] {
            run("sysctl", &["-qw", &format!("net.ipv6.conf.{family}.disable_ipv6=1")]);
        }
        let queues = format!("numrxqueues {QUEUES} numtxqueues {QUEUES}");
        ip(&format!("link add far {queues} mtu 65535 type veth peer name near {queues} mtu 65535"));
        for end in ["far", "near"] {
            run("ethtool", &["-K", end, "gro", "off", "tso", "off", "gso", "off"]);
            ip(&format!("link set {end} arp off up"));
        }
        // Until the kernel has noticed the link it drops what is sent.
        let start = Instant::now();
        while !run("ip", &["-o", "link", "show", "far"]).contains("state UP") {
            assert!(start.elapsed() < Duration::from_secs(20), "the pair does not come up");
            std::thread::sleep(Duration::from_millis(5));
        }
        let socket = ethtool::control_socket().unwrap();
        let index = |name| name_to_index(&socket, name).unwrap();
        let sockets = FdArray::create_for_sockets("rs_xsk", QUEUES).unwrap();
        let program = program(&sockets);
        let ifindex = index("near");
        let link = attach_xdp(program.as_fd(), ifindex, XdpMode::Native).unwrap();
        // Without the bypass the queue follows the flow, not the sender's CPU.
        let transmitter = PacketTx::open(index("far"), false).unwrap();
        Wire { namespace, transmitter, ifindex, sockets, _link: link }
    }

    /// Sends frames, few enough that the pair's ring of 256 takes them.
    pub fn send(&self, frames: &[&[u8]]) {
        assert_eq!(self.transmitter.send_batch(frames).unwrap(), frames.len());
    }

    /// Deletes the pair from another process.
    pub fn delete_pair(&self) {
        run("ip", &["-n", &self.namespace, "link", "del", "far"]);
    }
}

fn ip(words: &str) {
    run("ip", &words.split_whitespace().collect::<Vec<_>>());
}

/// Runs a tool; returns what it said.
fn run(tool: &str, arguments: &[&str]) -> String {
    let output = Command::new(tool).args(arguments).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{tool} {arguments:?}: {error}");
    String::from_utf8(output.stdout).unwrap()
}

/// Puts [`METADATA`] before a frame and hands it to the socket of its queue, if there is one.
fn program(sockets: &FdArray) -> Program {
    let i = |code, dst, src, offset, imm| EbpfInstruction { code, dst, src, offset, imm };
    let fd = sockets.as_fd().as_raw_fd();
    let instructions = [
        i(0xbf, 6, 1, 0, 0),                   // r6 = context
        i(0xb7, 2, 0, 0, -8),                  // r2 = -8
        i(0x85, 0, 0, 0, BPF_XDP_ADJUST_META), // r0 = bpf_xdp_adjust_meta(r1, r2)
        i(0x55, 0, 0, 12, 0),                  // if r0 != 0 pass
        i(0x61, 2, 6, 0, 0),                   // r2 = data
        i(0x61, 3, 6, 8, 0),                   // r3 = data_meta
        i(0xbf, 4, 3, 0, 0),                   // r4 = r3
        i(0x07, 4, 0, 0, 8),                   // r4 += 8
        i(0x2d, 4, 2, 7, 0),                   // if r4 > r2 pass
        i(0x7a, 3, 0, 0, METADATA as i32),     // *(u64 *)r3 = METADATA
        i(0x61, 2, 6, 16, 0),                  // r2 = rx_queue_index
        i(0x18, 1, 1, 0, fd),                  // r1 = sockets
        i(0, 0, 0, 0, 0),
        i(0xb7, 3, 0, 0, XDP_PASS),         // r3 = XDP_PASS
        i(0x85, 0, 0, 0, BPF_REDIRECT_MAP), // r0 = bpf_redirect_map(r1, r2, r3)
        i(0x95, 0, 0, 0, 0),
        i(0xb7, 0, 0, 0, XDP_PASS), // pass:
        i(0x95, 0, 0, 0, 0),
    ];
    Program::load(ProgramType::Xdp, "rs_xsk_test", &instructions).unwrap()
}
