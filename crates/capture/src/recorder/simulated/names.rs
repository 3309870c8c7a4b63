//! The names of a simulated disk's files. As with ext4, XFS and btrfs, changes of names reach the
//! medium in their order, and a sync of anything takes all of them along.

use super::body::Crash;
use ringside_testkit::Random;
use std::collections::BTreeMap;

/// File numbers by name.
pub(super) type Directory = BTreeMap<String, usize>;

/// What becomes of a name: a file, or nothing.
type Change = Vec<(String, Option<usize>)>;

#[derive(Default)]
pub(super) struct Names {
    now: Directory,
    synced: Directory,
    /// What came since, each at once or not at all.
    since: Vec<Change>,
}

impl Names {
    pub(super) fn now(&self) -> &Directory {
        &self.now
    }

    pub(super) fn add(&mut self, name: &str, file: usize) {
        self.change(vec![(name.to_owned(), Some(file))]);
    }

    pub(super) fn remove(&mut self, name: &str) {
        self.change(vec![(name.to_owned(), None)]);
    }

    /// Renames a file that is there.
    pub(super) fn rename(&mut self, from: &str, to: &str) {
        let file = self.now[from];
        self.change(vec![(from.to_owned(), None), (to.to_owned(), Some(file))]);
    }

    fn change(&mut self, change: Change) {
        apply(&mut self.now, &change);
        self.since.push(change);
    }

    pub(super) fn settle(&mut self) {
        self.since.clear();
        self.synced.clone_from(&self.now);
    }

    /// What a crash leaves.
    pub(super) fn left(&self, crash: Crash, random: &mut Random) -> Directory {
        let changes = match crash {
            Crash::Killed => self.since.len(),
            Crash::OnlySynced => 0,
            Crash::Any => random.below(self.since.len() + 1),
        };
        let mut left = self.synced.clone();
        self.since[..changes].iter().for_each(|change| apply(&mut left, change));
        left
    }
}

fn apply(directory: &mut Directory, change: &Change) {
    for (name, file) in change {
        match file {
            Some(file) => directory.insert(name.clone(), *file),
            None => directory.remove(name),
        };
    }
}
