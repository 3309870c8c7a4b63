//! What is on an interface, asked by netlink, and taken off.

use crate::Error;
use libbpf_rs::{Xdp, XdpFlags};
use ringside_sys::bpf::XdpMode;
use std::os::fd::AsFd;

/// NETDEV_XDP_ACT_NDO_XMIT of linux/netdev.h: the interface takes redirected frames.
const NDO_XMIT: u64 = 1 << 2;
/// XDP_ATTACHED_SKB of linux/if_link.h: by the generic path.
const ATTACHED_GENERIC: u8 = 2;

/// The kernel's number of the XDP program on an interface of the calling thread's namespace.
///
/// # Errors
/// No such interface, or the kernel refused.
pub fn attached_program(ifindex: u32) -> Result<Option<u32>, Error> {
    Ok(attached(ifindex)?.map(|(id, _)| id))
}

/// As [`attached_program`], and where the kernel runs it.
pub(crate) fn attached(ifindex: u32) -> Result<Option<(u32, XdpMode)>, Error> {
    let Query { program: id, is_generic, .. } = query(ifindex)?;
    let mode = if is_generic { XdpMode::Generic } else { XdpMode::Native };
    Ok((id != 0).then_some((id, mode)))
}

/// Takes the XDP program of this number off an interface of the calling thread's namespace; where
/// another is, that stays.
///
/// # Errors
/// It hangs on a link, which keeps it there, or CAP_NET_ADMIN is missing.
pub fn take_program_off(ifindex: u32, program: u32) -> Result<(), Error> {
    let Some((there, mode)) = attached(ifindex)? else { return Ok(()) };
    if there != program {
        return Ok(());
    }
    let flags = match mode {
        XdpMode::Native => XdpFlags::DRV_MODE,
        XdpMode::Generic => XdpFlags::SKB_MODE,
    };
    let what = || format!("cannot take XDP program {program} off interface {ifindex}");
    let detached = any_program(|xdp| xdp.detach(ifindex as i32, flags));
    detached.map_err(|e| Error::kernel(what(), e))
}

/// True if frames redirected to this interface arrive somewhere. A veth end says so only while the
/// other end has a NAPI, that is an XDP program or GRO; without it they vanish uncounted. `None`
/// where the kernel (before 6.3) does not say.
///
/// # Errors
/// No such interface, or the kernel refused.
pub fn redirect_reaches(ifindex: u32) -> Result<Option<bool>, Error> {
    let Query { features, .. } = query(ifindex)?;
    Ok((features != 0).then_some(features & NDO_XMIT != 0))
}

struct Query {
    program: u32,
    is_generic: bool,
    features: u64,
}

fn query(ifindex: u32) -> Result<Query, Error> {
    any_program(|xdp| xdp.query(ifindex as i32, XdpFlags::NONE))
        .map(|answer| Query {
            program: answer.prog_id,
            is_generic: answer.attach_mode == ATTACHED_GENERIC,
            features: answer.feature_flags,
        })
        .map_err(|e| Error::kernel(format!("cannot ask interface {ifindex} about XDP"), e))
}

/// For what does not look at the program's descriptor, where the API wants one.
fn any_program<T>(act: impl FnOnce(Xdp<'_>) -> T) -> T {
    act(Xdp::new(std::io::stdin().as_fd()))
}
