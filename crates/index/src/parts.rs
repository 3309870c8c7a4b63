//! What lies in one part of a file: the keys of its frames.

use crate::code::put;
use crate::fields::{Captured, fields};
use crate::key::{Key, Kind};
use crate::postings::{PartKeys, packed};
use ringside_core::LinkType;

/// Bytes that the keys of a part may take, each as its distance from the one before: 0.8 % of a
/// part. Ordinary traffic takes a tenth; a flood from random sources has a key a frame and more.
/// Such a part is noted to hold anything.
const KEY_BYTES_MAX: usize = 8 << 10;
/// Keys that are collected before those that are there twice are taken out.
const COLLECTED_MAX: usize = 4 * KEY_BYTES_MAX;
/// Keys that were met last, each in the place that it hashes to: of most frames all keys are there.
const RECENT: usize = 1 << 12;
/// Stands for no key: no kind has the number 0.
const NONE: u64 = 0;

/// The keys of a part, while its frames are read.
pub(crate) struct Collector {
    recent: Vec<u64>,
    recent_long: Vec<Option<u128>>,
    keys: PartKeys,
    is_anything: bool,
}

impl Collector {
    pub(crate) fn new() -> Collector {
        Collector {
            recent: vec![NONE; RECENT],
            recent_long: vec![None; RECENT],
            keys: PartKeys::default(),
            is_anything: false,
        }
    }

    /// Notes what a frame has.
    pub(crate) fn see(&mut self, bytes: &[u8], link: LinkType) {
        if self.is_anything {
            return;
        }
        let frame = Captured(bytes);
        fields(link, &frame, &mut |field| match frame.value(&field) {
            Ok(Some(value)) => self.note(Key { kind: field.kind, value }),
            Ok(None) => {}
            Err(_) => self.is_anything = true,
        });
        if self.keys.len() > COLLECTED_MAX {
            self.order();
        }
    }

    #[inline]
    fn note(&mut self, key: Key) {
        let is_new = match packed(&key) {
            Some(word) => std::mem::replace(&mut self.recent[place(word)], word) != word,
            None => {
                let place = place((key.value >> 64) as u64 ^ key.value as u64);
                self.recent_long[place].replace(key.value) != Some(key.value)
            }
        };
        if is_new {
            self.keys.push(&key);
        }
    }

    fn order(&mut self) {
        self.keys.order();
        if coded_bytes(&self.keys) > KEY_BYTES_MAX {
            self.is_anything = true;
        }
    }

    /// The keys of the part that ends, in order; none if it may hold anything. Begins anew.
    pub(crate) fn take(&mut self) -> Option<PartKeys> {
        self.order();
        let keys = std::mem::take(&mut self.keys);
        self.recent.fill(NONE);
        self.recent_long.fill(None);
        (!std::mem::take(&mut self.is_anything)).then_some(keys)
    }
}

#[inline]
fn place(word: u64) -> usize {
    (word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52) as usize % RECENT
}

fn coded_bytes(keys: &PartKeys) -> usize {
    let mut out = Vec::new();
    let (mut bytes, mut before) = (0, Key { kind: Kind::EtherType, value: 0 });
    for key in keys.iter() {
        let base = if key.kind == before.kind { before.value } else { 0 };
        out.clear();
        put(&mut out, key.value - base);
        bytes += out.len();
        before = key;
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An Ethernet frame of UDP over IPv4.
    fn frame(source: [u8; 4], port: u16) -> Vec<u8> {
        let mut bytes = vec![2; 12];
        bytes.extend([8, 0, 0x45, 0, 0, 40, 0, 0, 0, 0, 64, 17, 0, 0]);
        bytes.extend(source);
        bytes.extend([10, 0, 0, 1]);
        bytes.extend(port.to_be_bytes());
        bytes.extend([0, 53, 0, 8, 0, 0]);
        bytes
    }

    #[test]
    fn each_key_is_there_once_and_in_order() {
        let mut collector = Collector::new();
        for round in 0..3 {
            collector.see(&frame([10, 0, 0, 2], 1000), LinkType::ETHERNET);
            collector.see(&frame([10, 0, 0, round], 1001), LinkType::ETHERNET);
        }
        let keys: Vec<_> = collector.take().unwrap().iter().collect();
        assert!(keys.is_sorted_by(|a, b| a < b), "{keys:?}");
        let of = |kind| keys.iter().filter(move |key| key.kind == kind).map(|key| key.value);
        assert_eq!(of(Kind::Ipv4).collect::<Vec<_>>(), [0x0a00_0000, 0x0a00_0001, 0x0a00_0002]);
        assert_eq!(of(Kind::Port).collect::<Vec<_>>(), [53, 1000, 1001]);
        assert_eq!(of(Kind::Protocol).collect::<Vec<_>>(), [17]);
        assert_eq!(collector.take(), Some(PartKeys::default()), "it begins anew");
    }

    #[test]
    fn a_flood_from_random_sources_is_anything_and_takes_no_memory() {
        let mut collector = Collector::new();
        for number in 0..100_000_u32 {
            let source = number.wrapping_mul(0x9e37_79b9).to_be_bytes();
            collector.see(&frame(source, number as u16), LinkType::ETHERNET);
            assert!(collector.keys.len() <= COLLECTED_MAX + 16);
        }
        assert_eq!(collector.take(), None);
        assert_eq!(collector.take(), Some(PartKeys::default()), "the next part is its own");
    }

    #[test]
    fn a_frame_that_was_cut_within_a_field_makes_its_part_anything() {
        let whole = frame([10, 0, 0, 2], 1000);
        for bytes in 0..=whole.len() {
            let mut collector = Collector::new();
            collector.see(&whole[..bytes], LinkType::ETHERNET);
            let borders = [0, 6, 12, 14, 23, 24, 26, 30, 34, 36, 38];
            let within = borders.windows(2).any(|pair| pair[0] < bytes && bytes < pair[1]);
            let is_between_fields = (15..=23).contains(&bytes) || (24..=26).contains(&bytes);
            let is_anything = collector.take().is_none();
            assert_eq!(is_anything, within && !is_between_fields, "{bytes} bytes");
        }
    }
}
