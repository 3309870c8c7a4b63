#![forbid(unsafe_code)]
//! Packets as text, one a line in tcpdump's habit, and as JSON.
//!
//! The wording follows tcpdump 4.99, so that what people and scripts know still holds: time with
//! nine digits, addresses always numeric. What differs on purpose is listed in `docs/printing.md`.
//! Of bytes from the wire only graphic ASCII, blanks and tabs reach the terminal as they are.
//!
//! A header that `wire` knows is a method of `Line`, by layer. What headers carry beyond that
//! (`application`, `network`, `link`) is a `Protocol`: a function from a payload to text, found by
//! port, number or EtherType. It reads through a `cursor::Cursor`, so that a payload may end at
//! any place, and says with `cursor::Stop` why it ended early.
//!
//! [`PacketText`] makes the text of packets in order; [`printer`] is the same as an output of a
//! running capture. This stands apart from the command line, so that a service may show packets in
//! the same words; it refuses to read options and to open files.

mod application;
mod cursor;
mod hex;
mod icmp;
mod icmpv6;
mod igmp;
mod ip;
mod json;
mod link;
mod live;
mod network;
mod sctp;
mod stored;
mod tcp;
mod text;
mod time;
mod transport;
mod tunnel;

#[cfg(test)]
mod tests;

pub use live::printer;
pub use stored::Printer;
pub use text::{PacketText, Style};
pub use time::TimeStyle;

use json::packet_json;

use ringside_core::{Frame, LinkType, Timestamp};
use ringside_netdev as netdev;
use ringside_wire::{Layer, LayerKind, Layers, Stop, dissect};
use std::collections::BTreeMap;
use std::fmt::Write;

/// How bytes follow the line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HexDump {
    /// No bytes are printed.
    #[default]
    None,
    /// In hexadecimal (-x).
    Plain,
    /// In hexadecimal and ASCII (-X).
    WithAscii,
    /// In ASCII (-A).
    Ascii,
}

/// Which bytes follow the line.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bytes {
    /// In which way.
    pub dump: HexDump,
    /// From the start of the frame (-xx, -XX, -AA), else from the network header on.
    pub with_link_header: bool,
}

/// What a line shows.
#[derive(Clone, Copy, Debug, Default)]
pub struct PrintOptions {
    /// 0 to 3 (-v, -vv, -vvv): fields of the IP header, checksums, and more of what is carried.
    pub verbosity: u8,
    /// Of TCP and UDP the length only (-q).
    pub quick: bool,
    /// Link-layer header (-e).
    pub link_header: bool,
    /// TCP sequence numbers as they are (-S).
    pub absolute: bool,
    /// The number of the packet, from 1 (-#).
    pub number: bool,
    /// Which bytes are printed, and how.
    pub bytes: Bytes,
    /// How the time is printed.
    pub time: TimeStyle,
}

/// What a line depends on in addition to its packet: earlier packets. One for each series of lines.
#[derive(Debug)]
pub struct PrintState {
    zone: jiff::tz::TimeZone,
    packets: u64,
    /// Names of interfaces by index, for frames that begin with the index.
    interface_names: BTreeMap<u32, String>,
    first: Option<Timestamp>,
    previous: Option<Timestamp>,
    conversations: tcp::Conversations,
}

impl Default for PrintState {
    /// For local time; no packet seen yet.
    fn default() -> PrintState {
        PrintState {
            zone: jiff::tz::TimeZone::system(),
            packets: 0,
            interface_names: BTreeMap::new(),
            first: None,
            previous: None,
            conversations: tcp::Conversations::default(),
        }
    }
}

impl PrintState {
    /// As the default, for frames that come from this system's interfaces now.
    fn live() -> PrintState {
        // Without the names the indexes stand for them.
        let devices = netdev::list().unwrap_or_default();
        let interface_names =
            devices.into_iter().map(|device| (device.ifindex, device.name)).collect();
        PrintState { interface_names, ..PrintState::default() }
    }
}

/// Appends the line of a packet, and its line feed. With verbosity or bytes it is several lines.
fn packet_line(
    out: &mut String,
    frame: &Frame<'_>,
    link: LinkType,
    options: &PrintOptions,
    state: &mut PrintState,
) {
    state.packets += 1;
    if options.number {
        let _ = write!(out, "{:>5}  ", state.packets);
    }
    time::stamp(out, frame.meta.timestamp, options.time, state);
    let whole = frame;
    let frame = &link::without_check_sequence(whole, link);
    let layers = dissect(frame.bytes, link);
    let (conversations, names) = (&mut state.conversations, &state.interface_names);
    let mut line =
        Line { out, frame, link, layers: &layers, options, names, conversations, is_quoted: false };
    line.layers();
    let Bytes { dump, with_link_header } = options.bytes;
    let from = if with_link_header { 0 } else { link::network_offset(&layers) };
    let shown = whole.bytes.get(from..).unwrap_or(&[]);
    match dump {
        HexDump::None => {}
        HexDump::Ascii => hex::ascii(out, shown),
        HexDump::Plain | HexDump::WithAscii => hex::dump(out, shown, dump),
    }
    out.push('\n');
}

/// One line under construction.
struct Line<'a> {
    out: &'a mut String,
    frame: &'a Frame<'a>,
    link: LinkType,
    layers: &'a Layers,
    options: &'a PrintOptions,
    names: &'a BTreeMap<u32, String>,
    conversations: &'a mut tcp::Conversations,
    /// An error of ICMP holds it. What it holds in turn is not shown: each level would be one more
    /// of the stack, and 64 KiB hold two thousand.
    is_quoted: bool,
}

/// Appends formatted text. Writing to a string does not fail.
macro_rules! put {
    ($line:expr, $($part:tt)*) => {
        let _ = write!($line.out, $($part)*);
    };
}
use put;

impl<'a> Line<'a> {
    fn layers(&mut self) {
        for (index, layer) in self.layers.iter().enumerate() {
            let here = self.frame.bytes.get(layer.start()..).unwrap_or(&[]);
            match layer.kind {
                LayerKind::Ipv4 => self.ipv4(index, here),
                LayerKind::Ipv6 => self.ipv6(index, here),
                LayerKind::HopByHop
                | LayerKind::Routing
                | LayerKind::DestinationOptions
                | LayerKind::Auth => self.extension(layer.kind, here),
                LayerKind::Fragment => self.ipv6_fragment(index, here),
                LayerKind::Tcp => self.tcp(index, here),
                LayerKind::Udp => self.udp(index, here),
                LayerKind::Sctp => self.sctp(index, here),
                LayerKind::Icmp => self.icmp(index, here),
                LayerKind::Icmpv6 => self.icmpv6(index, here),
                LayerKind::Igmp => self.igmp(index, here),
                LayerKind::Arp => self.arp(layer, here),
                LayerKind::Gre
                | LayerKind::Erspan
                | LayerKind::Vxlan
                | LayerKind::Geneve
                | LayerKind::GtpU => self.tunnel(index, layer.kind, here),
                _ => self.link(index, layer, here),
            }
        }
        self.stop();
    }

    /// What is to be said about the end of the headers.
    fn stop(&mut self) {
        match self.layers.stop() {
            Stop::Complete | Stop::LaterFragment => {}
            Stop::Truncated(kind) => self.short(kind, true),
            Stop::Malformed(kind) => self.short(kind, false),
            Stop::DepthLimit => self.out.push_str(" [more headers than are followed]"),
            Stop::UnknownLink => {
                let (link, length) = (self.link, self.frame.meta.wire_bytes);
                put!(self, "link type {link} is not decoded, length {length}");
            }
            Stop::Unknown { protocol } => self.unknown(protocol),
        }
    }

    /// A header that is cut, or that contradicts itself, with what is there of it.
    fn short(&mut self, kind: LayerKind, is_cut: bool) {
        let here = self.frame.bytes.get(self.layers.payload()).unwrap_or(&[]);
        match (kind, is_cut) {
            (LayerKind::Udp | LayerKind::Tcp | LayerKind::Sctp, _) => {
                self.short_transport(kind, here, is_cut);
            }
            (LayerKind::Ipv4, _) => self.short_ipv4(here),
            (LayerKind::Ipv6, false) => {
                put!(self, "IP6 version error: {} != 6", here.first().map_or(0, |byte| byte >> 4));
            }
            (LayerKind::FrameRelay, false) => self.out.push_str("Q.922, invalid address"),
            (_, true) => {
                put!(self, " [|{}]", short_name(kind));
            }
            (_, false) => {
                put!(self, " [{} malformed]", short_name(kind));
            }
        }
    }

    /// The layer before the one at `index`.
    fn before(&self, index: usize) -> Option<Layer> {
        self.layers.as_slice().get(index.checked_sub(1)?).copied()
    }

    /// The layer after the one at `index`.
    fn after(&self, index: usize) -> Option<Layer> {
        self.layers.as_slice().get(index + 1).copied()
    }

    /// What is under construction, for what needs the text and how verbose it is alone.
    fn text(&mut self) -> application::Text<'_> {
        application::Text { out: self.out, verbosity: self.options.verbosity }
    }

    /// The network header in which the header at `index` lies.
    fn network_before(&self, index: usize) -> Option<Layer> {
        let before = self.layers.as_slice().get(..index)?;
        before.iter().rev().copied().find(|layer| layer.kind.is_network())
    }

    /// Bytes of a packet from the header at `from` to the end that its IP header says, also
    /// where they were not captured. Without such a length, to the end on the wire.
    fn bytes_from(&self, index: usize) -> usize {
        let start = self.layers.as_slice().get(index).map_or(0, |layer| layer.start());
        let before = self.layers.as_slice().get(..index).unwrap_or(&[]);
        let ip = before.iter().rev().find(|layer| layer.kind.is_network());
        let end = ip.and_then(|layer| ip::packet_end(self.frame.bytes, *layer));
        end.unwrap_or(self.frame.meta.wire_bytes as usize).saturating_sub(start)
    }
}

/// Names as they stand in tcpdump's marks of truncation.
fn short_name(kind: LayerKind) -> &'static str {
    match kind {
        LayerKind::Ipv4 => "ip",
        LayerKind::Ipv6 => "ip6",
        LayerKind::Ethernet => "ether",
        LayerKind::Icmpv6 => "icmp6",
        LayerKind::Radiotap => "802.11_radio",
        LayerKind::Ieee80211 => "802.11",
        LayerKind::FrameRelay => "fr",
        other => other.name(),
    }
}

/// A port within the first bytes of a quoted packet, whose header need not be whole.
fn port_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().map(|port| u16::from_be_bytes(*port))
}
