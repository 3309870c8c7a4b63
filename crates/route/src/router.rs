//! A router at work.

use crate::interface::{self, Found, why_not_out};
use crate::keeper::{Keeper, Order};
use crate::{DeviceCounts, InterfaceLedger, Ledger, RouteError};
use ringside_ebpf::route::{
    DevicePlace, Port, RouteAttachment, RouteDevice, RouteTables, egress_program, hop_place,
};
use ringside_netdev::{self as netdev, DeviceStatistics, LinkChanges, Neighbours, NetDevice};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// How often settings are read anew that the kernel sends no news of.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Between two looks at the neighbours.
const NEIGHBOUR_INTERVAL: Duration = Duration::from_millis(50);
/// After a look at the neighbours this many times as long passes until the next: a large table of
/// them takes at most a twentieth of a core.
const REST_FACTOR: u32 = 20;

/// What a router is to be.
#[derive(Clone, Debug)]
pub struct Options {
    /// Names of its interfaces, 2 to 32, in the calling thread's network namespace; VLANs too.
    pub interfaces: Vec<String>,
    /// How often each neighbour in use is asked whether it is still there: one whose address in the
    /// link layer has changed is sought at most this and 0.3 s later.
    pub probe_interval: Duration,
    /// How long an answer of the kernel's tables stands for further packets of the same flow: a
    /// change of routes, rules or neighbours is noticed at most this much later. 0: each packet
    /// asks.
    pub answer_age_max: Duration,
    /// It outlives this object and the process, and takes the place of one that is pinned.
    pub is_pinned: bool,
}

/// A router. It is used in the network namespace where it was opened; on drop its programs are
/// taken off, unless they are pinned.
#[derive(Debug)]
pub struct Router {
    tables: RouteTables,
    devices: Vec<Device>,
    interfaces: Vec<Interface>,
    is_pinned: bool,
    /// The kernel is given the ports of packets whether they decide or not.
    always_asks_for_ports: bool,
    keeper: Keeper,
    changes: LinkChanges,
    neighbours: Neighbours,
    look_at: Instant,
    ask_at: Instant,
}

/// A device where frames come in.
#[derive(Debug)]
struct Device {
    ifindex: u32,
    /// None once it is gone.
    attachment: Option<RouteAttachment>,
}

/// One of its interfaces.
#[derive(Debug)]
struct Interface {
    name: String,
    ifindex: u32,
    /// Number of its device's interface: its own, unless it is a VLAN.
    device: u32,
    slot: u32,
    /// Counts what leaves by it.
    out: OwnedFd,
    port: Port,
    is_member: bool,
    /// People know that it is no member.
    is_named: bool,
    is_gone: bool,
    before: DeviceStatistics,
    now: DeviceStatistics,
}

impl Router {
    /// Loads everything; no frame is forwarded yet. Says what keeps packets from being forwarded.
    ///
    /// # Errors
    /// An interface cannot be one of a router, the place for a router on it is taken, or the kernel
    /// refused; then nothing is left behind.
    pub fn open(options: &Options) -> Result<(Router, Vec<String>), RouteError> {
        let found = interface::find(&options.interfaces)?;
        // Before they are looked at again: no change is overlooked.
        let changes = LinkChanges::listen()?;
        let tables = RouteTables::new()?;
        let (devices, mut notes) = open_devices(&tables, &found, options)?;
        // A router that stays follows no rule once its process is gone.
        let always_asks_for_ports = options.is_pinned || options.answer_age_max.is_zero();
        let asks_for_ports = always_asks_for_ports || interface::asks_for_ports();
        let mut interfaces = Vec::new();
        for (slot, one) in (0u32..).zip(&found) {
            notes.extend(interface::notes(&one.interface));
            interfaces.push(Interface::new(&tables, one, slot, asks_for_ports)?);
        }
        let (now, keeper) = (Instant::now(), Keeper::new(options.probe_interval));
        let neighbours = Neighbours::open()?;
        let (look_at, ask_at, is_pinned) = (now, now, options.is_pinned);
        let mut router = Router {
            tables,
            devices,
            interfaces,
            is_pinned,
            always_asks_for_ports,
            keeper,
            changes,
            neighbours,
            look_at,
            ask_at,
        };
        notes.extend(router.look(now)?);
        Ok((router, notes))
    }

    /// Frames are forwarded from somewhere in this call on.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn start(&mut self) -> Result<(), RouteError> {
        for attachment in self.devices.iter_mut().filter_map(|one| one.attachment.as_mut()) {
            attachment.start(&self.tables)?;
        }
        Ok(())
    }

    /// Does what is due: follows changes of the interfaces, and has neighbours asked. To be called
    /// some 20 times a second; most calls take some microseconds. Gives what people are to know.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn tend(&mut self, now: Instant) -> Result<Vec<String>, RouteError> {
        let has_changed = self.changes.any()?;
        let notes = if has_changed || now >= self.look_at { self.look(now)? } else { Vec::new() };
        if now >= self.ask_at {
            self.ask(now)?;
            let took = now.elapsed();
            self.ask_at = now + NEIGHBOUR_INTERVAL.max(took * REST_FACTOR);
        }
        Ok(notes)
    }

    /// Takes the programs off: when this returns every packet goes the kernel's way, and the ledger
    /// is exact and stays as it is. What is pinned goes on.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn stop(&mut self) -> Result<(), RouteError> {
        if self.is_pinned {
            return Ok(());
        }
        for attachment in self.devices.iter_mut().filter_map(|one| one.attachment.as_mut()) {
            attachment.stop()?;
        }
        for one in &self.interfaces {
            self.tables.leave(one.slot, one.ifindex)?;
        }
        Ok(())
    }

    /// Frames so far.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn ledger(&self) -> Result<Ledger, RouteError> {
        let account = |one: &Interface| InterfaceLedger {
            interface: one.name.clone(),
            ifindex: one.ifindex,
            is_member: one.is_member,
            device: DeviceCounts::between(&one.before, &one.now),
            ..InterfaceLedger::default()
        };
        let accounts = self.interfaces.iter().map(|one| (one.slot, account(one)));
        let interfaces = read_tables(&self.tables, accounts.collect())?;
        Ok(Ledger { interfaces, neighbours: self.keeper.asked() })
    }

    /// Reads the drivers' counters, for the ledger.
    ///
    /// # Errors
    /// Netlink is not there.
    pub fn read_devices(&mut self) -> Result<(), RouteError> {
        let all = netdev::list()?;
        for one in &mut self.interfaces {
            let found = all.iter().find(|device| !one.is_gone && device.ifindex == one.ifindex);
            one.now = found.map_or(one.now, |device| device.statistics);
        }
        Ok(())
    }

    /// Follows what became of the interfaces.
    fn look(&mut self, now: Instant) -> Result<Vec<String>, RouteError> {
        self.look_at = now + LOOK_INTERVAL;
        let all = netdev::list()?;
        let mut notes = Vec::new();
        for one in &mut self.devices {
            let is_there = all.iter().any(|device| device.ifindex == one.ifindex);
            match &one.attachment {
                Some(attachment) if is_there => {
                    attachment.put_back_if_gone()?;
                }
                _ => one.attachment = None,
            }
        }
        let asks_for_ports = self.always_asks_for_ports || interface::asks_for_ports();
        for one in self.interfaces.iter_mut().filter(|one| !one.is_gone) {
            let found = Found::again(&all, one.ifindex, one.device);
            notes.extend(one.follow(&self.tables, found.as_ref(), asks_for_ports)?);
        }
        Ok(notes)
    }

    /// Has neighbours asked.
    fn ask(&mut self, now: Instant) -> Result<(), RouteError> {
        let used = self.tables.take_used_hops();
        if !self.keeper.is_busy() && !used.contains(&true) {
            return Ok(());
        }
        let mut all = self.neighbours.list()?;
        all.retain(|found| self.interfaces.iter().any(|one| one.ifindex == found.ifindex));
        let orders =
            self.keeper.step(now, &all, |found| used[hop_place(found.ifindex, found.address)]);
        for order in orders {
            match order {
                Order::Probe(neighbour) => self.neighbours.probe(&neighbour)?,
                Order::Seek(neighbour) => self.neighbours.seek(&neighbour)?,
            };
        }
        Ok(())
    }
}

/// Fills accounts of interfaces, each with its slot, with what the tables say.
pub(crate) fn read_tables(
    tables: &RouteTables,
    mut accounts: Vec<(u32, InterfaceLedger)>,
) -> Result<Vec<InterfaceLedger>, RouteError> {
    let slots: Vec<u32> = accounts.iter().map(|(slot, _)| *slot).collect();
    for (slot, account) in &mut accounts {
        // What left is counted after what was given: read in the other order.
        let sent = tables.sent(*slot)?;
        for from in &slots {
            let flow = tables.flow(*from, *slot)?;
            account.given += flow.frames;
            account.given_bytes += flow.bytes;
        }
        account.note(&tables.counts(*slot)?);
        (account.sent, account.sent_bytes) = (sent.frames, sent.bytes);
        account.lost = account.given.saturating_sub(sent.frames);
    }
    Ok(accounts.into_iter().map(|(_, account)| account).collect())
}

/// Takes the place on each device that the interfaces have, and puts the tables of VLANs right.
fn open_devices(
    tables: &RouteTables,
    found: &[Found],
    options: &Options,
) -> Result<(Vec<Device>, Vec<String>), RouteError> {
    let has_vlans = found.iter().any(|one| one.interface.vlan_id.is_some());
    let (mut devices, mut notes): (Vec<Device>, _) = (Vec::new(), Vec::new());
    for (slot, one) in (0u32..).zip(found) {
        let known = devices.iter().position(|device| device.ifindex == one.device.ifindex);
        let number = known.unwrap_or(devices.len()) as u32;
        if let Some(vlan) = one.interface.vlan_id {
            tables.set_vlan(number, vlan, slot)?;
        }
        if known.is_some() {
            continue;
        }
        let place = DevicePlace { device: number, slot: untagged(found, &one.device) };
        let has_hardware_tags = interface::has_hardware_tags(&one.device);
        let attachment = RouteAttachment::open(
            tables,
            &RouteDevice {
                interface: &one.device.name,
                ifindex: one.device.ifindex,
                place,
                has_vlans,
                has_hardware_tags,
                is_pinned: options.is_pinned,
                answer_age_max: options.answer_age_max,
            },
        )?;
        if has_hardware_tags && !attachment.sees_hardware_tags() {
            return Err(RouteError::HiddenTags(one.device.name.clone()));
        }
        let refused = attachment.notes().iter();
        notes.extend(refused.map(|note| format!("{}: {note}", one.device.name)));
        devices.push(Device { ifindex: one.device.ifindex, attachment: Some(attachment) });
    }
    Ok((devices, notes))
}

/// The slot of the interface whose frames have no tag, of those on a device.
pub(crate) fn untagged(found: &[Found], device: &NetDevice) -> Option<u32> {
    let slot = found.iter().position(|one| one.interface.ifindex == device.ifindex);
    slot.map(|slot| slot as u32)
}

impl Interface {
    fn new(
        tables: &RouteTables,
        found: &Found,
        slot: u32,
        asks_for_ports: bool,
    ) -> Result<Interface, RouteError> {
        let Found { interface, device } = found;
        let port = interface::port(interface, asks_for_ports);
        tables.set_port(slot, &port)?;
        Ok(Interface {
            name: interface.name.clone(),
            ifindex: interface.ifindex,
            device: device.ifindex,
            slot,
            out: egress_program(tables, slot)?,
            port,
            is_member: false,
            is_named: false,
            is_gone: false,
            before: interface.statistics,
            now: interface.statistics,
        })
    }

    /// Follows what became of it: none if it is gone, or its device is.
    fn follow(
        &mut self,
        tables: &RouteTables,
        found: Option<&Found>,
        asks_for_ports: bool,
    ) -> Result<Option<String>, RouteError> {
        let Some(found) = found else {
            tables.leave(self.slot, self.ifindex)?;
            (self.is_member, self.is_gone) = (false, true);
            return Ok(Some(format!(
                "{} is gone; one that comes again under this name needs a new start",
                self.name
            )));
        };
        self.now = found.interface.statistics;
        let port = interface::port(&found.interface, asks_for_ports);
        if port != self.port {
            tables.set_port(self.slot, &port)?;
            self.port = port;
        }
        match why_not_out(found) {
            None if !self.is_member => {
                let way = (self.ifindex, self.device);
                tables.join(self.slot, way, self.out.as_fd())?;
                self.is_member = true;
                let is_news = std::mem::take(&mut self.is_named);
                Ok(is_news.then(|| format!("{}: frames leave by it again", self.name)))
            }
            None => Ok(None),
            Some(why) => {
                if std::mem::take(&mut self.is_member) {
                    tables.leave(self.slot, self.ifindex)?;
                }
                Ok((!std::mem::replace(&mut self.is_named, true)).then_some(why))
            }
        }
    }
}
