//! From command-line options to open lanes: namespace, filter, backend, placement.

use crate::FILTER_CHILD;
use anyhow::{Context, bail};
use clap::{Args, ValueEnum};
use ringside_capture::backend::{BackendError, af_packet, pcap};
use ringside_capture::run::LaneSource;
use ringside_core::bpf::ClassicProgram;
use ringside_core::limits::{FRAME_BYTES_MAX, LANES_MAX};
use ringside_core::{InterfaceId, LinkType, Source, SourceInterface};
use ringside_filter::Compiler;
use ringside_sys::packet::{CaptureDirection, FanoutMode};
use ringside_sys::{netns::Namespace, thread};
use std::os::fd::{AsFd, OwnedFd};

/// Options of every subcommand that receives from interfaces.
#[derive(Args)]
pub struct OpenArgs {
    /// Interface to receive from; may be given several times.
    #[arg(short = 'i', long = "interface", value_name = "IF", required = true)]
    pub interfaces: Vec<String>,

    /// How to receive.
    #[arg(long, value_enum, default_value_t = Backend::Auto)]
    pub backend: Backend,

    /// Lanes of each interface: members of a fanout group, each with a worker of its own.
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=LANES_MAX as i64))]
    pub queues: u16,

    /// How the kernel spreads frames over the lanes.
    #[arg(long, value_enum, default_value_t = Fanout::Hash)]
    pub fanout: Fanout,

    /// Bytes kept of each frame.
    #[arg(short = 's', long, value_name = "BYTES", default_value_t = FRAME_BYTES_MAX)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=FRAME_BYTES_MAX as i64))]
    pub snaplen: u32,

    /// Leave the interface's promiscuous mode as it is.
    #[arg(short = 'p', long)]
    pub no_promiscuous: bool,

    /// Which frames, seen from this host.
    #[arg(long, value_enum, default_value_t = DirectionArg::In)]
    pub direction: DirectionArg,

    /// Memory of the kernel's ring for each lane.
    #[arg(long, value_name = "SIZE", value_parser = crate::units::bytes, default_value = "32MiB")]
    pub kernel_ring_size: u64,

    /// Longest time in milliseconds that the kernel holds frames back to fill a block.
    #[arg(long, value_name = "MS", default_value_t = 50)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub block_timeout: u32,

    /// Use the network interface's own time stamps, where it has them.
    #[arg(long)]
    pub hardware_time: bool,

    /// CPUs for the workers, in turn, as 2,3; by default all that are allowed.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub cpus: Vec<usize>,

    /// Network namespace to receive in: a name, a path or a process id.
    #[arg(long, value_name = "NAME")]
    pub netns: Option<String>,

    /// pcap-filter(7) expression; frames that do not match are counted as filtered.
    #[arg(value_name = "FILTER", trailing_var_arg = true)]
    pub filter: Vec<String>,
}

/// Backends of this build.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Backend {
    /// af-packet where the interface has Ethernet or IP frames, else pcap.
    Auto,
    /// The kernel's packet sockets (TPACKET_V3).
    AfPacket,
    /// libpcap: any device that it knows.
    Pcap,
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

/// Directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum DirectionArg {
    /// Received frames.
    In,
    /// Received and sent frames.
    Both,
}

/// Lanes, ready to run.
pub struct Opened {
    pub lanes: Vec<LaneSource>,
    pub interfaces: Vec<SourceInterface>,
    pub cpus: Vec<usize>,
    pub block_timeout_ns: u64,
    pub description: String,
    pub warnings: Vec<String>,
}

/// The compiler of filters: this program as a bounded child.
pub fn filter_compiler() -> anyhow::Result<Compiler> {
    let exe = std::env::current_exe().context("finding this program, to compile the filter")?;
    Ok(Compiler::Child { exe, args: vec![FILTER_CHILD.into()] })
}

/// Opens everything that `args` names. When this returns, frames are counted.
pub fn open(args: &OpenArgs) -> anyhow::Result<Opened> {
    if let Some(name) = &args.netns {
        Namespace::open(name)?.enter()?;
    }
    let mut opened = Opened {
        lanes: Vec::new(),
        interfaces: Vec::new(),
        cpus: cpus(args)?,
        block_timeout_ns: u64::from(args.block_timeout) * 1_000_000,
        description: String::new(),
        warnings: Vec::new(),
    };
    let lanes = args.interfaces.len() * usize::from(args.queues);
    if lanes > LANES_MAX {
        bail!("{lanes} lanes are asked for, a run has at most {LANES_MAX}: lower --queues");
    }
    let expression = args.filter.join(" ");
    for (index, name) in args.interfaces.iter().enumerate() {
        if args.interfaces[..index].contains(name) {
            bail!("-i {name} is given twice");
        }
        let id = InterfaceId(index as u32);
        let backend = choose(args.backend, name)?;
        let sources = match backend {
            Backend::Pcap => pcap_sources(args, name, id, &expression)?,
            Backend::Auto | Backend::AfPacket => {
                af_packet_sources(args, name, id, &expression, &mut opened.warnings)?
            }
        };
        opened.add(name, id, backend, sources);
    }
    Ok(opened)
}

type Sources = Vec<Box<dyn Source>>;

impl Opened {
    fn add(&mut self, name: &str, interface_id: InterfaceId, backend: Backend, sources: Sources) {
        let backend = if backend == Backend::Pcap { "pcap" } else { "af-packet" };
        let lanes = sources.len();
        let separator = if self.description.is_empty() { "" } else { ", " };
        let plural = if lanes == 1 { "" } else { "s" };
        self.description.push_str(&format!("{separator}{name} ({backend}, {lanes} lane{plural})"));
        for (queue, source) in sources.into_iter().enumerate() {
            if queue == 0 {
                self.interfaces.extend(source.interfaces().iter().cloned());
            }
            let (interface, queue) = (name.to_owned(), queue as u16);
            self.lanes.push(LaneSource { source, interface, interface_id, queue });
        }
    }
}

/// af-packet leaves the host's own traffic alone, so it is right on every interface that it knows.
fn choose(backend: Backend, name: &str) -> anyhow::Result<Backend> {
    if backend != Backend::Auto {
        return Ok(backend);
    }
    match af_packet::link_type(name) {
        Err(error @ BackendError::UnknownLinkType { .. }) => {
            eprintln!("ringside: {name}: using libpcap ({error})");
            Ok(Backend::Pcap)
        }
        // libpcap has devices that are no interface, as "any".
        Err(BackendError::NoSuchInterface { .. }) if name == "any" => Ok(Backend::Pcap),
        Err(error) => Err(error.into()),
        Ok(_) => Ok(Backend::AfPacket),
    }
}

fn af_packet_sources(
    args: &OpenArgs,
    name: &str,
    interface_id: InterfaceId,
    expression: &str,
    warnings: &mut Vec<String>,
) -> anyhow::Result<Sources> {
    let link_type = af_packet::link_type(name)?;
    let filter = compile(expression, link_type)?.map(|program| (program, expression.to_owned()));
    let opened = af_packet::open(&af_packet::AfPacketConfig {
        interface: name.to_owned(),
        interface_id,
        lanes: args.queues,
        fanout: match args.fanout {
            Fanout::Hash => FanoutMode::Hash,
            Fanout::Cpu => FanoutMode::Cpu,
            Fanout::Queue => FanoutMode::Queue,
        },
        ring_bytes: args.kernel_ring_size,
        block_timeout_ms: args.block_timeout,
        snaplen_bytes: args.snaplen,
        promiscuous: !args.no_promiscuous,
        direction: direction(args),
        filter,
        hardware_timestamps: args.hardware_time,
    })?;
    warnings.extend(opened.warnings);
    Ok(opened.sources.into_iter().map(|source| Box::new(source) as Box<dyn Source>).collect())
}

fn pcap_sources(
    args: &OpenArgs,
    name: &str,
    interface_id: InterfaceId,
    expression: &str,
) -> anyhow::Result<Sources> {
    if args.queues > 1 {
        bail!("libpcap has one lane: leave out --queues, or use --backend af-packet");
    }
    // libpcap compiles in this process and its optimiser can take minutes: try it bounded first.
    if compile(expression, pcap::link_type(name)?).is_err() {
        tracing::warn!("the filter does not compile for files; libpcap may know it for {name}");
    }
    let source = pcap::open(&pcap::PcapConfig {
        device: name.to_owned(),
        interface_id,
        ring_bytes: args.kernel_ring_size,
        block_timeout_ms: args.block_timeout,
        snaplen_bytes: args.snaplen,
        promiscuous: !args.no_promiscuous,
        direction: direction(args),
        filter: (!expression.is_empty()).then(|| expression.to_owned()),
    })?;
    Ok(vec![Box::new(source)])
}

/// Compiles a filter for frames of `link_type`; `None` for an empty one.
pub fn compile(expression: &str, link_type: LinkType) -> anyhow::Result<Option<ClassicProgram>> {
    if expression.trim().is_empty() {
        return Ok(None);
    }
    let compiled = ringside_filter::compile(expression, link_type, 0, &filter_compiler()?)?;
    if !compiled.optimised {
        eprintln!(
            "ringside: the filter is too long for libpcap's optimiser; it runs unoptimised \
             ({} instructions)",
            compiled.program.instructions.len()
        );
    }
    Ok(Some(compiled.program))
}

fn direction(args: &OpenArgs) -> CaptureDirection {
    match args.direction {
        DirectionArg::In => CaptureDirection::Inbound,
        DirectionArg::Both => CaptureDirection::Both,
    }
}

/// The CPUs for the workers: those asked for, which must be allowed, else all that are.
fn cpus(args: &OpenArgs) -> anyhow::Result<Vec<usize>> {
    let allowed = thread::allowed_cpus()?;
    if let Some(wrong) = args.cpus.iter().find(|cpu| !allowed.contains(cpu)) {
        bail!("--cpus {wrong}: this process may run on {allowed:?}");
    }
    // One lane without a wish is left to the scheduler: pinned to a busy CPU it would only lose.
    let lanes = args.interfaces.len() * usize::from(args.queues);
    Ok(match (&args.cpus[..], lanes) {
        ([], 1) => Vec::new(),
        ([], _) => allowed,
        (wanted, _) => wanted.to_vec(),
    })
}

/// Standard output as a stream of our own.
pub fn stdout_stream() -> anyhow::Result<OwnedFd> {
    std::io::stdout().as_fd().try_clone_to_owned().context("standard output")
}
