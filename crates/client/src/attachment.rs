//! The connection to the owner of a ring.

use crate::owner::Owner;
use crate::source::{ReadOptions, RingSource};
use ringside_core::share::{HELLO_BYTES_MAX, Hello, SHARE_VERSION};
use ringside_ring::{RingError, RingView};
use ringside_sys::fdpass::LineReceiver;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use thiserror::Error;

/// How long the owner may take to say hello.
const HELLO_TIMEOUT: Duration = Duration::from_secs(5);

/// Why a ring could not be attached to.
#[derive(Debug, Error)]
pub enum ClientError {
    /// No process listens there, or this user may not connect.
    #[error("cannot connect to {path}: {source}")]
    Connect {
        /// The socket.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// What came was no hello.
    #[error("{path} does not speak as a capture does: {reason}")]
    Hello {
        /// The socket.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// The memory that came with it.
    #[error(transparent)]
    Ring(#[from] RingError),
}

/// A ring of another process, attached.
pub struct Attachment {
    hello: Hello,
    view: Arc<RingView>,
    owner: Arc<Owner>,
}

impl Attachment {
    /// Connects to the socket that `ringside capture --share` made, and maps the ring.
    ///
    /// # Errors
    /// No process listens, the answer is not a hello of this version, or the memory is not a ring.
    pub fn connect(path: &Path) -> Result<Attachment, ClientError> {
        let connect = |source| ClientError::Connect { path: path.to_owned(), source };
        let refuse = |reason: String| ClientError::Hello { path: path.to_owned(), reason };
        let stream = UnixStream::connect(path).map_err(connect)?;
        let deadline = Instant::now() + HELLO_TIMEOUT;
        let line = LineReceiver::new(HELLO_BYTES_MAX).receive(&stream, deadline);
        let line = line.map_err(|error| refuse(error.to_string()))?;
        let line = line.ok_or_else(|| refuse("it hung up; are too many attached?".into()))?;
        let hello = read_hello(&line.bytes).map_err(refuse)?;
        let memory = line.fds.into_iter().next().ok_or_else(|| refuse("no memory came".into()))?;
        let view = RingView::attach_sealed(memory)?;
        let (lanes, named) = (view.layout().lanes, hello.lanes.len());
        if lanes != named {
            return Err(refuse(format!("the ring has {lanes} lanes, the hello names {named}")));
        }
        Ok(Attachment { hello, view, owner: Arc::new(Owner::new(stream)) })
    }

    /// What the owner said.
    pub fn hello(&self) -> &Hello {
        &self.hello
    }

    /// One source per lane, in the order of `hello().lanes`. Each begins where `options.from`
    /// says, at the time of this call.
    pub fn sources(&self, options: &ReadOptions) -> Vec<RingSource> {
        let source = |lane| {
            let interfaces = self.hello.interfaces.clone();
            RingSource::new(self.view.clone(), lane, interfaces, self.owner.clone(), options)
        };
        (0..self.hello.lanes.len()).map(source).collect()
    }
}

/// What an owner says, or what is wrong with it.
fn read_hello(line: &[u8]) -> Result<Hello, String> {
    let hello: Hello = serde_json::from_slice(line).map_err(|error| error.to_string())?;
    if hello.version != SHARE_VERSION {
        let (theirs, ours) = (hello.version, SHARE_VERSION);
        return Err(format!("it speaks version {theirs}, this program {ours}"));
    }
    let known = hello.interfaces.len();
    for (number, lane) in hello.lanes.iter().enumerate() {
        let interface = lane.interface_id.0;
        if interface as usize >= known {
            return Err(format!("lane {number} is of interface {interface}, it names {known}"));
        }
    }
    Ok(hello)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringside_core::share::HelloLane;
    use ringside_core::{InterfaceId, QueueId, SourceInterface};

    fn hello() -> Hello {
        let lane = |queue| HelloLane {
            interface: "rx0".into(),
            interface_id: InterfaceId(0),
            queue: QueueId(queue),
        };
        Hello {
            version: SHARE_VERSION,
            owner: "Ringside 0.1.0".into(),
            pid: 4711,
            interfaces: vec![SourceInterface::ethernet("rx0")],
            lanes: vec![lane(0), lane(1)],
            block_timeout_ns: 50_000_000,
        }
    }

    #[test]
    fn a_hello_is_understood_whole_or_refused() {
        let mut elsewhere = hello();
        elsewhere.lanes[1].interface_id = InterfaceId(1);
        let error = read_hello(&serde_json::to_vec(&elsewhere).unwrap()).unwrap_err();
        assert!(error.contains("lane 1") && error.contains("interface 1"), "{error}");
        let deep = [b"{\"interfaces\":".to_vec(), b"[".repeat(100_000)].concat();
        let long = Hello { block_timeout_ns: u64::MAX, pid: u32::MAX, ..hello() };
        let seeds = [hello(), elsewhere, long].map(|hello| serde_json::to_vec(&hello).unwrap());
        let seeds = [&seeds[..], &[deep]].concat();
        ringside_testkit::fuzz("share-hello", 50_000, &seeds, |bytes| {
            let Ok(hello) = read_hello(bytes) else { return };
            assert_eq!(hello.version, SHARE_VERSION);
            let known = |lane: &HelloLane| (lane.interface_id.0 as usize) < hello.interfaces.len();
            assert!(hello.lanes.iter().all(known));
            assert_eq!(read_hello(&serde_json::to_vec(&hello).unwrap()), Ok(hello));
        });
    }
}
