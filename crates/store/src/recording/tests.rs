use super::*;
use crate::StoreError;
use crate::block::{Statistics, blocks, close_filled, fits, write_packet_block};
use crate::dir::Entry;
use crate::file_header::NO_BLOCK;
use crate::pcapng::RINGSIDE_HEADER;
use ringside_core::limits::RING_BLOCK_BYTES_MIN;
use ringside_core::{
    Direction, Frame, FrameMeta, InterfaceId, LaneCounters, LaneId, LinkType, SourceInterface,
    Timestamp,
};
use std::os::unix::fs::{FileExt, PermissionsExt};

const BLOCK_BYTES: usize = RING_BLOCK_BYTES_MIN;
/// How the header block's body begins.
const MAGIC: [u8; 8] = *b"RINGSIDE";

fn interfaces(count: usize) -> Vec<SourceInterface> {
    let interface = |number| SourceInterface {
        name: format!("eth{number}"),
        link_type: LinkType::ETHERNET,
        snaplen_bytes: 0,
        description: "a description".into(),
        filter: "tcp port 80".into(),
    };
    (0..count).map(interface).collect()
}

fn header() -> FileHeader {
    FileHeader {
        format: FORMAT_VERSION,
        run: "20261121T053000Z-1234".into(),
        lane: LaneId(3),
        sequence: 7,
        block_bytes: BLOCK_BYTES,
        first_block: Some(1_000_000),
        blocks_complete: 0,
        serial: u64::MAX - 1,
        bytes_max: 1 << 30,
        created: Timestamp(1_795_239_000_123_456_789),
        created_boot_ns: 98_765_432_100,
        boot_id: *b"0123456789abcdef",
    }
}

/// One closed ring block, and where in it the closing blocks begin.
fn ring_block() -> (Vec<u8>, usize) {
    let mut block = vec![0; BLOCK_BYTES];
    let data = [0x5a; 1500];
    let mut at = 0;
    while fits(BLOCK_BYTES - at, data.len(), Direction::Inbound) {
        let meta =
            FrameMeta { wire_bytes: 1500, timestamp: Timestamp(at as u64), ..FrameMeta::default() };
        at += write_packet_block(&mut block[at..], &Frame { bytes: &data, meta }, 0);
    }
    let counters = LaneCounters::default();
    let (first_time, when) = (Timestamp(1), Timestamp(2));
    let statistics =
        Statistics { interface: InterfaceId(0), first_time, when, counters: &counters };
    close_filled(&mut block, at, &statistics);
    (block, at)
}

/// The header block's body and the section's comment, found as any reader would.
fn read_header(bytes: &[u8]) -> (FileHeader, usize) {
    let section = blocks(bytes).next().unwrap().1;
    let length = u16::from_le_bytes([section[26], section[27]]) as usize;
    let comment = std::str::from_utf8(&section[28..28 + length]).unwrap();
    let (_, block) = blocks(bytes).find(|&(kind, _)| kind == RINGSIDE_HEADER).unwrap();
    FileHeader::decode(&block[8..block.len() - 4], comment).expect("a valid header")
}

#[test]
fn the_header_is_whole_pages_for_any_number_of_interfaces() {
    for count in [0, 1, 2, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 1000] {
        let HeaderPage { bytes: page, blocks_complete_at, first_block_at, .. } =
            header().encode(&interfaces(count)).unwrap();
        assert!(page.len().is_multiple_of(HEADER_PAGE_BYTES));
        assert_eq!(crate::block::whole_bytes(&page), page.len());
        assert_eq!(read_header(&page), (header(), page.len()));
        let mut counted = page.clone();
        counted[blocks_complete_at as usize..][..8].copy_from_slice(&9u64.to_le_bytes());
        counted[first_block_at as usize..][..8].copy_from_slice(&NO_BLOCK.to_le_bytes());
        let expected = FileHeader { blocks_complete: 9, first_block: None, ..header() };
        assert_eq!(read_header(&counted).0, expected);
    }
    assert_eq!(header().encode(&interfaces(1)).unwrap().bytes.len(), HEADER_PAGE_BYTES);
    let mut huge = interfaces(100);
    huge.iter_mut().for_each(|one| one.filter = "x".repeat(65_000));
    assert!(matches!(header().encode(&huge), Err(StoreError::HeaderTooLarge { .. })));
}

#[test]
fn every_remainder_of_the_last_page_is_padded_or_a_page_is_added() {
    let mut sizes = std::collections::BTreeSet::new();
    for extra in 0..400 {
        let mut interfaces = interfaces(38);
        interfaces[0].description = "d".repeat(extra * 4 + 1);
        let page = header().encode(&interfaces).unwrap().bytes;
        assert_eq!(crate::block::whole_bytes(&page), page.len(), "extra {extra}");
        sizes.insert(page.len());
    }
    assert_eq!(sizes.into_iter().collect::<Vec<_>>(), [4096, 8192], "the edge was crossed");
}

#[test]
fn a_file_is_never_overwritten_and_says_what_is_complete() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.pcapng");
    let header = || FileHeader { first_block: None, ..header() };
    let file = SeriesFile::create(Entry::at(&path).unwrap(), &header(), &interfaces(2)).unwrap();
    let again =
        SeriesFile::create(Entry::at(&path).unwrap(), &header(), &interfaces(2)).unwrap_err();
    let StoreError::Io { source, .. } = again else { panic!("{again}") };
    assert_eq!(source.kind(), std::io::ErrorKind::AlreadyExists);
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o027, 0);

    let (block, _) = ring_block();
    let first = blocks(&block).nth(10).unwrap().1.len() * 11;
    for (index, part) in [&block[..], &block, &block[..first]].into_iter().enumerate() {
        file.file().write_all_at(part, file.block_offset(index as u64)).unwrap();
    }
    assert_eq!(read_header(&std::fs::read(&path).unwrap()).0.blocks_complete, 0);
    file.set_blocks(None, 2).unwrap();
    let bytes_max = file.block_offset(2) + first as u64;
    file.set_finished(bytes_max).unwrap();

    let bytes = std::fs::read(&path).unwrap();
    assert_eq!((bytes.len() as u64, crate::block::whole_bytes(&bytes)), (bytes_max, bytes.len()));
    let expected = FileHeader { blocks_complete: 2, bytes_max, ..header() };
    assert_eq!(read_header(&bytes), (expected, HEADER_PAGE_BYTES));
    let ring = &bytes[HEADER_PAGE_BYTES..];
    assert_eq!(ring[BLOCK_BYTES..2 * BLOCK_BYTES], block);
    assert_eq!(ring[2 * BLOCK_BYTES..], block[..first]);
}

#[test]
fn a_header_is_read_alone_and_anything_else_is_foreign() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.pcapng");
    let read = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        super::read_header(&path).unwrap()
    };
    for count in [0, 1, 40, 1000] {
        let page = header().encode(&interfaces(count)).unwrap().bytes;
        assert_eq!(read(&page), Some(header()), "{count} interfaces");
        let block_end = page.windows(8).position(|bytes| bytes == MAGIC).unwrap() + 100;
        assert_eq!(read(&page[..block_end]), Some(header()), "it need not be whole");
        assert_eq!(read(&page[..block_end - 1]), None);
    }
    let page = header().encode(&interfaces(1)).unwrap().bytes;
    let mut old = page.clone();
    let at = page.windows(8).position(|bytes| bytes == MAGIC).unwrap() + 8;
    old[at] = 1;
    let endless = [&page[..28], &vec![0xff; HEADER_BYTES_MAX]].concat();
    let rubbish = vec![0; 2 * HEADER_BYTES_MAX];
    for foreign in [&old, &endless, &rubbish, &Vec::new(), &b"notes".to_vec()] {
        assert_eq!(read(foreign), None);
    }
    assert_eq!(super::read_header(dir.path()).unwrap(), None, "a directory");
    assert!(super::read_header(&dir.path().join("none")).is_err());
}

#[test]
fn names_sort_by_time_and_are_one_path_component() {
    let start = Timestamp::from_parts(1_795_239_000, 999_999_999);
    let name = |interface| file_name(start, interface, LaneId(3), 7);
    assert_eq!(name("eth1"), "20261121T053000Z-eth1-lane3-000007.pcapng");
    assert_eq!(name("../e-t h@1/é"), "20261121T053000Z-.._e_t_h_1__-lane3-000007.pcapng");
    assert!(file_name(Timestamp::MAX, "x", LaneId(0), 0).starts_with("2554"));
}
