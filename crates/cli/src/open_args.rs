//! Options that say where frames come from, and how.

use crate::filter_args::FilterArgs;
use anyhow::Context;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{ArgGroup, Args, ValueEnum};
use ringside_core::limits::{FRAME_BYTES_MAX, LANE_THREADS_MAX, LANES_MAX};
use ringside_session::{
    BACKENDS, CaptureDirection, Description, FanoutMode, MeteringOptions, OpenOptions,
    PlacementOptions, Rss, Waiting, enter_namespace, interfaces,
};
use ringside_terminal::{Wait, units};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

/// Options of every subcommand that receives from interfaces. A subcommand that has other origins
/// puts their options into the group `elsewhere`, and options with which it receives nothing into
/// `needs_no_origin`.
#[derive(Args)]
#[command(group = ArgGroup::new("elsewhere").conflicts_with_all(["interfaces", "read"]))]
#[command(group = ArgGroup::new("needs_no_origin"))]
pub struct OpenArgs {
    /// Interface to receive from, by name or by its number of -D; may be given several times.
    #[arg(short = 'i', long = "interface", value_name = "IF")]
    #[arg(conflicts_with = "read", required_unless_present_any = [
        "read", "list_interfaces", "elsewhere", "needs_no_origin",
    ])]
    interfaces: Vec<String>,

    /// List the interfaces with their numbers, and end.
    #[arg(short = 'D', long)]
    list_interfaces: bool,

    /// Take frames from a file (pcap or pcapng), a directory of a recording, or `-` for standard
    /// input, as if they were received now; several are merged by time.
    #[arg(short = 'r', long = "read", value_name = "FILE|DIR|-")]
    #[arg(conflicts_with_all = [
        "backend", "queues", "threads", "fanout", "no_promiscuous", "direction", "hardware_time",
        "kernel_ring_size", "block_timeout", "netns",
    ])]
    pub read: Vec<PathBuf>,

    /// How to receive; auto, unless asked otherwise.
    #[arg(long, value_parser = backends())]
    backend: Option<Choice>,

    /// Lanes of each interface, each with a worker of its own: members of a fanout group (1, unless
    /// asked otherwise), with af-xdp and xdp-ring the first N receive queues (all).
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=LANES_MAX as i64))]
    queues: Option<u16>,

    /// Threads that drain each lane together, for a queue that one cannot drain. Its frames stay in
    /// the order of receipt. With af-xdp only; lanes of the others have one thread each.
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=LANE_THREADS_MAX as i64))]
    threads: u16,

    /// How the kernel spreads frames over the lanes.
    #[arg(long, value_enum, default_value_t = Fanout::Hash)]
    fanout: Fanout,

    /// Bytes kept of each frame; 0 stands for whole frames.
    #[arg(short = 's', long, value_name = "BYTES", default_value_t = 0)]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=FRAME_BYTES_MAX as i64))]
    snaplen: u32,

    /// Leave the interface's promiscuous mode as it is.
    #[arg(short = 'p', long)]
    no_promiscuous: bool,

    /// Which frames, seen from this host: in, or inout (both). By default both, where that can be
    /// counted: not in the driver, nor of the loopback interface and `any`, nor with rules that
    /// mirror.
    #[arg(short = 'Q', long, value_name = "WAY", value_parser = way, overrides_with = "direction")]
    direction: Option<CaptureDirection>,

    /// Memory of the kernel's ring for each lane.
    #[arg(long, value_name = "SIZE", value_parser = units::bytes, default_value = "32MiB")]
    kernel_ring_size: u64,

    /// The same, as tcpdump takes it: in KiB.
    #[arg(short = 'B', value_name = "KiB", conflicts_with_all = ["kernel_ring_size", "read"])]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    buffer_kib: Option<u64>,

    /// Longest time in milliseconds that the kernel holds frames back to fill a block.
    #[arg(long, value_name = "MS", default_value_t = 50)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1000))]
    block_timeout: u32,

    /// Use the network interface's own time stamps, where it has them.
    #[arg(long)]
    hardware_time: bool,

    #[command(flatten)]
    af_xdp: AfXdpArgs,

    #[command(flatten)]
    placement: PlacementArgs,

    /// Network namespace to receive in: a name, a path or a process id.
    #[arg(long, value_name = "NAME")]
    netns: Option<String>,

    #[command(flatten)]
    filter: FilterArgs,
}

impl OpenArgs {
    /// Lists the interfaces, if that is asked for; true if it was.
    pub fn list_interfaces(&self, json: bool) -> anyhow::Result<bool> {
        if self.list_interfaces {
            enter_namespace(self.netns.as_deref())?;
            ringside_report::interfaces::print(&interfaces::in_order()?, json)?;
        }
        Ok(self.list_interfaces)
    }

    /// The filter; empty for none.
    pub fn filter(&self) -> String {
        self.filter.expression()
    }

    /// Does something for the interfaces, in their network namespace.
    pub fn in_namespace<T: Send>(
        &self,
        work: impl FnOnce(&[String]) -> anyhow::Result<T> + Send,
    ) -> anyhow::Result<T> {
        let (namespace, interfaces) = (self.netns.as_deref(), self.interfaces.as_slice());
        // A namespace is a thread's; this one stays where it is.
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                enter_namespace(namespace)?;
                work(interfaces)
            });
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Interfaces to be metered, without what concerns their frames.
    pub fn metering_options(&self) -> MeteringOptions {
        MeteringOptions {
            interfaces: self.interfaces.clone(),
            namespace: self.netns.clone(),
            promiscuous: !self.no_promiscuous,
            ..MeteringOptions::default()
        }
    }

    /// What a session is to open. With `verbose` the choice of a backend is explained.
    pub fn options(&self, verbose: bool) -> OpenOptions {
        let snaplen = if self.snaplen == 0 { FRAME_BYTES_MAX } else { self.snaplen };
        OpenOptions {
            interfaces: self.interfaces.clone(),
            read: self.read.clone(),
            backend: self.backend.and_then(|Choice(backend)| backend),
            explains: verbose || self.backend.is_some(),
            lanes: self.queues,
            threads: self.threads,
            fanout: self.fanout.into(),
            snaplen_bytes: snaplen,
            promiscuous: !self.no_promiscuous,
            direction: self.direction,
            kernel_ring_bytes: self.buffer_kib.map_or(self.kernel_ring_size, |kib| kib << 10),
            block_timeout_ms: self.block_timeout,
            hardware_time: self.hardware_time,
            waiting: waiting(self.af_xdp.wait),
            has_stamps: !self.af_xdp.no_stamps,
            placement: self.placement.options(),
            namespace: self.netns.clone(),
            filter: self.filter(),
        }
    }
}

/// Options of the af-xdp backend.
#[derive(Args)]
struct AfXdpArgs {
    /// What an af-xdp or xdp-ring worker does while no frame is there. auto: spin on a CPU of its
    /// own, sleep where the kernel's receive path shares the CPU or its place is not known.
    #[arg(long, value_enum, default_value_t = Wait::Auto)]
    wait: Wait,

    /// Do not stamp frames: for counting only (af-xdp, xdp-ring), to see what a stamp costs.
    #[arg(long)]
    no_stamps: bool,
}

fn waiting(wait: Wait) -> Option<Waiting> {
    match wait {
        Wait::Auto => None,
        Wait::Spin => Some(Waiting::Spin),
        Wait::Sleep => Some(Waiting::Sleep),
        Wait::Poll => Some(Waiting::Poll),
        Wait::BusyPoll => Some(Waiting::BusyPoll),
    }
}

/// Options of placement.
#[derive(Args)]
struct PlacementArgs {
    /// CPUs for the workers, in turn, as 2,3. By default off the CPUs where the interface's queues
    /// are polled and on its card's NUMA node, as far as that is known; else all that are allowed.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    cpus: Vec<usize>,

    /// Have each interface use N receive queues while the run lasts.
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=LANES_MAX as i64))]
    set_queues: Option<u32>,

    /// How each interface spreads frames over its receive queues while the run lasts.
    #[arg(long, value_enum, value_name = "HOW", value_delimiter = ',')]
    rss: Vec<RssArg>,
}

/// Ways of receive side scaling.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum RssArg {
    /// Both directions of a flow in one queue.
    Symmetric,
    /// The same share for all queues.
    Even,
}

impl PlacementArgs {
    fn options(&self) -> PlacementOptions {
        let rss = self.rss.iter().map(|how| match how {
            RssArg::Symmetric => Rss::Symmetric,
            RssArg::Even => Rss::Even,
        });
        PlacementOptions { cpus: self.cpus.clone(), queues: self.set_queues, rss: rss.collect() }
    }
}

/// A backend by its name; none of `auto`.
#[derive(Clone, Copy)]
struct Choice(Option<&'static Description>);

/// Takes the name of a backend of this build, or `auto`.
fn backends() -> impl TypedValueParser<Value = Choice> {
    let auto = PossibleValue::new("auto").help(
        "af-xdp where the host does not use the interface, else af-packet, or pcap for what that \
         does not know",
    );
    let named = BACKENDS.iter().map(|one| PossibleValue::new(one.name).help(one.summary));
    PossibleValuesParser::new(std::iter::once(auto).chain(named))
        .map(|name| Choice(BACKENDS.iter().copied().find(|backend| backend.name == name)))
}

/// Fanout modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Fanout {
    /// By flow: a flow stays in one lane.
    Hash,
    /// By the CPU that received the frame.
    Cpu,
    /// By the receive queue.
    Queue,
}

impl From<Fanout> for FanoutMode {
    fn from(fanout: Fanout) -> FanoutMode {
        match fanout {
            Fanout::Hash => FanoutMode::Hash,
            Fanout::Cpu => FanoutMode::Cpu,
            Fanout::Queue => FanoutMode::Queue,
        }
    }
}

/// The words of tcpdump, and `both`.
fn way(text: &str) -> Result<CaptureDirection, String> {
    match text {
        "in" => Ok(CaptureDirection::Inbound),
        "inout" | "both" => Ok(CaptureDirection::Both),
        "out" => Err("sent frames alone are not captured: write inout, and select them by a \
                      filter, as 'ether src ADDRESS'"
            .into()),
        _ => Err("write in or inout".into()),
    }
}

/// Standard output as a stream of our own.
pub fn stdout_stream() -> anyhow::Result<OwnedFd> {
    std::io::stdout().as_fd().try_clone_to_owned().context("standard output")
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        open: OpenArgs,
    }

    #[test]
    fn without_options_the_defaults_are_those_of_a_session() {
        let line = Line::parse_from(["capture", "-i", "eth1"]);
        let session = OpenOptions { interfaces: vec!["eth1".into()], ..OpenOptions::default() };
        assert_eq!(format!("{:?}", line.open.options(false)), format!("{session:?}"));
    }
}
