//! The way of questions to reals' health (`bpf/tc_check.bpf.c`).

use crate::Error;
use crate::abi::rules::pair;
use crate::load::{Embedded, Loaded, embedded};
use ringside_balance::tables::{RealEntry, Settings};
use ringside_balance::write::outer_without_lengths;
use ringside_sys::bpf;
use ringside_sys::words::Words64;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;

static TC_CHECK: Embedded = embedded!("tc_check");

/// Questions that may be under way at once.
pub const CHECK_SLOTS: usize = 64;
const MARK: u32 = 0x5253_0000;
const WAY_WORDS: usize = 104 / 8;
const USED_AT: usize = 10;

/// The program where an interface's packets leave, of the calling thread's network namespace; taken
/// off on drop.
#[derive(Debug)]
pub struct CheckWays {
    ways: Words64,
    _link: OwnedFd,
}

impl CheckWays {
    /// Puts it there; packets without a mark of ours go on as they are.
    ///
    /// # Errors
    /// No privilege, or a kernel before Linux 6.6.
    pub fn open(interface: &str, ifindex: u32) -> Result<CheckWays, Error> {
        let mut loaded = Loaded::new(&TC_CHECK, None)?;
        let program = loaded.program_fd()?;
        let ways = Words64::of_array(loaded.map("check_ways")?, CHECK_SLOTS * WAY_WORDS);
        let ways = ways.map_err(|e| Error::mapping("check_ways", e))?;
        let link = bpf::attach_tcx(program.as_fd(), ifindex, true).map_err(|e| {
            let what = "cannot attach the way of health checks by tcx (it needs Linux 6.6) to";
            Error::kernel(format!("{what} {interface}"), e.into())
        })?;
        Ok(CheckWays { ways, _link: link })
    }

    /// The mark of packets of a slot.
    pub fn mark(slot: usize) -> u32 {
        MARK | slot as u32
    }

    /// Has packets of a slot go the way of a real from now on; `inner_v4` says what they are.
    pub fn lead(&self, slot: usize, real: &RealEntry, settings: &Settings, inner_v4: bool) {
        let outer = outer_without_lengths(real, settings, inner_v4);
        let mut bytes = [0; 48];
        for (to, byte) in bytes.iter_mut().zip(&outer) {
            *to = *byte;
        }
        let source = match real.ip().is_ipv4() {
            true => [0, settings.source_v4.0.into()],
            false => settings.source_v6.0,
        };
        let hop = real.next_hop.map_or([0; 8], |mac| {
            let [a, b, c, d, e, f] = mac.0;
            [a, b, c, d, e, f, 1, 0]
        });
        self.close(slot);
        let outer = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word));
        let words = real.address.into_iter().chain(source).chain(outer);
        for (at, word) in words.enumerate() {
            self.put(slot, at, word);
        }
        self.put(slot, USED_AT + 1, u64::from_ne_bytes(hop));
        let outer_bytes = real.path.overhead() as u32;
        self.put(slot, USED_AT, pair(outer_bytes, 1));
    }

    /// Packets of a slot are dropped from now on.
    pub fn close(&self, slot: usize) {
        self.put(slot, USED_AT, 0);
    }

    fn put(&self, slot: usize, at: usize, word: u64) {
        if let Some(to) = self.ways.get(slot * WAY_WORDS + at) {
            to.store(word, Ordering::Release);
        }
    }
}
