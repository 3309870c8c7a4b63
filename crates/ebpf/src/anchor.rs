//! What keeps a program that makes live frames at hand for the kernel.

use crate::Error;
use libbpf_rs::query::ProgInfoIter;
use libbpf_rs::{Xdp, XdpFlags};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// A program on the interface that it sends to, by generic XDP, where it passes what is received.
///
/// A test run of more than one frame enters its program into the kernel's XDP dispatcher and takes
/// it out again, and each change waits for an RCU grace period (milliseconds), unless it is in
/// there already. It is taken off on drop, in the namespace of the thread that drops it.
pub struct Anchor {
    program: OwnedFd,
    ifindex: i32,
}

impl Anchor {
    /// Puts `program`, which is called `name`, on the interface.
    pub(crate) fn on(program: BorrowedFd<'_>, name: &str, ifindex: u32) -> Result<Anchor, Error> {
        let copy = program.try_clone_to_owned();
        let program =
            copy.map_err(|e| Error::kernel(format!("cannot share the program {name}"), e.into()))?;
        let ifindex = ifindex as i32;
        let xdp = Xdp::new(program.as_fd());
        // One that a killed sender left behind may be replaced, others may not.
        let flags = match xdp.query_id(ifindex, XdpFlags::SKB_MODE) {
            Ok(id) if is_of_a_sender(id) => XdpFlags::SKB_MODE,
            _ => XdpFlags::SKB_MODE | XdpFlags::UPDATE_IF_NOEXIST,
        };
        xdp.attach(ifindex, flags).map_err(|e| {
            let what = "cannot anchor the sending program on its interface: another XDP program \
                        is on it (`ip link show`); take it off, or send in another way";
            Error::kernel(what, e)
        })?;
        Ok(Anchor { program, ifindex })
    }
}

impl Drop for Anchor {
    fn drop(&mut self) {
        // The interface may be gone, and the program with it: nothing is left to undo then.
        let _ = Xdp::new(self.program.as_fd()).detach(self.ifindex, XdpFlags::SKB_MODE);
    }
}

/// Programs that are anchored.
const SENDERS: [&str; 3] = ["generate", "replay", "segment"];

fn is_of_a_sender(id: u32) -> bool {
    let mut programs = ProgInfoIter::default();
    programs.any(|p| p.id == id && SENDERS.iter().any(|sender| p.name == *sender))
}
