//! Parts of what a worker leaves, as it names them to its keeper.

use ringside_capture::backend::{KernelSide, restore};
use serde::{Deserialize, Serialize};
use std::os::fd::OwnedFd;
use std::time::Duration;

/// A part of what is left, with its descriptors.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// The next lane; with what the kernel holds of it.
    Lane {
        /// Name of the interface.
        interface: String,
        /// Its id in the run.
        interface_id: u32,
        /// Queue or fanout member.
        queue: u16,
        /// How the kernel can be asked about it, if it can be.
        kernel: Option<Asked>,
    },
    /// The memory in which workers publish; and that which the consumer reads, if it is another.
    Memory,
    /// Where frames go.
    Output(Destination),
    /// A directory of the recording, with the lock of the run in it.
    Folder,
    /// Something of the subcommand's own: it finishes with that itself
    /// ([`KeeperOptions::finish`](crate::KeeperOptions::finish)), from these facts.
    Kept(String),
}

/// What the descriptors of a lane are: the backend and its facts, as
/// [`restore`](ringside_capture::backend::restore) takes them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asked {
    /// The backend's name.
    pub backend: String,
    /// What its descriptors do not say themselves.
    pub facts: String,
}

impl Asked {
    pub fn of(side: &dyn KernelSide) -> Asked {
        Asked { backend: side.backend().to_owned(), facts: side.facts() }
    }

    /// With its descriptors; `None` if they are missing.
    pub fn with(&self, fds: Vec<OwnedFd>) -> Option<Box<dyn KernelSide>> {
        restore(&self.backend, &self.facts, fds)
    }
}

/// Where frames go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Destination {
    /// They are counted only.
    Count,
    /// To directories, each of which follows.
    Recording {
        /// Identifies the run in all its files.
        run: String,
        /// Largest size of a file.
        bytes_max: Option<u64>,
        /// What a directory may hold.
        limit_bytes: Option<u64>,
        /// After which time a file goes.
        limit_age: Option<Duration>,
        /// What stays free.
        min_free: Option<u64>,
    },
    /// To a file, or several by rotation.
    File {
        /// The bytes of its path.
        path: Vec<u8>,
        /// pcap, else pcapng.
        is_pcap: bool,
        /// The files bear numbers.
        rotates: bool,
    },
    /// To a stream.
    Stream,
    /// They are printed only.
    Print,
}
