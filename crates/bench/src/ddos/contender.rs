//! Who protects the host in `bench ddos`.

use super::super::defence::{Defence, Hook};
use super::super::flood;
use super::super::load::SENDER_CPU;
use super::super::network::{NetworkKey, Placement, Standing};
use super::super::place::Workspace;
use super::super::rules::marks::Mark;
use super::super::tools::is_in_path;
use clap::ValueEnum;
use ringside_lab::Lab;
use ringside_terminal::signals::StopSignal;

/// What stands between the flood and the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Kind {
    /// No defence.
    Unprotected,
    /// `ringside drop` with one rule.
    #[value(name = "ringside-drop")]
    RingsideDrop,
    /// The same, with the stack's work for everything else on the other CPU.
    #[value(name = "ringside-drop-cpu")]
    RingsideDropCpu,
    /// `ringside drop` with one address.
    #[value(name = "ringside-drop-address")]
    RingsideAddress,
    /// The same with 100 rules of an address each.
    #[value(name = "ringside-drop-100")]
    RingsideFew,
    /// The same with a file of 100,000 addresses.
    #[value(name = "ringside-drop-100000")]
    RingsideMany,
    /// xdp-filter of xdp-tools, with one port.
    #[value(name = "xdp-filter")]
    XdpFilter,
    /// The same with one address.
    #[value(name = "xdp-filter-address")]
    XdpFilterAddress,
    /// The same with 100 addresses.
    #[value(name = "xdp-filter-100")]
    XdpFilterFew,
    /// The same with 10,000 addresses, all that it takes.
    #[value(name = "xdp-filter-10000")]
    XdpFilterMany,
    /// nftables before the stack.
    #[value(name = "nft-ingress")]
    NftIngress,
    /// nftables in the stack, at its first hook.
    #[value(name = "nft-prerouting")]
    NftPrerouting,
    /// The least that a program in the driver can do: the limit of all.
    #[value(name = "xdp-drop-port")]
    XdpDropPort,
}

impl Kind {
    /// As people call it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Unprotected => "unprotected",
            Kind::RingsideDrop => "ringside-drop",
            Kind::RingsideDropCpu => "ringside-drop-cpu",
            Kind::RingsideAddress => "ringside-drop-address",
            Kind::RingsideFew => "ringside-drop-100",
            Kind::RingsideMany => "ringside-drop-100000",
            Kind::XdpFilter => "xdp-filter",
            Kind::XdpFilterAddress => "xdp-filter-address",
            Kind::XdpFilterFew => "xdp-filter-100",
            Kind::XdpFilterMany => "xdp-filter-10000",
            Kind::NftIngress => "nft-ingress",
            Kind::NftPrerouting => "nft-prerouting",
            Kind::XdpDropPort => "xdp-drop-port",
        }
    }

    /// How `ringside drop` knows the flood, and further rules of it; none if it is another.
    fn ringside(self) -> Option<(Mark, String)> {
        let mark = match self {
            Kind::RingsideDrop | Kind::RingsideDropCpu => Mark::Port,
            Kind::RingsideAddress => Mark::Address,
            Kind::RingsideFew => Mark::Few,
            Kind::RingsideMany => Mark::Many,
            _ => return None,
        };
        let more = match self {
            Kind::RingsideDropCpu => format!("any => redirect cpu {SENDER_CPU}\n"),
            _ => String::new(),
        };
        Some((mark, more))
    }

    /// How xdp-filter does; none if it is another.
    fn xdp_filter(self) -> Option<Mark> {
        match self {
            Kind::XdpFilter => Some(Mark::Port),
            Kind::XdpFilterAddress => Some(Mark::Address),
            Kind::XdpFilterFew => Some(Mark::Few),
            Kind::XdpFilterMany => Some(Mark::Many),
            _ => None,
        }
    }

    /// True if it can be run here.
    pub(super) fn is_installed(self) -> bool {
        match self {
            Kind::NftIngress | Kind::NftPrerouting => is_in_path("nft"),
            _ => self.xdp_filter().is_none_or(Mark::has_xdp_filter),
        }
    }

    /// The network that it needs: the receive path and the server on one CPU.
    pub(super) fn network(self) -> NetworkKey {
        let standing = match self {
            Kind::XdpDropPort => Standing::DropPort,
            _ if self.ringside().is_some() => Standing::Root,
            _ => Standing::Nothing,
        };
        NetworkKey { placement: Placement::Shared, pairs: 1, standing, is_host: true }
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
        if let Some((mark, more)) = self.ringside() {
            return Defence::ringside(lab, &mark.rules(files, &more)?, stop);
        }
        if let Some(mark) = self.xdp_filter() {
            return mark.xdp_filter(lab, files, stop);
        }
        let rule = format!("udp dport {} drop", flood::PORT);
        match self {
            Kind::NftIngress => Defence::nftables(lab, Hook::Ingress, "", &rule),
            Kind::NftPrerouting => Defence::nftables(lab, Hook::Prerouting, "", &rule),
            _ => Ok(Defence::None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_command_line() {
        for kind in Kind::value_variants() {
            assert_eq!(kind.to_possible_value().unwrap().get_name(), kind.name());
        }
    }
}
