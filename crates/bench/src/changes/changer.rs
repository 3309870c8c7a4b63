//! Who changes the rules: a client of the control socket.

use super::super::flood;
use super::super::load::GENERATED_ADDRESS;
use anyhow::{Context, ensure};
use ringside_control::{Client, Command, Reply, RulesCommand, RulesReply};
use ringside_sys::clock;
use std::net::Ipv4Addr;
use std::path::Path;

/// The rule that comes and goes has this id, behind those of all others.
const ID: u32 = 4_000_000_000;

/// How a rule is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RuleKind {
    /// By one look into a table.
    Exact,
    /// With all others of its kind.
    Wildcard,
}

impl RuleKind {
    /// Both kinds, in the order of the tables.
    pub(super) const ALL: [RuleKind; 2] = [RuleKind::Exact, RuleKind::Wildcard];

    /// As it stands in tables.
    pub(super) fn name(self) -> &'static str {
        match self {
            RuleKind::Exact => "exact",
            RuleKind::Wildcard => "wildcard",
        }
    }

    /// The rule that drops a flow of the generator (`ringside_transmit::Shape`).
    pub(super) fn rule(self, flow: u32) -> String {
        let source = source(flow);
        match self {
            RuleKind::Exact => format!(
                "{ID}: src ip {source} dst ip {} udp src port {} dst port {} => drop",
                GENERATED_ADDRESS,
                FIRST_PORT + flow % PORTS,
                flood::PORT
            ),
            RuleKind::Wildcard => format!("{ID}: src ip {source} => drop"),
        }
    }
}

/// Source ports of the generator: one flow after another, from the first port on.
const FIRST_PORT: u32 = 1024;
const PORTS: u32 = 50_000;

/// The source address of a flow of the generator.
pub(super) fn source(flow: u32) -> Ipv4Addr {
    Ipv4Addr::from_bits(Ipv4Addr::new(10, 16, 0, 0).to_bits() + flow)
}

/// A change that was made. Times are UTC, in nanoseconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Change {
    /// When the request was sent.
    pub(super) sent_ns: u64,
    /// When it was read, as the other side says.
    pub(super) read_ns: u64,
    /// How long it took from then on until all frames are judged so, as the other side says.
    pub(super) took_ns: u64,
}

impl Change {
    /// When all frames were judged so, as the other side says.
    pub(super) fn done_ns(&self) -> u64 {
        self.read_ns + self.took_ns
    }
}

/// One connection.
pub(super) struct Changer {
    client: Client,
}

impl Changer {
    /// Of a run with this control socket.
    ///
    /// # Errors
    /// No process answers there.
    pub(super) fn connect(socket: &Path) -> anyhow::Result<Changer> {
        let client = Client::connect(socket)?;
        let client =
            client.with_context(|| format!("no process listens at {}", socket.display()))?;
        Ok(Changer { client })
    }

    /// The rule comes.
    ///
    /// # Errors
    /// It was refused, or no process answered.
    pub(super) fn add(&mut self, kind: RuleKind, flow: u32) -> anyhow::Result<Change> {
        self.change(RulesCommand::Add { rules: kind.rule(flow), upload: None })
    }

    /// It goes.
    ///
    /// # Errors
    /// As above.
    pub(super) fn delete(&mut self) -> anyhow::Result<Change> {
        self.change(RulesCommand::Delete { ids: vec![ID] })
    }

    fn change(&mut self, command: RulesCommand) -> anyhow::Result<Change> {
        let sent_ns = clock::realtime_now().0;
        let reply: Reply = self.client.ask(&Command::Rules(command))?;
        let reply = reply.rules.context("an answer without rules")?;
        let RulesReply { changed, took_ns, read_ns, .. } = *reply;
        ensure!(changed == [ID], "rules {changed:?} were changed, where it was {ID} alone");
        Ok(Change { sent_ns, read_ns, took_ns })
    }

    /// Frames that were judged so far.
    ///
    /// # Errors
    /// No process answered.
    pub(super) fn frames(&mut self) -> anyhow::Result<u64> {
        let ledger = self.client.ask(&Command::Ledger {})?.ledger.context("no ledger")?;
        Ok(ledger.lanes.iter().filter_map(|lane| lane.received).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringside_rules::language::{RuleId, Sets, parse_rule};
    use ringside_transmit::{Shape, Sizes};

    #[test]
    fn the_rules_are_for_the_flows_of_the_generator() {
        let flow = 9999;
        let frame = Shape::new(Sizes::fixed(64).unwrap(), 10_000).unwrap().frame(0, flow.into());
        assert_eq!(frame[26..30], source(flow).octets());
        let port = u16::from_be_bytes([frame[34], frame[35]]);
        let text = RuleKind::Exact.rule(flow);
        assert!(text.contains(&format!("src port {port} dst port 9 ")), "{text}");
        for kind in RuleKind::ALL {
            let text = kind.rule(flow);
            let rule = parse_rule(text.as_bytes(), RuleId(1), &mut Sets::none()).unwrap();
            assert_eq!(rule.id, RuleId(ID));
            assert_eq!(rule.matches.exact_flow().is_some(), kind == RuleKind::Exact, "{text}");
        }
    }
}
