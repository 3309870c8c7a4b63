//! A stream as an object. What is unknown is null.

use crate::call::Call;
use crate::rtp::Spread;
use crate::stream::{Quality, Rtcp, Stream};
use serde_json::{Value, json};

/// All that a stream of a call has.
pub(super) fn of_stream(stream: &Stream, call: &Call) -> Value {
    let statistics = &stream.statistics;
    let timing = &statistics.timing;
    let (key, quality) = (&stream.key, stream.quality());
    let mut object = json!({
        "source": key.source.0.to_string(),
        "source_port": key.source.1,
        "destination": key.destination.0.to_string(),
        "destination_port": key.destination.1,
        "ssrc": format!("{:#010x}", key.ssrc),
        "codec": stream.codec.as_ref().map(|codec| codec.name.clone()),
        "clock_rate": stream.codec.as_ref().map(|codec| codec.clock_rate),
        "payload_type": stream.payload_type,
        "first_ns": stream.first_ns,
        "last_ns": stream.last_ns,
        "packets": statistics.packets,
        "payload_bytes": statistics.payload_bytes,
        "expected": statistics.expected(),
        "lost": statistics.lost(),
        "duplicates": statistics.duplicates,
        "out_of_order": statistics.out_of_order,
        "stray": statistics.stray,
        "restarts": statistics.restarts,
        "malformed": statistics.malformed,
        "jitter_ns": timing.jitter_ns(),
        "skew_max_ns": timing.jitter_ns().map(|_| timing.skew_max_ns),
        "clock_drift_ppm": timing.drift_ppm().map(|ppm| places(ppm, 1)),
        "dtmf": (!stream.digits.is_empty()).then(|| stream.digits.clone()),
        "rtcp": of_rtcp(&stream.rtcp),
        "bursts": of_bursts(stream),
        "quality": quality.map(|quality| of_quality(&quality, stream, call)),
    });
    spread(&mut object, "delta", &timing.deltas);
    spread(&mut object, "jitter", &timing.jitters);
    object
}

fn spread(object: &mut Value, name: &str, of: &Spread) {
    let values = of.values().map(|values| values.map(whole));
    for (at, what) in ["min", "mean", "max"].into_iter().enumerate() {
        object[format!("{name}_{what}_ns")] = values.map(|values| values[at]).into();
    }
}

/// Nanoseconds are whole.
fn whole(ns: f64) -> i64 {
    ns.round() as i64
}

fn places(value: f64, places: i32) -> f64 {
    let scale = 10f64.powi(places);
    (value * scale).round() / scale
}

fn of_bursts(stream: &Stream) -> Value {
    let bursts = stream.statistics.bursts();
    let gap_packets = bursts.packets - bursts.burst_packets;
    let gap_losses = bursts.unplayed() - bursts.burst_losses;
    let percent = |part: u64, of: u64| (of > 0).then(|| places(100.0 * part as f64 / of as f64, 3));
    let has_buffer = stream.codec.is_some();
    json!({
        "discarded": has_buffer.then_some(bursts.discarded),
        "count": bursts.bursts,
        "packets": bursts.burst_packets,
        "density_percent": percent(bursts.burst_losses, bursts.burst_packets),
        "gap_packets": gap_packets,
        "gap_density_percent": percent(gap_losses, gap_packets),
    })
}

/// What parties said, each in its own words.
fn of_rtcp(rtcp: &Rtcp) -> Value {
    let reception = rtcp.reception.map(|report| {
        json!({
            "fraction_lost": places(f64::from(report.fraction_lost) / 256.0, 4),
            "lost": report.lost,
            "jitter": report.jitter,
        })
    });
    let voip = rtcp.voip.map(|metrics| {
        json!({
            "loss_rate": places(f64::from(metrics.loss_rate) / 256.0, 4),
            "discard_rate": places(f64::from(metrics.discard_rate) / 256.0, 4),
            "round_trip_ms": metrics.round_trip_ms,
            "end_system_ms": metrics.end_system_ms,
            "r_factor": metrics.r_factor,
            "mos_lq": metrics.mos_lq.map(|mos| f64::from(mos) / 10.0),
            "mos_cq": metrics.mos_cq.map(|mos| f64::from(mos) / 10.0),
        })
    });
    json!({
        "sender_reports": rtcp.sender_reports,
        "reception_reports": rtcp.reception_reports,
        "round_trip_ns": rtcp.round_trip_ns,
        "reception": reception,
        "voip": voip,
    })
}

/// R and MOS with all that they were made of.
fn of_quality(quality: &Quality, stream: &Stream, call: &Call) -> Value {
    let delay_ms = call.one_way_ms(stream);
    let conversation = delay_ms.map(|delay_ms| quality.with_delay(delay_ms));
    json!({
        "r": places(quality.r, 2),
        "mos_lq": places(quality.mos, 2),
        "r_cq": conversation.map(|(r, _)| places(r, 2)),
        "mos_cq": conversation.map(|(_, mos)| places(mos, 2)),
        "ie": quality.ie,
        "bpl": quality.bpl,
        "loss_percent": places(quality.loss_percent, 4),
        "burst_ratio": places(quality.burst_ratio, 3),
        "delay_ms": delay_ms.map(|delay_ms| places(delay_ms, 3)),
        "buffer_ms": crate::rtp::JitterBuffer::DEPTH_NS / 1_000_000,
    })
}

impl Call {
    /// One way from mouth to ear of a stream, in milliseconds: half of both round trips, from here
    /// to either party, and the jitter buffer. Unknown unless RTCP reported both.
    pub fn one_way_ms(&self, stream: &Stream) -> Option<f64> {
        let is_back = |other: &&Stream| other.key.destination.0 == stream.key.source.0;
        let mut back = self.streams.iter().filter(is_back);
        let there_ns = stream.rtcp.round_trip_ns?;
        let back_ns = back.find_map(|other| other.rtcp.round_trip_ns)?;
        let buffer_ns = crate::rtp::JitterBuffer::DEPTH_NS as f64;
        Some(((there_ns as f64 + back_ns as f64) / 2.0 + buffer_ns) / 1e6)
    }
}
