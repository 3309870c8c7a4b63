//! The ring in other processes: attaching, sealing, and the death of either side.

use super::*;
use rustix::mm::{MapFlags, ProtFlags, mmap};
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::{Child, Command, Stdio};

fn view(ring: &CaptureRing) -> Arc<RingView> {
    RingView::attach(ring.fd().try_clone_to_owned().unwrap()).unwrap()
}

#[test]
fn a_view_tells_what_the_owner_does() {
    let ring = CaptureRing::create(layout(4, 2), HugePages::No).unwrap();
    let view = view(&ring);
    assert_eq!(view.layout(), ring.layout());
    let mut writer = ring.writer(1).unwrap();
    let mut reader = ring.block_reader(1, 0).unwrap();
    assert_eq!((view.opened(1), view.frames(1), view.is_finished(1)), (0, 0, false));
    write_block(&mut writer, 0).unwrap();
    write_block(&mut writer, 1).unwrap();
    writer.set_low_water_ns(77);
    let claim = reader.claim(1).unwrap();
    reader.release(claim);
    assert_eq!((view.opened(1), view.frames(1)), (2, 2 * PER_BLOCK));
    assert_eq!(view.low_water_ns(1), 77);
    let released: Vec<u64> = (0..5).map(|index| view.released(1, index)).collect();
    assert_eq!(released, [1, 0, u64::MAX, u64::MAX, u64::MAX]);
    writer.finish();
    assert!(view.is_finished(1) && !view.is_finished(0));
    let mut reader = view.copy_reader(1, RingStart::Oldest);
    let mut buffer = Vec::new();
    while reader.read(&mut buffer) != ReadOutcome::Finished {}
    assert_eq!(frames_in(&buffer[..BLOCK]), (0..PER_BLOCK as u8).collect::<Vec<_>>());
    assert_eq!((reader.delivered(), reader.missed()), (2 * PER_BLOCK, 0));
}

#[test]
fn a_block_is_copied_as_far_as_it_is_published_and_only_while_it_is_there() {
    let ring = CaptureRing::create(layout(2, 0), HugePages::No).unwrap();
    let view = view(&ring);
    let mut writer = ring.writer(0).unwrap();
    let mut buffer = vec![1];
    assert_eq!(view.copy_block(0, 0, &mut buffer), None);
    assert!(buffer.is_empty());
    write_block(&mut writer, 0).unwrap();
    let state = view.copy_block(0, 0, &mut buffer).unwrap();
    assert!(state.closed && state.bytes == BLOCK && buffer.len() == BLOCK);
    assert_eq!((state.frames, state.first_frame), (PER_BLOCK as u32, 0));
    assert_eq!(frames_in(&buffer), (0..PER_BLOCK as u8).collect::<Vec<_>>());
    writer.open(PER_BLOCK).unwrap();
    writer.tail()[..12].fill(3);
    writer.fill(12, 2);
    writer.set_times(40, 50);
    writer.publish();
    let state = view.copy_block(0, 1, &mut buffer).unwrap();
    let expected = BlockState {
        bytes: 12,
        frames: 2,
        closed: false,
        first_frame: PER_BLOCK,
        first_time_ns: 40,
        last_time_ns: 50,
    };
    assert_eq!((state, &buffer[..]), (expected, &[3; 12][..]));
    let rest = writer.tail().len();
    writer.fill(rest, 0);
    writer.close();
    write_block(&mut writer, 2).unwrap();
    assert_eq!(view.copy_block(0, 0, &mut buffer), None, "block 2 lies there now");
    assert!(view.copy_block(0, 1, &mut buffer).is_some());
    assert_eq!(view.copy_block(0, 3, &mut buffer), None);
    assert_eq!(view.copy_block(0, u64::MAX, &mut buffer), None);
}

/// Tries everything that a process with the descriptor could do to the memory.
fn assert_sealed(ring: &CaptureRing) {
    let reopened = OpenOptions::new()
        .read(true)
        .write(true)
        .open(format!("/proc/self/fd/{}", ring.fd().as_raw_fd()))
        .map(OwnedFd::from);
    let handles = [Ok(ring.fd().try_clone_to_owned().unwrap()), reopened];
    for handle in handles.into_iter().flatten() {
        let bytes = rustix::fs::fstat(&handle).unwrap().st_size as usize;
        for prot in [ProtFlags::WRITE, ProtFlags::READ | ProtFlags::WRITE] {
            // SAFETY: a new mapping that is not used; it should not come about.
            let mapped =
                unsafe { mmap(std::ptr::null_mut(), bytes, prot, MapFlags::SHARED, &handle, 0) };
            assert!(mapped.is_err(), "{prot:?}");
        }
        for size in [0, bytes / 2, bytes * 2] {
            assert!(rustix::fs::ftruncate(&handle, size as u64).is_err(), "{size}");
        }
        assert!(rustix::io::pwrite(&handle, &[0; 8], 0).is_err());
        let punch = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
        assert!(rustix::fs::fallocate(&handle, punch, 0, bytes as u64).is_err());
        assert!(rustix::fs::fcntl_add_seals(&handle, rustix::fs::SealFlags::WRITE).is_err());
    }
}

#[test]
fn every_mapping_can_lie_in_huge_pages() {
    let ring = CaptureRing::create(layout(4, 1), HugePages::Try).unwrap();
    let _reader = view(&ring);
    let inode = rustix::fs::fstat(ring.fd()).unwrap().st_ino.to_string();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let starts: Vec<usize> = maps
        .lines()
        .filter(|line| line.split_whitespace().nth(4) == Some(&inode))
        .map(|line| usize::from_str_radix(line.split('-').next().unwrap(), 16).unwrap())
        .collect();
    assert_eq!(starts.len(), 2, "{maps}");
    for start in starts {
        assert_eq!(start % HUGE_PAGE_BYTES, 0, "{start:x}");
    }
}

fn seal_and_go_on(huge_pages: HugePages) -> Arc<CaptureRing> {
    let ring = CaptureRing::create(layout(4, 1), huge_pages).unwrap();
    let unsealed = RingView::attach_sealed(ring.fd().try_clone_to_owned().unwrap());
    assert!(matches!(unsealed, Err(RingError::NotSealed)));
    let before = view(&ring);
    ring.seal().unwrap();
    ring.seal().expect("sealed is sealed");
    assert_sealed(&ring);
    let after = RingView::attach_sealed(ring.fd().try_clone_to_owned().unwrap()).unwrap();
    let mut writer = ring.writer(0).unwrap();
    let mut reader = ring.block_reader(0, 0).unwrap();
    for block in 0..9 {
        write_block(&mut writer, block).unwrap();
        let claim = reader.claim(1).unwrap();
        reader.release(claim);
    }
    writer.finish();
    for view in [before, after] {
        let mut buffer = Vec::new();
        let mut reader = view.copy_reader(0, RingStart::Oldest);
        while reader.read(&mut buffer) != ReadOutcome::Finished {}
        assert_eq!((reader.first_frame(), reader.delivered()), (5 * PER_BLOCK, 4 * PER_BLOCK));
        assert_eq!(frames_in(&buffer)[0], (5 * PER_BLOCK) as u8);
    }
    ring
}

#[test]
fn after_the_seal_nobody_can_write_or_resize_and_the_owner_goes_on() {
    let ring = seal_and_go_on(HugePages::No);
    assert!(!ring.has_huge_pages());
}

/// Reserves huge pages while it lives.
struct HugePagesReserve {
    before: u64,
}

const HUGE_PAGES: &str = "/proc/sys/vm/nr_hugepages";

impl HugePagesReserve {
    fn of(pages: u64) -> Option<HugePagesReserve> {
        let number = || std::fs::read_to_string(HUGE_PAGES).ok()?.trim().parse::<u64>().ok();
        let before = number()?;
        std::fs::write(HUGE_PAGES, (before + pages).to_string()).ok()?;
        let reserve = HugePagesReserve { before };
        (number()? == before + pages).then_some(reserve)
    }
}

impl Drop for HugePagesReserve {
    fn drop(&mut self) {
        let _ = std::fs::write(HUGE_PAGES, self.before.to_string());
    }
}

#[test]
fn a_ring_in_huge_pages_is_sealed_as_well() {
    let test = "ring::a_ring_in_huge_pages_is_sealed_as_well";
    if !ringside_testkit::need_root(test) {
        return;
    }
    let _lock = ringside_testkit::huge_pages_lock();
    let Some(_reserve) = HugePagesReserve::of(16) else {
        return ringside_testkit::skip(test, "needs 16 free huge pages");
    };
    let ring = seal_and_go_on(HugePages::Try);
    if !ring.has_huge_pages() {
        ringside_testkit::skip(test, "the huge pages were taken by somebody else");
    }
}

/// Says which part the process plays, and where the ring is.
const PART: &str = "RINGSIDE_RING_TEST_PART";
const RING: &str = "RINGSIDE_RING_TEST_FD";

/// This test program again, in the part of `part`, with the ring behind `ring`.
fn start_other(part: &str, ring: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "ring::tests::sharing::part_of_another_process", "--nocapture"])
        .env(PART, part)
        .env(RING, ring)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap()
}

fn open_ring(path: &str) -> Arc<RingView> {
    RingView::attach(OwnedFd::from(std::fs::File::open(path).unwrap())).unwrap()
}

/// What the children do; in an ordinary run, nothing.
#[test]
fn part_of_another_process() {
    match std::env::var(PART).as_deref() {
        Ok("reader") => read_all(&open_ring(&std::env::var(RING).unwrap())),
        Ok("owner") => own_a_ring(),
        _ => {}
    }
}

/// Reads to the end and tells the counts.
fn read_all(view: &RingView) {
    let mut reader = view.copy_reader(0, RingStart::Oldest);
    println!("reading");
    let mut buffer = Vec::new();
    loop {
        buffer.clear();
        match reader.read(&mut buffer) {
            ReadOutcome::Finished => break,
            ReadOutcome::Nothing => std::thread::yield_now(),
            ReadOutcome::Frames(_) => assert_whole_frames(&buffer),
            ReadOutcome::Damaged => panic!("an honest owner"),
        }
    }
    println!("counts {} {} {}", reader.first_frame(), reader.delivered(), reader.missed());
}

fn assert_whole_frames(bytes: &[u8]) {
    for frame in bytes.chunks_exact(FRAME) {
        assert!(frame.iter().all(|byte| *byte == frame[0]), "a torn frame");
    }
}

/// Fills a ring without end and a board with it, until it is killed.
fn own_a_ring() {
    let ring = CaptureRing::create(layout(3, 0), HugePages::No).unwrap();
    let mut writer = ring.writer(0).unwrap();
    let mut board = ring.board_writer(0, Board::Worker).unwrap();
    board.publish(&[0; BOARD_WORDS]);
    println!("ring /proc/{}/fd/{}", std::process::id(), ring.fd().as_raw_fd());
    for block in 0.. {
        write_block(&mut writer, block).unwrap();
        for word in 0..1_000 {
            board.publish(&[block << 10 | word; BOARD_WORDS]);
        }
    }
}

/// The words after `name` in the first line of the child that begins with it.
fn line_of(output: impl Read, name: &str) -> Vec<String> {
    let lines = BufReader::new(output).lines().map(Result::unwrap);
    // The test harness may have written before it in the same line.
    let line = lines.into_iter().find(|line| line.contains(name));
    let line = line.unwrap_or_else(|| panic!("the other process said no {name}"));
    let (_, rest) = line.split_once(name).unwrap();
    rest.split_whitespace().map(str::to_owned).collect()
}

#[test]
fn readers_in_other_processes_count_exactly_and_their_death_changes_nothing() {
    let ring = CaptureRing::create(layout(3, 0), HugePages::No).unwrap();
    ring.seal().unwrap();
    let path = format!("/proc/{}/fd/{}", std::process::id(), ring.fd().as_raw_fd());
    let mut victim = start_other("reader", &path);
    let witness = start_other("reader", &path);
    line_of(victim.stdout.as_mut().unwrap(), "reading");
    let mut writer = ring.writer(0).unwrap();
    for block in 0..100 {
        write_block(&mut writer, block).unwrap();
    }
    victim.kill().unwrap();
    victim.wait().unwrap();
    for block in 100..200 {
        write_block(&mut writer, block).unwrap();
    }
    writer.finish();
    let output = witness.wait_with_output().unwrap();
    assert!(output.status.success());
    let counts = line_of(&output.stdout[..], "counts ");
    let counts: Vec<u64> = counts.iter().map(|word| word.parse().unwrap()).collect();
    assert_eq!(counts.iter().sum::<u64>(), 200 * PER_BLOCK, "first, delivered, missed: {counts:?}");
}

#[test]
fn what_a_killed_owner_published_is_whole() {
    for round in 0..20 {
        let mut owner = start_other("owner", "");
        let path = line_of(owner.stdout.as_mut().unwrap(), "ring ").remove(0);
        let view = open_ring(&path);
        while view.opened(0) < 2 {
            std::thread::yield_now();
        }
        owner.kill().unwrap();
        owner.wait().unwrap();
        let words = view.read_board::<BOARD_WORDS>(0, Board::Worker).expect("was published");
        assert!(words.iter().all(|word| *word == words[0]), "round {round}: {words:?}");
        let opened = view.opened(0);
        let mut frames = None;
        for sequence in opened.saturating_sub(3)..opened {
            let mut buffer = Vec::new();
            // The oldest may have been given up for a block that was not announced yet.
            let Some(state) = view.copy_block(0, sequence, &mut buffer) else {
                assert_eq!(sequence + 3, opened, "round {round}");
                continue;
            };
            assert_whole_frames(&buffer);
            assert_eq!(u64::from(state.frames), (buffer.len() / FRAME) as u64);
            assert_eq!(state.closed, sequence + 1 < opened || buffer.len() == BLOCK);
            assert_eq!(state.first_frame, sequence * PER_BLOCK);
            frames = Some(state.first_frame + u64::from(state.frames));
        }
        // Killed between the two stores of a publication, the lane's count is one behind.
        let behind = frames.unwrap() - view.frames(0);
        assert!(behind <= 1, "round {round}: {behind}");
        assert!(!view.is_finished(0), "it did not end, it died");
    }
}

#[test]
fn a_descriptor_that_cannot_be_a_ring_is_refused() {
    let open = |path: &str| OwnedFd::from(std::fs::File::open(path).unwrap());
    assert!(matches!(RingView::attach(open("/dev/null")), Err(RingError::NotARing)));
    assert!(matches!(RingView::attach(open("/")), Err(RingError::Attach(_))));
    let (pipe, _writer) = rustix::pipe::pipe().unwrap();
    assert!(matches!(RingView::attach(pipe), Err(RingError::Attach(_))));
    assert!(matches!(RingView::attach_sealed(open("/dev/null")), Err(RingError::NotSealed)));
}
