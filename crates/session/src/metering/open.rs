//! How a run of flow caches begins.

use super::desk::Desk;
use super::{Metering, report};
use crate::note::{Note, Notes};
use crate::open::{enter_namespace, interfaces};
use crate::refused::Refused;
use crate::session::{Privileges, become_another, other_outputs};
use ringside_capture::config::Output;
use ringside_control::{
    CAPTURE_KIND, ControlSocket, OutputStatus, Remaining, SocketPlace, StatusParts,
};
use ringside_core::InterfaceId;
use ringside_core::limits::INTERFACES_MAX;
use ringside_flow::FlowMonitor;
use ringside_keeper::{Link, privileges};
use ringside_meter::{Hook, Meter, Meters, Options};
use ringside_netdev as netdev;
use ringside_sys::packet::Promiscuous;
use std::time::Duration;

/// What is asked of a run of flow caches.
#[derive(Default)]
pub struct MeteringOptions {
    /// Interfaces, by name or by number as [`crate::interfaces`] counts.
    pub interfaces: Vec<String>,
    /// Network namespace: a name, a path or a process id.
    pub namespace: Option<String>,
    /// The interfaces receive frames for other stations too.
    pub promiscuous: bool,
    /// Where frames are met; `None` for the driver where the host does not use the interface, else
    /// the ends of the host's stack.
    pub hook: Option<Hook>,
    /// How each cache is made.
    pub cache: Options,
    /// Time after which it ends.
    pub duration: Option<Duration>,
    /// Where the control socket is.
    pub control: SocketPlace,
    /// What the calling thread may do from the start on.
    pub privileges: Privileges,
}

impl<'l> Metering<'l> {
    /// Puts a cache on each interface. With a `link` a keeper says what was lost if this process
    /// dies. The calling thread goes to the network namespace that is named.
    ///
    /// # Errors
    /// An interface cannot be metered, or what the system says; nothing is left behind.
    pub fn start(
        options: MeteringOptions,
        mut monitor: FlowMonitor,
        link: Option<&'l Link>,
        notes: Notes<'_>,
    ) -> anyhow::Result<Metering<'l>> {
        enter_namespace(options.namespace.as_deref())?;
        let names = interfaces::names(&options.interfaces)?;
        if names.len() > INTERFACES_MAX {
            return Err(Refused::Lanes { lanes: names.len() }.into());
        }
        let keeper_pid = link.and_then(Link::keeper_pid);
        let control = ControlSocket::open(&options.control, CAPTURE_KIND, keeper_pid)?;
        let mut opened = Opened::default();
        for (id, name) in names.iter().enumerate() {
            let done = opened.open(name, InterfaceId(id as u32), &options, notes);
            done.map_err(privileges::advised)?;
        }
        let Opened { meters, words, promiscuous } = opened;
        let made = become_another(&options.privileges, link, &Output::Count, &[])?;
        let source = words.join(", ");
        monitor.set_interfaces(names.clone());
        let output = OutputStatus { kind: "flows".to_owned(), paths: Vec::new() };
        let mut parts = StatusParts::new(source.clone(), names, output);
        parts.set_keeper(keeper_pid);
        let desk = Desk::new(parts, monitor.handle());
        if options.privileges != Privileges::Keep {
            privileges::give_up(&[], &other_outputs(&[], control.as_ref()), false)?;
        }
        if let Some(link) = link {
            meters.iter().for_each(|meter| report::keep(meter, link));
            link.started(made.is_some())?;
        }
        notes(Note::Listening { description: source });
        Ok(Metering {
            meters: Meters::new(meters),
            monitor,
            desk,
            control,
            duration: options.duration,
            clients: Remaining::default(),
            link,
            errors: Vec::new(),
            _promiscuous: promiscuous,
        })
    }
}

/// What is open so far.
#[derive(Default)]
struct Opened {
    meters: Vec<Meter>,
    /// Each in words.
    words: Vec<String>,
    promiscuous: Vec<Promiscuous>,
}

impl Opened {
    fn open(
        &mut self,
        name: &str,
        id: InterfaceId,
        options: &MeteringOptions,
        notes: Notes<'_>,
    ) -> anyhow::Result<()> {
        let hook = match options.hook {
            Some(hook) => hook,
            None => hook_of(name, notes)?,
        };
        let device = netdev::by_name(name)?;
        if let Some(device) = device.filter(|_| options.promiscuous) {
            self.promiscuous.push(Promiscuous::keep(device.ifindex)?);
        }
        let cache = Options { interface: id, ..options.cache };
        let meter = Meter::open(name, hook, &cache)?;
        meter.notes().iter().for_each(|note| notes(Note::Backend(format!("{name}: {note}"))));
        let (entries, bytes) = (meter.status().entries_max, meter.status().memory_bytes);
        let place = match hook {
            Hook::Xdp => "in the driver, what it receives",
            Hook::Tc => "by tcx, what it receives and sends",
        };
        let memory = bytes.div_ceil(1 << 20);
        self.words.push(format!("{name} (flow cache {place}: {entries} entries, {memory} MiB)"));
        self.meters.push(meter);
        Ok(())
    }
}

/// In the driver, unless the host uses the interface: then what it sends belongs to its flows.
fn hook_of(name: &str, notes: Notes<'_>) -> anyhow::Result<Hook> {
    match netdev::uses(name)?.first() {
        None => Ok(Hook::Xdp),
        Some(first) => {
            notes(Note::Backend(format!("{name}: the host uses it ({first}): metered by tcx")));
            Ok(Hook::Tc)
        }
    }
}
