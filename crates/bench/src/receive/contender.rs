//! Who is compared in `bench receive`: how each is run at its fastest without a file, and what it
//! says at its end.

use super::super::network::{Placement, Standing};
use super::super::receiver::{Idle, Program, Summary};
use super::super::testpmd::{self, Device, Forwarding};
use super::super::tools::{self, Options, Target, Tool};
use clap::ValueEnum;
use ringside_terminal::Wait;
use std::ffi::OsString;
use std::time::Duration;

/// Memory for frames of each tool and interface: our kernel ring's and our AF_XDP memory's default.
const MEMORY_BYTES: u64 = 32 << 20;
/// Capture ring of ours where frames are put into one: more than the caches hold, as in use.
const CAPTURE_RING_BYTES: u64 = 128 << 20;
/// What our af-xdp backend takes in addition to its memory for frames: room for frames of several
/// parts, and the rest of the last page.
const AF_XDP_OVERHEAD_BYTES: u64 = 8 << 20;
/// Bytes of a huge page.
const HUGE_PAGE_BYTES: u64 = 2 << 20;
/// An af-xdp worker has its rings empty within this time, whatever the way it waits.
const AF_XDP_SETTLE: Duration = Duration::from_millis(300);

/// A tool that receives, or a limit of what can be received.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum)]
pub(super) enum Kind {
    /// This program, frames from inside the driver.
    Ringside,
    /// This program, frames that a program inside the driver copies.
    #[value(name = "ringside-xdp-ring")]
    RingsideRing,
    /// This program, packet sockets.
    #[value(name = "ringside-af-packet")]
    RingsidePacket,
    /// This program through libpcap.
    #[value(name = "ringside-pcap")]
    RingsidePcap,
    /// This program through PF_RING.
    #[value(name = "ringside-pf-ring")]
    RingsidePfRing,
    /// This program through netmap.
    #[value(name = "ringside-netmap")]
    RingsideNetmap,
    /// This program through DPDK with net_af_xdp.
    #[value(name = "ringside-dpdk-af-xdp")]
    RingsideDpdkXdp,
    /// This program through DPDK with net_af_packet.
    #[value(name = "ringside-dpdk-af-packet")]
    RingsideDpdkPacket,
    /// tcpdump to /dev/null.
    Tcpdump,
    /// dumpcap of Wireshark to /dev/null.
    Dumpcap,
    /// netsniff-ng to /dev/null.
    #[value(name = "netsniff-ng")]
    Netsniff,
    /// testpmd of DPDK with net_af_xdp as it is by itself: it polls the queue by system calls.
    #[value(name = "testpmd-af-xdp")]
    TestpmdXdp,
    /// The same without those calls (busy_budget=0), which is faster where the receive path runs
    /// elsewhere.
    #[value(name = "testpmd-af-xdp-spin")]
    TestpmdXdpSpin,
    /// testpmd of DPDK with net_af_packet, receiving only.
    #[value(name = "testpmd-af-packet")]
    TestpmdPacket,
    /// An XDP program that discards every frame: the limit of the receive path.
    XdpDrop,
    /// The same, reading the clock for every frame: what a stamp costs at least.
    #[value(name = "xdp-drop-stamp")]
    XdpDropStamp,
    /// An XDP program that passes every frame to the host's stack, to a closed port.
    XdpPass,
}

impl Kind {
    /// As people call it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Ringside => "ringside",
            Kind::RingsideRing => "ringside-xdp-ring",
            Kind::RingsidePacket => "ringside-af-packet",
            Kind::RingsidePcap => "ringside-pcap",
            Kind::RingsidePfRing => "ringside-pf-ring",
            Kind::RingsideNetmap => "ringside-netmap",
            Kind::RingsideDpdkXdp => "ringside-dpdk-af-xdp",
            Kind::RingsideDpdkPacket => "ringside-dpdk-af-packet",
            Kind::Tcpdump => "tcpdump",
            Kind::Dumpcap => "dumpcap",
            Kind::Netsniff => "netsniff-ng",
            Kind::TestpmdXdp => "testpmd-af-xdp",
            Kind::TestpmdXdpSpin => "testpmd-af-xdp-spin",
            Kind::TestpmdPacket => "testpmd-af-packet",
            Kind::XdpDrop => "xdp-drop",
            Kind::XdpDropStamp => "xdp-drop-stamp",
            Kind::XdpPass => "xdp-pass",
        }
    }

    /// True if it can be run here.
    pub(super) fn is_installed(self) -> bool {
        match self {
            Kind::Tcpdump => Tool::Tcpdump.version().is_some(),
            Kind::Dumpcap => Tool::Dumpcap.version().is_some(),
            Kind::Netsniff => Tool::Netsniff.version().is_some(),
            kind if kind.is_testpmd() => testpmd::is_installed(),
            kind if kind.is_own_by_dpdk() => ringside_dpdk::release().is_ok(),
            Kind::RingsideNetmap => ringside_sys::netmap::open().is_ok(),
            Kind::RingsidePfRing => {
                ringside_pfring::Library::find().is_ok() && ringside_pfring::module().is_some()
            }
            _ => true,
        }
    }

    /// True if it is testpmd, which cannot do without huge pages.
    pub(super) fn is_testpmd(self) -> bool {
        matches!(self, Kind::TestpmdXdp | Kind::TestpmdXdpSpin | Kind::TestpmdPacket)
    }

    /// True if it is this program, by DPDK's drivers.
    fn is_own_by_dpdk(self) -> bool {
        matches!(self, Kind::RingsideDpdkXdp | Kind::RingsideDpdkPacket)
    }

    /// True if no tool receives: what the interface receives counts.
    pub(super) fn is_limit(self) -> bool {
        matches!(self, Kind::XdpDrop | Kind::XdpDropStamp | Kind::XdpPass)
    }

    /// What is on the interface before the tool starts.
    pub(super) fn standing(self) -> Standing {
        match self {
            Kind::TestpmdXdp | Kind::TestpmdXdpSpin | Kind::RingsideDpdkXdp => Standing::Nothing,
            Kind::XdpDrop => Standing::Drop,
            Kind::XdpDropStamp => Standing::DropStamp,
            _ => Standing::Root,
        }
    }

    /// The tool of `bench record` that it is.
    fn peer(self) -> Option<Tool> {
        match self {
            Kind::Tcpdump => Some(Tool::Tcpdump),
            Kind::Dumpcap => Some(Tool::Dumpcap),
            Kind::Netsniff => Some(Tool::Netsniff),
            _ => None,
        }
    }
}

/// A tool with the options that are compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Contender {
    pub(super) kind: Kind,
    /// Of our backends inside the driver; none for the others.
    pub(super) way: Option<Way>,
}

/// How our backends inside the driver are run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Way {
    pub(super) wait: Wait,
    pub(super) has_stamps: bool,
    /// For each lane.
    pub(super) threads: u16,
    /// The expression that frames are judged by, if any.
    pub(super) filter: Option<String>,
    /// Bytes of each frame that are put into the capture ring, 0 for all; without, frames are
    /// counted where they lie.
    pub(super) ring_snaplen: Option<u32>,
}

impl Contender {
    /// `kinds`, our own in all the ways that are asked for.
    pub(super) fn all(kinds: &[Kind], ways: &[Way]) -> Vec<Contender> {
        let mut contenders = Vec::new();
        for &kind in kinds {
            let fits = |way: &Way| match kind {
                Kind::RingsideRing => {
                    way.threads == 1 && matches!(way.wait, Wait::Auto | Wait::Spin | Wait::Sleep)
                }
                _ => true,
            };
            if matches!(kind, Kind::Ringside | Kind::RingsideRing) {
                let ways = ways.iter().filter(|way| fits(way));
                contenders.extend(ways.map(|way| Contender { kind, way: Some(way.clone()) }));
            } else {
                contenders.push(Contender { kind, way: None });
            }
        }
        contenders
    }

    /// How it waits, in a word; empty where it is not asked.
    pub(super) fn wait_name(&self) -> String {
        let value = self.way.as_ref().and_then(|way| way.wait.to_possible_value());
        value.map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// Whether it stamps frames; empty where it is not asked.
    pub(super) fn stamps_name(&self) -> &'static str {
        match self.way {
            Some(Way { has_stamps: true, .. }) => "on",
            Some(Way { has_stamps: false, .. }) => "off",
            None => "",
        }
    }

    /// Threads for each lane of ours; none where it is not asked.
    pub(super) fn threads(&self) -> Option<u16> {
        self.way.as_ref().map(|way| way.threads)
    }

    /// The expression that its frames are judged by; empty without one.
    pub(super) fn filter(&self) -> &str {
        self.way.as_ref().and_then(|way| way.filter.as_deref()).unwrap_or_default()
    }

    /// Bytes of each frame that it puts into its capture ring, 0 for all; none where it counts.
    pub(super) fn ring_snaplen(&self) -> Option<u32> {
        self.way.as_ref().and_then(|way| way.ring_snaplen)
    }

    /// True if it does no more than count every frame.
    pub(super) fn only_counts(&self) -> bool {
        self.filter().is_empty() && self.ring_snaplen().is_none()
    }

    /// One instance for all interfaces, or one for each: processes for `interfaces` of them.
    pub(super) fn processes(&self, interfaces: u16) -> u16 {
        match self.kind {
            kind if kind.is_limit() => 0,
            kind if kind.peer().is_some() => interfaces,
            _ => 1,
        }
    }

    /// Huge pages that it takes for `interfaces` interfaces, where the system has set some aside.
    pub(super) fn huge_pages(&self, interfaces: u16) -> u64 {
        match self.kind {
            kind if kind.is_testpmd() => testpmd::huge_pages(interfaces),
            Kind::Ringside => {
                u64::from(interfaces) * (MEMORY_BYTES + AF_XDP_OVERHEAD_BYTES) / HUGE_PAGE_BYTES
            }
            _ => 0,
        }
    }

    /// What is to be run for these interfaces.
    pub(super) fn programs(&self, interfaces: &[String]) -> Vec<Program<'static>> {
        if self.kind.is_limit() {
            return Vec::new();
        }
        if let Some(tool) = self.kind.peer() {
            let program = |interface: &String| {
                let memory_bytes = MEMORY_BYTES;
                let options = Options { interface, memory_bytes, ..Options::default() };
                tool.program(Target::Nowhere, options)
            };
            return interfaces.iter().map(program).collect();
        }
        vec![if self.kind.is_testpmd() { self.testpmd(interfaces) } else { self.own(interfaces) }]
    }

    /// This program, counting.
    fn own(&self, interfaces: &[String]) -> Program<'static> {
        let backend = match self.kind {
            Kind::RingsidePacket => "af-packet",
            Kind::RingsidePcap => "pcap",
            Kind::RingsideRing => "xdp-ring",
            Kind::RingsidePfRing => "pf-ring",
            Kind::RingsideNetmap => "netmap",
            kind if kind.is_own_by_dpdk() => "dpdk",
            _ => "af-xdp",
        };
        let mut command = vec![tools::own_program()];
        let fixed = ["capture", "--count", "--json", "--no-control", "--backend", backend];
        command.extend(fixed.map(OsString::from));
        // DPDK's drivers take what there is.
        command.extend((!self.kind.is_own_by_dpdk()).then(|| "-Qin".into()));
        command.extend(["--kernel-ring-size".into(), MEMORY_BYTES.to_string().into()]);
        for (index, interface) in interfaces.iter().enumerate() {
            let device = match self.kind {
                // By itself the driver polls the queue by system calls, as testpmd's spin does not.
                Kind::RingsideDpdkXdp => {
                    format!("dpdk:net_af_xdp{index},iface={interface},busy_budget=0")
                }
                _ => interface.clone(),
            };
            command.extend(["-i".into(), device.into()]);
        }
        command.extend(self.way.as_ref().map(Way::options).into_iter().flatten());
        let is_other = self.kind.is_own_by_dpdk()
            || matches!(self.kind, Kind::RingsidePfRing | Kind::RingsideNetmap);
        let is_watched = self.way.is_none() && !is_other;
        if self.kind.is_own_by_dpdk() {
            command.extend(["--wait".into(), "spin".into()]);
        }
        Program {
            name: self.to_string(),
            command,
            ready_text: "listening on",
            has_packet_socket: is_watched,
            idle: if is_watched { Idle::Watched } else { Idle::Never },
            settle: if is_watched { Tool::Ringside.settle() } else { AF_XDP_SETTLE },
            stop_signal: rustix::process::Signal::TERM,
            hangs_at_end: false,
            summary: Box::new(|output, _| judged(output)),
        }
    }

    /// One core polls every port.
    fn testpmd(&self, interfaces: &[String]) -> Program<'static> {
        let device = match self.kind {
            Kind::TestpmdPacket => Device::Packet,
            Kind::TestpmdXdpSpin => Device::XdpSpin,
            _ => Device::Xdp,
        };
        testpmd::program(self.to_string(), (device, Forwarding::RxOnly), interfaces)
    }
}

impl Way {
    /// The options of `capture` that ask for it; the filter is the last.
    fn options(&self) -> Vec<OsString> {
        let mut options: Vec<String> = Vec::new();
        if let Some(wait) = self.wait.to_possible_value() {
            options.extend(["--wait".into(), wait.get_name().into()]);
        }
        options.extend((!self.has_stamps).then(|| "--no-stamps".into()));
        if self.threads != 1 {
            options.extend(["--threads".into(), self.threads.to_string()]);
        }
        let mut options: Vec<OsString> = options.into_iter().map(OsString::from).collect();
        if let Some(bytes) = self.ring_snaplen {
            // A reader that may attach at any moment needs the frames in the ring; here none does.
            let socket = format!("ringside-bench-{}.share", std::process::id());
            options.extend(["--share".into(), std::env::temp_dir().join(socket).into()]);
            options.extend(["--ring-size".into(), CAPTURE_RING_BYTES.to_string().into()]);
            options.extend(["--snaplen".into(), bytes.to_string().into()]);
        }
        options.extend(self.filter.as_deref().map(OsString::from));
        options
    }
}

impl std::fmt::Display for Contender {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.kind.name())?;
        let Some(way) = &self.way else { return Ok(()) };
        write!(f, " {}", self.wait_name())?;
        if way.threads != 1 {
            write!(f, ", {} threads", way.threads)?;
        }
        if !way.has_stamps {
            f.write_str(", no stamps")?;
        }
        if let Some(filter) = &way.filter {
            write!(f, ", `{filter}`")?;
        }
        match way.ring_snaplen {
            None => Ok(()),
            Some(0) => f.write_str(", into the ring"),
            Some(bytes) => write!(f, ", {bytes} bytes into the ring"),
        }
    }
}

impl Placement {
    /// Where the tool and the receive path are, in a sentence.
    pub(super) fn sentence(self) -> &'static str {
        match self {
            Placement::Own => "the tool on a CPU of its own, the receive path on the generator's",
            Placement::Shared => "the receive path on the tool's CPU, the generator runs free",
        }
    }
}

/// What this program's ledger says of the frames that it judged: those that its filter did not
/// accept were received too.
fn judged(output: &str) -> Option<Summary> {
    let ledger = tools::ledger(output)?;
    let delivered = tools::of_ringside(output)?;
    let frames = delivered.frames + ledger.passed + ledger.filtered.unwrap_or(0);
    Some(Summary { frames, ..delivered })
}

#[cfg(test)]
mod tests;
