//! The process that a ring belongs to, as far as its connection tells.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::unix::net::UnixStream;

/// The other end of the connection.
pub(crate) struct Owner {
    stream: UnixStream,
}

impl Owner {
    pub fn new(stream: UnixStream) -> Owner {
        Owner { stream }
    }

    /// True once the owner has ended, in order or not.
    pub fn is_gone(&self) -> bool {
        let mut fds = [PollFd::new(&self.stream, PollFlags::IN | PollFlags::RDHUP)];
        // The owner says nothing after its hello: whatever there is to read is its end.
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok_and(|ready| ready > 0)
    }
}
