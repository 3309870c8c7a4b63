//! The network of `bench xdp`: the generator, one core that deals with its frames, and the end of
//! their way.
//!
//! ```text
//! generator's namespace      under test
//! tx0  ──── frames ────▶  rx0
//!      ◀──── back ──────
//! tx1  ◀── forwarded ───  rx1
//! ```
//!
//! Where frames end, in `tx0` and `tx1`, they are discarded inside the driver by the core that sent
//! them there: one core does everything, and no ring overflows behind it.

use super::super::TOOL_CPU;
use super::super::flood;
use super::super::load::GENERATED_ADDRESS;
use super::super::network::{self, Attached, Placement};
use super::prefixes::{self, DESTINATION_STEP, DESTINATIONS, FIRST_DESTINATION};
use anyhow::Context;
use ringside_ebpf::{LatencyMeter, XdpProgram};
use ringside_lab::{Lab, LabConfig, Napi};
use ringside_netdev::{self as netdev, DeviceStatistics};
use ringside_transmit::{Field, Numbering, Range, Shape, Sizes, Stack, Template};
use std::net::Ipv4Addr;
use std::ops::Sub;
use std::time::{Duration, Instant};

/// Where frames leave the namespace under test, and where they come out.
pub(super) const EXIT: &str = "rx1";
const END: &str = "tx1";
/// Address of the exit, and the next hop behind it with its hardware address.
const EXIT_ADDRESS: &str = "10.2.0.1/24";
pub(super) const NEXT_HOP: &str = "10.2.0.2";
const NEXT_HOP_MAC: &str = "02:52:53:00:00:01";
/// The only route of the small table, and the address that frames are sent to by it.
const ROUTE: &str = "198.19.0.0/16";
const ROUTED_ADDRESS: &str = "198.19.0.1";
/// Hardware address of the interface under test, to which frames are sent.
const ENTRY_MAC: [u8; 6] = [0x02, 0x52, 0x53, 0, 0, 2];
/// Source addresses of the frames, each with a port of its own.
const SOURCES: u32 = 1000;
const FIRST_SOURCE: u32 = 0x0a10_0000;
/// Bytes of a frame; a stamped one is as long.
const FRAME_BYTES: u16 = 64;
/// What is under way at the end of a load has come out when no more came for so long.
const QUIET: Duration = Duration::from_millis(30);
const SETTLE_MAX: Duration = Duration::from_secs(5);

/// The routes of the namespace under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Table {
    /// One, of all frames.
    One,
    /// This number of routes, and frames to 4,000 addresses.
    Full(u32),
}

/// Which network a load needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SiteKey {
    pub(super) placement: Placement,
    pub(super) table: Table,
    /// Where frames come out their times are measured.
    pub(super) has_meter: bool,
}

/// Where frames are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Aim {
    /// To the host itself.
    Host,
    /// Out again, by the routes of this table.
    Through(Table),
}

/// A network; it is removed when this is dropped.
pub(super) struct Site {
    _end: Attached,
    pub(super) meter: Option<LatencyMeter>,
    pub(super) lab: Lab,
}

/// All networks that were needed so far.
#[derive(Default)]
pub(super) struct Sites {
    made: Vec<(SiteKey, Site)>,
}

impl Sites {
    /// The network, which is made at its first use.
    ///
    /// # Errors
    /// It cannot be made.
    pub(super) fn get(&mut self, key: SiteKey) -> anyhow::Result<&Site> {
        if !self.made.iter().any(|(made, _)| *made == key) {
            let site = Site::make(key, self.made.len())?;
            self.made.push((key, site));
        }
        let found = self.made.iter().find(|(made, _)| *made == key);
        Ok(&found.context("the network was made above")?.1)
    }
}

impl Site {
    fn make(key: SiteKey, number: usize) -> anyhow::Result<Site> {
        let lab = Lab::up(&LabConfig {
            name: format!("bench{}-x{number}", std::process::id()),
            pairs: 2,
            napi: match key.placement {
                Placement::Own => Napi::Softirq,
                Placement::Shared => Napi::Pinned(TOOL_CPU),
            },
            sender_napi: Some(Napi::Softirq),
            xdp_pass: false,
            gro: true,
            ..LabConfig::default()
        })?;
        make_router(&lab.status().receiver_namespace, key.table)?;
        let attach = || {
            let ifindex = network::ifindex(END)?;
            match key.has_meter {
                true => {
                    let (meter, attachment) = LatencyMeter::attach(ifindex)?;
                    Ok((Some(meter), attachment))
                }
                false => Ok((None, XdpProgram::drop_all()?.attach(ifindex)?)),
            }
        };
        let (meter, _end) = Attached::by(Some(lab.status().sender_namespace.as_str()), attach)?;
        Ok(Site { _end, meter, lab })
    }

    /// The frames of a load: numbered, or stamped where their times are measured.
    ///
    /// # Errors
    /// None that a build could have.
    pub(super) fn shape(&self, aim: Aim) -> anyhow::Result<Shape> {
        let flows =
            if matches!(aim, Aim::Through(Table::Full(_))) { DESTINATIONS } else { SOURCES };
        let last_source = Ipv4Addr::from(FIRST_SOURCE + flows - 1);
        let sources = format!("{}-{last_source}", Ipv4Addr::from(FIRST_SOURCE));
        let destinations = match aim {
            Aim::Host => Range::parse(Field::DestinationAddress, GENERATED_ADDRESS)?,
            Aim::Through(Table::One) => Range::parse(Field::DestinationAddress, ROUTED_ADDRESS)?,
            Aim::Through(Table::Full(_)) => {
                let last = FIRST_DESTINATION + (DESTINATIONS - 1) * DESTINATION_STEP;
                let text =
                    format!("{}-{}", Ipv4Addr::from(FIRST_DESTINATION), Ipv4Addr::from(last));
                Range::parse(Field::DestinationAddress, &text)?.every(DESTINATION_STEP)
            }
        };
        let ranges = vec![
            Range::parse(Field::SourceAddress, &sources)?,
            Range::parse(Field::SourcePort, "1024-51023")?,
            destinations,
        ];
        let numbering = if self.meter.is_some() { Numbering::Stamp } else { Numbering::Number };
        let template = Template::of(Stack::default());
        let sizes = Sizes::fixed(FRAME_BYTES)?;
        let mut shape = Shape::like(template, ranges, numbering, sizes, flows)?;
        shape.set_destination(ENTRY_MAC);
        shape.discard_received();
        Ok(shape)
    }

    /// What the interfaces have counted, once all that was sent has come where it goes.
    ///
    /// # Errors
    /// They are gone.
    pub(super) fn settled(&self) -> anyhow::Result<Counters> {
        let start = Instant::now();
        let mut before = self.counters()?;
        loop {
            std::thread::sleep(QUIET);
            let now = self.counters()?;
            if now == before || start.elapsed() > SETTLE_MAX {
                return Ok(now);
            }
            before = now;
        }
    }

    /// What the interfaces have counted.
    ///
    /// # Errors
    /// They are gone.
    pub(super) fn counters(&self) -> anyhow::Result<Counters> {
        let status = self.lab.status();
        let statistics = |interface: &str| -> anyhow::Result<DeviceStatistics> {
            let device = netdev::by_name(interface)?;
            Ok(device.with_context(|| format!("{interface} is gone"))?.statistics)
        };
        let (back, out) = network::inside(&status.sender_namespace, || {
            let (back, out) = (statistics(status.sender_interface)?, statistics(END)?);
            Ok((back.rx_packets, out.rx_packets))
        })?;
        let inside = &status.receiver_namespace;
        let refused = network::inside(inside, || {
            let ends = [statistics(status.receiver_interface)?, statistics(EXIT)?];
            Ok(ends.iter().map(|end| end.tx_dropped).sum::<u64>())
        })?;
        let line = format!("ethtool -S {}", status.receiver_interface);
        let said = network::output(inside, &line, "")?;
        let of_queue = |name: &str| {
            let name = format!("rx_queue_0_{name}:");
            let value = said.lines().find_map(|line| line.trim().strip_prefix(&name));
            let count = value.and_then(|value| value.trim().parse().ok());
            count.with_context(|| format!("`{line}` does not show {name}"))
        };
        Ok(Counters {
            back,
            out,
            refused,
            dropped: of_queue("xdp_drops")?,
            redirected: of_queue("xdp_redirect")?,
            lost: of_queue("drops")?,
            host: flood::reached_the_host(&self.lab)?,
        })
    }
}

/// Counters of the network, cumulative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counters {
    /// Frames that came back.
    pub(super) back: u64,
    /// Frames that came out at the other interface.
    pub(super) out: u64,
    /// Frames that the far end's ring had no room for.
    pub(super) refused: u64,
    /// Frames that a program in the driver dropped.
    pub(super) dropped: u64,
    /// Frames that a program in the driver sent elsewhere.
    pub(super) redirected: u64,
    /// Frames that the interface itself lost: a socket that had no room.
    pub(super) lost: u64,
    /// Frames that came as far as the host's port.
    pub(super) host: u64,
}

impl Sub for Counters {
    type Output = Counters;

    fn sub(self, before: Counters) -> Counters {
        Counters {
            back: self.back - before.back,
            out: self.out - before.out,
            refused: self.refused - before.refused,
            dropped: self.dropped - before.dropped,
            redirected: self.redirected - before.redirected,
            lost: self.lost - before.lost,
            host: self.host - before.host,
        }
    }
}

/// Makes the namespace under test a router that is also the host which frames may be sent to.
fn make_router(namespace: &str, table: Table) -> anyhow::Result<()> {
    for (setting, value) in [
        ("conf/all/forwarding", "1"),
        ("conf/all/rp_filter", "0"),
        ("conf/default/rp_filter", "0"),
        ("conf/rx0/rp_filter", "0"),
        ("conf/rx1/rp_filter", "0"),
    ] {
        network::tool(namespace, &format!("tee /proc/sys/net/ipv4/{setting}"), value)?;
    }
    for line in [
        format!("address add {GENERATED_ADDRESS}/32 dev rx0"),
        format!("address add {EXIT_ADDRESS} dev {EXIT}"),
        format!("neighbour replace {NEXT_HOP} lladdr {NEXT_HOP_MAC} dev {EXIT} nud permanent"),
        format!("route add {ROUTE} via {NEXT_HOP}"),
    ] {
        network::tool(namespace, &format!("ip {line}"), "")?;
    }
    match table {
        Table::One => Ok(()),
        Table::Full(count) => {
            network::tool(namespace, "ip -batch -", &prefixes::routes(count, NEXT_HOP))
        }
    }
}
