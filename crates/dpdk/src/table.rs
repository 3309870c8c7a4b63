//! The plug-in's table, as `plugin/ringside_dpdk.h` has it. Both change together, with the version.

use std::ffi::{c_char, c_int};

/// `RINGSIDE_DPDK_VERSION`.
pub(crate) const VERSION: u32 = 1;

/// `RINGSIDE_DPDK_STAMPED`.
pub(crate) const STAMPED: u32 = 1;
/// `RINGSIDE_DPDK_HASHED`.
pub(crate) const HASHED: u32 = 2;

/// `struct ringside_dpdk_frame`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Frame {
    pub offset: u64,
    pub stamp: u64,
    pub bytes: u32,
    pub wire_bytes: u32,
    pub hash: u32,
    pub flags: u32,
}

/// `struct ringside_dpdk_device`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Device {
    pub driver: [u8; 64],
    pub receive_queues_max: u32,
    pub mtu: u32,
    pub has_rss: u32,
    pub has_stamps: u32,
    pub numa_node: i32,
    pub reserved: u32,
}

/// `struct ringside_dpdk_request`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Request {
    pub port: u32,
    pub receive_queues: u32,
    pub transmit_queues: u32,
    pub descriptors: u32,
    pub frames_per_queue: u32,
    pub frame_bytes_max: u32,
    pub mtu: u32,
    pub promiscuous: u32,
}

/// `struct ringside_dpdk_counters`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct Counted {
    pub received: u64,
    pub missed: u64,
    pub damaged: u64,
    pub no_memory: u64,
    pub sent: u64,
    pub refused: u64,
}

/// `struct ringside_dpdk_memory`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Memory {
    pub lent: *const u8,
    pub lent_bytes: u64,
    pub copies: *const u8,
    pub copies_bytes: u64,
}

/// `struct ringside_dpdk_queue`.
#[repr(C)]
pub(crate) struct RawQueue {
    _opaque: [u8; 0],
}

/// `struct ringside_dpdk_sender`.
#[repr(C)]
pub(crate) struct RawSender {
    _opaque: [u8; 0],
}

/// `ringside_dpdk_log`.
pub(crate) type Log = extern "C" fn(text: *const u8, bytes: u64);

/// `struct ringside_dpdk_table`.
#[repr(C)]
pub(crate) struct Table {
    pub version: u32,
    pub table_bytes: u32,
    pub frame_bytes: u32,
    pub device_bytes: u32,
    pub request_bytes: u32,
    pub counters_bytes: u32,

    pub release: unsafe extern "C" fn() -> *const c_char,
    pub why: unsafe extern "C" fn() -> *const c_char,
    pub start: unsafe extern "C" fn(c_int, *mut *mut c_char, Log) -> c_int,
    pub limit_threads: unsafe extern "C" fn() -> c_int,
    pub attach: unsafe extern "C" fn(*const c_char, *mut u32) -> c_int,
    pub describe: unsafe extern "C" fn(u32, *mut Device) -> c_int,
    pub open:
        unsafe extern "C" fn(*const Request, *mut *mut RawQueue, *mut *mut RawSender) -> c_int,
    pub link_is_up: unsafe extern "C" fn(u32) -> c_int,
    pub counters: unsafe extern "C" fn(u32, *mut Counted) -> c_int,
    pub close: unsafe extern "C" fn(u32) -> c_int,

    pub register_thread: unsafe extern "C" fn() -> c_int,
    pub unregister_thread: unsafe extern "C" fn(),

    pub memory: unsafe extern "C" fn(*const RawQueue, *mut Memory),
    pub receive: unsafe extern "C" fn(*mut RawQueue, *mut Frame, u32, *mut u32) -> c_int,
    pub discard: unsafe extern "C" fn(*mut RawQueue),
    pub waiting: unsafe extern "C" fn(*mut RawQueue) -> c_int,
    pub finish: unsafe extern "C" fn(*mut RawQueue) -> c_int,
    pub free_queue: unsafe extern "C" fn(*mut RawQueue),

    pub room: unsafe extern "C" fn(*mut RawSender, u32) -> *mut u8,
    pub flush: unsafe extern "C" fn(*mut RawSender) -> c_int,
    pub abandon: unsafe extern "C" fn(*mut RawSender) -> c_int,
    pub free_sender: unsafe extern "C" fn(*mut RawSender),
}

impl Table {
    /// What differs from the table that this build knows.
    pub fn difference(&self) -> Option<String> {
        if self.version != VERSION {
            return Some(format!("its table has version {}, not {VERSION}", self.version));
        }
        let sizes = [
            ("table", self.table_bytes, size_of::<Table>()),
            ("frame", self.frame_bytes, size_of::<Frame>()),
            ("device", self.device_bytes, size_of::<Device>()),
            ("request", self.request_bytes, size_of::<Request>()),
            ("counters", self.counters_bytes, size_of::<Counted>()),
        ];
        let other = sizes.into_iter().find(|(_, theirs, ours)| *theirs as usize != *ours);
        other.map(|(what, theirs, ours)| format!("a {what} of {theirs} bytes, not {ours}"))
    }
}
