//! Packets that were recorded twice, as a mirror port gives them, left out of a copy.

use crate::copy::Output;
use ringside_core::{Frame, LinkType, SourceInterface};
use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;
use std::time::Duration;

/// Packets that are remembered: 100 ms at 10 million a second, some 100 MB. The oldest is forgotten
/// for one more.
const REMEMBERED_MAX: usize = 1 << 20;

/// What was left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Duplicates {
    /// Packets that equal one before.
    pub packets: u64,
    /// Their bytes, as captured.
    pub bytes: u64,
    /// Packets that were forgotten within the window, because there were too many: duplicates of
    /// them were kept.
    pub forgotten: u64,
}

/// An [`Output`] that takes each packet once: one is left out if a packet that was taken, in the
/// `window` of time before or after it, has the same bytes, from the link header to the last that
/// was captured, the same length on the wire and the same link type. Bytes are compared by 128 bits
/// of keyed hashes, whose keys are secret.
pub struct Deduplicator {
    inner: Box<dyn Output>,
    /// Without one each packet is taken.
    window_ns: Option<u64>,
    keys: [RandomState; 2],
    /// When each was taken.
    taken: HashMap<u128, u64>,
    order: VecDeque<(u64, u128)>,
    links: Vec<LinkType>,
    newest_ns: u64,
    duplicates: Duplicates,
}

impl Deduplicator {
    /// In front of `inner`; without a window it takes all packets.
    pub fn new(inner: Box<dyn Output>, window: Option<Duration>) -> Deduplicator {
        Deduplicator {
            inner,
            window_ns: window.map(|one| u64::try_from(one.as_nanos()).unwrap_or(u64::MAX)),
            keys: [RandomState::new(), RandomState::new()],
            taken: HashMap::new(),
            order: VecDeque::new(),
            links: Vec::new(),
            newest_ns: 0,
            duplicates: Duplicates::default(),
        }
    }

    /// What was left out so far, if that was asked for.
    pub fn duplicates(&self) -> Option<Duplicates> {
        self.window_ns.map(|_| self.duplicates)
    }

    /// True if an equal one was taken within the window; remembers it if not.
    fn is_known(&mut self, frame: &Frame<'_>, link: LinkType) -> bool {
        let Some(window_ns) = self.window_ns else { return false };
        let now = frame.meta.timestamp.0;
        self.newest_ns = self.newest_ns.max(now);
        while let Some(&(at, hash)) = self.order.front() {
            let is_old = self.newest_ns.saturating_sub(at) > window_ns;
            if !is_old && self.order.len() < REMEMBERED_MAX {
                break;
            }
            self.duplicates.forgotten += u64::from(!is_old);
            self.order.pop_front();
            // It may have been taken again since.
            if self.taken.get(&hash) == Some(&at) {
                self.taken.remove(&hash);
            }
        }
        let hash = self.hash(frame, link);
        if self.taken.get(&hash).is_some_and(|&at| now.abs_diff(at) <= window_ns) {
            return true;
        }
        self.taken.insert(hash, now);
        self.order.push_back((now, hash));
        false
    }

    fn hash(&self, frame: &Frame<'_>, link: LinkType) -> u128 {
        let of = |key: &RandomState| key.hash_one((link.0, frame.meta.wire_bytes, frame.bytes));
        u128::from(of(&self.keys[0])) << 64 | u128::from(of(&self.keys[1]))
    }
}

impl Output for Deduplicator {
    fn add_interface(&mut self, interface: &SourceInterface) -> anyhow::Result<()> {
        self.links.push(interface.link_type);
        self.inner.add_interface(interface)
    }

    fn put(&mut self, frame: &Frame<'_>) -> anyhow::Result<()> {
        let number = frame.meta.interface.0 as usize;
        let link = self.links.get(number).copied().unwrap_or(LinkType::UNKNOWN);
        if self.is_known(frame, link) {
            self.duplicates.packets += 1;
            self.duplicates.bytes += frame.bytes.len() as u64;
            return Ok(());
        }
        self.inner.put(frame)
    }

    fn idle(&mut self) -> anyhow::Result<()> {
        self.inner.idle()
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        self.inner.finish()
    }

    fn abandon(&mut self) -> Option<(PathBuf, u64)> {
        self.inner.abandon()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::copy::Counter;
    use ringside_core::{FrameMeta, Timestamp};
    use ringside_testkit::{Random, by_run};

    fn known(dedup: &mut Deduplicator, bytes: &[u8], at: u64) -> bool {
        let wire_bytes = bytes.len() as u32;
        let meta = FrameMeta { timestamp: Timestamp(at), wire_bytes, ..Default::default() };
        dedup.is_known(&Frame { bytes, meta }, LinkType::ETHERNET)
    }

    fn with_window(ns: u64) -> Deduplicator {
        Deduplicator::new(Box::new(Counter), Some(Duration::from_nanos(ns)))
    }

    #[test]
    fn what_equals_one_of_the_window_is_known() {
        let mut dedup = with_window(10);
        assert!(!known(&mut dedup, b"a", 100));
        assert!(known(&mut dedup, b"a", 110), "the border is within");
        assert!(!known(&mut dedup, b"a", 111), "one that was left out does not prolong it");
        assert!(known(&mut dedup, b"a", 105), "stamps may go back");
        assert!(!known(&mut dedup, b"b", 112) && !known(&mut dedup, b"aa", 112));
        let meta = FrameMeta { timestamp: Timestamp(112), wire_bytes: 9, ..Default::default() };
        let longer = Frame { bytes: b"a", meta };
        assert!(!dedup.is_known(&longer, LinkType::ETHERNET), "longer on the wire");
        let same = Frame { bytes: b"a", meta };
        assert!(!dedup.is_known(&same, LinkType(101)), "of another link type");
        assert_eq!(dedup.duplicates().map(|one| one.forgotten), Some(0));
    }

    #[test]
    fn it_is_what_a_look_at_all_packets_before_says() {
        let mut random = Random::new(8);
        for _ in 0..by_run(200, 20_000) {
            let window = random.next_u64() % 50;
            let (mut dedup, mut taken, mut now) = (with_window(window), Vec::new(), 1000);
            for _ in 0..60 {
                now += random.next_u64() % 30;
                let bytes = [random.below(4) as u8];
                // The latest that was taken is the nearest.
                let last = taken.iter().rev().find(|(other, _)| *other == bytes);
                let is_known = last.is_some_and(|&(_, at): &([u8; 1], u64)| now - at <= window);
                assert_eq!(known(&mut dedup, &bytes, now), is_known);
                if !is_known {
                    taken.push((bytes, now));
                }
            }
        }
    }
}
