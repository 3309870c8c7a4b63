//! The end of a balancer's tunnels, on the interface of a real server.

use crate::BalancerError;
use crate::interface::{self, AddressWatch};
use ringside_balance::Prefix;
use ringside_balance::decap::Decap;
use ringside_core::ledger::sum;
use ringside_ebpf::balance::{BalanceAttachmentConfig, DecapCounts, DecapProgram, PinnedDecap};
use ringside_ebpf::pins::{Kind, Opened, Pins};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::path::Path;
use std::time::{Duration, Instant};

/// How often the interface is looked at.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Which tunnels end where.
#[derive(Clone, Debug)]
pub struct DecapOptions {
    /// Name of the interface, in the calling thread's network namespace.
    pub interface: String,
    /// Addresses of this host at which tunnels end, 1 to 8.
    pub addresses: Vec<IpAddr>,
    /// Where those over IPv4 begin.
    pub source_v4: Option<Prefix>,
    /// The same over IPv6.
    pub source_v6: Option<Prefix>,
    /// Destination port of GUE.
    pub gue_port: u16,
    /// Attach to the kernel's generic path if the driver refuses.
    pub generic_allowed: bool,
    /// It outlives this object and the process, and takes the place of one that is pinned.
    pub is_pinned: bool,
}

/// The end of tunnels. On drop the program is taken off, unless it is pinned.
#[derive(Debug)]
pub struct DriverDecap {
    interface: String,
    program: DecapProgram,
    address: AddressWatch,
    look_at: Instant,
}

/// All frames that came in by the interface: each is passed, unpacked or dropped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DecapLedger {
    /// Name of the interface.
    pub interface: String,
    /// Frames that its driver received.
    pub received: u64,
    /// Without a packet in a tunnel that ends here: the host has them as they came.
    pub passed: u64,
    /// Whose packet the host has in their place.
    pub unpacked: u64,
    /// Dropped: the way was congested, and the packet cannot say so (RFC 6040).
    pub congested: u64,
    /// Dropped: the driver cannot move the frame's start.
    pub no_room: u64,
}

impl DriverDecap {
    /// Packets come out of tunnels from somewhere in this call on. Says what people are to know.
    ///
    /// # Errors
    /// There are no addresses or too many, nothing can be attached to the interface, something else
    /// is there, or the kernel refused.
    pub fn open(options: &DecapOptions) -> Result<(DriverDecap, Vec<String>), BalancerError> {
        let (device, mac) = interface::find(&options.interface)?;
        let place = BalanceAttachmentConfig {
            interface: &options.interface,
            ifindex: device.ifindex,
            generic_allowed: options.generic_allowed,
        };
        let decap = Decap {
            mac,
            addresses: options.addresses.clone(),
            source_v4: options.source_v4,
            source_v6: options.source_v6,
            gue_port: options.gue_port,
        };
        let program = match options.is_pinned {
            true => DecapProgram::open_to_stay(&place, &decap)?,
            false => DecapProgram::open(&place, &decap)?,
        };
        let notes = program.notes().iter();
        let notes = notes.map(|note| format!("{}: {note}", options.interface)).collect();
        let (interface, look_at) = (options.interface.clone(), Instant::now() + LOOK_INTERVAL);
        let address = AddressWatch::new(&interface, mac);
        Ok((DriverDecap { interface, program, address, look_at }, notes))
    }

    /// Does what is due. To be called some 20 times a second. Gives what people are to know.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn tend(&mut self, now: Instant) -> Result<Vec<String>, BalancerError> {
        let mut notes = Vec::new();
        if now >= self.look_at {
            self.look_at = now + LOOK_INTERVAL;
            if self.program.put_back_if_gone()? {
                notes.push("the program was taken off, and was put back".to_owned());
            }
            notes.extend(self.address.look());
        }
        Ok(notes)
    }

    /// Frames so far.
    pub fn ledger(&self) -> DecapLedger {
        DecapLedger::of(&self.interface, self.program.counts())
    }

    /// Takes the program off: when this returns all frames pass, and the ledger is exact and stays
    /// as it is. What is pinned goes on.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn stop(&mut self) -> Result<(), BalancerError> {
        Ok(self.program.stop()?)
    }
}

impl DecapLedger {
    fn of(interface: &str, counts: DecapCounts) -> DecapLedger {
        let DecapCounts { seen, passed, unpacked, congested, no_room } = counts;
        let interface = interface.to_owned();
        DecapLedger { interface, received: seen, passed, unpacked, congested, no_room }
    }

    /// Frames that were dropped.
    pub fn dropped(&self) -> u64 {
        sum([self.congested, self.no_room])
    }

    /// Checks that each frame is where it is said to be; only while none come.
    ///
    /// # Errors
    /// The sum that is wrong, in words.
    pub fn balance(&self) -> Result<(), String> {
        let accounted = sum([self.passed, self.unpacked, self.dropped()]);
        if self.received == accounted {
            return Ok(());
        }
        let DecapLedger { interface, received, .. } = self;
        Err(format!("{interface}: received {received}, passed, unpacked and dropped {accounted}"))
    }
}

/// The end of tunnels that is pinned, whether or not a process is there.
#[derive(Debug)]
pub struct PinnedEnd(Opened<PinnedDecap>);

impl PinnedEnd {
    /// All of them, with what could not be read.
    pub fn all() -> (Vec<PinnedEnd>, Vec<BalancerError>) {
        let (all, errors) = Pins::open_all(Kind::Decap, PinnedDecap::open);
        let errors = errors.into_iter().map(Into::into).collect();
        (all.into_iter().map(PinnedEnd).collect(), errors)
    }

    /// What is pinned, and where.
    pub fn pins(&self) -> &Pins {
        &self.0.pins
    }

    /// Where its names are in the BPF file system.
    pub fn directory(&self) -> &Path {
        self.0.program.directory()
    }

    /// Frames since it was pinned: exact while none come.
    pub fn ledger(&self) -> DecapLedger {
        DecapLedger::of(&self.0.interface, self.0.program.counts())
    }
}

/// What is pinned of interfaces of this name and unpacks nothing, or cannot be read.
pub fn remains_of_end(interface: &str) -> Vec<Pins> {
    Pins::remains(Kind::Decap, interface, PinnedDecap::open)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_that_is_missing_shows() {
        let counts = DecapCounts { seen: 10, passed: 1, unpacked: 6, congested: 2, no_room: 1 };
        let ledger = DecapLedger::of("eth1", counts);
        assert_eq!((ledger.balance(), ledger.dropped()), (Ok(()), 3));
        let wrong = DecapLedger { received: 11, ..ledger };
        assert!(wrong.balance().unwrap_err().contains("received 11"));
    }
}
