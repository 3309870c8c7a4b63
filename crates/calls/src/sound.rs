//! What was said in a call, of G.711, as a WAV file.

use crate::call::Call;
use crate::stream::Endpoint;
use ringside_inspect::{DissectedFrame, Received};
use ringside_proto::{Rtp, rtp};
use ringside_streams::Datagram;
use std::io::{self, Write};

/// Samples of a second.
const RATE: u32 = 8_000;
/// Samples of a channel: an hour, 58 MB. What comes later is left out.
const SAMPLES_MAX: usize = 3_600 * RATE as usize;
/// Bytes of the head of a WAV file.
const HEAD_BYTES: u32 = 44;

/// The sound of a call, a channel for each party: on the left the caller.
#[derive(Clone, Debug)]
pub struct Sound {
    streams: Vec<Voice>,
    channels: [Vec<i16>; 2],
    /// Samples that came too late for a file.
    left_out: u64,
}

/// One stream of it.
#[derive(Clone, Debug)]
struct Voice {
    source: Endpoint,
    destination: Endpoint,
    ssrc: u32,
    channel: usize,
    /// Where its first sample stands, and the timestamp of that.
    offset: usize,
    origin: Option<u32>,
    span_ns: (u64, u64),
}

impl Sound {
    /// Of a call that was found in the same stream of frames.
    pub fn new(call: &Call) -> Sound {
        let begun_ns = call.streams.iter().map(|stream| stream.first_ns).min().unwrap_or(0);
        let caller = call.ends().map(|(caller, _)| caller.0);
        let is_callers = |address| Some(address) == caller;
        let has_callers = call.streams.iter().any(|stream| is_callers(stream.key.source.0));
        let first = call.streams.first().map(|stream| stream.key.source.0);
        let voice = |stream: &crate::Stream| {
            let key = stream.key;
            let is_left = match has_callers {
                true => is_callers(key.source.0),
                false => Some(key.source.0) == first,
            };
            let late_ns = u128::from(stream.first_ns.saturating_sub(begun_ns));
            Voice {
                source: key.source,
                destination: key.destination,
                ssrc: key.ssrc,
                channel: usize::from(!is_left),
                offset: (late_ns * u128::from(RATE) / 1_000_000_000) as usize,
                origin: None,
                span_ns: (stream.first_ns, stream.last_ns),
            }
        };
        let streams = call.streams.iter().map(voice).collect();
        Sound { streams, channels: [Vec::new(), Vec::new()], left_out: 0 }
    }

    /// Takes a frame, if it is of the call.
    pub fn take(&mut self, frame: &DissectedFrame<'_>, received: &Received<'_>) {
        let Some(datagram) = Datagram::of(frame, received) else { return };
        let wire_bytes = datagram.payload_bytes as usize;
        let Some(rtp) = rtp::parse(datagram.payload, wire_bytes).found() else { return };
        let decode: fn(u8) -> i16 = match rtp.payload_type {
            0 => of_mu_law,
            8 => of_a_law,
            _ => return,
        };
        let ends = datagram.ends().into();
        let stamp_ns = datagram.stamp.0;
        let found = self.streams.iter_mut().find(|voice| {
            (voice.source, voice.destination) == ends
                && voice.ssrc == rtp.ssrc
                && (voice.span_ns.0..=voice.span_ns.1).contains(&stamp_ns)
        });
        let Some(voice) = found else { return };
        let Some(start) = voice.place_of(&rtp) else { return };
        let channel = &mut self.channels[voice.channel];
        let end = start.saturating_add(rtp.payload.len());
        if end > SAMPLES_MAX {
            self.left_out += rtp.payload.len() as u64;
            return;
        }
        channel.resize(channel.len().max(end), 0);
        for (sample, &byte) in channel[start..end].iter_mut().zip(rtp.payload) {
            *sample = decode(byte);
        }
    }

    /// Samples of the longer channel.
    pub fn samples(&self) -> usize {
        self.channels.iter().map(Vec::len).max().unwrap_or(0)
    }

    /// Samples that were left out, because they are more than an hour behind the first.
    pub fn left_out(&self) -> u64 {
        self.left_out
    }

    /// Writes the file.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        let bytes = 4 * self.samples() as u32;
        out.write_all(b"RIFF")?;
        out.write_all(&(HEAD_BYTES - 8 + bytes).to_le_bytes())?;
        out.write_all(b"WAVEfmt \x10\0\0\0\x01\0\x02\0")?;
        out.write_all(&RATE.to_le_bytes())?;
        out.write_all(&(4 * RATE).to_le_bytes())?;
        out.write_all(b"\x04\0\x10\0data")?;
        out.write_all(&bytes.to_le_bytes())?;
        let [left, right] = &self.channels;
        for at in 0..self.samples() {
            for channel in [left, right] {
                out.write_all(&channel.get(at).copied().unwrap_or(0).to_le_bytes())?;
            }
        }
        Ok(())
    }
}

impl Voice {
    /// Where a packet's first sample stands. None before the first packet.
    fn place_of(&mut self, rtp: &Rtp<'_>) -> Option<usize> {
        let origin = *self.origin.get_or_insert(rtp.timestamp);
        let ahead = rtp.timestamp.wrapping_sub(origin) as i32;
        Some(self.offset.saturating_add(usize::try_from(ahead).ok()?))
    }
}

/// A sample of G.711's µ-law.
fn of_mu_law(byte: u8) -> i16 {
    let code = !byte;
    let (exponent, mantissa) = (code >> 4 & 7, i16::from(code & 0xf));
    let magnitude = (((mantissa << 3) + 0x84) << exponent) - 0x84;
    if code & 0x80 != 0 { -magnitude } else { magnitude }
}

/// A sample of G.711's A-law.
fn of_a_law(byte: u8) -> i16 {
    let code = byte ^ 0x55;
    let (exponent, mantissa) = (code >> 4 & 7, i16::from(code & 0xf));
    let magnitude = match exponent {
        0 => (mantissa << 4) + 8,
        _ => ((mantissa << 4) + 0x108) << (exponent - 1),
    };
    if code & 0x80 != 0 { magnitude } else { -magnitude }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The extremes and the smallest steps, as G.711's tables have them (16 bits).
    #[test]
    fn samples_are_those_of_the_tables() {
        assert_eq!([0x00, 0x80, 0x7f, 0xff, 0xfe].map(of_mu_law), [-32_124, 32_124, 0, 0, 8]);
        assert_eq!([0x2a, 0xaa, 0x55, 0xd5].map(of_a_law), [-32_256, 32_256, -8, 8]);
    }
}
