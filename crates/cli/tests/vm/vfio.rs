//! Cards that DPDK's drivers have, by vfio-pci: what was sent is in the files, the link is watched,
//! and the kernel has its card again afterwards. Runs in a machine with an IOMMU (docs/vm.md).

use crate::common::*;
use crate::exactness::{FLOWS, FRAMES, SIZES, check_files};
use crate::pair::{Card, Pair};
use crate::symmetry::PORTS_AT;
use ringside_core::{FrameMeta, Ledger, OwnedFrame};
use ringside_testkit::skip;
use ringside_transmit::{Shape, Sizes, Stamp};
use std::fs;
use std::path::{Path, PathBuf};

/// Frames sent at once: fewer than a queue of either card holds (docs/vm.md), whatever the hash.
const BURST_FRAMES: u64 = 1_000;
/// Frames that are sent after the link was down.
const LAST_FRAMES: u64 = 2_000;
/// Pages of 2 MiB for the frames of two queues, and more.
const HUGE_PAGES: &str = "256";

/// QEMU's monitor (xtask/src/vm/machine.rs).
const MONITOR: &str = "/dev/ttyS2";
const DEVICES: &str = "/sys/bus/pci/devices";

#[test]
fn igb() {
    if let Some(ledger) = record_by_vfio(Card::Igb, "vfio::igb") {
        check_ledger(&ledger, FRAMES);
    }
}

/// Its driver counts no losses.
#[test]
fn virtio() {
    if let Some(ledger) = record_by_vfio(Card::Virtio, "vfio::virtio") {
        assert_eq!(ledger.balance(), Ok(()), "{ledger:#?}");
        assert_eq!(ledger.received, None, "{ledger:#?}");
    }
}

/// Records what a card of this kind receives in two queues, and checks all that is the same for
/// every driver.
fn record_by_vfio(card: Card, test: &str) -> Option<Ledger> {
    if !ringside().with_file_name("libringside_dpdk.so").exists() {
        skip(test, "DPDK's headers were not there when ringside was built");
        return None;
    }
    let pair = card.pair(test)?;
    fs::write("/proc/sys/vm/nr_hugepages", HUGE_PAGES).unwrap();
    let bound = Bound::to_vfio(&pair);
    let folder = tempfile::tempdir().unwrap();
    let recording = folder.path().join("recording");
    let run = Run::start(&bound, &recording, folder.path().join("control.sock"));
    run.send(0..FRAMES - LAST_FRAMES);
    run.lose_the_link();
    run.send(FRAMES - LAST_FRAMES..FRAMES);
    let outcome = run.running.stop();
    println!("{}", outcome.stderr);
    assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
    let ledger = outcome.ledger();
    assert_eq!((ledger.taken, ledger.lost()), (FRAMES, 0), "{ledger:#?}");
    let taken: Vec<u64> = ledger.lanes.iter().map(|lane| lane.taken).collect();
    println!("frames of each queue: {taken:?}");
    assert_eq!(taken.len(), 2, "{ledger:#?}");
    assert!(taken.iter().all(|&frames| frames >= FRAMES / 10), "{taken:?}");
    let frames = Frames::new();
    check_files(&recording, |stamp: &Stamp| frames.bytes(stamp.sequence), pair.keeps_order());
    bound.give_back();
    pair.check_that_the_stack_talks();
    Some(ledger)
}

/// A receiver that the kernel gave to vfio-pci.
struct Bound<'p> {
    pair: &'p Pair,
    /// As `0000:01:00.0`.
    address: String,
}

impl Bound<'_> {
    /// As docs/dpdk.md has it.
    fn to_vfio(pair: &Pair) -> Bound<'_> {
        run_clean("ip", &["link", "set", pair.receiver(), "down"]);
        let device = fs::canonicalize(format!("/sys/class/net/{}/device", pair.receiver()));
        let device = device.unwrap();
        // The interface of virtio-net belongs to a device of its own bus, on that of the card.
        let card = device.ancestors().find(|path| path.join("driver_override").exists()).unwrap();
        let address = card.file_name().unwrap().to_str().unwrap().to_owned();
        let bound = Bound { pair, address };
        assert_eq!(bound.driver(), pair.bus_driver());
        fs::write(card.join("driver/unbind"), &bound.address).unwrap();
        fs::write(card.join("driver_override"), "vfio-pci").unwrap();
        fs::write("/sys/bus/pci/drivers_probe", &bound.address).unwrap();
        assert_eq!(bound.driver(), "vfio-pci");
        bound
    }

    fn folder(&self) -> PathBuf {
        Path::new(DEVICES).join(&self.address)
    }

    fn driver(&self) -> String {
        let driver = fs::read_link(self.folder().join("driver")).unwrap();
        driver.file_name().unwrap().to_str().unwrap().to_owned()
    }

    /// By what `doctor` says.
    fn give_back(&self) {
        let said = run_ringside(&["doctor"]).text();
        let found = format!("{} is bound to vfio-pci: -i dpdk:{0}", self.address);
        assert!(said.contains(&found), "{said}");
        let (_, way) = said.split_once("to give it back to the kernel: ").expect(&said);
        let way = way.lines().next().unwrap().trim_end().trim_end_matches("(not by --fix)");
        assert!(way.contains(&self.address), "{way}");
        run_clean("sh", &["-c", way]);
        assert_eq!(self.driver(), self.pair.bus_driver());
        // The lowest name is free by now.
        let name = self.interface();
        if name != self.pair.receiver() {
            run_clean("ip", &["link", "set", &name, "name", self.pair.receiver()]);
        }
        self.pair.settle_receiver();
        run_clean("ip", &["link", "set", self.pair.receiver(), "up"]);
    }

    /// The interface that the kernel's driver makes of it.
    fn interface(&self) -> String {
        let mut name = None;
        wait_until("an interface of the card", || {
            let below = fs::read_dir(self.folder()).unwrap().flatten().map(|entry| entry.path());
            let folders = below.filter(|path| path.to_string_lossy().contains("/virtio"));
            let mut folders = folders.chain([self.folder()]).map(|path| path.join("net"));
            let mut entries = folders.find_map(|path| fs::read_dir(path).ok());
            let entry = entries.as_mut().and_then(|entries| entries.next());
            name = entry.map(|entry| entry.unwrap().file_name().into_string().unwrap());
            name.is_some()
        });
        name.unwrap()
    }
}

/// Numbered frames that a symmetric key, as the backend sets, spreads: the ports of [`Shape`] grow
/// as its addresses do, and the two cancel out.
struct Frames(Shape);

impl Frames {
    fn new() -> Frames {
        Frames(Shape::new(Sizes::list(&SIZES).unwrap(), FLOWS).unwrap())
    }

    fn bytes(&self, number: u64) -> Vec<u8> {
        let mut bytes = self.0.frame(0, number);
        let port = 1024 + (number % u64::from(FLOWS)) as u16 * 769;
        bytes[PORTS_AT..PORTS_AT + 2].copy_from_slice(&port.to_be_bytes());
        bytes
    }
}

/// A capture that runs.
struct Run<'p> {
    pair: &'p Pair,
    running: Running,
    socket: PathBuf,
    frames: Frames,
}

impl Run<'_> {
    fn start<'p>(bound: &Bound<'p>, recording: &Path, socket: PathBuf) -> Run<'p> {
        let mut command = std::process::Command::new(ringside());
        command.args(["capture", "--json", "-i", &format!("dpdk:{}", bound.address)]);
        command.args(["--queues", "2", "-w", arg(recording), "--control", arg(&socket)]);
        let running = Running::start(command);
        running.wait_for_stderr("listening on");
        Run { pair: bound.pair, running, socket, frames: Frames::new() }
    }

    /// Sends the frames of these numbers, and waits until they were taken.
    fn send(&self, numbers: std::ops::Range<u64>) {
        let frames: Vec<u64> = numbers.collect();
        for burst in frames.chunks(BURST_FRAMES as usize) {
            let frame = |&number| OwnedFrame {
                bytes: self.frames.bytes(number),
                meta: FrameMeta::default(),
            };
            self.pair.send_away(&burst.iter().map(frame).collect::<Vec<_>>());
            let taken = burst.last().unwrap() + 1;
            wait_until("a burst to be taken", || self.taken() >= taken);
        }
    }

    fn taken(&self) -> u64 {
        let status = run_ringside(&["status", arg(&self.socket), "--json"]);
        status.json_lines()[0]["status"]["ledger"]["taken"].as_u64().unwrap()
    }

    /// No frame is on its way meanwhile: when QEMU would take it from the wire no test can say.
    fn lose_the_link(&self) {
        self.set_link("off");
        self.running.wait_for_stderr("its link is down; frames come once it is up");
        self.set_link("on");
        self.running.wait_for_stderr("its link is up again");
    }

    fn set_link(&self, state: &str) {
        run_clean("stty", &["-F", MONITOR, "raw", "-echo"]);
        fs::write(MONITOR, format!("\nset_link {} {state}\n", self.pair.end_in_monitor())).unwrap();
    }
}
