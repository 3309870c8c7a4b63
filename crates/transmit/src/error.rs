//! Why frames could not be sent.

use crate::sizes::{FRAME_BYTES_MAX, FRAME_BYTES_MIN};
use ringside_ebpf::LIVE_FRAME_BYTES_MAX;
use std::time::Duration;
use thiserror::Error;

/// Errors of this crate.
#[derive(Debug, Error)]
pub enum Error {
    /// Sizes that are none.
    #[error(
        "{what} cannot be sent: sizes are {FRAME_BYTES_MIN} to {FRAME_BYTES_MAX} bytes, written \
         as 512, as 64,512,1514 (at most 1,024), as a range 64-1514, or as imix"
    )]
    Size {
        /// What was asked for.
        what: String,
    },
    /// A live frame too long.
    #[error(
        "frames of {bytes} bytes cannot be sent as live frames, which carry 14 to \
         {LIVE_FRAME_BYTES_MAX} bytes; use the packet sender (--sender packet)"
    )]
    LiveSize {
        /// Longest size asked for.
        bytes: u16,
    },
    /// Frames that do not fit the interface.
    #[error(
        "frames of {bytes} bytes do not fit {interface}, whose MTU of {mtu} allows {allowed}; \
         raise it (`ringside lab up --mtu {needed}`)"
    )]
    Mtu {
        /// Longest frame.
        bytes: usize,
        /// Interface.
        interface: String,
        /// Its MTU.
        mtu: u32,
        /// Longest frame that fits.
        allowed: u64,
        /// MTU that would do.
        needed: usize,
    },
    /// A number outside its limits.
    #[error("{what} is {value}, it must be {limit}")]
    Limit {
        /// Which number.
        what: &'static str,
        /// Its value.
        value: u64,
        /// What is allowed.
        limit: String,
    },
    /// A range that is none.
    #[error("`{text}` is no {field}; write {example}")]
    Range {
        /// Which field.
        field: &'static str,
        /// What was given.
        text: String,
        /// What can be given.
        example: &'static str,
    },
    /// A template of which the frames asked for cannot be made.
    #[error("no such frames can be made of the template: {reason}")]
    Template {
        /// Why.
        reason: String,
    },
    /// No limit was given.
    #[error("a run without a limit is refused: give a count (--count N) or a time (--for 10s)")]
    Unbounded,
    /// Live frames would vanish.
    #[error(
        "frames redirected to {sender} would vanish uncounted: its driver takes none, or the other \
         end, {receiver}, has no NAPI; attach an XDP program to that (`ringside lab up` does) or \
         turn its GRO on (`ethtool -K {receiver} gro on`), or use the packet sender (--sender \
         packet)"
    )]
    NoReceiver {
        /// Sending end.
        sender: String,
        /// Receiving end.
        receiver: String,
    },
    /// Frames of a capture cannot be live frames.
    #[error("live frames are generated; frames of a capture need --sender packet")]
    LiveReplay,
    /// The capture has no frame that can be sent.
    #[error("the capture holds no frame of {FRAME_BYTES_MIN} to {FRAME_BYTES_MAX} bytes to send")]
    NothingToSend,
    /// No such interface.
    #[error("there is no interface {interface} in {namespace}; `ip link` lists them")]
    NoInterface {
        /// Name.
        interface: String,
        /// Where it was looked for.
        namespace: String,
    },
    /// The interface is down.
    #[error("interface {interface} is down and sends nothing: `ip link set {interface} up`")]
    Down {
        /// Name.
        interface: String,
    },
    /// Frames of it are not Ethernet's.
    #[error(
        "interface {interface} has frames of hardware type {hardware_type}; {sink} sends Ethernet \
         frames: use the pcap sink"
    )]
    NotEthernet {
        /// Name.
        interface: String,
        /// ARPHRD_ value.
        hardware_type: u16,
        /// Kind of sink.
        sink: &'static str,
    },
    /// A sink that cannot be had on the interface.
    #[error("{sink} on interface {interface}: {reason}")]
    Sink {
        /// Kind of sink.
        sink: &'static str,
        /// Name.
        interface: String,
        /// What was tried, the reason, and the mend.
        reason: String,
    },
    /// A tool that is not installed, or that failed.
    #[error("cannot run `{command}`: {reason}; `make deps` installs it")]
    Tool {
        /// Command line.
        command: String,
        /// Why.
        reason: String,
    },
    /// The far end did not take what it was handed.
    #[error("{missing} frames handed to {receiver} were not received by it within {waited:?}")]
    NotSettled {
        /// How many.
        missing: u64,
        /// Interface.
        receiver: String,
        /// How long was waited.
        waited: Duration,
    },
    /// A sending thread panicked: a bug.
    #[error("a sending thread ended by a bug of ringside; please report what it printed")]
    ThreadLost,
    /// A packet that cannot be cut.
    #[error("a packet that cannot be cut into frames: {0}")]
    Packet(#[from] ringside_segment::TemplateError),
    /// Segments that cannot be.
    #[error(transparent)]
    Segment(#[from] ringside_segment::SegmentError),
    /// The kernel does not cut what a tunnel carries.
    #[error("the kernel cuts no packets in tunnels that a packet socket sends; use another way")]
    KernelTunnel,
    /// The generator.
    #[error(transparent)]
    Ebpf(#[from] ringside_ebpf::Error),
    /// A sink did not take a frame.
    #[error(transparent)]
    Refused(#[from] ringside_core::SinkError),
    /// The operating system.
    #[error(transparent)]
    Sys(#[from] ringside_sys::SysError),
    /// A file of the system.
    #[error("cannot read {path}: {source}")]
    Read {
        /// Path.
        path: String,
        /// Reason.
        source: std::io::Error,
    },
}

impl Error {
    pub(crate) fn size(what: String) -> Error {
        Error::Size { what }
    }
}
