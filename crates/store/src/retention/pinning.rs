//! Pins are made and removed under the lock of the directory, so that no file goes between.

use super::RetentionError;
use super::disk::Disk;
use super::folder::{FileFacts, Folder};
use super::pins::{Pin, Pins};
use crate::StoreError;
use crate::dir::Dir;
use crate::file_name::parts_of_name;
use crate::seekable::packed_name;
use ringside_core::ledger::sum;
use rustix::fs::{self, AtFlags};
use std::collections::{BTreeMap, BTreeSet};

/// A pin that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pinned {
    /// The pin, with the files that are there.
    pub pin: Pin,
    /// Files that were deleted since they were found.
    pub gone: Vec<String>,
    /// Bytes that its files take.
    pub bytes: u64,
    /// Bytes of all pinned files of the directory now, and how many they may be.
    pub all_bytes: u64,
    /// The budget of the recorders that run here, if there is one.
    pub budget: Option<u64>,
}

/// Keeps the files that `pin` names, as far as they are there, from now on. A pin of no file is not
/// noted. Its id becomes a greater one if a pin of the directory has had it.
///
/// # Errors
/// The budget of a recorder that runs here does not allow it, or the directory cannot be read or
/// written.
pub fn add_pin(dir: &Dir, pin: Pin) -> Result<Pinned, StoreError> {
    let mut disk = Disk::open(dir)?;
    disk.lock()?;
    let pinned = Pins::read(dir).and_then(|pins| add_new(&mut disk, dir, pin, pins));
    disk.unlock();
    Ok(pinned?)
}

/// Adds the files of `pin` to the pin of its id and note, or makes it, as [`add_pin`], if there is
/// none any more.
///
/// # Errors
/// As [`add_pin`].
pub fn extend_pin(dir: &Dir, pin: Pin) -> Result<Pinned, StoreError> {
    let mut disk = Disk::open(dir)?;
    disk.lock()?;
    let pinned = extend(&mut disk, dir, pin);
    disk.unlock();
    Ok(pinned?)
}

fn extend(disk: &mut Disk, dir: &Dir, mut pin: Pin) -> Result<Pinned, RetentionError> {
    let mut pins = Pins::read(dir)?;
    let is_it = |known: &Pin| known.id == pin.id && known.note == pin.note;
    if !pins.pins().iter().any(is_it) {
        return add_new(disk, dir, pin, pins);
    }
    let known = pins.remove(&[pin.id].into()).into_iter().flat_map(|known| known.files);
    let files: BTreeSet<_> = known.chain(std::mem::take(&mut pin.files)).collect();
    pin.files = files.into_iter().collect();
    add(disk, dir, pin, pins)
}

fn add_new(disk: &mut Disk, dir: &Dir, pin: Pin, pins: Pins) -> Result<Pinned, RetentionError> {
    // Another pin may have been made since the number was chosen.
    let pin = Pin { id: pin.id.max(pins.next_id()), ..pin };
    add(disk, dir, pin, pins)
}

fn add(disk: &mut Disk, dir: &Dir, mut pin: Pin, mut pins: Pins) -> Result<Pinned, RetentionError> {
    let sizes = sizes(&disk.files()?);
    let (kept, gone): (Vec<_>, Vec<_>) =
        std::mem::take(&mut pin.files).into_iter().partition(|file| sizes.contains_key(&file.name));
    pin.files = kept;
    let gone = gone.into_iter().map(|file| file.name).collect();
    let of = |names: BTreeSet<&str>| sum(names.iter().filter_map(|&name| sizes.get(name).copied()));
    let bytes = of(pin.files.iter().map(|file| &*file.name).collect());
    let budget = budget(disk)?;
    let failed = |reason| RetentionError::PinsFull { directory: dir.path().to_owned(), reason };
    if pin.files.is_empty() {
        let all_bytes = of(pins.names());
        return Ok(Pinned { pin, gone, bytes, all_bytes, budget });
    }
    pins.add(pin.clone()).map_err(failed)?;
    let all_bytes = of(pins.names());
    if let Some(budget) = budget.filter(|&budget| all_bytes > budget) {
        return Err(failed(format!(
            "its files take {bytes} bytes, and with them {all_bytes} would be pinned, more than \
             the {budget} bytes of the recorder here: ask for less, remove a pin (unpin), or \
             record with a larger --pin-bytes"
        )));
    }
    pins.write(dir)?;
    Ok(Pinned { pin, gone, bytes, all_bytes, budget })
}

/// Removes pins by their ids; returns those that were there.
///
/// # Errors
/// The directory cannot be read or written.
pub fn remove_pins(dir: &Dir, ids: &BTreeSet<u64>) -> Result<Vec<Pin>, StoreError> {
    let mut disk = Disk::open(dir)?;
    disk.lock()?;
    let removed = Pins::read(dir).and_then(|mut pins| {
        let removed = pins.remove(ids);
        let written = if removed.is_empty() { Ok(()) } else { pins.write(dir) };
        written.map(|()| removed)
    });
    disk.unlock();
    Ok(removed?)
}

/// Bytes that the files of a pin take, as far as they are there, by name.
pub fn pinned_sizes(dir: &Dir, pin: &Pin) -> BTreeMap<String, u64> {
    let size = |name: &str| {
        let found = fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        u64::try_from(found.st_size).ok()
    };
    // What others have written into the file of pins is no name of ours.
    let names =
        pin.files.iter().map(|file| &file.name).filter(|name| parts_of_name(name).is_some());
    let sized =
        names.filter_map(|name| Some((name, size(name).or_else(|| size(&packed_name(name)))?)));
    sized.map(|(name, bytes)| (name.clone(), bytes)).collect()
}

/// Bytes that each file of a recording takes or may come to take, by the name that the recorder
/// gave it.
fn sizes(files: &[FileFacts]) -> BTreeMap<String, u64> {
    let mut sizes = BTreeMap::new();
    for file in files.iter().filter(|file| !file.is_spare) {
        let name = file.first_name().to_owned();
        let bytes = if file.is_unfinished() { file.bytes_max } else { 0 };
        *sizes.entry(name).or_insert(0) += bytes.max(file.taken_bytes());
    }
    sizes
}

/// The strictest budget of the recorders that run here.
fn budget(disk: &mut Disk) -> Result<Option<u64>, RetentionError> {
    let mut state = disk.state()?;
    let mut live = Vec::new();
    for recorder in std::mem::take(&mut state.recorders) {
        if disk.is_live(&recorder.run)? {
            live.push(recorder);
        }
    }
    state.recorders = live;
    Ok(state.limits().pin_bytes)
}
