//! Knobs: settings of the system that outlive the process that turned them.
//!
//! A knob is planned first (what is there, what is wanted), so that the journal can be written
//! before anything changes. It is put back only if it still is as it was left: somebody else's
//! later setting is respected, and told.

use anyhow::{Context, bail};
use ringside_sys::netdev::{self, StampSettings};
use ringside_sys::netns::Namespace;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};

/// Number of huge pages of the default size that the system keeps.
const HUGE_PAGES: &str = "/proc/sys/vm/nr_hugepages";

/// Where files lie that may be asked for. Whoever asks may be less trusted than who turns.
const FILES_OF_KNOBS: [&str; 3] = ["/sys/class/net", "/sys/devices", "/proc/sys/net"];

/// What is to be turned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "knob", rename_all = "snake_case")]
pub enum Request {
    /// The interface's own stamp on every frame that it receives.
    HardwareStamps {
        /// Interface, in the namespace that comes with the request.
        interface: String,
    },
    /// Free huge pages of the default size, for the capture ring.
    HugePages {
        /// How many.
        pages: u64,
    },
    /// A value in a file of /proc/sys or /sys, as the requesting process sees it.
    File {
        /// The file.
        path: PathBuf,
        /// What is to be written.
        value: String,
    },
}

/// What was turned, as the journal has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "knob", rename_all = "snake_case")]
pub enum Knob {
    /// Hardware stamps of an interface (SIOCSHWTSTAMP).
    HardwareStamps {
        /// Interface.
        interface: String,
        /// Its index, which no later interface of the namespace has.
        ifindex: u32,
        /// Identity of its network namespace.
        namespace: u64,
        /// What was set: flags, transmit, receive.
        before: [u32; 3],
        /// What is set.
        after: [u32; 3],
    },
    /// Huge pages that were added. Several processes may have added theirs, so they are given back
    /// by subtracting.
    HugePages {
        /// The file that has their number.
        path: PathBuf,
        /// How many there were.
        before: u64,
        /// How many were added.
        added: u64,
    },
    /// A value in a file.
    File {
        /// The file.
        path: PathBuf,
        /// What was set.
        before: String,
        /// What is set.
        after: String,
    },
}

/// What became of a knob.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PutBack {
    /// It is as it was before.
    Done,
    /// It was left as it is, because of this.
    Left(String),
}

impl Knob {
    /// What `request` would change; `None` if everything is as wanted. Changes nothing.
    ///
    /// # Errors
    /// What is there cannot be read, or the knob cannot be turned so.
    pub fn plan(request: &Request, namespace: Option<&Namespace>) -> anyhow::Result<Option<Knob>> {
        match request {
            Request::HardwareStamps { interface } => {
                let namespace = namespace.context("the request names no network namespace")?;
                plan_stamps(interface, namespace)
            }
            Request::HugePages { pages } => plan_huge_pages(Path::new(HUGE_PAGES), *pages),
            Request::File { path, value } => {
                let real = path.canonicalize();
                let path = real.with_context(|| format!("looking for {}", path.display()))?;
                if !FILES_OF_KNOBS.iter().any(|place| path.starts_with(place)) {
                    bail!("{} is no setting of an interface", path.display());
                }
                plan_file(path, value)
            }
        }
    }

    /// Turns it. What the system made of the wish is noted in the knob.
    ///
    /// # Errors
    /// The system refused; nothing is changed.
    pub fn turn(&mut self) -> anyhow::Result<()> {
        match self {
            Knob::HardwareStamps { interface, namespace, after, .. } => {
                let (name, wanted) = (interface.clone(), settings(*after));
                let set = inside(*namespace, move || netdev::set_stamp_settings(&name, wanted))?;
                *after = words(set?);
            }
            Knob::HugePages { path, before, added } => {
                write(path, &(*before + *added).to_string())?;
                *added = read_number(path)?.saturating_sub(*before).min(*added);
            }
            Knob::File { path, after, .. } => write(path, after)?,
        }
        Ok(())
    }

    /// Puts back what was before, if nobody has changed it since.
    ///
    /// # Errors
    /// The system refused; then it is as it was left.
    pub fn put_back(&self) -> anyhow::Result<PutBack> {
        match self {
            Knob::HardwareStamps { interface, ifindex, namespace, before, after } => {
                put_back_stamps(interface, *ifindex, *namespace, *before, *after)
            }
            Knob::HugePages { path, added, .. } => {
                let now = read_number(path)?;
                if now < *added {
                    return Ok(PutBack::Left(format!("it is {now} by now")));
                }
                write(path, &(now - added).to_string())?;
                Ok(PutBack::Done)
            }
            Knob::File { path, before, after } => {
                let now = read(path)?;
                if now == *before {
                    return Ok(PutBack::Done);
                }
                if now != *after {
                    return Ok(PutBack::Left(format!("it is {now:?} by now")));
                }
                write(path, before)?;
                Ok(PutBack::Done)
            }
        }
    }

    /// For messages.
    pub fn name(&self) -> String {
        match self {
            Knob::HardwareStamps { interface, .. } => {
                format!("hardware time stamps of {interface}")
            }
            Knob::HugePages { path, added, .. } => format!("{added} pages in {}", path.display()),
            Knob::File { path, .. } => path.display().to_string(),
        }
    }

    /// True if putting it back twice does harm: the journal must forget it before.
    pub fn is_relative(&self) -> bool {
        matches!(self, Knob::HugePages { .. })
    }
}

fn plan_stamps(interface: &str, namespace: &Namespace) -> anyhow::Result<Option<Knob>> {
    let name = interface.to_owned();
    let (device, capability, before) = within(namespace, || {
        let device = netdev::by_name(&name)?;
        let capability = netdev::stamp_capability(&name)?;
        Ok::<_, anyhow::Error>((device, capability, netdev::stamp_settings(&name)))
    })??;
    if !(capability.receive_hardware && capability.every_frame) {
        bail!("interface {interface} cannot stamp every received frame itself");
    }
    let before = before?;
    let Some(device) = device else { bail!("there is no interface {interface}") };
    let after = before.every_frame();
    Ok((before != after).then_some(Knob::HardwareStamps {
        interface: name,
        ifindex: device.ifindex,
        namespace: namespace.identity()?,
        before: words(before),
        after: words(after),
    }))
}

fn put_back_stamps(
    interface: &str,
    ifindex: u32,
    namespace: u64,
    before: [u32; 3],
    after: [u32; 3],
) -> anyhow::Result<PutBack> {
    let Some(namespace) = Namespace::find(namespace) else {
        return Ok(PutBack::Left("its network namespace is gone".into()));
    };
    let name = interface.to_owned();
    within(&namespace, move || {
        let Some(device) = netdev::by_name(&name)?.filter(|device| device.ifindex == ifindex)
        else {
            return Ok(PutBack::Left("the interface is gone".into()));
        };
        let now = words(netdev::stamp_settings(&device.name)?);
        if now != after && now != before {
            return Ok(PutBack::Left(format!("it is {now:?} by now")));
        }
        netdev::set_stamp_settings(&device.name, settings(before))?;
        Ok(PutBack::Done)
    })?
}

fn plan_file(path: PathBuf, value: &str) -> anyhow::Result<Option<Knob>> {
    let (before, after) = (read(&path)?, value.trim().to_owned());
    Ok((before != after).then_some(Knob::File { path, before, after }))
}

fn plan_huge_pages(path: &Path, pages: u64) -> anyhow::Result<Option<Knob>> {
    let free = free_huge_pages(&fs::read_to_string("/proc/meminfo")?);
    let added = pages.saturating_sub(free);
    let before = read_number(path)?;
    Ok((added > 0).then_some(Knob::HugePages { path: path.to_owned(), before, added }))
}

/// Huge pages that nobody has or has been promised, by /proc/meminfo.
fn free_huge_pages(meminfo: &str) -> u64 {
    let field = |name: &str| {
        let value = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
        value.trim().parse::<u64>().ok()
    };
    let count = |name| field(name).unwrap_or(0);
    count("HugePages_Free:").saturating_sub(count("HugePages_Rsvd:"))
}

/// Runs `work` in a network namespace, on a thread of its own: this one stays where it is.
fn within<T: Send>(namespace: &Namespace, work: impl FnOnce() -> T + Send) -> anyhow::Result<T> {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| namespace.enter().map(|()| work()));
        let result = thread.join().map_err(|_| anyhow::anyhow!("a thread of the knobs died"))?;
        Ok(result?)
    })
}

fn inside<T: Send>(namespace: u64, work: impl FnOnce() -> T + Send) -> anyhow::Result<T> {
    within(&Namespace::find(namespace).context("the network namespace is gone")?, work)
}

fn words(settings: StampSettings) -> [u32; 3] {
    [settings.flags, settings.transmit, settings.receive]
}

fn settings([flags, transmit, receive]: [u32; 3]) -> StampSettings {
    StampSettings { flags, transmit, receive }
}

fn read(path: &Path) -> anyhow::Result<String> {
    let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    Ok(text.trim().to_owned())
}

fn read_number(path: &Path) -> anyhow::Result<u64> {
    let text = read(path)?;
    text.parse().with_context(|| format!("{} has {text:?}", path.display()))
}

/// In one call, as such files want it; never makes a file.
fn write(path: &Path, value: &str) -> anyhow::Result<()> {
    let context = || format!("writing {value} to {}", path.display());
    let file =
        fs::OpenOptions::new().write(true).truncate(true).open(path).with_context(context)?;
    std::io::Write::write_all(&mut &file, value.as_bytes()).with_context(context)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(value: &str) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("value");
        fs::write(&path, value).unwrap();
        (folder, path)
    }

    #[test]
    fn a_value_is_put_back_unless_somebody_changed_it() {
        let (_folder, path) = file("10\n");
        let mut knob = plan_file(path.clone(), "20\n").unwrap().unwrap();
        assert_eq!(read(&path).unwrap(), "10", "a plan changes nothing");
        knob.turn().unwrap();
        assert_eq!(read(&path).unwrap(), "20");
        assert_eq!(plan_file(path.clone(), "20").unwrap(), None, "it is as wanted");
        assert_eq!(knob.put_back().unwrap(), PutBack::Done);
        assert_eq!(read(&path).unwrap(), "10");
        assert_eq!(knob.put_back().unwrap(), PutBack::Done, "once more does no harm");
        fs::write(&path, "30").unwrap();
        assert_eq!(knob.put_back().unwrap(), PutBack::Left("it is \"30\" by now".into()));
        assert_eq!(read(&path).unwrap(), "30");
        fs::remove_file(&path).unwrap();
        assert!(knob.put_back().is_err());
        assert!(!path.exists());
    }

    #[test]
    fn pages_are_given_back_by_number_whoever_else_adds_some() {
        let (_folder, path) = file("5");
        let mut first = Knob::HugePages { path: path.clone(), before: 5, added: 64 };
        first.turn().unwrap();
        let mut second = Knob::HugePages { path: path.clone(), before: 69, added: 10 };
        second.turn().unwrap();
        assert_eq!(first.put_back().unwrap(), PutBack::Done);
        assert_eq!(read(&path).unwrap(), "15");
        fs::write(&path, "3").unwrap();
        assert!(matches!(second.put_back().unwrap(), PutBack::Left(_)));
        assert_eq!(read(&path).unwrap(), "3");
    }

    #[test]
    fn only_settings_of_interfaces_can_be_asked_for() {
        let (_folder, path) = file("10");
        let up = PathBuf::from("/sys/class/net/../../../etc/passwd");
        for path in [path, up, PathBuf::from("/etc/shadow"), PathBuf::from("none")] {
            let request = Request::File { path, value: "20".into() };
            assert!(Knob::plan(&request, None).is_err(), "{request:?}");
        }
        let mtu = PathBuf::from("/sys/class/net/lo/mtu");
        let value = read(&mtu).unwrap();
        assert_eq!(Knob::plan(&Request::File { path: mtu, value }, None).unwrap(), None);
    }

    #[test]
    fn promised_pages_are_not_free() {
        let meminfo =
            "HugePages_Total:      64\nHugePages_Free:       60\nHugePages_Rsvd:       20\n";
        assert_eq!(free_huge_pages(meminfo), 40);
        assert_eq!(free_huge_pages("MemTotal: 5 kB\n"), 0);
    }

    #[test]
    fn an_interface_without_a_clock_is_refused() {
        let namespace = Namespace::current().unwrap();
        let request = Request::HardwareStamps { interface: "lo".into() };
        if !ringside_testkit::need_root("an_interface_without_a_clock") {
            return;
        }
        let error = Knob::plan(&request, Some(&namespace)).unwrap_err().to_string();
        assert!(error.contains("lo cannot stamp"), "{error}");
        assert!(Knob::plan(&request, None).is_err());
    }
}
