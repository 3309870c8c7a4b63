//! XDP programs on interfaces, by netlink: an attachment belongs to the interface, not to a
//! descriptor, so that it can outlive the process that made it where that is asked for.

use crate::load::{Embedded, Loaded, embedded};
use crate::root::XDP_ROOT;
use crate::{Error, TestRun};
use libbpf_rs::{MapCore, MapFlags, MapHandle, Xdp, XdpFlags};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

static XDP_PASS: Embedded = embedded!("xdp_pass");
static XDP_DROP: Embedded = embedded!("xdp_drop");
static XDP_DROP_STAMP: Embedded = embedded!("xdp_drop_stamp");
static XDP_DROP_PORT: Embedded = embedded!("xdp_drop_port");
static XDP_SWAP: Embedded = embedded!("xdp_swap");
static XDP_REDIRECT: Embedded = embedded!("xdp_redirect");
static XDP_FORWARD: Embedded = embedded!("xdp_forward");
static XDP_HOP: Embedded = embedded!("xdp_hop");
static XDP_HASH: Embedded = embedded!("xdp_hash");

/// A loaded XDP program, not yet on an interface.
pub struct XdpProgram {
    name: &'static str,
    program: OwnedFd,
    loaded: Loaded,
}

impl XdpProgram {
    pub(crate) fn new(embedded: &Embedded) -> Result<XdpProgram, Error> {
        let mut loaded = Loaded::new(embedded, None)?;
        Ok(XdpProgram { name: embedded.name, program: loaded.program_fd()?, loaded })
    }

    /// The program that passes every frame to the host.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn pass() -> Result<XdpProgram, Error> {
        XdpProgram::new(&XDP_PASS)
    }

    /// The program that discards every frame as soon as the driver sees it: the limit of all that
    /// can be received.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn drop_all() -> Result<XdpProgram, Error> {
        XdpProgram::new(&XDP_DROP)
    }

    /// The same, reading the clock for every frame: what a stamp costs at least.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn drop_stamp() -> Result<XdpProgram, Error> {
        XdpProgram::new(&XDP_DROP_STAMP)
    }

    /// The program that discards UDP over IPv4 to port 9, to which generated frames go, and passes
    /// everything else: the limit of all that protect a host from them.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn drop_port() -> Result<XdpProgram, Error> {
        XdpProgram::new(&XDP_DROP_PORT)
    }

    /// The program that sends every frame back, its hardware addresses swapped: the limit of all
    /// that send by the interface where they receive.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn swap() -> Result<XdpProgram, Error> {
        XdpProgram::new(&XDP_SWAP)
    }

    /// The same out of another interface of the calling thread's network namespace: the limit of
    /// all that forward.
    ///
    /// # Errors
    /// There is no such interface, or the kernel refused.
    pub fn redirect(ifindex: u32) -> Result<XdpProgram, Error> {
        XdpProgram::towards(&XDP_REDIRECT, ifindex)
    }

    /// The same to the next hop that the kernel's tables say: the limit of all that ask these for
    /// each packet. Frames of other than IPv4 pass.
    ///
    /// # Errors
    /// As [`redirect`](XdpProgram::redirect).
    pub fn forward(ifindex: u32) -> Result<XdpProgram, Error> {
        XdpProgram::towards(&XDP_FORWARD, ifindex)
    }

    /// The same with one hop less for each packet of IPv4, to next hops that it has itself: the
    /// least that a router does. Frames of other than IPv4 pass.
    ///
    /// # Errors
    /// As [`redirect`](XdpProgram::redirect).
    pub fn hop(ifindex: u32) -> Result<XdpProgram, Error> {
        XdpProgram::towards(&XDP_HOP, ifindex)
    }

    /// The program that sends UDP over IPv4 back, to a hardware address by a hash of the flow: the
    /// least that a balancer does. Other frames pass.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn hash() -> Result<XdpProgram, Error> {
        XdpProgram::new(&XDP_HASH)
    }

    fn towards(embedded: &Embedded, ifindex: u32) -> Result<XdpProgram, Error> {
        let program = XdpProgram::new(embedded)?;
        let (key, value) = (0u32.to_ne_bytes(), ifindex.to_ne_bytes());
        let entered = program.map("redirect_to")?.update(&key, &value, MapFlags::ANY);
        entered.map_err(|e| Error::kernel(format!("cannot redirect to interface {ifindex}"), e))?;
        Ok(program)
    }

    /// A root that other programs can share (`bpf/xdp_root.bpf.c`); alone it passes every frame.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn standing_root() -> Result<XdpProgram, Error> {
        XdpProgram::new(&XDP_ROOT)
    }

    /// A handle of its map `map`.
    pub(crate) fn map(&self, map: &str) -> Result<MapHandle, Error> {
        self.loaded.map(map)
    }

    /// Attaches it to an interface of the calling thread's network namespace, inside the driver.
    ///
    /// # Errors
    /// Another program is there already, the driver has no XDP, or the MTU is too large for it.
    pub fn attach(mut self, ifindex: u32) -> Result<Attachment, Error> {
        let flags = XdpFlags::UPDATE_IF_NOEXIST | XdpFlags::DRV_MODE;
        let name = self.name;
        let program = self.loaded.program()?;
        Xdp::new(program.as_fd()).attach(ifindex as i32, flags).map_err(|e| {
            let hint = "is another program on it (`ip link show`), has its driver XDP, and is its \
                        MTU within the driver's limit?";
            Error::kernel(format!("cannot attach {name} to interface {ifindex} ({hint})"), e)
        })?;
        Ok(Attachment { program: Some(self), ifindex })
    }

    /// Runs the program once on a copy of `frame`.
    ///
    /// # Errors
    /// The kernel refused; a frame of less than 14 bytes is.
    pub fn test_run(&mut self, frame: &[u8]) -> Result<TestRun, Error> {
        self.loaded.test_run(frame)
    }
}

impl AsFd for XdpProgram {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.program.as_fd()
    }
}

/// A program on an interface; taken off again on drop, in the network namespace of the thread that
/// drops it, which must be the one that attached it.
pub struct Attachment {
    program: Option<XdpProgram>,
    ifindex: u32,
}

impl Attachment {
    /// Leaves the program on the interface: it stays until the interface goes.
    pub fn keep(mut self) {
        self.program = None;
    }
}

impl Drop for Attachment {
    fn drop(&mut self) {
        let Some(program) = &mut self.program else { return };
        if let Ok(program) = program.loaded.program() {
            // The interface may be gone, and the program with it: nothing is left to undo then.
            let _ = Xdp::new(program.as_fd()).detach(self.ifindex as i32, XdpFlags::DRV_MODE);
        }
    }
}
