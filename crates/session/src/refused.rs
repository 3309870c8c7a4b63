//! What a session refuses, because it does not go together or is beyond a limit.

use crate::setting::Setting;
use ringside_capture::backend::Description;
use ringside_core::Shown;
use ringside_core::limits::LANES_MAX;
use ringside_rules::language::RuleId;
use std::path::PathBuf;
use thiserror::Error;

/// A request that is refused, with its facts. What to do instead depends on how requests are made,
/// so that is for the program that asks for a session to say.
#[derive(Debug, Error)]
pub enum Refused {
    /// Too many lanes.
    #[error("{lanes} lanes are asked for, a run has at most {LANES_MAX}")]
    Lanes {
        /// Of all interfaces.
        lanes: usize,
    },
    /// An interface twice.
    #[error("interface {interface} is given twice")]
    GivenTwice {
        /// Its name.
        interface: String,
    },
    /// Interfaces are numbered from 1.
    #[error("interfaces are numbered from 1")]
    NumberZero,
    /// There are fewer.
    #[error("there is no interface number {number}")]
    NoSuchNumber {
        /// What was asked for.
        number: usize,
    },
    /// Several threads on a lane that has one.
    #[error("{threads} threads: a lane of {} has one thread", backend.name)]
    Threads {
        /// Backend.
        backend: &'static Description,
        /// What was asked for.
        threads: u16,
    },
    /// Nothing inside a driver sees what is sent.
    #[error("{} sees received frames only", backend.name)]
    ReceivedOnly {
        /// Backend.
        backend: &'static Description,
    },
    /// The driver would not leave VLAN tags in frames.
    #[error("{} wants tags left in frames", backend.name)]
    Tags {
        /// Backend.
        backend: &'static Description,
        /// Why it would not.
        #[source]
        error: anyhow::Error,
    },
    /// A CPU that this process may not use.
    #[error("CPU {cpu}: this process may run on {allowed:?}")]
    Cpu {
        /// What was asked for.
        cpu: usize,
        /// What there is.
        allowed: Vec<usize>,
    },
    /// An interface does not take a setting.
    #[error("{setting} on {interface}")]
    Setting {
        /// Setting.
        setting: Setting,
        /// Interface.
        interface: String,
        /// Why not.
        #[source]
        error: anyhow::Error,
    },
    /// Rules for drivers, and no interface is received in one.
    #[error("rules in the driver are for interfaces that are received in the driver")]
    NoDriver,
    /// Rules leave frames to the host, which does not get them.
    #[error(
        "{interface}: `pass` leaves a frame to the host, and {} has taken it away before the rules \
         are asked", backend.name
    )]
    PassBehindDriver {
        /// Interface.
        interface: String,
        /// Its backend.
        backend: &'static Description,
    },
    /// A rule is not for the driver, while others leave frames to the host there.
    #[error(
        "{interface}: `pass` leaves a frame to the host, and {rule} is not for the driver, so that \
         frames are taken from the host before it is asked"
    )]
    PassInDriver {
        /// Interface.
        interface: String,
        /// The rule, and why.
        rule: String,
    },
    /// Frames of files cannot be sent on while they are received.
    #[error(
        "rule {id}: `mirror {to}` sends frames on while they are received, and what is read was \
         received before"
    )]
    MirrorOfFile {
        /// Rule.
        id: RuleId,
        /// Where it would send them.
        to: String,
    },
    /// Frames would be cut before they are sent on.
    #[error(
        "rule {id}: `mirror {to}` sends whole frames, and they are cut to {snaplen} bytes before"
    )]
    MirrorOfCut {
        /// Rule.
        id: RuleId,
        /// Where it would send them.
        to: String,
        /// Bytes that are kept of each frame.
        snaplen: u32,
    },
    /// A flow's frames would be counted by several threads.
    #[error(
        "a cut-off of flows counts the bytes of each flow, and {threads} threads share flows among \
         threads"
    )]
    CutoffThreads {
        /// Threads of a lane.
        threads: u16,
    },
    /// A format that has no place for pieces of frames.
    #[error("pcap cannot say which bytes of a frame `keep` has kept")]
    PiecesInPcap,
    /// There are no files that retention would delete.
    #[error("rule {} pins files of a recording, and there is none", rule.0)]
    PinWithoutRecording {
        /// The first such rule.
        rule: RuleId,
    },
    /// A trigger looks at what is kept.
    #[error("a trigger looks at frames as they are kept, and `keep` moves their bytes")]
    PiecesBehindTrigger,
    /// Records and frames in one file.
    #[error("frames and records of rules are both to be written to {}", path.shown())]
    SameOutput {
        /// The file.
        path: PathBuf,
    },
    /// A trigger writes to directories.
    #[error("a trigger writes to a directory")]
    TriggerOutput,
    /// A trigger without a filter.
    #[error("a trigger needs a filter that is not empty")]
    TriggerFilter,
    /// Only files end and begin. `None` is a stream.
    #[error("only files begin anew by size or time; {} is none", stream(.0.as_ref()))]
    NotFiles(Option<PathBuf>),
    /// Only directories are kept within limits. `None` is a stream.
    #[error("limits and the size of writes are for directories; {} is none", stream(.0.as_ref()))]
    NotLimited(Option<PathBuf>),
    /// A file where a directory is to be.
    #[error(
        "{} is a file; name a directory, or a file that ends in .pcapng or .pcap", .0.shown()
    )]
    IsFile(PathBuf),
    /// A name that may be of a file or of a directory.
    #[error("{}: its ending names no format", .0.shown())]
    UnclearName(PathBuf),
    /// Several outputs, of which one is no directory. `None` is a stream.
    #[error(
        "several outputs are directories that hold one recording together; {} is none",
        stream(.0.as_ref())
    )]
    SeveralOutputs(Option<PathBuf>),
    /// A directory's format is fixed.
    #[error("a format is for files and streams; a directory holds pcapng")]
    DirectoryFormat,
}

/// What is written to.
fn stream(path: Option<&PathBuf>) -> String {
    path.map_or_else(|| "a stream".to_owned(), |path| path.shown().to_string())
}
