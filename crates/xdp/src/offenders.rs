//! Sources of dropped frames, as the driver notes them.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A source address of dropped frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offender {
    /// The source address.
    pub address: IpAddr,
    /// Frames of it that were dropped, at least. Sources that share a place in the table displace
    /// each other, so that small ones may be missing. The fast path notes one frame in 16 for all:
    /// what it dropped is about that many.
    pub frames: u64,
}

/// The sources of most frames, of what the CPUs noted.
pub fn offenders(noted: impl Iterator<Item = ([u64; 2], u64, u64)>, most: usize) -> Vec<Offender> {
    let mut sums: HashMap<IpAddr, u64> = HashMap::new();
    for (words, version, frames) in noted {
        let sum = sums.entry(address_of(words, version)).or_default();
        // Saturating: where it is pinned, another program may have written there.
        *sum = sum.saturating_add(frames);
    }
    let all = sums.into_iter().map(|(address, frames)| Offender { address, frames });
    let mut all: Vec<Offender> = all.collect();
    all.sort_unstable_by_key(|one| (std::cmp::Reverse(one.frames), one.address));
    all.truncate(most);
    all
}

/// An address as the driver notes it.
fn address_of([low, high]: [u64; 2], version: u64) -> IpAddr {
    match version {
        4 => Ipv4Addr::from((low as u32).to_ne_bytes()).into(),
        _ => {
            let ([a, b, c, d, e, f, g, h], [i, j, k, l, m, n, o, p]) =
                (low.to_ne_bytes(), high.to_ne_bytes());
            Ipv6Addr::from([a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p]).into()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cpus_noted_adds_up_whatever_it_is() {
        let noted = |words: [u64; 4]| ([words[0], words[1]], words[2], words[3]);
        let v4 = u64::from(u32::from_ne_bytes([192, 0, 2, 7]));
        let seeds = [[v4, 0, 4, 3, v4, 9, 4, 4], [v4, 0, 4, u64::MAX, v4, 0, 4, u64::MAX]];
        let seeds = seeds.map(|words| words.map(u64::to_ne_bytes).concat());
        ringside_testkit::fuzz("offenders", 100_000, &seeds, |bytes| {
            let words = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word));
            let words: Vec<u64> = words.collect();
            let all = words.as_chunks::<4>().0;
            let found = offenders(all.iter().copied().map(noted), 3);
            assert!(found.len() <= all.len().min(3));
            assert!(found.is_sorted_by(|a, b| a.frames >= b.frames));
            let most = all.iter().map(|words| words[3]).max();
            assert!(most.is_none_or(|most| found[0].frames >= most));
        });
        let found = offenders([noted([v4, 0, 4, 3]), noted([v4, 9, 4, 4])].into_iter(), 9);
        let address = Ipv4Addr::new(192, 0, 2, 7).into();
        assert_eq!(found, [Offender { address, frames: 7 }]);
    }
}
