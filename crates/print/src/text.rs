//! The text of packets, one after the other: lines, or JSON objects.

use super::{PrintOptions, PrintState, TimeStyle, packet_json, packet_line};
use ringside_core::{Frame, LinkType};

/// Makes the text of packets, in order.
pub struct PacketText {
    style: Style,
    state: PrintState,
    number: u64,
    /// The last line: its memory is used again.
    line: String,
}

/// What the text is.
#[derive(Clone, Copy, Debug)]
pub enum Style {
    /// Lines as of tcpdump.
    Lines(PrintOptions),
    /// One JSON object a packet.
    Json,
}

impl PacketText {
    /// No packet seen yet.
    pub fn new(style: Style) -> PacketText {
        PacketText { style, state: PrintState::default(), number: 0, line: String::new() }
    }

    /// As [`new`](Self::new), for packets of this system's interfaces, of the thread's network
    /// namespace.
    pub fn live(style: Style) -> PacketText {
        PacketText { state: PrintState::live(), ..PacketText::new(style) }
    }

    /// Appends the text of the next packet, with its line feed.
    pub fn append(&mut self, out: &mut Vec<u8>, frame: &Frame<'_>, link: LinkType) {
        self.number += 1;
        match self.style {
            Style::Json => {
                let mut object = packet_json(frame, link, &self.state.interface_names);
                object["number"] = self.number.into();
                object["summary"] = self.summary(frame, link).into();
                serde_json::to_writer(&mut *out, &object).expect("memory takes every write");
                out.push(b'\n');
            }
            Style::Lines(options) => {
                self.line.clear();
                packet_line(&mut self.line, frame, link, &options, &mut self.state);
                out.extend_from_slice(self.line.as_bytes());
            }
        }
    }

    /// The packet's line, without the time.
    fn summary(&mut self, frame: &Frame<'_>, link: LinkType) -> &str {
        let options = PrintOptions { time: TimeStyle::None, ..PrintOptions::default() };
        self.line.clear();
        packet_line(&mut self.line, frame, link, &options, &mut self.state);
        self.line.trim_end_matches('\n')
    }
}
