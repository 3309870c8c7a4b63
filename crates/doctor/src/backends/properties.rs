//! The properties by which a survey compares capture systems (Larin and Getman, "High-speed network
//! traffic capturing and processing tools", 2021, table 1), of the backends here. Every cell says
//! how it was found.

use super::trial::{FRAMES, LANES, Seen};
use ringside_capture::backend::{Description, LaneKind, System};
use ringside_core::TimestampKind;
use ringside_netdev::{self as netdev, NetDevice};
use ringside_sys::numa::{self, PreferredNode};
use ringside_sys::{bpf, thread};
use rustix::system::uname;
use serde::Serialize;
use std::fs::{OpenOptions, read_dir, read_to_string};

/// Interfaces that are named in a cell.
const NAMED_MAX: usize = 4;

/// One property of one backend.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Property {
    /// The survey's name.
    pub name: &'static str,
    /// What holds here.
    pub value: String,
    /// How it was found.
    pub probe: &'static str,
}

/// What is asked of the machine once, for all backends.
pub struct Facts {
    cpu_pinned: bool,
    interrupts_pinned: bool,
    memory: String,
    xdp_programs: bool,
    modules: Option<Vec<String>>,
    interfaces: Vec<NetDevice>,
}

impl Facts {
    /// Asks.
    pub fn ask(interfaces: Vec<NetDevice>) -> Facts {
        let modules = read_to_string("/proc/modules").ok().map(|text| {
            let names = text.lines().filter_map(|line| line.split_whitespace().next());
            names.map(ToOwned::to_owned).collect()
        });
        Facts {
            cpu_pinned: can_pin(),
            interrupts_pinned: can_move_interrupts(),
            memory: memory(),
            xdp_programs: bpf::try_xdp().is_ok(),
            modules,
            interfaces,
        }
    }
}

/// A thread of its own, so that this one stays where it is.
fn can_pin() -> bool {
    let pinned = || {
        let cpu = *thread::allowed_cpus().ok()?.first()?;
        thread::pin_to_cpu(cpu).ok()?;
        (thread::allowed_cpus().ok()? == [cpu]).then_some(())
    };
    std::thread::spawn(pinned).join().is_ok_and(|pinned| pinned.is_some())
}

fn can_move_interrupts() -> bool {
    let entries = read_dir("/proc/irq").into_iter().flatten().flatten();
    let mut files = entries.map(|entry| entry.path().join("smp_affinity_list"));
    // Opening changes nothing.
    files.any(|file| OpenOptions::new().write(true).open(file).is_ok())
}

fn memory() -> String {
    let nodes = numa::nodes();
    match nodes.first() {
        None => "the kernel has no NUMA".into(),
        Some(node) => match PreferredNode::new(node.id) {
            Ok(_) if nodes.len() == 1 => "yes (one node here)".into(),
            Ok(_) => format!("yes ({} nodes)", nodes.len()),
            Err(_) => "no".into(),
        },
    }
}

/// The table's column of one backend.
pub fn of(tried: &Description, seen: Option<&Seen>, facts: &Facts) -> Vec<Property> {
    let page_or = |probe| tried.system.map_or(probe, |system: &System| system.page);
    let mut found = Vec::new();
    let mut add = |name, value: String, probe| found.push(Property { name, value, probe });
    let not_tried = || "not tried".to_owned();
    let with = |tell: &dyn Fn(&Seen) -> String| seen.map_or_else(not_tried, tell);
    add("memory prepared and reused", with(&mapped), "memory mapped before the first frame");
    add("several threads (RSS)", with(&|seen| lanes(tried, seen)), "opening several lanes");
    add("memory mapping", with(&|seen| size(seen.mapped_bytes)), "/proc/self/maps");
    let probe = match (tried.has_zero_copy, tried.is_in_driver) {
        (true, _) => "driver features of the interfaces here, and the trial's way",
        (false, true) => "by construction: the program copies each frame to its ring",
        (false, false) => "by construction: the kernel copies each frame to its ring",
    };
    add("zero-copy", zero_copy(tried, seen, facts), page_or(probe));
    add("batches", with(&batches), "largest batch of the trial");
    add("CPU and interrupts pinned", pinned(facts), "sched_setaffinity, /proc/irq");
    add("memory pinned", facts.memory.clone(), "set_mempolicy");
    add("processing in the kernel", kernel(tried, facts), page_or("loading a program"));
    let taken = |seen: &Seen| format!("yes ({} of {FRAMES} frames)", seen.frames);
    add("processing in user space", with(&taken), "frames lent in the trial");
    let probe = match tried.lane {
        LaneKind::Device => "by construction: libpcap gives it to the kernel",
        _ => "loading a program",
    };
    add("place of the filter", filter_place(tried, facts), page_or(probe));
    add("several readers", with(&readers), "a second opening in a second trial");
    add("levels of change", change(tried, facts), page_or("/proc/modules"));
    let installed = match tried.system {
        Some(_) => "its own library's word",
        None => "libraries in /proc/self/maps",
    };
    add("interface to programs", interface(tried), installed);
    add("architecture", architecture(tried, seen), page_or("the trial's way"));
    add("operating system", system(), "uname");
    add("network cards", cards(tried, facts), page_or("driver features of the interfaces here"));
    add("time stamps", with(&stamps), "stamps of the trial");
    add("counting", with(&counting), "counters after the trial");
    let price = tried.system.map_or("none", |system| system.price);
    add("price", price.into(), page_or("no licence is asked for"));
    let source = match tried.system {
        Some(system) => system.licence.to_owned(),
        None => format!("open, {}", env!("CARGO_PKG_LICENSE")),
    };
    add("source", source, page_or("licence of this build"));
    found
}

fn yes(yes: bool) -> &'static str {
    if yes { "yes" } else { "no" }
}

fn mapped(seen: &Seen) -> String {
    yes(seen.mapped_bytes > 0).into()
}

fn size(bytes: u64) -> String {
    match bytes {
        0 => "no".into(),
        bytes => format!("yes ({} KiB)", bytes >> 10),
    }
}

fn lanes(tried: &Description, seen: &Seen) -> String {
    let how = match tried.lane {
        LaneKind::FanoutMember => "fanout",
        LaneKind::Queue | LaneKind::OwnQueue => "one a queue",
        LaneKind::Device => "",
    };
    if seen.several_lanes { format!("yes ({how}; {LANES} tried)") } else { "no".into() }
}

fn zero_copy(tried: &Description, seen: Option<&Seen>, facts: &Facts) -> String {
    if !tried.has_zero_copy {
        return "no".into();
    }
    if let Some(system) = tried.system {
        return system.zero_copy.into();
    }
    let can = named(facts, |features| features.zero_copy);
    let here = match seen {
        Some(seen) if seen.way.contains("zero-copy") => " (trial: yes)",
        Some(_) => " (trial: copy)",
        None => "",
    };
    format!("{}{here}", can.unwrap_or_else(|| "no card here has it".into()))
}

/// Interfaces whose drivers say so.
fn named(facts: &Facts, has: impl Fn(netdev::XdpFeatures) -> bool) -> Option<String> {
    let says =
        |device: &&NetDevice| netdev::xdp_features(device.ifindex).ok().flatten().is_some_and(&has);
    let names: Vec<&str> =
        facts.interfaces.iter().filter(says).map(|device| device.name.as_str()).collect();
    let more = names.len().saturating_sub(NAMED_MAX);
    let text = names.iter().take(NAMED_MAX).copied().collect::<Vec<_>>().join(", ");
    match (names.is_empty(), more) {
        (true, _) => None,
        (false, 0) => Some(text),
        (false, more) => Some(format!("{text} and {more} more")),
    }
}

fn batches(seen: &Seen) -> String {
    format!("{} ({} frames)", yes(seen.batch > 1), seen.batch)
}

fn pinned(facts: &Facts) -> String {
    match (facts.cpu_pinned, facts.interrupts_pinned) {
        (true, true) => "yes, both".into(),
        (true, false) => "CPU only".into(),
        (false, _) => "no".into(),
    }
}

fn kernel(tried: &Description, facts: &Facts) -> String {
    if let Some(system) = tried.system {
        return system.kernel.into();
    }
    match (tried.lane, facts.xdp_programs) {
        (LaneKind::FanoutMember, true) => "yes (eBPF filter)".into(),
        (LaneKind::Queue, true) => "yes (XDP program)".into(),
        (LaneKind::Device, _) => "yes (classic BPF filter)".into(),
        (LaneKind::OwnQueue, _) => "no".into(),
        (_, false) => "no: programs are refused".into(),
    }
}

fn filter_place(tried: &Description, facts: &Facts) -> String {
    if tried.system.is_some() {
        return "user space, by the worker".into();
    }
    match (tried.lane, facts.xdp_programs) {
        (LaneKind::FanoutMember, true) => "kernel, at the socket (eBPF)".into(),
        (LaneKind::Queue, true) => "driver, in the XDP program".into(),
        (LaneKind::Device, _) => "kernel, at the socket (classic BPF)".into(),
        (LaneKind::OwnQueue, _) | (_, false) => "user space, by the worker".into(),
    }
}

/// Of an interface; those of a capture that runs are as many as one likes.
fn readers(seen: &Seen) -> String {
    match seen.several_readers {
        true => "yes (2 tried)".into(),
        false => "no; of one capture, by `ringside attach`".into(),
    }
}

fn change(tried: &Description, facts: &Facts) -> String {
    if let Some(system) = tried.system {
        return system.change.into();
    }
    let foreign = ["pf_ring", "netmap", "igb_uio"];
    let loaded = facts.modules.iter().flatten().filter(|name| foreign.contains(&name.as_str()));
    match loaded.count() {
        0 => "none: stock kernel".into(),
        count => format!("none of its own ({count} foreign modules are loaded)"),
    }
}

fn interface(tried: &Description) -> String {
    match (tried.interface, tried.system) {
        (Some(name), Some(system)) => {
            (system.release)().unwrap_or_else(|| format!("{name}, which is not installed"))
        }
        (Some(name), None) => format!("own ({name})"),
        (None, _) => {
            let maps = read_to_string("/proc/self/maps").unwrap_or_default();
            let file = maps.lines().filter_map(|line| line.rsplit('/').next());
            let library = file.filter(|name| name.starts_with("libpcap.so")).max();
            library.map_or("libpcap".into(), ToOwned::to_owned)
        }
    }
}

fn architecture(tried: &Description, seen: Option<&Seen>) -> String {
    // A backend that has one way is in the driver or not there.
    let is_native = |seen: &Seen| seen.way.is_empty() || seen.way.starts_with("native");
    if let Some(system) = tried.system {
        return system.architecture.into();
    }
    match (tried.is_in_driver, seen) {
        (true, Some(seen)) if is_native(seen) => "in-kernel fast path".into(),
        (true, _) => "behind the driver".into(),
        (false, _) => "tap on the kernel's stack".into(),
    }
}

fn system() -> String {
    let name = uname();
    format!("{} {}", name.sysname().to_string_lossy(), name.release().to_string_lossy())
}

fn cards(tried: &Description, facts: &Facts) -> String {
    if let Some(system) = tried.system {
        return system.cards.into();
    }
    if !tried.is_in_driver {
        return "any".into();
    }
    // The sockets of AF_XDP, which alone have zero-copy, also work behind a driver without XDP.
    let any = if tried.has_zero_copy { "any; " } else { "" };
    let wants = |features: netdev::XdpFeatures| {
        features.native && (features.redirect || !tried.has_zero_copy)
    };
    let names = named(facts, wants);
    format!("{any}in the driver: {}", names.as_deref().unwrap_or("none here"))
}

fn stamps(seen: &Seen) -> String {
    let unit = if seen.nanoseconds { "ns" } else { "µs" };
    match seen.stamped_by {
        Some(TimestampKind::Hardware) => format!("{unit}, by the card"),
        Some(TimestampKind::Kernel) => format!("{unit}, by the kernel"),
        Some(TimestampKind::Poll) => format!("{unit}, by user space when it polls"),
        Some(TimestampKind::File) | None => "none".into(),
    }
}

fn counting(seen: &Seen) -> String {
    match seen.received {
        Some(received) if received == seen.frames => "exact".into(),
        Some(received) => format!("{received} received, {} lent", seen.frames),
        None => "taken exactly, losses unknown".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringside_capture::backend::{AF_XDP, BACKENDS};

    #[test]
    fn every_backend_has_every_property_with_its_probe() {
        let facts = Facts::ask(netdev::list().unwrap());
        let seen = Seen {
            way: "native, copy".into(),
            frames: FRAMES,
            received: Some(FRAMES),
            batch: 64,
            stamped_by: Some(TimestampKind::Kernel),
            nanoseconds: true,
            mapped_bytes: 4096,
            several_lanes: true,
            several_readers: true,
        };
        let names = |tried: &Description, seen| {
            let found = of(tried, seen, &facts);
            assert!(found.iter().all(|p| !p.value.is_empty() && !p.probe.is_empty()), "{found:?}");
            found.into_iter().map(|property| property.name).collect::<Vec<_>>()
        };
        let polled = Seen { stamped_by: Some(TimestampKind::Poll), ..seen.clone() };
        assert_eq!(stamps(&polled), "ns, by user space when it polls");
        let all = names(&AF_XDP, Some(&seen));
        for tried in BACKENDS {
            assert_eq!(names(tried, None), all);
        }
        let value = |name: &str| {
            let found = of(&AF_XDP, Some(&seen), &facts);
            found.into_iter().find(|property| property.name == name).unwrap().value
        };
        assert_eq!(value("architecture"), "in-kernel fast path");
        assert_eq!(value("counting"), "exact");
        assert_eq!(value("time stamps"), "ns, by the kernel");
        assert_eq!(value("memory mapping"), "yes (4 KiB)");
    }
}
