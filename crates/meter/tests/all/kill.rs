//! A process that dies leaves its cache to one that has the descriptors: nothing that was in the
//! kernel is lost, and what the process had read is stated.

use crate::flows::ByFlow;
use crate::headers::{headers, table};
use crate::pair::{Pair, inside, send};
use ringside_core::{InterfaceId, LinkType};
use ringside_ebpf::socket_filter::SocketFilter;
use ringside_flow::Sums;
use ringside_meter::{FlowLayout, Hook, Ledger, Meter, Options};
use ringside_sys::fdpass::{LineReceiver, send_line};
use ringside_sys::netns::Namespace;
use ringside_testkit::{WAIT_MAX, need_root};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Child, Command};
use std::time::Instant;

/// Of the child: its hook, its namespace, and the socket where it gives what it has.
const CHILD: &str = "RINGSIDE_METER_TEST_CHILD";
const FRAMES: u64 = 4_000;
/// What the child is asked for: to read once, or without end.
const READ: u8 = b'r';
const READ_ON: u8 = b'o';

fn options() -> Options {
    Options { entries: 256, ..Options::default() }
}

/// What the child does; in an ordinary run, nothing.
#[test]
fn part_of_a_process_that_dies() {
    let Ok(order) = std::env::var(CHILD) else { return };
    let [hook, namespace, socket] = order.split(' ').collect::<Vec<_>>()[..] else { panic!() };
    Namespace::open(namespace).unwrap().enter().unwrap();
    let hook = if hook == "xdp" { Hook::Xdp } else { Hook::Tc };
    let mut meter = Meter::open("end", hook, &options()).unwrap();
    let mut stream = UnixStream::connect(socket).unwrap();
    let FlowLayout { cpus, sets, ring_bytes } = meter.layout();
    let line = format!("{cpus} {sets} {ring_bytes}");
    send_line(&stream, line.as_bytes(), &meter.descriptors()).unwrap();
    let (mut table, mut order) = (table(), [0]);
    loop {
        if order[0] != READ_ON {
            stream.read_exact(&mut order).unwrap();
        }
        meter.poll(&mut table, &mut |_| {}).unwrap();
        if order[0] == READ {
            stream.write_all(&order).unwrap();
        }
    }
}

/// A child with its cache on an interface, and what it gave.
struct Other {
    child: Child,
    stream: UnixStream,
    layout: FlowLayout,
    descriptors: Vec<OwnedFd>,
}

impl Other {
    fn start(hook: &str, pair: &Pair) -> Other {
        let socket = std::env::temp_dir().join(format!("rsmeter-{}", pair.receiver));
        let _ = std::fs::remove_file(&socket);
        let listener = UnixListener::bind(&socket).unwrap();
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "kill::part_of_a_process_that_dies", "--nocapture"])
            .env(CHILD, format!("{hook} {} {}", pair.receiver, socket.display()))
            .spawn()
            .unwrap();
        let (stream, _) = listener.accept().unwrap();
        std::fs::remove_file(&socket).unwrap();
        let line = LineReceiver::new(100).receive(&stream, Instant::now() + WAIT_MAX);
        let line = line.unwrap().unwrap();
        let text = String::from_utf8(line.bytes).unwrap();
        let numbers: Vec<u32> = text.split(' ').map(|number| number.parse().unwrap()).collect();
        let [cpus, sets, ring_bytes] = numbers[..] else { panic!("{text}") };
        let layout = FlowLayout { cpus, sets, ring_bytes };
        Other { child, stream, layout, descriptors: line.fds }
    }

    /// Has it read once.
    fn read(&mut self) {
        let mut answer = [0];
        self.stream.write_all(&[READ]).unwrap();
        self.stream.read_exact(&mut answer).unwrap();
    }

    /// It dies, and this process has its cache.
    fn kill(mut self) -> Meter {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        Meter::take_over("end", InterfaceId(0), self.layout, self.descriptors).unwrap()
    }
}

/// Sends frames of 500 flows, with `between` after each tenth; after a third of them the child
/// dies.
fn run(hook: &str, name: &str, mut between: impl FnMut(&mut Other)) -> (Ledger, Sums) {
    let pair = Pair::new(name);
    let mut other = Some(Other::start(hook, &pair));
    let witness = SocketFilter::load_accept_all(LinkType::ETHERNET, 0).unwrap();
    let socket = pair.sockets(1).remove(0);
    witness.attach(&socket).unwrap();
    let transmitter = pair.transmitter();
    let all = headers(500);
    let frames: Vec<&[u8]> = all.iter().cycle().take(FRAMES as usize).map(|f| &f[..]).collect();
    let mut meter = None;
    for (tenth, frames) in frames.chunks(FRAMES as usize / 10).enumerate() {
        send(&transmitter, frames, &witness);
        if let Some(other) = &mut other {
            between(other);
        }
        if tenth == 3 {
            let other = other.take();
            meter = inside(&pair.receiver, move || other.map(Other::kill));
        }
    }
    let (mut meter, mut table, mut flows) = (meter.unwrap(), table(), ByFlow::default());
    let out = &mut |record| flows.add(&record);
    let ledger = inside(&pair.receiver, || meter.finish(&mut table, out).unwrap());
    assert!(ledger.balances(), "{ledger:?}");
    assert_eq!(ledger.received.packets, FRAMES, "none passed by uncounted: {ledger:?}");
    assert_eq!(ledger.no_room, Sums::default());
    assert_eq!(flows.sums(), ledger.in_flows);
    (ledger, flows.sums())
}

#[test]
fn what_is_in_the_kernel_outlives_its_process() {
    if !need_root("what_is_in_the_kernel_outlives_its_process") {
        return;
    }
    for hook in ["xdp", "tc"] {
        let (ledger, found) = run(hook, "mkill", |_| {});
        assert_eq!(found.packets, FRAMES, "{ledger:?}");
        assert_eq!(ledger.lost_before, Sums::default());
    }
}

#[test]
fn what_a_process_had_read_is_lost_with_it_and_stated() {
    if !need_root("what_a_process_had_read_is_lost_with_it_and_stated") {
        return;
    }
    for hook in ["xdp", "tc"] {
        let mut readings = 0;
        let (ledger, found) = run(hook, "mread", |other| {
            // Of the first three tenths; the fourth stays in the kernel.
            if readings < 3 {
                other.read();
            }
            readings += 1;
        });
        assert_eq!(ledger.lost_before.packets, FRAMES * 3 / 10, "{ledger:?}");
        assert_eq!(ledger.taken_before, ledger.lost_before, "it exported nothing");
        assert_eq!(found.packets, FRAMES * 7 / 10);
    }
}

#[test]
fn a_process_that_dies_while_it_reads_leaves_nothing_half_taken() {
    if !need_root("a_process_that_dies_while_it_reads_leaves_nothing_half_taken") {
        return;
    }
    let mut is_first = true;
    let (ledger, found) = run("xdp", "mdie", |other| {
        if std::mem::take(&mut is_first) {
            other.stream.write_all(&[READ_ON]).unwrap();
        }
    });
    assert_eq!(found.packets + ledger.lost_before.packets, FRAMES, "{ledger:?}");
    assert!(found.packets >= FRAMES * 6 / 10, "{ledger:?}");
}
