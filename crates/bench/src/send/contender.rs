//! Who is compared in `bench send`: how each sends at its fastest, on one core.

use super::super::TOOL_CPU;
use super::super::place::Workspace;
use super::super::receiver::{Idle, Program, Summary};
use super::super::tools;
use anyhow::Context;
use clap::ValueEnum;
use ringside_core::{FrameMeta, OwnedFrame, SourceInterface};
use ringside_store::Format;
use ringside_transmit::{Shape, Sizes};
use rustix::process::Signal;
use std::ffi::OsString;
use std::fs::File;
use std::time::Duration;

/// Flows of the loads that have some.
const FLOWS: u32 = 10_000;
/// Frames of the file that tcpreplay sends again and again, from memory.
const REPLAYED_FRAMES: u64 = 1000;
/// More frames than any tool sends until it is ended.
const ENDLESS: &str = "1000000000000";
/// Huge pages of testpmd: a pool of 16,384 buffers of 2,304 bytes and 64 MiB in addition.
const TESTPMD_PAGES: u64 = 51;

/// A way to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, ValueEnum)]
pub(super) enum Kind {
    /// This program, live frames that are all the same.
    #[value(name = "ringside-constant")]
    Constant,
    /// This program, live frames of 10,000 flows with numbers.
    Ringside,
    /// The same, each frame with the time when it was made.
    #[value(name = "ringside-stamp")]
    Stamped,
    /// This program by AF_XDP, 10,000 flows with numbers.
    #[value(name = "ringside-af-xdp")]
    Xdp,
    /// The same by packet sockets.
    #[value(name = "ringside-af-packet")]
    Packet,
    /// The same by packet sockets with a ring.
    #[value(name = "ringside-tx-ring")]
    TxRing,
    /// testpmd of DPDK with net_af_xdp, sending only.
    #[value(name = "testpmd-af-xdp")]
    TestpmdXdp,
    /// testpmd of DPDK with net_af_packet, sending only.
    #[value(name = "testpmd-af-packet")]
    TestpmdPacket,
    /// tcpreplay --topspeed of a file in memory.
    Tcpreplay,
    /// trafgen of netsniff-ng.
    Trafgen,
}

impl Kind {
    /// As people call it.
    pub(super) fn name(self) -> String {
        let value = self.to_possible_value();
        value.map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// True for this program.
    pub(super) fn is_ours(self) -> bool {
        self.name().starts_with("ringside")
    }

    /// True if it can be run here.
    pub(super) fn is_installed(self) -> bool {
        match self {
            Kind::TestpmdXdp | Kind::TestpmdPacket => tools::is_in_path("dpdk-testpmd"),
            Kind::Tcpreplay => tools::is_in_path("tcpreplay"),
            Kind::Trafgen => tools::is_in_path("trafgen"),
            _ => true,
        }
    }

    /// Huge pages that it takes.
    pub(super) fn huge_pages(self) -> u64 {
        match self {
            Kind::TestpmdXdp | Kind::TestpmdPacket => TESTPMD_PAGES,
            _ => 0,
        }
    }

    /// What is to be run to send frames of `bytes` through `interface` without end.
    ///
    /// # Errors
    /// A file for it cannot be written.
    pub(super) fn program(
        self,
        interface: &str,
        bytes: u16,
        files: &Workspace,
    ) -> anyhow::Result<Program<'static>> {
        let command = match self {
            Kind::Constant => own(interface, bytes, "--no-number --engine live"),
            Kind::Ringside => own(interface, bytes, &format!("--engine live {}", flows())),
            Kind::Stamped => own(interface, bytes, &format!("--stamp --engine live {}", flows())),
            Kind::Xdp => own(interface, bytes, &format!("--engine af-xdp {}", flows())),
            Kind::Packet => own(interface, bytes, &format!("--engine af-packet {}", flows())),
            Kind::TxRing => own(interface, bytes, &format!("--engine tx-ring {}", flows())),
            Kind::TestpmdXdp => testpmd(&format!("net_af_xdp0,iface={interface}"), bytes),
            Kind::TestpmdPacket => testpmd(
                &format!(
                    "net_af_packet0,iface={interface},framesz=2048,blocksz=65536,framecnt=4096,\
                     qdisc_bypass=1"
                ),
                bytes,
            ),
            Kind::Tcpreplay => tcpreplay(interface, bytes, files)?,
            Kind::Trafgen => trafgen(interface, bytes, files)?,
        };
        Ok(Program {
            name: self.name(),
            command,
            ready_text: "",
            has_packet_socket: false,
            idle: Idle::Never,
            settle: Duration::ZERO,
            stop_signal: Signal::TERM,
            hangs_at_end: false,
            summary: Box::new(|_, _| Some(Summary { frames: 0, lost: None })),
        })
    }
}

fn words(line: &str) -> Vec<OsString> {
    line.split_whitespace().map(OsString::from).collect()
}

fn flows() -> String {
    format!("--flows {FLOWS} --src 10.16.0.0/16")
}

fn own(interface: &str, bytes: u16, options: &str) -> Vec<OsString> {
    let line = format!("send -i {interface} -c {ENDLESS} --size {bytes} {options}");
    [vec![tools::own_program()], words(&line)].concat()
}

/// One core sends on one port; its frames are all of one flow.
fn testpmd(device: &str, bytes: u16) -> Vec<OsString> {
    words(&format!(
        "stdbuf -oL dpdk-testpmd --in-memory --no-telemetry --no-pci -m {} \
         --lcores 0@{TOOL_CPU},1@{TOOL_CPU} --vdev {device} -- --forward-mode=txonly --nb-cores=1 \
         --no-mlockall --total-num-mbufs=16384 --txpkts={bytes}",
        TESTPMD_PAGES * 2
    ))
}

fn tcpreplay(interface: &str, bytes: u16, files: &Workspace) -> anyhow::Result<Vec<OsString>> {
    let path = files.fresh()?.join("frames.pcap");
    let file = File::create(&path).with_context(|| format!("writing {}", path.display()))?;
    let mut writer = Format::Pcap.writer(file, &[SourceInterface::ethernet(interface)])?;
    let shape = Shape::new(Sizes::fixed(bytes)?, REPLAYED_FRAMES as u32)?;
    for sequence in 0..REPLAYED_FRAMES {
        let bytes = shape.frame(0, sequence);
        let meta = FrameMeta { wire_bytes: bytes.len() as u32, ..FrameMeta::default() };
        writer.write(&OwnedFrame { bytes, meta }.as_frame())?;
    }
    writer.finish(&[])?;
    let line = format!("tcpreplay --topspeed --preload-pcap --loop=0 --intf1={interface}");
    Ok([words(&line), vec![path.into()]].concat())
}

fn trafgen(interface: &str, bytes: u16, files: &Workspace) -> anyhow::Result<Vec<OsString>> {
    let path = files.fresh()?.join("frame.cfg");
    let frame = Shape::new(Sizes::fixed(bytes)?, 1)?.frame(0, 0);
    let bytes: Vec<String> = frame.iter().map(|byte| format!("{byte:#04x}")).collect();
    std::fs::write(&path, format!("{{ {} }}\n", bytes.join(", ")))?;
    let line = format!("trafgen --cpus 1 --no-cpu-stats --dev {interface} --conf");
    Ok([words(&line), vec![path.into()]].concat())
}
