//! The frame generator: live test frames, shaped and numbered by `bpf/generate.bpf.c`.

use crate::abi::{GENERATE_HEADER_BYTES_MAX, GENERATE_SIZES_MAX, GenerateConfig, GenerateState};
use crate::anchor::Anchor;
use crate::load::{Embedded, Loaded, embedded};
use crate::{Error, TestRun};
use libbpf_rs::{MapCore, MapFlags, MapHandle};
use ringside_sys::bpf::{self, XdpMode};
use ringside_sys::live::run_live_frames;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Mutex;

static GENERATE: Embedded = embedded!("generate");
static VETH_RING: Embedded = embedded!("veth_ring");

/// Shortest live frame: an Ethernet header (the kernel refuses less).
pub const LIVE_FRAME_BYTES_MIN: usize = 14;

/// Longest live frame: a page of 4,096 bytes less headroom (256), the tail that becomes
/// skb_shared_info (320) and the kernel's own head of the page (112).
pub const LIVE_FRAME_BYTES_MAX: usize = 3408;

/// Why [`Generator::run_live`] returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// All frames asked for were made.
    Done,
    /// A signal came; [`Generator::state`] says how many were made.
    Interrupted,
}

/// A loaded generator, shared by its sending threads: each keeps to a CPU of its own, where its
/// stream counts.
pub struct Generator {
    // A lock only because libbpf's objects are not shared between threads: taken by `run_once`.
    loaded: Mutex<Loaded>,
    program: OwnedFd,
    states: MapHandle,
    input: Vec<u8>,
    ifindex: u32,
    anchored: XdpMode,
}

impl Generator {
    /// Loads a generator for `config`. `headers` are those of all flows, one after the other;
    /// `streams` gives the number of the stream that each sending CPU makes; `input` is the frame
    /// that every frame begins as: what it holds behind the header stays.
    ///
    /// # Errors
    /// A size outside [`LIVE_FRAME_BYTES_MIN`] to [`LIVE_FRAME_BYTES_MAX`], a count of 0, a place
    /// outside the header, lengths that do not fit together, a CPU that does not exist or stands
    /// twice, or the kernel refused.
    pub fn load(
        config: &GenerateConfig,
        headers: &[u8],
        streams: &[(usize, u16)],
        input: Vec<u8>,
    ) -> Result<Generator, Error> {
        check(config, headers, &input)?;
        let states = initial_states(streams)?;
        let mut loaded = Loaded::prepared(&GENERATE, Some(&config.to_bytes()), |object| {
            for mut map in object.maps_mut().filter(|map| map.name() == "headers") {
                map.set_max_entries(config.flow_count)?;
                map.set_value_size(config.header_bytes)?;
            }
            Ok(())
        })?;
        write_headers(&loaded.map("headers")?, headers, config.header_bytes as usize)?;
        let map = loaded.map("states")?;
        map.update_percpu(&STATE_KEY, &states, MapFlags::ANY)
            .map_err(|e| Error::kernel("cannot write the generator's state", e))?;
        let program =
            loaded.program()?.as_fd().try_clone_to_owned().map_err(|e| {
                Error::kernel("cannot share the generator", libbpf_rs::Error::from(e))
            })?;
        let loaded = Mutex::new(loaded);
        let anchored = if config.discards > 0 { XdpMode::Native } else { XdpMode::Generic };
        let ifindex = config.ifindex;
        Ok(Generator { loaded, program, states: map, input, ifindex, anchored })
    }

    /// Makes `frame_count` frames and hands them to the interface, from the CPU that the calling
    /// thread is pinned to, in the thread's network namespace.
    ///
    /// # Errors
    /// The kernel refused, for instance because it is older than 5.18.
    pub fn run_live(&self, frame_count: u32) -> Result<Stop, Error> {
        match run_live_frames(self.program.as_fd(), &self.input, frame_count) {
            Ok(()) => Ok(Stop::Done),
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => Ok(Stop::Interrupted),
            Err(e) => Err(Error::kernel(
                "cannot run live frames (BPF_F_TEST_XDP_LIVE_FRAMES needs Linux 5.18)",
                libbpf_rs::Error::from(e),
            )),
        }
    }

    /// Keeps the program on the interface that it sends to. Without it each call of
    /// [`Generator::run_live`] waits for RCU, for milliseconds.
    ///
    /// # Errors
    /// Another program is on the interface, or the kernel refused.
    pub fn anchor(&self) -> Result<Anchor, Error> {
        Anchor::in_mode(self.program.as_fd(), self.ifindex, self.anchored)
    }

    /// From now on frames that the calling thread's CPU makes wait until the ring of the far end of
    /// a veth pair, of which the interface is the near one, has room for them; what finds none for
    /// tens of microseconds is not made. The thread is pinned to `cpu` and in the interface's
    /// namespace, and the generator is anchored inside the driver. False where this kernel does
    /// not show the ring.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn await_room(&self, cpu: usize) -> Result<bool, Error> {
        let ring = far_ring(self.ifindex)?;
        let refused = |e| Error::kernel("cannot write the generator's state", e);
        let states = self.states.lookup_percpu(&STATE_KEY, MapFlags::ANY).map_err(refused)?;
        let mut states = states.unwrap_or_default();
        let state = states.get(cpu).and_then(|bytes| GenerateState::from_bytes(bytes));
        if let (Some(bytes), Some(state)) = (states.get_mut(cpu), state) {
            *bytes = GenerateState { ring, ..state }.to_bytes();
        }
        self.states.update_percpu(&STATE_KEY, &states, MapFlags::ANY).map_err(refused)?;
        Ok(ring != 0)
    }

    /// Runs the generator once on a copy of its input: the frame that the calling thread's CPU
    /// makes next.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn run_once(&self) -> Result<TestRun, Error> {
        let mut loaded = self.loaded.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        loaded.test_run(&self.input)
    }

    /// How far the stream of `cpu` is.
    ///
    /// # Errors
    /// There is no such CPU, or the kernel refused to read the map.
    pub fn state(&self, cpu: usize) -> Result<GenerateState, Error> {
        let states = self
            .states
            .lookup_percpu(&STATE_KEY, MapFlags::ANY)
            .map_err(|e| Error::kernel("cannot read the generator's state", e))?;
        states
            .and_then(|states| GenerateState::from_bytes(states.get(cpu)?))
            .ok_or_else(|| Error::Object { object: GENERATE.name, part: format!("CPU {cpu}") })
    }
}

/// Where the kernel has the ring that frames to the far end of a veth pair wait in, for those that
/// the calling thread's CPU sends; 0 if it does not show it.
fn far_ring(ifindex: u32) -> Result<u64, Error> {
    let mut loaded = Loaded::new(&VETH_RING, None)?;
    let program = loaded.program_fd()?;
    bpf::test_run_xdp_at(program.as_fd(), ifindex, &[0; LIVE_FRAME_BYTES_MIN + 1])?;
    let found = loaded.map("far_ring")?.lookup(&STATE_KEY, MapFlags::ANY);
    let found = found.map_err(|e| Error::kernel("cannot read where the ring is", e))?;
    let address = found.and_then(|bytes| Some(u64::from_ne_bytes(*bytes.first_chunk()?)));
    Ok(address.unwrap_or(0))
}

/// From frame to frame in 1/256 ns, rounded to the nearest: at 12 million frames a second the error
/// is 1 in 40,000.
pub fn gap(rate_per_sec: u64) -> u64 {
    let rate = rate_per_sec.max(1);
    (256 * 1_000_000_000u64 + rate / 2) / rate
}

/// Key of the only entry of the map of states.
const STATE_KEY: [u8; 4] = [0; 4];

fn initial_states(streams: &[(usize, u16)]) -> Result<Vec<Vec<u8>>, Error> {
    let cpus = libbpf_rs::num_possible_cpus()
        .map_err(|e| Error::kernel("cannot ask how many CPUs there are", e))?;
    let mut states = vec![None; cpus];
    for &(cpu, stream) in streams {
        let refused =
            |limit: String| Err(Error::Config { field: "sending CPU", value: cpu as u64, limit });
        let stream = u64::from(stream) << 48;
        match states.get_mut(cpu) {
            None => return refused(format!("below {cpus}")),
            Some(Some(_)) => return refused("given once: one sending thread on each CPU".into()),
            Some(free) => *free = Some(GenerateState { stream, ..GenerateState::default() }),
        }
    }
    Ok(states.into_iter().map(|state| state.unwrap_or_default().to_bytes()).collect())
}

/// Headers that one call of the kernel writes.
const HEADERS_PER_CALL: usize = 4096;

/// Fills the table of headers, a few thousand with each call.
fn write_headers(map: &MapHandle, headers: &[u8], header_bytes: usize) -> Result<(), Error> {
    let mut first = 0u32;
    for chunk in headers.chunks(HEADERS_PER_CALL * header_bytes) {
        let count = (chunk.len() / header_bytes) as u32;
        let keys: Vec<u8> = (first..first + count).flat_map(u32::to_ne_bytes).collect();
        map.update_batch(&keys, chunk, count, MapFlags::ANY, MapFlags::ANY)
            .map_err(|e| Error::kernel("cannot write the generator's headers", e))?;
        first += count;
    }
    Ok(())
}

fn check(config: &GenerateConfig, headers: &[u8], input: &[u8]) -> Result<(), Error> {
    let refused = |field, value: usize, limit: String| {
        Err(Error::Config { field, value: value as u64, limit })
    };
    for (field, value) in [("flow count", config.flow_count), ("size count", config.size_count)] {
        if value == 0 {
            return refused(field, 0, "at least 1".into());
        }
    }
    let used = config.sizes.get(..config.size_count as usize).ok_or_else(|| Error::Config {
        field: "size count",
        value: u64::from(config.size_count),
        limit: format!("at most {GENERATE_SIZES_MAX}"),
    })?;
    let (min, max) = (LIVE_FRAME_BYTES_MIN, LIVE_FRAME_BYTES_MAX);
    for &bytes in used {
        let bytes = usize::from(bytes);
        if !(min..=max).contains(&bytes) {
            return Err(Error::FrameSize { bytes, min, max });
        }
    }
    let header_bytes = config.header_bytes as usize;
    if !header_bytes.is_multiple_of(8) || !(8..=GENERATE_HEADER_BYTES_MAX).contains(&header_bytes) {
        let limit = format!("a multiple of 8 up to {GENERATE_HEADER_BYTES_MAX}");
        return refused("header length", header_bytes, limit);
    }
    if headers.len() != header_bytes * config.flow_count as usize {
        let limit = format!("{header_bytes} bytes for each flow");
        return refused("length of all headers", headers.len(), limit);
    }
    let longest = used.iter().copied().max().map_or(0, usize::from);
    let needed = longest.max(header_bytes);
    if config.input_bytes as usize != needed || input.len() != needed {
        return refused("input length", input.len(), format!("{needed}, after the sizes"));
    }
    let is_of_one_size = config.size_count == 1 && u32::from(config.sizes[0]) == config.input_bytes;
    if config.is_kept > 0 && !(config.number_at > 0 && is_of_one_size) {
        let limit = "0, or 1 for numbered frames of one size".to_owned();
        return Err(Error::Config { field: "keeping of pages", value: 1, limit });
    }
    check_places(config)
}

/// Every field that is written lies in the header.
fn check_places(config: &GenerateConfig) -> Result<(), Error> {
    for (field, at, bytes) in [
        ("place of the payload", config.payload_at, 0),
        ("place of the IPv4 header", config.ipv4_at, 20),
        ("place of the IPv6 header", config.ipv6_at, 40),
        ("place of the transport header", config.transport_at, 8),
        ("place of the UDP header", config.udp_at, 8),
        ("place of the checksum", config.checksum_at, 2),
        ("place of the number", config.number_at, 8),
        ("place of the stamp", config.stamp_at, 6),
    ] {
        if at.saturating_add(bytes) > config.header_bytes {
            let limit = format!("within the header of {} bytes", config.header_bytes);
            return Err(Error::Config { field, value: u64::from(at), limit });
        }
    }
    Ok(())
}
