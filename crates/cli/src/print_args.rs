//! What is shown of packets, as options of every subcommand that prints them.

use clap::{ArgAction, Args};
use ringside_print::{Bytes, HexDump, PrintOptions, TimeStyle};

/// Most of each packet (-vvv).
const VERBOSITY_MAX: u8 = 3;

/// tcpdump's options for its lines.
#[derive(Args)]
pub struct PrintArgs {
    /// Addresses as numbers. They always are; accepted for the habit.
    #[arg(short = 'n', action = ArgAction::Count)]
    numeric: u8,

    /// More of each packet: -v, -vv, -vvv.
    #[arg(short = 'v', action = ArgAction::Count)]
    verbose: u8,

    /// Less of each packet: of TCP and UDP the length only.
    #[arg(short = 'q')]
    quick: bool,

    /// Show the link-layer header.
    #[arg(short = 'e')]
    link_header: bool,

    /// TCP sequence numbers as they are, not relative to the start of the conversation.
    #[arg(short = 'S')]
    absolute: bool,

    /// Number the packets, from 1.
    #[arg(short = '#', long = "number")]
    number: bool,

    /// Show the bytes in hexadecimal; -xx with the link-layer header.
    #[arg(short = 'x', action = ArgAction::Count)]
    hex: u8,

    /// Show the bytes in hexadecimal and ASCII; -XX with the link-layer header.
    #[arg(short = 'X', action = ArgAction::Count)]
    hex_ascii: u8,

    /// Show the bytes in ASCII; -AA with the link-layer header.
    #[arg(short = 'A', action = ArgAction::Count)]
    ascii: u8,

    /// Time: -t none, -tt seconds since 1970, -ttt since the packet before, -tttt with the date,
    /// -ttttt since the first packet.
    #[arg(short = 't', action = ArgAction::Count)]
    time: u8,

    /// Lines appear at once. They always do; accepted for the habit.
    #[arg(short = 'l', action = ArgAction::Count)]
    line_buffered: u8,

    /// Packets are written as they come. They always are; accepted for the habit.
    #[arg(short = 'U', action = ArgAction::Count)]
    packet_buffered: u8,
}

impl PrintArgs {
    /// True if more than usual is to be said (-v).
    pub fn is_verbose(&self) -> bool {
        self.verbose > 0
    }

    /// What a line shows.
    pub fn options(&self) -> PrintOptions {
        // As tcpdump ranks them.
        let dumps = [
            (self.hex_ascii, HexDump::WithAscii),
            (self.hex, HexDump::Plain),
            (self.ascii, HexDump::Ascii),
        ];
        let dump = dumps.into_iter().find(|(count, _)| *count > 0);
        let bytes = dump.map_or_else(Bytes::default, |(count, dump)| Bytes {
            dump,
            with_link_header: count > 1,
        });
        let time = match self.time {
            0 => TimeStyle::Clock,
            1 => TimeStyle::None,
            2 => TimeStyle::Epoch,
            3 => TimeStyle::Delta,
            4 => TimeStyle::Date,
            _ => TimeStyle::SinceFirst,
        };
        PrintOptions {
            verbosity: self.verbose.min(VERBOSITY_MAX),
            quick: self.quick,
            link_header: self.link_header,
            absolute: self.absolute,
            number: self.number,
            bytes,
            time,
        }
    }
}
