//! Two cards of one kind on one wire: the sender in a namespace of its own, so that the stack's
//! frames between them cross the wire.

use crate::common::*;
use ringside_core::{FrameMeta, OwnedFrame};
use ringside_netdev as netdev;
use ringside_testkit::skip;
use ringside_transmit::{End, Job, Limits, Load, SenderKind, Shape, Wire};
use std::collections::BTreeMap;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// Namespace of the senders.
const FAR: &str = "far";

/// Frames sent at once: the receive rings of the cards have 256 descriptors at first.
const BURST_FRAMES: usize = 200;

/// A kind of card, by its driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Card {
    Igb,
    Virtio,
}

/// A pair that is up, with carrier at both ends.
pub struct Pair {
    wire: Wire,
    card: Card,
}

/// The interfaces of each kind as they were found at first, before one of them was moved away.
static PAIRS: Mutex<BTreeMap<Card, Option<[String; 2]>>> = Mutex::new(BTreeMap::new());

impl Card {
    fn driver(self) -> &'static str {
        match self {
            Card::Igb => "igb",
            Card::Virtio => "virtio_net",
        }
    }

    /// The pair of this kind; skips `test` if the machine was made without.
    pub fn pair(self, test: &str) -> Option<Pair> {
        let mut pairs = PAIRS.lock().unwrap_or_else(PoisonError::into_inner);
        let names = pairs.entry(self).or_insert_with(|| self.interfaces()).clone();
        let Some([sender, receiver]) = names else {
            skip(test, &format!("the machine has no pair of {self:?}"));
            return None;
        };
        let wire = Wire {
            sender: End { namespace: Some(FAR.into()), interface: sender },
            receiver: Some(End { namespace: None, interface: receiver }),
        };
        let pair = Pair { wire, card: self };
        pair.up();
        Some(pair)
    }

    /// The two interfaces of this driver, in the order of their slots.
    fn interfaces(self) -> Option<[String; 2]> {
        let devices = netdev::list().unwrap();
        let of_driver =
            |name: &String| netdev::driver(name).is_ok_and(|driver| driver == self.driver());
        let names = devices.into_iter().map(|device| device.name).filter(of_driver);
        names.collect::<Vec<_>>().try_into().ok()
    }
}

impl Pair {
    /// Brings both ends up, the sender in its namespace, whatever an earlier test left.
    fn up(&self) {
        let (sender, receiver) = (&self.wire.sender.interface, self.receiver());
        if !run("ip", &["netns", "list"]).text().contains(FAR) {
            run_clean("ip", &["netns", "add", FAR]);
        }
        if netdev::by_name(sender).unwrap().is_some() {
            // Several send queues, or fair ones, would put frames of different flows out of order.
            run_clean("ethtool", &["-L", sender, "combined", "1"]);
            run_clean("ip", &["link", "set", sender, "netns", FAR]);
            run_clean("tc", &["-n", FAR, "qdisc", "replace", "dev", sender, "root", "pfifo"]);
            run_clean("ip", &["-n", FAR, "address", "add", &self.address(1), "dev", sender]);
            self.settle_receiver();
        }
        run_clean("ip", &["-n", FAR, "link", "set", sender, "up"]);
        run_clean("ip", &["link", "set", receiver, "up", "promisc", "off"]);
        self.wait_for_carrier();
    }

    /// Gives the receiver, which is new to the kernel, its address, and the ends each other's.
    pub fn settle_receiver(&self) {
        run_clean("ip", &["address", "add", &self.address(2), "dev", self.receiver()]);
        self.introduce();
    }

    /// Tells both ends each other's address, so that no question comes between what is counted.
    fn introduce(&self) {
        let (sender, receiver) = (&self.wire.sender.interface, self.receiver());
        let mac = |namespace: &[&str], name: &str| {
            let said = run_clean("ip", &[namespace, &["-o", "link", "show", name]].concat());
            said.split_whitespace().skip_while(|&word| word != "link/ether").nth(1).unwrap().into()
        };
        let macs: [String; 2] = [mac(&["-n", FAR], sender), mac(&[], receiver)];
        let [far, near] = [self.host(1), self.host(2)];
        run_clean("ip", &["-n", FAR, "neigh", "replace", &near, "lladdr", &macs[1], "dev", sender]);
        run_clean("ip", &["neigh", "replace", &far, "lladdr", &macs[0], "dev", receiver]);
    }

    fn host(&self, host: u8) -> String {
        format!("10.77.{}.{host}", self.card as u8)
    }

    fn address(&self, host: u8) -> String {
        format!("{}/24", self.host(host))
    }

    /// The end that receives as QEMU's monitor calls it (xtask/src/vm/machine.rs).
    pub fn end_in_monitor(&self) -> &'static str {
        match self.card {
            Card::Igb => "igb1",
            Card::Virtio => "virtio1",
        }
    }

    /// The kernel's driver on the bus of what the ends are.
    pub fn bus_driver(&self) -> &'static str {
        match self.card {
            Card::Igb => "igb",
            Card::Virtio => "virtio-pci",
        }
    }

    /// Frames of different flows arrive in the order in which they were sent. The wire between
    /// virtio cards has several queues, which the receiver's hash brings together.
    pub fn keeps_order(&self) -> bool {
        self.card == Card::Igb
    }

    /// The interface that receives.
    pub fn receiver(&self) -> &str {
        let end = self.wire.receiver.as_ref().expect("both ends are ours");
        &end.interface
    }

    /// The interface that sends, in a namespace of its own.
    pub fn sender(&self) -> &str {
        &self.wire.sender.interface
    }

    /// Runs `work` in the sender's namespace.
    pub fn at_sender<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        inside(FAR, work)
    }

    /// Runs `work` while the sender has no address, as one that the host does not use.
    pub fn without_use_of_the_sender(&self, work: impl FnOnce()) {
        run_clean("ip", &["-n", FAR, "address", "flush", "dev", self.sender()]);
        work();
        let address = self.address(1);
        run_clean("ip", &["-n", FAR, "address", "add", &address, "dev", self.sender()]);
        self.introduce();
    }

    /// Waits until both ends have carrier: a card that was configured anew takes seconds.
    pub fn wait_for_carrier(&self) {
        let carrier = |name: &str| netdev::by_name(name).unwrap().is_some_and(|d| d.carrier);
        let (sender, receiver) = (&self.wire.sender.interface, self.receiver());
        wait_until("carrier", || inside(FAR, || carrier(sender)) && carrier(receiver));
    }

    /// Starts `ringside capture --json -i RECEIVER ARGS`; it listens, and the wire is ready.
    pub fn capture(&self, args: &[&str]) -> Running {
        let mut command = Command::new(ringside());
        command.args(["capture", "--json", "-Qin", "-i", self.receiver()]).args(args);
        // Without an output they are counted.
        command.args((!args.contains(&"-w")).then_some("--count"));
        let running = Running::start(command);
        running.wait_for_stderr("listening on");
        self.wait_for_carrier();
        running
    }

    /// Sends frames, as many at once as the card has room for; so none is lost, however seldom the
    /// machine gets to run. Returns when the card has received them.
    pub fn send(&self, frames: &[OwnedFrame]) {
        frames.chunks(BURST_FRAMES).for_each(|burst| send_burst(self.wire.clone(), burst));
    }

    /// Sends frames at once, no more than it has room for, to a receiver that the kernel has not.
    pub fn send_away(&self, frames: &[OwnedFrame]) {
        send_burst(Wire { receiver: None, ..self.wire.clone() }, frames);
    }

    /// Sends the first `count` numbered frames of `shape`.
    pub fn send_numbered(&self, shape: &Shape, count: u64) {
        let frame =
            |number| OwnedFrame { bytes: shape.frame(0, number), meta: FrameMeta::default() };
        self.send(&(0..count).map(frame).collect::<Vec<_>>());
    }

    /// Frames that the receiver has received. Some drivers begin anew when a socket is bound to a
    /// queue or let go, so both counts of a difference are taken while a capture listens.
    pub fn received(&self) -> u64 {
        netdev::by_name(self.receiver()).unwrap().unwrap().statistics.rx_packets
    }

    /// The same for each of its receive queues; empty where the driver has no such counters.
    pub fn received_by_queue(&self) -> Vec<u64> {
        let statistics = run_clean("ethtool", &["-S", self.receiver()]);
        let count = |queue: usize| {
            let names = [format!("rx_queue_{queue}_packets:"), format!("rx{queue}_packets:")];
            let value = |line: &str| {
                let name = names.iter().find_map(|name| line.trim().strip_prefix(name.as_str()))?;
                Some(name.trim().parse().unwrap())
            };
            statistics.lines().find_map(value)
        };
        (0..).map_while(count).collect()
    }

    /// The stack's own frames cross the wire, both ways.
    pub fn check_that_the_stack_talks(&self) {
        self.wait_for_carrier();
        let target = self.host(2);
        let said = run("ip", &["netns", "exec", FAR, "ping", "-c", "3", "-W", "5", &target]);
        assert_eq!(said.code(), Some(0), "{said:?}");
    }
}

fn send_burst(wire: Wire, burst: &[OwnedFrame]) {
    let count = burst.len() as u64;
    let (sender, load) = (SenderKind::Packet, Load::Replay(burst.into()));
    let limits = Limits::new(Some(count), Some(WAIT_MAX)).unwrap();
    let job = Job { sender, wire, load, cpus: Vec::new(), rate_per_sec: None, limits };
    let report = ringside_transmit::run(&job, &|| false).unwrap();
    assert_eq!((report.offered, report.handed), (count, count), "{report:?}");
}

/// True if `ringside SUBCOMMAND --help` speaks of `option`; else skips `test`.
pub fn need_option(test: &str, subcommand: &str, option: &str) -> bool {
    let help = run_ringside(&[subcommand, "--help"]);
    let known = help.code() == Some(0) && help.text().contains(option);
    if !known {
        skip(test, &format!("this binary has no {subcommand} {option}"));
    }
    known
}
