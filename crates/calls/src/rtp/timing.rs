//! When the packets of a stream came, against when they were due.

use crate::codec::Content;
use ringside_ebpf::rtp::{SpreadWords, StreamState};
use ringside_proto::Rtp;

/// Streams that are shorter say nothing of clocks.
const DRIFT_SPAN_MIN_NS: f64 = 10e9;

/// A greater deviation of one packet is taken for this: some two years.
const DEVIATION_MAX_NS: u64 = 1 << 56;

/// Least, mean and greatest of a number of values, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spread {
    pub(super) count: u64,
    pub(super) min: i64,
    pub(super) max: i64,
    pub(super) sum: i64,
}

impl Spread {
    fn take(&mut self, value: i64) {
        self.min = if self.count == 0 { value } else { self.min.min(value) };
        self.max = if self.count == 0 { value } else { self.max.max(value) };
        self.sum = self.sum.wrapping_add(value);
        self.count += 1;
    }

    fn counted(words: &SpreadWords) -> Spread {
        let SpreadWords { count, min, max, sum } = *words;
        Spread { count, min, max, sum }
    }

    /// Of both.
    fn with(&self, other: &Spread) -> Spread {
        match (self.count, other.count) {
            (0, _) => *other,
            (_, 0) => *self,
            _ => Spread {
                count: self.count + other.count,
                min: self.min.min(other.min),
                max: self.max.max(other.max),
                sum: self.sum.wrapping_add(other.sum),
            },
        }
    }

    /// Least, mean and greatest value; `None` of no values.
    pub fn values(&self) -> Option<[f64; 3]> {
        let mean = self.sum as f64 / self.count as f64;
        (self.count > 0).then_some([self.min as f64, mean, self.max as f64])
    }
}

/// The line through points, by least squares.
#[derive(Clone, Copy, Debug, Default)]
struct Line {
    points: f64,
    mean: (f64, f64),
    variance: f64,
    covariance: f64,
}

impl Line {
    fn take(&mut self, x: f64, y: f64) {
        self.points += 1.0;
        let dx = x - self.mean.0;
        self.mean.0 += dx / self.points;
        self.mean.1 += (y - self.mean.1) / self.points;
        self.variance += dx * (x - self.mean.0);
        self.covariance += dx * (y - self.mean.1);
    }
}

/// Follows the times, in whole numbers alone, so that a program in the kernel comes to the same
/// (`bpf/rtp.h`). Packets are looked at in the order in which they came, without those that came
/// twice.
#[derive(Clone, Copy, Debug, Default)]
pub struct Timing {
    /// Between packets.
    pub deltas: Spread,
    /// Jitter, as it stood after each packet.
    pub jitters: Spread,
    /// What packets are ahead of their due time at most, by amount; negative if they are behind.
    pub skew_max_ns: i64,
    /// Of the last packet that was not behind another in time.
    pub(super) last: Option<(u64, u32)>,
    pub(super) follows_noise: bool,
    /// Jitter, in sixteenths of a nanosecond, as RFC 3550 A.8 keeps it.
    pub(super) jitter_16: u64,
    pub(super) has_jitter: bool,
    /// Since the first packet: by stamps, and by timestamps.
    pub(super) arrival_ns: i64,
    pub(super) nominal_ns: i64,
    drift: Line,
}

impl Timing {
    /// Takes a packet, whose timestamp has `clock_rate` units in a second.
    ///
    /// The rules are Wireshark's: what follows a silence (marker, comfort noise) or is behind in
    /// time is no sample of deltas and jitter; a telephone event has the timestamp of its
    /// beginning, and is a sample of deltas alone.
    pub fn take(&mut self, now_ns: u64, rtp: &Rtp<'_>, content: Content, clock_rate: Option<u32>) {
        let is_noise = content == Content::ComfortNoise;
        let follows_noise = std::mem::replace(&mut self.follows_noise, is_noise);
        let Some((last_ns, last_timestamp)) = self.last else {
            self.last = Some((now_ns, rtp.timestamp));
            self.drift();
            return;
        };
        let delta_ns = now_ns.wrapping_sub(last_ns) as i64;
        let units = rtp.timestamp.wrapping_sub(last_timestamp) as i32;
        let clock_rate = clock_rate.filter(|_| content != Content::TelephoneEvent);
        let nominal_ns = clock_rate.map(|rate| nominal_ns(units, rate));
        if let Some(nominal_ns) = nominal_ns {
            let deviation_ns = delta_ns.wrapping_sub(nominal_ns).unsigned_abs();
            let deviation_ns = deviation_ns.min(DEVIATION_MAX_NS);
            self.jitter_16 = self.jitter_16 + deviation_ns - ((self.jitter_16 + 8) >> 4);
            self.has_jitter = true;
        }
        if !rtp.marker && !is_noise && !follows_noise && units >= 0 {
            self.deltas.take(delta_ns);
            if nominal_ns.is_some() {
                self.jitters.take((self.jitter_16 >> 4) as i64);
            }
        }
        if units < 0 {
            return;
        }
        self.last = Some((now_ns, rtp.timestamp));
        self.arrival_ns = self.arrival_ns.wrapping_add(delta_ns);
        self.nominal_ns = self.nominal_ns.wrapping_add(nominal_ns.unwrap_or(delta_ns));
        if nominal_ns.is_some() {
            let skew_ns = self.nominal_ns.wrapping_sub(self.arrival_ns);
            if skew_ns.unsigned_abs() > self.skew_max_ns.unsigned_abs() {
                self.skew_max_ns = skew_ns;
            }
            self.drift();
        }
    }

    fn drift(&mut self) {
        self.drift.take(self.arrival_ns as f64, self.nominal_ns as f64);
    }

    /// As the kernel left it, which follows no drift.
    pub(super) fn counted(state: &StreamState) -> Timing {
        Timing {
            deltas: Spread::counted(&state.deltas),
            jitters: Spread::counted(&state.jitters),
            skew_max_ns: state.skew_max_ns,
            last: state.last,
            follows_noise: state.follows_noise,
            jitter_16: state.jitter_16,
            has_jitter: state.has_jitter,
            arrival_ns: state.arrival_ns,
            nominal_ns: state.nominal_ns,
            drift: Line::default(),
        }
    }

    /// What was counted elsewhere of packets that came later. From the last packet here to the
    /// first there is no sample.
    pub(super) fn join(&mut self, later: &Timing) {
        let (deltas, jitters) =
            (self.deltas.with(&later.deltas), self.jitters.with(&later.jitters));
        let is_less = later.skew_max_ns.unsigned_abs() < self.skew_max_ns.unsigned_abs();
        let skew_max_ns = if is_less { self.skew_max_ns } else { later.skew_max_ns };
        let base = if later.has_jitter { later } else { &*self };
        *self = Timing { deltas, jitters, skew_max_ns, drift: Line::default(), ..*base };
    }

    /// The stream began anew: what follows is compared with nothing before.
    pub fn restart(&mut self) {
        self.last = None;
    }

    /// Jitter after the last packet (RFC 3550, section 6.4.1); `None` where it is not known how
    /// fast the timestamp counts, or there was one packet alone.
    pub fn jitter_ns(&self) -> Option<u64> {
        self.has_jitter.then_some(self.jitter_16 >> 4)
    }

    /// By how much the sender's clock is faster than ours, in parts of a million. Unknown of what
    /// the kernel counted.
    pub fn drift_ppm(&self) -> Option<f64> {
        let is_known = self.has_jitter && self.arrival_ns as f64 >= DRIFT_SPAN_MIN_NS;
        let line = &self.drift;
        (is_known && line.variance > 0.0).then(|| (line.covariance / line.variance - 1.0) * 1e6)
    }
}

/// Units of a timestamp, in nanoseconds.
pub(super) fn nominal_ns(units: i32, clock_rate: u32) -> i64 {
    i64::from(units) * 1_000_000_000 / i64::from(clock_rate.max(1))
}
