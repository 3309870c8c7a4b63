//! Who is measured by `bench xdp`: what stands on the interface under test, and where its frames
//! end.

use super::super::defence::{Defence, Hook};
use super::super::flood;
use super::super::load::{GENERATED_ADDRESS, SENDER_CPU};
use super::super::network::{self, Placement};
use super::super::place::Workspace;
use super::super::testpmd::{self, Device, Forwarding};
use super::super::tools::{is_in_path, own_program};
use super::site::{EXIT, Site};
use anyhow::Context;
use ringside_ebpf::XdpProgram;
use ringside_lab::{Lab, RECEIVER_INTERFACE};
use ringside_terminal::signals::StopSignal;
use std::ffi::OsString;
use std::fmt::Write;
use std::path::Path;

/// Reals of the balancers.
const REALS: u32 = 100;

/// A program, or rules, or nothing, that deals with frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A program that discards every frame: the limit of all that drop.
    XdpDrop,
    /// `ringside drop` with one rule.
    RingsideDrop,
    /// nftables before the stack.
    NftIngress,
    /// nftables at the stack's first hook, where the table raw of iptables is.
    NftRaw,
    /// The same behind a program that passes every frame.
    NftRawBehindPass,
    /// nftables where a packet is for the host.
    NftFilter,
    /// The same, when its connection is known.
    NftConntrack,
    IptablesRaw,
    IptablesFilter,
    /// testpmd by AF_XDP, receiving only; it polls by system calls.
    TestpmdDrop,
    /// The same without system calls.
    TestpmdDropSpin,
    /// A program that swaps addresses and sends back: the limit of all that answer.
    XdpTx,
    /// testpmd, the same.
    TestpmdTx,
    TestpmdTxSpin,
    /// A program that swaps addresses and sends out of the other interface: the limit of all that
    /// forward.
    XdpRedirect,
    /// A program that takes a hop off and sends to a next hop of its own: the least that a router
    /// does.
    XdpHop,
    /// A program that asks the kernel's tables and sends on, and does nothing else: the limit of
    /// all that ask them for each packet.
    XdpForward,
    /// `ringside drop` with a rule that has another core's stack take every frame.
    RingsideToCpu,
    /// nftables before the stack, `fwd to`.
    NftForward,
    /// tc, `mirred`.
    TcForward,
    /// testpmd between two interfaces.
    TestpmdForward,
    /// `ringside route`.
    RingsideRoute,
    /// The same, asking the kernel's tables for each packet.
    RingsideAsking,
    /// The host's own forwarding.
    Kernel,
    /// A program that sends back, to an address by a hash of the flow: the least that a balancer
    /// does.
    XdpHash,
    /// `ringside balance`, reals in the same link layer.
    RingsideBalance,
    /// The same through tunnels.
    RingsideTunnel,
    /// nftables before the stack: a hash of the flow chooses the hardware address.
    NftBalance,
    /// The kernel's balancer.
    Ipvs,
}

/// Where the frames of a contender end when all is well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// Dropped inside the driver.
    Driver,
    /// Dropped by a rule that counts.
    Rule,
    /// Received by a process that says how many.
    Process,
    /// Back where they came from.
    Back,
    /// Out of the other interface.
    Out,
    /// At the host's port, behind another core.
    Host,
}

impl Kind {
    /// As it stands in tables.
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::XdpDrop => "xdp-drop",
            Kind::RingsideDrop => "ringside drop",
            Kind::NftIngress => "nft-ingress",
            Kind::NftRaw => "nft-raw",
            Kind::NftRawBehindPass => "nft-raw behind xdp-pass",
            Kind::NftFilter => "nft-filter",
            Kind::NftConntrack => "nft-conntrack",
            Kind::IptablesRaw => "iptables-raw",
            Kind::IptablesFilter => "iptables-filter",
            Kind::TestpmdDrop => "testpmd rxonly, AF_XDP copy mode",
            Kind::TestpmdDropSpin => "testpmd rxonly, AF_XDP copy mode, spinning",
            Kind::XdpTx => "xdp-tx",
            Kind::TestpmdTx => "testpmd macswap, AF_XDP copy mode",
            Kind::TestpmdTxSpin => "testpmd macswap, AF_XDP copy mode, spinning",
            Kind::XdpRedirect => "xdp-redirect",
            Kind::XdpHop => "xdp-redirect, one hop off",
            Kind::XdpForward => "xdp-redirect by bpf_fib_lookup",
            Kind::RingsideToCpu => "ringside drop, redirect cpu",
            Kind::NftForward => "nft-fwd",
            Kind::TcForward => "tc-mirred",
            Kind::TestpmdForward => "testpmd macswap of 2 ports, AF_XDP copy mode",
            Kind::RingsideRoute => "ringside route",
            Kind::RingsideAsking => "ringside route, asking always",
            Kind::Kernel => "the host's forwarding",
            Kind::XdpHash => "xdp-tx by a hash of the flow",
            Kind::RingsideBalance => "ringside balance",
            Kind::RingsideTunnel => "ringside balance, IPIP",
            Kind::NftBalance => "nft-jhash-fwd",
            Kind::Ipvs => "ipvs",
        }
    }

    /// Why it cannot be run here, if so.
    pub(super) fn absence(self) -> Option<String> {
        let needs = |tool: &str| (!is_in_path(tool)).then(|| format!("{tool} is not installed"));
        match self {
            Kind::NftIngress
            | Kind::NftRaw
            | Kind::NftRawBehindPass
            | Kind::NftFilter
            | Kind::NftConntrack
            | Kind::NftForward
            | Kind::NftBalance => needs("nft"),
            Kind::IptablesRaw | Kind::IptablesFilter => needs("iptables"),
            Kind::TcForward => needs("tc"),
            Kind::Ipvs if Path::new("/proc/net/ip_vs").exists() => {
                Some("not set up by this measurement".into())
            }
            Kind::Ipvs => Some("this kernel has no IP_VS".into()),
            kind if kind.ports() > 0 && !testpmd::is_installed() => {
                Some("dpdk-testpmd is not installed".into())
            }
            _ => None,
        }
    }

    /// Interfaces that testpmd takes; 0 of all others.
    pub(super) fn ports(self) -> u16 {
        match self {
            Kind::TestpmdForward => 2,
            Kind::TestpmdDrop | Kind::TestpmdDropSpin | Kind::TestpmdTx | Kind::TestpmdTxSpin => 1,
            _ => 0,
        }
    }

    /// A process that polls starves the receive path on the same core: it gets a core of its own,
    /// and the receive path the generator's.
    pub(super) fn placement(self) -> Placement {
        if self.ports() > 0 { Placement::Own } else { Placement::Shared }
    }

    /// Where its frames end.
    pub(super) fn end(self) -> End {
        match self {
            Kind::XdpDrop | Kind::RingsideDrop => End::Driver,
            Kind::NftIngress
            | Kind::NftRaw
            | Kind::NftRawBehindPass
            | Kind::NftFilter
            | Kind::NftConntrack
            | Kind::IptablesRaw
            | Kind::IptablesFilter => End::Rule,
            Kind::TestpmdDrop | Kind::TestpmdDropSpin => End::Process,
            Kind::XdpTx
            | Kind::TestpmdTx
            | Kind::TestpmdTxSpin
            | Kind::XdpHash
            | Kind::RingsideBalance
            | Kind::RingsideTunnel
            | Kind::NftBalance
            | Kind::Ipvs => End::Back,
            Kind::RingsideToCpu => End::Host,
            Kind::XdpRedirect
            | Kind::XdpHop
            | Kind::XdpForward
            | Kind::NftForward
            | Kind::TcForward
            | Kind::TestpmdForward
            | Kind::RingsideRoute
            | Kind::RingsideAsking
            | Kind::Kernel => End::Out,
        }
    }

    /// True if its frames leave by the routes.
    pub(super) fn forwards(self) -> bool {
        self.end() == End::Out
    }

    /// Puts it in place.
    ///
    /// # Errors
    /// It did not start; what it said is in the error.
    pub(super) fn stand(
        self,
        site: &Site,
        files: &Workspace,
        stop: &StopSignal,
    ) -> anyhow::Result<Vec<Defence>> {
        let lab = &site.lab;
        let port = flood::PORT;
        let dropped = format!("udp dport {port} counter drop");
        let stands = match self {
            Kind::XdpDrop => Defence::driver(lab, || Ok(XdpProgram::drop_all()?))?,
            Kind::XdpTx => Defence::driver(lab, || Ok(XdpProgram::swap()?))?,
            Kind::XdpRedirect => {
                Defence::driver(lab, || Ok(XdpProgram::redirect(network::ifindex(EXIT)?)?))?
            }
            Kind::XdpHop => Defence::driver(lab, || Ok(XdpProgram::hop(network::ifindex(EXIT)?)?))?,
            Kind::XdpHash => Defence::driver(lab, || Ok(XdpProgram::hash()?))?,
            Kind::XdpForward => {
                Defence::driver(lab, || Ok(XdpProgram::forward(network::ifindex(EXIT)?)?))?
            }
            Kind::RingsideDrop => {
                rules(lab, files, &format!("1: udp dst port {port} => drop\n"), stop)?
            }
            Kind::RingsideToCpu => {
                rules(lab, files, &format!("1: any => redirect cpu {SENDER_CPU}\n"), stop)?
            }
            Kind::NftIngress => Defence::nftables(lab, Hook::Ingress, "", &dropped)?,
            Kind::NftRaw => Defence::nftables(lab, Hook::Prerouting, "", &dropped)?,
            Kind::NftRawBehindPass => {
                let pass = Defence::driver(lab, || Ok(XdpProgram::pass()?))?;
                return Ok(vec![Defence::nftables(lab, Hook::Prerouting, "", &dropped)?, pass]);
            }
            Kind::NftFilter => Defence::nftables(lab, Hook::Input, "", &dropped)?,
            Kind::NftConntrack => {
                let rule = format!("ct state new,established {dropped}");
                Defence::nftables(lab, Hook::Input, "", &rule)?
            }
            Kind::IptablesRaw => {
                let rule = format!("PREROUTING -p udp --dport {port} -j DROP");
                Defence::iptables(lab, "raw", &rule)?
            }
            Kind::IptablesFilter => {
                let rule = format!("INPUT -p udp --dport {port} -j DROP");
                Defence::iptables(lab, "filter", &rule)?
            }
            Kind::NftForward => {
                Defence::nftables(lab, Hook::Ingress, "", &format!("fwd to \"{EXIT}\""))?
            }
            Kind::TcForward => Defence::mirred(lab, EXIT)?,
            Kind::NftBalance => Defence::nftables(lab, Hook::Ingress, "", &hashed())?,
            Kind::RingsideRoute => route(lab, &[], stop)?,
            Kind::RingsideAsking => route(lab, &["--ask-routes", "always"], stop)?,
            Kind::RingsideBalance => balance(lab, files, "direct", stop)?,
            Kind::RingsideTunnel => balance(lab, files, "ipip", stop)?,
            Kind::TestpmdDrop
            | Kind::TestpmdDropSpin
            | Kind::TestpmdTx
            | Kind::TestpmdTxSpin
            | Kind::TestpmdForward => self.testpmd(lab, stop)?,
            Kind::Kernel | Kind::Ipvs => Defence::None,
        };
        Ok(vec![stands])
    }

    fn testpmd(self, lab: &Lab, stop: &StopSignal) -> anyhow::Result<Defence> {
        let is_spinning = matches!(self, Kind::TestpmdDropSpin | Kind::TestpmdTxSpin);
        let device = if is_spinning { Device::XdpSpin } else { Device::Xdp };
        let is_end = self.end() == End::Process;
        let forwarding = if is_end { Forwarding::RxOnly } else { Forwarding::MacSwap };
        let interfaces = [RECEIVER_INTERFACE, EXIT].map(str::to_owned);
        let interfaces = &interfaces[..usize::from(self.ports())];
        testpmd::start_again(stop, || {
            let program = testpmd::program(self.name().into(), (device, forwarding), interfaces);
            Defence::program(lab, program, stop)
        })
    }
}

fn rules(lab: &Lab, files: &Workspace, text: &str, stop: &StopSignal) -> anyhow::Result<Defence> {
    let file = files.path().join("rules");
    std::fs::write(&file, text).with_context(|| format!("writing {}", file.display()))?;
    Defence::ringside(lab, &file, stop)
}

fn route(lab: &Lab, more: &[&str], stop: &StopSignal) -> anyhow::Result<Defence> {
    let words = ["route", "--no-control", "-i", RECEIVER_INTERFACE, "-i", EXIT];
    let words = words.iter().chain(more).map(OsString::from);
    let command = std::iter::once(own_program()).chain(words).collect();
    Defence::process(lab, "ringside route", command, "forwarding between", stop)
}

fn balance(lab: &Lab, files: &Workspace, via: &str, stop: &StopSignal) -> anyhow::Result<Defence> {
    let file = files.path().join("balance.toml");
    std::fs::write(&file, balanced(via)).with_context(|| format!("writing {}", file.display()))?;
    let words = ["balance", "-i", RECEIVER_INTERFACE, "--config"].map(OsString::from);
    let command = [vec![own_program()], words.to_vec(), vec![file.into()]].concat();
    Defence::process(lab, "ringside balance", command, "listening on", stop)
}

/// Address and hardware address of each real.
fn reals() -> impl Iterator<Item = (String, String)> {
    (1..=REALS).map(|real| (format!("10.3.0.{real}"), format!("02:52:53:00:01:{real:02x}")))
}

/// A configuration of one VIP with all reals.
fn balanced(via: &str) -> String {
    let mut text = format!(
        "source_v4 = \"10.9.0.0/16\"\n\n[[vip]]\nname = \"bench\"\naddress = \
         \"{GENERATED_ADDRESS}\"\nport = {}\nprotocol = \"udp\"\nvia = \"{via}\"\n",
        flood::PORT
    );
    for (address, mac) in reals() {
        let _ = write!(text, "\n[[vip.real]]\naddress = \"{address}\"\nnext_hop = \"{mac}\"\n");
    }
    text
}

/// The rule of nftables that sends each flow to one of all reals.
fn hashed() -> String {
    let choices: Vec<String> =
        reals().enumerate().map(|(number, (_, mac))| format!("{number} : {mac}")).collect();
    format!(
        "udp dport {} ether daddr set jhash ip saddr . udp sport mod {REALS} map {{ {} }} fwd to \
         \"{RECEIVER_INTERFACE}\"",
        flood::PORT,
        choices.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_configuration_is_one() {
        for via in ["direct", "ipip"] {
            let config = ringside_balance::Config::read(balanced(via).as_bytes()).unwrap();
            assert_eq!(config.vips[0].reals.len(), REALS as usize);
        }
    }

    #[test]
    fn the_rule_has_every_real() {
        let rule = hashed();
        assert!(rule.contains("mod 100 map { 0 : 02:52:53:00:01:01, 1 : 02"), "{rule}");
        assert!(rule.ends_with("99 : 02:52:53:00:01:64 } fwd to \"rx0\""), "{rule}");
    }
}
