//! The texts of rules, next to their tables: for a process that reads them when this one is gone.

use crate::room::Room;
use ringside_ebpf::abi::rules::pair;
use ringside_ebpf::rules::{RulesProgram, TEXT_BYTES, Words64};
use ringside_rules::Rule;
use ringside_rules::book::Slot;
use std::collections::HashMap;
use std::sync::atomic::Ordering;

const WORD_BYTES: usize = size_of::<u64>();

/// The texts of rules, in arrays that are pinned with the others.
#[derive(Debug)]
pub(crate) struct Texts {
    titles: Words64,
    texts: Words64,
    room: Room,
    held: HashMap<Slot, (u32, usize)>,
}

/// Pieces of the array that a text takes.
pub(crate) fn pieces(text: &str) -> usize {
    text.len().div_ceil(TEXT_BYTES)
}

impl Texts {
    /// In the arrays of a program that has room for them.
    pub fn new(program: &RulesProgram) -> Result<Texts, ringside_ebpf::Error> {
        let (titles, texts) = (program.table("titles")?, program.table("texts")?);
        let room = Room::new(program.sizes().texts);
        Ok(Texts { titles, texts, room, held: HashMap::new() })
    }

    /// Writes what a rule says; false if there is no room for it.
    pub fn put(&mut self, slot: Slot, rule: &Rule) -> bool {
        let text = rule.to_string();
        let Some(first) = self.room.take(pieces(&text)) else { return false };
        self.held.insert(slot, (first, pieces(&text)));
        let at = first as usize * TEXT_BYTES / WORD_BYTES;
        for (to, bytes) in self.texts[at..].iter().zip(text.as_bytes().chunks(WORD_BYTES)) {
            let mut word = [0; WORD_BYTES];
            word[..bytes.len()].copy_from_slice(bytes);
            to.store(u64::from_ne_bytes(word), Ordering::Relaxed);
        }
        self.titles[slot.0 as usize].store(pair(first, text.len() as u32), Ordering::Release);
        true
    }

    /// From now on the rule is not read any more.
    pub fn hide(&self, slot: Slot) {
        self.titles[slot.0 as usize].store(0, Ordering::Release);
    }

    /// Gives the room back.
    pub fn clear(&mut self, slot: Slot) {
        if let Some((first, count)) = self.held.remove(&slot) {
            self.hide(slot);
            self.room.give(first, count);
        }
    }
}
