//! What the tests against other programs share.

#![allow(dead_code)] // each test file uses a part

pub mod recording;

use ringside_core::{Cause, LinkType, OwnedFrame, Source, SourceInterface};
use ringside_store::block::block_header;
use ringside_store::dir::Entry;
use ringside_store::recording::SeriesFile;
use ringside_store::{Condition, FileHeader, FileSource, FrameWriter, StoredSource};
use ringside_testkit::judge;
use std::io::{Cursor, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Everything that a source gave.
#[derive(Debug, Default)]
pub struct Contents {
    pub frames: Vec<OwnedFrame>,
    pub interfaces: Vec<SourceInterface>,
    pub error: Option<String>,
    pub damaged: u64,
}

impl Contents {
    /// The link type, if all frames have the same one.
    pub fn single_link_type(&self) -> Option<LinkType> {
        let mut types = self.frames.iter().map(|frame| self.link_type(frame));
        let first = types.next()?;
        types.all(|other| other == first).then_some(first)
    }

    pub fn link_type(&self, frame: &OwnedFrame) -> LinkType {
        self.interfaces[frame.meta.interface.0 as usize].link_type
    }
}

/// A file of a recording with these ring blocks; those that are full are counted.
pub fn write_series(
    path: &Path,
    header: &FileHeader,
    interfaces: &[SourceInterface],
    blocks: &[&[u8]],
) -> SeriesFile {
    let file = SeriesFile::create(Entry::at(path).unwrap(), header, interfaces).unwrap();
    for (index, block) in blocks.iter().enumerate() {
        file.file().write_all_at(block, file.block_offset(index as u64)).unwrap();
    }
    let complete = blocks.iter().filter(|block| block.len() == header.block_bytes).count();
    let first = blocks.first().and_then(|block| block_header(block)).map(|header| header.number);
    file.set_blocks(first.or(header.first_block), complete as u64).unwrap();
    file
}

/// Reads a source to its end, and checks its contract on the way.
pub fn drain(source: &mut dyn Source) -> Contents {
    let mut contents = Contents::default();
    while !source.is_finished() {
        match source.next_batch(Duration::from_secs(60)) {
            Ok(Some(batch)) => {
                assert!(batch.frame_count() <= ringside_core::limits::BATCH_FRAMES_MAX);
                contents.frames.extend(batch.iter().map(|frame| frame.to_owned_frame()));
            }
            Ok(None) => {}
            Err(error) => contents.error = Some(error.to_string()),
        }
    }
    assert!(matches!(source.next_batch(Duration::ZERO), Ok(None)), "the end is sticky");
    assert_eq!(source.low_water(), ringside_core::Timestamp::MAX);
    contents.interfaces = source.interfaces().to_vec();
    let counters = source.counters();
    contents.damaged = counters.dropped.get(&Cause::Damaged).copied().unwrap_or(0);
    let lost = contents.damaged + counters.filtered.unwrap();
    assert_eq!(counters.received, Some(contents.frames.len() as u64 + lost));
    for frame in &contents.frames {
        assert!((frame.meta.interface.0 as usize) < contents.interfaces.len());
    }
    contents
}

/// Reads bytes as a file; `Err` is what opening said.
pub fn read_bytes(bytes: &[u8]) -> Result<(Contents, Condition), String> {
    let reader = Box::new(Cursor::new(bytes.to_vec()));
    let mut source =
        FileSource::from_reader(Path::new("bytes"), reader).map_err(|error| error.to_string())?;
    let contents = drain(&mut source);
    let mut notices = source.notices();
    notices.retain(|notice| !matches!(notice.condition, Condition::TimesLost { .. }));
    assert_eq!(notices.len(), usize::from(*source.condition() != Condition::Complete));
    Ok((contents, source.condition().clone()))
}

/// An output that can be looked at afterwards.
#[derive(Clone, Default)]
pub struct Memory(pub Arc<Mutex<Vec<u8>>>);

impl Write for Memory {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Adds all frames to a writer, their interface ids raised by `base`.
pub fn write_all(writer: &mut dyn FrameWriter, contents: &Contents, base: u32) {
    for frame in &contents.frames {
        let mut frame = frame.as_frame();
        frame.meta.interface.0 += base;
        writer.write(&frame).unwrap();
    }
}

/// A packet as another program reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// Nanoseconds; 0 where the file has none.
    pub stamp: u64,
    pub wire: u32,
    pub captured: u32,
    /// 0 for pcap.
    pub interface: u32,
    /// The program's name of the link type.
    pub encapsulation: String,
}

/// The packets that tshark sees, and what it complained about.
pub fn tshark(path: &Path) -> (Vec<Row>, String) {
    let fields = ["time_epoch", "len", "cap_len", "interface_id", "encap_type"];
    let fields = fields.map(|field| format!("frame.{field}"));
    let mut args = vec!["-n", "-T", "fields"];
    args.extend(fields.iter().flat_map(|field| ["-e", field]));
    args.push("-r");
    let answer = judge::ask("tshark", &args, path);
    (answer.text().lines().filter_map(row).collect(), complaints(&answer.stderr))
}

/// A line of tshark; records that are no packets have no encapsulation.
fn row(line: &str) -> Option<Row> {
    let fields: Vec<&str> = line.split('\t').collect();
    let [time, wire, captured, interface, encapsulation] = fields[..] else {
        panic!("tshark printed {line:?}")
    };
    (!encapsulation.is_empty()).then(|| Row {
        stamp: nanoseconds(time),
        wire: wire.parse().unwrap(),
        captured: captured.parse().unwrap(),
        interface: if interface.is_empty() { 0 } else { interface.parse().unwrap() },
        encapsulation: encapsulation.to_owned(),
    })
}

fn nanoseconds(time: &str) -> u64 {
    let Some((seconds, fraction)) = time.split_once('.') else { return 0 };
    assert_eq!(fraction.len(), 9);
    seconds.parse::<u64>().unwrap() * 1_000_000_000 + fraction.parse::<u64>().unwrap()
}

/// What a program wrote to standard error, without what it always writes.
pub fn complaints(stderr: &[u8]) -> String {
    // The last: tcpdump on link types that hold interface numbers (LINUX_SLL2).
    let usual = [
        "Running as user \"root\"",
        "reading from file",
        "Warning: interface names might be incorrect",
    ];
    let text = String::from_utf8_lossy(stderr);
    let lines = text.lines().filter(|line| !usual.iter().any(|usual| line.starts_with(usual)));
    // "dropped privs to tcpdump" and an empty line.
    lines.filter(|line| !line.is_empty() && !line.starts_with("dropped privs")).collect()
}

/// A packet as libpcap reads it.
#[derive(Debug, PartialEq, Eq)]
pub struct Record {
    pub stamp: u64,
    pub wire: u32,
    pub bytes: Vec<u8>,
}

/// The packets that libpcap reads (tcpdump writes them out as nanosecond pcap), and what tcpdump
/// complained about.
pub fn tcpdump(path: &Path) -> (Vec<Record>, String) {
    let output = judge::ask("tcpdump", &["--time-stamp-precision=nano", "-w", "-", "-r"], path);
    let mut records = Vec::new();
    let mut rest = output.stdout.get(24..).unwrap_or_default();
    while let Some(head) = rest.first_chunk::<16>() {
        let word = |at: usize| u32::from_le_bytes(*head[at..].first_chunk().unwrap());
        let (data, after) = rest[16..].split_at(word(8) as usize);
        let stamp = u64::from(word(0)) * 1_000_000_000 + u64::from(word(4));
        records.push(Record { stamp, wire: word(12), bytes: data.to_vec() });
        rest = after;
    }
    (records, complaints(&output.stderr))
}

/// Runs `work` over `items` on two threads; results in order.
pub fn in_parallel<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = std::sync::atomic::AtomicUsize::new(0);
    let results: Vec<Mutex<Option<R>>> = items.iter().map(|_| Mutex::new(None)).collect();
    let run = || {
        loop {
            let index = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let Some(item) = items.get(index) else { return };
            *results[index].lock().unwrap() = Some(work(item));
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(run);
        run();
    });
    results.into_iter().map(|result| result.into_inner().unwrap().unwrap()).collect()
}
