//! What `bench segment` compares.

use super::results::Source;
use ringside_transmit::Way;
use std::fmt;
use std::str::FromStr;

/// Who sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contender {
    /// A stream.
    Way(Way),
    /// The least that frames of chains cost: see [`super::limit`].
    ChainLimit,
}

impl Contender {
    /// All, in the order of the drawing.
    pub(super) fn all() -> impl Iterator<Item = Contender> {
        Way::ALL.into_iter().map(Contender::Way).chain([Contender::ChainLimit])
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Contender::Way(way) => way.name(),
            Contender::ChainLimit => "chain-limit",
        }
    }

    /// True if it can send so: live frames are one stream's on an interface, and the limit reads
    /// no file.
    pub(super) fn is_possible(self, source: Source, streams: u16) -> bool {
        match self {
            Contender::Way(Way::Live) => streams == 1,
            Contender::Way(_) => true,
            Contender::ChainLimit => streams == 1 && source == Source::Memory,
        }
    }
}

impl fmt::Display for Contender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Contender {
    type Err = String;

    fn from_str(text: &str) -> Result<Contender, String> {
        Contender::all().find(|contender| contender.name() == text).ok_or_else(|| {
            let names: Vec<_> = Contender::all().map(Contender::name).collect();
            format!("there is no way {text}; there are {}", names.join(", "))
        })
    }
}
