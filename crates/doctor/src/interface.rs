//! An interface: its driver, queues, rings, offloads, and who else has it.

use super::check::{Check, Checks, State};
use super::{clock, polling};
use anyhow::bail;
use ringside_capture::backend::VLAN_STRIPPING;
use ringside_keeper::{Request, SettingRequest};
use ringside_netdev::{
    self as netdev, Channels, Features, NetDevice, RingSizes, Rss, Use, XdpFeatures,
};
use ringside_sys::{bpf, thread};
use ringside_xdp::Pins;
use ringside_xdp::pins::Kind;

/// Receive offloads that merge frames, by the kernel's name, as ethtool(8) calls them.
const MERGING: [(&str, &str); 3] =
    [("rx-gro", "gro"), ("rx-lro", "lro"), ("rx-gro-hw", "rx-gro-hw")];
/// How the names of our own programs begin that stand first on an interface (bpf/xdp_root.bpf.c).
const ROOT: &str = "xdp_root";
const MERGED: &str = "frames of a flow are merged before they are captured; what is recorded is \
                      not what was on the wire";

/// All about the interface `name`.
///
/// # Errors
/// There is no such interface, or netlink is not there.
pub fn checks(name: &str) -> anyhow::Result<Vec<Check>> {
    let devices = netdev::list()?;
    let Some(device) = devices.iter().find(|device| device.name == name) else {
        let names = devices.iter().map(|device| device.name.as_str());
        let similar = netdev::similar_names(name, names).join(" or ");
        let meant =
            if similar.is_empty() { String::new() } else { format!(" (did you mean {similar}?)") };
        bail!("there is no interface {name}{meant}; `ip -brief link` lists them");
    };
    let mut checks = Checks::of(name);
    let uses = netdev::uses(name)?;
    let cpus = thread::allowed_cpus()?.len();
    link(&mut checks, device);
    host(&mut checks, &uses);
    let xdp = netdev::xdp_features(device.ifindex)?;
    driver(&mut checks, &netdev::driver(name).unwrap_or_else(|_| "unknown".into()), xdp);
    programs(&mut checks, device);
    if let Ok(channels) = netdev::channels(name) {
        queues(&mut checks, name, channels, cpus, uses.is_empty());
    }
    if let Ok(rss) = netdev::rss(name) {
        spreading(&mut checks, name, &rss, netdev::queues(name).map_or(1, |queues| queues.rx));
    }
    if let Ok(sizes) = netdev::ring_sizes(name) {
        ring(&mut checks, name, sizes, uses.is_empty());
    }
    if let Ok(features) = netdev::features(name) {
        offloads(&mut checks, name, &features);
        vlan(&mut checks, name, &features, xdp.unwrap_or_default().metadata_vlan_tag);
    }
    clock::of_interface(&mut checks, name);
    polling::checks(&mut checks, device)?;
    Ok(checks.into_vec())
}

fn link(checks: &mut Checks, device: &NetDevice) {
    let name = &device.name;
    if !device.is_up() {
        checks
            .add("link", State::Problem, "down", "an interface that is down receives nothing")
            .fix(format!("ip link set {name} up"));
    } else if !device.carrier {
        let why = "the other end is not there: nothing arrives";
        checks.add("link", State::Problem, "up, no carrier", why);
    } else {
        checks.good("link", format!("up, MTU {}", device.mtu_bytes));
    }
}

fn host(checks: &mut Checks, uses: &[Use]) {
    if uses.is_empty() {
        checks.good("host", "does not use it: all frames may be taken");
        return;
    }
    let found: Vec<String> = uses.iter().map(ToString::to_string).collect();
    let why = "frames that are taken inside the driver do not reach the host: `--backend auto` \
               leaves them to it";
    checks.add("host", State::Warning, found.join("; "), why);
}

fn driver(checks: &mut Checks, driver: &str, xdp: Option<XdpFeatures>) {
    let Some(xdp) = xdp else {
        let why = "kernels from 6.3 on say what a driver can do for XDP";
        checks.add("xdp", State::Warning, format!("driver {driver}: not known"), why);
        return;
    };
    if !(xdp.native && xdp.redirect) {
        let why = "programs run behind the driver then (generic XDP), where frames cost more";
        checks.add("xdp", State::Warning, format!("driver {driver}: none"), why);
        return;
    }
    let pieces = if xdp.receive_fragments { ", frames in several pieces" } else { "" };
    checks.good("xdp", format!("driver {driver}: programs, redirection{pieces}"));
    match (xdp.zero_copy, xdp.zero_copy_pieces_max) {
        (true, 0 | 1) => checks.good("zero-copy", "yes, for frames in one piece"),
        (true, pieces) => checks.good("zero-copy", format!("yes, up to {pieces} pieces a frame")),
        (false, _) => {
            let why = "the kernel copies each frame once to the socket's memory";
            checks.add("zero-copy", State::Warning, "the driver has none", why);
        }
    }
    let has = [
        (xdp.metadata_timestamp, "stamp"),
        (xdp.metadata_hash, "hash"),
        (xdp.metadata_vlan_tag, "VLAN tag"),
    ];
    let known: Vec<&str> = has.iter().filter(|(has, _)| *has).map(|(_, name)| *name).collect();
    if known.is_empty() {
        let why = "programs cannot read the card's stamp, hash and VLAN tag";
        checks.add("metadata", State::Warning, "none", why);
    } else {
        checks.good("metadata", known.join(", "));
    }
}

fn programs(checks: &mut Checks, device: &NetDevice) {
    if device.xdp_programs.is_empty() {
        checks.good("programs", "no XDP program is on it");
        return;
    }
    for &id in &device.xdp_programs {
        let name = bpf::program_name(id).unwrap_or_default();
        if name.starts_with(ROOT) {
            // The kernel takes it off with the last process that holds it, however that ends; one
            // that stays all the same passes every frame, and the next capture replaces it.
            let pinned = |kind, text| {
                let pins = Pins::on(kind, device.ifindex).ok().flatten();
                if pins.is_some_and(|pins| pins.is_in_force()) { text } else { "" }
            };
            let rules = pinned(Kind::Rules, ", with pinned rules (`ringside drop status`)");
            let router = pinned(Kind::Router, ", with a pinned router (`ringside route status`)");
            let shared = format!("{name} (id {id}), which captures share{rules}{router}");
            checks.good("programs", shared);
            continue;
        }
        let found = format!("{name} (id {id}) is on it");
        let why = "a program of another tool has the place where frames are taken in the driver";
        checks
            .add("programs", State::Warning, found, why)
            .fix(format!("bpftool prog show id {id}; ip link set {} xdp off", device.name));
    }
}

/// `is_free`: the host does not use the interface, which many drivers start anew for this.
fn queues(checks: &mut Checks, name: &str, channels: Channels, cpus: usize, is_free: bool) {
    let (now, most) = (channels.receiving(), channels.receiving_max());
    let best = most.min(u32::try_from(cpus).unwrap_or(u32::MAX)).max(1);
    let found = format!("{now} of {most} receive, {cpus} CPUs");
    if now == best {
        checks.good("queues", found);
        return;
    }
    let why = if now < best {
        "each queue can have a CPU of its own to be polled on"
    } else {
        "more queues than CPUs only cost cache and wake-ups"
    };
    let kind = if channels.combined_max > 0 { "combined" } else { "rx" };
    let check = checks.add("queues", State::Warning, found, why);
    check.fix(format!("ethtool -L {name} {kind} {best}"));
    let setting = SettingRequest::Queues { count: best };
    check.fixed_by(is_free.then(|| Request::Interface { interface: name.to_owned(), setting }));
}

fn spreading(checks: &mut Checks, name: &str, rss: &Rss, queues: u32) {
    if queues <= 1 || rss.is_symmetric() {
        checks.good("rss", if queues <= 1 { "one queue" } else { "symmetric" });
        return;
    }
    let why = "both directions of a flow may come to different lanes";
    let check = checks.add("rss", State::Warning, "not symmetric", why);
    let key: Vec<String> = rss.symmetric().key.iter().map(|byte| format!("{byte:02x}")).collect();
    check.fix(match key.len() {
        0 => format!("ethtool -X {name} xfrm symmetric-xor, if the driver can"),
        _ => format!("ethtool -X {name} hkey {}", key.join(":")),
    });
    // Few drivers have the transformation, and none says so before it is tried.
    let setting = (!key.is_empty()).then_some(SettingRequest::SymmetricRss);
    check.fixed_by(
        setting.map(|setting| Request::Interface { interface: name.to_owned(), setting }),
    );
}

fn ring(checks: &mut Checks, name: &str, sizes: RingSizes, is_free: bool) {
    let RingSizes { rx, rx_max } = sizes;
    let found = format!("{rx} of {rx_max} descriptors");
    if rx >= rx_max {
        checks.good("ring", found);
        return;
    }
    let why = "a longer ring rides out longer stalls of the CPU that polls it";
    let check = checks.add("ring", State::Warning, found, why);
    check.fix(format!("ethtool -G {name} rx {rx_max}"));
    let setting = SettingRequest::ReceiveRing { descriptors: rx_max };
    check.fixed_by(is_free.then(|| Request::Interface { interface: name.to_owned(), setting }));
}

fn offloads(checks: &mut Checks, name: &str, features: &Features) {
    for (feature, option) in MERGING {
        if !features.active.contains(feature) {
            // What a driver does not have is not worth a line.
            if features.changeable.contains(feature) {
                checks.good(option, "off");
            }
            continue;
        }
        if !features.changeable.contains(feature) {
            checks.add(option, State::Warning, "on, and cannot be turned off", MERGED);
            continue;
        }
        let check = checks.add(option, State::Problem, "on", MERGED);
        check.fix(format!("ethtool -K {name} {option} off"));
        check.fixed_by([turned_off(name, feature)]);
    }
}

fn vlan(checks: &mut Checks, name: &str, features: &Features, is_readable: bool) {
    let is_on = features.active.contains(VLAN_STRIPPING);
    match (is_on, is_readable) {
        (false, _) => checks.good("vlan", "tags stay in the frame"),
        (true, true) => checks.good("vlan", "tags are taken out, and programs can read them"),
        (true, false) => {
            let why = "programs inside the driver do not see the tag; packet sockets do";
            let check = checks.add("vlan", State::Warning, "tags are taken out", why);
            if features.changeable.contains(VLAN_STRIPPING) {
                check.fix(format!("ethtool -K {name} rxvlan off"));
                check.fixed_by([turned_off(name, VLAN_STRIPPING)]);
            }
        }
    }
}

fn turned_off(name: &str, feature: &str) -> Request {
    let setting = SettingRequest::Feature { feature: feature.to_owned(), on: false };
    Request::Interface { interface: name.to_owned(), setting }
}

#[cfg(test)]
mod tests;
