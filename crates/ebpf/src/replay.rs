//! Frames of a table of headers, for measurements: to an interface, or to a program.

use crate::Error;
use crate::anchor::Anchor;
use crate::generate::gap;
use crate::load::{Embedded, Loaded, embedded};
use crate::root::{LEAVES, fd_array};
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use ringside_sys::bpf;
use ringside_sys::live::run_live_frames;
use ringside_sys::words::Words64;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::Ordering;

static REPLAY: Embedded = embedded!("replay");

/// Bytes of a header (`struct replay_header`), which are also those of the frames.
pub const HEADER_BYTES: usize = 80;
const HEADER_WORDS: usize = HEADER_BYTES / 8;

/// Where frames go.
#[derive(Clone, Copy, Debug)]
pub enum Way<'w> {
    /// Out of this interface, of the calling thread's network namespace.
    Interface(u32),
    /// To this XDP program, which is for frames in several parts and has the array of leaves that
    /// roots have.
    Program(BorrowedFd<'w>),
}

/// A loaded replay. It keeps its place in the table on each CPU.
pub struct Replay {
    program: OwnedFd,
    states: MapHandle,
    /// On its interface, if frames go to one.
    _anchor: Option<Anchor>,
    _maps: Loaded,
    _headers: Words64,
    /// Bytes of the frames: those of a header, and zeros.
    frame_bytes: usize,
}

impl Replay {
    /// Loads it with some headers, at least one.
    ///
    /// # Errors
    /// No privilege, no memory, or the kernel refused.
    pub fn load(headers: &[[u8; HEADER_BYTES]], way: Way<'_>) -> Result<Replay, Error> {
        Replay::with(headers, way, 0, HEADER_BYTES, 0)
    }

    /// Loads it with headers of RTP, one for each stream: where each has its RTP header, and how
    /// long the frames are. Numbers and timestamps count on with each frame of the stream. At a
    /// rate each frame leaves when it is due, of all those of a sending CPU.
    ///
    /// # Errors
    /// As [`load`](Replay::load).
    pub fn of_rtp(
        headers: &[[u8; HEADER_BYTES]],
        way: Way<'_>,
        rtp_at: u32,
        frame_bytes: usize,
        rate_per_sec: Option<u64>,
    ) -> Result<Replay, Error> {
        let gap = rate_per_sec.map_or(0, gap);
        Replay::with(headers, way, rtp_at, frame_bytes.max(HEADER_BYTES), gap)
    }

    fn with(
        headers: &[[u8; HEADER_BYTES]],
        way: Way<'_>,
        rtp_at: u32,
        frame_bytes: usize,
        gap: u64,
    ) -> Result<Replay, Error> {
        let ifindex = match way {
            Way::Interface(ifindex) => ifindex,
            Way::Program(_) => 0,
        };
        let count = headers.len() as u32;
        let constants = [ifindex, count, rtp_at, 0].map(u32::to_ne_bytes).concat();
        let constants = [constants, gap.to_ne_bytes().to_vec()].concat();
        let mut loaded = Loaded::prepared(&REPLAY, Some(&constants), |object| {
            let mut maps = object.maps_mut();
            maps.find(|map| map.name() == "headers")
                .map_or(Ok(()), |mut map| map.set_max_entries(count))
        })?;
        let words = Words64::of_array(&loaded.map("headers")?, headers.len() * HEADER_WORDS)
            .map_err(|e| Error::mapping("headers", e))?;
        let bytes = headers.as_flattened().chunks_exact(8);
        for (to, from) in words.iter().zip(bytes) {
            let word = from.first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes));
            to.store(word, Ordering::Relaxed);
        }
        if let Way::Program(program) = way {
            fd_array(&loaded.map(LEAVES)?)?.set(0, program)?;
        }
        let program = loaded.program_fd()?;
        let anchor = match way {
            Way::Interface(ifindex) => Some(Anchor::on(program.as_fd(), ifindex)?),
            Way::Program(_) => None,
        };
        let states = loaded.map("states")?;
        Ok(Replay { program, states, _anchor: anchor, _maps: loaded, _headers: words, frame_bytes })
    }

    /// Makes `frames` frames and hands them to the interface, from the CPU that the calling thread
    /// is pinned to; at a rate it looks as often whether one is due.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn run_live(&self, frames: u32) -> Result<(), Error> {
        let what = "cannot run live frames (BPF_F_TEST_XDP_LIVE_FRAMES needs Linux 5.18)";
        run_live_frames(self.program.as_fd(), &vec![0; self.frame_bytes], frames)
            .map_err(|e| Error::kernel(what, libbpf_rs::Error::from(e)))
    }

    /// Frames that were made so far, from all CPUs.
    ///
    /// # Errors
    /// The kernel refused to read the map.
    pub fn made(&self) -> Result<u64, Error> {
        let states = self.states.lookup_percpu(&[0; 4], MapFlags::ANY);
        let states = states.map_err(|e| Error::kernel("cannot read the replay's state", e))?;
        // Its first word.
        let made =
            |state: &Vec<u8>| state.first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes));
        Ok(states.iter().flatten().map(made).sum())
    }

    /// Runs the program on `frames` frames, one after the other; mean nanoseconds of each, this
    /// program's own share included.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn run(&self, frames: u32) -> Result<u32, Error> {
        let (run, _) =
            bpf::test_run(self.program.as_fd(), &vec![0; self.frame_bytes], frames, &mut [])?;
        Ok(run.duration_ns)
    }
}
