//! Why frames could not be sent.

use crate::RateError;
use crate::replay::Unsendable;
use crate::sink::SinkKind;
use crate::sizes::{FRAME_BYTES_MAX, FRAME_BYTES_MIN};
use ringside_core::{LinkType, Shown, SinkError, UnknownInterface};
use ringside_ebpf::LIVE_FRAME_BYTES_MAX;
use std::path::PathBuf;
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
         {LIVE_FRAME_BYTES_MAX} bytes; send them through a packet socket"
    )]
    LiveSize {
        /// Longest size asked for.
        bytes: u16,
    },
    /// Frames that do not fit the interface.
    #[error(
        "frames of {bytes} bytes do not fit {interface}, whose MTU of {mtu} allows {allowed}; \
         raise that to {needed} (`ip link set`)"
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
        /// What would help.
        fix: TemplateFix,
    },
    /// No limit was given.
    #[error("a run without a limit is refused: give a count or a time")]
    Unbounded,
    /// Live frames would vanish.
    #[error(
        "frames redirected to {sender} would vanish uncounted: its driver takes none, or the other \
         end, {receiver}, has no NAPI; attach an XDP program to that (`ringside lab up` does) or \
         turn its GRO on (`ethtool -K {receiver} gro on`), or send through a packet socket"
    )]
    NoReceiver {
        /// Sending end.
        sender: String,
        /// Receiving end.
        receiver: String,
    },
    /// Frames of a capture cannot be live frames.
    #[error("only the packet sender sends frames of a capture")]
    LiveReplay,
    /// The capture has no frame that can be sent.
    #[error("the capture holds no frame of {FRAME_BYTES_MIN} to {FRAME_BYTES_MAX} bytes to send")]
    NothingToSend,
    /// More than memory has room for.
    #[error("{path} holds more than 1,073,741,824 bytes to send; cut it first")]
    CaptureTooLarge {
        /// The capture.
        path: String,
    },
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
        /// What was tried, the reason, and the fix.
        reason: String,
    },
    /// An interface without its other end.
    #[error("{interface} has no link: plug it in, or set the other end up")]
    NoCarrier {
        /// Name.
        interface: String,
    },
    /// Frames of captures that cannot be sent.
    #[error("{}", unsendable_text(files, interface))]
    Unsendable {
        /// Inputs, and what they hold.
        files: Vec<(String, Unsendable)>,
        /// Where they were to be sent.
        interface: String,
    },
    /// A stream cannot be read twice.
    #[error("standard input cannot be read {loops} times; save it to a file")]
    LoopedStream {
        /// Rounds asked for.
        loops: u64,
    },
    /// A filter failed.
    #[error("{reason}")]
    Filter {
        /// Why.
        reason: String,
    },
    /// An interface refused a frame, and will refuse the next.
    #[error("the interface takes no more frames: {source}")]
    Sending {
        /// Why.
        source: SinkError,
    },
    /// Captures.
    #[error(transparent)]
    Store(#[from] ringside_store::StoreError),
    /// A frame that cannot be read.
    #[error(transparent)]
    Interface(#[from] UnknownInterface),
    /// The reading of captures.
    #[error(transparent)]
    Source(#[from] ringside_core::SourceError),
    /// A rate.
    #[error(transparent)]
    Rate(#[from] RateError),
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
    /// An error in the middle.
    #[error("sending ended early: {reason}; {handed} of {offered} frames had been taken")]
    EndedEarly {
        /// The error.
        reason: String,
        /// Frames offered.
        offered: u64,
        /// Of those, frames that the driver took.
        handed: u64,
    },
    /// The counters of the driver are gone.
    #[error(
        "{offered} frames were offered to {interface}, and how many it took cannot be known, \
         because only its counters tell: {reason}"
    )]
    Unaccounted {
        /// Frames offered.
        offered: u64,
        /// Interface.
        interface: String,
        /// Why they cannot be read.
        reason: String,
    },
    /// The interface went away meanwhile.
    #[error("interface {interface} was removed while frames were sent")]
    Removed {
        /// Name.
        interface: String,
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
    /// A directory has no bytes to send.
    #[error("{path} is a directory; a stream carries one file, or a size")]
    PayloadDirectory {
        /// Path.
        path: String,
    },
    /// Neither a file nor a size.
    #[error("there is no file {text}, and it is no size, as 10GB or 64MiB, from 1 byte on")]
    NoPayload {
        /// What was given.
        text: String,
    },
    /// A checksum over a whole datagram cannot be left to the interface.
    #[error("a stream goes out as segments or datagrams, not as IP fragments (Cut::Segments)")]
    StreamOfFragments,
    /// Segments that no live frame carries.
    #[error(
        "segments of {bytes} bytes cannot be sent as live frames, which carry at most \
         {LIVE_FRAME_BYTES_MAX}; use another way, or a smaller MSS"
    )]
    LiveSegments {
        /// Longest frame.
        bytes: usize,
    },
    /// Segments that no host would get.
    #[error(
        "segments as live frames would vanish: the driver of {interface} takes no redirected \
         frames, or its far end has no NAPI (turn on its GRO, or attach an XDP program there); use \
         another way"
    )]
    LiveVanishes {
        /// Where they were to go.
        interface: String,
    },
    /// It is unknown whether live frames would arrive.
    #[error(
        "this kernel does not say whether the driver of {interface} takes redirected frames (from \
         Linux 6.3 on it does), and its far end is not known here; use another way or engine, as \
         AF_XDP or packet sockets"
    )]
    LiveUnknown {
        /// Where they were to go.
        interface: String,
    },
    /// The interface took nothing for long.
    #[error(
        "{interface} had no room for {waited:?}, and nothing that was handed over came back; is \
         its link up (`ip link show {interface}`)?"
    )]
    NoRoom {
        /// Interface.
        interface: String,
        /// How long was waited.
        waited: Duration,
    },
    /// The counters that tell what was taken are gone.
    #[error(
        "the counters of {interface} cannot be read any more ({reason}): what became of the last \
         {frames} frames is not known, and they count as refused"
    )]
    CountersLost {
        /// Interface.
        interface: String,
        /// Why.
        reason: String,
        /// Frames since the last reading.
        frames: u64,
    },
    /// The kernel does not cut what a tunnel carries.
    #[error("the kernel cuts no packets in tunnels that a packet socket sends; use another way")]
    KernelTunnel,
    /// The kernel cuts UDP only where it finishes checksums.
    #[error("the kernel cuts no UDP without a checksum; give the template one, or use another way")]
    KernelNoChecksum,
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

/// What would make frames out of a template.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TemplateFix {
    /// Nothing but another template.
    None,
    /// Frames without a number.
    NoNumber,
    /// Frames of the template's own size.
    OwnSize,
    /// Frames of this many bytes or more.
    Size(usize),
}

impl Error {
    pub(crate) fn sink(kind: SinkKind, interface: &str, reason: &str) -> Error {
        let (interface, reason) = (interface.to_owned(), reason.to_owned());
        Error::Sink { sink: kind.name(), interface, reason }
    }

    pub(crate) fn size(what: String) -> Error {
        Error::Size { what }
    }

    /// What was found in `inputs` together.
    pub(crate) fn unsendable(inputs: &[PathBuf], found: Unsendable, interface: &str) -> Error {
        let names: Vec<_> = inputs.iter().map(|path| path.shown().to_string()).collect();
        Error::Unsendable { files: vec![(names.join(", "), found)], interface: interface.into() }
    }
}

fn unsendable_text(files: &[(String, Unsendable)], interface: &str) -> String {
    let each = files.iter().map(|(name, found)| {
        let causes = causes(found, interface).join(", ");
        format!("{name} holds {causes}")
    });
    let all = each.collect::<Vec<_>>().join("; ");
    format!("{all}; nothing of this is sent unless it is left out")
}

/// Each cause with its count and the fix.
fn causes(found: &Unsendable, interface: &str) -> Vec<String> {
    let frames = |count: u64| format!("{count} frame{}", if count == 1 { "" } else { "s" });
    let mut causes = Vec::new();
    for (&link, &count) in &found.link_types {
        let name = LinkType(link).name().unwrap_or("unknown");
        let frames = frames(count);
        causes.push(format!("{frames} of link type {name} ({link}), which is not Ethernet"));
    }
    if found.cut > 0 {
        causes.push(format!("{} that the capture cut short", frames(found.cut)));
    }
    if found.too_short > 0 {
        causes.push(format!("{} shorter than an Ethernet header", frames(found.too_short)));
    }
    if found.too_long > 0 {
        let mtu = found.longest_bytes.saturating_sub(14);
        causes.push(format!(
            "{} longer than {interface} takes (`ip link set {interface} mtu {mtu}`, where it can)",
            frames(found.too_long)
        ));
    }
    causes
}
