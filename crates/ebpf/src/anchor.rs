//! What keeps a program that makes live frames at hand for the kernel.

use crate::Error;
use crate::attached::attached_program;
use ringside_sys::bpf::{XdpMode, attach_xdp, program_name};
use std::os::fd::{BorrowedFd, OwnedFd};

/// A program on the interface that it sends to, by generic XDP, where it passes what is received;
/// or inside the driver, where it discards that.
///
/// A test run of more than one frame enters its program into the kernel's XDP dispatcher and takes
/// it out again, and each change waits for an RCU grace period (milliseconds), unless it is in
/// there already. The place also keeps other live senders out, whose frames the driver's counters
/// could not tell from ours. It is a bpf_link: the kernel takes the program off on drop, and when
/// the process is killed.
pub struct Anchor {
    _link: OwnedFd,
}

impl Anchor {
    /// Puts `program` on the interface of the calling thread's namespace.
    pub(crate) fn on(program: BorrowedFd<'_>, ifindex: u32) -> Result<Anchor, Error> {
        Anchor::in_mode(program, ifindex, XdpMode::Generic)
    }

    /// The same, where the kernel is to run it.
    pub(crate) fn in_mode(
        program: BorrowedFd<'_>,
        ifindex: u32,
        mode: XdpMode,
    ) -> Result<Anchor, Error> {
        match attach_xdp(program, ifindex, mode) {
            Ok(link) => Ok(Anchor { _link: link }),
            Err(source) => Err(refused(ifindex, source)),
        }
    }
}

/// The refusal, with the program that has the place.
fn refused(ifindex: u32, source: std::io::Error) -> Error {
    let what = match attached_program(ifindex) {
        Ok(Some(id)) => {
            let name = program_name(id).unwrap_or_default();
            match SENDERS.contains(&&name[..]) {
                true => "another sender of live frames is at work on the interface; wait for its \
                         end, or send in another way"
                    .to_owned(),
                false => format!(
                    "cannot send live frames through an interface with an XDP program: {name} (id \
                     {id}) is on it (`ip link show`); take it off, or send in another way"
                ),
            }
        }
        _ => "cannot put the sending program on its interface; send in another way".to_owned(),
    };
    Error::kernel(what, source.into())
}

/// Programs that are anchored.
const SENDERS: [&str; 3] = ["generate", "replay", "segment"];
