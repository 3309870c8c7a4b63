//! How fast to send, as people say it, and when each frame is due then.

use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// What a link carries around each frame, in bytes: preamble and start delimiter 8, frame check
/// sequence 4, gap 12 (IEEE 802.3, 3.1.1 and 4.4.2).
pub const WIRE_OVERHEAD_BYTES: u64 = 24;

/// Shortest frame on a link without its check sequence, in bytes: shorter ones are padded to it.
const ETHERNET_BYTES_MIN: u64 = 60;

const MILLIONTHS: u64 = 1_000_000;
const NANOS_PER_SEC: u128 = 1_000_000_000;

/// What a frame of `bytes` (without frame check sequence) takes up of the link, in bytes.
pub fn wire_bytes(bytes: usize) -> u64 {
    (bytes as u64).max(ETHERNET_BYTES_MIN) + WIRE_OVERHEAD_BYTES
}

/// How fast to send.
///
/// Bits are those on the wire, [`WIRE_OVERHEAD_BYTES`] of each frame and the padding of short ones
/// included, so that `10Gbps` fills a link of 10 Gb/s as `100%` does. Read from text: `5Mpps`,
/// `1500pps` or a bare number of frames a second; `10Gbps`, `9.5Gbps`; `100%`, `0.5%`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rate {
    /// Frames a second, at least 1.
    Frames(u64),
    /// Bits a second on the wire, at least 1.
    Bits(u64),
    /// Millionths of the link's speed, 1 to 1,000,000.
    Share(u32),
}

/// A rate that means a time for every frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// Frames a second, at least 1.
    Frames(u64),
    /// Bits a second on the wire, at least 1.
    Bits(u64),
}

/// Why a rate is none.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum RateError {
    /// It cannot be read.
    #[error(
        "{text:?} is no rate: write frames a second (5Mpps, 1500), bits a second on the wire \
         (10Gbps) or a share of the link's speed (100%), at least 1 frame or bit and at most 100%"
    )]
    Text {
        /// What was written.
        text: String,
    },
    /// A share of a speed that is unknown.
    #[error(
        "{interface} does not say how fast its link is, so that a share of it means nothing; \
         give the rate as bits (10Gbps) or frames (1Mpps) a second"
    )]
    SpeedUnknown {
        /// Interface.
        interface: String,
    },
}

impl Rate {
    /// The rate on the link of `interface`, whose speed is `link_bits_per_sec`, if it is known.
    ///
    /// # Errors
    /// A share of a speed that is not known.
    pub fn on_link(
        self,
        interface: &str,
        link_bits_per_sec: Option<u64>,
    ) -> Result<Pace, RateError> {
        match (self, link_bits_per_sec) {
            (Rate::Frames(per_sec), _) => Ok(Pace::Frames(per_sec)),
            (Rate::Bits(per_sec), _) => Ok(Pace::Bits(per_sec)),
            (Rate::Share(share), Some(speed)) if speed > 0 => {
                let bits = u128::from(speed) * u128::from(share) / u128::from(MILLIONTHS);
                // A share is at most the whole.
                Ok(Pace::Bits((bits as u64).max(1)))
            }
            (Rate::Share(_), _) => Err(RateError::SpeedUnknown { interface: interface.into() }),
        }
    }
}

impl Pace {
    /// Nanoseconds from the first frame to the one before which `frames` frames were sent, which
    /// took `wire_bytes` of the link (the sum of [`wire_bytes`]). Reckoned from the start each
    /// time, so that nothing adds up; saturates.
    pub fn due_ns(self, frames: u64, wire_bytes: u64) -> u64 {
        let (count, per_sec) = match self {
            Pace::Frames(per_sec) => (u128::from(frames), per_sec),
            Pace::Bits(per_sec) => (8 * u128::from(wire_bytes), per_sec),
        };
        let ns = count * NANOS_PER_SEC / u128::from(per_sec.max(1));
        u64::try_from(ns).unwrap_or(u64::MAX)
    }
}

impl FromStr for Rate {
    type Err = RateError;

    fn from_str(text: &str) -> Result<Rate, RateError> {
        read(text.trim()).ok_or_else(|| RateError::Text { text: text.into() })
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rate::Frames(per_sec) => write!(f, "{per_sec}pps"),
            Rate::Bits(per_sec) => write!(f, "{per_sec}bps"),
            Rate::Share(share) => write!(f, "{}%", f64::from(*share) / 10_000.0),
        }
    }
}

fn read(text: &str) -> Option<Rate> {
    let text = text.to_ascii_lowercase();
    if let Some(percent) = text.strip_suffix('%') {
        let share = scaled(percent.trim_end(), MILLIONTHS / 100)?;
        return (share <= MILLIONTHS).then_some(Rate::Share(share as u32));
    }
    if let Some(bits) = ["bps", "bit/s"].iter().find_map(|unit| text.strip_suffix(unit)) {
        return prefixed(bits).map(Rate::Bits);
    }
    prefixed(text.strip_suffix("pps").unwrap_or(&text)).map(Rate::Frames)
}

/// A number with a decimal prefix: `1.5k`, `10 G`.
fn prefixed(text: &str) -> Option<u64> {
    let text = text.trim_end();
    let factors = [('k', 1_000), ('m', 1_000_000), ('g', 1_000_000_000), ('t', 1_000_000_000_000)];
    let found = factors.iter().find_map(|(prefix, by)| Some((text.strip_suffix(*prefix)?, *by)));
    let (number, factor) = found.unwrap_or((text, 1));
    scaled(number.trim_end(), factor)
}

/// A decimal number times `factor`, if that is a whole number from 1 on.
fn scaled(number: &str, factor: u64) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !(digits(fraction) || number == whole) {
        return None;
    }
    let mut value = whole.parse::<u64>().ok()?.checked_mul(factor)?;
    let mut unit = factor;
    for digit in fraction.trim_end_matches('0').bytes() {
        if !unit.is_multiple_of(10) {
            return None;
        }
        unit /= 10;
        value = value.checked_add(u64::from(digit - b'0') * unit)?;
    }
    (value > 0).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_read_as_people_write_them() {
        for (text, rate) in [
            ("5Mpps", Rate::Frames(5_000_000)),
            ("1.5kpps", Rate::Frames(1_500)),
            ("1000", Rate::Frames(1_000)),
            ("20k", Rate::Frames(20_000)),
            ("10Gbps", Rate::Bits(10_000_000_000)),
            ("9.5 Gbit/s", Rate::Bits(9_500_000_000)),
            ("100%", Rate::Share(1_000_000)),
            ("0.5%", Rate::Share(5_000)),
            ("12.50 %", Rate::Share(125_000)),
        ] {
            assert_eq!(text.parse(), Ok(rate), "{text}");
            assert_eq!(rate.to_string().parse(), Ok(rate), "{text}");
        }
        for text in [
            "",
            "0",
            "pps",
            "-1",
            "0.5pps",
            "1e6",
            "0%",
            "101%",
            "1.2.3",
            "1.",
            ".5k",
            "fast",
            "99999999999G",
            "5 Mpps s",
            "bps",
            "%",
            "0.00001%",
        ] {
            let refused = text.parse::<Rate>().unwrap_err().to_string();
            assert!(refused.contains("5Mpps"), "{text}: {refused}");
        }
    }

    #[test]
    fn a_share_needs_a_speed() {
        assert_eq!(Rate::Share(500_000).on_link("x", Some(10_000)), Ok(Pace::Bits(5_000)));
        assert_eq!(Rate::Bits(7).on_link("x", None), Ok(Pace::Bits(7)));
        let refused = Rate::Share(1).on_link("eth7", None).unwrap_err().to_string();
        assert!(refused.contains("eth7"), "{refused}");
    }

    #[test]
    fn a_full_link_of_ten_gigabits_carries_what_ieee_802_3_lets_it() {
        // 14,880,952 frames of 64 bytes a second, and 812,743 of 1,518, check sequence included.
        let pace = Rate::Share(1_000_000).on_link("x", Some(10_000_000_000)).unwrap();
        for (bytes, per_sec) in [(60, 14_880_952), (10, 14_880_952), (1_514, 812_743)] {
            let wire = wire_bytes(bytes);
            let at = |frames| pace.due_ns(frames, frames * wire);
            assert!(at(per_sec) <= 1_000_000_000 && at(per_sec + 1) > 1_000_000_000, "{bytes}");
        }
    }

    #[test]
    fn times_do_not_drift_and_do_not_overflow() {
        assert_eq!(Pace::Frames(3).due_ns(3_000_000_000, 0), 1_000_000_000_000_000_000);
        assert_eq!(Pace::Frames(1).due_ns(u64::MAX, 0), u64::MAX);
        assert_eq!(Pace::Bits(1).due_ns(0, u64::MAX), u64::MAX);
    }
}
