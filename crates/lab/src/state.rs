//! State files: what was made, and by which process, so that leftovers are found and nothing else
//! is touched.

use crate::{Error, LabConfig};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Emptied by a reboot, as the networks are.
const DIRECTORY: &str = "/run/ringside-lab";

/// Where iproute2 keeps the names of namespaces.
const NAMESPACES: &str = "/run/netns";

/// State files that are read: each is a network, and no machine holds that many.
const STATES_MAX: usize = 4096;

/// One test network as its maker noted it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct State {
    pub config: LabConfig,
    /// Of the boot in which it was made.
    pub boot_id: String,
    /// The process that removes it when it ends; `None` for a network that stays until `down`.
    pub owner: Option<Owner>,
    /// The sender's and the receiver's, in this order.
    pub namespaces: [NamespaceState; 2],
}

/// A namespace that was made, or was about to be made when its inode is unknown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NamespaceState {
    pub name: String,
    pub inode: Option<u64>,
}

/// A process: its start time distinguishes it from a later one of the same number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Owner {
    pub pid: u32,
    pub start_ticks: u64,
}

impl Owner {
    pub fn this_process() -> Result<Owner, Error> {
        let pid = std::process::id();
        let start_ticks = start_ticks(pid).ok_or_else(|| {
            Error::file("read", format!("/proc/{pid}/stat"), ErrorKind::InvalidData)
        })?;
        Ok(Owner { pid, start_ticks })
    }

    pub fn is_alive(&self) -> bool {
        start_ticks(self.pid) == Some(self.start_ticks)
    }
}

/// When a process started: field 22 of /proc/PID/stat (proc(5)), counted behind the name, which
/// may itself hold spaces and parentheses.
fn start_ticks(pid: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = text.rsplit_once(')')?;
    rest.split_whitespace().nth(19)?.parse().ok()
}

impl State {
    pub fn new(config: &LabConfig, owner: Option<Owner>) -> Result<State, Error> {
        let namespaces = config.namespaces().map(|name| NamespaceState { name, inode: None });
        Ok(State { config: config.clone(), boot_id: boot_id()?, owner, namespaces })
    }

    /// Replaces the state file in one step.
    pub fn save(&self) -> Result<(), Error> {
        let path = path_of(&self.config.name);
        let fresh = path.with_extension("fresh");
        let text = serde_json::to_vec_pretty(self).expect("plain fields become JSON");
        std::fs::write(&fresh, text).map_err(|e| Error::file("write", &fresh, e))?;
        std::fs::rename(&fresh, &path).map_err(|e| Error::file("write", &path, e))
    }

    /// The state of the network `name`, if there is one.
    pub fn load(name: &str) -> Result<Option<State>, Error> {
        let path = path_of(name);
        match std::fs::read(&path) {
            Ok(text) => serde_json::from_slice(&text)
                .map(Some)
                .map_err(|e| Error::Damaged { path, reason: e.to_string() }),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            Err(e) => Err(Error::file("read", path, e)),
        }
    }

    /// Names of all networks that have a state file.
    pub fn names() -> Result<Vec<String>, Error> {
        let entries = match std::fs::read_dir(DIRECTORY) {
            Ok(entries) => entries,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
            Err(e) => return Err(Error::file("list", DIRECTORY, e)),
        };
        let name = |entry: std::io::Result<std::fs::DirEntry>| {
            let name = entry.ok()?.file_name().into_string().ok()?;
            name.strip_suffix(".json").map(str::to_string)
        };
        let mut names: Vec<String> = entries.take(STATES_MAX).filter_map(name).collect();
        names.sort();
        Ok(names)
    }

    pub fn forget(name: &str) -> Result<(), Error> {
        let path = path_of(name);
        match std::fs::remove_file(&path) {
            Err(e) if e.kind() != ErrorKind::NotFound => Err(Error::file("remove", path, e)),
            _ => Ok(()),
        }
    }

    /// True if the process that should have removed it is gone, or the machine was started again.
    pub fn is_leftover(&self) -> Result<bool, Error> {
        let dead = self.owner.as_ref().is_some_and(|owner| !owner.is_alive());
        Ok(dead || self.boot_id != boot_id()?)
    }
}

impl NamespaceState {
    /// The inode of the namespace that bears the name now.
    pub fn present(&self) -> Result<Option<u64>, Error> {
        let path = Path::new(NAMESPACES).join(&self.name);
        match std::fs::metadata(&path) {
            Ok(metadata) => Ok(Some(metadata.ino())),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            Err(e) => Err(Error::file("read", path, e)),
        }
    }

    /// Whose namespace bears the name now.
    pub fn holder(&self) -> Result<Holder, Error> {
        Ok(match (self.present()?, self.inode) {
            (None, _) => Holder::None,
            // Its maker was killed between making and noting it: the name had been free then.
            (Some(_), None) => Holder::Us,
            (Some(present), Some(noted)) if present == noted => Holder::Us,
            (Some(_), Some(_)) => Holder::Other,
        })
    }
}

/// Whose a namespace is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    None,
    Us,
    Other,
}

/// Holds off other processes that make or remove networks, until dropped.
pub(crate) struct Lock {
    _file: File,
}

impl Lock {
    pub fn take() -> Result<Lock, Error> {
        let refused = |path: &Path, e: std::io::Error| match e.kind() {
            ErrorKind::PermissionDenied => Error::NotRoot,
            _ => Error::file("write", path, e),
        };
        let directory = Path::new(DIRECTORY);
        std::fs::create_dir_all(directory).map_err(|e| refused(directory, e))?;
        let path = directory.join("lock");
        let mut options = File::options();
        options.create(true).truncate(false).write(true);
        let file = options.open(&path).map_err(|e| refused(&path, e))?;
        flock(&file, FlockOperation::LockExclusive).map_err(|e| Error::file("lock", &path, e))?;
        Ok(Lock { _file: file })
    }
}

fn path_of(name: &str) -> PathBuf {
    Path::new(DIRECTORY).join(format!("{name}.json"))
}

fn boot_id() -> Result<String, Error> {
    let path = "/proc/sys/kernel/random/boot_id";
    let text = std::fs::read_to_string(path).map_err(|e| Error::file("read", path, e))?;
    Ok(text.trim().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_differs_from_another_of_its_number() {
        let this = Owner::this_process().unwrap();
        assert!(this.is_alive());
        assert!(!Owner { start_ticks: this.start_ticks + 1, ..this.clone() }.is_alive());
        assert!(!Owner { pid: u32::MAX, ..this }.is_alive());
    }

    #[test]
    fn what_another_boot_or_a_dead_process_left_is_a_leftover() {
        let config = LabConfig::default();
        let kept = State::new(&config, None).unwrap();
        assert!(!kept.is_leftover().unwrap());
        assert!(State { boot_id: "other".into(), ..kept.clone() }.is_leftover().unwrap());
        let owned = |pid| Some(Owner { pid, start_ticks: 0 });
        assert!(State { owner: owned(u32::MAX), ..kept.clone() }.is_leftover().unwrap());
        let this = Some(Owner::this_process().unwrap());
        assert!(!State { owner: this, ..kept }.is_leftover().unwrap());
    }
}
