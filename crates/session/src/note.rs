//! What is to be said while a session starts.

use ringside_capture::backend::{BackendError, Description, OpenWarning};
use std::fmt;

/// Who hears what is to be said.
pub type Notes<'n> = &'n dyn Fn(Note);

/// Something that the program that started a session should know. Its text names no option; a
/// program with options finds in the fields which one helps.
#[derive(Debug)]
pub enum Note {
    /// Where threads go, and why.
    Placement {
        /// The reason, as people read it.
        reason: String,
    },
    /// A filter that is too long to be optimised.
    Unoptimised {
        /// Its length.
        instructions: usize,
    },
    /// libpcap was chosen: nothing else knows how frames of the interface begin.
    Libpcap {
        /// Interface.
        interface: String,
        /// What packet sockets say of it.
        reason: BackendError,
    },
    /// Packet sockets were chosen, because rules leave frames to the host.
    RulesPass {
        /// Interface.
        interface: String,
    },
    /// Frames are taken away from the host, which does not use the interface.
    InDriver {
        /// Interface.
        interface: String,
    },
    /// Packet sockets were chosen.
    NotInDriver {
        /// Interface.
        interface: String,
        /// Why frames are not taken inside the driver.
        reason: NotInDriver,
    },
    /// How frames come from inside the driver.
    Way {
        /// Interface.
        interface: String,
        /// Its backend.
        backend: &'static Description,
        /// As `native, zero-copy`.
        way: String,
    },
    /// What a backend could not have on its way, as a sentence.
    Backend(String),
    /// Only received frames are taken, unless both directions are asked for.
    InboundOnly {
        /// Interface.
        interface: String,
    },
    /// What becomes of frames in the kernel that no rule can match.
    PreFilter {
        /// Interface.
        interface: String,
        /// In words.
        text: String,
    },
    /// The run goes on, with less than what was asked for or may be expected.
    Warning(String),
    /// The same of a backend.
    Opened(OpenWarning),
    /// The ring is not where it was asked for.
    NoHugePages,
    /// What was made ready, and what could not be had for it.
    Prepared(String),
    /// Frames are received from now on.
    Listening {
        /// Where they come from.
        description: String,
    },
}

/// Why frames of an interface are not taken inside its driver, where the choice was ours.
#[derive(Debug)]
pub enum NotInDriver {
    /// Sent frames are asked for, which nothing there sees.
    BothDirections,
    /// The card's own stamps are asked for.
    HardwareTime,
    /// More lanes than the interface has receive queues.
    Queues {
        /// Lanes.
        wanted: u16,
        /// Receive queues.
        there: u32,
    },
    /// The host uses the interface, in this way.
    InUse(String),
    /// The interface or its driver, in words.
    Other(String),
    /// It was tried.
    Failed(anyhow::Error),
}

impl fmt::Display for NotInDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NotInDriver::BothDirections => {
                f.write_str("it sees received frames only, and both directions are asked for")
            }
            NotInDriver::HardwareTime => f.write_str("the card's own stamps are asked for"),
            NotInDriver::Queues { wanted, there } => {
                let plural = if *there == 1 { "" } else { "s" };
                write!(f, "{wanted} lanes are asked for, and it has {there} receive queue{plural}")
            }
            NotInDriver::InUse(how) => write!(f, "the host uses it: {how}"),
            NotInDriver::Other(reason) => f.write_str(reason),
            NotInDriver::Failed(error) => write!(f, "{error:#}"),
        }
    }
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Note::Placement { reason } => write!(f, "placement: {reason}"),
            Note::Unoptimised { instructions } => write!(
                f,
                "the filter is too long for libpcap's optimiser; it runs unoptimised \
                 ({instructions} instructions)"
            ),
            Note::Libpcap { interface, reason } => {
                write!(f, "{interface}: using libpcap ({reason})")
            }
            Note::RulesPass { interface } => {
                write!(f, "{interface}: af-packet, because the rules leave frames to the host")
            }
            Note::InDriver { interface } => write!(
                f,
                "{interface}: af-xdp, because the host does not use the interface and its driver \
                 has XDP"
            ),
            Note::NotInDriver { interface, reason } => {
                write!(f, "{interface}: af-packet, not af-xdp: {reason}")
            }
            Note::Way { interface, backend, way } => {
                write!(f, "{interface}: {}, {way}", backend.name)
            }
            Note::InboundOnly { interface } => write!(f, "{interface}: inbound only"),
            Note::PreFilter { interface, text } => write!(f, "{interface}: pre-filter: {text}"),
            Note::Opened(warning) => warning.fmt(f),
            Note::NoHugePages => {
                f.write_str("the capture ring does not lie in reserved huge pages")
            }
            Note::Backend(text) | Note::Warning(text) | Note::Prepared(text) => f.write_str(text),
            Note::Listening { description } => write!(f, "listening on {description}"),
        }
    }
}
