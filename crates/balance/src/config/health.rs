//! How it is found out whether a VIP's reals answer.

use super::check::{number_in, shown, wrong_host};
use super::text::{RawHealth, RawKind, Text};
use super::{Config, Vip};
use crate::error::{ConfigError, Problem};
use crate::prefix::Prefix;
use std::net::IpAddr;
use toml::Spanned;

const INTERVAL_DEFAULT_MS: i64 = 2_000;
const TIMEOUT_DEFAULT_MS: i64 = 1_000;
const RISE_DEFAULT: i64 = 2;
const FALL_DEFAULT: i64 = 3;
/// Between two questions to a real: ten a second to an hour.
const INTERVAL_MS: (i64, i64) = (100, 3_600_000);
/// How long an answer may take: it is looked for 20 times a second, some times for one answer.
const TIMEOUT_MS: (i64, i64) = (250, 60_000);
/// Questions in a row.
const ROW_MAX: i64 = 100;
/// Characters of a path, of a host name, and bytes of a question or answer of UDP: each fits a
/// packet.
const PATH_CHARS_MAX: usize = 512;
const HOST_CHARS_MAX: usize = 255;
const PAYLOAD_BYTES_MAX: usize = 512;

/// What each real of a VIP is asked, and when its answers count.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HealthCheck {
    /// The question.
    pub question: Question,
    /// To which address of the VIP.
    pub address: IpAddr,
    /// To which port.
    pub port: u16,
    /// Milliseconds from one question to the next.
    pub interval_ms: u32,
    /// Milliseconds that an answer may take.
    pub timeout_ms: u32,
    /// After this number of good answers in a row a real that was down is up.
    pub rise: u32,
    /// After this number in a row that are missing or bad it is down.
    pub fall: u32,
}

/// A question.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Question {
    /// Whether a connection comes about.
    Tcp,
    /// Whether a request is answered.
    Http {
        /// What is asked for.
        path: String,
        /// Whom.
        host: String,
        /// The good answer; any of 200 to 399 if there is none.
        status: Option<u16>,
    },
    /// Whether a datagram is answered.
    Udp {
        /// Its payload.
        send: Vec<u8>,
        /// How a good answer begins.
        expect: Vec<u8>,
    },
}

/// Checks what is said of a VIP's health.
pub(super) fn check(
    text: &Text<'_>,
    vip: &Vip,
    raw: &Option<Spanned<RawHealth>>,
) -> Result<Option<HealthCheck>, ConfigError> {
    let Some(spanned) = raw else { return Ok(None) };
    let raw = spanned.get_ref();
    fields_fit(text, raw)?;
    let range = |value, field, default, (min, max): (i64, i64)| {
        number_in(text, value, field, default, min, max)
    };
    let port = match (raw.port.is_some(), vip.port) {
        (true, _) => number_in(text, &raw.port, "port", 0, 1, 65_535)? as u16,
        (false, Some(port)) => port,
        (false, None) => return Err(text.error_at(spanned.span(), Problem::HealthPort)),
    };
    let address = match &raw.address {
        None => vip.prefix.address(),
        Some(value) => address(text, vip, value)?,
    };
    Ok(Some(HealthCheck {
        question: question(text, raw, address)?,
        address,
        port,
        interval_ms: range(&raw.interval_ms, "interval_ms", INTERVAL_DEFAULT_MS, INTERVAL_MS)?,
        timeout_ms: range(&raw.timeout_ms, "timeout_ms", TIMEOUT_DEFAULT_MS, TIMEOUT_MS)?,
        rise: range(&raw.rise, "rise", RISE_DEFAULT, (1, ROW_MAX))?,
        fall: range(&raw.fall, "fall", FALL_DEFAULT, (1, ROW_MAX))?,
    }))
}

/// Refuses what belongs to another kind of question.
fn fields_fit(text: &Text<'_>, raw: &RawHealth) -> Result<(), ConfigError> {
    let span = |value: &Option<Spanned<String>>| value.as_ref().map(Spanned::span);
    let status = raw.status.as_ref().map(Spanned::span);
    let fields = [
        ("path", RawKind::Http, "http", span(&raw.path)),
        ("host", RawKind::Http, "http", span(&raw.host)),
        ("status", RawKind::Http, "http", status),
        ("send", RawKind::Udp, "udp", span(&raw.send)),
        ("expect", RawKind::Udp, "udp", span(&raw.expect)),
    ];
    for (field, of, kind, span) in fields {
        if let Some(span) = span.filter(|_| raw.kind != of) {
            return Err(text.error_at(span, Problem::HealthField { field, kind }));
        }
    }
    Ok(())
}

fn address(text: &Text<'_>, vip: &Vip, value: &Spanned<String>) -> Result<IpAddr, ConfigError> {
    let parsed: Option<Prefix> = value.get_ref().parse().ok();
    let one = parsed.filter(|prefix| prefix.bits() == prefix.bits_max());
    let one = one.map(|prefix| prefix.address()).filter(|one| vip.prefix.contains(*one));
    let is_right = |one: &IpAddr| wrong_host(*one, "an address that is asked").is_none();
    one.filter(is_right).ok_or_else(|| {
        let problem = Problem::HealthAddress { text: shown(value), prefix: vip.prefix };
        text.error_at(value.span(), problem)
    })
}

fn question(text: &Text<'_>, raw: &RawHealth, address: IpAddr) -> Result<Question, ConfigError> {
    Ok(match raw.kind {
        RawKind::Tcp => Question::Tcp,
        RawKind::Http => {
            let path = word(text, &raw.path, "path", PATH_CHARS_MAX, |path| path.starts_with('/'))?;
            let host = word(text, &raw.host, "host", HOST_CHARS_MAX, |_| true)?;
            let status = match raw.status {
                None => None,
                Some(_) => Some(number_in(text, &raw.status, "status", 0, 100, 599)? as u16),
            };
            let of_address = || match address {
                IpAddr::V4(v4) => v4.to_string(),
                IpAddr::V6(v6) => format!("[{v6}]"),
            };
            let path = path.unwrap_or_else(|| "/".to_owned());
            Question::Http { path, host: host.unwrap_or_else(of_address), status }
        }
        RawKind::Udp => {
            Question::Udp { send: bytes(text, &raw.send)?, expect: bytes(text, &raw.expect)? }
        }
    })
}

/// A word of a request: nothing in it ends a line or begins another word.
fn word(
    text: &Text<'_>,
    value: &Option<Spanned<String>>,
    field: &'static str,
    chars_max: usize,
    is_right: impl Fn(&str) -> bool,
) -> Result<Option<String>, ConfigError> {
    let Some(value) = value else { return Ok(None) };
    let said = value.get_ref();
    let is_plain = !said.is_empty() && said.bytes().all(|byte| byte.is_ascii_graphic());
    if !is_plain || said.len() > chars_max || !is_right(said) {
        let problem = Problem::HealthWord { field, text: shown(value), chars_max };
        return Err(text.error_at(value.span(), problem));
    }
    Ok(Some(said.clone()))
}

fn bytes(text: &Text<'_>, value: &Option<Spanned<String>>) -> Result<Vec<u8>, ConfigError> {
    let Some(value) = value else { return Ok(Vec::new()) };
    let digits: Option<Vec<u8>> =
        value.get_ref().chars().map(|c| c.to_digit(16).map(|digit| digit as u8)).collect();
    let pairs = digits.as_deref().map(<[u8]>::as_chunks::<2>);
    match pairs.filter(|(pairs, odd)| odd.is_empty() && pairs.len() <= PAYLOAD_BYTES_MAX) {
        Some((pairs, _)) => Ok(pairs.iter().map(|[high, low]| high << 4 | low).collect()),
        None => {
            let problem = Problem::HealthBytes { text: shown(value), bytes_max: PAYLOAD_BYTES_MAX };
            Err(text.error_at(value.span(), problem))
        }
    }
}

impl Config {
    /// The reals that are asked, with their VIPs and what each is asked.
    pub fn asked(&self) -> impl Iterator<Item = (&Vip, &super::Real, &HealthCheck)> {
        let with_check = self.vips.iter().filter_map(|vip| Some((vip, vip.health.as_ref()?)));
        with_check.flat_map(|(vip, check)| vip.reals.iter().map(move |real| (vip, real, check)))
    }
}
