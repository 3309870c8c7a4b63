//! What stays on an interface without a process: names in the BPF file system.
//!
//! ```text
//! /sys/fs/bpf/ringside/drop-NAMESPACE-IFINDEX/    of rules; route-… of a router, balance-… of a
//!                                                 balancer, decap-… of the end of its tunnels
//!     interface -> eth1     its name, for people
//!     root -> 117           the kernel's number of the root's program
//!     link  leaves          what keeps the root on the interface, and programs in their places
//!     set-VERSION-ID/       a program with the number ID, and its maps
//! ```
//!
//! **What is in force** is said by the array of leaves alone: the set whose program stands there.
//! So a process may be killed between any two names. Sets that are not in force, and names of
//! interfaces that are gone, are removed by the next process that opens a root on the interface or
//! ends what is pinned. Names come and go in an interface's turn (`root.rs`); looking needs none.
//! Rules and one of the others may be pinned on one interface, each with a directory of its own.

use crate::Error;
use crate::abi::ROOT_POSITIONS;
use crate::abi::{balance, fast, route, rules};
use crate::claims::{Claims, take_turn};
use libbpf_rs::query::{ProgInfoIter, ProgInfoQueryOptions};
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use ringside_sys::bpf::{self, FdArray};
use ringside_sys::netns::Namespace;
use std::fmt::Display;
use std::fs::DirBuilder;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::SystemTime;

/// Where the file system is mounted on every distribution.
const MOUNT: &str = "/sys/fs/bpf";
/// Our part of it.
const DIRECTORY: &str = "ringside";
/// How names of sets begin.
const SET: &str = "set-";
/// The program's name in a set.
pub(crate) const PROGRAM: &str = "program";
/// Entries of a directory that are looked at: interfaces of one machine, and sets of one interface.
const ENTRIES_MAX: usize = 10_000;

/// What can be pinned on an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Rules that judge frames.
    Rules,
    /// A router's program.
    Router,
    /// A balancer's program.
    Balancer,
    /// The program at the end of a balancer's tunnels.
    Decap,
}

impl Kind {
    const ALL: [Kind; 4] = [Kind::Rules, Kind::Router, Kind::Balancer, Kind::Decap];

    /// How the names of its directories begin.
    fn prefix(self) -> &'static str {
        match self {
            Kind::Rules => "drop-",
            Kind::Router => "route-",
            Kind::Balancer => "balance-",
            Kind::Decap => "decap-",
        }
    }

    /// A living process has what is pinned.
    pub(crate) fn held(self, interface: String) -> Error {
        let (what, command) = match self {
            Kind::Rules => return Error::PinsHeld { interface },
            Kind::Router => ("router", "route"),
            Kind::Balancer => ("balancer", "balance"),
            Kind::Decap => ("end of tunnels", "decap"),
        };
        Error::RunHeld { interface, what, command }
    }

    /// What a program of this name is, if its constants say that it is to stay.
    fn of_program(name: &str, constants: &[u8]) -> Option<Kind> {
        match name {
            "xdp_rules" if rules::Config::stays_in(constants) => Some(Kind::Rules),
            "xdp_fast" | "xdp_fast_port" | "xdp_fast_host" if fast::Config::stays_in(constants) => {
                Some(Kind::Rules)
            }
            "xdp_route" if route::Config::stays_in(constants) => Some(Kind::Router),
            "xdp_balance" if balance::Config::stays_in(constants) => Some(Kind::Balancer),
            "xdp_decap" if balance::decap_stays_in(constants) => Some(Kind::Decap),
            _ => None,
        }
    }
}

/// What is pinned of one interface, or is to be.
#[derive(Clone, Debug)]
pub struct Pins {
    kind: Kind,
    directory: PathBuf,
    namespace: u64,
    ifindex: u32,
}

/// What is pinned of an interface, opened.
#[derive(Debug)]
pub struct Opened<P> {
    /// Where it is.
    pub pins: Pins,
    /// The interface's name when it was pinned.
    pub interface: String,
    /// What it is.
    pub program: P,
}

/// A set that is in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InForce {
    pub kind: Kind,
    pub directory: PathBuf,
    /// Of its form, which goes with the version of this program.
    pub version: u32,
    /// Its place among the leaves.
    pub position: u32,
    /// The kernel's number of its program.
    pub program: u32,
}

impl Pins {
    /// Those of a kind of all interfaces, whether or not something of them is in force. None where
    /// there is no BPF file system, or this user may not look.
    pub fn all(kind: Kind) -> Vec<Pins> {
        let mut all: Vec<Pins> = directory()
            .into_iter()
            .flat_map(|directory| entries(&directory))
            .filter_map(|(name, directory)| {
                let (namespace, ifindex) = numbers(kind.prefix(), &name)?;
                Some(Pins { kind, directory, namespace, ifindex })
            })
            .collect();
        all.sort_unstable_by_key(|pins| (pins.namespace, pins.ifindex));
        all
    }

    /// What `open` finds of a kind on interfaces that are there; and what could not be read.
    pub fn open_all<P, E>(
        kind: Kind,
        open: impl Fn(&Pins) -> Result<Option<P>, E>,
    ) -> (Vec<Opened<P>>, Vec<E>) {
        let (mut all, mut errors) = (Vec::new(), Vec::new());
        for pins in Pins::all(kind).into_iter().filter(|pins| !pins.is_stale()) {
            match open(&pins) {
                Ok(found) => all.extend(found.map(|program| {
                    let interface = pins.interface().unwrap_or_default();
                    Opened { pins, interface, program }
                })),
                Err(error) => errors.push(error),
            }
        }
        (all, errors)
    }

    /// Those of a kind of interfaces of this name in which `open` finds nothing: a killed process
    /// or another version of this program has left them.
    pub fn remains<P, E>(
        kind: Kind,
        interface: &str,
        open: impl Fn(&Pins) -> Result<Option<P>, E>,
    ) -> Vec<Pins> {
        let all = Pins::all(kind).into_iter().filter(|pins| !pins.is_stale());
        let named = all.filter(|pins| pins.interface().is_none_or(|name| name == interface));
        named.filter(|pins| !matches!(open(pins), Ok(Some(_)))).collect()
    }

    /// Those of a kind of an interface of the calling thread's network namespace, if there are any.
    ///
    /// # Errors
    /// The system does not say which namespace that is.
    pub fn on(kind: Kind, ifindex: u32) -> Result<Option<Pins>, Error> {
        let Some(directory) = directory() else { return Ok(None) };
        let own = Pins::of(&directory, kind, ifindex)?;
        Ok(own.directory.is_dir().then_some(own))
    }

    fn of(directory: &Path, kind: Kind, ifindex: u32) -> Result<Pins, Error> {
        let namespace = Namespace::current().and_then(|namespace| namespace.identity());
        let namespace = namespace.map_err(Error::Namespace)?;
        let directory = directory.join(format!("{}{namespace}-{ifindex}", kind.prefix()));
        Ok(Pins { kind, directory, namespace, ifindex })
    }

    /// Where they are.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// What [`Namespace::identity`] says of the interface's network namespace.
    pub fn namespace(&self) -> u64 {
        self.namespace
    }

    /// Number of the interface in that namespace.
    pub fn ifindex(&self) -> u32 {
        self.ifindex
    }

    /// The interface's name when they were made.
    pub fn interface(&self) -> Option<String> {
        let name = std::fs::read_link(self.directory.join("interface")).ok()?;
        Some(name.to_string_lossy().into_owned())
    }

    /// When the first of them was made.
    pub fn since(&self) -> Option<SystemTime> {
        std::fs::symlink_metadata(self.directory.join("interface")).ok()?.modified().ok()
    }

    /// True if the interface is gone, and all that is pinned with it.
    pub fn is_stale(&self) -> bool {
        if let Some(link) = self.link() {
            return !bpf::link_info(link.as_fd()).is_ok_and(|info| info.ifindex != 0);
        }
        // A standing root has no link. Its program goes with its interface.
        let root = std::fs::read_link(self.directory.join("root")).ok();
        let root = root.and_then(|number| number.to_str()?.parse().ok());
        root.is_some_and(|number| bpf::program_name(number).is_err())
    }

    /// Frames are judged.
    pub fn is_in_force(&self) -> bool {
        self.in_force().is_some()
    }

    /// True if a living process holds what is in force. To be asked in the interface's network
    /// namespace.
    pub fn is_held(&self) -> bool {
        self.in_force().is_some_and(|set| Claims::list(self.ifindex).is_claimed(set.position))
    }

    /// Ends what is in force, and removes all names: when this returns every frame goes its way and
    /// the counters stand still. To be called in the interface's network namespace, or, if that is
    /// gone, anywhere.
    ///
    /// # Errors
    /// A process holds it, or the system refused.
    pub fn end(&self) -> Result<(), Error> {
        let interface = self.interface().unwrap_or_else(|| self.ifindex.to_string());
        let _turn = take_turn(&interface, self.ifindex)?;
        if self.is_held() {
            return Err(self.kind.held(interface));
        }
        if let (Some(leaves), Some(set)) = (self.leaves(), self.in_force()) {
            leaves.clear(set.position)?;
            bpf::wait_until_left();
        }
        if let Some(link) = self.link().filter(|_| !self.is_stale()) {
            // No other process: detached at once, not some time after the last descriptor is
            // closed.
            let claims = Claims::list(self.ifindex);
            let is_alone = !self.others().any(|other| other.is_in_force());
            if is_alone && (0..ROOT_POSITIONS).all(|position| !claims.is_claimed(position)) {
                bpf::detach_link(link.as_fd())?;
            }
        }
        self.remove()
    }

    pub(crate) fn in_force(&self) -> Option<InForce> {
        let leaves = self.leaves()?;
        let sets: Vec<(u32, u32, PathBuf)> = self.sets().collect();
        (0..ROOT_POSITIONS).find_map(|position| {
            let there = leaves.program_at(position).ok()??;
            let (version, program, directory) =
                sets.iter().find(|(_, program, _)| *program == there)?.clone();
            Some(InForce { kind: self.kind, directory, version, position, program })
        })
    }

    /// Those of other kinds of the same interface.
    fn others(&self) -> impl Iterator<Item = Pins> {
        let kinds = Kind::ALL.into_iter().filter(|kind| *kind != self.kind);
        kinds.map(|kind| {
            let name = format!("{}{}-{}", kind.prefix(), self.namespace, self.ifindex);
            Pins { kind, directory: self.directory.with_file_name(name), ..self.clone() }
        })
    }

    /// Version, program and directory of each set.
    fn sets(&self) -> impl Iterator<Item = (u32, u32, PathBuf)> {
        entries(&self.directory).filter_map(|(name, directory)| {
            let (version, program) = numbers(SET, &name)?;
            Some((version, program, directory))
        })
    }

    fn leaves(&self) -> Option<FdArray> {
        FdArray::from_fd(bpf::pinned(&self.directory.join("leaves")).ok()?).ok()
    }

    fn link(&self) -> Option<OwnedFd> {
        bpf::pinned(&self.directory.join("link")).ok()
    }

    /// Removes all names. Another process may do that at the same time, where the interface is gone
    /// or a process was killed: each name is gone in the end, by one or the other.
    fn remove(&self) -> Result<(), Error> {
        while let Err(source) = std::fs::remove_dir_all(&self.directory) {
            if source.kind() != io::ErrorKind::NotFound {
                return Err(Error::Pin { path: self.directory.clone(), source });
            }
            if std::fs::symlink_metadata(&self.directory).is_err() {
                break;
            }
        }
        Ok(())
    }
}

/// A root on an interface, as far as it is pinned.
pub(crate) struct RootParts<'r> {
    /// The interface's name.
    pub interface: &'r str,
    /// The kernel's number of the root's program.
    pub program: u32,
    /// None of a standing root.
    pub link: Option<BorrowedFd<'r>>,
    pub leaves: BorrowedFd<'r>,
}

/// The names of one interface, in its turn.
impl Pins {
    /// Those to be made of an interface of the calling thread's network namespace.
    pub(crate) fn prepare(kind: Kind, ifindex: u32) -> Result<Pins, Error> {
        let directory = directory().ok_or(Error::NoBpfFs { path: MOUNT })?;
        Pins::of(&directory, kind, ifindex)
    }

    /// Lets a root stay; names that are there are those of this root, since others were removed
    /// when it was opened.
    pub(crate) fn keep_root(&self, root: &RootParts<'_>) -> Result<(), Error> {
        self.directory.parent().map_or(Ok(()), make_directory)?;
        make_directory(&self.directory)?;
        let named = |name: &str| self.directory.join(name);
        let pin = |name: &str, object| unless_there(named(name), |path| bpf::pin(object, path));
        unless_there(named("interface"), |path| symlink(root.interface, path))?;
        unless_there(named("root"), |path| symlink(root.program.to_string(), path))?;
        if let Some(link) = root.link {
            pin("link", link)?;
        }
        pin("leaves", root.leaves)
    }

    /// Lets a program and its maps stay, as a set of this version.
    pub(crate) fn keep_set<'o>(
        &self,
        (version, program): (u32, u32),
        objects: impl Iterator<Item = (&'static str, BorrowedFd<'o>)>,
    ) -> Result<(), Error> {
        let directory = self.directory.join(format!("{SET}{version}-{program}"));
        make_directory(&directory)?;
        for (name, object) in objects {
            unless_there(directory.join(name), |path| bpf::pin(object, path))?;
        }
        Ok(())
    }

    /// Removes all sets but the one with this program.
    pub(crate) fn keep_no_others(&self, program: u32) -> Result<(), Error> {
        for (_, _, directory) in self.sets().filter(|(_, other, _)| *other != program) {
            let removed = std::fs::remove_dir_all(&directory);
            removed.map_err(|source| Error::Pin { path: directory, source })?;
        }
        Ok(())
    }
}

/// Removes what is not needed any more, and says what is in force on an interface of the calling
/// thread's network namespace whose root has this array of leaves, if it has one.
pub(crate) fn settle(ifindex: u32, leaves: Option<&FdArray>) -> Result<Vec<InForce>, Error> {
    let Some(directory) = directory() else { return Ok(leaves.map(unseen).unwrap_or_default()) };
    let own = Pins::of(&directory, Kind::Rules, ifindex)?;
    let number = leaves.map(FdArray::id).transpose()?;
    let mut in_force = Vec::new();
    for pins in Kind::ALL.into_iter().flat_map(Pins::all) {
        // By its array, whatever the interface was called, and wherever it was.
        let is_this = number.is_some() && pins.leaves().and_then(|array| array.id().ok()) == number;
        let set = pins.in_force().filter(|_| is_this);
        let is_needless = match &set {
            Some(_) => false,
            // A process that has a place may be about to put something there.
            None if is_this => {
                let claims = Claims::list(ifindex);
                (0..ROOT_POSITIONS).all(|at| !claims.is_claimed(at))
            }
            None => {
                let is_own = (pins.namespace, pins.ifindex) == (own.namespace, own.ifindex);
                is_own || pins.is_stale()
            }
        };
        if is_needless {
            // A process that may not remove them may not make others either.
            let _ = pins.remove();
        }
        in_force.extend(set);
    }
    Ok(in_force)
}

/// What is in force among these leaves by pins that cannot be seen from here, as in a container.
fn unseen(leaves: &FdArray) -> Vec<InForce> {
    let in_force = (0..ROOT_POSITIONS).filter_map(|position| {
        let program = leaves.program_at(position).ok()??;
        let kind = kind_that_stays(program)?;
        Some(InForce { kind, directory: PathBuf::new(), version: 0, position, program })
    });
    in_force.collect()
}

/// What the program with this number is, if it is to stay: it says so itself, also to a process
/// that does not see where it is pinned.
fn kind_that_stays(program: u32) -> Option<Kind> {
    let name = bpf::program_name(program).ok()?;
    Kind::of_program(&name, &constants(program)?)
}

/// The constants that the program with this number was loaded with.
pub(crate) fn constants(program: u32) -> Option<Vec<u8>> {
    let options = ProgInfoQueryOptions::default().include_map_ids(true);
    let found = ProgInfoIter::with_query_opts(options).find(|info| info.id == program)?;
    let mut maps = found.map_ids.iter().filter_map(|id| MapHandle::from_map_id(*id).ok());
    let constants = maps.find(|map| map.name().to_string_lossy().ends_with(".rodata"))?;
    constants.lookup(&[0; 4], MapFlags::ANY).ok().flatten()
}

/// Our part of the BPF file system, whether or not it is there; none if none is seen. `ip netns
/// exec` mounts another /sys over it: then there is the view of the process that called us.
fn directory() -> Option<PathBuf> {
    let callers = format!("/proc/{}/root{MOUNT}", std::os::unix::process::parent_id());
    let mount = [MOUNT, &callers].map(PathBuf::from).into_iter().find(|path| bpf::is_bpf_fs(path));
    mount.map(|mount| mount.join(DIRECTORY))
}

/// True if a BPF file system is seen from here, so that nothing that is pinned is overlooked.
pub fn are_seen() -> bool {
    directory().is_some()
}

/// Removes what is pinned of interfaces that are gone; of what was of this kind, the namespaces and
/// the interfaces' names.
pub fn remove_stale(kind: Kind) -> Vec<(u64, Option<String>)> {
    let all = Kind::ALL.into_iter().flat_map(Pins::all);
    let stale: Vec<Pins> = all.filter(Pins::is_stale).collect();
    let of_kind = stale.iter().filter(|pins| pins.kind == kind);
    let removed = of_kind.map(|pins| (pins.namespace(), pins.interface())).collect();
    for pins in &stale {
        // As in `settle`.
        let _ = pins.remove();
    }
    removed
}

/// The two numbers of a name that was made of them; none if it is written in another way.
fn numbers<N: FromStr + Display>(prefix: &str, name: &str) -> Option<(N, u32)> {
    let (first, second) = name.strip_prefix(prefix)?.split_once('-')?;
    let (first, second) = (first.parse().ok()?, second.parse().ok()?);
    (format!("{prefix}{first}-{second}") == name).then_some((first, second))
}

/// Names of a directory, and their paths; none if it cannot be read.
fn entries(directory: &Path) -> impl Iterator<Item = (String, PathBuf)> + use<> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten().take(ENTRIES_MAX);
    entries.filter_map(|entry| Some((entry.file_name().into_string().ok()?, entry.path())))
}

fn make_directory(path: &Path) -> Result<(), Error> {
    unless_there(path.to_owned(), |path| DirBuilder::new().mode(0o700).create(path))
}

fn unless_there(path: PathBuf, make: impl FnOnce(&Path) -> io::Result<()>) -> Result<(), Error> {
    match make(&path) {
        Err(source) if source.kind() != io::ErrorKind::AlreadyExists => {
            Err(Error::Pin { path, source })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_were_made() {
        let prefixes = Kind::ALL.map(Kind::prefix);
        let seeds = ["route-4026531840-7", "drop-18446744073709551616-1", "drop-1-4294967296"];
        let others = ["set-1-117", "drop--1-2", "drop-+1-2", "drop-1-2-3", "drop-01-2", "link"];
        let seeds: Vec<Vec<u8>> = seeds.iter().chain(&others).map(|name| (*name).into()).collect();
        ringside_testkit::fuzz("pin-names", 500_000, &seeds, |bytes| {
            let name = String::from_utf8_lossy(bytes);
            for prefix in prefixes {
                if let Some((namespace, ifindex)) = numbers::<u64>(prefix, &name) {
                    assert_eq!(name, format!("{prefix}{namespace}-{ifindex}"));
                }
            }
            if let Some((version, program)) = numbers::<u32>(SET, &name) {
                assert_eq!(name, format!("{SET}{version}-{program}"));
            }
        });
    }
}
