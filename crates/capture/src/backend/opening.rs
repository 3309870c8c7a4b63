//! What is asked of a backend for one interface, and what it gives: the same for all of them.

use super::KernelSide;
use super::af_xdp::{Stamps, Waiting};
use crate::keep::{InterfacePreFilter, PreFilterRequest};
use ringside_core::bpf::ClassicProgram;
use ringside_core::limits::FRAME_BYTES_MAX;
use ringside_core::{InterfaceId, Source};
use ringside_sys::packet::{CaptureDirection, FanoutMode};
use std::fmt;
use std::io;

/// What to receive and how. A backend takes what it has to do with.
#[derive(Clone, Debug)]
pub struct OpenRequest {
    /// Name of the interface, in the network namespace of the calling thread.
    pub interface: String,
    /// Its id within the run.
    pub interface_id: InterfaceId,
    /// Lanes; `None` for what the backend usually has, one or one for each receive queue.
    pub lanes: Option<u16>,
    /// Threads of each lane.
    pub threads: usize,
    /// How frames are spread over the lanes of packet sockets.
    pub fanout: FanoutMode,
    /// Memory of each lane, in bytes.
    pub memory_bytes: u64,
    /// How long the kernel holds frames back to fill a block, in milliseconds.
    pub block_timeout_ms: u32,
    /// Bytes kept of each frame.
    pub snaplen_bytes: u32,
    /// Receive frames for other stations too, until the sources are dropped.
    pub promiscuous: bool,
    /// Which way frames must cross the interface.
    pub direction: CaptureDirection,
    /// Program of the filter, for the frame as on the wire, and the expression it came from.
    pub filter: Option<(ClassicProgram, String)>,
    /// Which frames are stamped, and by whom; the card's stamps were switched on.
    pub stamps: Stamps,
    /// What a worker does inside a driver while no frame is there.
    pub waiting: Waiting,
    /// The rules that the frames will be judged by, for filters in the kernel.
    pub pre_filter: Option<PreFilterRequest>,
}

impl OpenRequest {
    /// Everything that `interface` receives, in 32 MiB a lane.
    pub fn new(interface: &str) -> OpenRequest {
        OpenRequest {
            interface: interface.to_owned(),
            interface_id: InterfaceId(0),
            lanes: None,
            threads: 1,
            fanout: FanoutMode::Hash,
            memory_bytes: 32 << 20,
            block_timeout_ms: 50,
            snaplen_bytes: FRAME_BYTES_MAX,
            promiscuous: true,
            direction: CaptureDirection::Inbound,
            filter: None,
            stamps: Stamps::On,
            waiting: Waiting::Sleep,
            pre_filter: None,
        }
    }
}

/// A lane, and what the kernel holds of it if that can be asked for.
pub type Lane = (Box<dyn Source>, Option<Box<dyn KernelSide>>);

/// The lanes of an interface.
#[derive(Default)]
pub struct OpenedLanes {
    /// They receive nothing that counts until they are started; libpcap's do.
    pub lanes: Vec<Lane>,
    /// How frames come, of a backend that has several ways: `native, zero-copy`.
    pub way: Option<String>,
    /// What was refused on the way there, each a sentence with its reason.
    pub notes: Vec<String>,
    /// What costs frames or parts of them.
    pub warnings: Vec<OpenWarning>,
    /// What became of the request for a pre-filter, of a backend that takes it.
    pub pre_filter: Option<InterfacePreFilter>,
    /// The interface on which an XDP program stands that was not there before, and that taking off
    /// needs a right which a run gives up.
    pub left_program_on: Option<String>,
}

/// A source with its kernel's side. Without a descriptor left for that the run goes on; only its
/// end after a crash knows less.
pub(super) fn lane<S: Source + 'static>(
    source: S,
    kernel_side: impl Fn(&S) -> io::Result<Box<dyn KernelSide>>,
) -> Lane {
    let handles = kernel_side(&source).ok();
    (Box::new(source), handles)
}

/// Something that costs frames or parts of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OpenWarning {
    /// Frames are merged before they come; with the fix.
    Merges(String),
    /// The kernel's ring is so small that long frames do not fit.
    ShortBlocks {
        /// Bytes that fit.
        block_bytes: u32,
    },
}

impl fmt::Display for OpenWarning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenWarning::Merges(text) => f.write_str(text),
            OpenWarning::ShortBlocks { block_bytes } => write!(
                f,
                "the kernel's ring has blocks of {block_bytes} bytes: longer frames are cut"
            ),
        }
    }
}
