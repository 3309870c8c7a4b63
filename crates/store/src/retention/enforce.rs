//! The procedure, with the directory's lock held: look, delete strictly oldest first until the new
//! file fits, hand out its serial number.

mod refusal;

use super::age::ages_ns;
use super::folder::{FileFacts, Folder, reused_name};
use super::state::{Limits, RECORDERS_MAX, State};
use super::{Deleted, Policy, RetentionError};
use crate::recording::END_BYTES;
use ringside_core::{Shown, Timestamp};
use ringside_sys::clock::Clocks;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::io;
use std::path::Path;

/// Deletions that freed nothing before deleting for free space ends. One may be a file that a
/// reader holds open; a file system with snapshots would swallow all.
pub(super) const VAIN_DELETIONS_MAX: u32 = 2;

/// Why a file is deleted, in the words of messages to people.
const KEEPS_LIMIT: &str = "to keep the limit of bytes";

/// What is asked for.
pub(super) struct Order<'a> {
    pub(super) run: &'a str,
    pub(super) policy: Policy,
    /// Name of the file that is about to be created; `None` only tidies up.
    pub(super) name: Option<&'a str>,
    /// Its largest size.
    pub(super) room: u64,
    pub(super) now: Clocks,
    /// The last file that goes may become the new one.
    pub(super) reuses: bool,
    /// What was deleted in vain before, if free space has been short ever since: then no more is.
    pub(super) in_vain: Option<&'a InVain>,
}

/// Deletions that did not free anything.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct InVain {
    /// The last file.
    pub(super) name: String,
    pub(super) count: u32,
}

/// What is there afterwards.
#[derive(Debug)]
pub(super) struct Kept {
    /// Serial number for the new file.
    pub(super) serial: u64,
    pub(super) files: u64,
    /// Bytes in use and reserved, the new file included.
    pub(super) used_bytes: u64,
    pub(super) oldest: Option<Timestamp>,
    /// Why files past their age are still there. The limits hold nevertheless.
    pub(super) overdue: Option<RetentionError>,
    /// A file that went was handed over, to be written over.
    pub(super) is_reused: bool,
    /// Other runs keep limits here too, or free space is kept: what is deleted must be free.
    pub(super) is_shared: bool,
    pub(super) pinned_files: u64,
    pub(super) pinned_bytes: u64,
    /// Bytes that may be pinned.
    pub(super) pin_budget: Option<u64>,
}

/// Makes room. `deleted` is appended to as files go, so that it is right also after an error.
pub(super) fn enforce<F: Folder>(
    folder: &mut F,
    order: &Order<'_>,
    deleted: &mut Vec<Deleted>,
) -> Result<Kept, RetentionError> {
    let mut state = folder.state()?;
    let mut files = folder.files()?;
    files.sort_by(|a, b| (a.serial, &a.name).cmp(&(b.serial, &b.name)));
    end_creation(folder, &mut state, &files)?;
    let mut living = Living::new(order.run);
    let limits = limits(folder, &mut state, order, &mut living)?;
    state.next_serial = next_serial(folder, &state, &files)?;
    let (pinned, unknown) = match folder.pinned() {
        Ok(names) => (Some(names), None),
        // Then anything may be, and nothing goes.
        Err(error @ RetentionError::PinsUnreadable { .. }) => (None, Some(error)),
        Err(error) => return Err(error),
    };
    let mut shelf = Shelf::new(folder, files, &mut living, pinned.as_ref())?;
    shelf.remove_empty_spares();
    let overdue = shelf.delete_past_age(order, deleted).err();
    let made = shelf.make_room(order, &limits, deleted);
    let unknown = match made {
        Err(error) if error.is_no_room() => return Err(unknown.unwrap_or(error)),
        Err(error) => return Err(error),
        Ok(()) => unknown,
    };
    let aside = shelf.aside.take();
    let (pinned_files, pinned_bytes) = shelf.pinned();
    let mut kept = Kept {
        serial: state.next_serial,
        files: shelf.books.len() as u64,
        used_bytes: u64::try_from(shelf.used_bytes())
            .unwrap_or(u64::MAX)
            .saturating_add(order.room),
        oldest: shelf.books.front().map(|book| book.file.born.wall),
        overdue: overdue.or(unknown),
        is_reused: false,
        is_shared: state.recorders.len() > 1 || limits.min_free.is_some(),
        pinned_files,
        pinned_bytes,
        pin_budget: limits.pin_bytes,
    };
    if let Some(name) = order.name {
        if folder.exists(name)? {
            return Err(RetentionError::NameTaken { path: folder.path().join(name) });
        }
        state.creating = Some(name.to_owned());
        state.next_serial += 1;
    }
    folder.set_state(&state)?;
    if let (Some(file), Some(name)) = (aside, order.name) {
        kept.is_reused = hand_over(folder, file, name, deleted)?;
    }
    Ok(kept)
}

/// Hands the file that was set aside over to the new one; deletes it if that cannot be. The state
/// says by now that the new name is being created: who comes after a kill removes what is half
/// made.
fn hand_over<F: Folder>(
    folder: &mut F,
    file: FileFacts,
    name: &str,
    deleted: &mut Vec<Deleted>,
) -> Result<bool, RetentionError> {
    let path = folder.path().join(&file.name);
    let is_reused = match folder.reuse(&file.name, &reused_name(name)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(source) => return Err(RetentionError::Delete { path, source }),
        Ok(is_reused) => is_reused,
    };
    let how = if is_reused { "deleted, to be written over," } else { "deleted" };
    note_deletion(&path, file, &format!("{how} {KEEPS_LIMIT}"), deleted);
    Ok(is_reused)
}

/// Tells of a file that went.
fn note_deletion(path: &Path, file: FileFacts, why: &str, deleted: &mut Vec<Deleted>) {
    let (serial, bytes) = (file.serial, file.taken_bytes());
    tracing::info!(serial, bytes, "{}: {why}", path.shown());
    deleted.push(Deleted { name: file.name, serial, bytes });
}

/// Removes what a creator left that was killed before its header page was written. Its name was
/// free when the state was written, so it is ours although nothing in it says so.
fn end_creation<F: Folder>(
    folder: &mut F,
    state: &mut State,
    files: &[FileFacts],
) -> Result<(), RetentionError> {
    let Some(name) = state.creating.take() else { return Ok(()) };
    for name in [reused_name(&name), name] {
        if files.iter().any(|file| file.name == name) || !folder.exists(&name)? {
            continue;
        }
        let path = folder.path().join(&name);
        tracing::info!("{}: removed, its creation was cut short", path.shown());
        let removed = folder.remove(&name).or_else(gone);
        removed.map_err(|source| RetentionError::Delete { path, source })?;
    }
    Ok(())
}

fn gone(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

/// One more than any serial number that was ever handed out or is there.
fn next_serial<F: Folder>(
    folder: &F,
    state: &State,
    files: &[FileFacts],
) -> Result<u64, RetentionError> {
    let Some(last) = files.last() else { return Ok(state.next_serial) };
    let path = || folder.path().join(&last.name);
    // The one after must exist too, as it is what the state will say.
    match last.serial.checked_add(2) {
        Some(_) => Ok(state.next_serial.max(last.serial + 1)),
        None => Err(RetentionError::SerialsUsedUp { path: path() }),
    }
}

/// Notes this run's limits in the state, forgets those of dead runs, and gives the strictest.
fn limits<F: Folder>(
    folder: &mut F,
    state: &mut State,
    order: &Order<'_>,
    living: &mut Living,
) -> Result<Limits, RetentionError> {
    state.note(order.run, &order.policy);
    let mut live = Vec::new();
    for recorder in std::mem::take(&mut state.recorders) {
        if living.is_live(folder, &recorder.run)? {
            live.push(recorder);
        }
    }
    if live.len() > RECORDERS_MAX {
        return Err(RetentionError::TooMany {
            directory: folder.path().to_owned(),
            limit: RECORDERS_MAX,
            what: "runs record here with limits; give some of them another directory",
        });
    }
    state.recorders = live;
    Ok(state.limits())
}

/// Which runs live: each is asked once. Who asks lives.
struct Living(HashMap<String, bool>);

impl Living {
    fn new(own: &str) -> Living {
        Living(HashMap::from([(own.to_owned(), true)]))
    }

    fn is_live<F: Folder>(&mut self, folder: &mut F, run: &str) -> Result<bool, RetentionError> {
        if let Some(&live) = self.0.get(run) {
            return Ok(live);
        }
        let live = folder.is_live(run)?;
        self.0.insert(run.to_owned(), live);
        Ok(live)
    }
}

/// A file, and what it means for the limits.
struct Book {
    file: FileFacts,
    /// A live run may still write to it: it is not deleted.
    is_open: bool,
    /// Nor while somebody wants to keep it.
    is_pinned: bool,
    /// Bytes that it takes or may still come to take.
    charged_bytes: u64,
}

impl Book {
    fn may_go(&self) -> bool {
        !self.is_open && !self.is_pinned
    }

    fn new(file: FileFacts, is_open: bool, is_pinned: bool) -> Book {
        let taken = file.taken_bytes();
        let charged_bytes = match file.is_unfinished() {
            true if is_open => taken.max(file.bytes_max),
            true => taken.max(file.bytes_max.min(file.size_bytes.saturating_add(END_BYTES))),
            false => taken,
        };
        Book { file, is_open, is_pinned, charged_bytes }
    }
}

/// The files of the directory, in order of serial. Sums are of 128 bits: sizes come from headers.
struct Shelf<'f, F> {
    folder: &'f mut F,
    books: VecDeque<Book>,
    /// A file that is to become the new one: in no sum any more, and still there.
    aside: Option<FileFacts>,
    /// Bytes of what files are being packed into.
    drafts_bytes: u64,
}

impl<'f, F: Folder> Shelf<'f, F> {
    fn new(
        folder: &'f mut F,
        files: Vec<FileFacts>,
        living: &mut Living,
        pinned: Option<&BTreeSet<String>>,
    ) -> Result<Shelf<'f, F>, RetentionError> {
        let drafts_bytes = folder.drafts_bytes()?;
        let mut books = VecDeque::with_capacity(files.len());
        for file in files {
            // A finished file has no owner any more, also if its run still lives.
            let is_open = file.is_unfinished() && living.is_live(folder, &file.run)?;
            let is_pinned = pinned.is_none_or(|names| names.contains(file.first_name()));
            books.push_back(Book::new(file, is_open, is_pinned));
        }
        Ok(Shelf { folder, books, aside: None, drafts_bytes })
    }

    fn used_bytes(&self) -> u128 {
        let books = self.books.iter().map(|book| u128::from(book.charged_bytes));
        books.sum::<u128>() + u128::from(self.drafts_bytes)
    }

    fn open(&self) -> impl Iterator<Item = &Book> {
        self.books.iter().filter(|book| book.is_open)
    }

    /// Spare files of dead runs hold space and no frame, so that they go is no loss.
    fn remove_empty_spares(&mut self) {
        let folder = &mut *self.folder;
        self.books.retain(|book| {
            let (file, is_open) = (&book.file, book.is_open);
            // What cannot be removed counts, and has its turn when it is the oldest.
            is_open || !file.is_empty_spare() || folder.remove(&file.name).or_else(gone).is_err()
        });
    }

    /// Deletes files past their age, in order; the first that is not ends it.
    fn delete_past_age(
        &mut self,
        order: &Order<'_>,
        deleted: &mut Vec<Deleted>,
    ) -> Result<(), RetentionError> {
        let Some(limit) = order.policy.limit_age else { return Ok(()) };
        let born: Vec<_> = self.books.iter().map(|book| book.file.born).collect();
        let ages = ages_ns(&born, &order.now);
        let closed = self.books.iter().zip(ages).filter(|(book, _)| book.may_go());
        let past = closed.take_while(|&(_, age)| u128::from(age) > limit.as_nanos()).count();
        for _ in 0..past {
            self.delete_oldest("past its age", deleted)?;
        }
        Ok(())
    }

    /// Deletes until `room` fits the limits; nothing if that cannot be reached.
    fn make_room(
        &mut self,
        order: &Order<'_>,
        limits: &Limits,
        deleted: &mut Vec<Deleted>,
    ) -> Result<(), RetentionError> {
        if let Some(limit) = limits.bytes {
            // Free space is what deleting gives back; what is used again gives none.
            let reuses = order.reuses && order.name.is_some() && limits.min_free.is_none();
            self.keep_below(limit, order.room, reuses, deleted)?;
        }
        if let Some(min_free) = limits.min_free {
            self.keep_free(min_free, order, deleted)?;
        }
        Ok(())
    }

    fn keep_below(
        &mut self,
        limit: u64,
        room: u64,
        reuses: bool,
        deleted: &mut Vec<Deleted>,
    ) -> Result<(), RetentionError> {
        let mut used = self.used_bytes() + u128::from(room);
        if used > u128::from(limit) {
            self.check_limit(room, limit)?;
        }
        while used > u128::from(limit) {
            if reuses && self.set_aside(room, used - u128::from(limit)) {
                break;
            }
            let gone = self.delete_oldest(KEEPS_LIMIT, deleted)?;
            let gone = gone.expect("open files alone fit the limit, so something else is here");
            used -= u128::from(gone.charged_bytes);
        }
        Ok(())
    }

    /// Sets the oldest file that may go aside for the new one, if it alone is `over` the limit and
    /// the new one, of at most `room` bytes, gains by it: not if it is larger, or much smaller.
    fn set_aside(&mut self, room: u64, over: u128) -> bool {
        let Some(at) = self.oldest_closed() else { return false };
        let Book { file, charged_bytes, .. } = &self.books[at];
        let is_like = (room / 2..=room).contains(&file.taken_bytes()) && !file.is_packed();
        if !is_like || u128::from(*charged_bytes) < over {
            return false;
        }
        self.aside = self.books.remove(at).map(|book| book.file);
        true
    }

    fn keep_free(
        &mut self,
        min_free: u64,
        order: &Order<'_>,
        deleted: &mut Vec<Deleted>,
    ) -> Result<(), RetentionError> {
        // What open files are still to take from what is free.
        let missing = |book: &Book| book.charged_bytes.saturating_sub(book.file.allocated_bytes);
        let reserved = self.open().map(missing).fold(self.drafts_bytes, u64::saturating_add);
        let wanted = min_free.saturating_add(order.room).saturating_add(reserved);
        let mut free = self.folder.free_bytes()?;
        if free < wanted {
            if let Some(before) = order.in_vain {
                return Err(self.not_freed(before.clone()));
            }
            self.check_free(wanted, free)?;
        }
        let mut vain = 0;
        while free < wanted {
            let Some(gone) = self.delete_oldest("to keep space free", deleted)? else {
                return self.check_free(wanted, free);
            };
            let before = free;
            let expected = before.saturating_add(gone.freed_bytes / 2);
            free = self.folder.free_bytes()?;
            if free < expected {
                self.folder.settle_free_bytes();
                free = self.folder.free_bytes()?;
            }
            vain += u32::from(free < expected);
            if vain == VAIN_DELETIONS_MAX && free < wanted {
                let name = deleted.last().map(|file| file.name.clone()).unwrap_or_default();
                return Err(self.not_freed(InVain { name, count: vain }));
            }
        }
        Ok(())
    }

    fn oldest_closed(&self) -> Option<usize> {
        self.books.iter().position(Book::may_go)
    }

    /// Deletes the oldest file that may go; `None` if there is none.
    fn delete_oldest(
        &mut self,
        why: &str,
        deleted: &mut Vec<Deleted>,
    ) -> Result<Option<Gone>, RetentionError> {
        let Some(at) = self.oldest_closed() else { return Ok(None) };
        let path = self.folder.path().join(&self.books[at].file.name);
        let result = self.folder.remove(&self.books[at].file.name);
        let was_here = match result {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::NotFound => false,
            Err(source) => return Err(RetentionError::Delete { path, source }),
        };
        let Some(Book { file, charged_bytes, .. }) = self.books.remove(at) else { return Ok(None) };
        if !was_here {
            return Ok(Some(Gone { charged_bytes, freed_bytes: 0 }));
        }
        let freed_bytes = file.allocated_bytes;
        note_deletion(&path, file, &format!("deleted {why}"), deleted);
        Ok(Some(Gone { charged_bytes, freed_bytes }))
    }
}

/// What is no longer there.
struct Gone {
    charged_bytes: u64,
    /// Bytes that the file system should have got back; 0 if someone else had deleted the file.
    freed_bytes: u64,
}
