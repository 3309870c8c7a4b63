//! Programs on interfaces by bpf_link (XDP: Linux 5.9, tcx: 6.6): the attachment lives as long as
//! a descriptor of it, so that the kernel takes the program off when the last process that holds
//! one is gone.

use super::{BpfError, bpf, object_info, owned};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};

const BPF_LINK_CREATE: libc::c_long = 28;
const BPF_LINK_GET_FD_BY_ID: libc::c_long = 30;
const BPF_LINK_DETACH: libc::c_long = 34;

/// BPF_XDP of `enum bpf_attach_type`.
pub(super) const ATTACH_TYPE_XDP: u32 = 37;

/// BPF_TCX_INGRESS and BPF_TCX_EGRESS of `enum bpf_attach_type`.
const ATTACH_TYPE_TCX: [u32; 2] = [46, 47];

/// BPF_LINK_TYPE_XDP of `enum bpf_link_type`.
const LINK_TYPE_XDP: u32 = 6;

/// Start of `union bpf_attr` for BPF_LINK_CREATE.
#[repr(C)]
struct CreateAttributes {
    program_fd: u32,
    target_ifindex: u32,
    attach_type: u32,
    flags: u32,
}

/// Start of `union bpf_attr` for BPF_LINK_GET_FD_BY_ID.
#[repr(C)]
struct ByIdAttributes {
    id: u32,
    next_id: u32,
    open_flags: u32,
}

/// Start of `union bpf_attr` for BPF_LINK_DETACH.
#[repr(C)]
struct DetachAttributes {
    link_fd: u32,
}

/// `struct bpf_link_info` of an XDP link, up to its interface.
#[repr(C)]
#[derive(Default)]
struct RawInfo {
    link_type: u32,
    id: u32,
    program: u32,
    padding: u32,
    ifindex: u32,
    end: u32,
}

const _: () = assert!(size_of::<RawInfo>() == 24);
const _: () = assert!(size_of::<CreateAttributes>() == 16);
const _: () = assert!(size_of::<ByIdAttributes>() == 12);
const _: () = assert!(size_of::<DetachAttributes>() == 4);

/// Where the kernel runs an XDP program (`XDP_FLAGS_*` of linux/if_link.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum XdpMode {
    /// After the kernel has made a socket buffer of the frame: any interface, slow.
    Generic = 1 << 1,
    /// In the driver.
    Native = 1 << 2,
}

/// Attaches a program to an interface of the calling thread's network namespace. It is taken off
/// when the last descriptor of the link is closed.
///
/// # Errors
/// The system's reason as it came: EBUSY or EEXIST where another program is there, EOPNOTSUPP
/// where the driver has no XDP, EPERM without privilege.
pub fn attach_xdp(program: BorrowedFd<'_>, ifindex: u32, mode: XdpMode) -> io::Result<OwnedFd> {
    create(program, ifindex, ATTACH_TYPE_XDP, mode as u32)
}

/// Attaches a classifier (BPF_PROG_TYPE_SCHED_CLS) to an interface of the calling thread's network
/// namespace behind those that are there: to what it receives, above the driver and below the
/// protocols, or to what it sends. It is taken off when the last descriptor of the link is closed.
///
/// # Errors
/// The system's reason as it came: EINVAL before Linux 6.6, EPERM without privilege.
pub fn attach_tcx(program: BorrowedFd<'_>, ifindex: u32, is_sending: bool) -> io::Result<OwnedFd> {
    create(program, ifindex, ATTACH_TYPE_TCX[usize::from(is_sending)], 0)
}

fn create(
    program: BorrowedFd<'_>,
    target_ifindex: u32,
    attach_type: u32,
    flags: u32,
) -> io::Result<OwnedFd> {
    let program_fd = program.as_raw_fd() as u32;
    let mut attributes = CreateAttributes { program_fd, target_ifindex, attach_type, flags };
    // SAFETY: the layout is that of BPF_LINK_CREATE, which has no addresses here; the descriptor
    // that it gives is new.
    let link = unsafe {
        let result = bpf(BPF_LINK_CREATE, &mut attributes);
        owned(result, "attaching a program to an interface")
    };
    link.map_err(BpfError::into_io)
}

/// Another descriptor of the link with the kernel's number `id`.
///
/// # Errors
/// There is none any more, or no privilege (CAP_SYS_ADMIN).
pub fn link_by_id(id: u32) -> Result<OwnedFd, BpfError> {
    let mut attributes = ByIdAttributes { id, next_id: 0, open_flags: 0 };
    // SAFETY: the layout is that of BPF_LINK_GET_FD_BY_ID, which has no addresses; the descriptor
    // that it gives is new.
    unsafe {
        let result = bpf(BPF_LINK_GET_FD_BY_ID, &mut attributes);
        owned(result, "opening a BPF link")
    }
}

/// What a link of an XDP program is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkInfo {
    /// The kernel's number of it.
    pub id: u32,
    /// That of its program.
    pub program: u32,
    /// That of its interface, in whatever network namespace; 0 if the interface is gone, or the
    /// program was taken off.
    pub ifindex: u32,
}

/// Asks what a link is.
///
/// # Errors
/// It is no link of an XDP program.
pub fn link_info(link: BorrowedFd<'_>) -> Result<LinkInfo, BpfError> {
    const WHAT: &str = "asking what a BPF link is";
    // SAFETY: `RawInfo` is made of integers, and its default is all 0.
    let RawInfo { link_type, id, program, ifindex, .. } =
        unsafe { object_info::<RawInfo>(link, WHAT)? };
    if link_type != LINK_TYPE_XDP {
        return Err(BpfError::of(WHAT, io::ErrorKind::InvalidInput.into()));
    }
    Ok(LinkInfo { id, program, ifindex })
}

/// Takes the program off, also while other processes hold the link.
///
/// # Errors
/// No privilege, or it is no link that can be detached.
pub fn detach_link(link: BorrowedFd<'_>) -> Result<(), BpfError> {
    let mut attributes = DetachAttributes { link_fd: link.as_raw_fd() as u32 };
    // SAFETY: the layout is that of BPF_LINK_DETACH, which has no addresses.
    let result = unsafe { bpf(BPF_LINK_DETACH, &mut attributes) };
    if result < 0 { Err(BpfError::last("detaching a BPF link")) } else { Ok(()) }
}
