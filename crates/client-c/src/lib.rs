//! The C interface of [`ringside_client`]: `include/ringside.h` says what each function does.
//!
//! This crate is the one place besides `sys` where unsafe code is allowed, because C hands over
//! pointers. It adds nothing else: every function checks its pointers for null, turns them into
//! references and calls the safe crate. No panic crosses into C: each function does its work inside
//! `guarded`.

use ringside_client::{Attachment, ReadOptions, Reader, guarded};
use ringside_core::Timestamp;
use std::ffi::{CStr, CString, OsStr, c_char, c_int};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

/// `RINGSIDE_FROM_NOW` of the header.
const FROM_NOW: u64 = u64::MAX;
const FRAME: c_int = 1;
const TIMEOUT: c_int = 0;
const END: c_int = -1;

/// `ringside_reader`: opaque to C.
pub struct CReader {
    reader: Reader,
    /// Names as C wants them, by interface id.
    names: Vec<CString>,
}

/// `struct ringside_frame`.
#[repr(C)]
pub struct CFrame {
    time_ns: u64,
    bytes: *const u8,
    captured_bytes: u32,
    wire_bytes: u32,
    interface_id: u32,
    reserved: u32,
}

const _: () = assert!(size_of::<CFrame>() == 32);

/// `ringside_attach`.
///
/// # Safety
/// `socket` is a C string; `error` is null or has room for `error_bytes` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringside_attach(
    socket: *const c_char,
    from_ns: u64,
    error: *mut c_char,
    error_bytes: usize,
) -> *mut CReader {
    if socket.is_null() {
        return std::ptr::null_mut();
    }
    // SAFETY: not null, and a C string by the caller's promise.
    let path = unsafe { CStr::from_ptr(socket) };
    let path = Path::new(OsStr::from_bytes(path.to_bytes()));
    let attached = guarded(Err(FAULT.into()), || attach(path, from_ns).map(Box::new));
    match attached {
        Ok(reader) => Box::into_raw(reader),
        Err(message) => {
            if !error.is_null() && error_bytes > 0 {
                let bytes = &message.as_bytes()[..message.len().min(error_bytes - 1)];
                // SAFETY: there is room for `error_bytes` bytes by the caller's promise, and the
                // message with its NUL has at most as many; they do not overlap, `message` is ours.
                unsafe {
                    error.copy_from_nonoverlapping(bytes.as_ptr().cast(), bytes.len());
                    error.add(bytes.len()).write(0);
                }
            }
            std::ptr::null_mut()
        }
    }
}

/// What C gets instead of a panic.
const FAULT: &str = "a fault in ringside-client";

fn attach(path: &Path, from_ns: u64) -> Result<CReader, String> {
    let attachment = Attachment::connect(path).map_err(|error| error.to_string())?;
    let from = (from_ns != FROM_NOW).then_some(Timestamp(from_ns));
    let options = ReadOptions { from, ..ReadOptions::default() };
    let reader = Reader::new(&attachment, &options);
    // A name with a NUL in it has no place in C.
    let name = |name: &str| CString::new(name.replace('\0', "")).unwrap_or_default();
    let names = reader.hello().interfaces.iter().map(|interface| name(&interface.name)).collect();
    Ok(CReader { reader, names })
}

/// `ringside_next`.
///
/// # Safety
/// `reader` came from `ringside_attach` and was not detached; `frame` is null or may be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringside_next(
    reader: *mut CReader,
    frame: *mut CFrame,
    timeout_ms: u32,
) -> c_int {
    // SAFETY: null, or a live reader that no other thread uses, by the caller's promise.
    let Some(reader) = (unsafe { reader.as_mut() }) else { return END };
    let next = guarded(Err(END), || {
        let timeout = Duration::from_millis(u64::from(timeout_ms));
        let Some(found) = reader.reader.next_frame(timeout) else {
            return if reader.reader.is_finished() { Err(END) } else { Err(TIMEOUT) };
        };
        Ok(CFrame {
            time_ns: found.meta.timestamp.0,
            bytes: found.bytes.as_ptr(),
            captured_bytes: found.bytes.len() as u32,
            wire_bytes: found.meta.wire_bytes,
            interface_id: found.meta.interface.0,
            reserved: 0,
        })
    });
    match next {
        Ok(found) => {
            if !frame.is_null() {
                // SAFETY: not null, and may be written by the caller's promise.
                unsafe { frame.write(found) };
            }
            FRAME
        }
        Err(code) => code,
    }
}

/// `ringside_delivered`.
///
/// # Safety
/// `reader` is null, or came from `ringside_attach` and was not detached.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringside_delivered(reader: *const CReader) -> u64 {
    // SAFETY: null or a live reader by the caller's promise.
    let reader = unsafe { reader.as_ref() };
    guarded(0, || reader.map_or(0, |reader| reader.reader.delivered()))
}

/// `ringside_missed`.
///
/// # Safety
/// `reader` is null, or came from `ringside_attach` and was not detached.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringside_missed(reader: *const CReader) -> u64 {
    // SAFETY: null or a live reader by the caller's promise.
    let reader = unsafe { reader.as_ref() };
    guarded(0, || reader.map_or(0, |reader| reader.reader.missed()))
}

/// `ringside_interface_count`.
///
/// # Safety
/// `reader` is null, or came from `ringside_attach` and was not detached.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringside_interface_count(reader: *const CReader) -> u32 {
    // SAFETY: null or a live reader by the caller's promise.
    let reader = unsafe { reader.as_ref() };
    guarded(0, || reader.map_or(0, |reader| reader.names.len() as u32))
}

/// `ringside_interface_name`.
///
/// # Safety
/// `reader` is null, or came from `ringside_attach` and was not detached.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringside_interface_name(
    reader: *const CReader,
    interface_id: u32,
) -> *const c_char {
    // SAFETY: null or a live reader by the caller's promise.
    let reader = unsafe { reader.as_ref() };
    guarded(std::ptr::null(), || {
        let name = reader.and_then(|reader| reader.names.get(interface_id as usize));
        name.map_or(std::ptr::null(), |name| name.as_ptr())
    })
}

/// `ringside_link_type`.
///
/// # Safety
/// `reader` is null, or came from `ringside_attach` and was not detached.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringside_link_type(reader: *const CReader, interface_id: u32) -> c_int {
    // SAFETY: null or a live reader by the caller's promise.
    let Some(reader) = (unsafe { reader.as_ref() }) else { return -1 };
    guarded(-1, || {
        let interface = reader.reader.hello().interfaces.get(interface_id as usize);
        interface.map_or(-1, |interface| c_int::from(interface.link_type.0))
    })
}

/// `ringside_detach`.
///
/// # Safety
/// `reader` is null, or came from `ringside_attach` and is not used any more.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringside_detach(reader: *mut CReader) {
    if !reader.is_null() {
        // SAFETY: made by Box::into_raw in `ringside_attach`, and given back once, by the caller's
        // promise.
        let reader = unsafe { Box::from_raw(reader) };
        guarded((), || drop(reader));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::panic_any;

    /// Panics once more when it is dropped.
    struct Twice;

    impl Drop for Twice {
        fn drop(&mut self) {
            panic!("again");
        }
    }

    #[test]
    fn a_panic_ends_at_the_border_whatever_it_carries() {
        assert_eq!(guarded(0, || 7), 7);
        assert_eq!(guarded(-1, || panic!("a fault")), -1);
        assert_eq!(guarded(-1, || panic_any(Twice)), -1);
        let reader = Box::new(Twice);
        guarded((), || drop(reader));
    }

    #[test]
    fn each_function_for_c_is_guarded() {
        let source = include_str!("lib.rs");
        let functions: Vec<&str> = source.split("#[unsafe(no_mangle)]\n").skip(1).collect();
        let header = include_str!("../include/ringside.h");
        assert_eq!(functions.len(), header.matches(");\n").count());
        for function in functions {
            let body = function.split("\n}\n").next().unwrap_or_default();
            assert!(body.contains("guarded("), "{body}");
        }
    }

    #[test]
    fn a_reader_of_null_is_read_and_detached_without_harm() {
        let (none, mut frame) = (std::ptr::null_mut(), std::mem::MaybeUninit::uninit());
        // SAFETY: each of these takes null for no reader; `frame` may be written.
        unsafe {
            assert_eq!(ringside_next(none, frame.as_mut_ptr(), 0), END);
            assert_eq!((ringside_delivered(none), ringside_missed(none)), (0, 0));
            assert_eq!(ringside_interface_count(none), 0);
            assert!(ringside_interface_name(none, 0).is_null());
            assert_eq!(ringside_link_type(none, 0), -1);
            ringside_detach(none);
            let mut error = [1; 8];
            assert!(ringside_attach(c"/none".as_ptr(), 0, error.as_mut_ptr(), 4).is_null());
            assert_eq!((error[3], error[4]), (0, 1), "the text is cut to its room");
            assert!(ringside_attach(std::ptr::null(), 0, error.as_mut_ptr(), 4).is_null());
        }
    }
}
