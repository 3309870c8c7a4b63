//! Media of calls, counted where they arrive (`bpf/xdp_rtp.bpf.c`).
//!
//! A [`RtpMeter`] is the program with its table ([`RtpTable`]), on an interface or only for test
//! runs. User space names endpoints; packets of RTP to and from them are counted by stream, and go
//! nowhere. All else goes on to the captures behind, and to the host.

mod abi;
mod table;

pub use abi::{
    Counts, End, KINDS, PAYLOAD_TYPES, STREAMS, SequenceState, SpreadWords, StreamState,
};
pub use table::{Kinds, RtpLayout, RtpTable, RuleNumber};

use crate::abi::METADATA_FULL_BYTES;
use crate::load::{Embedded, Loaded, TestRun, embedded, test_run};
use crate::root::{LEAVES, Root, RootConfig};
use crate::{Error, Verdict};
use abi::Config;
use libbpf_rs::OpenObject;
use ringside_sys::bpf;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

static XDP_RTP: Embedded = embedded!("xdp_rtp");

/// Places among the leaves, with rules: before all captures.
const RTP_POSITIONS: Range<u32> = 0..2;

/// A program that counts media; taken off its interface on drop.
#[derive(Debug)]
pub struct RtpMeter {
    table: RtpTable,
    program: OwnedFd,
    /// Its place; none of a program for test runs, and once it was taken off.
    root: Option<Root>,
    notes: Vec<String>,
}

impl RtpMeter {
    /// Puts a meter on an interface of the calling thread's network namespace, without a rule.
    ///
    /// # Errors
    /// A foreign program is on the interface, its driver takes none, both places before captures
    /// are taken, there is no memory, or the kernel refused.
    pub fn open(interface: &str, ifindex: u32, rules: u32) -> Result<RtpMeter, Error> {
        let root = Root::open(&RootConfig {
            interface,
            ifindex,
            positions: RTP_POSITIONS,
            wants_metadata: false,
            generic_allowed: false,
            takes_pinned: None,
        })?;
        let constants = Config {
            position: root.position(),
            metadata: if root.has_metadata() { METADATA_FULL_BYTES } else { 0 },
            ..Config::default()
        };
        let (table, program) = load(constants, rules, Some(root.leaves().as_fd()))?;
        root.leaves().set(root.position(), program.as_fd())?;
        let notes = root.notes().to_vec();
        Ok(RtpMeter { table, program, root: Some(root), notes })
    }

    /// A meter for test runs, whose time is that of the table.
    ///
    /// # Errors
    /// There is no memory, or the kernel refused.
    pub fn unattached(rules: u32) -> Result<RtpMeter, Error> {
        let (table, program) = load(Config { is_test: true, ..Config::default() }, rules, None)?;
        Ok(RtpMeter { table, program, root: None, notes: Vec::new() })
    }

    /// The rules, and what was counted.
    pub fn table(&self) -> &RtpTable {
        &self.table
    }

    /// See [`table`](RtpMeter::table).
    pub fn table_mut(&mut self) -> &mut RtpTable {
        &mut self.table
    }

    /// What the kernel refused when the program was attached, each with its reason.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Takes it off the interface. When this returns the counts change no more. May take some ten
    /// milliseconds.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn stop(&mut self) -> Result<(), Error> {
        if let Some(root) = self.root.take() {
            root.leaves().clear(root.position())?;
            bpf::wait_until_left();
        }
        Ok(())
    }

    /// Runs the program on a copy of `frame`; true if it counts it.
    ///
    /// # Errors
    /// The kernel refused: a frame of less than 14 bytes is.
    pub fn test_run(&self, frame: &[u8]) -> Result<bool, Error> {
        let TestRun { verdict, .. } = test_run(self.program.as_fd(), frame)?;
        Ok(verdict == Verdict::Drop)
    }

    /// Runs it `repeat` times; mean nanoseconds.
    ///
    /// # Errors
    /// As [`test_run`](RtpMeter::test_run).
    pub fn time(&self, frame: &[u8], repeat: u32) -> Result<u32, Error> {
        Ok(bpf::test_run(self.program.as_fd(), frame, repeat, &mut [])?.0.duration_ns)
    }
}

impl Drop for RtpMeter {
    fn drop(&mut self) {
        // The kernel refuses only what is not there.
        let _ = self.stop();
    }
}

fn load(
    constants: Config,
    rules: u32,
    leaves: Option<BorrowedFd<'_>>,
) -> Result<(RtpTable, OwnedFd), Error> {
    let cpus = bpf::cpu_numbers()?;
    let rules = rules.clamp(16, RtpLayout::RULES_MAX).next_power_of_two();
    let layout = RtpLayout { cpus, rules };
    // A secret of each table: no sender can choose endpoints that fall on one set.
    let seed = std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), cpus);
    let constants = Config { seed, sets: layout.sets(), ..constants };
    let mut loaded = Loaded::prepared(&XDP_RTP, Some(&constants.to_bytes()), |object| {
        size(object, layout, leaves)
    })?;
    let table = RtpTable::of(&loaded, layout, seed)?;
    Ok((table, loaded.program_fd()?))
}

fn size(
    object: &mut OpenObject,
    layout: RtpLayout,
    leaves: Option<BorrowedFd<'_>>,
) -> Result<(), libbpf_rs::Error> {
    for mut map in object.maps_mut() {
        match (&*map.name().to_string_lossy(), leaves) {
            (LEAVES, Some(leaves)) => map.reuse_fd(leaves)?,
            ("rtp_counts", _) => map.set_max_entries(layout.cpus)?,
            ("rtp_kinds", _) => map.set_max_entries(KINDS as u32)?,
            ("rtp_sets", _) => map.set_max_entries(layout.sets())?,
            ("rtp_rules", _) => map.set_max_entries(layout.rules)?,
            _ => {}
        }
    }
    Ok(())
}
