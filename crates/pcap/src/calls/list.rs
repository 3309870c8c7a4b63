//! Devices: ours stand behind libpcap's.

use super::ERROR;
use crate::device::PREFIX;
use crate::real::{Interface, real};
use libc::{c_char, c_int};
use ringside_client::guarded;
use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::ptr::null_mut;

/// Where captures that are to be listed share their rings, as `NAME.share`.
const FOLDER: &str = "/run/ringside";
/// Devices that are listed.
const LISTED_MAX: usize = 64;
const DESCRIPTION: &CStr = c"Ringside: the ring of a running capture";

/// Names of the rings that are shared in [`FOLDER`].
fn names() -> Vec<CString> {
    let entries = std::fs::read_dir(FOLDER).into_iter().flatten().flatten();
    let sockets = entries.map(|entry| entry.path()).filter(|path| {
        let is_socket = path.metadata().is_ok_and(|it| it.file_type().is_socket());
        is_socket && path.extension().is_some_and(|ending| ending == "share")
    });
    let name = |path: std::path::PathBuf| {
        CString::new([PREFIX.as_bytes(), path.as_os_str().as_bytes()].concat()).ok()
    };
    let mut names: Vec<CString> = sockets.filter_map(name).take(LISTED_MAX).collect();
    names.sort();
    names
}

/// `pcap_findalldevs`.
///
/// # Safety
/// As libpcap's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_findalldevs(list: *mut *mut Interface, error: *mut c_char) -> c_int {
    let code = real!(
        pcap_findalldevs(list => *mut *mut Interface, error => *mut c_char) -> c_int,
        ERROR
    );
    if code != 0 || list.is_null() {
        return code;
    }
    let mut end = list;
    // SAFETY: libpcap's list, of which each pointer is null or an entry; it is this thread's.
    unsafe {
        while !(*end).is_null() {
            end = &raw mut (**end).next;
        }
    }
    for name in guarded(Vec::new(), names) {
        // SAFETY: memory of libc, as `pcap_freealldevs` frees it; `end` is where libpcap's list has
        // its null.
        unsafe {
            let entry = libc::calloc(1, size_of::<Interface>()).cast::<Interface>();
            if entry.is_null() {
                break;
            }
            (*entry).name = libc::strdup(name.as_ptr());
            (*entry).description = libc::strdup(DESCRIPTION.as_ptr());
            (*entry).next = null_mut();
            if (*entry).name.is_null() {
                libc::free(entry.cast());
                break;
            }
            end.write(entry);
            end = &raw mut (*entry).next;
        }
    }
    0
}

/// `pcap_lookupnet`: a ring has no address.
///
/// # Safety
/// As libpcap's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_lookupnet(
    name: *const c_char,
    network: *mut u32,
    netmask: *mut u32,
    error: *mut c_char,
) -> c_int {
    // SAFETY: null or a C string, as libpcap asks.
    let is_ours = !name.is_null()
        && unsafe { CStr::from_ptr(name) }.to_bytes().starts_with(PREFIX.as_bytes());
    if !is_ours {
        return real!(
            pcap_lookupnet(
                name => *const c_char, network => *mut u32, netmask => *mut u32,
                error => *mut c_char
            ) -> c_int,
            ERROR
        );
    }
    for place in [network, netmask] {
        if !place.is_null() {
            // SAFETY: room for a number, as libpcap asks.
            unsafe { place.write(0) };
        }
    }
    0
}
