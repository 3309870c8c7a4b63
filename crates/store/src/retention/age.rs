//! How old files are, whatever was done to the clock.
//!
//! Within one boot CLOCK_BOOTTIME tells it exactly. Over boots there is only the wall clock, which
//! may have stepped, and the order of the serials, which cannot lie. So:
//!
//! - A boot's wall clock is taken from its *last* file: a machine that starts in 1970 and is put
//!   right later dates all files of that boot right. The files before are counted back from it.
//! - A file of an earlier boot is at least as old as any later file of this boot: one that was
//!   dated in the future does not hold those up for ever that follow it.
//! - No age is negative.

use super::folder::Born;
use ringside_sys::clock::Clocks;
use std::collections::HashMap;

/// Ages in nanoseconds, each a lower bound as far as can be known, of files in order of serial.
pub(super) fn ages_ns(files: &[Born], now: &Clocks) -> Vec<u64> {
    // Later files of the same boot overwrite earlier ones.
    let last: HashMap<_, _> = files.iter().map(|born| (born.boot_id, *born)).collect();
    let mut at_least = 0;
    let mut ages: Vec<u64> = files
        .iter()
        .rev()
        .map(|born| {
            if is_known(&now.boot_id) && born.boot_id == now.boot_id {
                let age = now.boot_ns.saturating_sub(born.boot_ns);
                at_least = at_least.max(age);
                return age;
            }
            let last = if is_known(&born.boot_id) { last[&born.boot_id] } else { *born };
            let before_last = last.boot_ns.saturating_sub(born.boot_ns);
            let created = last.wall.0.saturating_sub(before_last);
            at_least.max(now.wall.0.saturating_sub(created))
        })
        .collect();
    ages.reverse();
    ages
}

fn is_known(boot_id: &[u8; 16]) -> bool {
    *boot_id != [0; 16]
}
