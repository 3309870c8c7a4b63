//! Every real capture, read and written, against what other programs say of it.

use crate::common::*;
use ringside_core::{LinkType, Timestamp};
use ringside_store::writer::Precision;
use ringside_store::{FileSource, Format, FrameWriter, PcapWriter, PcapngWriter};
use ringside_testkit::by_run;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Captures for which we and tshark differ, and why.
const TSHARK_DIFFERS: [(&str, Difference, &str); 5] = [
    (
        "tcpdump-juniper_monitor_invalid_cookie_length.pcap",
        Difference::OnlyWeRead,
        "link type 164 is unknown to Wireshark; the file itself is whole, libpcap reads it",
    ),
    (
        "tcpdump-vtp_asan-2.pcap",
        Difference::OnlyWeRead,
        "link type 182 is unknown to Wireshark; the file itself is whole, libpcap reads it",
    ),
    (
        "tcpdump-icmp-icmp_print-oobr-2.pcap",
        Difference::WireRaised,
        "more bytes captured than were on the wire: our wire length is at least the captured one",
    ),
    (
        "tcpdump-pim_header_asan-2.pcap",
        Difference::WireRaised,
        "more bytes captured than were on the wire: our wire length is at least the captured one",
    ),
    (
        "tcpdump-atm-oam-loopback-print-overrun.pcap",
        Difference::SunAtm,
        "a fraction of more than a second, which tshark wraps at 2^32 ns and we carry; and tshark \
         does not count the four bytes before an ATM cell as part of the frame",
    ),
];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Difference {
    OnlyWeRead,
    WireRaised,
    SunAtm,
}

fn difference(path: &Path) -> Option<Difference> {
    let name = path.file_name().unwrap().to_str().unwrap();
    TSHARK_DIFFERS.iter().find(|(file, ..)| *file == name).map(|&(_, difference, _)| difference)
}

/// One capture, and what tshark says of it.
struct Judged {
    path: PathBuf,
    ours: Result<Contents, String>,
    rows: Vec<Row>,
    complaint: String,
}

fn judge(path: &Path) -> Judged {
    let ours = FileSource::open(path).map(|mut source| drain(&mut source));
    let (rows, complaint) = tshark(path);
    Judged { path: path.to_owned(), ours: ours.map_err(|error| error.to_string()), rows, complaint }
}

/// Our frames as rows, without the bytes that tshark hides; the encapsulation is tshark's own word.
fn rows(contents: &Contents, like: &[Row], hidden_bytes: u32) -> Vec<Row> {
    let rows = contents.frames.iter().zip(like).map(|(frame, like)| Row {
        stamp: frame.meta.timestamp.0,
        wire: frame.meta.wire_bytes - hidden_bytes,
        captured: frame.bytes.len() as u32 - hidden_bytes,
        interface: frame.meta.interface.0,
        encapsulation: like.encapsulation.clone(),
    });
    rows.collect()
}

#[test]
fn every_capture_reads_as_tshark_says_and_its_copies_too() {
    let test = "every_capture_reads_as_tshark_says_and_its_copies_too";
    let files = ringside_testkit::capture_sample(test, 4);
    if files.is_empty() || !ringside_testkit::need_tool(test, "tshark") {
        return;
    }
    let mut judged = in_parallel(&files, |path| judge(path));
    for one in &mut judged {
        let name = one.path.display();
        let differs = difference(&one.path);
        if differs == Some(Difference::OnlyWeRead) {
            assert!(one.complaint.contains("unknown or unsupported"), "{name}: {}", one.complaint);
            assert!(!one.ours.as_ref().unwrap().frames.is_empty(), "{name}");
            continue;
        }
        let Ok(ours) = &one.ours else {
            assert!(!one.complaint.is_empty(), "{name}: only we refuse: {:?}", one.ours);
            continue;
        };
        assert_eq!(ours.error.is_some() || ours.damaged > 0, !one.complaint.is_empty(), "{name}");
        for (row, frame) in one.rows.iter_mut().zip(&ours.frames) {
            match differs {
                Some(Difference::WireRaised) => row.wire = row.wire.max(row.captured),
                Some(Difference::SunAtm) => row.stamp = frame.meta.timestamp.0,
                _ => {}
            }
        }
        let hidden_bytes = if differs == Some(Difference::SunAtm) { 4 } else { 0 };
        assert_eq!(rows(ours, &one.rows, hidden_bytes), one.rows, "{name}");
        assert_eq!(ours.frames.len(), one.rows.len(), "{name}");
    }
    let read = judged.iter().filter(|one| one.ours.is_ok() && !one.rows.is_empty()).count();
    assert!(read > files.len() * 9 / 10, "only {read} of {} could be compared", files.len());
    check_pcapng_copy(&judged);
    check_pcap_copies(&judged);
}

/// All captures in one pcapng file, so that one run of tshark judges the copies of all.
fn check_pcapng_copy(judged: &[Judged]) {
    let memory = Memory::default();
    let mut writer = PcapngWriter::new(memory.clone(), &[]).unwrap();
    let (mut expected, mut base) = (Vec::new(), 0);
    for one in judged {
        let Ok(ours) = &one.ours else { continue };
        if difference(&one.path) == Some(Difference::OnlyWeRead) {
            continue;
        }
        for interface in &ours.interfaces {
            writer.add_interface(interface).unwrap();
        }
        write_all(&mut writer, ours, base);
        let rows = one.rows.iter().cloned();
        expected.extend(rows.map(|row| Row { interface: row.interface + base, ..row }));
        base += ours.interfaces.len() as u32;
    }
    writer.finish(&[]).unwrap();
    check_copy(&memory, "pcapng", &expected);
}

/// All captures of one link type in one pcap file each.
fn check_pcap_copies(judged: &[Judged]) {
    type Copy = (Memory, PcapWriter<Memory>, Vec<Row>);
    let mut copies: BTreeMap<LinkType, Copy> = BTreeMap::new();
    for one in judged {
        let Ok(ours) = &one.ours else { continue };
        let Some(link_type) = ours.single_link_type() else { continue };
        let fits = ours.frames.iter().all(|f| f.meta.timestamp.seconds() <= u64::from(u32::MAX));
        if difference(&one.path) == Some(Difference::OnlyWeRead) || !fits {
            continue;
        }
        let (_, writer, expected) = copies.entry(link_type).or_insert_with(|| {
            let memory = Memory::default();
            let first = ours.frames[0].meta.interface.0 as usize;
            let interfaces = [ours.interfaces[first].clone()];
            let precision = Precision::Nanoseconds;
            let writer = PcapWriter::new(memory.clone(), &interfaces, precision).unwrap();
            (memory, writer, Vec::new())
        });
        for frame in &ours.frames {
            let mut frame = frame.as_frame();
            frame.meta.interface.0 = 0;
            writer.write(&frame).unwrap();
        }
        expected.extend(one.rows.iter().map(|row| Row { interface: 0, ..row.clone() }));
    }
    assert!(copies.len() > by_run(3, 10), "captures of {} link types", copies.len());
    let mut copies: Vec<_> = copies.into_iter().collect();
    for (_, (_, writer, _)) in &mut copies {
        writer.finish(&[]).unwrap();
    }
    in_parallel(&copies, |(_, (memory, _, expected))| check_copy(memory, "pcap", expected));
}

fn check_copy(memory: &Memory, extension: &str, expected: &[Row]) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("copy").with_extension(extension);
    std::fs::write(&path, &*memory.0.lock().unwrap()).unwrap();
    let (rows, complaint) = tshark(&path);
    assert_eq!(complaint, "");
    assert_eq!(rows.len(), expected.len());
    for (number, (row, expected)) in rows.iter().zip(expected).enumerate() {
        assert_eq!(row, expected, "frame {number} of the {extension} copy");
    }
}

/// The bytes, by libpcap: of the original, and of our copies.
#[test]
fn every_capture_has_the_bytes_that_libpcap_reads_and_its_copies_too() {
    let test = "every_capture_has_the_bytes_that_libpcap_reads_and_its_copies_too";
    let files = ringside_testkit::capture_files(test);
    if files.is_empty() || !ringside_testkit::need_tool(test, "tcpdump") {
        return;
    }
    let compared = in_parallel(&files, |path| compare_with_libpcap(path));
    let compared = compared.into_iter().filter(|&same| same).count();
    assert!(compared > files.len() * 9 / 10, "only {compared} of {} compared", files.len());
}

/// Captures with records longer than the snapshot length of their file.
const BEYOND_SNAPLEN: [&str; 6] = [
    "tcpdump-802_15_4-oobr-2.pcap",
    "tcpdump-bgp-bgp_capabilities_print-oobr-2.pcap",
    "tcpdump-icmp-icmp_print-oobr-2.pcap",
    "tcpdump-ieee802.11_meshhdr-oobr.pcap",
    "tcpdump-lmp-lmp_print_data_link_subobjs-oobr.pcap",
    "tcpdump-mobility_opt_asan_3.pcap",
];

/// False where libpcap cannot read the file at all: several link types or snapshot lengths.
fn compare_with_libpcap(path: &Path) -> bool {
    let name = path.display();
    let (records, complaint) = tcpdump(path);
    let Ok(mut source) = FileSource::open(path) else {
        assert!(!complaint.is_empty(), "{name}: only we refuse");
        return true;
    };
    let ours = drain(&mut source);
    if ["of the first interface", "no Interface Description"].iter().any(|c| complaint.contains(c))
    {
        return false;
    }
    assert_eq!(complaint, "", "{name}");
    assert_eq!(records.len(), ours.frames.len(), "{name}");
    for (record, frame) in records.iter().zip(&ours.frames) {
        // libpcap cuts to the snapshot length what a (contradictory) file holds beyond it.
        let cut = record.bytes.len() < frame.bytes.len();
        assert!(!cut || BEYOND_SNAPLEN.iter().any(|file| path.ends_with(file)), "{name}");
        assert_eq!(record.bytes, frame.bytes[..record.bytes.len()], "{name}");
    }
    for format in [Format::Pcapng, Format::Pcap] {
        check_copy_with_libpcap(&ours, format, path);
    }
    true
}

fn check_copy_with_libpcap(ours: &Contents, format: Format, path: &Path) {
    let name = path.display();
    let fits = ours.frames.iter().all(|f| f.meta.timestamp.seconds() <= u64::from(u32::MAX));
    if format == Format::Pcap && (!fits || ours.single_link_type().is_none()) {
        return;
    }
    let memory = Memory::default();
    let mut writer = format.writer(memory.clone(), &ours.interfaces).unwrap();
    write_all(&mut *writer, ours, 0);
    writer.finish(&[]).unwrap();
    let bytes = memory.0.lock().unwrap().clone();
    assert_eq!(writer.bytes_written(), bytes.len() as u64);
    assert_eq!(writer.frames_written(), ours.frames.len() as u64);

    let (again, _) = read_bytes(&bytes).unwrap();
    assert_eq!(again.error, None);
    if format == Format::Pcapng {
        assert_eq!(again.frames, ours.frames, "{name}");
        assert_eq!(again.interfaces, ours.interfaces, "{name}");
    }
    let dir = tempfile::tempdir().unwrap();
    let copy = dir.path().join("copy");
    std::fs::write(&copy, &bytes).unwrap();
    let (records, complaint) = tcpdump(&copy);
    assert_eq!(complaint, "", "{name}");
    assert_eq!(records.len(), ours.frames.len());
    for (record, frame) in records.iter().zip(&ours.frames) {
        // tcpdump's output is pcap, which wraps the seconds at 32 bits.
        let Timestamp(stamp) = frame.meta.timestamp;
        let wrapped = stamp % (1_000_000_000 << 32);
        assert_eq!((record.stamp, record.wire), (wrapped, frame.meta.wire_bytes), "{name}");
        assert_eq!(record.bytes, frame.bytes, "{name}");
    }
}
