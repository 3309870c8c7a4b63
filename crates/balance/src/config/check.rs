//! Makes a checked configuration of the words of one.

use super::text::{RawConfig, RawQuicLb, RawReal, RawState, RawVip, Text};
use super::*;
use crate::error::Problem;
use crate::maglev::{SLOTS_DEFAULT, WEIGHT_MAX, is_prime, prime_from};
use crate::prefix::PrefixError;
use crate::quic::{SERVER_ID_BYTES_MAX, number};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::hash::Hash;
use toml::Spanned;

const MTU_DEFAULT: i64 = 1_500;
/// As Linux has it, and Katran.
const GUE_PORT_DEFAULT: i64 = 6_080;
const FLOWS_DEFAULT: i64 = 1 << 18;
const NEW_FLOWS_DEFAULT: i64 = 125_000;
const CHANGE_WINDOW_DEFAULT_S: i64 = 300;

/// What has been seen, with the byte where that was.
struct Seen<K>(HashMap<K, usize>);

impl<K: Hash + Eq> Seen<K> {
    fn add(
        &mut self,
        text: &Text<'_>,
        key: K,
        at: usize,
        what: impl Fn() -> String,
    ) -> Result<(), ConfigError> {
        match self.0.insert(key, at) {
            None => Ok(()),
            Some(before) => {
                let problem = Problem::Twice { what: what(), line: text.line(before) };
                Err(text.error(at, problem))
            }
        }
    }
}

/// Checks a configuration.
pub fn config(text: &Text<'_>) -> Result<Config, ConfigError> {
    let raw = text.raw()?;
    let range = |value, field, default, min, max| number_in(text, value, field, default, min, max);
    let flows = range(&raw.flows_per_cpu, "flows_per_cpu", FLOWS_DEFAULT, 8, FLOWS_MAX.into())?;
    let guard = (&raw.new_flows_per_second_max, "new_flows_per_second_max", NEW_FLOWS_DEFAULT);
    let window = (&raw.change_window_s, "change_window_s", CHANGE_WINDOW_DEFAULT_S);
    let config = Config {
        source_v4: source(text, &raw.source_v4, true)?,
        source_v6: source(text, &raw.source_v6, false)?,
        mtu: range(&raw.mtu, "mtu", MTU_DEFAULT, MTU_MIN.into(), MTU_MAX.into())?,
        gue_port: range(&raw.gue_port, "gue_port", GUE_PORT_DEFAULT, 1, 65_535)? as u16,
        // Powers of two up to the greatest, which is one.
        flows_per_cpu: flows.next_power_of_two(),
        new_flows_per_second_max: range(guard.0, guard.1, guard.2, 0, i64::from(u32::MAX))?,
        change_window_s: range(window.0, window.1, window.2, 0, SECONDS_MAX.into())?,
        vips: vips(text, &raw)?,
    };
    for (vip, raw) in config.vips.iter().zip(&raw.vip) {
        tunnels_begin_somewhere(text, &config, vip, raw.get_ref())?;
    }
    Ok(config)
}

fn vips(text: &Text<'_>, raw: &RawConfig) -> Result<Vec<Vip>, ConfigError> {
    let (mut names, mut places) = (Seen(HashMap::new()), Seen(HashMap::new()));
    let mut lengths: BTreeMap<bool, BTreeSet<u8>> = BTreeMap::new();
    let (mut reals, mut slots, mut ids) = (0, 0, 0);
    let mut vips = Vec::new();
    for raw in &raw.vip {
        let at = raw.span().start;
        let too_many = |what, max, fix| Err(text.error(at, Problem::TooMany { what, max, fix }));
        let vip = vip(text, raw.get_ref())?;
        let (name, prefix, port) = (&vip.name, vip.prefix, vip.port);
        names.add(text, name.clone(), at, || format!("a VIP named {name:?}"))?;
        let is_tcp = vip.protocol == Protocol::Tcp;
        places.add(text, (prefix, port, is_tcp), at, || {
            let port = port.map_or("any port".into(), |port| format!("port {port}"));
            format!("a VIP of {prefix}, {port} and {}", if is_tcp { "TCP" } else { "UDP" })
        })?;
        let lengths = lengths.entry(prefix.address().is_ipv4()).or_default();
        lengths.insert(prefix.bits());
        if lengths.len() > PREFIX_LENGTHS_MAX {
            let fix = "write longer prefixes as several shorter ones, or the reverse";
            return too_many("lengths of VIPs' prefixes", PREFIX_LENGTHS_MAX, fix);
        }
        reals += vip.reals.len();
        if reals > REALS_MAX {
            return too_many("reals", REALS_MAX, "divide the VIPs among several balancers");
        }
        ids += vip.reals.iter().map(|real| server_ids(&vip, real)).sum::<usize>();
        if ids > SERVER_IDS_MAX {
            let fix = "give reals fewer of them, or divide the VIPs among several balancers";
            return too_many("server ids in all rotations", SERVER_IDS_MAX, fix);
        }
        slots += vip.slots as usize;
        if slots > SLOTS_SUM_MAX {
            let fix = "give VIPs with few reals fewer slots, as slots = 1021";
            return too_many("slots of all VIPs", SLOTS_SUM_MAX, fix);
        }
        vips.push(vip);
        if vips.len() > VIPS_MAX {
            return too_many("VIPs", VIPS_MAX, "divide them among several balancers");
        }
    }
    Ok(vips)
}

/// Entries of the index that a real's server ids take.
fn server_ids(vip: &Vip, real: &Real) -> usize {
    let rotations =
        |id: &ServerId| vip.server_id_bytes.iter().filter(|bytes| **bytes == id.bytes).count();
    real.server_ids.iter().map(rotations).sum()
}

fn vip(text: &Text<'_>, raw: &RawVip) -> Result<Vip, ConfigError> {
    let prefix = prefix(text, &raw.address)?;
    if let Some(problem) = wrong_host(prefix.address(), "the address of a VIP") {
        return Err(text.error_at(raw.address.span(), problem));
    }
    let timeout = match raw.protocol {
        Protocol::Tcp => 3_600,
        Protocol::Udp => 30,
        Protocol::Quic => 60,
    };
    let server_id_bytes = rotations(text, raw)?;
    let mut vip = Vip {
        name: name(text, &raw.name)?,
        prefix,
        port: match raw.port {
            None => None,
            Some(_) => Some(number_in(text, &raw.port, "port", 0, 1, 65_535)? as u16),
        },
        protocol: raw.protocol,
        timeout_s: number_in(text, &raw.timeout_s, "timeout_s", timeout, 1, SECONDS_MAX.into())?,
        affinity: raw.affinity.unwrap_or(Affinity::Flow),
        echo: raw.echo.unwrap_or(true),
        slots: slots(text, &raw.slots)?,
        via: raw.via.unwrap_or(Via::Ipip),
        server_id_bytes,
        health: None,
        reals: Vec::new(),
    };
    vip.health = health::check(text, &vip, &raw.health)?;
    let (mut addresses, mut ids) = (Seen(HashMap::new()), Seen(HashMap::new()));
    for raw in &raw.real {
        let at = raw.span().start;
        let real = real(text, &vip, raw.get_ref())?;
        let address = real.address;
        addresses.add(text, address, at, || format!("the real {address} of this VIP"))?;
        for (id, raw) in real.server_ids.iter().zip(&raw.get_ref().server_ids) {
            let what = || format!("the server id {:?} in this VIP", raw.get_ref());
            ids.add(text, *id, raw.span().start, what)?;
        }
        vip.reals.push(real);
    }
    Ok(vip)
}

fn real(text: &Text<'_>, vip: &Vip, raw: &RawReal) -> Result<Real, ConfigError> {
    let at = raw.address.span();
    let found = prefix(text, &raw.address)?;
    let address = found.address();
    if found.bits() != found.bits_max() {
        let problem = Problem::NotOne { text: raw.address.get_ref().clone() };
        return Err(text.error_at(at, problem));
    }
    if let Some(problem) = wrong_host(address, "the address of a real") {
        return Err(text.error_at(at, problem));
    }
    if vip.prefix.address().is_ipv6() && address.is_ipv4() && vip.via != Via::Direct {
        let what = "a real of an IPv6 VIP";
        let fix = "there is no tunnel of IPv6 over IPv4: give an IPv6 address";
        return Err(text.error_at(at, Problem::Address { address, what, fix }));
    }
    let state = match (raw.state.unwrap_or(RawState::Up), &raw.drain_s) {
        (RawState::Draining, drain_s) => RealState::Draining {
            drain_s: number_in(
                text,
                drain_s,
                "drain_s",
                DRAIN_DEFAULT_S.into(),
                0,
                SECONDS_MAX.into(),
            )?,
        },
        (_, Some(drain_s)) => return Err(text.error_at(drain_s.span(), Problem::NotDraining)),
        (RawState::Up, None) => RealState::Up,
        (RawState::Down, None) => RealState::Down,
    };
    let next_hop = raw.next_hop.as_ref().map(|hop| mac(text, hop)).transpose()?;
    let server_ids = raw.server_ids.iter().map(|id| server_id(text, vip, id));
    Ok(Real {
        address,
        weight: number_in(text, &raw.weight, "weight", 1, 0, WEIGHT_MAX.into())?,
        state,
        next_hop,
        server_ids: server_ids.collect::<Result<_, _>>()?,
    })
}

/// Tunnels bear an address of their own version where they begin.
fn tunnels_begin_somewhere(
    text: &Text<'_>,
    config: &Config,
    vip: &Vip,
    raw: &RawVip,
) -> Result<(), ConfigError> {
    if vip.via == Via::Direct {
        return Ok(());
    }
    for (real, raw) in vip.reals.iter().zip(&raw.real) {
        let address = real.address;
        let (source, field) = match address {
            IpAddr::V4(_) => (config.source_v4, "source_v4"),
            IpAddr::V6(_) => (config.source_v6, "source_v6"),
        };
        if source.is_none() {
            let at = raw.get_ref().address.span();
            return Err(text.error_at(at, Problem::NoSource { address, field }));
        }
    }
    Ok(())
}

fn source(
    text: &Text<'_>,
    value: &Option<Spanned<String>>,
    is_v4: bool,
) -> Result<Option<Prefix>, ConfigError> {
    let Some(value) = value else { return Ok(None) };
    let found = prefix(text, value)?;
    let address = found.address();
    let problem = match (is_v4, address.is_ipv4()) {
        (true, false) => {
            let (what, fix) = ("a source of tunnels over IPv4", "write it as source_v6");
            Some(Problem::Address { address, what, fix })
        }
        (false, true) => {
            let (what, fix) = ("a source of tunnels over IPv6", "write it as source_v4");
            Some(Problem::Address { address, what, fix })
        }
        _ => wrong_host(address, "a source of tunnels"),
    };
    problem.map_or(Ok(Some(found)), |problem| Err(text.error_at(value.span(), problem)))
}

/// Addresses that are no host's, and that no frame may have as its destination or source.
pub(super) fn wrong_host(address: IpAddr, what: &'static str) -> Option<Problem> {
    let is_broadcast = matches!(address, IpAddr::V4(v4) if v4.is_broadcast());
    let is_wrong = address.is_multicast() || address.is_loopback() || is_broadcast;
    let fix = "give the address of a host or of a network of hosts";
    (is_wrong || address.is_unspecified()).then_some(Problem::Address { address, what, fix })
}

fn prefix(text: &Text<'_>, value: &Spanned<String>) -> Result<Prefix, ConfigError> {
    let parsed: Result<Prefix, PrefixError> = value.get_ref().parse();
    parsed.map_err(|reason| {
        let problem = Problem::Prefix { text: shown(value), reason };
        text.error_at(value.span(), problem)
    })
}

fn mac(text: &Text<'_>, value: &Spanned<String>) -> Result<MacAddr, ConfigError> {
    let of_one_host = |mac: &MacAddr| mac.0[0] & 1 == 0 && mac.0 != [0; 6];
    value
        .get_ref()
        .parse()
        .ok()
        .filter(of_one_host)
        .ok_or_else(|| text.error_at(value.span(), Problem::Mac { text: shown(value) }))
}

fn name(text: &Text<'_>, value: &Spanned<String>) -> Result<String, ConfigError> {
    let name = value.get_ref();
    let chars = name.chars().count();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if !(1..=NAME_CHARS_MAX).contains(&chars) || !name.chars().all(is_plain) {
        let problem = Problem::Name { name: shown(value), chars, chars_max: NAME_CHARS_MAX };
        return Err(text.error_at(value.span(), problem));
    }
    Ok(name.clone())
}

/// What is quoted of a text: a line of it.
pub(super) fn shown(value: &Spanned<String>) -> String {
    value.get_ref().chars().take(2 * NAME_CHARS_MAX).collect()
}

fn slots(text: &Text<'_>, value: &Option<Spanned<i64>>) -> Result<u32, ConfigError> {
    let Some(value) = value else { return Ok(SLOTS_DEFAULT) };
    let slots = u32::try_from(*value.get_ref()).unwrap_or(u32::MAX);
    let instead = prime_from(slots);
    if slots != instead || !is_prime(slots) {
        return Err(text.error_at(value.span(), Problem::Slots { slots, instead }));
    }
    Ok(slots)
}

fn rotations(text: &Text<'_>, raw: &RawVip) -> Result<[u8; ROTATIONS], ConfigError> {
    let mut server_id_bytes = [0; ROTATIONS];
    let Some(lines) = &raw.quic_lb else { return Ok(server_id_bytes) };
    if raw.protocol != Protocol::Quic {
        return Err(text.error_at(lines.span(), Problem::NotQuic { field: "quic_lb" }));
    }
    let mut seen = Seen(HashMap::new());
    for RawQuicLb { rotation, server_id_bytes: bytes } in lines.get_ref() {
        let at = rotation.span().start;
        let check = |value: &Spanned<i64>, field, min, max| {
            in_range(text, value, field, min, max).map(|value| value as u8)
        };
        let number = check(rotation, "rotation", 0, ROTATIONS as i64 - 1)?;
        seen.add(text, number, at, || format!("rotation {number} of this VIP"))?;
        server_id_bytes[usize::from(number)] =
            check(bytes, "server_id_bytes", 1, SERVER_ID_BYTES_MAX as i64)?;
    }
    Ok(server_id_bytes)
}

fn server_id(text: &Text<'_>, vip: &Vip, value: &Spanned<String>) -> Result<ServerId, ConfigError> {
    if vip.protocol != Protocol::Quic {
        return Err(text.error_at(value.span(), Problem::NotQuic { field: "server_ids" }));
    }
    let digits: Option<Vec<u8>> =
        value.get_ref().chars().map(|c| c.to_digit(16).map(|digit| digit as u8)).collect();
    let wrong = || text.error_at(value.span(), Problem::ServerId { text: shown(value) });
    let (pairs, odd) = match &digits {
        Some(digits) => digits.as_chunks::<2>(),
        None => return Err(wrong()),
    };
    if !odd.is_empty() || !(1..=SERVER_ID_BYTES_MAX).contains(&pairs.len()) {
        return Err(wrong());
    }
    let bytes: Vec<u8> = pairs.iter().map(|[high, low]| high << 4 | low).collect();
    if vip.server_id_bytes.iter().all(|length| usize::from(*length) != bytes.len()) {
        let problem = Problem::ServerIdLength { bytes: bytes.len() };
        return Err(text.error_at(value.span(), problem));
    }
    Ok(ServerId { number: number(&bytes), bytes: bytes.len() as u8 })
}

/// A number within its limits, which are within 32 bits; `default` where it is not given.
pub(super) fn number_in(
    text: &Text<'_>,
    value: &Option<Spanned<i64>>,
    field: &'static str,
    default: i64,
    min: i64,
    max: i64,
) -> Result<u32, ConfigError> {
    match value {
        None => Ok(default as u32),
        Some(value) => in_range(text, value, field, min, max),
    }
}

fn in_range(
    text: &Text<'_>,
    value: &Spanned<i64>,
    field: &'static str,
    min: i64,
    max: i64,
) -> Result<u32, ConfigError> {
    let (span, value) = (value.span(), *value.get_ref());
    match (min..=max).contains(&value) {
        true => Ok(value as u32),
        false => Err(text.error_at(span, Problem::Range { field, value, min, max })),
    }
}
