//! The ledgers as metrics, for Prometheus: the same numbers.

use crate::problem::Problem;
use crate::service::Service;
use crate::watch::{Capture, Captures};
use axum::extract::State;
use axum::response::IntoResponse;
use prometheus_client::encoding::prometheus_text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use ringside_core::ledger::ByCause;
use ringside_core::{Cause, LaneCounters};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

type Labels = Vec<(&'static str, String)>;
/// The labels of a capture, with further ones.
type LabelsOf<'f> = dyn Fn(&[(&'static str, &str)]) -> Labels + 'f;
type Counters = Family<Labels, Counter>;
type Gauges = Family<Labels, Gauge<u64, AtomicU64>>;

/// What is counted of all captures.
#[derive(Default)]
struct Metrics {
    running: Family<Labels, Gauge<f64, AtomicU64>>,
    received: Counters,
    taken: Counters,
    taken_bytes: Counters,
    passed: Counters,
    filtered: Counters,
    dropped: Counters,
    in_flight: Gauges,
    delivered: Counters,
    missed: Counters,
    late: Counters,
    ring_bytes: Gauges,
    ring_held: Gauges,
    unreachable: Gauge<u64, AtomicU64>,
}

/// The ledgers of all captures in the text format of Prometheus.
#[utoipa::path(
    get, path = "/metrics", tag = "captures",
    responses((status = 200, body = String, content_type = "text/plain"))
)]
pub async fn text(State(service): State<Arc<Service>>) -> Result<impl IntoResponse, Problem> {
    let text = encoded(&service.watch.latest().captures);
    let text = text.map_err(|error| Problem::failed(&error.into()))?;
    Ok(super::of_type("text/plain; version=0.0.4; charset=utf-8", text))
}

fn encoded(captures: &Captures) -> Result<String, std::fmt::Error> {
    let (mut registry, metrics) = (Registry::with_prefix("ringside"), Metrics::default());
    metrics.register(&mut registry);
    metrics.unreachable.set(captures.unreachable.len() as u64);
    captures.captures.iter().for_each(|capture| metrics.add(capture));
    let mut text = String::new();
    encode(&mut text, &registry)?;
    Ok(text)
}

impl Metrics {
    fn register(&self, registry: &mut Registry) {
        let counters = [
            ("received_frames", "Frames that the interface accepted", &self.received),
            ("taken_frames", "Frames taken into the ring", &self.taken),
            ("taken_bytes", "Captured bytes of frames taken", &self.taken_bytes),
            ("passed_frames", "Frames left to the host", &self.passed),
            ("filtered_frames", "Frames that the filter did not want", &self.filtered),
            ("dropped_frames", "Frames dropped before the ring, by cause", &self.dropped),
            ("delivered_frames", "Frames that a reader of the ring got", &self.delivered),
            (
                "missed_frames",
                "Frames that a reader of the ring did not get, by cause",
                &self.missed,
            ),
            ("late_frames", "Frames delivered after a younger one", &self.late),
        ];
        for (name, help, family) in counters {
            registry.register(name, help, family.clone());
        }
        let gauges = [
            ("in_flight_frames", "Frames accepted and not yet taken", &self.in_flight),
            ("ring_lane_bytes", "Size of each lane's part of the ring", &self.ring_bytes),
            ("ring_held_bytes", "Bytes that wait in a lane's part of the ring", &self.ring_held),
        ];
        for (name, help, family) in gauges {
            registry.register(name, help, family.clone());
        }
        let help = "How long the capture has been running";
        registry.register("running_seconds", help, self.running.clone());
        let help = "Captures that run and could not be asked";
        registry.register("unreachable_captures", help, self.unreachable.clone());
    }

    fn add(&self, capture: &Capture) {
        let status = &capture.status;
        let of = |labels: &[(&'static str, &str)]| -> Labels {
            let own = ("capture", capture.id.to_string());
            let others = labels.iter().map(|&(name, value)| (name, value.to_owned()));
            std::iter::once(own).chain(others).collect()
        };
        self.running.get_or_create(&of(&[])).set(status.running_ms as f64 / 1_000.0);
        for lane in &status.ledger.lanes {
            self.add_lane(lane, &|more| {
                of(&[&[("interface", lane.interface.as_str())], more].concat())
            });
        }
        for consumer in &status.ledger.consumers {
            let reader = [("reader", consumer.name.as_str())];
            self.delivered.get_or_create(&of(&reader)).inc_by(consumer.delivered);
            self.late.get_or_create(&of(&reader)).inc_by(consumer.late);
            let of_reader = |more: &[(&'static str, &str)]| of(&[&reader[..], more].concat());
            add_causes(&self.missed, &consumer.missed, &of_reader);
        }
        if let Some(ring) = &status.ring {
            self.ring_bytes.get_or_create(&of(&[])).set(ring.lane_bytes as u64);
            for (lane, &held) in ring.held_bytes.iter().enumerate() {
                let lane = lane.to_string();
                self.ring_held.get_or_create(&of(&[("lane", &lane)])).set(held as u64);
            }
        }
    }

    /// What cannot be counted is left out: a missing series is not 0.
    fn add_lane(&self, lane: &LaneCounters, of: &LabelsOf<'_>) {
        let labels = of(&[]);
        let counts = [
            (&self.received, lane.received),
            (&self.taken, Some(lane.taken)),
            (&self.taken_bytes, Some(lane.taken_bytes)),
            (&self.passed, Some(lane.passed)),
            (&self.filtered, lane.filtered),
        ];
        for (family, count) in counts {
            if let Some(count) = count {
                family.get_or_create(&labels).inc_by(count);
            }
        }
        if let Some(frames) = lane.in_flight {
            self.in_flight.get_or_create(&labels).inc_by(frames);
        }
        add_causes(&self.dropped, &lane.dropped, of);
    }
}

/// Counts by cause, each with whether it is a loss. What may be lost has a series from the start:
/// one that begins with its first loss is no increase to Prometheus.
fn add_causes(family: &Counters, by_cause: &ByCause, of: &LabelsOf<'_>) {
    for cause in Cause::ALL {
        let frames = by_cause.get(&cause).copied();
        let is_loss = if cause.is_loss() { "yes" } else { "no" };
        if let Some(frames) = frames.or(cause.is_loss().then_some(0)) {
            let labels = of(&[("cause", cause.name()), ("loss", is_loss)]);
            family.get_or_create(&labels).inc_by(frames);
        }
    }
}
