//! A backend tried on a private veth pair: opened, given some frames, closed.

use anyhow::Context;
use ringside_capture::backend::{Description, LaneKind, OpenRequest};
use ringside_core::ledger::sum;
use ringside_core::{Source, TimestampKind};
use ringside_lab::{Lab, LabConfig, RECEIVER_INTERFACE};
use ringside_sys::netns::Namespace;
use ringside_transmit::{Job, Limits, Load, SenderKind, Shape, Sizes};
use std::fs::read_to_string;
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Frames of a trial: more than one in a batch, and an instant to send.
pub const FRAMES: u64 = 256;
/// Bytes of each.
const FRAME_BYTES: u16 = 200;
/// Longest wait for them. A machine that is so slow is reported to have received fewer.
const WAIT_MAX: Duration = Duration::from_secs(3);
/// How long a source may wait for frames at a time.
const TURN: Duration = Duration::from_millis(20);
/// Memory for a trial: little, and enough for its frames.
const MEMORY_BYTES: u64 = 4 << 20;
/// Lanes of the second opening.
pub const LANES: u16 = 2;

/// What was seen of a backend.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// How frames came, if the backend says.
    pub way: String,
    /// Frames that were lent.
    pub frames: u64,
    /// Frames that the backend says were received, after its end.
    pub received: Option<u64>,
    /// Most frames that were lent at a time.
    pub batch: usize,
    /// Whose stamps they had.
    pub stamped_by: Option<TimestampKind>,
    /// Some stamp is no whole microsecond.
    pub nanoseconds: bool,
    /// Bytes of the kernel's memory that were mapped before the first frame came.
    pub mapped_bytes: u64,
    /// Several lanes of one interface could be opened, each for a thread of its own.
    pub several_lanes: bool,
    /// Two who opened the interface on their own had every frame each.
    pub several_readers: bool,
}

type Sources = Vec<Box<dyn Source>>;

/// A network to try backends on; none without root.
pub fn network() -> anyhow::Result<Lab> {
    let name = format!("backends-{}", std::process::id());
    Ok(Lab::up(&LabConfig { name, queues: LANES, ..LabConfig::default() })?)
}

/// Tries a backend.
///
/// # Errors
/// Why it cannot be used here.
pub fn run(tried: &Description, lab: &Lab) -> anyhow::Result<Seen> {
    let mut seen = with_frames(lab, |ready| {
        let mut seen = receive(tried, ready)?;
        // Where the trial had one lane, several are opened now.
        let several = || open(tried, LANES).is_ok_and(|(_, sources)| sources.len() > 1);
        seen.several_lanes = seen.several_lanes || several();
        Ok(seen)
    })?;
    seen.several_readers = with_frames(lab, |ready| read_twice(tried, ready)).unwrap_or(false);
    Ok(seen)
}

/// Does `work` at the receiving end, and sends frames once it says that it is ready.
fn with_frames<T: Send>(
    lab: &Lab,
    work: impl FnOnce(&mpsc::Sender<()>) -> anyhow::Result<T> + Send,
) -> anyhow::Result<T> {
    let (ready, is_ready) = mpsc::channel();
    std::thread::scope(|scope| {
        let receiver = scope.spawn(move || {
            Namespace::open(&lab.status().receiver_namespace)?.enter()?;
            work(&ready)
        });
        // Without an answer it could not be opened; it says why at its end.
        let sent = is_ready.recv().map_or(Ok(()), |()| send(lab));
        let seen = receiver.join().map_err(|_| anyhow::anyhow!("the trial died"))?;
        seen.and_then(|seen| sent.map(|()| seen))
    })
}

fn send(lab: &Lab) -> anyhow::Result<()> {
    let shape = Shape::new(Sizes::fixed(FRAME_BYTES)?, 1)?;
    let job = Job {
        sender: SenderKind::Packet,
        wire: lab.wire(),
        load: Load::Numbered(shape),
        cpus: Vec::new(),
        rate_per_sec: None,
        limits: Limits::new(Some(FRAMES), Some(WAIT_MAX))?,
    };
    ringside_transmit::run(&job, &|| false).context("sending frames")?;
    Ok(())
}

fn receive(tried: &Description, ready: &mpsc::Sender<()>) -> anyhow::Result<Seen> {
    let before = mapped_bytes();
    let (way, mut sources) = open(tried, lanes(tried))?;
    let mut seen = Seen { way, several_lanes: sources.len() > 1, ..Seen::default() };
    seen.mapped_bytes = mapped_bytes().saturating_sub(before);
    for source in &mut sources {
        source.start()?;
    }
    let _ = ready.send(());
    let start = Instant::now();
    while seen.frames < FRAMES && start.elapsed() < WAIT_MAX {
        for source in &mut sources {
            seen.take(source.as_mut())?;
        }
    }
    for source in &mut sources {
        source.detach()?;
        while !source.is_finished() {
            seen.take(source.as_mut())?;
        }
    }
    let received = sources.iter_mut().map(|source| source.counters().received);
    seen.received = received.sum();
    Ok(seen)
}

/// A flow's queue is not known beforehand: all are opened.
fn lanes(tried: &Description) -> u16 {
    if tried.lane == LaneKind::Queue { LANES } else { 1 }
}

/// Opens the interface twice; whether both have every frame.
fn read_twice(tried: &Description, ready: &mpsc::Sender<()>) -> anyhow::Result<bool> {
    let mut readers = Vec::new();
    for _ in 0..2 {
        let (_, mut sources) = open(tried, lanes(tried))?;
        for source in &mut sources {
            source.start()?;
        }
        readers.push((sources, Seen::default()));
    }
    let _ = ready.send(());
    let start = Instant::now();
    let have_all =
        |readers: &[(Sources, Seen)]| readers.iter().all(|(_, seen)| seen.frames >= FRAMES);
    while !have_all(&readers) && start.elapsed() < WAIT_MAX {
        for (sources, seen) in &mut readers {
            for source in sources {
                seen.take(source.as_mut())?;
            }
        }
    }
    Ok(have_all(&readers))
}

impl Seen {
    fn take(&mut self, source: &mut dyn Source) -> anyhow::Result<()> {
        let Some(batch) = source.next_batch(TURN)? else { return Ok(()) };
        let mut frames = 0;
        for frame in batch.iter() {
            frames += 1;
            self.stamped_by = Some(frame.meta.timestamp_kind);
            self.nanoseconds |= !frame.meta.timestamp.0.is_multiple_of(1000);
        }
        self.batch = self.batch.max(frames);
        self.frames += frames as u64;
        Ok(())
    }
}

fn open(tried: &Description, lanes: u16) -> anyhow::Result<(String, Sources)> {
    let opened = tried.open(&OpenRequest {
        lanes: Some(lanes),
        memory_bytes: MEMORY_BYTES,
        snaplen_bytes: u32::from(FRAME_BYTES),
        ..OpenRequest::new(RECEIVER_INTERFACE)
    })?;
    let way = opened.way.unwrap_or_default();
    Ok((way, opened.lanes.into_iter().map(|(source, _)| source).collect()))
}

/// Memory of the kernel's that this process has mapped: packet rings, the rings of AF_XDP, maps.
fn mapped_bytes() -> u64 {
    read_to_string("/proc/self/maps").map_or(0, |maps| socket_bytes(&maps))
}

fn socket_bytes(maps: &str) -> u64 {
    let bytes = |line: &str| {
        let (first, last) = line.split_whitespace().next()?.split_once('-')?;
        let address = |text| u64::from_str_radix(text, 16).ok();
        address(last)?.checked_sub(address(first)?)
    };
    let is_kernels = |line: &&str| line.contains("socket:[") || line.contains("bpf-map");
    sum(maps.lines().filter(is_kernels).filter_map(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_add_up_whatever_they_say() {
        let all = "0-ffffffffffffffff rw-s 00000000 00:08 345 socket:[345]\n";
        let seeds = [all.repeat(2), "7f00500000-7f00501000 rw-s bpf-map\n".into()];
        ringside_testkit::fuzz("proc-maps", 100_000, &seeds.map(String::into_bytes), |bytes| {
            let text = String::from_utf8_lossy(bytes);
            let each = text.lines().map(socket_bytes).max().unwrap_or(0);
            assert!(socket_bytes(&text) >= each);
        });
    }

    #[test]
    fn mappings_of_sockets_are_added_up() {
        let maps = "55d0-55e0 r-xp 00000000 08:01 12 /usr/bin/x\n\
             7f00000000-7f00400000 rw-s 00000000 00:08 345 socket:[345]\n\
             7f00500000-7f00501000 rw-s 00000000 00:08 346 socket:[346]\n\
             broken socket:[1]\n";
        assert_eq!(socket_bytes(maps), 0x40_1000);
        assert_eq!(socket_bytes(""), 0);
    }
}
