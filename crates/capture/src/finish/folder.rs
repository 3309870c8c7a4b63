//! A directory of a recording that is being finished: the files of a lane, and what lies in them.

use super::io_error;
use super::lane::Run;
use ringside_core::{LaneId, SourceInterface, Timestamp};
use ringside_store::block::{BLOCK_HEADER_BYTES, block_header, whole_bytes};
use ringside_store::dir::{Dir, Entry};
use ringside_store::recording::{FileHeader, SeriesFile, file_name, is_room_at};
use ringside_store::retention::{Directory, spare_name};
use ringside_store::{StoreError, block, remove_index_draft, remove_orphaned_index_drafts};
use ringside_sys::clock::{self, Clocks};
use ringside_sys::disk;
use std::fs::File;
use std::os::unix::fs::FileExt;

/// After this number of finished files of a lane in a row, older ones are taken to be finished too.
/// The recorder has some that ended and wait for the medium, and finishes them in about their
/// order.
const FINISHED_IN_A_ROW: usize = 256;
/// Places for ring blocks that are looked at, from the end of a file on, until one holds some: a
/// terabyte of ordinary ones. A sparse file could claim any number.
const LOOKS_MAX: u64 = 1 << 20;
/// Names in a directory: as many as a reader of recordings takes.
const NAMES_MAX: usize = 1 << 20;

/// A directory.
pub(super) struct Folder {
    dir: Dir,
    /// The names in it.
    names: Vec<String>,
}

/// A file of a lane.
pub(super) struct LaneFile {
    pub(super) series: SeriesFile,
    header: FileHeader,
    interfaces: Vec<SourceInterface>,
    /// Number of its ring block at slot 0.
    first: Option<u64>,
    /// Number of its last ring block.
    pub(super) last: Option<u64>,
    /// Slots that hold a ring block, the last perhaps in part.
    slots: u64,
    /// Slots of the ring blocks that were sought, by number, in descending order.
    found: Vec<(u64, u64)>,
    /// Where it ends.
    end: u64,
    /// The name that it was made ready for, if it was not used yet.
    name: Option<Entry>,
    is_touched: bool,
}

impl Folder {
    /// Looks which names there are.
    pub(super) fn new(dir: &Dir) -> Folder {
        let names = dir.names().into_iter().flatten().flatten().take(NAMES_MAX);
        let names = names.filter_map(|(name, _)| name.into_string().ok());
        Folder { names: names.collect(), dir: dir.clone() }
    }

    /// The newest files of a lane, with the places of its ring blocks from number `from` on.
    pub(super) fn files(
        &self,
        run: &Run<'_>,
        interface: &str,
        lane: LaneId,
        from: u64,
    ) -> Result<Vec<LaneFile>, StoreError> {
        let first = file_name(run.start(), interface, lane, 0);
        let prefix = first.trim_end_matches("000000.pcapng");
        let mut names: Vec<(&str, bool)> = self
            .names
            .iter()
            .filter_map(|name| {
                let spare = name.strip_prefix('.').and_then(|name| name.strip_suffix(".next"));
                let name = spare.unwrap_or(name);
                name.starts_with(prefix).then_some((name, spare.is_some()))
            })
            .collect();
        // The longer number is the greater one.
        names.sort_by_key(|(name, _)| std::cmp::Reverse((name.len(), *name)));
        let (mut files, mut in_a_row) = (Vec::new(), 0);
        for (name, is_spare) in names {
            let named = self.dir.entry(name);
            let entry = if is_spare { self.dir.entry(spare_name(name)) } else { named.clone() };
            let file = LaneFile::open(entry, is_spare.then_some(named), run.name, lane, from)?;
            let Some(file) = file else { continue };
            in_a_row = if file.is_finished() { in_a_row + 1 } else { 0 };
            // One that nothing is to be done for takes no descriptor.
            if !file.is_finished() || file.last >= Some(from) || files.is_empty() {
                files.push(file);
            }
            if in_a_row == FINISHED_IN_A_ROW {
                break;
            }
        }
        Ok(files)
    }

    /// Begins another file of a lane, like `other` and after all of its files.
    pub(super) fn create(
        &self,
        run: &Run<'_>,
        interface: &str,
        sequence: u64,
        other: &LaneFile,
    ) -> Result<LaneFile, StoreError> {
        let name = file_name(run.start(), interface, other.header.lane, sequence);
        let now = Clocks::now(clock::boot_id().unwrap_or_default());
        let mut directory = Directory::open(&self.dir, run.name, run.retention)?;
        let bytes_max = run.bytes_max.unwrap_or(0);
        let reservation = directory.reserve(&name, bytes_max, now)?;
        let header = FileHeader {
            format: other.header.format,
            run: run.name.to_owned(),
            lane: other.header.lane,
            sequence,
            block_bytes: other.header.block_bytes,
            first_block: None,
            blocks_complete: 0,
            serial: reservation.serial(),
            bytes_max,
            created: now.wall,
            created_boot_ns: now.boot_ns,
            boot_id: now.boot_id,
        };
        let series = SeriesFile::create(self.dir.entry(&name), &header, &other.interfaces)?;
        let end = series.block_offset(0);
        let file = LaneFile::new(series, header, other.interfaces.clone(), end);
        Ok(LaneFile { is_touched: true, ..file })
    }

    /// Waits until the names are on the medium.
    pub(super) fn sync(&self) -> Result<(), StoreError> {
        self.dir.sync().map_err(|error| io_error("cannot sync", self.dir.path(), error))
    }
}

impl LaneFile {
    /// A file that ends at `end`, in which nothing was looked at.
    fn new(
        series: SeriesFile,
        header: FileHeader,
        interfaces: Vec<SourceInterface>,
        end: u64,
    ) -> LaneFile {
        LaneFile {
            series,
            header,
            interfaces,
            first: None,
            last: None,
            slots: 0,
            found: Vec::new(),
            end,
            name: None,
            is_touched: false,
        }
    }

    fn open(
        entry: Entry,
        name: Option<Entry>,
        run: &str,
        lane: LaneId,
        from: u64,
    ) -> Result<Option<LaneFile>, StoreError> {
        let Some((series, header, interfaces)) = SeriesFile::open(entry)? else { return Ok(None) };
        if header.run != run || header.lane != lane {
            return Ok(None);
        }
        // File systems reserve only once direct writes that are under way have ended (ext4 and xfs
        // call inode_dio_wait): so does this. Refused, nothing is lost but that.
        let _ = disk::preallocate(series.file(), 0, 1);
        let path = series.path().to_owned();
        let fail = |error| io_error("cannot read", &path, error);
        let size = series.file().metadata().map_err(fail)?.len();
        let mut file = LaneFile { name, ..LaneFile::new(series, header, interfaces, size) };
        file.look(size, from).map_err(fail)?;
        file.cut_room()?;
        Ok(Some(file))
    }

    /// Finds the ring blocks from number `from` on, from the end of the file forwards.
    fn look(&mut self, size: u64, from: u64) -> std::io::Result<()> {
        let (start, bytes) = (self.series.block_offset(0), self.series.block_bytes());
        let slots = size.saturating_sub(start).div_ceil(bytes);
        let mut slot = slots;
        self.first = number_at(self.series.file(), start)?;
        while slot > 0 {
            slot -= 1;
            if self.last.is_none() && slots - slot > LOOKS_MAX {
                let text = "no ring block among its last million: no recorder made it so";
                return Err(std::io::Error::other(text));
            }
            let number = number_at(self.series.file(), self.series.block_offset(slot))?;
            // A torn header at the end is none; below a ring block lie ring blocks.
            let Some(number) = number else { continue };
            if self.last.is_none() {
                self.last = Some(number);
                self.slots = slot + 1;
                let whole = self.series.block_offset(self.header.blocks_complete);
                let is_finished = self.header.bytes_max == size && whole == size;
                self.end = if is_finished { size } else { self.whole_end(slot, size)? };
            }
            if number < from {
                break;
            }
            self.found.push((number, slot));
        }
        if self.last.is_none() {
            self.end = start.min(size);
        }
        Ok(())
    }

    /// Has the file end where its ring blocks end, if there is room behind them: what is written
    /// here is not written over anything.
    fn cut_room(&mut self) -> Result<(), StoreError> {
        match is_room_at(self.series.file(), self.series.block_offset(self.slots)) {
            true => self.series.cut(self.end),
            false => Ok(()),
        }
    }

    /// Where the file ends if what is torn in its last ring block goes.
    fn whole_end(&self, slot: u64, size: u64) -> std::io::Result<u64> {
        let offset = self.series.block_offset(slot);
        let bytes = size.saturating_sub(offset).min(self.series.block_bytes());
        let mut block = vec![0; bytes as usize];
        self.series.file().read_exact_at(&mut block, offset)?;
        Ok(offset + whole_bytes(&block) as u64)
    }

    /// True if the header page tells what is there, and that it is all.
    fn is_finished(&self) -> bool {
        remove_index_draft(self.series.entry());
        remove_orphaned_index_drafts(self.series.entry().dir());
        let body = self.end.saturating_sub(self.series.block_offset(0));
        self.name.is_none()
            && self.header.bytes_max == self.end
            && self.header.blocks_complete == body / self.series.block_bytes()
            && self.header.first_block == self.first
    }

    /// Number of the file within its lane.
    pub(super) fn sequence(&self) -> u64 {
        self.header.sequence
    }

    /// True if it was made ready and not used.
    pub(super) fn is_spare(&self) -> bool {
        self.name.is_some()
    }

    /// The slot of a ring block that is here.
    pub(super) fn slot_of(&self, number: u64) -> Option<u64> {
        self.found.iter().find(|(found, _)| *found == number).map(|(_, slot)| *slot)
    }

    /// True if ring block `number` can be appended: numbers rise, the last ring block is whole (one
    /// that a rotation ended is not), and there is room.
    pub(super) fn takes(&self, number: u64) -> bool {
        let room = match self.header.bytes_max {
            0 => u64::MAX,
            bytes => bytes.saturating_sub(self.series.block_offset(0)) / self.series.block_bytes(),
        };
        // A file holds one ring block whatever its largest size.
        let is_whole = self.end == self.series.block_offset(self.slots);
        self.last.is_none_or(|last| last < number && is_whole) && self.slots < room.max(1)
    }

    /// Writes ring block `number`, to its slot if it is here, else behind the last. Returns how
    /// many frames of it are in the file then, and the error that kept the rest out.
    pub(super) fn write(&mut self, number: u64, bytes: &[u8]) -> (u64, Option<StoreError>) {
        if let Err(error) = self.come_into_use() {
            return (0, Some(error));
        }
        let slot = self.slot_of(number).unwrap_or(self.slots);
        let offset = self.series.block_offset(slot);
        let (written, result) = disk::write_counted(self.series.file(), bytes, offset);
        let kept = match &result {
            Ok(()) => bytes.len(),
            Err(_) => whole_bytes(&bytes[..written]),
        };
        if kept > 0 && slot >= self.slots {
            self.slots = slot + 1;
            self.last = Some(number);
            self.found.insert(0, (number, slot));
            if slot == 0 {
                self.first = Some(number);
            }
        }
        if slot + 1 == self.slots {
            self.end = offset + kept as u64;
        }
        self.is_touched = true;
        let error = result.err().map(|error| self.series.write_error(error));
        (block::frame_count(&bytes[..kept]), error)
    }

    fn come_into_use(&mut self) -> Result<(), StoreError> {
        match self.name.take() {
            Some(name) => self.series.rename(&name),
            None => Ok(()),
        }
    }

    /// Ends the file: cut, on the medium, its header page telling what is there. One that was made
    /// ready and not needed is removed.
    pub(super) fn finish(self) -> Result<(), StoreError> {
        if self.is_spare() {
            let entry = self.series.entry();
            return entry.remove().map_err(|e| io_error("cannot remove", entry.path(), e));
        }
        let body = self.end.saturating_sub(self.series.block_offset(0));
        let complete = body / self.series.block_bytes();
        if self.is_finished() && !self.is_touched {
            return Ok(());
        }
        self.series.cut(self.end)?;
        // The content before the count that speaks of it.
        self.series.sync_data()?;
        self.series.set_blocks(self.first, complete)?;
        self.series.set_finished(self.end)?;
        self.series.sync_all()
    }
}

/// The number of the ring block that begins there.
fn number_at(file: &File, offset: u64) -> std::io::Result<Option<u64>> {
    let mut header = [0; BLOCK_HEADER_BYTES];
    match file.read_exact_at(&mut header, offset) {
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => Ok(None),
        other => other.map(|()| block_header(&header).map(|header| header.number)),
    }
}

/// The start of a run, which its name begins with.
pub(super) fn start_of(run: &str) -> Timestamp {
    Timestamp(run.split('-').next().and_then(|text| text.parse().ok()).unwrap_or(0))
}
