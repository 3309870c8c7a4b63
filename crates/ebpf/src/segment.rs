//! Segments as live frames: headers and payload lie in memory shared with `bpf/segment.bpf.c`,
//! which copies them into frames of the driver's.

use crate::Error;
use crate::abi::{
    SEGMENT_FRAME_BYTES_MAX, SEGMENT_PLACE_WORDS, SEGMENT_PLACES, SEGMENT_STATE_WORDS,
    SegmentConfig,
};
use crate::anchor::Anchor;
use crate::load::{Embedded, Loaded, embedded};
use ringside_sys::bpf::ArrayMemory;
use ringside_sys::live::run_live_frames;
use ringside_sys::words::Words32;
use std::io::ErrorKind;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::Ordering;

static SEGMENT: Embedded = embedded!("segment");

/// Most payload memory: what a place can say, with room to spare.
const PAYLOAD_BYTES_MAX: usize = 64 << 20;

/// Sizes of a [`LiveSegments`].
#[derive(Clone, Copy, Debug)]
pub struct LiveSegmentsConfig {
    /// Interface of the calling thread's network namespace.
    pub ifindex: u32,
    /// Payload memory, at most 64 MiB.
    pub payload_bytes: usize,
    /// Longest headers of a frame.
    pub header_bytes_max: usize,
    /// Longest frame, [`LIVE_FRAME_BYTES_MAX`](crate::LIVE_FRAME_BYTES_MAX) at most.
    pub frame_bytes_max: usize,
}

/// Segments on their way to an interface, many in one call of the kernel. Used by one thread; there
/// is one on an interface.
pub struct LiveSegments {
    program: OwnedFd,
    _anchor: Anchor,
    _loaded: Loaded,
    /// Payload, and behind it a slot for each place's header.
    memory: ArrayMemory,
    places: Words32,
    state: Words32,
    config: LiveSegmentsConfig,
    /// What live frames begin as.
    input: Vec<u8>,
    waiting: usize,
}

impl LiveSegments {
    /// Loads the program and anchors it.
    ///
    /// # Errors
    /// A size beyond its limit, another program is on the interface, or the kernel refused (it
    /// needs Linux 5.18).
    pub fn load(config: &LiveSegmentsConfig) -> Result<LiveSegments, Error> {
        let frame_bytes = config.frame_bytes_max;
        for (field, value, min, max) in [
            ("payload memory", config.payload_bytes, 1, PAYLOAD_BYTES_MAX),
            ("frame length", frame_bytes, crate::LIVE_FRAME_BYTES_MIN, SEGMENT_FRAME_BYTES_MAX),
            ("header length", config.header_bytes_max, 1, frame_bytes),
        ] {
            if !(min..=max).contains(&value) {
                let limit = format!("{min} to {max}");
                return Err(Error::Config { field, value: value as u64, limit });
            }
        }
        let used_bytes = config.payload_bytes + SEGMENT_PLACES * config.header_bytes_max;
        let memory_bytes = used_bytes + SEGMENT_FRAME_BYTES_MAX;
        let constants = SegmentConfig {
            ifindex: config.ifindex,
            input_bytes: frame_bytes as u32,
            memory_bytes: memory_bytes as u32,
            reserved: 0,
        };
        let mut loaded = Loaded::prepared(&SEGMENT, Some(&constants.to_bytes()), |object| {
            let mut maps = object.maps_mut();
            maps.find(|map| map.name() == "memory")
                .map_or(Ok(()), |mut map| map.set_value_size(memory_bytes as u32))
        })?;
        let mapping = |map| move |e| Error::mapping(map, e);
        let words = |map, count| Words32::of_array(&loaded.map(map)?, count).map_err(mapping(map));
        let places = words("places", SEGMENT_PLACES * SEGMENT_PLACE_WORDS)?;
        let state = words("states", SEGMENT_STATE_WORDS)?;
        let memory = ArrayMemory::of_array(&loaded.map("memory")?, used_bytes);
        let memory = memory.map_err(mapping("memory"))?;
        let program = loaded.program_fd()?;
        let anchor = Anchor::on(program.as_fd(), config.ifindex)?;
        Ok(LiveSegments {
            program,
            _anchor: anchor,
            _loaded: loaded,
            memory,
            places,
            state,
            config: *config,
            input: vec![0; frame_bytes],
            waiting: 0,
        })
    }

    /// The payload memory. What waits to be sent must stay as it is.
    pub fn payload_mut(&mut self) -> &mut [u8] {
        &mut self.memory.bytes_mut()[..self.config.payload_bytes]
    }

    /// Segments that were put and not sent.
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// True if one more may wait.
    pub fn has_room(&self) -> bool {
        self.waiting < SEGMENT_PLACES
    }

    /// Puts a segment of the bytes `payload` of the memory. `write` has them and a slot for the
    /// headers, and says how many bytes of it are used.
    ///
    /// # Errors
    /// Those of `write`; nothing is put then.
    ///
    /// # Panics
    /// There is no room, the payload lies outside of the memory, or the frame is too long.
    pub fn put<E>(
        &mut self,
        payload: Range<usize>,
        write: impl FnOnce(&mut [u8], &[u8]) -> Result<usize, E>,
    ) -> Result<(), E> {
        assert!(self.has_room(), "all places wait");
        let config = self.config;
        let (bytes, headers) = self.memory.bytes_mut().split_at_mut(config.payload_bytes);
        let at = self.waiting * config.header_bytes_max;
        let slot = &mut headers[at..at + config.header_bytes_max];
        let header_bytes = write(slot, &bytes[payload.clone()])?;
        assert!(header_bytes > 0 && header_bytes <= slot.len(), "a header of {header_bytes} bytes");
        assert!(header_bytes + payload.len() <= config.frame_bytes_max, "a frame of its length");
        let place = [config.payload_bytes + at, header_bytes, payload.start, payload.len()];
        let words = &self.places[self.waiting * SEGMENT_PLACE_WORDS..];
        for (to, value) in words.iter().zip(place) {
            to.store(value as u32, Ordering::Relaxed);
        }
        self.waiting += 1;
        Ok(())
    }

    /// Hands over what waits, in order, in the thread's network namespace; gives how many segments
    /// that were. What became of them the driver's counters say.
    ///
    /// # Errors
    /// The kernel refused; what it had not taken before is gone.
    pub fn run(&mut self) -> Result<usize, Error> {
        let count = std::mem::take(&mut self.waiting);
        let mut done = 0;
        self.state[0].store(0, Ordering::Relaxed);
        while done < count {
            let left = (count - done) as u32;
            match run_live_frames(self.program.as_fd(), &self.input, left) {
                Ok(()) => done = count,
                // A signal ends a call early; the next goes on where it was.
                Err(e) if e.kind() == ErrorKind::Interrupted => {
                    done = self.state[0].load(Ordering::Relaxed) as usize;
                }
                Err(e) => {
                    let what = "cannot send segments as live frames";
                    return Err(Error::kernel(what, libbpf_rs::Error::from(e)));
                }
            }
        }
        Ok(count)
    }

    /// Segments that the program could not make: anything but 0 is a bug.
    pub fn refused(&self) -> u32 {
        self.state[1].load(Ordering::Relaxed)
    }
}
