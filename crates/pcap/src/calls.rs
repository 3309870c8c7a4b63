//! The functions that are exported: ours for our handles, libpcap's for all others.
//!
//! What each does, <pcap/pcap.h> and its manual pages say; the numbers are libpcap's.

mod about;
mod list;
mod open;
mod read;

use crate::handle::Handle;
use crate::real::PcapT;
use crate::table;
use libc::{c_char, c_int};

const ERROR: c_int = -1;
const BREAK: c_int = -2;
const NOT_ACTIVATED: c_int = -3;
const ACTIVATED: c_int = -4;
const NO_SUCH_DEVICE: c_int = -5;
const PERMISSION_DENIED: c_int = -8;

/// Answers for a handle: `$ours` if it is ours, else as libpcap does.
macro_rules! answer {
    ($handle:expr, |$name:ident| $ours:expr, else $($theirs:tt)*) => {{
        // SAFETY: a program that calls a function of libpcap with a handle does not close it
        // meanwhile.
        match unsafe { $crate::table::find($handle) } {
            Some($name) => $ours,
            None => $($theirs)*,
        }
    }};
}
use answer;

/// Puts an error text where a program has made room for one.
///
/// # Safety
/// `place` is null or has room for PCAP_ERRBUF_SIZE bytes.
unsafe fn put_error(place: *mut c_char, text: &str) {
    if place.is_null() {
        return;
    }
    let text = crate::handle::cut(text);
    // SAFETY: the text with its NUL is at most as long as the room that the caller promises; they
    // do not overlap, the text is ours.
    unsafe {
        place.copy_from_nonoverlapping(text.as_ptr().cast(), text.len());
        place.add(text.len()).write(0);
    }
}

/// Keeps the error of the handle of libpcap that stands behind one of ours.
fn take_error(handle: &Handle, inner: *mut PcapT) {
    let text = crate::real::real!(pcap_geterr(inner => *mut PcapT) -> *const c_char, c"".as_ptr());
    // SAFETY: libpcap gives a C string, which lives as long as its handle.
    let text = unsafe { std::ffi::CStr::from_ptr(text) };
    handle.fail(&text.to_string_lossy());
}

/// A key of our table, for a program to have in its hands.
fn publish(handle: Handle) -> Result<*mut PcapT, &'static str> {
    const FULL: &str = "too many devices of Ringside are open in this process";
    let (ethernet, snaplen) = (1, crate::handle::SNAPLEN_MAX as c_int);
    let key = crate::real::open_dead(ethernet, snaplen, false);
    if key.is_null() {
        return Err("libpcap has no handle left");
    }
    match table::insert(key, Box::new(handle)) {
        Ok(()) => Ok(key),
        Err(_) => {
            crate::real::real!(pcap_close(key => *mut PcapT) -> (), ());
            Err(FULL)
        }
    }
}
