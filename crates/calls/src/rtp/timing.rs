//! When the packets of a stream came, against when they were due.

use crate::codec::Content;
use ringside_proto::Rtp;

/// Streams that are shorter say nothing of clocks.
const DRIFT_SPAN_MIN_NS: f64 = 10e9;

/// Least, mean and greatest of a number of values, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Spread {
    count: u64,
    min: f64,
    max: f64,
    sum: f64,
}

impl Spread {
    fn take(&mut self, value: f64) {
        self.min = if self.count == 0 { value } else { self.min.min(value) };
        self.max = if self.count == 0 { value } else { self.max.max(value) };
        self.sum += value;
        self.count += 1;
    }

    /// Least, mean and greatest value; `None` of no values.
    pub fn values(&self) -> Option<[f64; 3]> {
        (self.count > 0).then(|| [self.min, self.sum / self.count as f64, self.max])
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

/// Follows the times. Packets are looked at in the order in which they came, without those that
/// came twice.
#[derive(Clone, Copy, Debug, Default)]
pub struct Timing {
    /// Between packets.
    pub deltas: Spread,
    /// Jitter, as it stood after each packet.
    pub jitters: Spread,
    /// What packets are ahead of their due time at most, by amount; negative if they are behind.
    pub skew_max_ns: f64,
    /// Of the last packet that was not behind another in time.
    last: Option<(u64, u32)>,
    follows_noise: bool,
    jitter_ns: f64,
    has_jitter: bool,
    /// Since the first packet: by stamps, and by timestamps.
    arrival_ns: f64,
    nominal_ns: f64,
    drift: Line,
}

impl Timing {
    /// Takes a packet, whose timestamp has `clock_rate` units in a second.
    ///
    /// The rules are Wireshark's: what follows a silence (marker, comfort noise) or is behind in
    /// time is no sample of deltas and jitter; a telephone event has the timestamp of its
    /// beginning, and is a sample of deltas alone.
    pub fn take(&mut self, now_ns: u64, rtp: &Rtp<'_>, content: Content, clock_rate: Option<u32>) {
        let Some((last_ns, last_timestamp)) = self.last.replace((now_ns, rtp.timestamp)) else {
            self.follows_noise = content == Content::ComfortNoise;
            self.drift.take(self.arrival_ns, self.nominal_ns);
            return;
        };
        let delta_ns = now_ns as f64 - last_ns as f64;
        let units = rtp.timestamp.wrapping_sub(last_timestamp) as i32;
        let clock_rate = clock_rate.filter(|_| content != Content::TelephoneEvent);
        let nominal_ns = clock_rate.map(|rate| f64::from(units) * 1e9 / f64::from(rate.max(1)));
        if let Some(nominal_ns) = nominal_ns {
            self.jitter_ns += ((delta_ns - nominal_ns).abs() - self.jitter_ns) / 16.0;
            self.has_jitter = true;
        }
        let is_noise = content == Content::ComfortNoise;
        let is_sample = !rtp.marker && !is_noise && !self.follows_noise && units >= 0;
        self.follows_noise = is_noise;
        if is_sample {
            self.deltas.take(delta_ns);
            if nominal_ns.is_some() {
                self.jitters.take(self.jitter_ns);
            }
        }
        if units < 0 {
            self.last = Some((last_ns, last_timestamp));
            return;
        }
        if let Some(nominal_ns) = nominal_ns {
            self.arrival_ns += delta_ns;
            self.nominal_ns += nominal_ns;
            let skew_ns = self.nominal_ns - self.arrival_ns;
            if skew_ns.abs() > self.skew_max_ns.abs() {
                self.skew_max_ns = skew_ns;
            }
            self.drift.take(self.arrival_ns, self.nominal_ns);
        } else {
            self.arrival_ns += delta_ns;
            self.nominal_ns += delta_ns;
        }
    }

    /// The stream began anew: what follows is compared with nothing before.
    pub fn restart(&mut self) {
        self.last = None;
    }

    /// Jitter after the last packet (RFC 3550, section 6.4.1); `None` where it is not known how
    /// fast the timestamp counts, or there was one packet alone.
    pub fn jitter_ns(&self) -> Option<f64> {
        self.has_jitter.then_some(self.jitter_ns)
    }

    /// By how much the sender's clock is faster than ours, in parts of a million.
    pub fn drift_ppm(&self) -> Option<f64> {
        let is_known = self.has_jitter && self.arrival_ns >= DRIFT_SPAN_MIN_NS;
        let line = &self.drift;
        (is_known && line.variance > 0.0).then(|| (line.covariance / line.variance - 1.0) * 1e6)
    }
}
