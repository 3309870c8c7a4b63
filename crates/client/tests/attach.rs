//! Attaching to a ring: a small owner is played here, frame by frame.

#![allow(clippy::unwrap_used)] // a test may panic, and its helpers with it

use ringside_client::{Attachment, ClientError, ReadOptions, Reader};
use ringside_core::share::{Hello, HelloLane, SHARE_VERSION};
use ringside_core::{
    Frame, FrameMeta, FrameNumber, InterfaceId, LaneCounters, QueueId, Source, SourceInterface,
    Timestamp,
};
use ringside_ring::{CaptureRing, HugePages, LaneWriter, RingLayout};
use ringside_store::block::{
    BlockEnd, BlockHeader, CLOSING_BYTES_MAX, Statistics, close_block, write_block_header,
    write_packet_block,
};
use ringside_sys::fdpass;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

const BLOCK_BYTES: usize = 512 << 10;
const FRAME_BYTES: usize = 1000;
const NO_WAIT: Duration = Duration::ZERO;

/// The owner of a ring with a socket.
struct Owner {
    ring: Arc<CaptureRing>,
    writers: Vec<Option<LaneWriter>>,
    frames: Vec<u64>,
    listener: UnixListener,
    path: PathBuf,
    streams: Vec<UnixStream>,
    _folder: tempfile::TempDir,
}

impl Owner {
    fn new(lanes: usize, blocks_per_lane: usize) -> Owner {
        let layout =
            RingLayout { lanes, blocks_per_lane, block_bytes: BLOCK_BYTES, lossless_readers: 0 };
        let ring = CaptureRing::create(layout, HugePages::No).unwrap();
        ring.seal().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("share");
        Owner {
            writers: (0..lanes).map(|lane| ring.writer(lane)).collect(),
            frames: vec![0; lanes],
            ring,
            listener: UnixListener::bind(&path).unwrap(),
            path,
            streams: Vec::new(),
            _folder: folder,
        }
    }

    fn hello(&self) -> Hello {
        let interface = SourceInterface::ethernet("rx0");
        let lane =
            HelloLane { interface: "rx0".into(), interface_id: InterfaceId(0), queue: QueueId(0) };
        Hello {
            version: SHARE_VERSION,
            owner: "a test".into(),
            pid: std::process::id(),
            interfaces: vec![interface],
            lanes: vec![lane; self.frames.len()],
            block_timeout_ns: 0,
        }
    }

    /// A reader connects, and receives `line` and, with it, `fds`.
    fn attach_with(
        &mut self,
        line: &[u8],
        fds: &[BorrowedFd<'_>],
    ) -> Result<Attachment, ClientError> {
        let path = self.path.clone();
        let reader = std::thread::spawn(move || Attachment::connect(&path));
        let (mut stream, _) = self.listener.accept().unwrap();
        if fdpass::send_line(&stream, line, fds).is_err() {
            // Longer than a line may be, or torn: as it comes.
            let _ = stream.write_all(line);
        }
        self.streams.push(stream);
        reader.join().unwrap()
    }

    fn attach(&mut self) -> Attachment {
        let hello = serde_json::to_vec(&self.hello()).unwrap();
        let fd = self.ring.fd().try_clone_to_owned().unwrap();
        self.attach_with(&hello, &[fd.as_fd()]).unwrap()
    }

    /// Publishes a frame that bears its number in the lane, and its lane.
    fn put(&mut self, lane: usize, stamp: u64) {
        let number = self.frames[lane];
        self.frames[lane] += 1;
        let mut bytes = [0; FRAME_BYTES];
        bytes[..8].copy_from_slice(&number.to_le_bytes());
        bytes[8] = lane as u8;
        let meta = FrameMeta {
            timestamp: Timestamp(stamp),
            wire_bytes: FRAME_BYTES as u32,
            ..FrameMeta::default()
        };
        let writer = self.writers[lane].as_mut().unwrap();
        if writer.is_open() && writer.tail().len() < FRAME_BYTES + 100 + CLOSING_BYTES_MAX {
            close(writer);
        }
        if !writer.is_open() {
            let header = BlockHeader {
                number: writer.next_sequence(),
                first_frame: FrameNumber(number),
                opened: Timestamp(stamp),
            };
            writer.open(number).unwrap();
            let length = write_block_header(writer.tail(), &header);
            writer.fill(length, 0);
        }
        let length = write_packet_block(writer.tail(), &Frame { bytes: &bytes, meta }, 0);
        writer.fill(length, 1);
        writer.set_times(stamp, stamp);
        writer.publish();
        writer.set_low_water_ns(stamp);
    }

    fn put_many(&mut self, lane: usize, count: u64) {
        (0..count).for_each(|_| self.put(lane, 1_000 + self.frames[lane]));
    }

    /// Ends as a process that was killed does: nothing is said, the socket closes.
    fn die(&mut self) {
        self.writers.iter_mut().for_each(|writer| std::mem::forget(writer.take()));
        self.streams.clear();
    }

    fn finish(&mut self) {
        self.writers.iter_mut().for_each(|writer| drop(writer.take()));
    }
}

fn close(writer: &mut LaneWriter) {
    let counters = LaneCounters::default();
    let statistics = Statistics {
        interface: InterfaceId(0),
        first_time: Timestamp(0),
        when: Timestamp(0),
        counters: &counters,
    };
    let tail = writer.tail();
    let bytes = tail.len();
    close_block(tail, &statistics, &BlockEnd::default());
    writer.fill(bytes, 0);
    writer.close();
}

fn from(stamp: u64) -> ReadOptions {
    ReadOptions { from: Some(Timestamp(stamp)), ..ReadOptions::default() }
}

/// Lane and number of each frame that is there now.
fn numbers(reader: &mut Reader) -> Vec<(u8, u64)> {
    let mut numbers = Vec::new();
    while let Some(frame) = reader.next_frame(NO_WAIT) {
        assert_eq!(frame.bytes.len(), FRAME_BYTES);
        numbers.push((frame.bytes[8], u64::from_le_bytes(frame.bytes[..8].try_into().unwrap())));
    }
    numbers
}

#[test]
fn a_reader_begins_now_or_as_far_back_as_it_asks() {
    let mut owner = Owner::new(1, 4);
    owner.put_many(0, 1200);
    let attachment = owner.attach();
    let mut now = Reader::new(&attachment, &ReadOptions::default());
    let mut all = Reader::new(&attachment, &from(0));
    let mut late = Reader::new(&attachment, &from(1_000 + 700));
    owner.put_many(0, 100);
    owner.finish();
    let expected = |first: u64| (first..1300).map(|number| (0, number)).collect::<Vec<_>>();
    assert!(numbers(&mut now) == expected(1200));
    assert!(numbers(&mut all) == expected(0));
    assert!(numbers(&mut late) == expected(700));
    for reader in [&now, &all, &late] {
        assert!(reader.is_finished());
        assert_eq!(reader.missed(), 0);
    }
    assert_eq!(late.delivered(), 600);
}

#[test]
fn what_is_overwritten_is_missed_to_the_frame_and_the_rest_goes_on() {
    let mut owner = Owner::new(1, 3);
    let attachment = owner.attach();
    let mut reader = Reader::new(&attachment, &ReadOptions::default());
    owner.put_many(0, 10);
    assert_eq!(numbers(&mut reader).len(), 10);
    owner.put_many(0, 5_000);
    owner.finish();
    let got = numbers(&mut reader);
    let first = got[0].1;
    assert!(first > 10, "the ring holds three blocks");
    assert!(got.iter().map(|frame| frame.1).eq(first..5_010));
    assert_eq!(reader.missed(), first - 10);
    assert_eq!(reader.delivered() + reader.missed(), 5_010);
}

#[test]
fn lanes_are_merged_by_time() {
    let mut owner = Owner::new(2, 4);
    let attachment = owner.attach();
    let mut reader = Reader::new(&attachment, &ReadOptions::default());
    for step in 0..300_u64 {
        owner.put((step % 2) as usize, 5_000 + step);
    }
    owner.finish();
    let got = numbers(&mut reader);
    assert!(got.iter().copied().eq((0..300).map(|step| ((step % 2) as u8, step / 2))));
    assert_eq!(reader.late(), 0);
}

#[test]
fn the_end_of_the_owner_is_seen_and_nothing_published_is_lost() {
    let mut owner = Owner::new(1, 4);
    let attachment = owner.attach();
    let mut reader = Reader::new(&attachment, &ReadOptions::default());
    owner.put_many(0, 600);
    assert!(!reader.is_finished());
    owner.die();
    assert_eq!(numbers(&mut reader).len(), 600);
    assert!(reader.is_finished());
    assert_eq!(reader.missed(), 0);
}

#[test]
fn a_source_accounts_for_every_frame_until_it_is_detached() {
    let mut owner = Owner::new(1, 4);
    owner.put_many(0, 100);
    let attachment = owner.attach();
    let mut source = attachment.sources(&from(1_000 + 60)).remove(0);
    owner.put_many(0, 50);
    source.detach().unwrap();
    owner.put_many(0, 50);
    let mut lent = 0;
    while !source.is_finished() {
        if let Some(batch) = source.next_batch(Duration::from_millis(10)).unwrap() {
            lent += batch.frame_count() as u64;
        }
    }
    let counters = source.counters();
    assert_eq!((lent, counters.received), (90, Some(90)));
    assert_eq!(counters.filtered, Some(0));
    assert_eq!(source.low_water(), Timestamp::MAX);
}

#[test]
fn a_server_that_does_not_speak_as_an_owner_is_refused() {
    let mut owner = Owner::new(1, 2);
    let hello = owner.hello();
    let json = |hello: &Hello| serde_json::to_vec(hello).unwrap();
    let sealed = owner.ring.fd().try_clone_to_owned().unwrap();
    let layout = owner.ring.layout();
    let open_ring = CaptureRing::create(layout, HugePages::No).unwrap();
    let file = tempfile::tempfile().unwrap();
    let newer = Hello { version: 2, ..hello.clone() };
    let lanes = Hello { lanes: Vec::new(), ..hello.clone() };
    let cases: [(&str, Vec<u8>, Vec<BorrowedFd<'_>>, &str); 7] = [
        ("version", json(&newer), vec![sealed.as_fd()], "version 2"),
        ("lanes", json(&lanes), vec![sealed.as_fd()], "1 lanes"),
        ("no memory", json(&hello), vec![], "no memory"),
        ("not sealed", json(&hello), vec![open_ring.fd()], "seal"),
        ("no ring", json(&hello), vec![file.as_fd()], ""),
        ("no JSON", b"GET / HTTP/1.1".to_vec(), vec![sealed.as_fd()], "expected value"),
        ("too long", vec![b'['; 5 << 20], vec![sealed.as_fd()], "more than"),
    ];
    for (case, line, fds, word) in cases {
        let error = owner.attach_with(&line, &fds).err().map(|error| error.to_string());
        let error = error.unwrap_or_else(|| panic!("{case}: attached"));
        assert!(error.contains(word), "{case}: {error}");
    }
    let refused = Attachment::connect("/nonexistent/share".as_ref()).err().unwrap();
    assert!(refused.to_string().contains("/nonexistent/share: No such file"), "{refused}");
}
