//! From options to open lanes: namespace, filter, backend, placement.

mod driver;
pub(crate) mod files;
pub mod interfaces;
mod rules;

use crate::filters::compile;
use crate::note::{NotInDriver, Note, Notes};
use crate::placement::{Placed, PlacementOptions};
use crate::refused::Refused;
use ringside_capture::backend::af_xdp::{Stamps, Waiting};
use ringside_capture::backend::{
    AF_PACKET, BackendError, DPDK, Description, KernelSide, LaneKind, NETMAP, OpenRequest,
    OpenedLanes, PCAP, PF_RING, af_packet, dpdk, netmap, pf_ring,
};
use ringside_capture::keep::{InterfacePreFilter, RulesBuilder};
use ringside_capture::placement::LaneFacts;
use ringside_capture::run::LaneSource;
use ringside_core::bpf::ClassicProgram;
use ringside_core::limits::{FRAME_BYTES_MAX, LANES_MAX};
use ringside_core::{InterfaceId, SourceInterface};
use ringside_keeper::Knobs;
use ringside_netdev as netdev;
use ringside_sys::netns::Namespace;
use ringside_sys::packet::{CaptureDirection, FanoutMode};
use std::path::PathBuf;

/// What is asked about where frames come from, and how. By default there is no interface;
/// everything else is chosen.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// Interfaces, by name or by their number in [`interfaces::in_order`], counted from 1.
    pub interfaces: Vec<String>,
    /// Files, directories of a recording, or `-` for standard input, whose frames are taken as if
    /// they were received now, merged by time, in place of interfaces.
    pub read: Vec<PathBuf>,
    /// How to receive; `None` for a choice.
    pub backend: Option<&'static Description>,
    /// The choice is explained where it is the usual one, too.
    pub explains: bool,
    /// Lanes of each interface. `None` for one, and for each receive queue one inside a driver.
    pub lanes: Option<u16>,
    /// Threads that drain each lane together.
    pub threads: u16,
    /// How the kernel spreads frames over the lanes of packet sockets.
    pub fanout: FanoutMode,
    /// Bytes kept of each frame, 1 to [`FRAME_BYTES_MAX`].
    pub snaplen_bytes: u32,
    /// Frames that are not for this host are received, too.
    pub promiscuous: bool,
    /// Which frames, seen from this host. `None` for both where that can be counted.
    pub direction: Option<CaptureDirection>,
    /// Memory of the kernel's ring for each lane.
    pub kernel_ring_bytes: u64,
    /// Longest time that the kernel holds frames back to fill a block.
    pub block_timeout_ms: u32,
    /// The card's own stamps, where it has them.
    pub hardware_time: bool,
    /// What a worker does inside a driver while no frame is there. `None` for a choice by where the
    /// kernel's receive path runs.
    pub waiting: Option<Waiting>,
    /// Frames are stamped inside a driver; without, their time is 0, for counting only.
    pub has_stamps: bool,
    /// Where threads go.
    pub placement: PlacementOptions,
    /// Network namespace: a name, a path or a process id. The calling thread enters it and stays.
    pub namespace: Option<String>,
    /// pcap-filter(7) expression; empty for none.
    pub filter: String,
}

impl Default for OpenOptions {
    fn default() -> OpenOptions {
        OpenOptions {
            interfaces: Vec::new(),
            read: Vec::new(),
            backend: None,
            explains: false,
            lanes: None,
            threads: 1,
            fanout: FanoutMode::Hash,
            snaplen_bytes: FRAME_BYTES_MAX,
            promiscuous: true,
            direction: None,
            // Half a second at 500 Mb/s.
            kernel_ring_bytes: 32 << 20,
            block_timeout_ms: 50,
            hardware_time: false,
            waiting: None,
            has_stamps: true,
            placement: PlacementOptions::default(),
            namespace: None,
            filter: String::new(),
        }
    }
}

impl OpenOptions {
    /// Lanes of each interface, as far as the options say.
    fn lane_count(&self) -> usize {
        self.lanes.map_or(1, usize::from)
    }
}

/// Goes to the network namespace of this name, path or process id, if one is named.
///
/// # Errors
/// There is none of that name, or a privilege is missing.
pub fn enter_namespace(name: Option<&str>) -> anyhow::Result<()> {
    name.map_or(Ok(()), |name| Ok(Namespace::open(name)?.enter()?))
}

/// Lanes, ready to run.
#[derive(Default)]
pub(crate) struct Opened {
    pub lanes: Vec<LaneSource>,
    /// For each of the first lanes what the kernel holds of it, if that can be asked for.
    pub kernel: Vec<Option<Box<dyn KernelSide>>>,
    pub interfaces: Vec<SourceInterface>,
    /// Names of the interfaces that are received in the driver.
    pub in_driver: Vec<String>,
    /// What became of the pre-filters of rules, by interface.
    pub pre_filters: Vec<(String, InterfacePreFilter)>,
    pub placed: Placed,
    pub block_timeout_ns: u64,
    pub description: String,
    /// To be said once everything is open.
    pub warnings: Vec<Note>,
}

/// What is asked for, what is judged, and who turns knobs and hears what is chosen.
#[derive(Clone, Copy)]
pub(crate) struct Opening<'a> {
    pub options: &'a OpenOptions,
    /// What will be asked about the frames.
    pub rules: Option<&'a RulesBuilder>,
    /// Drivers apply the rules before: frames that they pass are the host's.
    pub rules_in_driver: bool,
    /// Changes what must be changed on an interface.
    pub knobs: &'a Knobs<'a>,
    pub notes: Notes<'a>,
}

/// Opens everything that is named. Frames are counted from the start of the run on (libpcap's from
/// here on): what takes time, as compiling filters, is done before the first is opened.
/// `directories` are those of a recording: its writers have their places too.
pub(crate) fn open(opening: Opening<'_>, directories: &[PathBuf]) -> anyhow::Result<Opened> {
    let options = opening.options;
    if !options.read.is_empty() {
        return files::open(options);
    }
    enter_namespace(options.namespace.as_deref())?;
    let names = interfaces::names(&options.interfaces)?;
    let block_timeout_ns = u64::from(options.block_timeout_ms) * 1_000_000;
    let mut opened = Opened { block_timeout_ns, ..Opened::default() };
    let lanes = names.len() * options.lane_count();
    if lanes > LANES_MAX {
        return Err(Refused::Lanes { lanes }.into());
    }
    let mut plans = Vec::new();
    for (index, name) in names.iter().enumerate() {
        plans.push(Plan::new(opening, name, InterfaceId(index as u32))?);
    }
    options.placement.turn(&names, opening.knobs)?;
    let lanes = plans.iter().enumerate().flat_map(|(index, plan)| plan.lanes(index));
    opened.placed = options.placement.place(&names, lanes.collect(), directories, opening.notes)?;
    for mut plan in plans {
        let lanes = plan.open_chosen(&opened.placed.cpus, &mut opened.warnings)?;
        opened.add(&plan, lanes);
    }
    Ok(opened)
}

/// Refuses what `backend` cannot do of what was asked for.
fn check(opening: Opening<'_>, backend: &'static Description, name: &str) -> anyhow::Result<()> {
    let threads = opening.options.threads;
    if threads != 1 && !backend.has_threads {
        return Err(Refused::Threads { backend, threads }.into());
    }
    let rules = opening.rules.filter(|_| !opening.rules_in_driver);
    Ok(rules.map_or(Ok(()), |rules| rules::check_backend(rules, backend, name))?)
}

/// What is to be opened for one interface.
struct Plan<'a> {
    opening: Opening<'a>,
    name: &'a str,
    interface_id: InterfaceId,
    backend: &'static Description,
    direction: CaptureDirection,
    filter: Option<ClassicProgram>,
}

impl<'a> Plan<'a> {
    fn new(
        opening: Opening<'a>,
        name: &'a str,
        interface_id: InterfaceId,
    ) -> anyhow::Result<Plan<'a>> {
        let backend = choose(opening, name)?;
        check(opening, backend, name)?;
        let link_type = (backend.link_type)(name)?;
        let filter = compile(&opening.options.filter, link_type, opening.notes)?;
        let direction = direction(opening, backend, name);
        Ok(Plan { opening, name, interface_id, backend, direction, filter })
    }

    /// What is known of its lanes before they are opened.
    fn lanes(&self, interface: usize) -> Vec<LaneFacts> {
        let options = self.opening.options;
        let kind = self.backend.lane;
        let by_queue = match kind {
            LaneKind::Queue => true,
            LaneKind::FanoutMember => options.fanout == FanoutMode::Queue,
            LaneKind::OwnQueue | LaneKind::Device => false,
        };
        let threads = usize::from(options.threads);
        let lane = |lane| LaneFacts { interface, queue: by_queue.then_some(lane), threads };
        let count = match kind {
            LaneKind::Queue => driver::lanes(options, self.name),
            LaneKind::FanoutMember | LaneKind::OwnQueue | LaneKind::Device => options.lane_count(),
        };
        (0..count).map(lane).collect()
    }

    /// As [`open`](Self::open); where the driver was our choice and is not to be had, as because
    /// another capture has it, by a packet socket.
    fn open_chosen(
        &mut self,
        cpus: &[usize],
        warnings: &mut Vec<Note>,
    ) -> anyhow::Result<OpenedLanes> {
        let opened = self.open(cpus, warnings);
        let is_choice = self.opening.options.backend.is_none();
        match opened {
            Err(error) if is_choice && self.backend.is_in_driver => {
                let reason = NotInDriver::Failed(error);
                let interface = self.name.to_owned();
                (self.opening.notes)(Note::NotInDriver { interface, reason });
                self.backend = &AF_PACKET;
                check(self.opening, self.backend, self.name)?;
                self.direction = direction(self.opening, self.backend, self.name);
                self.open(cpus, warnings)
            }
            opened => opened,
        }
    }

    fn open(&self, cpus: &[usize], warnings: &mut Vec<Note>) -> anyhow::Result<OpenedLanes> {
        let Opening { rules, notes, .. } = self.opening;
        let backend = self.backend;
        let mut request = self.request(cpus);
        if backend.is_in_driver && self.direction == CaptureDirection::Both {
            return Err(Refused::ReceivedOnly { backend }.into());
        }
        (backend.check)(&request).map_err(BackendError::from)?;
        if request.stamps == Stamps::Hardware
            && !(backend.has_card_stamps && self.stamps_by_card(warnings))
        {
            request.stamps = Stamps::On;
        }
        if self.is_by_queue() && request.waiting == Waiting::BusyPoll {
            self.ready_busy_poll(warnings);
        }
        if backend.wants_tags_in_frames {
            self.leave_tags_in_frames()?;
        }
        let mut opened = backend.open(&request)?;
        if let Some(interface) = opened.left_program_on.take() {
            self.take_program_off_at_end(&interface, warnings);
        }
        opened.notes.drain(..).for_each(|note| notes(Note::Backend(note)));
        if let Some(way) = opened.way.take() {
            notes(Note::Way { interface: self.name.to_owned(), backend, way });
        }
        warnings.extend(opened.warnings.drain(..).map(Note::Opened));
        if let (Some(rules), Some(made)) = (rules, &opened.pre_filter) {
            rules::tell_pre_filter(rules, made, self.name, notes);
        }
        Ok(opened)
    }

    fn request(&self, cpus: &[usize]) -> OpenRequest {
        let options = self.opening.options;
        let stamps = match (options.has_stamps || !self.backend.is_in_driver, options.hardware_time)
        {
            (false, true) if !self.backend.has_card_stamps => Stamps::Hardware,
            (false, _) => Stamps::Off,
            (true, true) => Stamps::Hardware,
            (true, false) => Stamps::On,
        };
        OpenRequest {
            interface: self.name.to_owned(),
            interface_id: self.interface_id,
            lanes: options.lanes,
            threads: usize::from(options.threads),
            fanout: options.fanout,
            memory_bytes: options.kernel_ring_bytes,
            block_timeout_ms: options.block_timeout_ms,
            snaplen_bytes: options.snaplen_bytes,
            promiscuous: options.promiscuous,
            direction: self.direction,
            filter: self.filter.clone().map(|program| (program, options.filter.clone())),
            stamps,
            waiting: self.waiting(cpus),
            pre_filter: self.opening.rules.map(RulesBuilder::pre_filter_request),
        }
    }

    /// True if its lanes are receive queues.
    fn is_by_queue(&self) -> bool {
        self.backend.lane == LaneKind::Queue
    }
}

impl Opened {
    fn add(&mut self, plan: &Plan<'_>, opened: OpenedLanes) {
        let (name, interface_id) = (plan.name, plan.interface_id);
        if plan.backend.is_in_driver {
            self.in_driver.push(name.to_owned());
        }
        let backend = plan.backend.name;
        let lanes = opened.lanes.len();
        self.pre_filters.extend(opened.pre_filter.map(|made| (name.to_owned(), made)));
        let separator = if self.description.is_empty() { "" } else { ", " };
        let plural = if lanes == 1 { "" } else { "s" };
        self.description.push_str(&format!("{separator}{name} ({backend}, {lanes} lane{plural})"));
        for (queue, (source, kernel)) in opened.lanes.into_iter().enumerate() {
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
fn choose(opening: Opening<'_>, name: &str) -> anyhow::Result<&'static Description> {
    let Opening { options, rules, notes, .. } = opening;
    if let Some(backend) = options.backend {
        return Ok(backend);
    }
    if name.starts_with(dpdk::PREFIX) {
        return Ok(&DPDK);
    }
    if name.starts_with(pf_ring::PREFIX) {
        return Ok(&PF_RING);
    }
    if name.starts_with(netmap::PREFIX) {
        return Ok(&NETMAP);
    }
    let interface = name.to_owned();
    match af_packet::link_type(name) {
        Err(reason @ BackendError::UnknownLinkType { .. }) => {
            notes(Note::Libpcap { interface, reason });
            Ok(&PCAP)
        }
        // libpcap has devices that are no interface, as "any".
        Err(BackendError::NoSuchInterface { .. }) if name == interfaces::ANY => Ok(&PCAP),
        Err(error) => Err(error.into()),
        Ok(_) if !opening.rules_in_driver && rules.is_some_and(RulesBuilder::pass_some) => {
            if options.explains {
                notes(Note::RulesPass { interface });
            }
            Ok(&AF_PACKET)
        }
        Ok(link_type) => Ok(driver::choose_auto(opening, name, link_type)),
    }
}

/// Both directions unless one is asked for, as far as the ledger stays exact: in the driver there
/// is one, and what a loopback interface sends comes back as received. Mirrored copies that are
/// sent must not be taken and mirrored again.
fn direction(opening: Opening<'_>, backend: &Description, name: &str) -> CaptureDirection {
    if let Some(direction) = opening.options.direction {
        return direction;
    }
    if backend.is_in_driver {
        return CaptureDirection::Inbound;
    }
    let mirrors = opening.rules.is_some_and(|rules| !rules.mirrors().is_empty());
    if mirrors || name == interfaces::ANY || is_loopback(name) {
        (opening.notes)(Note::InboundOnly { interface: name.to_owned() });
        return CaptureDirection::Inbound;
    }
    CaptureDirection::Both
}

fn is_loopback(name: &str) -> bool {
    let device = netdev::by_name(name).ok().flatten();
    device.is_some_and(|device| device.is_loopback())
}
