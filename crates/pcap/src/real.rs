//! The libpcap that the program would have had: its functions, and what they take.

use libc::{c_char, c_int, c_uchar, c_uint, timeval};
use std::ffi::{CStr, c_void};
use std::sync::OnceLock;

/// `pcap_t`: libpcap's, of which nothing is known here.
pub(crate) enum PcapT {}
/// `pcap_dumper_t`.
pub(crate) enum DumperT {}

/// `struct bpf_insn`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct BpfInsn {
    pub(crate) code: u16,
    pub(crate) jump_true: u8,
    pub(crate) jump_false: u8,
    pub(crate) k: u32,
}

/// `struct bpf_program`.
#[repr(C)]
pub(crate) struct BpfProgram {
    pub(crate) length: c_uint,
    pub(crate) instructions: *mut BpfInsn,
}

/// `struct pcap_pkthdr`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct PacketHeader {
    pub(crate) time: timeval,
    pub(crate) captured_bytes: u32,
    pub(crate) wire_bytes: u32,
}

/// `struct pcap_stat`.
#[repr(C)]
pub(crate) struct Statistics {
    pub(crate) received: c_uint,
    pub(crate) dropped: c_uint,
    pub(crate) dropped_by_interface: c_uint,
}

/// `pcap_if_t`.
#[repr(C)]
pub(crate) struct Interface {
    pub(crate) next: *mut Interface,
    pub(crate) name: *mut c_char,
    pub(crate) description: *mut c_char,
    pub(crate) addresses: *mut c_void,
    pub(crate) flags: c_uint,
}

/// `pcap_handler`.
pub(crate) type Callback =
    Option<unsafe extern "C" fn(*mut c_uchar, *const PacketHeader, *const c_uchar)>;

/// The next function of that name behind this library; null if there is none.
pub(crate) fn symbol(name: &'static CStr) -> *mut c_void {
    // SAFETY: the name is a C string, and RTLD_NEXT asks for the libraries behind this one.
    unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) }
}

/// Where a function of libpcap lies.
pub(crate) struct Found(pub(crate) *mut c_void);
// SAFETY: the address of a function is the same for all threads.
unsafe impl Send for Found {}
// SAFETY: as above; it is only read.
unsafe impl Sync for Found {}

/// An address that is looked for once.
pub(crate) type Place = OnceLock<Found>;

/// Calls libpcap's own function of that name; `$otherwise` if it has none.
macro_rules! real {
    ($name:ident($($value:expr => $kind:ty),*) -> $answer:ty, $otherwise:expr) => {{
        static PLACE: $crate::real::Place = $crate::real::Place::new();
        let name = {
            const NAME: &str = concat!(stringify!($name), "\0");
            match std::ffi::CStr::from_bytes_with_nul(NAME.as_bytes()) {
                Ok(name) => name,
                Err(_) => c"",
            }
        };
        let found = PLACE.get_or_init(|| $crate::real::Found($crate::real::symbol(name))).0;
        type Function = unsafe extern "C" fn($($kind),*) -> $answer;
        type Address = *mut std::ffi::c_void;
        // SAFETY: null or the address of libpcap's function of that name, whose type this is in
        // <pcap/pcap.h>; a pointer to a function may be null as an Option.
        let function = unsafe { std::mem::transmute::<Address, Option<Function>>(found) };
        match function {
            // SAFETY: the arguments are those that the program gave for it, or our own handle of
            // libpcap, which lives as long as ours.
            Some(function) => unsafe { function($($value),*) },
            None => $otherwise,
        }
    }};
}
pub(crate) use real;

/// A handle of no device, of libpcap's.
pub(crate) fn open_dead(link: c_int, snaplen: c_int, has_nanoseconds: bool) -> *mut PcapT {
    let precision = c_uint::from(has_nanoseconds);
    real!(
        pcap_open_dead_with_tstamp_precision(
            link => c_int, snaplen => c_int, precision => c_uint
        ) -> *mut PcapT,
        std::ptr::null_mut()
    )
}
