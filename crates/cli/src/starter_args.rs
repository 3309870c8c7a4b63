//! Options of what another program starts.

use clap::Args;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::os::fd::AsFd;

/// Options of what another program starts.
#[derive(Args)]
pub struct StarterArgs {
    /// End when the other end of standard input, a pipe or a socket, is closed: for a program that
    /// starts this one and may be killed.
    #[arg(long)]
    until_stdin_closes: bool,
}

impl StarterArgs {
    /// True if such a program is to be awaited.
    pub fn is_awaited(&self) -> bool {
        self.until_stdin_closes
    }

    /// True if it has closed its end or is gone.
    pub fn is_gone(&self) -> bool {
        self.until_stdin_closes && is_hung_up(&io::stdin())
    }
}

fn is_hung_up(input: &impl AsFd) -> bool {
    let mut polled = [PollFd::new(input, PollFlags::RDHUP)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    // Hung up, or no descriptor at all, is said unasked; bytes that are not read are not.
    poll(&mut polled, Some(&now)).is_ok_and(|ready| ready > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipe_is_hung_up_once_its_writer_is_gone_whatever_is_in_it() {
        let (reader, mut writer) = io::pipe().unwrap();
        assert!(!is_hung_up(&reader));
        io::Write::write_all(&mut writer, b"not read").unwrap();
        assert!(!is_hung_up(&reader));
        drop(writer);
        assert!(is_hung_up(&reader));
        assert!(!is_hung_up(&tempfile::tempfile().unwrap()), "a file has no other end");
    }
}
