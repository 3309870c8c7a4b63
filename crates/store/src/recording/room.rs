//! Room: places for ring blocks in a file that holds memory or disk space and, there, no frame yet.
//!
//! Where a file is used again instead of deleted (tmpfs, [`crate::retention`]), its pages stay and
//! are written over. Until a ring block is there, its place is one block of the local-use type
//! 0x80525352, over the bytes of whatever was there before: so the file is legal pcapng at every
//! moment, and no reader takes old frames for new ones. Room is always the end of a file, in whole
//! places.

use crate::pcapng::RINGSIDE_ROOM;
use ringside_sys::disk::write_counted;
use ringside_sys::file_map::FileMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Bytes of a pcapng block's beginning: type and length.
const HEAD_BYTES: usize = 8;
/// Bytes of its end: the length again.
const TAIL_BYTES: usize = 4;

/// True if the place at `offset` is room; not if there is none.
pub fn is_room_at(file: &File, offset: u64) -> bool {
    let mut kind = [0; 4];
    file.read_exact_at(&mut kind, offset).is_ok() && kind == RINGSIDE_ROOM.to_le_bytes()
}

/// A file whose room is laid or written over: by stores if it is mapped, else by calls, which cost
/// the more the smaller its pages are.
pub(super) struct Target<'a> {
    pub(super) file: &'a File,
    pub(super) map: Option<&'a mut FileMap>,
}

impl Target<'_> {
    /// Writes `parts` of a block at `at` in their order: who sees a later one sees the earlier ones
    /// too. If the mapping is torn, because somebody cut the file, all are written by calls, which
    /// make it long again.
    fn write(&mut self, at: u64, parts: &[(usize, &[u8])]) -> io::Result<()> {
        let place = |start: &usize| at + *start as u64;
        let mut each = parts.iter();
        if let Some(map) = self.map.as_mut()
            && each.all(|(start, bytes)| map.write(bytes, place(start)))
        {
            return Ok(());
        }
        let write =
            |(start, bytes): &(usize, &[u8])| write_counted(self.file, bytes, place(start)).1;
        parts.iter().try_for_each(write)
    }

    /// Goes without the mapping if the file does not reach to `end`: what is stored in its last
    /// page beyond its end is nowhere, and no signal tells.
    fn expect(&mut self, end: u64) {
        if !self.file.metadata().is_ok_and(|found| found.len() >= end) {
            self.map = None;
        }
    }
}

/// Makes room of `blocks` places of `block_bytes` from `first` on, which the file has.
pub(super) fn lay(
    mut target: Target<'_>,
    first: u64,
    block_bytes: u64,
    blocks: u64,
) -> io::Result<()> {
    let length = u32::try_from(block_bytes).map_err(io::Error::other)?.to_le_bytes();
    for place in 0..blocks {
        let start = first + place * block_bytes;
        let head = [RINGSIDE_ROOM.to_le_bytes(), length].concat();
        let tail_at = block_bytes as usize - TAIL_BYTES;
        target.write(start, &[(0, &head), (tail_at, &length)])?;
    }
    Ok(())
}

/// Writes whole ring blocks of `block_bytes` over room at `offset`. Of each the end and then the
/// beginning come last: a reader that looks at any time, also after this process died, finds a ring
/// block or room, but for the moment between those two, in which the lengths of the room differ.
/// Returns how many bytes were written, in whole ring blocks.
pub(super) fn fill(
    mut target: Target<'_>,
    blocks: &[u8],
    block_bytes: usize,
    offset: u64,
) -> (usize, io::Result<()>) {
    target.expect(offset + blocks.len() as u64);
    let mut written = 0;
    for block in blocks.chunks(block_bytes) {
        let tail_at = block.len() - TAIL_BYTES;
        let (head, rest) = block.split_at(HEAD_BYTES);
        let (body, tail) = rest.split_at(tail_at - HEAD_BYTES);
        let parts = [(HEAD_BYTES, body), (tail_at, tail), (0, head)];
        if let Err(error) = target.write(offset + written as u64, &parts) {
            return (written, Err(error));
        }
        written += block.len();
    }
    (written, Ok(()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::{BlockHeader, block_header, write_block_header};
    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

    const BLOCK_BYTES: usize = 64 << 10;

    #[test]
    fn a_ring_block_that_is_not_all_there_is_not_there() {
        let file = File::from(memfd_create("room", MemfdFlags::ALLOW_SEALING).unwrap());
        file.set_len(3 * BLOCK_BYTES as u64).unwrap();
        lay(Target { file: &file, map: None }, 0, BLOCK_BYTES as u64, 3).unwrap();
        // The third place lacks its last byte, which no process can write.
        file.set_len(3 * BLOCK_BYTES as u64 - 1).unwrap();
        fcntl_add_seals(&file, SealFlags::GROW).unwrap();
        let mut blocks = vec![0x5a; 3 * BLOCK_BYTES];
        for (number, block) in blocks.chunks_mut(BLOCK_BYTES).enumerate() {
            write_block_header(block, &BlockHeader { number: number as u64, ..HEADER });
        }
        let target = Target { file: &file, map: None };
        let (written, result) = fill(target, &blocks, BLOCK_BYTES, 0);
        assert!(result.is_err() && written == 2 * BLOCK_BYTES, "{written}");
        let mut start = [0; 40];
        for place in 0..3 {
            let at = place * BLOCK_BYTES as u64;
            file.read_exact_at(&mut start, at).unwrap();
            let number = block_header(&start).map(|header| header.number);
            assert_eq!((number, is_room_at(&file, at)), ((place < 2).then_some(place), place == 2));
        }
    }

    /// Ring blocks of bytes that tell where they were.
    fn blocks(count: usize) -> Vec<u8> {
        let bytes = (0..count * BLOCK_BYTES).map(|at| (at / 1000) as u8);
        bytes.collect()
    }

    #[test]
    fn a_file_that_is_mapped_is_written_without_calls() {
        let path = tempfile::NamedTempFile::new_in("/dev/shm").unwrap();
        path.as_file().set_len(2 * BLOCK_BYTES as u64).unwrap();
        let mut map = FileMap::new(path.as_file(), 2 * BLOCK_BYTES).unwrap();
        // A call would be refused.
        let file = File::open(path.path()).unwrap();
        lay(Target { file: &file, map: Some(&mut map) }, 0, BLOCK_BYTES as u64, 2).unwrap();
        assert!(is_room_at(&file, 0) && is_room_at(&file, BLOCK_BYTES as u64));
        let target = Target { file: &file, map: Some(&mut map) };
        let (written, result) = fill(target, &blocks(2), BLOCK_BYTES, 0);
        result.unwrap();
        assert!(written == 2 * BLOCK_BYTES && std::fs::read(path.path()).unwrap() == blocks(2));
        // Beyond the end of the file nothing is stored.
        path.as_file().set_len(BLOCK_BYTES as u64 + 100).unwrap();
        let target = Target { file: &file, map: Some(&mut map) };
        let (written, result) = fill(target, &blocks(1), BLOCK_BYTES, BLOCK_BYTES as u64);
        assert!(written == 0 && result.is_err() && !map.is_torn());
    }

    /// The file is cut between the look at its size and the stores: as if the look had not been.
    #[test]
    fn a_block_that_tears_the_mapping_is_written_whole_by_calls() {
        let file = tempfile::tempfile_in("/dev/shm").unwrap();
        file.set_len(BLOCK_BYTES as u64).unwrap();
        let mut map = FileMap::new(&file, BLOCK_BYTES).unwrap();
        file.set_len(BLOCK_BYTES as u64 / 2).unwrap();
        let block = blocks(1);
        let mut target = Target { file: &file, map: Some(&mut map) };
        let (body, head) = (&block[HEAD_BYTES..], &block[..HEAD_BYTES]);
        target.write(0, &[(HEAD_BYTES, body), (0, head)]).unwrap();
        let mut read = vec![0; BLOCK_BYTES];
        file.read_exact_at(&mut read, 0).unwrap();
        assert!(map.is_torn() && read == block);
    }

    const HEADER: BlockHeader = BlockHeader {
        number: 0,
        first_frame: ringside_core::FrameNumber(0),
        opened: ringside_core::Timestamp(0),
    };
}
