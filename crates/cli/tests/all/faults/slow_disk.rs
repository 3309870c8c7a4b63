//! Disks that are slower than the link, and disks that stand still for a while.

use super::small_disk::need_loop;
use super::support::*;
use crate::common::*;
use ringside_core::{Cause, Ledger};
use ringside_store::dir::Entry;
use ringside_testkit::skip;
use ringside_transmit::{SenderKind, Shape, Sizes, Stamp};
use rustix::process::Signal;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Where block devices are throttled (cgroup v1).
const GROUPS: &str = "/sys/fs/cgroup/blkio";
/// The ring of these runs: a few blocks, soon full.
const RING: &str = "8MiB";
/// What a throttled disk writes in a second.
const THROTTLE: u64 = 4 << 20;

/// A control group whose writes to one device are throttled; removed when dropped.
struct Throttle {
    group: PathBuf,
    device: String,
}

impl Throttle {
    /// For the disk's device; `None`, and `test` is skipped, where devices cannot be throttled.
    fn new(test: &str, disk: &SmallDisk) -> Option<Throttle> {
        let file = "blkio.throttle.write_bps_device";
        if !Path::new(GROUPS).join(file).exists() {
            skip(test, &format!("there is no {GROUPS}/{file}: needs cgroup v1"));
            return None;
        }
        let group = Path::new(GROUPS).join(format!("ringside-{}-{test}", std::process::id()));
        std::fs::create_dir(&group).unwrap();
        let throttle = Throttle { group, device: disk.device("disk").1 };
        throttle.set(THROTTLE);
        Some(throttle)
    }

    /// Sets the limit; 0 lifts it.
    fn set(&self, bytes_per_second: u64) {
        let limit = format!("{} {bytes_per_second}", self.device);
        std::fs::write(self.group.join("blkio.throttle.write_bps_device"), limit).unwrap();
    }

    /// Starts a capture in the group.
    fn capture(&self, disk: &SmallDisk, network: &Network, output: &Path) -> Running {
        self.capture_with(disk, network, output, &["--ring-size", RING])
    }

    /// The same, with these options.
    fn capture_with(
        &self,
        disk: &SmallDisk,
        network: &Network,
        output: &Path,
        options: &[&str],
    ) -> Running {
        let join = format!("echo $$ > '{}' && exec \"$0\" \"$@\"", arg(&self.group.join("tasks")));
        let args = [&["-i", "rx0", "-w", arg(output)], options].concat();
        disk.capture_by(&["sh", "-c", &join], network, &args)
    }
}

impl Drop for Throttle {
    fn drop(&mut self) {
        // The test's own processes have left it; what a failed test left behind may still end.
        self.set(0);
        for _ in 0..100 {
            if std::fs::remove_dir(&self.group).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        eprintln!("{} stays", self.group.display());
    }
}

/// A file system that takes no write; it goes on when this is dropped, or after half a minute.
struct Frozen {
    keeper: Running,
    /// The keeper reads it to its end.
    hold: std::io::PipeWriter,
}

impl Frozen {
    fn new(disk: &SmallDisk) -> Frozen {
        let script = "fsfreeze -f \"$0\" && echo frozen && timeout 30 cat; fsfreeze -u \"$0\"";
        let enter = disk.enter();
        let (input, hold) = std::io::pipe().unwrap();
        let mut command = Command::new(&enter[0]);
        command.args(&enter[1..]).args(["sh", "-c", script, arg(&disk.path(""))]);
        command.stdin(input).stdout(Stdio::piped());
        let keeper = Running::start_directed(command);
        keeper.wait_for_stdout("frozen");
        Frozen { keeper, hold }
    }

    fn thaw(self) {
        drop(self.hold);
        let outcome = self.keeper.finish();
        assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
    }
}

/// The last status that a run printed.
fn status(running: &Running) -> Option<Ledger> {
    let text = String::from_utf8(running.stdout_so_far()).unwrap();
    let whole = text.rsplit_once('\n')?.0;
    let line: serde_json::Value = serde_json::from_str(whole.lines().last()?).unwrap();
    serde_json::from_value(line["status"].clone()).ok()
}

/// Waits until everything that was taken is in the files, and all of `received` was received.
fn wait_until_written(running: &Running, received: u64) -> Ledger {
    let mut last = None;
    wait_until("the ring to be empty", || {
        last = status(running).filter(|ledger| {
            let delivered = ledger.consumers[0].delivered;
            ledger.received == Some(received)
                && ledger.in_flight == Some(0)
                && ledger.taken == delivered
        });
        last.is_some()
    });
    last.unwrap()
}

/// The run lost frames because the disk was behind, `lost` at least, and for no other reason; its
/// files hold exactly what was delivered.
fn check(disk: &SmallDisk, output: &Path, ledger: &Ledger, received: u64) -> u64 {
    let causes: Vec<_> = ledger.dropped.keys().copied().collect();
    assert_eq!(causes, [Cause::RecorderBehind], "{ledger:#?}");
    let consumer = &ledger.consumers[0];
    assert!(consumer.missed.is_empty(), "{ledger:#?}");
    assert_eq!(consumer.delivered + ledger.dropped[&Cause::RecorderBehind], received);
    let files = files_in(&disk.outside(output));
    assert_eq!(files.len(), 1);
    assert_eq!(packets_by_wireshark(&files[0]), consumer.delivered);
    assert_eq!(count(&files), consumer.delivered);
    ledger.dropped[&Cause::RecorderBehind]
}

/// Sends a load that no disk here can take at once; gives the frames.
fn overload(network: &Network) -> u64 {
    send(network, 1_514, 30_000).handed
}

#[test]
fn a_slow_disk_costs_counted_frames_until_it_is_fast_again() {
    let test = "a_slow_disk";
    if !need_loop(test) {
        return;
    }
    let network = Network::up();
    let disk = SmallDisk::ext4("256M");
    let Some(throttle) = Throttle::new(test, &disk) else { return };
    let output = disk.path("recording");
    let running = throttle.capture(&disk, &network, &output);
    let mut sent = overload(&network);
    throttle.set(0);
    let before = wait_until_written(&running, sent);
    assert!(before.dropped.contains_key(&Cause::RecorderBehind), "{before:#?}");
    sent += send(&network, 100, 5_000).handed;
    let ledger = running.stop().checked_ledger(sent);
    let lost = check(&disk, &output, &ledger, sent);
    assert_eq!(lost, before.dropped[&Cause::RecorderBehind], "the disk is fast again");
}

#[test]
fn a_run_on_a_slow_disk_ends_with_what_is_in_the_ring() {
    let test = "a_run_on_a_slow_disk";
    if !need_loop(test) {
        return;
    }
    let network = Network::up();
    let disk = SmallDisk::ext4("256M");
    let Some(throttle) = Throttle::new(test, &disk) else { return };
    let output = disk.path("recording");
    let running = throttle.capture(&disk, &network, &output);
    let sent = overload(&network);
    let stopped = Instant::now();
    let outcome = running.stop();
    eprintln!("slow disk: the end took {:.2?}, {RING} at {THROTTLE} bytes/s", stopped.elapsed());
    let ledger = outcome.checked_ledger(sent);
    assert!(check(&disk, &output, &ledger, sent) > 0);
}

#[test]
fn what_a_killed_worker_left_in_the_ring_is_written_as_far_as_the_disk_goes() {
    let test = "what_a_killed_worker_left";
    if !need_loop(test) {
        return;
    }
    let network = Network::up();
    for room in [None, Some(3 << 20)] {
        let disk = SmallDisk::ext4("128M");
        let Some(throttle) = Throttle::new(test, &disk) else { return };
        let output = disk.path("recording");
        let running = throttle.capture(&disk, &network, &output);
        overload(&network);
        wait_until("the recorder to be behind", || {
            let behind = |ledger: Ledger| ledger.dropped.contains_key(&Cause::RecorderBehind);
            status(&running).is_some_and(behind)
        });
        if let Some(room) = room {
            fill(&disk, room);
        }
        running.signal_worker(Signal::KILL);
        let outcome = running.finish();
        let ledger = failed_ledger(&outcome);
        let consumer = &ledger.consumers[0];
        let missed: Vec<_> = consumer.missed.keys().copied().collect();
        let expected = if room.is_some() { &[Cause::DiskFull][..] } else { &[] };
        assert_eq!(missed, expected, "{ledger:#?} {}", outcome.stderr);
        assert!(ledger.dropped[&Cause::RecorderBehind] > 0, "{ledger:#?}");
        let files = files_in(&disk.outside(&output));
        assert_eq!(packets_by_wireshark(&files[0]), consumer.delivered);
        assert_eq!(count(&files), consumer.delivered);
    }
}

/// Fills the disk until there are no more than `room` bytes.
fn fill(disk: &SmallDisk, room: u64) {
    let ballast = disk.outside(&disk.path("ballast"));
    let file = std::fs::File::create(&ballast).unwrap();
    let free = Entry::at(&ballast).unwrap().dir().free_bytes().unwrap();
    ringside_sys::disk::preallocate(&file, 0, free.saturating_sub(room)).unwrap();
}

#[test]
fn a_disk_that_stands_still_costs_counted_frames_until_it_goes_on() {
    if !need_loop("a_disk_that_stands_still") {
        return;
    }
    let network = Network::up();
    let disk = SmallDisk::ext4("256M");
    let output = disk.path("recording");
    let args = ["-i", "rx0", "--ring-size", RING, "-w", arg(&output)];
    let running = disk.capture(&network, &args);
    let mut sent = send(&network, 1_514, 1_000).handed;
    let frozen = Frozen::new(&disk);
    sent += overload(&network);
    frozen.thaw();
    let before = wait_until_written(&running, sent);
    sent += send(&network, 100, 5_000).handed;
    let ledger = running.stop().checked_ledger(sent);
    let lost = check(&disk, &output, &ledger, sent);
    assert_eq!(lost, before.dropped[&Cause::RecorderBehind], "the disk goes on");
}

/// Frames, and how many a second: whole ones are three to four times what the disk takes, the
/// shortest a third of it.
const LOAD_FRAMES: u64 = 40_000;
const LOAD_RATE: u64 = 10_000;

/// Sends frames of the load's shape at this rate; gives the shape.
fn load(network: &Network, frames: u64, rate: u64) -> Shape {
    let shape = Shape::new(Sizes::fixed(1_514).unwrap(), 16).unwrap();
    let sent = network.send(SenderKind::Live, &shape, frames, Some(rate));
    assert_eq!(sent.handed, frames, "{sent:?}");
    shape
}

#[test]
fn an_adaptive_cap_records_every_frame_on_a_disk_that_is_too_slow_for_whole_ones() {
    let test = "an_adaptive_cap";
    if !need_loop(test) {
        return;
    }
    let network = Network::up();
    let disk = SmallDisk::ext4("256M");
    let Some(throttle) = Throttle::new(test, &disk) else { return };
    let ring = ["--ring-size", "16MiB"];
    // Without the cap the same load is too much for the disk.
    let whole = disk.path("whole");
    let running = throttle.capture_with(&disk, &network, &whole, &ring);
    load(&network, LOAD_FRAMES, LOAD_RATE);
    let ledger = running.stop().checked_ledger(LOAD_FRAMES);
    assert!(check(&disk, &whole, &ledger, LOAD_FRAMES) > 0);

    let output = disk.path("recording");
    let capped = [&ring[..], &["--adaptive-cap", "96-1514"]].concat();
    let running = throttle.capture_with(&disk, &network, &output, &capped);
    let shape = load(&network, LOAD_FRAMES, LOAD_RATE);
    throttle.set(0);
    // With room again the cap grows back.
    let more = send_until_whole(&running, &network);
    let outcome = running.stop();
    let ledger = outcome.checked_ledger(LOAD_FRAMES + more);
    assert_eq!((ledger.taken, ledger.lost()), (LOAD_FRAMES + more, 0), "{ledger:#?}");
    assert_eq!(ledger.consumers[0].delivered, ledger.taken);
    check_capped(&disk.outside(&output), &ledger, &shape);
    let judged =
        run_clean("capinfos", &["-c", "-M", "-T", "-r", arg(&files_in(&disk.outside(&output))[0])]);
    assert!(judged.contains(&ledger.taken.to_string()), "{judged}");
}

/// Sends rounds of frames, each into an empty ring, until no frame of a round is cut any more;
/// gives the frames.
fn send_until_whole(running: &Running, network: &Network) -> u64 {
    let cut_frames = |ledger: &Ledger| ledger.lanes[0].cut_frames;
    let (round, mut sent) = (500, 0);
    let mut before = wait_until_written(running, LOAD_FRAMES);
    for _ in 0..40 {
        load(network, round, 2_500);
        sent += round;
        let after = wait_until_written(running, LOAD_FRAMES + sent);
        if cut_frames(&after) == cut_frames(&before) {
            return sent;
        }
        before = after;
    }
    panic!("frames are still cut after {sent} with room: {before:#?}");
}

/// Every frame is there as far as its headers at least, and the ledger says what is missing.
fn check_capped(recording: &Path, ledger: &Ledger, shape: &Shape) {
    let (mut cut_frames, mut cut_bytes, mut lengths) = (0, 0, Vec::new());
    for_each_frame(&[recording.to_owned()], |frame, _| {
        let stamp = Stamp::read(frame.bytes).expect("no frame is without its number");
        let whole = shape.frame(stamp.stream, stamp.sequence);
        assert!(whole.starts_with(frame.bytes), "{stamp:?}");
        assert_eq!(frame.meta.wire_bytes as usize, whole.len());
        let missing = whole.len() - frame.bytes.len();
        cut_frames += u64::from(missing > 0);
        cut_bytes += missing as u64;
        lengths.push(frame.bytes.len());
    });
    assert_eq!(lengths.len() as u64, ledger.taken);
    let (least, last) = (lengths.iter().min().unwrap(), lengths.last().unwrap());
    assert!(*least >= 96 && *least < 1514, "from {least}");
    assert_eq!((lengths[0], *last), (1514, 1514), "whole before the ring fills, and at the end");
    assert!(cut_frames > LOAD_FRAMES / 3, "{cut_frames} are cut");
    let lane = &ledger.lanes[0];
    assert_eq!((lane.cut_frames, lane.cut_bytes), (cut_frames, cut_bytes));
    eprintln!("adaptive cap: {cut_frames} frames cut, down to {least} bytes");
}
