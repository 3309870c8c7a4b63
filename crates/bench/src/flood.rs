//! The flood of the measurements: small UDP frames from many made-up sources, to a closed port of
//! the host.

use super::load::SENDER_CPU;
use super::network;
use anyhow::Context;
use ringside_lab::Lab;
use ringside_netdev as netdev;
use ringside_transmit::{Job, Limits, Load, Report, SenderKind, Shape, Sizes};
use std::time::Duration;

/// Source addresses, each with a port of its own: 10.16.0.0 and those behind it.
pub(super) const SOURCES: u32 = 10_000;
/// The port that it is sent to.
pub(super) const PORT: u16 = 9;
/// Bytes of a frame.
pub(super) const FRAME_BYTES: u16 = 64;

/// The memory of the frames: see [`Shape::keep_pages`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pages {
    /// Each frame is written when it is sent: all sources in turn.
    Written,
    /// Sent again as they are, as if a card had put them in place.
    Kept,
}

/// Sends for `duration` or until `stop` says so, evenly at a rate or as fast as it goes.
///
/// # Errors
/// The network refused, or the system did.
pub(super) fn send(
    lab: &Lab,
    pages: Pages,
    rate_per_sec: Option<u64>,
    duration: Duration,
    stop: &(dyn Fn() -> bool + Sync),
) -> anyhow::Result<Report> {
    let status = lab.status();
    let hardware_address = network::inside(&status.receiver_namespace, || {
        let device = netdev::by_name(status.receiver_interface)?;
        Ok(device.context("the receiving interface is gone")?.hardware_address)
    })?;
    let destination = hardware_address.try_into().ok().context("no Ethernet address")?;
    let mut shape = Shape::new(Sizes::fixed(FRAME_BYTES)?, SOURCES)?;
    shape.set_destination(destination);
    if pages == Pages::Kept {
        shape.keep_pages();
    }
    send_shape(lab, shape, rate_per_sec, duration, stop)
}

/// Sends frames of that shape, as above.
///
/// # Errors
/// The network refused, or the system did.
pub(super) fn send_shape(
    lab: &Lab,
    shape: Shape,
    rate_per_sec: Option<u64>,
    duration: Duration,
    stop: &(dyn Fn() -> bool + Sync),
) -> anyhow::Result<Report> {
    let job = Job {
        sender: if rate_per_sec.is_some() { SenderKind::Even } else { SenderKind::Live },
        wire: lab.wire(),
        load: Load::Numbered(shape),
        cpus: vec![SENDER_CPU],
        rate_per_sec,
        limits: Limits::new(None, Some(duration))?,
    };
    Ok(ringside_transmit::run(&job, stop)?)
}

/// Datagrams that the host's stack took as far as a closed port, so far.
///
/// # Errors
/// The namespace is gone.
pub(super) fn reached_the_host(lab: &Lab) -> anyhow::Result<u64> {
    let file = "/proc/thread-self/net/snmp";
    let text = network::inside(&lab.status().receiver_namespace, || {
        std::fs::read_to_string(file).with_context(|| format!("reading {file}"))
    })?;
    no_ports(&text).with_context(|| format!("{file} has no Udp NoPorts"))
}

/// The field `NoPorts` of the line pair `Udp:`, names above values.
fn no_ports(snmp: &str) -> Option<u64> {
    let mut lines = snmp.lines().filter_map(|line| line.strip_prefix("Udp:"));
    let (names, values) = (lines.next()?, lines.next()?);
    let place = names.split_whitespace().position(|name| name == "NoPorts")?;
    values.split_whitespace().nth(place)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counter_is_found_by_its_name() {
        let text = "Tcp: RtoAlgorithm NoPorts\nTcp: 1 2\n\
                    Udp: InDatagrams NoPorts InErrors\nUdp: 5 4711 7\nUdpLite: NoPorts\n";
        assert_eq!(no_ports(text), Some(4711));
        for wrong in ["", "Udp: NoPorts", "Udp: InDatagrams\nUdp: 5", "Udp: NoPorts\nUdp: many"] {
            assert_eq!(no_ports(wrong), None, "{wrong}");
        }
    }
}
