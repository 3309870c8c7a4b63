//! Codecs: what a payload type means, and what G.113 says of a codec.

use ringside_proto::sdp::Media;

/// Bytes of a name that are kept; registered ones have up to 20.
const NAME_BYTES_MAX: usize = 32;

/// What a payload type stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Codec {
    /// Name, as `PCMU`, in the case of its description.
    pub name: String,
    /// Units of the timestamp in a second.
    pub clock_rate: u32,
}

/// What a packet carries, as far as that matters to statistics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Sound or pictures.
    Media,
    /// Noise in place of silence (RFC 3389).
    ComfortNoise,
    /// A key that is held (RFC 4733).
    TelephoneEvent,
}

/// Impairment and robustness of a codec, by G.113 appendix I.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Robustness {
    /// Ie.
    pub ie: f64,
    /// Bpl.
    pub bpl: f64,
}

/// Payload types that mean the same everywhere (RFC 3551, table 4 and 5).
const STATIC: &[(u8, &str, u32)] = &[
    (0, "PCMU", 8_000),
    (3, "GSM", 8_000),
    (4, "G723", 8_000),
    (5, "DVI4", 8_000),
    (6, "DVI4", 16_000),
    (7, "LPC", 8_000),
    (8, "PCMA", 8_000),
    (9, "G722", 8_000),
    (10, "L16", 44_100),
    (11, "L16", 44_100),
    (12, "QCELP", 8_000),
    (13, "CN", 8_000),
    (14, "MPA", 90_000),
    (15, "G728", 8_000),
    (16, "DVI4", 11_025),
    (17, "DVI4", 22_050),
    (18, "G729", 8_000),
    (19, "CN", 8_000),
    (25, "CelB", 90_000),
    (26, "JPEG", 90_000),
    (28, "nv", 90_000),
    (31, "H261", 90_000),
    (32, "MPV", 90_000),
    (33, "MP2T", 90_000),
    (34, "H263", 90_000),
];

impl Codec {
    /// What a payload type means without a description. None of a dynamic one.
    pub fn of_static(payload_type: u8) -> Option<Codec> {
        let found = STATIC.iter().find(|(number, ..)| *number == payload_type);
        found.map(|&(_, name, clock_rate)| Codec { name: name.into(), clock_rate })
    }

    /// What it means in a description.
    pub fn described(media: &Media<'_>, payload_type: u8) -> Option<Codec> {
        let Some(encoding) = media.encoding(payload_type) else {
            return Codec::of_static(payload_type);
        };
        let name = encoding.name.get(..NAME_BYTES_MAX).unwrap_or(encoding.name);
        let name = String::from_utf8_lossy(name).into_owned();
        Some(Codec { name, clock_rate: encoding.clock_rate })
    }

    /// What its packets carry.
    pub fn content(&self) -> Content {
        match self.name.to_ascii_lowercase().as_str() {
            "telephone-event" => Content::TelephoneEvent,
            "cn" => Content::ComfortNoise,
            _ => Content::Media,
        }
    }

    /// Its numbers, where G.113 has them. G.711 is taken to conceal losses (its appendix I), as
    /// phones do; G.723.1 to have 6.3 kbit/s.
    pub fn robustness(&self) -> Option<Robustness> {
        let (ie, bpl) = match self.name.to_ascii_uppercase().as_str() {
            "PCMU" | "PCMA" => (0.0, 25.1),
            "G729" => (11.0, 19.0),
            "G723" => (15.0, 16.1),
            "GSM-EFR" => (5.0, 10.0),
            _ => return None,
        };
        Some(Robustness { ie, bpl })
    }
}
