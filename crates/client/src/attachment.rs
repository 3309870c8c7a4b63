//! The connection to the owner of a ring.

use crate::source::{ReadOptions, RingSource};
use ringside_core::share::{HELLO_BYTES_MAX, Hello, SHARE_VERSION};
use ringside_sys::fdpass::LineReceiver;
use ringside_sys::ring::{RingError, RingView};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;

/// How long the owner may take to say hello.
const HELLO_TIMEOUT: Duration = Duration::from_secs(5);

/// Why a ring could not be attached to.
#[derive(Debug, Error)]
pub enum ClientError {
    /// Nobody listens there, or it is not permitted.
    #[error("cannot connect to {path}: {source}; is a `ringside capture --share {path}` running?")]
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
    /// Nobody listens, the answer is not a hello of this version, or the memory is not a ring.
    pub fn connect(path: &Path) -> Result<Attachment, ClientError> {
        let connect = |source| ClientError::Connect { path: path.to_owned(), source };
        let refuse = |reason: String| ClientError::Hello { path: path.to_owned(), reason };
        let stream = UnixStream::connect(path).map_err(connect)?;
        stream.set_read_timeout(Some(HELLO_TIMEOUT)).map_err(connect)?;
        let line = LineReceiver::new(HELLO_BYTES_MAX).receive(&stream);
        let line = line.map_err(|error| refuse(error.to_string()))?;
        let line = line.ok_or_else(|| refuse("it hung up; are too many attached?".into()))?;
        let hello: Hello =
            serde_json::from_slice(&line.bytes).map_err(|error| refuse(error.to_string()))?;
        if hello.version != SHARE_VERSION {
            let (theirs, ours) = (hello.version, SHARE_VERSION);
            return Err(refuse(format!("it speaks version {theirs}, this program {ours}")));
        }
        let memory = line.fds.into_iter().next().ok_or_else(|| refuse("no memory came".into()))?;
        let view = RingView::attach_sealed(memory)?;
        let (lanes, told) = (view.layout().lanes, hello.lanes.len());
        if lanes != told {
            return Err(refuse(format!("the ring has {lanes} lanes, the hello names {told}")));
        }
        Ok(Attachment { hello, view, owner: Arc::new(Owner { stream }) })
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

/// The other end of the connection.
pub(crate) struct Owner {
    stream: UnixStream,
}

impl Owner {
    #[cfg(test)]
    pub(crate) fn new(stream: UnixStream) -> Owner {
        Owner { stream }
    }

    /// True once the owner has ended, in order or not.
    pub(crate) fn is_gone(&self) -> bool {
        let mut fds = [PollFd::new(&self.stream, PollFlags::IN | PollFlags::RDHUP)];
        // The owner says nothing after its hello: whatever there is to read is its end.
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready > 0)
    }
}
