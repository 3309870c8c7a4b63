//! Other programs open every kind of file that we write, without a warning.

use crate::common::*;
use ringside_core::limits::RING_BLOCK_BYTES_MIN;
use ringside_core::{
    Direction, Frame, FrameMeta, InterfaceId, LaneCounters, LaneId, LinkType, SourceInterface,
    Timestamp,
};
use ringside_store::block::{Statistics, close_filled, fits, write_packet_block};
use ringside_store::recording::SeriesFile;
use ringside_store::writer::Precision;
use ringside_store::{Condition, FileHeader, FileSource, Format, FrameWriter, PcapWriter};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A start in 2026, so that other programs show plausible times.
const START: u64 = 1_795_239_000_123_456_789;
const BLOCK_BYTES: usize = RING_BLOCK_BYTES_MIN;

fn interface(name: &str) -> SourceInterface {
    SourceInterface {
        name: name.into(),
        link_type: LinkType::ETHERNET,
        snaplen_bytes: 0,
        description: "the first port".into(),
        filter: "udp port 53".into(),
    }
}

/// Ethernet with an unassigned type, of sizes that leave every remainder of 4.
fn bytes_of(number: u64) -> Vec<u8> {
    let mut bytes = vec![0x5a; 60 + (number as usize * 7) % 1455];
    bytes[12..14].copy_from_slice(&0x88b5u16.to_be_bytes());
    bytes[14..22].copy_from_slice(&number.to_be_bytes());
    bytes
}

fn frame(bytes: &[u8], number: u64) -> Frame<'_> {
    let meta = FrameMeta {
        timestamp: Timestamp(START + number * 1000),
        wire_bytes: bytes.len() as u32,
        interface: InterfaceId(number as u32 % 2),
        direction: if number.is_multiple_of(3) { Direction::Outbound } else { Direction::Inbound },
        ..FrameMeta::default()
    };
    Frame { bytes, meta }
}

fn counters() -> LaneCounters {
    LaneCounters {
        interface: "eth1".into(),
        received: Some(2000),
        taken: 1990,
        filtered: Some(10),
        ..LaneCounters::default()
    }
}

fn statistics(counters: &LaneCounters, interface: u32) -> Statistics<'_> {
    let (first_time, when) = (Timestamp(START), Timestamp(START + 5_000_000));
    Statistics { interface: InterfaceId(interface), first_time, when, counters }
}

/// Fills ring blocks with numbered frames from `first`; returns the closed blocks.
fn ring_blocks(count: usize, mut number: u64) -> (Vec<Vec<u8>>, u64) {
    let mut blocks = Vec::new();
    let counters = counters();
    for _ in 0..count {
        let mut block = vec![0xee; BLOCK_BYTES];
        let mut at = 0;
        loop {
            let bytes = bytes_of(number);
            let frame = frame(&bytes, number);
            if !fits(BLOCK_BYTES - at, bytes.len(), frame.meta.direction) {
                break;
            }
            at += write_packet_block(&mut block[at..], &frame, 0);
            number += 1;
        }
        close_filled(&mut block, at, &statistics(&counters, 0));
        blocks.push(block);
    }
    (blocks, number)
}

fn series(path: &Path, blocks: &[&[u8]]) -> SeriesFile {
    let header = FileHeader {
        run: "test".into(),
        lane: LaneId(0),
        sequence: 0,
        block_bytes: BLOCK_BYTES,
        ..FileHeader::default()
    };
    write_series(path, &header, &[interface("eth1"), interface("eth2")], blocks)
}

/// Every kind of file, each with the number of its frames.
fn write_all_kinds(dir: &Path) -> Vec<(PathBuf, u64)> {
    let mut files = Vec::new();
    let interfaces = [interface("eth1"), interface("eth2")];
    for (name, count) in [("a.pcapng", 2000), ("a.pcap", 2000), ("e.pcapng", 0), ("e.pcap", 0)] {
        let path = dir.join(name);
        let file = ringside_store::writer::create_file(&path).unwrap();
        let mut writer = Format::of_path(&path).unwrap().writer(file, &interfaces).unwrap();
        fill(&mut *writer, count);
        files.push((path, count));
    }
    let path = dir.join("micro.pcap");
    let file = ringside_store::writer::create_file(&path).unwrap();
    let mut writer = PcapWriter::new(file, &interfaces, Precision::Microseconds).unwrap();
    fill(&mut writer, 100);
    files.push((path, 100));

    let (blocks, next) = ring_blocks(3, 0);
    let path = dir.join("series.pcapng");
    let all: Vec<&[u8]> = blocks.iter().map(Vec::as_slice).collect();
    let file = series(&path, &all);
    file.set_finished(file.block_offset(all.len() as u64)).unwrap();
    files.push((path, next));

    let path = dir.join("within.pcapng");
    let prefix: usize =
        ringside_store::block::blocks(&blocks[1]).take(11).map(|(_, b)| b.len()).sum();
    series(&path, &[&blocks[0], &blocks[1][..prefix]]);
    files.push((path, ringside_store::block::frame_count(&blocks[0]) + 11));

    let path = dir.join("begun.pcapng");
    series(&path, &[]);
    files.push((path, 0));
    files
}

fn fill(writer: &mut dyn FrameWriter, count: u64) {
    for number in 0..count {
        let bytes = bytes_of(number);
        writer.write(&frame(&bytes, number)).unwrap();
    }
    let counters = counters();
    writer.finish(&[statistics(&counters, 0), statistics(&counters, 1)]).unwrap();
}

#[test]
fn every_kind_of_file_is_opened_without_a_warning_and_holds_every_frame() {
    let test = "every_kind_of_file_is_opened_without_a_warning_and_holds_every_frame";
    let tools = ["tshark", "capinfos", "tcpdump"];
    if !tools.iter().all(|tool| ringside_testkit::need_tool(test, tool)) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let files = write_all_kinds(dir.path());
    in_parallel(&files, |(path, count)| {
        let name = path.display();
        let capinfos = Command::new("capinfos").args(["-c", "-M", "-T", "-r"]).arg(path).output();
        let capinfos = capinfos.unwrap();
        assert_eq!(complaints(&capinfos.stderr), "", "{name}");
        let text = String::from_utf8(capinfos.stdout).unwrap();
        assert_eq!(text.trim().rsplit('\t').next(), Some(&*count.to_string()), "{name}: {text}");

        let (rows, complaint) = tshark(path);
        assert_eq!((rows.len() as u64, complaint.as_str()), (*count, ""), "{name}");
        let (records, complaint) = tcpdump(path);
        assert_eq!((records.len() as u64, complaint.as_str()), (*count, ""), "{name}");
        let micro = path.ends_with("micro.pcap");
        let pcap = path.extension().unwrap() == "pcap";
        for (number, (row, record)) in (0..).zip(rows.iter().zip(&records)) {
            let bytes = bytes_of(number);
            let unit = if micro { 1000 } else { 1 };
            let stamp = (START + number * 1000) / unit * unit;
            assert_eq!((row.stamp, row.wire, row.captured), (stamp, record.wire, record.wire));
            assert_eq!(row.interface, if pcap { 0 } else { number as u32 % 2 });
            assert_eq!((record.stamp, &record.bytes), (stamp, &bytes), "{name}");
        }
        let mut source = FileSource::open(path).unwrap();
        let contents = drain(&mut source);
        assert_eq!(
            (contents.frames.len() as u64, source.condition()),
            (*count, &Condition::Complete)
        );
    });
}

/// A recording cut anywhere, as by kill -9 or a full disk, is read up to its last whole frame.
#[test]
fn a_recording_cut_anywhere_gives_what_libpcap_gives() {
    let test = "a_recording_cut_anywhere_gives_what_libpcap_gives";
    if !ringside_testkit::need_tool(test, "tcpdump") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("series.pcapng");
    let (blocks, _) = ring_blocks(1, 0);
    series(&path, &[&blocks[0]]);
    let whole = std::fs::read(&path).unwrap();
    let mut random = ringside_testkit::Random::new(1);
    let mut cuts: Vec<usize> = (0..60).map(|_| 4096 + random.below(20_000)).collect();
    cuts.extend((0..20).map(|_| whole.len() - random.below(4_000)));
    let truncated = in_parallel(&cuts, |&cut| {
        let path = dir.path().join(format!("cut{cut}.pcapng"));
        std::fs::write(&path, &whole[..cut]).unwrap();
        let (records, complaint) = tcpdump(&path);
        let (contents, condition) = read_bytes(&whole[..cut]).unwrap();
        assert_eq!(contents.frames.len(), records.len(), "cut {cut}");
        assert_eq!(
            condition == Condition::Complete,
            complaint.is_empty(),
            "cut {cut}: {complaint}"
        );
        u32::from(condition != Condition::Complete)
    });
    assert!(truncated.iter().sum::<u32>() > 30, "most cuts lie within a block");
}
