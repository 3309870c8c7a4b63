//! What a test network is like.

use crate::Error;
use serde::{Deserialize, Serialize};

/// Smallest MTU: what IPv4 needs (RFC 791), and what veth allows.
pub const MTU_MIN: u32 = 68;

/// Largest MTU of a veth pair.
pub const MTU_MAX: u32 = 65_535;

/// Most receive queues. Each costs a ring, a NAPI and perhaps a thread of the kernel.
pub const QUEUES_MAX: u16 = 64;

/// Most veth pairs between the namespaces. Each costs a NAPI and perhaps a thread of the kernel.
pub const PAIRS_MAX: u16 = 64;

/// Longest name of a network: it is part of file and namespace names.
const NAME_BYTES_MAX: usize = 32;

/// What runs the receiving end's NAPI.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Napi {
    /// The CPU that sends, as a softirq: the sender is slowed to what the receive path takes, and
    /// the ring of the veth pair never overflows under the live sender.
    #[default]
    Softirq,
    /// A kernel thread for each queue, on any CPU.
    Threaded,
    /// A kernel thread for each queue, all on this CPU: the sender runs free, and what the ring of
    /// 256 frames cannot hold is refused to it.
    Pinned(usize),
    /// The same, as the receive path of a card: after its first frames it is polled at intervals,
    /// as by a card that moderates its interrupts (`napi_defer_hard_irqs`, `gro_flush_timeout`),
    /// and goes before programs of its CPU for up to three quarters of it, about as softirqs do.
    Moderated {
        /// Where its threads run.
        cpu: usize,
        /// From one poll to the next. At 4.5 million frames a second a ring of 256 holds 57 µs.
        interval_us: u32,
    },
}

/// A test network to be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LabConfig {
    /// Name: lower-case letters, digits and hyphens, at most 32. The namespaces are called
    /// `ringside-NAME-a` and `ringside-NAME-b`.
    pub name: String,
    /// Veth pairs: `tx0` and `rx0`, `tx1` and `rx1`, and so on. Addresses have the first alone.
    pub pairs: u16,
    /// Receive and transmit queues of both ends of each pair.
    pub queues: u16,
    /// MTU of both ends, in bytes; frames may be 14 bytes longer.
    pub mtu: u32,
    /// What runs the receiving end's NAPI.
    pub napi: Napi,
    /// What runs that of the sending end, where frames come back or out again; without it the
    /// sending end has none, and no GRO.
    pub sender_napi: Option<Napi>,
    /// Attach a program that passes everything to the receiving end. Without it, and without `gro`,
    /// the end has no NAPI and the live sender refuses to start.
    pub xdp_pass: bool,
    /// Merge frames at the receiving end (GRO). That makes a NAPI too, which stays the same when a
    /// program is attached later; the host's stack then sees merged frames.
    pub gro: bool,
    /// Give both ends an IPv4 address, for real programs.
    pub addresses: bool,
    /// Let the ends find each other by ARP, which is traffic of its own.
    pub arp: bool,
}

impl Default for LabConfig {
    fn default() -> LabConfig {
        LabConfig {
            name: "lab".into(),
            pairs: 1,
            queues: 1,
            mtu: 1500,
            napi: Napi::Softirq,
            sender_napi: None,
            xdp_pass: true,
            gro: false,
            addresses: true,
            arp: false,
        }
    }
}

impl LabConfig {
    /// Names of the namespaces: the sender's, the receiver's.
    pub fn namespaces(&self) -> [String; 2] {
        ["a", "b"].map(|end| format!("ringside-{}-{end}", self.name))
    }

    /// The interfaces of each pair: the sender's, the receiver's.
    pub(crate) fn interfaces(&self) -> impl Iterator<Item = [String; 2]> {
        (0..self.pairs).map(|pair| [format!("tx{pair}"), format!("rx{pair}")])
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        check_name(&self.name)?;
        let limit = |what, value: u64, limit: String| Err(Error::Limit { what, value, limit });
        if !(1..=PAIRS_MAX).contains(&self.pairs) {
            let text = format!("1 to {PAIRS_MAX}");
            return limit("the number of pairs", self.pairs.into(), text);
        }
        if !(1..=QUEUES_MAX).contains(&self.queues) {
            let text = format!("1 to {QUEUES_MAX}");
            return limit("the number of queues", self.queues.into(), text);
        }
        if !(MTU_MIN..=MTU_MAX).contains(&self.mtu) {
            return limit("the MTU", self.mtu.into(), format!("{MTU_MIN} to {MTU_MAX} bytes"));
        }
        if self.napi != Napi::Softirq && !self.xdp_pass && !self.gro {
            return Err(Error::NoNapi);
        }
        Ok(())
    }
}

/// Names become parts of paths: nothing but letters, digits and hyphens.
pub(crate) fn check_name(name: &str) -> Result<(), Error> {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let good = !name.is_empty() && name.len() <= NAME_BYTES_MAX && name.chars().all(allowed);
    if good { Ok(()) } else { Err(Error::Name { name: name.into(), bytes_max: NAME_BYTES_MAX }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_made_is_refused_with_its_limit() {
        let config = LabConfig::default();
        assert!(config.check().is_ok());
        let refused = |config: LabConfig| config.check().unwrap_err().to_string();
        for name in ["", "../x", "a/b", "Lab", "a b", &"x".repeat(33)] {
            assert!(refused(LabConfig { name: name.into(), ..config.clone() }).contains("32"));
        }
        assert!(refused(LabConfig { pairs: 65, ..config.clone() }).contains("1 to 64"));
        assert!(refused(LabConfig { queues: 0, ..config.clone() }).contains("1 to 64"));
        assert!(refused(LabConfig { mtu: 67, ..config.clone() }).contains("68 to 65535"));
        assert!(refused(LabConfig { mtu: 65_536, ..config.clone() }).contains("65536"));
        let threaded = LabConfig { napi: Napi::Pinned(0), xdp_pass: false, ..config };
        assert!(refused(threaded).contains("NAPI"));
    }
}
