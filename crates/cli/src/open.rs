//! From command-line options to open lanes: namespace, filter, backend, placement.

pub mod af_xdp;
pub mod files;
pub mod interfaces;
mod xdp_ring;

use crate::filter_args::FilterArgs;
use crate::keep;
use crate::placement::{Placed, PlacementArgs};
use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use ringside_capture::backend::af_packet::AfPacketSource;
use ringside_capture::backend::{
    AF_PACKET, AF_XDP, BackendError, Description, KernelSide, LaneKind, PCAP, XDP_RING, af_packet,
    merge_warning, pcap,
};
use ringside_capture::keep::Rules;
use ringside_capture::placement::LaneFacts;
use ringside_capture::run::LaneSource;
use ringside_core::bpf::ClassicProgram;
use ringside_core::limits::{FRAME_BYTES_MAX, LANE_THREADS_MAX, LANES_MAX};
use ringside_core::{InterfaceId, Source, SourceInterface};
use ringside_keeper::filter_child::compile;
use ringside_keeper::{Knobs, Request, Wish};
use ringside_netdev as netdev;
use ringside_sys::netns::Namespace;
use ringside_sys::packet::{CaptureDirection, FanoutMode};
use ringside_terminal::{say, units};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;

/// Options of every subcommand that receives from interfaces.
#[derive(Args)]
pub struct OpenArgs {
    /// Interface to receive from, by name or by its number of -D; may be given several times.
    #[arg(short = 'i', long = "interface", value_name = "IF")]
    #[arg(required_unless_present_any = ["read", "list_interfaces"], conflicts_with = "read")]
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
    #[arg(long, value_enum)]
    pub backend: Option<Backend>,

    /// Lanes of each interface, each with a worker of its own: members of a fanout group (1, unless
    /// asked otherwise), with af-xdp and xdp-ring the first N receive queues (all).
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=LANES_MAX as i64))]
    pub queues: Option<u16>,

    /// Threads that drain each lane together, for a queue that one cannot drain. Its frames stay in
    /// the order of receipt. With af-xdp only; lanes of the others have one thread each.
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=LANE_THREADS_MAX as i64))]
    pub threads: u16,

    /// How the kernel spreads frames over the lanes.
    #[arg(long, value_enum, default_value_t = Fanout::Hash)]
    pub fanout: Fanout,

    /// Bytes kept of each frame; 0 stands for whole frames.
    #[arg(short = 's', long, value_name = "BYTES", default_value_t = 0)]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=FRAME_BYTES_MAX as i64))]
    snaplen: u32,

    /// Leave the interface's promiscuous mode as it is.
    #[arg(short = 'p', long)]
    pub no_promiscuous: bool,

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
    pub block_timeout: u32,

    /// Use the network interface's own time stamps, where it has them.
    #[arg(long)]
    pub hardware_time: bool,

    #[command(flatten)]
    pub af_xdp: af_xdp::AfXdpArgs,

    #[command(flatten)]
    pub placement: PlacementArgs,

    /// Network namespace to receive in: a name, a path or a process id.
    #[arg(long, value_name = "NAME")]
    pub netns: Option<String>,

    #[command(flatten)]
    pub filter: FilterArgs,
}

/// Longest classic program that the kernel takes (BPF_MAXINSNS of linux/bpf_common.h).
const PCAP_INSTRUCTIONS_MAX: usize = 4096;

impl OpenArgs {
    /// True if the interfaces are to be listed, and nothing else.
    pub fn lists_interfaces(&self) -> bool {
        self.list_interfaces
    }

    /// The filter as one text; empty for none.
    pub fn expression(&self) -> String {
        self.filter.expression()
    }

    /// Goes to the network namespace that was asked for.
    ///
    /// # Errors
    /// There is none of that name, or a privilege is missing.
    pub fn enter_namespace(&self) -> anyhow::Result<()> {
        let Some(name) = &self.netns else { return Ok(()) };
        Ok(Namespace::open(name)?.enter()?)
    }

    /// Lanes of each interface, as far as the options say.
    fn lanes(&self) -> usize {
        self.queues.map_or(1, usize::from)
    }

    /// Memory of the kernel's ring for each lane.
    fn kernel_ring_bytes(&self) -> u64 {
        self.buffer_kib.map_or(self.kernel_ring_size, |kib| kib << 10)
    }

    /// Bytes kept of each frame.
    pub fn snaplen_bytes(&self) -> u32 {
        if self.snaplen == 0 { FRAME_BYTES_MAX } else { self.snaplen }
    }
}

/// Backends of this build.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Backend {
    /// af-xdp where the host does not use the interface, else af-packet, or pcap for what that does
    /// not know.
    Auto,
    /// From inside the driver, away from the host (AF_XDP).
    AfXdp,
    /// The same by a program's own copy: the fastest where a driver has no zero-copy.
    XdpRing,
    /// The kernel's packet sockets (TPACKET_V3).
    AfPacket,
    /// libpcap: any device that it knows.
    Pcap,
}

impl Backend {
    /// What it is; of `auto`, what that means until another is chosen.
    fn description(self) -> &'static Description {
        match self {
            Backend::Pcap => &PCAP,
            Backend::AfXdp => &AF_XDP,
            Backend::XdpRing => &XDP_RING,
            Backend::Auto | Backend::AfPacket => &AF_PACKET,
        }
    }

    /// True for those that take frames away from the host.
    pub fn is_in_driver(self) -> bool {
        self.description().is_in_driver
    }

    /// As people call it.
    pub fn name(self) -> &'static str {
        self.description().name
    }

    /// Refuses several threads a lane where a lane has one.
    fn check_threads(self, threads: u16) -> anyhow::Result<()> {
        let Description { name, lane, has_threads, .. } = self.description();
        if threads == 1 || *has_threads {
            return Ok(());
        }
        let fix = match lane {
            LaneKind::Queue => "use --backend af-xdp, or more receive queues".into(),
            LaneKind::FanoutMember | LaneKind::Device => {
                format!("spread the frames over more lanes with --queues {threads}")
            }
        };
        bail!("--threads {threads}: a lane of {name} has one thread; {fix}")
    }
}

/// Fanout modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Fanout {
    /// By flow: a flow stays in one lane.
    Hash,
    /// By the CPU that received the frame.
    Cpu,
    /// By the receive queue.
    Queue,
}

/// Lanes, ready to run.
pub struct Opened {
    pub lanes: Vec<LaneSource>,
    /// For each of the first lanes what the kernel holds of it, if that can be asked for.
    pub kernel: Vec<Option<Box<dyn KernelSide>>>,
    pub interfaces: Vec<SourceInterface>,
    /// Names of the interfaces that are received in the driver.
    pub in_driver: Vec<String>,
    pub placed: Placed,
    pub block_timeout_ns: u64,
    pub description: String,
    pub warnings: Vec<String>,
}

/// Opens everything that `args` names. Frames are counted from the start of the run on (libpcap's
/// from here on): what takes time, as compiling filters, is done before the first is opened. What
/// must be changed on an interface is changed by `knobs`.
/// `directories` are those of a recording: its writers have their places too. `rules` will be asked
/// about the frames. With `verbose` the choice of a backend is explained.
pub fn open(
    args: &OpenArgs,
    rules: Option<&Rules>,
    directories: &[PathBuf],
    knobs: &Knobs<'_>,
    verbose: bool,
) -> anyhow::Result<Opened> {
    if !args.read.is_empty() {
        return files::open(args);
    }
    args.enter_namespace()?;
    let names = interfaces::names(&args.interfaces)?;
    let mut opened = Opened {
        lanes: Vec::new(),
        kernel: Vec::new(),
        interfaces: Vec::new(),
        in_driver: Vec::new(),
        placed: Placed::default(),
        block_timeout_ns: u64::from(args.block_timeout) * 1_000_000,
        description: String::new(),
        warnings: Vec::new(),
    };
    let lanes = names.len() * args.lanes();
    if lanes > LANES_MAX {
        bail!("{lanes} lanes are asked for, a run has at most {LANES_MAX}: lower --queues");
    }
    let mut plans = Vec::new();
    for (index, name) in names.iter().enumerate() {
        if names[..index].contains(name) {
            bail!("-i {name} is given twice");
        }
        plans.push(Plan::new(args, rules, name, InterfaceId(index as u32), verbose)?);
    }
    args.placement.turn(&names, knobs)?;
    let lanes = plans.iter().enumerate().flat_map(|(index, plan)| plan.lanes(args, index));
    opened.placed = args.placement.place(&names, lanes.collect(), directories)?;
    for mut plan in plans {
        let sources = plan.open_chosen(args, &opened.placed.cpus, knobs, &mut opened.warnings)?;
        opened.add(&plan, sources);
    }
    Ok(opened)
}

/// Refuses what `backend` cannot do of what was asked for.
fn check(
    backend: Backend,
    args: &OpenArgs,
    rules: Option<&Rules>,
    name: &str,
) -> anyhow::Result<()> {
    backend.check_threads(args.threads)?;
    rules.map_or(Ok(()), |rules| keep::check_backend(rules, backend, name))
}

/// What is to be opened for one interface.
struct Plan<'a> {
    name: &'a str,
    interface_id: InterfaceId,
    backend: Backend,
    direction: CaptureDirection,
    filter: Option<ClassicProgram>,
    /// What its frames will be judged by.
    rules: Option<&'a Rules>,
}

impl<'a> Plan<'a> {
    fn new(
        args: &OpenArgs,
        rules: Option<&'a Rules>,
        name: &'a str,
        interface_id: InterfaceId,
        verbose: bool,
    ) -> anyhow::Result<Plan<'a>> {
        let backend = choose(args, rules, name, verbose)?;
        check(backend, args, rules, name)?;
        let link_type = (backend.description().link_type)(name)?;
        let filter = compile(&args.expression(), link_type)?;
        let direction = direction(args, rules, backend, name);
        Ok(Plan { name, interface_id, backend, direction, filter, rules })
    }

    /// What is known of its lanes before they are opened.
    fn lanes(&self, args: &OpenArgs, interface: usize) -> Vec<LaneFacts> {
        let kind = self.backend.description().lane;
        let by_queue = match kind {
            LaneKind::Queue => true,
            LaneKind::FanoutMember => args.fanout == Fanout::Queue,
            LaneKind::Device => false,
        };
        let threads = usize::from(args.threads);
        let lane = |lane| LaneFacts { interface, queue: by_queue.then_some(lane), threads };
        let count = match kind {
            LaneKind::Queue => af_xdp::lanes(args, self.name),
            LaneKind::FanoutMember | LaneKind::Device => args.lanes(),
        };
        (0..count).map(lane).collect()
    }

    /// As [`open`](Self::open); where the driver was our choice and is not to be had, as because
    /// another capture has it, by a packet socket.
    fn open_chosen(
        &mut self,
        args: &OpenArgs,
        cpus: &[usize],
        knobs: &Knobs<'_>,
        warnings: &mut Vec<String>,
    ) -> anyhow::Result<Sources> {
        let opened = self.open(args, cpus, knobs, warnings);
        let is_choice = args.backend.is_none_or(|backend| backend == Backend::Auto);
        match opened {
            Err(error) if is_choice && self.backend == Backend::AfXdp => {
                let name = self.name;
                say::message(format_args!("ringside: {name}: af-packet, not af-xdp: {error:#}"));
                self.backend = Backend::AfPacket;
                check(self.backend, args, self.rules, name)?;
                self.direction = direction(args, self.rules, self.backend, name);
                self.open(args, cpus, knobs, warnings)
            }
            opened => opened,
        }
    }

    fn open(
        &self,
        args: &OpenArgs,
        cpus: &[usize],
        knobs: &Knobs<'_>,
        warnings: &mut Vec<String>,
    ) -> anyhow::Result<Sources> {
        match self.backend {
            Backend::Pcap => self.pcap(args, warnings),
            Backend::AfXdp => self.af_xdp(args, cpus, knobs, warnings),
            Backend::XdpRing => self.xdp_ring(args, cpus, knobs, warnings),
            Backend::Auto | Backend::AfPacket => self.af_packet(args, knobs, warnings),
        }
    }
}

type Sources = Vec<(Box<dyn Source>, Option<Box<dyn KernelSide>>)>;

impl Opened {
    fn add(&mut self, plan: &Plan<'_>, sources: Sources) {
        let (name, interface_id) = (plan.name, plan.interface_id);
        if plan.backend.is_in_driver() {
            self.in_driver.push(name.to_owned());
        }
        let backend = plan.backend.name();
        let lanes = sources.len();
        let separator = if self.description.is_empty() { "" } else { ", " };
        let plural = if lanes == 1 { "" } else { "s" };
        self.description.push_str(&format!("{separator}{name} ({backend}, {lanes} lane{plural})"));
        for (queue, (source, kernel)) in sources.into_iter().enumerate() {
            self.kernel.push(kernel);
            if queue == 0 {
                self.interfaces.extend(source.interfaces().iter().cloned());
            }
            let (interface, queue) = (name.to_owned(), queue as u16);
            self.lanes.push(LaneSource { source, interface, interface_id, queue });
        }
    }
}

/// af-packet leaves the host's own traffic alone; af-xdp is for interfaces that the host does not
/// use.
fn choose(
    args: &OpenArgs,
    rules: Option<&Rules>,
    name: &str,
    verbose: bool,
) -> anyhow::Result<Backend> {
    if let Some(backend) = args.backend.filter(|backend| *backend != Backend::Auto) {
        return Ok(backend);
    }
    let explains = verbose || args.backend.is_some();
    match af_packet::link_type(name) {
        Err(error @ BackendError::UnknownLinkType { .. }) => {
            say::message(format_args!("ringside: {name}: using libpcap ({error})"));
            Ok(Backend::Pcap)
        }
        // libpcap has devices that are no interface, as "any".
        Err(BackendError::NoSuchInterface { .. }) if name == interfaces::ANY => Ok(Backend::Pcap),
        Err(error) => Err(error.into()),
        Ok(_) if rules.is_some_and(|rules| rules.pass_some() && !rules.has_drivers()) => {
            if explains {
                say::message(format_args!(
                    "ringside: {name}: af-packet, because the rules leave frames to the host"
                ));
            }
            Ok(Backend::AfPacket)
        }
        Ok(link_type) => Ok(af_xdp::choose_auto(args, name, link_type, explains)),
    }
}

impl Plan<'_> {
    fn af_packet(
        &self,
        args: &OpenArgs,
        knobs: &Knobs<'_>,
        warnings: &mut Vec<String>,
    ) -> anyhow::Result<Sources> {
        let hardware_timestamps = args.hardware_time && self.stamps_by_hardware(knobs, warnings);
        let opened = af_packet::open(&af_packet::AfPacketConfig {
            interface: self.name.to_owned(),
            interface_id: self.interface_id,
            lanes: args.queues.unwrap_or(1),
            fanout: match args.fanout {
                Fanout::Hash => FanoutMode::Hash,
                Fanout::Cpu => FanoutMode::Cpu,
                Fanout::Queue => FanoutMode::Queue,
            },
            ring_bytes: args.kernel_ring_bytes(),
            block_timeout_ms: args.block_timeout,
            snaplen_bytes: args.snaplen_bytes(),
            promiscuous: !args.no_promiscuous,
            direction: self.direction,
            filter: self.filter.clone().map(|program| (program, args.expression())),
            hardware_timestamps,
            rules: self.rules.cloned(),
        })?;
        warnings.extend(opened.warnings);
        if let Some(rules) = self.rules {
            keep::tell_pre_filter(rules, self.name);
        }
        let with_handles = |source: AfPacketSource| {
            // Without a descriptor left the run goes on; only its end after a crash knows less.
            let handles = source.kernel_side().ok();
            (Box::new(source) as Box<dyn Source>, handles)
        };
        Ok(opened.sources.into_iter().map(with_handles).collect())
    }

    fn stamps_by_hardware(&self, knobs: &Knobs<'_>, warnings: &mut Vec<String>) -> bool {
        let request = Request::Interface { interface: self.name.to_owned(), wish: Wish::Stamps };
        let result = knobs.turn(&request);
        if let Err(error) = &result {
            warnings.push(format!("{error:#}; frames are stamped by the kernel"));
        }
        result.is_ok()
    }

    fn pcap(&self, args: &OpenArgs, warnings: &mut Vec<String>) -> anyhow::Result<Sources> {
        if args.lanes() > 1 {
            bail!("libpcap has one lane: leave out --queues, or use --backend af-packet");
        }
        let length = self.filter.as_ref().map_or(0, |program| program.instructions.len());
        if length > PCAP_INSTRUCTIONS_MAX {
            // libpcap compiles in this process, and its optimiser would take minutes.
            bail!(
                "the filter has {length} instructions, and the kernel takes \
                 {PCAP_INSTRUCTIONS_MAX} from libpcap: shorten it, or use --backend af-packet"
            );
        }
        warnings.extend(merge_warning(self.name));
        let expression = args.expression();
        let source = pcap::open(&pcap::PcapConfig {
            device: self.name.to_owned(),
            interface_id: self.interface_id,
            ring_bytes: args.kernel_ring_bytes(),
            block_timeout_ms: args.block_timeout,
            snaplen_bytes: args.snaplen_bytes(),
            promiscuous: !args.no_promiscuous,
            direction: self.direction,
            filter: (!expression.is_empty()).then_some(expression),
        })?;
        Ok(vec![(Box::new(source), None)])
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

/// Both directions unless one is asked for, as far as the ledger stays exact: in the driver there
/// is one, and what a loopback interface sends comes back as received. Mirrored copies that are
/// sent must not be taken and mirrored again.
fn direction(
    args: &OpenArgs,
    rules: Option<&Rules>,
    backend: Backend,
    name: &str,
) -> CaptureDirection {
    if let Some(direction) = args.direction {
        return direction;
    }
    if backend.is_in_driver() {
        return CaptureDirection::Inbound;
    }
    let mirrors = rules.is_some_and(|rules| !rules.mirrors().is_empty());
    if mirrors || name == interfaces::ANY || is_loopback(name) {
        say::message(format_args!("ringside: {name}: inbound only; --direction inout shows both"));
        return CaptureDirection::Inbound;
    }
    CaptureDirection::Both
}

fn is_loopback(name: &str) -> bool {
    let device = netdev::by_name(name).ok().flatten();
    device.is_some_and(|device| device.is_loopback())
}

/// Standard output as a stream of our own.
pub fn stdout_stream() -> anyhow::Result<OwnedFd> {
    std::io::stdout().as_fd().try_clone_to_owned().context("standard output")
}
