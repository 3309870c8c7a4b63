//! Who protects the host in `bench ddos`.

use super::super::defence::{Defence, Hook};
use super::super::flood;
use super::super::load::SENDER_CPU;
use super::super::network::{NetworkKey, Placement, Standing};
use super::super::place::Workspace;
use super::super::tools::is_in_path;
use anyhow::Context;
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
    /// xdp-filter of xdp-tools, with one port.
    #[value(name = "xdp-filter")]
    XdpFilter,
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
            Kind::XdpFilter => "xdp-filter",
            Kind::NftIngress => "nft-ingress",
            Kind::NftPrerouting => "nft-prerouting",
            Kind::XdpDropPort => "xdp-drop-port",
        }
    }

    /// True if it can be run here.
    pub(super) fn is_installed(self) -> bool {
        match self {
            Kind::XdpFilter => is_in_path("xdp-filter"),
            Kind::NftIngress | Kind::NftPrerouting => is_in_path("nft"),
            _ => true,
        }
    }

    /// The network that it needs: the receive path and the server on one CPU.
    pub(super) fn network(self) -> NetworkKey {
        let standing = match self {
            Kind::RingsideDrop | Kind::RingsideDropCpu => Standing::Root,
            Kind::XdpDropPort => Standing::DropPort,
            _ => Standing::Nothing,
        };
        NetworkKey { placement: Placement::Shared, pairs: 1, standing, is_host: true }
    }

    /// The rules of `ringside drop`, if it is that.
    fn rules(self) -> Option<String> {
        let drop = format!("1: udp dst port {} => drop\n", flood::PORT);
        match self {
            Kind::RingsideDrop => Some(drop),
            Kind::RingsideDropCpu => Some(format!("{drop}2: any => redirect cpu {SENDER_CPU}\n")),
            _ => None,
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
        if let Some(rules) = self.rules() {
            let file = files.path().join("rules");
            std::fs::write(&file, rules).with_context(|| format!("writing {}", file.display()))?;
            return Defence::ringside(lab, &file, stop);
        }
        let port = flood::PORT;
        let rule = format!("udp dport {port} drop");
        match self {
            Kind::XdpFilter => {
                let addition = format!("port -m dst -p udp {port}");
                Defence::xdp_filter(lab, "udp", &[addition], stop)
            }
            Kind::NftIngress => Defence::nftables(lab, Hook::Ingress, "", &rule),
            Kind::NftPrerouting => Defence::nftables(lab, Hook::Prerouting, "", &rule),
            _ => Ok(Defence::None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringside_rules::language::{self, Sets};

    #[test]
    fn the_rules_are_rules() {
        for kind in Kind::value_variants() {
            if let Some(rules) = kind.rules() {
                language::parse(rules.as_bytes(), &mut Sets::none()).unwrap();
            }
        }
    }

    #[test]
    fn names_are_those_of_the_command_line() {
        for kind in Kind::value_variants() {
            assert_eq!(kind.to_possible_value().unwrap().get_name(), kind.name());
        }
    }
}
