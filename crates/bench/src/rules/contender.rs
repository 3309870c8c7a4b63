//! Who is compared in `bench rules`: those who drop, and those who filter what they receive.

use super::super::defence::{Defence, Hook};
use super::super::flood;
use super::super::network::Standing;
use super::super::place::Workspace;
use super::super::receiver::Program;
use super::super::tools::{Options, Target, Tool, is_in_path};
use super::marks::{MANY, Mark, write};
use super::sets;
use clap::ValueEnum;
use ringside_lab::Lab;
use ringside_terminal::signals::StopSignal;
use std::ffi::OsString;

/// Wildcard rules in addition to them.
const WILDCARDS: u32 = 10_000;

/// What drops the generator's frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Dropper {
    /// No defence: the host's stack takes every frame as far as its port.
    #[value(name = "no-defence")]
    NoDefence,
    /// A program that discards every frame: the limit.
    #[value(name = "xdp-drop")]
    XdpDrop,
    /// `ringside drop` with one rule, for the port.
    #[value(name = "ringside-1")]
    RingsideOne,
    /// `ringside drop` with 100,000 exact and 10,000 wildcard rules; the last is for the port.
    #[value(name = "ringside-110000")]
    RingsideMany,
    /// `ringside drop` with one rule for a set of 100,000 source addresses.
    #[value(name = "ringside-set")]
    RingsideSet,
    /// `ringside drop` with one rule, for the destination address.
    #[value(name = "ringside-address")]
    RingsideAddress,
    /// `ringside drop` with 100 rules for destination addresses.
    #[value(name = "ringside-100")]
    RingsideFew,
    /// xdp-filter with the port.
    #[value(name = "xdp-filter-port")]
    XdpFilterPort,
    /// xdp-filter with one destination address.
    #[value(name = "xdp-filter")]
    XdpFilter,
    /// xdp-filter with 100 destination addresses.
    #[value(name = "xdp-filter-100")]
    XdpFilterFew,
    /// xdp-filter with 10,000 source addresses, all that it takes.
    #[value(name = "xdp-filter-10000")]
    XdpFilterMany,
    /// nftables before the stack with one rule, for the port.
    #[value(name = "nft-1")]
    NftOne,
    /// nftables before the stack with a set of 100,000 source addresses.
    #[value(name = "nft-set")]
    NftSet,
}

impl Dropper {
    /// As people call it.
    pub(super) fn name(self) -> String {
        value_name(&self)
    }

    /// How `ringside drop` knows the flood; none if it is another, or by a rule after many.
    fn ringside(self) -> Option<Mark> {
        match self {
            Dropper::RingsideOne => Some(Mark::Port),
            Dropper::RingsideAddress => Some(Mark::Address),
            Dropper::RingsideFew => Some(Mark::Few),
            Dropper::RingsideSet => Some(Mark::Many),
            _ => None,
        }
    }

    /// How xdp-filter does; none if it is another.
    fn xdp_filter(self) -> Option<Mark> {
        match self {
            Dropper::XdpFilterPort => Some(Mark::Port),
            Dropper::XdpFilter => Some(Mark::Address),
            Dropper::XdpFilterFew => Some(Mark::Few),
            Dropper::XdpFilterMany => Some(Mark::Many),
            _ => None,
        }
    }

    /// What it is given.
    pub(super) fn holds(self) -> String {
        if let Some(mark) = self.ringside() {
            return mark.holds();
        }
        if let Some(mark) = self.xdp_filter() {
            return mark.xdp_filter_holds();
        }
        match self {
            Dropper::XdpDrop => "drops all".into(),
            Dropper::NftOne => Mark::Port.holds(),
            Dropper::RingsideMany => format!("{MANY} exact, {WILDCARDS} wildcard rules"),
            Dropper::NftSet => Mark::Many.holds(),
            _ => "nothing".into(),
        }
    }

    /// True if it can be run here.
    pub(super) fn is_installed(self) -> bool {
        match self {
            Dropper::NftOne | Dropper::NftSet => is_in_path("nft"),
            _ => self.xdp_filter().is_none_or(Mark::has_xdp_filter),
        }
    }

    /// What must be on the interface before it starts.
    pub(super) fn standing(self) -> Standing {
        match self {
            Dropper::XdpDrop => Standing::Drop,
            Dropper::RingsideMany => Standing::Root,
            _ if self.ringside().is_some() => Standing::Root,
            _ => Standing::Nothing,
        }
    }

    /// Puts it in place.
    ///
    /// # Errors
    /// It did not start; what it said is in the error.
    pub(super) fn defend(
        self,
        lab: &Lab,
        files: &Workspace,
        stop: &StopSignal,
    ) -> anyhow::Result<Defence> {
        if let Some(mark) = self.ringside() {
            return Defence::ringside(lab, &mark.rules(files, "")?, stop);
        }
        if let Some(mark) = self.xdp_filter() {
            return mark.xdp_filter(lab, files, stop);
        }
        match self {
            Dropper::RingsideMany => {
                let last = format!("udp dst port {} => drop\n", flood::PORT);
                let text = sets::rules(WILDCARDS, MANY) + &last;
                Defence::ringside(lab, &write(files, "many.rules", &text)?, stop)
            }
            Dropper::NftOne => {
                let rule = format!("udp dport {} drop", flood::PORT);
                Defence::nftables(lab, Hook::Ingress, "", &rule)
            }
            Dropper::NftSet => {
                let elements = sets::addresses(MANY, ", ");
                let set = format!("set s {{ type ipv4_addr; elements = {{ {elements} }} }}\n");
                Defence::nftables(lab, Hook::Ingress, &set, "ip saddr @s drop")
            }
            _ => Ok(Defence::None),
        }
    }
}

/// What receives the frames that a filter of this number of addresses lets through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Filter {
    /// tcpdump to /dev/null, its filter a chain of `host`.
    Tcpdump,
    /// `ringside capture` on a packet socket, with a rule for each address.
    #[value(name = "ringside-af-packet")]
    Ringside,
}

impl Filter {
    /// As people call it.
    pub(super) fn name(self) -> String {
        value_name(&self)
    }

    /// True if it can be run here.
    pub(super) fn is_installed(self) -> bool {
        self == Filter::Ringside || Tool::Tcpdump.version().is_some()
    }

    /// How it is run with `terms` addresses, of which the last is that of every frame. None stands
    /// for no filter.
    ///
    /// # Errors
    /// The rules cannot be written.
    pub(super) fn program(self, terms: u32, files: &Workspace) -> anyhow::Result<Program<'static>> {
        let tool = match self {
            Filter::Tcpdump => Tool::Tcpdump,
            Filter::Ringside => Tool::Ringside,
        };
        let mut program = tool.program(Target::Nowhere, Options::default());
        if terms == 0 {
            return Ok(program);
        }
        let terms = sets::hosts(terms);
        match self {
            Filter::Tcpdump => {
                // Its socket runs before its filter is compiled.
                program.ready_text = "listening on";
                let terms: Vec<String> = terms.iter().map(|ip| format!("host {ip}")).collect();
                program.command.push(terms.join(" or ").into());
            }
            Filter::Ringside => {
                let rule = |ip: &String| format!("ip {ip} => take\n");
                let rules: String = terms.iter().map(rule).collect();
                let file = write(files, "terms.rules", &format!("{rules}default drop\n"))?;
                program.command.extend([OsString::from("--rules"), file.into()]);
            }
        }
        Ok(program)
    }
}

fn value_name(value: &impl ValueEnum) -> String {
    value.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}
