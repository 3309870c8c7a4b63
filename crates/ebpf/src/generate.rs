//! The frame generator: live test frames, shaped and numbered by `bpf/generate.bpf.c`.

use crate::abi::{GENERATE_HEADER_BYTES, GENERATE_SIZES_MAX, GenerateConfig, GenerateState};
use crate::load::{Embedded, Loaded, embedded};
use crate::{Error, TestRun};
use libbpf_rs::{ErrorKind, ProgramInput};

static GENERATE: Embedded = embedded!("generate");

/// BPF_F_TEST_XDP_LIVE_FRAMES of linux/bpf.h, Linux 5.18.
const LIVE_FRAMES: u32 = 1 << 1;

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
    /// A signal came; [`Generator::state`] tells how many were made.
    Interrupted,
}

/// A loaded generator. It belongs to one sending thread: its state is not shared.
pub struct Generator {
    loaded: Loaded,
    input: Vec<u8>,
}

impl Generator {
    /// Loads a generator for `config`; `payload` gives the bytes of every frame behind the header,
    /// by their offset in the frame.
    ///
    /// # Errors
    /// A size outside [`LIVE_FRAME_BYTES_MIN`] to [`LIVE_FRAME_BYTES_MAX`], a count of 0, or the
    /// kernel refused.
    pub fn load(
        config: &GenerateConfig,
        payload: impl Fn(usize) -> u8,
    ) -> Result<Generator, Error> {
        check(config)?;
        let mut input: Vec<u8> = (0..config.input_bytes as usize).map(payload).collect();
        input[..GENERATE_HEADER_BYTES].copy_from_slice(&config.header);
        let loaded = Loaded::new(&GENERATE, Some(&config.to_bytes()))?;
        Ok(Generator { loaded, input })
    }

    /// Makes `frame_count` frames and hands them to the interface, from the CPU that the calling
    /// thread runs on (pin it), in the thread's network namespace.
    ///
    /// # Errors
    /// The kernel refused, for instance because it is older than 5.18.
    pub fn run_live(&mut self, frame_count: u32) -> Result<Stop, Error> {
        if frame_count == 0 {
            return Ok(Stop::Done);
        }
        let input = ProgramInput {
            data_in: Some(&self.input),
            flags: LIVE_FRAMES,
            repeat: frame_count,
            ..ProgramInput::default()
        };
        match self.loaded.program()?.test_run(input) {
            Ok(_) => Ok(Stop::Done),
            Err(e) if e.kind() == ErrorKind::Interrupted => Ok(Stop::Interrupted),
            Err(e) => Err(Error::kernel(
                "cannot run live frames (BPF_F_TEST_XDP_LIVE_FRAMES needs Linux 5.18)",
                e,
            )),
        }
    }

    /// Runs the generator once on a copy of its input: the frame that it makes next.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn run_once(&mut self) -> Result<TestRun, Error> {
        let input = self.input.clone();
        self.loaded.test_run(&input)
    }

    /// How far it is.
    ///
    /// # Errors
    /// The kernel refused to read the map.
    pub fn state(&self) -> Result<GenerateState, Error> {
        GenerateState::from_bytes(&self.loaded.globals()?)
            .ok_or_else(|| Error::Object { object: GENERATE.name, part: "state".into() })
    }
}

fn check(config: &GenerateConfig) -> Result<(), Error> {
    let at_least_1 = |field, value: u32| match value {
        0 => Err(Error::Config { field, value: 0, limit: "at least 1".into() }),
        _ => Ok(()),
    };
    at_least_1("flow count", config.flow_count)?;
    at_least_1("port count", config.port_count)?;
    at_least_1("size count", config.size_count)?;
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
    let longest = used.iter().copied().max().map_or(0, usize::from);
    let needed = longest.max(GENERATE_HEADER_BYTES);
    if config.input_bytes as usize != needed {
        return Err(Error::Config {
            field: "input length",
            value: u64::from(config.input_bytes),
            limit: format!("{needed}, after the sizes"),
        });
    }
    Ok(())
}
