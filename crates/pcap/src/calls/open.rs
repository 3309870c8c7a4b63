//! Handles: made, set, activated, closed.

use super::{
    ACTIVATED, ERROR, NO_SUCH_DEVICE, PERMISSION_DENIED, answer, publish, put_error, take_error,
};
use crate::device::Device;
use crate::handle::{Handle, Options, Refusal, SNAPLEN_MAX};
use crate::real::{PcapT, open_dead, real};
use crate::table;
use libc::{c_char, c_int};
use ringside_client::guarded;
use std::ffi::CStr;
use std::ptr::null_mut;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The device of that name, if it is ours.
///
/// # Safety
/// `name` is null or a C string.
unsafe fn ours(name: *const c_char) -> Option<Result<Device, String>> {
    // SAFETY: not null, and a C string by the caller's promise.
    let name = (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) })?;
    guarded(None, || Device::named(name))
}

/// `pcap_create`.
///
/// # Safety
/// As libpcap's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_create(name: *const c_char, error: *mut c_char) -> *mut PcapT {
    // SAFETY: null or a C string, as libpcap asks.
    let Some(device) = (unsafe { ours(name) }) else {
        return real!(
            pcap_create(name => *const c_char, error => *mut c_char) -> *mut PcapT,
            null_mut()
        );
    };
    let made = guarded(Err("a fault in ringside-pcap"), || publish(Handle::new(device)));
    made.unwrap_or_else(|why| {
        // SAFETY: null or room for an error, as libpcap asks.
        unsafe { put_error(error, why) };
        null_mut()
    })
}

/// `pcap_open_live`.
///
/// # Safety
/// As libpcap's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_open_live(
    name: *const c_char,
    snaplen: c_int,
    promiscuous: c_int,
    timeout_ms: c_int,
    error: *mut c_char,
) -> *mut PcapT {
    // SAFETY: null or a C string, as libpcap asks.
    if unsafe { ours(name) }.is_none() {
        return real!(
            pcap_open_live(
                name => *const c_char, snaplen => c_int, promiscuous => c_int,
                timeout_ms => c_int, error => *mut c_char
            ) -> *mut PcapT,
            null_mut()
        );
    }
    // SAFETY: what was given is what these take, and the handle is closed nowhere else.
    unsafe {
        let key = pcap_create(name, error);
        if key.is_null() {
            return key;
        }
        pcap_set_snaplen(key, snaplen);
        pcap_set_promisc(key, promiscuous);
        pcap_set_timeout(key, timeout_ms);
        if pcap_activate(key) < 0 {
            let why = CStr::from_ptr(super::about::pcap_geterr(key)).to_string_lossy().into_owned();
            put_error(error, &why);
            pcap_close(key);
            return null_mut();
        }
        key
    }
}

/// `pcap_activate`.
///
/// # Safety
/// As libpcap's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_activate(key: *mut PcapT) -> c_int {
    answer!(key, |handle| guarded(ERROR, || activate(handle)),
        else real!(pcap_activate(key => *mut PcapT) -> c_int, ERROR))
}

fn activate(handle: &Handle) -> c_int {
    if handle.is_active() {
        return ACTIVATED;
    }
    match handle.activate() {
        Ok(link) => {
            let Options { snaplen_bytes, has_nanoseconds, .. } = handle.options();
            let inner = open_dead(c_int::from(link.0), snaplen_bytes as c_int, has_nanoseconds);
            handle.inner.store(inner, Ordering::Release);
            0
        }
        Err((refusal, why)) => {
            handle.fail(&why);
            match refusal {
                Refusal::NoSuchDevice => NO_SUCH_DEVICE,
                Refusal::NotPermitted => PERMISSION_DENIED,
                Refusal::Other => ERROR,
            }
        }
    }
}

/// `pcap_close`.
///
/// # Safety
/// As libpcap's: the handle is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_close(key: *mut PcapT) {
    // SAFETY: it is not used any more, as libpcap asks.
    if let Some(handle) = unsafe { table::remove(key) } {
        let inner = handle.inner.load(Ordering::Acquire);
        guarded((), || drop(handle));
        if !inner.is_null() {
            real!(pcap_close(inner => *mut PcapT) -> (), ());
        }
    }
    real!(pcap_close(key => *mut PcapT) -> (), ());
}

fn set(handle: &Handle, change: impl FnOnce(&mut Options)) -> c_int {
    guarded(ERROR, || if handle.set(change) { 0 } else { ACTIVATED })
}

/// `pcap_set_snaplen`.
///
/// # Safety
/// As libpcap's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_set_snaplen(key: *mut PcapT, snaplen: c_int) -> c_int {
    let wanted = u32::try_from(snaplen).ok().filter(|&bytes| bytes > 0 && bytes <= SNAPLEN_MAX);
    answer!(key, |handle| set(handle, |it| it.snaplen_bytes = wanted.unwrap_or(SNAPLEN_MAX)),
        else real!(pcap_set_snaplen(key => *mut PcapT, snaplen => c_int) -> c_int, ERROR))
}

/// `pcap_set_promisc`.
///
/// # Safety
/// As libpcap's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_set_promisc(key: *mut PcapT, promiscuous: c_int) -> c_int {
    answer!(key, |handle| set(handle, |it| it.is_promiscuous = promiscuous != 0),
        else real!(pcap_set_promisc(key => *mut PcapT, promiscuous => c_int) -> c_int, ERROR))
}

/// `pcap_set_timeout`.
///
/// # Safety
/// As libpcap's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_set_timeout(key: *mut PcapT, timeout_ms: c_int) -> c_int {
    let timeout = u64::try_from(timeout_ms).ok().filter(|&ms| ms > 0).map(Duration::from_millis);
    answer!(key, |handle| set(handle, |it| it.timeout = timeout),
        else real!(pcap_set_timeout(key => *mut PcapT, timeout_ms => c_int) -> c_int, ERROR))
}

/// `pcap_set_tstamp_precision`: 0 for microseconds, 1 for nanoseconds.
///
/// # Safety
/// As libpcap's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_set_tstamp_precision(key: *mut PcapT, precision: c_int) -> c_int {
    answer!(key, |handle| set(handle, |it| it.has_nanoseconds = precision == 1),
    else real!(
        pcap_set_tstamp_precision(key => *mut PcapT, precision => c_int) -> c_int,
        ERROR
    ))
}

/// `pcap_set_buffer_size`: the ring is its owner's.
///
/// # Safety
/// As libpcap's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_set_buffer_size(key: *mut PcapT, bytes: c_int) -> c_int {
    answer!(key, |handle| set(handle, |_| ()),
        else real!(pcap_set_buffer_size(key => *mut PcapT, bytes => c_int) -> c_int, ERROR))
}

/// `pcap_set_immediate_mode`: frames are always given as soon as they are there.
///
/// # Safety
/// As libpcap's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_set_immediate_mode(key: *mut PcapT, immediate: c_int) -> c_int {
    answer!(key, |handle| set(handle, |_| ()),
        else real!(pcap_set_immediate_mode(key => *mut PcapT, immediate => c_int) -> c_int, ERROR))
}

/// `pcap_set_tstamp_type`: the capture has chosen.
///
/// # Safety
/// As libpcap's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_set_tstamp_type(key: *mut PcapT, kind: c_int) -> c_int {
    /// PCAP_WARNING_TSTAMP_TYPE_NOTSUP.
    const NOT_SUPPORTED: c_int = 3;
    answer!(key, |handle| match set(handle, |_| ()) { 0 => NOT_SUPPORTED, other => other },
        else real!(pcap_set_tstamp_type(key => *mut PcapT, kind => c_int) -> c_int, ERROR))
}

/// `pcap_list_tstamp_types`: there is nothing to choose.
///
/// # Safety
/// As libpcap's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_list_tstamp_types(key: *mut PcapT, list: *mut *mut c_int) -> c_int {
    answer!(key, |_handle| {
        if !list.is_null() {
            // SAFETY: room for a pointer, as libpcap asks.
            unsafe { list.write(null_mut()) };
        }
        0
    }, else real!(
        pcap_list_tstamp_types(key => *mut PcapT, list => *mut *mut c_int) -> c_int,
        ERROR
    ))
}

/// `pcap_set_rfmon`: a ring has no monitor mode.
///
/// # Safety
/// As libpcap's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_set_rfmon(key: *mut PcapT, monitor: c_int) -> c_int {
    answer!(key, |handle| set(handle, |_| ()),
        else real!(pcap_set_rfmon(key => *mut PcapT, monitor => c_int) -> c_int, ERROR))
}

/// `pcap_can_set_rfmon`: no.
///
/// # Safety
/// As libpcap's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_can_set_rfmon(key: *mut PcapT) -> c_int {
    answer!(key, |_handle| 0, else real!(pcap_can_set_rfmon(key => *mut PcapT) -> c_int, ERROR))
}

/// What libpcap's handle behind one of ours answers, whose error becomes ours.
pub(super) fn by_inner<T>(
    handle: &Handle,
    failed: T,
    is_failed: impl FnOnce(&T) -> bool,
    ask: impl FnOnce(*mut PcapT) -> T,
) -> T {
    let inner = handle.inner.load(Ordering::Acquire);
    if inner.is_null() {
        handle.fail("the handle is not activated");
        return failed;
    }
    let answered = ask(inner);
    if is_failed(&answered) {
        take_error(handle, inner);
    }
    answered
}
