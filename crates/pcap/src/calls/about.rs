//! What a handle says of itself; filters are compiled and files opened for it.

use super::open::by_inner;
use super::{ERROR, NOT_ACTIVATED, answer};
use crate::handle::{Handle, TICK};
use crate::real::{BpfProgram, DumperT, PcapT, real};
use libc::{FILE, c_char, c_int, timeval};
use ringside_client::guarded;
use std::os::fd::AsRawFd;
use std::ptr::null_mut;

/// `pcap_geterr`.
///
/// # Safety
/// As libpcap's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_geterr(key: *mut PcapT) -> *mut c_char {
    // C may write to it, which atomics allow.
    answer!(key, |handle| handle.error().as_ptr().cast_mut().cast(),
        else real!(pcap_geterr(key => *mut PcapT) -> *mut c_char, null_mut()))
}

/// `pcap_perror`.
///
/// # Safety
/// As libpcap's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_perror(key: *mut PcapT, prefix: *const c_char) {
    answer!(key, |handle| {
        let text = handle.error().as_ptr().cast::<c_char>();
        // SAFETY: both are C strings: the one is ours, the other as libpcap asks.
        let [text, prefix] = [text, prefix].map(|it| unsafe { std::ffi::CStr::from_ptr(it) });
        guarded((), || eprintln!("{}: {}", prefix.to_string_lossy(), text.to_string_lossy()));
    }, else real!(pcap_perror(key => *mut PcapT, prefix => *const c_char) -> (), ()))
}

fn link(handle: &Handle) -> c_int {
    guarded(ERROR, || handle.link().map_or(NOT_ACTIVATED, |link| c_int::from(link.0)))
}

/// `pcap_datalink`.
///
/// # Safety
/// As libpcap's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_datalink(key: *mut PcapT) -> c_int {
    answer!(key, |handle| link(handle),
        else real!(pcap_datalink(key => *mut PcapT) -> c_int, ERROR))
}

/// `pcap_list_datalinks`.
///
/// # Safety
/// As libpcap's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_list_datalinks(key: *mut PcapT, list: *mut *mut c_int) -> c_int {
    answer!(key, |handle| {
        let link = link(handle);
        if link < 0 || list.is_null() {
            return link.min(ERROR);
        }
        // SAFETY: libpcap's memory for one number, which `pcap_free_datalinks` frees; `list` has
        // room for a pointer, as libpcap asks.
        unsafe {
            let memory = libc::malloc(size_of::<c_int>()).cast::<c_int>();
            if memory.is_null() {
                return ERROR;
            }
            memory.write(link);
            list.write(memory);
        }
        1
    }, else real!(
        pcap_list_datalinks(key => *mut PcapT, list => *mut *mut c_int) -> c_int,
        ERROR
    ))
}

/// `pcap_set_datalink`: there is one.
///
/// # Safety
/// As libpcap's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_set_datalink(key: *mut PcapT, wanted: c_int) -> c_int {
    answer!(key, |handle| match link(handle) {
        link if link == wanted => 0,
        link if link < 0 => link,
        link => {
            handle.fail(&format!("the frames are of link type {link}, not {wanted}"));
            ERROR
        }
    }, else real!(pcap_set_datalink(key => *mut PcapT, wanted => c_int) -> c_int, ERROR))
}

/// `pcap_snapshot`.
///
/// # Safety
/// As libpcap's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_snapshot(key: *mut PcapT) -> c_int {
    answer!(key, |handle| guarded(ERROR, || handle.options().snaplen_bytes as c_int),
        else real!(pcap_snapshot(key => *mut PcapT) -> c_int, ERROR))
}

/// `pcap_get_tstamp_precision`.
///
/// # Safety
/// As libpcap's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_get_tstamp_precision(key: *mut PcapT) -> c_int {
    answer!(key, |handle| guarded(0, || c_int::from(handle.options().has_nanoseconds)),
        else real!(pcap_get_tstamp_precision(key => *mut PcapT) -> c_int, 0))
}

fn timer(handle: &Handle) -> c_int {
    handle.timer().map_or(ERROR, AsRawFd::as_raw_fd)
}

/// `pcap_get_selectable_fd`: readable as often as a look for frames is worth it.
///
/// # Safety
/// As libpcap's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_get_selectable_fd(key: *mut PcapT) -> c_int {
    answer!(key, |handle| timer(handle),
        else real!(pcap_get_selectable_fd(key => *mut PcapT) -> c_int, ERROR))
}

/// `pcap_fileno`: the same, for programs that poll it.
///
/// # Safety
/// As libpcap's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_fileno(key: *mut PcapT) -> c_int {
    answer!(key, |handle| timer(handle), else real!(pcap_fileno(key => *mut PcapT) -> c_int, ERROR))
}

/// `pcap_get_required_select_timeout`.
///
/// # Safety
/// As libpcap's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_get_required_select_timeout(key: *mut PcapT) -> *const timeval {
    static TIMEOUT: timeval = timeval { tv_sec: 0, tv_usec: TICK.as_micros() as _ };
    answer!(key, |_handle| &raw const TIMEOUT, else real!(
        pcap_get_required_select_timeout(key => *mut PcapT) -> *const timeval,
        std::ptr::null()
    ))
}

/// `pcap_compile`.
///
/// # Safety
/// As libpcap's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_compile(
    key: *mut PcapT,
    program: *mut BpfProgram,
    text: *const c_char,
    optimise: c_int,
    netmask: u32,
) -> c_int {
    let compile = |key: *mut PcapT| {
        real!(
            pcap_compile(
                key => *mut PcapT, program => *mut BpfProgram, text => *const c_char,
                optimise => c_int, netmask => u32
            ) -> c_int,
            ERROR
        )
    };
    answer!(key, |handle| by_inner(handle, ERROR, |code| *code < 0, compile), else compile(key))
}

/// `pcap_dump_open`.
///
/// # Safety
/// As libpcap's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_dump_open(key: *mut PcapT, path: *const c_char) -> *mut DumperT {
    let open = |key: *mut PcapT| {
        real!(
            pcap_dump_open(key => *mut PcapT, path => *const c_char) -> *mut DumperT,
            null_mut()
        )
    };
    answer!(key, |handle| by_inner(handle, null_mut(), |it| it.is_null(), open), else open(key))
}

/// `pcap_dump_open_append`.
///
/// # Safety
/// As libpcap's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_dump_open_append(
    key: *mut PcapT,
    path: *const c_char,
) -> *mut DumperT {
    let open = |key: *mut PcapT| {
        real!(
            pcap_dump_open_append(key => *mut PcapT, path => *const c_char) -> *mut DumperT,
            null_mut()
        )
    };
    answer!(key, |handle| by_inner(handle, null_mut(), |it| it.is_null(), open), else open(key))
}

/// `pcap_dump_fopen`.
///
/// # Safety
/// As libpcap's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_dump_fopen(key: *mut PcapT, file: *mut FILE) -> *mut DumperT {
    let open = |key: *mut PcapT| {
        let otherwise = null_mut();
        real!(pcap_dump_fopen(key => *mut PcapT, file => *mut FILE) -> *mut DumperT, otherwise)
    };
    answer!(key, |handle| by_inner(handle, null_mut(), |it| it.is_null(), open), else open(key))
}
