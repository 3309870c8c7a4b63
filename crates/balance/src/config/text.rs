//! The configuration's text: its places, and its words as TOML has them.

use super::{Affinity, CONFIG_BYTES_MAX, Protocol, Via};
use crate::error::{ConfigError, Problem};
use serde::Deserialize;
use std::fmt;
use std::ops::Range;
use toml::Spanned;

/// Where something stands in a configuration's text, as editors count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// From 1.
    pub line: usize,
    /// In characters, from 1.
    pub column: usize,
}

impl Place {
    /// The place of the byte `at`; of the text's end, if no character begins there.
    pub fn of(text: &str, at: usize) -> Place {
        let before = text.get(..at).unwrap_or(text);
        let line_text = before.rsplit('\n').next().unwrap_or_default();
        let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
        Place { line, column: line_text.chars().count() + 1 }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// A configuration's text, in which places are found.
pub struct Text<'t> {
    text: &'t str,
}

impl<'t> Text<'t> {
    pub fn new(bytes: &'t [u8]) -> Result<Text<'t>, ConfigError> {
        if bytes.len() > CONFIG_BYTES_MAX {
            let problem = Problem::TooLong { bytes: bytes.len(), bytes_max: CONFIG_BYTES_MAX };
            return Err(ConfigError { line: 1, column: 1, problem });
        }
        match str::from_utf8(bytes) {
            Ok(text) => Ok(Text { text }),
            Err(error) => {
                let valid = str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default();
                Err(Text { text: valid }.error(valid.len(), Problem::Encoding))
            }
        }
    }

    /// The words, unchecked.
    pub fn raw(&self) -> Result<RawConfig, ConfigError> {
        toml::from_str(self.text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            self.error(at, Problem::Toml(error.message().trim().replace('\n', "; ")))
        })
    }

    /// The line of a byte, from 1.
    pub fn line(&self, at: usize) -> usize {
        Place::of(self.text, at).line
    }

    /// An error at a byte.
    pub fn error(&self, at: usize, problem: Problem) -> ConfigError {
        let Place { line, column } = Place::of(self.text, at);
        ConfigError { line, column, problem }
    }

    /// An error where a value stands.
    pub fn error_at(&self, span: Range<usize>, problem: Problem) -> ConfigError {
        self.error(span.start, problem)
    }
}

/// The whole, as TOML has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawConfig {
    pub source_v4: Option<Spanned<String>>,
    pub source_v6: Option<Spanned<String>>,
    pub mtu: Option<Spanned<i64>>,
    pub gue_port: Option<Spanned<i64>>,
    pub flows_per_cpu: Option<Spanned<i64>>,
    pub new_flows_per_second_max: Option<Spanned<i64>>,
    pub change_window_s: Option<Spanned<i64>>,
    #[serde(default)]
    pub vip: Vec<Spanned<RawVip>>,
}

/// A VIP, as TOML has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawVip {
    pub name: Spanned<String>,
    pub address: Spanned<String>,
    pub port: Option<Spanned<i64>>,
    pub protocol: Protocol,
    pub timeout_s: Option<Spanned<i64>>,
    pub affinity: Option<Affinity>,
    pub echo: Option<bool>,
    pub slots: Option<Spanned<i64>>,
    pub via: Option<Via>,
    pub quic_lb: Option<Spanned<Vec<RawQuicLb>>>,
    pub health: Option<Spanned<RawHealth>>,
    #[serde(default)]
    pub real: Vec<Spanned<RawReal>>,
}

/// How reals are asked, as TOML has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawHealth {
    pub kind: RawKind,
    pub address: Option<Spanned<String>>,
    pub port: Option<Spanned<i64>>,
    pub interval_ms: Option<Spanned<i64>>,
    pub timeout_ms: Option<Spanned<i64>>,
    pub rise: Option<Spanned<i64>>,
    pub fall: Option<Spanned<i64>>,
    pub path: Option<Spanned<String>>,
    pub host: Option<Spanned<String>>,
    pub status: Option<Spanned<i64>>,
    pub send: Option<Spanned<String>>,
    pub expect: Option<Spanned<String>>,
}

/// A kind of question, as TOML has it.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RawKind {
    Tcp,
    Http,
    Udp,
}

/// A configuration of QUIC-LB, as TOML has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawQuicLb {
    pub rotation: Spanned<i64>,
    pub server_id_bytes: Spanned<i64>,
}

/// A real, as TOML has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawReal {
    pub address: Spanned<String>,
    pub weight: Option<Spanned<i64>>,
    pub state: Option<RawState>,
    pub drain_s: Option<Spanned<i64>>,
    pub next_hop: Option<Spanned<String>>,
    #[serde(default)]
    pub server_ids: Vec<Spanned<String>>,
}

/// A state, as TOML has it.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RawState {
    Up,
    Draining,
    Down,
}
