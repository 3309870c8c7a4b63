//! What is shown of packets, as options of every subcommand that prints them.

use super::{HexDump, PrintOptions, TimeStyle};
use clap::{ArgAction, Args};

/// tcpdump's options for its lines.
#[derive(Args)]
pub struct PrintArgs {
    /// Addresses as numbers. They always are; accepted for the habit.
    #[arg(short = 'n', action = ArgAction::Count)]
    numeric: u8,

    /// More of each packet: -v, -vv, -vvv.
    #[arg(short = 'v', action = ArgAction::Count)]
    verbose: u8,

    /// Show the link-layer header.
    #[arg(short = 'e')]
    link_header: bool,

    /// Show the bytes in hexadecimal.
    #[arg(short = 'x')]
    hex: bool,

    /// Show the bytes in hexadecimal and ASCII.
    #[arg(short = 'X')]
    hex_ascii: bool,

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
    /// Most of each packet (-vvv).
    const VERBOSITY_MAX: u8 = 3;

    /// What a line shows.
    pub fn options(&self) -> PrintOptions {
        let hex = match (self.hex, self.hex_ascii) {
            (_, true) => HexDump::WithAscii,
            (true, false) => HexDump::Plain,
            (false, false) => HexDump::None,
        };
        let time = match self.time {
            0 => TimeStyle::Clock,
            1 => TimeStyle::None,
            2 => TimeStyle::Epoch,
            3 => TimeStyle::Delta,
            4 => TimeStyle::Date,
            _ => TimeStyle::SinceFirst,
        };
        let verbosity = self.verbose.min(PrintArgs::VERBOSITY_MAX);
        PrintOptions { verbosity, link_header: self.link_header, hex, time }
    }
}
