//! One numbering of interfaces over many files.

use ringside_core::{InterfaceId, LinkType, SourceInterface};
use std::collections::HashMap;

/// What makes two interfaces of different files the same.
type Key = (String, LinkType, String);

/// All interfaces seen so far. A file has at most `INTERFACES_MAX`; what many files of different
/// runs add up to is bounded by the number of files, which the user named.
#[derive(Debug, Default)]
pub(super) struct Registry {
    interfaces: Vec<SourceInterface>,
    known: HashMap<Key, Vec<InterfaceId>>,
}

impl Registry {
    pub(super) fn interfaces(&self) -> &[SourceInterface] {
        &self.interfaces
    }

    /// Completes `ids`, which are those of the first interfaces of a file, for all of `file`.
    /// The n-th of several equal interfaces of one file is the n-th of every other.
    pub(super) fn ids(&mut self, ids: &mut Vec<InterfaceId>, file: &[SourceInterface]) {
        if ids.len() == file.len() {
            return;
        }
        let mut seen: HashMap<Key, usize> = HashMap::new();
        for (index, interface) in file.iter().enumerate() {
            let key = key(interface);
            let nth = seen.entry(key.clone()).or_default();
            if index >= ids.len() {
                ids.push(self.id(key, *nth, interface));
            }
            *nth += 1;
        }
    }

    fn id(&mut self, key: Key, nth: usize, interface: &SourceInterface) -> InterfaceId {
        let same = self.known.entry(key).or_default();
        if let Some(&id) = same.get(nth) {
            join(&mut self.interfaces[id.0 as usize], interface);
            return id;
        }
        let id = InterfaceId(self.interfaces.len() as u32);
        same.push(id);
        self.interfaces.push(interface.clone());
        id
    }
}

fn key(interface: &SourceInterface) -> Key {
    (interface.name.clone(), interface.link_type, interface.description.clone())
}

/// What both say: the longer snapshot length (0 is the longest), the filter if it is the same.
fn join(known: &mut SourceInterface, other: &SourceInterface) {
    known.snaplen_bytes = match (known.snaplen_bytes, other.snaplen_bytes) {
        (0, _) | (_, 0) => 0,
        (a, b) => a.max(b),
    };
    if known.filter != other.filter {
        known.filter.clear();
    }
}
