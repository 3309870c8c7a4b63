//! When deleting cannot help: what may not go leaves no room.

use super::super::RetentionError;
use super::super::folder::Folder;
use super::{Book, InVain, Shelf};
use std::collections::BTreeMap;

impl<F: Folder> Shelf<'_, F> {
    /// Files that are pinned, and the bytes that they take or may come to take.
    pub(super) fn pinned(&self) -> (u64, u64) {
        let pinned = self.books.iter().filter(|book| book.is_pinned && !book.file.is_spare);
        pinned.fold((0, 0), |(files, bytes), book| {
            (files + 1, book.charged_bytes.saturating_add(bytes))
        })
    }

    pub(super) fn not_freed(&self, vain: InVain) -> RetentionError {
        let InVain { name, count } = vain;
        RetentionError::NotFreed { directory: self.folder.path().to_owned(), name, count }
    }

    /// # Errors
    /// The files that may not be deleted alone leave no room.
    pub(super) fn check_limit(&self, room: u64, limit: u64) -> Result<(), RetentionError> {
        let mut holders: BTreeMap<&str, (u32, u128)> = BTreeMap::new();
        let mut pinned: Option<(u32, u128)> = None;
        for book in self.open() {
            let holder = holders.entry(&book.file.run).or_default();
            *holder = (holder.0 + 1, holder.1 + u128::from(book.charged_bytes));
        }
        let is_only_pinned = |book: &&Book| book.is_pinned && !book.is_open;
        for book in self.books.iter().filter(is_only_pinned) {
            let holder = pinned.get_or_insert((0, 0));
            *holder = (holder.0 + 1, holder.1 + u128::from(book.charged_bytes));
        }
        let held: u128 = holders.values().chain(&pinned).map(|holder| holder.1).sum();
        let held = held + u128::from(self.drafts_bytes);
        if held + u128::from(room) <= u128::from(limit) {
            return Ok(());
        }
        let name = |(run, (files, bytes))| format!("run {run}: {files} files, {bytes} bytes");
        let mut holders: Vec<String> = holders.into_iter().map(name).collect();
        holders
            .extend(pinned.map(|(files, bytes)| format!("pinned: {files} files, {bytes} bytes")));
        if self.drafts_bytes > 0 {
            holders.push(format!("being compressed: {} bytes", self.drafts_bytes));
        }
        Err(RetentionError::LimitHeld {
            directory: self.folder.path().to_owned(),
            limit,
            asked: room,
            held,
            holders: holders.join("; "),
        })
    }

    /// # Errors
    /// Deleting everything that may be deleted would not free enough.
    pub(super) fn check_free(&self, wanted: u64, free: u64) -> Result<(), RetentionError> {
        let closed = self.books.iter().filter(|book| book.may_go());
        let deletable = closed.map(|book| book.file.allocated_bytes).fold(0, u64::saturating_add);
        let (_, pinned) = self.pinned();
        if free.saturating_add(deletable) >= wanted {
            return Ok(());
        }
        let directory = self.folder.path().to_owned();
        Err(RetentionError::FreeHeld { directory, free, wanted, deletable, pinned })
    }
}
