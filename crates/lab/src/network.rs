//! Making, finding and removing test networks.

use crate::config::check_name;
use crate::state::{Holder, Lock, Owner, State};
use crate::tools::{inside, run, run_with_input, set};
use crate::{Error, LabConfig, napi};
use crate::{RECEIVER_ADDRESS, RECEIVER_INTERFACE, SENDER_ADDRESS, SENDER_INTERFACE};
use ringside_ebpf::XdpProgram;
use ringside_netdev as netdev;
use ringside_transmit::{End, Wire};
use serde::Serialize;
use std::time::Duration;

/// How long links may take until the kernel sends through them.
const LINK_LIMIT: Duration = Duration::from_secs(10);

/// Locally administered, and not the destination of generated frames, so that no stack answers.
const SENDER_MAC: &str = "02:52:53:00:00:01";
const RECEIVER_MAC: &str = "02:52:53:00:00:02";

const PREFIX_LENGTH: u8 = 24;

/// Index of the first sender's interface, out of the way of the receivers'. Where both ends of a
/// pair have the same, the kernel takes up to a second to notice that their link is up
/// (linkwatch_urgent_event, net/core/link_watch.c).
const SENDER_INDEX: u32 = 1000;

/// A test network that is removed when this is dropped.
#[derive(Debug)]
pub struct Lab {
    status: LabStatus,
    removed_on_drop: bool,
}

/// A test network as it stands.
#[derive(Clone, Debug, Serialize)]
pub struct LabStatus {
    /// As it was asked for.
    pub config: LabConfig,
    /// Namespace of the sending end.
    pub sender_namespace: String,
    /// Interface of the sending end.
    pub sender_interface: &'static str,
    /// Namespace of the receiving end.
    pub receiver_namespace: String,
    /// Interface of the receiving end.
    pub receiver_interface: &'static str,
    /// The process that removes it when it ends; none for a network that stays until `down`.
    pub owner_pid: Option<u32>,
    /// True if its maker is gone: the next network that is made removes it.
    pub leftover: bool,
    /// True if both namespaces exist and are those that were made.
    pub whole: bool,
}

impl LabStatus {
    fn new(state: &State) -> Result<LabStatus, Error> {
        let [sender, receiver] = &state.namespaces;
        Ok(LabStatus {
            config: state.config.clone(),
            sender_namespace: sender.name.clone(),
            sender_interface: SENDER_INTERFACE,
            receiver_namespace: receiver.name.clone(),
            receiver_interface: RECEIVER_INTERFACE,
            owner_pid: state.owner.as_ref().map(|owner| owner.pid),
            leftover: state.is_leftover()?,
            whole: sender.holder()? == Holder::Us && receiver.holder()? == Holder::Us,
        })
    }

    /// Both ends of the first pair, for sending.
    pub fn wire(&self) -> Wire {
        self.wire_of([SENDER_INTERFACE.into(), RECEIVER_INTERFACE.into()])
    }

    /// Both ends of every pair.
    pub fn wires(&self) -> Vec<Wire> {
        self.config.interfaces().map(|interfaces| self.wire_of(interfaces)).collect()
    }

    fn wire_of(&self, [sender, receiver]: [String; 2]) -> Wire {
        let end = |namespace: &str, interface| End { namespace: Some(namespace.into()), interface };
        Wire {
            sender: end(&self.sender_namespace, sender),
            receiver: Some(end(&self.receiver_namespace, receiver)),
        }
    }
}

impl Lab {
    /// Removes what dead processes left, then makes the network.
    ///
    /// # Errors
    /// A network of that name is up, a namespace of its names exists that is not ours, root or a
    /// tool is missing, or the kernel refused; then nothing of it is left behind.
    pub fn up(config: &LabConfig) -> Result<Lab, Error> {
        config.check()?;
        let _lock = Lock::take()?;
        remove_leftovers()?;
        if let Some(state) = State::load(&config.name)? {
            let by = state.owner.map(|o| format!(" (process {} holds it)", o.pid));
            let (name, by) = (config.name.clone(), by.unwrap_or_default());
            return Err(Error::AlreadyUp { name, by });
        }
        let mut state = State::new(config, Some(Owner::this_process()?))?;
        for namespace in &state.namespaces {
            if namespace.present()?.is_some() {
                return Err(Error::Foreign { name: namespace.name.clone() });
            }
        }
        // Noted before anything is made: a process killed at any point leaves a trace.
        state.save()?;
        let made = make(&mut state).and_then(|()| LabStatus::new(&state));
        match made {
            Ok(status) => Ok(Lab { status, removed_on_drop: true }),
            Err(error) => {
                remove(&state)?;
                Err(error)
            }
        }
    }

    /// What it is.
    pub fn status(&self) -> &LabStatus {
        &self.status
    }

    /// Both ends of the first pair, for sending.
    pub fn wire(&self) -> Wire {
        self.status.wire()
    }

    /// Both ends of every pair.
    pub fn wires(&self) -> Vec<Wire> {
        self.status.wires()
    }

    /// Lets it stay until [`down`], beyond the end of this process.
    ///
    /// # Errors
    /// The state file cannot be written; the network is removed then.
    pub fn keep(mut self) -> Result<LabStatus, Error> {
        let _lock = Lock::take()?;
        let name = &self.status.config.name;
        if let Some(mut state) = State::load(name)? {
            state.owner = None;
            state.save()?;
        }
        self.removed_on_drop = false;
        self.status.owner_pid = None;
        Ok(self.status.clone())
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        if self.removed_on_drop {
            // A failure cannot be reported. What stays has a state file; the next `up` tries again.
            let _ = down(&self.status.config.name);
        }
    }
}

/// Removes the network `name`, whichever process made it.
///
/// # Errors
/// There is none, or it cannot be removed.
pub fn down(name: &str) -> Result<(), Error> {
    check_name(name)?;
    let _lock = Lock::take()?;
    match State::load(name)? {
        Some(state) => remove(&state),
        None => Err(Error::NotUp { name: name.into() }),
    }
}

/// The network `name`.
///
/// # Errors
/// There is none, or its state file cannot be read.
pub fn status(name: &str) -> Result<LabStatus, Error> {
    check_name(name)?;
    match State::load(name)? {
        Some(state) => LabStatus::new(&state),
        None => Err(Error::NotUp { name: name.into() }),
    }
}

/// All networks that have a state file, by name.
///
/// # Errors
/// A state file cannot be read.
pub fn list() -> Result<Vec<LabStatus>, Error> {
    // A network may be removed between listing and reading.
    let states = State::names()?.into_iter().filter_map(|name| State::load(&name).transpose());
    states.map(|state| LabStatus::new(&state?)).collect()
}

/// One that cannot be removed does not stop the removal of others; the caller holds the lock.
fn remove_leftovers() -> Result<(), Error> {
    for name in State::names()? {
        let removed = match State::load(&name) {
            Ok(Some(state)) if state.is_leftover()? => remove(&state),
            Ok(_) => continue,
            Err(error) => Err(error),
        };
        match removed {
            Ok(()) => tracing::info!(name, "removed a test network whose maker was gone"),
            Err(error) => tracing::warn!(name, %error, "a test network is left behind"),
        }
    }
    Ok(())
}

/// Removes what the state names and what is ours; the caller holds the lock.
fn remove(state: &State) -> Result<(), Error> {
    for namespace in &state.namespaces {
        let name = &namespace.name;
        match namespace.holder()? {
            Holder::None => {}
            Holder::Other => {
                tracing::warn!(name, "another program made this namespace again: left alone");
            }
            Holder::Us => {
                // First the pairs, which a program that still runs in the namespace would keep
                // alive. They are not there where the other end's namespace went before, or where
                // their maker was killed early.
                let interfaces = state.config.interfaces().flatten();
                let lines: String =
                    interfaces.map(|interface| format!("link delete {interface}\n")).collect();
                let _ = run_with_input(&format!("ip -n {name} -force -batch -"), &lines);
                run(&format!("ip netns delete {name}"))?;
            }
        }
    }
    State::forget(&state.config.name)
}

/// Makes what the state names; the caller holds the lock.
fn make(state: &mut State) -> Result<(), Error> {
    for index in 0..state.namespaces.len() {
        let name = state.namespaces[index].name.clone();
        run(&format!("ip netns add {name}")).map_err(privilege)?;
        state.namespaces[index].inode = state.namespaces[index].present()?;
        state.save()?;
        inside(&name, || {
            for scope in ["all", "default"] {
                set(&format!("/proc/sys/net/ipv6/conf/{scope}/disable_ipv6"), "1")?;
            }
            Ok(())
        })?;
    }
    let config = &state.config;
    let [a, b] = state.namespaces.each_ref().map(|namespace| namespace.name.as_str());
    for namespace in [a, b] {
        run(&format!("ip -n {namespace} link set lo up"))?;
    }
    for (index, interfaces) in (SENDER_INDEX..).zip(config.interfaces()) {
        make_pair(config, index, [a, b], interfaces.each_ref().map(String::as_str))?;
    }
    if config.addresses {
        let ends = [(SENDER_ADDRESS, SENDER_MAC), (RECEIVER_ADDRESS, RECEIVER_MAC)];
        address(config, a, SENDER_INTERFACE, ends)?;
        address(config, b, RECEIVER_INTERFACE, [ends[1], ends[0]])?;
    }
    for [sender, receiver] in config.interfaces() {
        napi::place(b, &receiver, config.napi, config.queues)?;
        if let Some(napi) = config.sender_napi {
            napi::place(a, &sender, napi, config.queues)?;
        }
    }
    Ok(())
}

/// Makes a veth pair between the namespaces, ready to carry frames.
fn make_pair(
    config: &LabConfig,
    index: u32,
    [a, b]: [&str; 2],
    [tx, rx]: [&str; 2],
) -> Result<(), Error> {
    let queues = format!("numtxqueues {0} numrxqueues {0}", config.queues);
    run(&format!(
        "ip -n {a} link add {tx} index {index} address {SENDER_MAC} mtu {mtu} {queues} type veth \
         peer name {rx} netns {b} address {RECEIVER_MAC} mtu {mtu} {queues}",
        mtu = config.mtu
    ))?;
    let has_gro = [config.sender_napi.is_some(), config.gro];
    for (namespace, interface, has_gro) in [(a, tx, has_gro[0]), (b, rx, has_gro[1])] {
        let gro = if has_gro { "on" } else { "off" };
        let features =
            format!("tx off tso off gso off rxvlan off rx-vlan-stag-hw-parse off gro {gro}");
        inside(namespace, || run(&format!("ethtool -K {interface} {features}")))?;
    }
    if config.xdp_pass {
        inside(b, || {
            let ifindex = netdev::by_name(rx)?.map_or(0, |device| device.ifindex);
            // By netlink, so that it stays as long as the interface, not as this process.
            XdpProgram::standing_root()?.attach(ifindex)?.keep();
            Ok(())
        })?;
    }
    let arp = if config.arp { "on" } else { "off" };
    for (namespace, interface) in [(a, tx), (b, rx)] {
        let lines = format!("link set {interface} arp {arp}\nlink set {interface} up\n");
        batch(namespace, &lines)?;
    }
    // Until the kernel has noticed the link it drops what is sent.
    for (namespace, interface) in [(a, tx), (b, rx)] {
        inside(namespace, || Ok(netdev::by_name_noticed(interface, LINK_LIMIT)?))?;
    }
    Ok(())
}

/// Gives an interface its own address; without ARP it must know the other end's.
fn address(
    config: &LabConfig,
    namespace: &str,
    interface: &str,
    [(own, _), (other, mac)]: [(&str, &str); 2],
) -> Result<(), Error> {
    let mut lines = format!("address add {own}/{PREFIX_LENGTH} dev {interface}\n");
    if !config.arp {
        lines += &format!("neighbour replace {other} lladdr {mac} dev {interface} nud permanent\n");
    }
    batch(namespace, &lines)
}

/// Runs lines of iproute2 in a namespace, by one process.
fn batch(namespace: &str, lines: &str) -> Result<(), Error> {
    run_with_input(&format!("ip -n {namespace} -batch -"), lines).map(drop)
}

/// The first command that needs privileges says so in its own words.
fn privilege(error: Error) -> Error {
    match error {
        Error::ToolFailed { said, .. } if said.contains("not permitted") => Error::NotRoot,
        other => other,
    }
}
