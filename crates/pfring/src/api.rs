//! The functions of libpfring that are called, and the numbers that go with them: what PF_RING's
//! manual says of them, declared anew.

use crate::error::PfRingError;
use libloading::Library;
use std::ffi::{c_char, c_int, c_uint};
use std::path::Path;

/// A handle of the library's.
#[repr(C)]
pub(crate) struct Handle {
    _private: [u8; 0],
}

/// Of `pfring_open`: frames of other stations are received too.
pub(crate) const PROMISCUOUS: u32 = 1 << 3;
/// Of `pfring_open`: frames are stamped also where that costs something.
pub(crate) const STAMP: u32 = 1 << 4;
/// Of `pfring_open`: the card's stamps.
pub(crate) const HARDWARE_STAMP: u32 = 1 << 5;
/// Of `pfring_open`: no caller asks what is in a frame.
pub(crate) const DO_NOT_PARSE: u32 = 1 << 9;

/// Directions: both, and received.
pub(crate) const BOTH: c_int = 0;
pub(crate) const RECEIVED: c_int = 1;

/// What a handle does: it sends, or it receives.
pub(crate) const SENDS: c_int = 1;
pub(crate) const RECEIVES: c_int = 2;

/// Members of a cluster have the flows by addresses, ports and protocol.
pub(crate) const BY_FLOW: c_int = 5;

/// What `pfring_send` answers where nothing more fits.
pub(crate) const NO_ROOM: c_int = -4;

/// Bytes of room for a frame's header, more than any release has.
pub(crate) const HEADER_BYTES: usize = 1024;

/// A frame's header, as far as it is the same in all releases: what begins as pcap's, and the stamp
/// behind it.
#[repr(C, align(16))]
pub(crate) struct Header {
    pub seconds: i64,
    pub microseconds: i64,
    /// Bytes that are there.
    pub caplen: u32,
    /// Bytes of the frame.
    pub len: u32,
    pub timestamp_ns: u64,
    pub flags: u32,
    rest: [u8; HEADER_BYTES - 36],
}

// 64-bit systems alone: seconds have other widths elsewhere.
const _: () = assert!(std::mem::offset_of!(Header, caplen) == 16);
const _: () = assert!(std::mem::offset_of!(Header, timestamp_ns) == 24);
const _: () = assert!(std::mem::size_of::<Header>() == HEADER_BYTES);
const _: () = assert!(cfg!(target_pointer_width = "64"));

impl Default for Header {
    fn default() -> Header {
        Header {
            seconds: 0,
            microseconds: 0,
            caplen: 0,
            len: 0,
            timestamp_ns: 0,
            flags: 0,
            rest: [0; HEADER_BYTES - 36],
        }
    }
}

/// What a ring has counted. The library writes two of these words, or three.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct Counted {
    pub received: u64,
    pub dropped: u64,
    shunted: u64,
    spare: [u64; 5],
}

/// Declares the table, and how it is filled: `Option` for what some releases do not have.
macro_rules! functions {
    (
        needed { $($name:ident: $type:ty,)+ }
        optional { $($maybe:ident: $maybe_type:ty,)+ }
    ) => {
        /// The library's functions.
        pub(crate) struct Api {
            $(pub $name: $type,)+
            $(pub $maybe: Option<$maybe_type>,)+
        }

        impl Api {
            /// Looks all of them up.
            ///
            /// # Safety
            /// `library` is libpfring, or has functions of these names and types.
            pub unsafe fn of(library: &Library, path: &Path) -> Result<Api, PfRingError> {
                let missing = |name: &str| PfRingError::NoSymbol {
                    path: path.to_owned(),
                    name: name.to_owned(),
                };
                Ok(Api {
                    $($name: {
                        // SAFETY: the caller says that a function of this name has this type.
                        let found = unsafe { library.get::<$type>(stringify!($name).as_bytes()) };
                        *found.map_err(|_| missing(stringify!($name)))?
                    },)+
                    $($maybe: {
                        // SAFETY: as above.
                        unsafe { library.get::<$maybe_type>(stringify!($maybe).as_bytes()) }
                            .ok()
                            .map(|found| *found)
                    },)+
                })
            }
        }
    };
}

functions! {
    needed {
        pfring_open: unsafe extern "C" fn(*const c_char, u32, u32) -> *mut Handle,
        pfring_close: unsafe extern "C" fn(*mut Handle),
        pfring_version: unsafe extern "C" fn(*mut Handle, *mut u32) -> c_int,
        pfring_set_application_name: unsafe extern "C" fn(*mut Handle, *mut c_char) -> c_int,
        pfring_get_num_rx_channels: unsafe extern "C" fn(*mut Handle) -> u8,
        pfring_set_direction: unsafe extern "C" fn(*mut Handle, c_int) -> c_int,
        pfring_set_socket_mode: unsafe extern "C" fn(*mut Handle, c_int) -> c_int,
        pfring_set_poll_watermark: unsafe extern "C" fn(*mut Handle, u16) -> c_int,
        pfring_enable_ring: unsafe extern "C" fn(*mut Handle) -> c_int,
        pfring_disable_ring: unsafe extern "C" fn(*mut Handle) -> c_int,
        pfring_recv:
            unsafe extern "C" fn(*mut Handle, *mut *mut u8, c_uint, *mut Header, u8) -> c_int,
        pfring_poll: unsafe extern "C" fn(*mut Handle, c_uint) -> c_int,
        pfring_is_pkt_available: unsafe extern "C" fn(*mut Handle) -> c_int,
        pfring_stats: unsafe extern "C" fn(*mut Handle, *mut Counted) -> c_int,
        pfring_send: unsafe extern "C" fn(*mut Handle, *mut c_char, c_uint, u8) -> c_int,
    }
    optional {
        pfring_set_cluster_consumer:
            unsafe extern "C" fn(*mut Handle, u16, u16, c_int, u32) -> c_int,
        pfring_set_cluster: unsafe extern "C" fn(*mut Handle, c_uint, c_int) -> c_int,
        pfring_get_num_queued_pkts: unsafe extern "C" fn(*mut Handle) -> u32,
        pfring_flush_tx_packets: unsafe extern "C" fn(*mut Handle) -> c_int,
    }
}
