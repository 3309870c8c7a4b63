//! Knobs: settings of the system that outlive the process that turned them.
//!
//! A knob is planned first (what is there, what is wanted), so that the journal can be written
//! before anything changes. It is put back only if it still is as it was left. A
//! later setting of another program is respected, and reported.

mod setting;

pub use setting::{SettingRequest, in_namespace};

use anyhow::{Context, bail};
use ringside_core::Shown;
use ringside_sys::netns::Namespace;
use serde::{Deserialize, Serialize};
use setting::{Setting, Target};
use std::fs;
use std::path::{Path, PathBuf};

/// Number of huge pages of the default size that the system keeps.
const HUGE_PAGES: &str = "/proc/sys/vm/nr_hugepages";

/// Where files lie that may be asked for. The process that asks may be less trusted than the one
/// that turns.
const FILES_OF_KNOBS: [&str; 5] = [
    "/sys/class/net",
    "/sys/devices",
    "/sys/kernel/mm/transparent_hugepage",
    "/proc/sys/net",
    "/proc/irq",
];

/// What is to be turned.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "knob", rename_all = "snake_case")]
pub enum Request {
    /// Something of an interface.
    Interface {
        /// Interface, in the namespace that comes with the request.
        interface: String,
        /// The setting that is wanted.
        #[serde(flatten)]
        setting: SettingRequest,
    },
    /// Free huge pages of the default size, for the capture ring.
    HugePages {
        /// Number of pages.
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
    /// A setting of an interface.
    Interface {
        /// The interface, as it was when the knob was planned.
        target: Target,
        /// What was set.
        before: Setting,
        /// What is set.
        after: Setting,
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
    /// What `request` would change, in the order in which it is to be turned; nothing if everything
    /// is as wanted. Changes nothing.
    ///
    /// # Errors
    /// What is there cannot be read, or the knob cannot be turned so.
    pub fn plan(request: &Request, namespace: Option<&Namespace>) -> anyhow::Result<Vec<Knob>> {
        let knob = match request {
            Request::Interface { interface, setting } => {
                let namespace = namespace.context("the request names no network namespace")?;
                let target = Target::of(interface, namespace)?;
                let pairs = in_namespace(namespace, || setting.plan(interface))?;
                let knob =
                    |(before, after)| Knob::Interface { target: target.clone(), before, after };
                return Ok(pairs.into_iter().map(knob).collect());
            }
            Request::HugePages { pages } => plan_huge_pages(Path::new(HUGE_PAGES), *pages)?,
            Request::File { path, value } => {
                let real = path.canonicalize();
                let path = real.with_context(|| format!("looking for {}", path.shown()))?;
                if !FILES_OF_KNOBS.iter().any(|place| path.starts_with(place)) {
                    bail!("{} is no setting of receiving", path.shown());
                }
                plan_file(path, value)?
            }
        };
        Ok(knob.into_iter().collect())
    }

    /// Turns it. What the system made of the request is noted in the knob.
    ///
    /// # Errors
    /// The system refused; nothing is changed.
    pub fn turn(&mut self) -> anyhow::Result<()> {
        match self {
            Knob::Interface { target, before, after } => {
                let wanted = after.clone();
                let set = target.inside(|name| {
                    wanted.write(name)?;
                    // What was turned must be put back, also if it cannot be read any more.
                    Ok(wanted.now(name).unwrap_or(wanted))
                })?;
                *after = set.context("the interface is gone")?;
                if after == before {
                    let (what, name) = (after.name(), &target.interface);
                    bail!("the driver of {name} left its {what} as before");
                }
            }
            Knob::HugePages { path, before, added } => {
                // Others may have added or given back some since the plan.
                *before = read_number(path)?;
                let pages = before.checked_add(*added);
                let pages = pages.with_context(|| format!("{added} pages cannot be added"))?;
                write(path, &pages.to_string())?;
                *added = read_number(path)?.saturating_sub(*before).min(*added);
            }
            Knob::File { path, after, .. } => write(path, after)?,
        }
        Ok(())
    }

    /// Puts back what was before, if no other program has changed it since.
    ///
    /// # Errors
    /// The system refused; then it is as it was left.
    pub fn put_back(&self) -> anyhow::Result<PutBack> {
        match self {
            Knob::Interface { target, before, after } => put_back(target, before, after),
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
            Knob::Interface { target, after, .. } => {
                format!("{} of {}", after.name(), target.interface)
            }
            Knob::HugePages { path, added, .. } => format!("{added} pages in {}", path.shown()),
            Knob::File { path, .. } => path.shown().to_string(),
        }
    }

    /// True if putting it back twice does harm: the journal must forget it before.
    pub fn is_relative(&self) -> bool {
        matches!(self, Knob::HugePages { .. })
    }
}

fn put_back(target: &Target, before: &Setting, after: &Setting) -> anyhow::Result<PutBack> {
    let done = target.inside(|name| {
        let now = after.now(name)?;
        if now == *before {
            return Ok(PutBack::Done);
        }
        if now != *after {
            return Ok(PutBack::Left(format!("it is {now:?} by now")));
        }
        before.write(name)?;
        Ok(PutBack::Done)
    })?;
    let gone = || PutBack::Left("the interface is gone, or its network namespace".into());
    Ok(done.unwrap_or_else(gone))
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

/// Huge pages that are neither in use nor reserved, by /proc/meminfo.
fn free_huge_pages(meminfo: &str) -> u64 {
    let field = |name: &str| {
        let value = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
        value.trim().parse::<u64>().ok()
    };
    let count = |name| field(name).unwrap_or(0);
    count("HugePages_Free:").saturating_sub(count("HugePages_Rsvd:"))
}

fn read(path: &Path) -> anyhow::Result<String> {
    let text = fs::read_to_string(path).with_context(|| format!("reading {}", path.shown()))?;
    Ok(chosen(text.trim()).to_owned())
}

/// Of a choice as `always [madvise] never` the one in brackets, which is how it is written.
fn chosen(text: &str) -> &str {
    let inner = text.split_once(']').and_then(|(before, _)| before.rsplit_once('['));
    inner.map_or(text, |(_, chosen)| chosen)
}

fn read_number(path: &Path) -> anyhow::Result<u64> {
    let text = read(path)?;
    text.parse().with_context(|| format!("{} has {text:?}", path.shown()))
}

/// In one call, as such files want it; never makes a file.
fn write(path: &Path, value: &str) -> anyhow::Result<()> {
    let context = || format!("writing {value} to {}", path.shown());
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
    fn pages_are_given_back_by_number_also_if_others_add_some() {
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
        assert_eq!(Knob::plan(&Request::File { path: mtu, value }, None).unwrap(), []);
    }

    #[test]
    fn of_a_choice_the_chosen_counts() {
        assert_eq!(chosen("always [madvise] never"), "madvise");
        assert_eq!(chosen("10"), "10");
        assert_eq!(chosen("[broken"), "[broken");
    }

    #[test]
    fn promised_pages_are_not_free() {
        let meminfo =
            "HugePages_Total:      64\nHugePages_Free:       60\nHugePages_Rsvd:       20\n";
        assert_eq!(free_huge_pages(meminfo), 40);
        assert_eq!(free_huge_pages("MemTotal: 5 kB\n"), 0);
    }

    #[test]
    fn what_meminfo_says_of_pages_is_counted_within_bounds() {
        let text = "HugePages_Total:      64\nHugePages_Free:       60\nHugePages_Rsvd:       20\n";
        let torn = "HugePages_Free: 18446744073709551616\nHugePages_Rsvd: 18446744073709551615";
        let seeds = [text, torn].map(|text| text.as_bytes().to_vec());
        ringside_testkit::fuzz("meminfo-pages", 200_000, &seeds, |bytes| {
            let text = String::from_utf8_lossy(bytes);
            let free = free_huge_pages(&text);
            let promised = format!("HugePages_Rsvd: 1\n{text}");
            assert!(free == 0 || free_huge_pages(&promised) < u64::MAX, "{text}");
            assert!(!chosen(&text).contains(['[', ']']) || chosen(&text) == text);
        });
    }

    #[test]
    fn an_interface_without_a_clock_is_refused() {
        let namespace = Namespace::current().unwrap();
        let request =
            Request::Interface { interface: "lo".into(), setting: SettingRequest::Stamps };
        if !ringside_testkit::need_root("an_interface_without_a_clock") {
            return;
        }
        let error = Knob::plan(&request, Some(&namespace)).unwrap_err().to_string();
        assert!(error.contains("lo cannot stamp"), "{error}");
        assert!(Knob::plan(&request, None).is_err());
    }
}
