//! What this machine can capture with, each answer from a probe.
//!
//! As root each backend is tried with some frames on a private network of its own; else it is
//! opened where that changes nothing. No interface of the machine is changed.

mod properties;
mod trial;

pub use properties::Property;

use properties::Facts;
use ringside_capture::backend::{BACKENDS, Description, af_packet};
use ringside_netdev::{self as netdev, NetDevice};
use serde::Serialize;

/// What was found.
#[derive(Serialize)]
pub struct Report {
    /// Each backend of this build.
    pub backends: Vec<Backend>,
    /// The interfaces of this namespace.
    pub interfaces: Vec<Interface>,
}

/// A backend on this machine.
#[derive(Serialize)]
pub struct Backend {
    /// As people name it.
    pub name: &'static str,
    /// It can be opened here.
    pub usable: bool,
    /// Why it is not usable, or not tried.
    pub reason: Option<String>,
    /// What holds of it here; of all backends the same in the same order.
    pub properties: Vec<Property>,
}

/// An interface, as far as the system tells.
#[derive(Serialize)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// It is up.
    pub up: bool,
    /// Its driver.
    pub driver: Option<String>,
    /// Link type of af-packet; none if only libpcap may know it.
    pub link_type: Option<u16>,
    /// Receive queues.
    pub receive_queues: Option<u32>,
    /// GRO or LRO is on.
    pub merges_frames: Option<bool>,
    /// The card can stamp frames.
    pub hardware_timestamps: Option<bool>,
}

impl Report {
    /// Tries everything.
    ///
    /// # Errors
    /// The system does not list its interfaces.
    pub fn ask() -> anyhow::Result<Report> {
        let devices = netdev::list()?;
        let interfaces = devices.iter().map(interface).collect();
        Ok(Report { backends: backends(devices), interfaces })
    }
}

fn backends(devices: Vec<NetDevice>) -> Vec<Backend> {
    let facts = Facts::ask(devices);
    let network = trial::network();
    let backend = |tried: &&'static Description| {
        let (seen, reason) = match network.as_ref().map(|lab| trial::run(tried, lab)) {
            Ok(Ok(seen)) => (Some(seen), None),
            Ok(Err(error)) => (None, Some(format!("{error:#}"))),
            Err(error) => (None, unopened(tried, error)),
        };
        let properties = properties::of(tried, seen.as_ref(), &facts);
        Backend { name: tried.name, usable: reason.is_none(), reason, properties }
    };
    BACKENDS.iter().map(backend).collect()
}

/// Opens a backend where nothing changes, for want of a network (for this reason); why it cannot be
/// opened.
fn unopened(tried: &Description, no_network: &anyhow::Error) -> Option<String> {
    match tried.probe {
        Some(probe) => probe().err().map(|error| error.to_string()),
        None => Some(format!("it is tried on a private network only: {no_network:#}")),
    }
}

fn interface(device: &NetDevice) -> Interface {
    let name = device.name.as_str();
    Interface {
        name: name.to_owned(),
        up: device.is_up(),
        driver: netdev::driver(name).ok(),
        link_type: af_packet::link_type(name).ok().map(|link_type| link_type.0),
        receive_queues: netdev::queues(name).ok().map(|queues| queues.rx),
        merges_frames: netdev::offloads(name).ok().map(|offloads| offloads.gro || offloads.lro),
        hardware_timestamps: netdev::stamp_capability(name)
            .ok()
            .map(|stamps| stamps.receive_hardware),
    }
}
