//! What an interface must be, and what the system says of it.

use crate::RouteError;
use ringside_ebpf::route::{PORTS_MAX, Port, ReversePath};
use ringside_netdev::{self as netdev, NetDevice};

/// The feature by which a driver takes VLAN tags out of frames (net/ethtool/common.c).
const TAKES_TAGS: &str = "rx-vlan-hw-parse";
/// The kind of a VLAN.
const VLAN: &str = "vlan";
/// Groups whose members give their frames to the group. A VRF's do not.
const GROUPS: [&str; 4] = ["bridge", "bond", "team", "openvswitch"];

/// An interface of a router, and the device by which its frames come and go: itself, or of a VLAN
/// the interface that it stands on.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub interface: NetDevice,
    pub device: NetDevice,
}

impl Found {
    /// What it has in common with itself of later on, in a list of all interfaces.
    pub(crate) fn again(all: &[NetDevice], ifindex: u32, device: u32) -> Option<Found> {
        let of = |number: u32| all.iter().find(|one| one.ifindex == number).cloned();
        Some(Found { interface: of(ifindex)?, device: of(device)? })
    }
}

/// The interfaces of these names, of the calling thread's network namespace, if each can be one of
/// a router's.
pub(crate) fn find(names: &[String]) -> Result<Vec<Found>, RouteError> {
    if !(2..=PORTS_MAX).contains(&names.len()) {
        return Err(RouteError::Count(names.len()));
    }
    let all = netdev::list()?;
    let mut found: Vec<Found> = Vec::new();
    for name in names {
        let interface = all.iter().find(|device| device.name == *name);
        let interface = interface.ok_or_else(|| RouteError::NoInterface(name.clone()))?;
        if found.iter().any(|other| other.interface.ifindex == interface.ifindex) {
            return Err(RouteError::Twice(name.clone()));
        }
        let device = device_of(interface, &all)?;
        for one in [interface, device] {
            check(one)?;
        }
        // Before Linux 6.3 the kernel does not say.
        if netdev::xdp_features(device.ifindex)?.is_some_and(|features| !features.redirect) {
            return Err(RouteError::NoRedirect(device.name.clone()));
        }
        found.push(Found { interface: interface.clone(), device: device.clone() });
    }
    Ok(found)
}

/// The interface of a driver's that it stands on.
fn device_of<'a>(
    interface: &'a NetDevice,
    all: &'a [NetDevice],
) -> Result<&'a NetDevice, RouteError> {
    if interface.kind.as_deref() != Some(VLAN) {
        return Ok(interface);
    }
    let below = all.iter().find(|one| Some(one.ifindex) == interface.link);
    let is_known = interface.vlan_id.is_some() && !interface.link_is_elsewhere;
    let below = below.filter(|below| is_known && below.kind.as_deref() != Some(VLAN));
    below.ok_or_else(|| RouteError::Vlan(interface.name.clone()))
}

/// Refuses an interface between which and others nothing can be forwarded.
fn check(device: &NetDevice) -> Result<(), RouteError> {
    let name = || device.name.clone();
    if !device.is_up() {
        return Err(RouteError::Down(name()));
    }
    if device.hardware_type != libc::ARPHRD_ETHER || mac(device).is_none() {
        return Err(RouteError::NotEthernet(name()));
    }
    match device.member_kind.clone().filter(|kind| GROUPS.contains(&&kind[..])) {
        Some(kind) => Err(RouteError::Member { interface: name(), kind }),
        None => Ok(()),
    }
}

/// True if the driver takes VLAN tags out of frames. One that does not say takes none.
pub(crate) fn has_hardware_tags(device: &NetDevice) -> bool {
    netdev::features(&device.name).is_ok_and(|features| features.active.contains(TAKES_TAGS))
}

/// Its address in the link layer.
pub(crate) fn mac(device: &NetDevice) -> Option<[u8; 6]> {
    device.hardware_address.as_slice().try_into().ok()
}

/// True if ports of packets may decide about their routes: by a policy rule, or by the hash that
/// chooses among equal ways.
pub(crate) fn asks_for_ports() -> bool {
    let hashed = |version: u8| {
        let path = format!("/proc/sys/net/ipv{version}/fib_multipath_hash_policy");
        // Where there is no such setting there is no such version of IP.
        std::fs::read_to_string(path).is_ok_and(|policy| policy.trim() != "0")
    };
    hashed(4) || hashed(6) || netdev::rules_ask_for_transport().unwrap_or(true)
}

/// What the program must know of it, and whether it is to give the kernel ports.
pub(crate) fn port(device: &NetDevice, asks_for_ports: bool) -> Port {
    let setting = |name: &str| setting(4, name, "rp_filter").unwrap_or(0);
    // As the kernel: the stricter of both, by number (Documentation/networking/ip-sysctl.rst).
    let reverse_path = match setting("all").max(setting(&device.name)) {
        0 => ReversePath::Unasked,
        1 => ReversePath::Strict,
        _ => ReversePath::Loose,
    };
    Port {
        ifindex: device.ifindex,
        mac: mac(device).unwrap_or_default(),
        reverse_path,
        asks_for_ports,
        vlan: device.vlan_id.unwrap_or(0),
    }
}

/// Why frames cannot leave by it, if so.
pub(crate) fn why_not_out(found: &Found) -> Option<String> {
    let name = &found.interface.name;
    if let Some(down) = [&found.interface, &found.device].into_iter().find(|one| !one.is_up()) {
        return Some(format!("{} is down: what leads to {name} is left to the host", down.name));
    }
    let features = netdev::xdp_features(found.device.ifindex).ok().flatten();
    // A kernel that does not say may have it.
    features.filter(|features| !features.redirect_target).map(|_| {
        format!(
            "{name} takes no redirected frames: what leads there is left to the host. Its driver \
             cannot, or, of a veth pair, the other end has neither an XDP program nor GRO \
             (`ethtool -K PEER gro on`)"
        )
    })
}

/// What keeps packets that come in by it from being forwarded: notes with their fixes.
pub(crate) fn notes(device: &NetDevice) -> Vec<String> {
    let name = &device.name;
    let mut notes = Vec::new();
    for version in [4, 6] {
        if setting(version, name, "forwarding") == Some(0) {
            notes.push(format!(
                "{name}: forwarding of IPv{version} is off, so that none is forwarded: `sysctl -w \
                 net.ipv{version}.conf.all.forwarding=1`"
            ));
        }
    }
    if netdev::features(name).is_ok_and(|features| features.active.contains("rx-lro")) {
        notes.push(format!(
            "{name}: LRO makes packets of segments that no link takes: `ethtool -K {name} lro off`"
        ));
    }
    notes
}

/// A setting of an interface for a version of IP; /proc/sys/net is that of the calling thread's
/// network namespace. None where IPv6 is off.
fn setting(version: u8, interface: &str, name: &str) -> Option<u32> {
    let path = format!("/proc/sys/net/ipv{version}/conf/{interface}/{name}");
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}
