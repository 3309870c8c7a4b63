//! testpmd of DPDK on virtual devices, as a peer that receives or forwards on one core.

use super::TOOL_CPU;
use super::load;
use super::receiver::{Idle, Program, Summary};
use super::tools;
use ringside_terminal::signals::StopSignal;
use std::ffi::OsString;
use std::time::Duration;

/// Memory for frames of each port: as much as our own tools have.
const MEMORY_BYTES: u64 = 32 << 20;
/// Frame buffers for each port: [`MEMORY_BYTES`] in its buffers of 2 KiB.
const BUFFERS: u64 = 16_384;
/// What a buffer takes: 2,176 bytes of data and headroom, and its descriptor.
const BUFFER_BYTES: u64 = 2_304;
/// What DPDK takes in addition to its buffers: rings, tables and heap.
const OVERHEAD_BYTES: u64 = 64 << 20;
/// Bytes of a huge page, as DPDK asks for them.
const HUGE_PAGE_BYTES: u64 = 2 << 20;
/// Its program.
const TESTPMD: &str = "dpdk-testpmd";
/// It has its rings empty within this time.
const SETTLE: Duration = Duration::from_millis(300);
/// How often it is started whose predecessor may still hold the interface's queue.
const STARTS_MAX: u32 = 5;
/// Between two starts: the kernel frees an AF_XDP socket some time after its process.
const BETWEEN_STARTS: Duration = Duration::from_millis(500);

/// What it does with frames, by its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Forwarding {
    /// It receives and discards.
    RxOnly,
    /// It swaps the hardware addresses and sends: of two ports by the other one, of one port by the
    /// same.
    MacSwap,
}

/// How it reaches an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Device {
    /// net_af_xdp as it is by itself: it polls the queue by system calls.
    Xdp,
    /// The same without those calls, which is faster where the receive path runs elsewhere.
    XdpSpin,
    /// net_af_packet.
    Packet,
}

/// True if it can be run here. It is not asked: whatever it is asked, it looks for network cards
/// first.
pub(super) fn is_installed() -> bool {
    tools::is_in_path(TESTPMD)
}

/// Huge pages that it takes for this number of ports; it cannot do without.
pub(super) fn huge_pages(ports: u16) -> u64 {
    memory_bytes(ports) / HUGE_PAGE_BYTES
}

fn buffers(ports: u16) -> u64 {
    BUFFERS * u64::from(ports.max(1))
}

/// In whole pages.
fn memory_bytes(ports: u16) -> u64 {
    (OVERHEAD_BYTES + buffers(ports) * BUFFER_BYTES).next_multiple_of(HUGE_PAGE_BYTES)
}

impl Device {
    fn words(self, port: usize, interface: &str) -> String {
        match self {
            Device::Packet => format!(
                "net_af_packet{port},iface={interface},framesz=2048,blocksz=65536,framecnt={}",
                MEMORY_BYTES / 2048
            ),
            Device::XdpSpin => format!("net_af_xdp{port},iface={interface},busy_budget=0"),
            Device::Xdp => format!("net_af_xdp{port},iface={interface}"),
        }
    }
}

/// What is to be run: one core polls the port of every interface. Devices on the PCI bus are left
/// alone (`--no-pci`). Its summary says what it received, and what it lost: of frames that it sends
/// on those that it could not send, which it knows all of.
pub(super) fn program(
    name: String,
    (device, forwarding): (Device, Forwarding),
    interfaces: &[String],
) -> Program<'static> {
    let ports = interfaces.len() as u16;
    let fixed = format!(
        "stdbuf -oL {TESTPMD} --in-memory --no-telemetry --no-pci -m {} \
         --lcores 0@{TOOL_CPU},1@{TOOL_CPU}",
        memory_bytes(ports) >> 20
    );
    let mut words: Vec<String> = fixed.split_whitespace().map(str::to_owned).collect();
    for (port, interface) in interfaces.iter().enumerate() {
        words.extend(["--vdev".into(), device.words(port, interface)]);
    }
    let (mode, lost) = match forwarding {
        Forwarding::RxOnly => ("rxonly", "RX-dropped:"),
        Forwarding::MacSwap => ("macswap", "TX-dropped:"),
    };
    let rest = format!(
        "-- --forward-mode={mode} --nb-cores=1 --no-mlockall --total-num-mbufs={}",
        buffers(ports)
    );
    words.extend(rest.split_whitespace().map(str::to_owned));
    Program {
        name,
        command: words.into_iter().map(OsString::from).collect(),
        ready_text: "Press enter to exit",
        has_packet_socket: false,
        idle: Idle::Never,
        settle: SETTLE,
        stop_signal: rustix::process::Signal::TERM,
        hangs_at_end: false,
        summary: Box::new(move |output, _| summary(output, lost)),
    }
}

/// Does `start`, and once more if the queue is still busy or another program was faster to take the
/// huge pages.
///
/// # Errors
/// The last start's, or a signal came.
pub(super) fn start_again<T>(
    stop: &StopSignal,
    mut start: impl FnMut() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let mut starts = 1;
    loop {
        match start() {
            Err(error) if starts < STARTS_MAX => {
                load::check(stop)?;
                tracing::info!("testpmd is started again: {error:#}");
            }
            result => return result,
        }
        starts += 1;
        std::thread::sleep(BETWEEN_STARTS);
    }
}

/// `  RX-packets: 1955682        RX-dropped: 26782         RX-total: 1982464` below the head
/// `Accumulated forward statistics for all ports`.
fn summary(output: &str, lost: &str) -> Option<Summary> {
    let (_, all_ports) = output.rsplit_once("Accumulated forward statistics for all ports")?;
    let count = |name: &str| {
        let (_, rest) = all_ports.split_once(name)?;
        rest.split_whitespace().next()?.parse().ok()
    };
    Some(Summary { frames: count("RX-packets:")?, lost: count(lost) })
}

#[cfg(test)]
mod tests;
