//! The place of a balancer, or of the end of its tunnels, on an interface.

use crate::Error;
use crate::pins::{InForce, Kind, Pins};
use crate::root::{Root, RootConfig};
use ringside_sys::bpf;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};

/// The place among the leaves: behind rules that drop, before all captures. It is one, so that two
/// balancers on an interface refuse each other.
const BALANCE_POSITIONS: Range<u32> = 1..2;

/// Where a balancer is to be.
#[derive(Clone, Copy, Debug)]
pub struct BalanceAttachmentConfig<'a> {
    /// Name of the interface, for messages.
    pub interface: &'a str,
    /// Its number in the calling thread's network namespace.
    pub ifindex: u32,
    /// Attach to the kernel's generic path if the driver refuses.
    pub generic_allowed: bool,
}

/// The place, taken.
#[derive(Debug)]
pub(super) struct Place {
    root: Root,
    pins: Option<Pins>,
}

impl Place {
    /// Takes it for something that goes with the process.
    pub fn take(config: &BalanceAttachmentConfig<'_>) -> Result<Place, Error> {
        Place::taken(config, None)
    }

    /// Takes it for something of this kind that is to stay, and that of what is there already.
    pub fn take_to_stay(config: &BalanceAttachmentConfig<'_>, kind: Kind) -> Result<Place, Error> {
        Place::taken(config, Some(kind))
    }

    fn taken(config: &BalanceAttachmentConfig<'_>, kind: Option<Kind>) -> Result<Place, Error> {
        let pins = kind.map(|kind| Pins::prepare(kind, config.ifindex)).transpose()?;
        let root = Root::open(&RootConfig {
            interface: config.interface,
            ifindex: config.ifindex,
            positions: BALANCE_POSITIONS,
            wants_metadata: false,
            generic_allowed: config.generic_allowed,
            takes_pinned: kind,
        });
        match root {
            Ok(root) => Ok(Place { root, pins }),
            Err(Error::NoPlace { interface, claim, .. }) => {
                Err(Error::BalancePlace { interface, claim })
            }
            Err(Error::PinsHeld { interface }) => {
                Err(kind.unwrap_or(Kind::Balancer).held(interface))
            }
            Err(other) => Err(other),
        }
    }

    /// What was in force here by pins, and is not ended yet.
    pub fn before(&self) -> Option<&InForce> {
        self.root.taken()
    }

    pub fn stays(&self) -> bool {
        self.pins.is_some()
    }

    pub fn position(&self) -> u32 {
        self.root.position()
    }

    pub fn has_metadata(&self) -> bool {
        self.root.has_metadata()
    }

    pub fn leaves(&self) -> BorrowedFd<'_> {
        self.root.leaves().as_fd()
    }

    pub fn notes(&self) -> &[String] {
        self.root.notes()
    }

    /// Puts a program here. Of one that is to stay, `objects` are what it needs, with its version.
    pub fn put<'o>(
        &self,
        program: BorrowedFd<'o>,
        version: u32,
        objects: impl Iterator<Item = (&'static str, BorrowedFd<'o>)>,
    ) -> Result<(), Error> {
        match &self.pins {
            Some(pins) => self.root.put_to_stay(pins, version, program, objects),
            None => Ok(self.root.leaves().set(self.root.position(), program)?),
        }
    }

    /// Puts a program to its place again if nothing is there, as after a process that was killed on
    /// the way out; true if so.
    pub fn put_back_if_gone(&self, program: BorrowedFd<'_>) -> Result<bool, Error> {
        let (leaves, position) = (self.root.leaves(), self.root.position());
        if leaves.program_at(position)?.is_some() {
            return Ok(false);
        }
        leaves.set(position, program)?;
        Ok(true)
    }

    /// Gives the place back. When this returns, no CPU is within the program, unless it stays.
    pub fn leave(self) -> Result<(), Error> {
        if self.stays() {
            return Ok(());
        }
        self.root.leaves().clear(self.root.position())?;
        bpf::wait_until_left();
        Ok(())
    }
}
