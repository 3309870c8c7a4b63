//! The parts of the evaluation, and who is measured in each.

use super::contender::Kind;
use super::site::{Aim, SiteKey, Table};
use clap::ValueEnum;
use ringside_terminal::units::grouped;

/// Rates at which the times under way are measured, in frames a second.
const LATENCY_RATES: [u64; 2] = [100, 100_000];

/// A part of the evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Part {
    /// Dropping every frame.
    Drop,
    /// What a core has to do at fixed rates.
    Cpu,
    /// Sending back by the same interface.
    Tx,
    /// Sending out of another interface, or to another core.
    Redirect,
    /// Forwarding by routes: one, and as many as the Internet has.
    Route,
    /// How long frames are under way.
    Latency,
    /// What a program that passes every frame costs those behind it.
    Pass,
    /// Balancing load.
    Balance,
}

/// One row of the results: who is measured, and under what.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Case {
    pub(super) part: Part,
    pub(super) kind: Kind,
    pub(super) table: Table,
    /// As fast as it goes if none.
    pub(super) rate_per_sec: Option<u64>,
}

impl Part {
    /// As people call it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Part::Drop => "drop",
            Part::Cpu => "cpu",
            Part::Tx => "tx",
            Part::Redirect => "redirect",
            Part::Route => "route",
            Part::Latency => "latency",
            Part::Pass => "pass",
            Part::Balance => "balance",
        }
    }

    /// Who is measured in it; the first is the limit that the others are compared with.
    pub(super) fn kinds(self) -> &'static [Kind] {
        match self {
            Part::Drop => &[
                Kind::XdpDrop,
                Kind::RingsideDrop,
                Kind::TestpmdDrop,
                Kind::TestpmdDropSpin,
                Kind::NftIngress,
                Kind::NftRaw,
                Kind::NftFilter,
                Kind::NftConntrack,
                Kind::IptablesRaw,
                Kind::IptablesFilter,
            ],
            Part::Cpu => &[Kind::XdpDrop, Kind::RingsideDrop, Kind::TestpmdDrop, Kind::NftRaw],
            Part::Tx => &[Kind::XdpTx, Kind::TestpmdTx, Kind::TestpmdTxSpin],
            Part::Redirect => &[
                Kind::XdpRedirect,
                Kind::RingsideToCpu,
                Kind::TestpmdForward,
                Kind::NftForward,
                Kind::TcForward,
            ],
            Part::Route => &[
                Kind::XdpRedirect,
                Kind::XdpHop,
                Kind::XdpForward,
                Kind::RingsideRoute,
                Kind::RingsideAsking,
                Kind::Kernel,
            ],
            Part::Latency => {
                &[Kind::XdpRedirect, Kind::RingsideRoute, Kind::TestpmdForward, Kind::Kernel]
            }
            Part::Pass => &[Kind::NftRaw, Kind::NftRawBehindPass],
            Part::Balance => &[
                Kind::XdpTx,
                Kind::XdpHash,
                Kind::RingsideBalance,
                Kind::RingsideTunnel,
                Kind::NftBalance,
                Kind::Ipvs,
            ],
        }
    }

    /// Whose rate the others are given as a multiple of.
    pub(super) fn peer(self) -> Option<Kind> {
        match self {
            Part::Drop => Some(Kind::NftRaw),
            Part::Tx => Some(Kind::TestpmdTx),
            Part::Redirect => Some(Kind::TestpmdForward),
            Part::Route => Some(Kind::Kernel),
            Part::Balance => Some(Kind::NftBalance),
            Part::Cpu | Part::Latency | Part::Pass => None,
        }
    }

    /// Its rows, with the rates of [`Part::Cpu`] and the size of the large table.
    pub(super) fn cases(self, rates: &[u64], routes: u32) -> Vec<Case> {
        let part = self;
        let tables = [Table::One, Table::Full(routes)];
        let tables = if part == Part::Route { &tables[..] } else { &tables[..1] };
        let rates: Vec<Option<u64>> = match part {
            Part::Cpu => rates.iter().copied().map(Some).collect(),
            Part::Latency => LATENCY_RATES.map(Some).to_vec(),
            _ => vec![None],
        };
        let mut cases = Vec::new();
        for &table in tables {
            for &rate_per_sec in &rates {
                let case = |&kind| Case { part, kind, table, rate_per_sec };
                cases.extend(part.kinds().iter().map(case));
            }
        }
        cases
    }
}

impl Case {
    /// What is the same for those that it is compared with.
    pub(super) fn is_beside(&self, other: &Case) -> bool {
        (self.part, self.table, self.rate_per_sec) == (other.part, other.table, other.rate_per_sec)
    }

    /// The network that it needs.
    pub(super) fn site(&self) -> SiteKey {
        SiteKey {
            placement: self.kind.placement(),
            table: self.table,
            has_meter: self.part == Part::Latency,
        }
    }

    /// Where its frames are sent.
    pub(super) fn aim(&self) -> Aim {
        if self.kind.forwards() { Aim::Through(self.table) } else { Aim::Host }
    }

    /// What it is measured under, in words.
    pub(super) fn setting(&self) -> String {
        match (self.part, self.table, self.rate_per_sec) {
            (Part::Route, Table::One, _) => "1 route".into(),
            (Part::Route, Table::Full(routes), _) => format!("{} routes", grouped(routes.into())),
            (_, _, Some(rate)) => format!("{}/s", grouped(rate)),
            _ => String::new(),
        }
    }
}

impl std::fmt::Display for Case {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.part.name(), self.kind.name())?;
        match self.setting().as_str() {
            "" => Ok(()),
            setting => write!(f, ", {setting}"),
        }
    }
}
