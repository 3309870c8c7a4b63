//! What a radio says of a frame, before the frame (<https://radiotap.org>).

use crate::cursor::Stop;
use crate::{Line, put};
use ringside_wire::{Radiotap, Unread};
use std::fmt::Write;

/// Numbers of fields on which others depend.
const CHANNEL: u32 = 3;
const EXTENDED_CHANNEL: u32 = 18;
const MCS: u32 = 19;

/// Attributes of a channel.
const TURBO: u32 = 0x10;
const CCK: u32 = 0x20;
const OFDM: u32 = 0x40;
const GHZ_2: u32 = 0x80;
const GHZ_5: u32 = 0x100;
const DYNAMIC: u32 = 0x400;
const GFSK: u32 = 0x800;
const HALF: u32 = 0x4000;
const QUARTER: u32 = 0x8000;
const HT20: u32 = 0x1_0000;
const HT40_ABOVE: u32 = 0x2_0000;
const HT40_BELOW: u32 = 0x4_0000;

/// Bandwidths of HT and VHT by their number; the letters say which part of the channel.
const BANDWIDTHS: [&str; 26] = [
    "20 MHz",
    "40 MHz",
    "20 MHz (L)",
    "20 MHz (U)",
    "80 MHz",
    "80 MHz (L)",
    "80 MHz (U)",
    "80 MHz (LL)",
    "80 MHz (LU)",
    "80 MHz (UL)",
    "80 MHz (UU)",
    "160 MHz",
    "160 MHz (L)",
    "160 MHz (U)",
    "160 MHz (LL)",
    "160 MHz (LU)",
    "160 MHz (UL)",
    "160 MHz (UU)",
    "160 MHz (LLL)",
    "160 MHz (LLU)",
    "160 MHz (LUL)",
    "160 MHz (LUU)",
    "160 MHz (ULL)",
    "160 MHz (ULU)",
    "160 MHz (UUL)",
    "160 MHz (UUU)",
];

impl Line<'_> {
    pub(crate) fn radiotap(&mut self, here: &[u8]) {
        let Ok(radiotap) = Radiotap::new(here) else { return };
        let has = |wanted| radiotap.fields().any(|(number, _)| number == wanted);
        let (is_ht, is_extended) = (has(MCS), has(EXTENDED_CHANNEL));
        let mut fields = radiotap.fields();
        for (number, bytes) in fields.by_ref() {
            match (number, bytes) {
                (CHANNEL, _) if is_extended => {}
                (CHANNEL, &[a, b, c, d]) => {
                    let flags = u32::from(u16::from_le_bytes([c, d]));
                    self.channel(u16::from_le_bytes([a, b]), flags, is_ht);
                }
                (EXTENDED_CHANNEL, &[a, b, c, d, e, f, ..]) => {
                    let flags = u32::from_le_bytes([a, b, c, d]);
                    self.channel(u16::from_le_bytes([e, f]), flags, is_ht);
                }
                (MCS, &[known, flags, index]) => self.ht(known, flags, index),
                (21, &[a, b, flags, bandwidth, ref users @ .., coding, _, _, _]) => {
                    self.vht(u16::from_le_bytes([a, b]), flags, bandwidth, users, coding);
                }
                _ => self.radio(number, bytes),
            }
        }
        match fields.unread() {
            Some(Unread::Cut) => Stop::Cut.mark(self.out, "802.11_radio"),
            Some(Unread::Unknown(number)) => {
                put!(self, "[bit {number}] ");
            }
            None => {}
        }
    }

    /// The fields of one number.
    fn radio(&mut self, number: u32, bytes: &[u8]) {
        let signed = |byte: u8| byte.cast_signed();
        match (number, bytes) {
            (0, bytes) => {
                let time = bytes.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
                put!(self, "{time}us tsft ");
            }
            (1, &[flags]) => {
                let names = [
                    (0x01, "cfp "),
                    (0x02, "short preamble "),
                    (0x04, "wep "),
                    (0x08, "fragmented "),
                    (0x40, "bad-fcs "),
                ];
                names
                    .iter()
                    .filter(|(bit, _)| flags & bit != 0)
                    .for_each(|(_, name)| self.out.push_str(name));
            }
            // Some systems write the index there.
            (2, &[rate @ 0x80..=0x8f]) => {
                put!(self, "MCS {} ", rate & 0x7f);
            }
            (2, &[rate]) => {
                put!(self, "{:.1} Mb/s ", f64::from(rate) / 2.0);
            }
            (4, &[set, pattern]) => {
                put!(self, "fhset {set} fhpat {pattern} ");
            }
            (5, &[value]) => {
                put!(self, "{}dBm signal ", signed(value));
            }
            (6, &[value]) => {
                put!(self, "{}dBm noise ", signed(value));
            }
            (7, &[low, high]) => {
                put!(self, "{} sq ", u16::from_le_bytes([low, high]));
            }
            (8, &[low, high]) => {
                put!(self, "{} tx power ", -i32::from(i16::from_le_bytes([low, high])));
            }
            (9, &[low, high]) => {
                put!(self, "{}dB tx attenuation ", -i32::from(i16::from_le_bytes([low, high])));
            }
            (10, &[value]) => {
                put!(self, "{}dBm tx power ", signed(value));
            }
            (11, &[value]) => {
                put!(self, "antenna {value} ");
            }
            (12, &[value]) => {
                put!(self, "{value}dB signal ");
            }
            (13, &[value]) => {
                put!(self, "{value}dB noise ");
            }
            _ => {}
        }
    }

    fn channel(&mut self, frequency: u16, flags: u32, is_ht: bool) {
        put!(self, "{frequency} MHz");
        let has = |bits| flags & bits == bits;
        if is_ht {
            self.out.push_str(" 11n");
        } else {
            let rate = if has(HALF) {
                "/10Mhz"
            } else if has(QUARTER) {
                "/5Mhz"
            } else {
                ""
            };
            if has(GHZ_2 | GFSK) {
                self.out.push_str(" FHSS");
            }
            if has(GHZ_5 | OFDM) {
                put!(self, " 11a{rate}");
            }
            if has(GHZ_2 | OFDM) || has(GHZ_2 | DYNAMIC) {
                put!(self, " 11g{rate}");
            } else if has(GHZ_2 | CCK) {
                self.out.push_str(" 11b");
            }
            if has(TURBO) {
                self.out.push_str(" Turbo");
            }
        }
        let width = [(HT20, " ht/20"), (HT40_BELOW, " ht/40-"), (HT40_ABOVE, " ht/40+")];
        let width = width.iter().find(|(bit, _)| has(*bit));
        self.out.push_str(width.map_or("", |(_, name)| name));
        self.out.push(' ');
    }

    /// Modulation of 802.11n.
    fn ht(&mut self, known: u8, flags: u8, index: u8) {
        let (bandwidth, is_short) = (flags & 3, flags & 4 != 0);
        if known & 0x02 != 0 {
            // Either of them is enough, as tcpdump has it: what is not known is 0.
            match ht_rate(index, bandwidth == 1, is_short).filter(|_| known & 0x05 != 0) {
                Some(rate) => {
                    put!(self, "{rate:.1} Mb/s MCS {index} ");
                }
                None => {
                    put!(self, "MCS {index} ");
                }
            }
        }
        if known & 0x01 != 0 {
            put!(self, "{} ", BANDWIDTHS[usize::from(bandwidth)]);
        }
        let pairs = [
            (0x04, is_short, "short GI ", "long GI "),
            (0x08, flags & 0x08 != 0, "greenfield ", "mixed "),
            (0x10, flags & 0x10 != 0, "LDPC FEC ", "BCC FEC "),
        ];
        for (_, is_set, yes, no) in pairs.iter().filter(|pair| known & pair.0 != 0) {
            self.out.push_str(if *is_set { yes } else { no });
        }
        if known & 0x20 != 0 {
            put!(self, "RX-STBC{} ", flags >> 5 & 3);
        }
    }

    /// Modulation of 802.11ac.
    fn vht(&mut self, known: u16, flags: u8, bandwidth: u8, users: &[u8], coding: u8) {
        for (user, modulation) in users.iter().enumerate().filter(|(_, byte)| **byte & 0x0f != 0) {
            let coding = if coding >> user & 1 != 0 { "LDPC" } else { "BCC" };
            put!(self, "User {user} MCS {} {coding} FEC ", modulation >> 4);
        }
        if known & 0x40 != 0 {
            let number = bandwidth & 0x1f;
            match BANDWIDTHS.get(usize::from(number)) {
                Some(name) => {
                    put!(self, "{name} ");
                }
                None => {
                    put!(self, "unknown ({number}) ");
                }
            }
        }
        if known & 0x04 != 0 {
            self.out.push_str(if flags & 0x04 != 0 { "short GI " } else { "long GI " });
        }
    }
}

/// Megabits a second of an index up to four streams of one modulation (IEEE 802.11 19.5): bits of
/// a subcarrier times subcarriers, in a symbol of 4 or 3.6 microseconds.
fn ht_rate(index: u8, is_wide: bool, is_short: bool) -> Option<f64> {
    const BITS: [f64; 8] = [0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 4.5, 5.0];
    if index > 31 {
        return None;
    }
    let subcarriers = if is_wide { 108.0 } else { 52.0 };
    let symbol = if is_short { 3.6 } else { 4.0 };
    let streams = f64::from(index / 8 + 1);
    Some(BITS[usize::from(index % 8)] * streams * subcarriers / symbol)
}
