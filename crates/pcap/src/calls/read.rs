//! Frames: read, filtered, counted.

use super::{BREAK, ERROR, NOT_ACTIVATED, answer};
use crate::handle::{Handle, Header, Step, Ways};
use crate::real::{BpfProgram, Callback, PacketHeader, PcapT, Statistics, real};
use libc::{c_char, c_int, c_uchar, c_void, timeval};
use ringside_client::guarded;
use ringside_core::bpf::Instruction;
use std::cell::Cell;
use std::ptr::null;
use std::sync::atomic::Ordering;

/// Frames of one dispatch that may have all there are.
const BATCH_FRAMES: u32 = 1024;
/// What a program reads when the capture has ended: libpcap's own words, which dumpcap knows.
const ENDED: &str = "The interface disappeared";

thread_local! {
    /// The header of the last `pcap_next_ex`, which lives until the next one. A handle is read by
    /// one thread.
    static HEADER: Cell<PacketHeader> = const {
        Cell::new(PacketHeader {
            time: timeval { tv_sec: 0, tv_usec: 0 },
            captured_bytes: 0,
            wire_bytes: 0,
        })
    };
}

fn header(handle: &Handle, header: Header) -> PacketHeader {
    let fraction_ns = header.time_ns % 1_000_000_000;
    let has_nanoseconds = handle.options().has_nanoseconds;
    let fraction = if has_nanoseconds { fraction_ns } else { fraction_ns / 1000 };
    PacketHeader {
        time: timeval { tv_sec: (header.time_ns / 1_000_000_000) as _, tv_usec: fraction as _ },
        captured_bytes: header.captured_bytes,
        wire_bytes: header.wire_bytes,
    }
}

/// What ends a reading, as a number; none for a frame.
fn code(handle: &Handle, step: Step) -> Option<c_int> {
    match step {
        Step::Frame(_) => None,
        Step::Timeout => Some(0),
        Step::Broken => Some(BREAK),
        Step::NotActivated => Some(NOT_ACTIVATED),
        Step::Ended => {
            handle.fail(ENDED);
            Some(ERROR)
        }
    }
}

/// Gives what there is, at most `count_max` frames, to `callback`; waits for the first.
///
/// # Safety
/// `callback` may be called with `user`.
unsafe fn dispatch(
    handle: &Handle,
    count_max: u32,
    callback: Callback,
    user: *mut c_uchar,
) -> c_int {
    let mut bytes = Vec::new();
    let mut count = 0;
    while count < count_max {
        let step = guarded(Step::NotActivated, || match count {
            0 => handle.first(&mut bytes),
            _ => handle.further(&mut bytes),
        });
        let Step::Frame(found) = step else {
            // What comes after frames is said by the next call.
            if count > 0 {
                if step == Step::Broken {
                    handle.break_loop();
                }
                break;
            }
            return code(handle, step).unwrap_or(0);
        };
        count += 1;
        let header = header(handle, found);
        if let Some(callback) = callback {
            // SAFETY: the caller's promise; header and bytes live until it returns, and no lock is
            // held meanwhile.
            unsafe { callback(user, &raw const header, bytes.as_ptr()) };
        }
    }
    count as c_int
}

/// `pcap_dispatch`.
///
/// # Safety
/// As libpcap's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_dispatch(
    key: *mut PcapT,
    count: c_int,
    callback: Callback,
    user: *mut c_uchar,
) -> c_int {
    answer!(key, |handle| {
        let most = u32::try_from(count).ok().filter(|&count| count > 0).unwrap_or(BATCH_FRAMES);
        // SAFETY: as libpcap asks.
        unsafe { dispatch(handle, most, callback, user) }
    }, else real!(
        pcap_dispatch(
            key => *mut PcapT, count => c_int, callback => Callback, user => *mut c_uchar
        ) -> c_int,
        ERROR
    ))
}

/// `pcap_loop`: 0 too if the capture ends.
///
/// # Safety
/// As libpcap's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_loop(
    key: *mut PcapT,
    count: c_int,
    callback: Callback,
    user: *mut c_uchar,
) -> c_int {
    answer!(key, |handle| {
        let mut left = u64::try_from(count).ok().filter(|&count| count > 0).unwrap_or(u64::MAX);
        while left > 0 {
            let most = left.min(u64::from(BATCH_FRAMES)) as u32;
            // SAFETY: as libpcap asks.
            let done = unsafe { dispatch(handle, most, callback, user) };
            match done {
                0 if handle.is_nonblocking() => return 0,
                ERROR if handle.has_ended() => return 0,
                done if done < 0 => return done,
                done => left -= done as u64,
            }
        }
        0
    }, else real!(
        pcap_loop(
            key => *mut PcapT, count => c_int, callback => Callback, user => *mut c_uchar
        ) -> c_int,
        ERROR
    ))
}

/// One frame, kept until the next: where its header and its bytes are, or what ended the reading.
fn one(handle: &Handle) -> Result<(*const PacketHeader, *const u8), c_int> {
    guarded(Err(ERROR), || {
        let mut bytes = handle.take_held();
        let step = handle.first(&mut bytes);
        let Step::Frame(found) = step else { return Err(code(handle, step).unwrap_or(0)) };
        let found = header(handle, found);
        HEADER.with(|place| {
            place.set(found);
            Ok((place.as_ptr().cast_const(), handle.hold(bytes)))
        })
    })
}

/// `pcap_next`.
///
/// # Safety
/// As libpcap's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_next(key: *mut PcapT, header: *mut PacketHeader) -> *const c_uchar {
    answer!(key, |handle| match one(handle) {
        Ok((found, bytes)) => {
            if !header.is_null() {
                // SAFETY: room for a header, as libpcap asks; the other is this thread's.
                unsafe { header.write(found.read()) };
            }
            bytes
        }
        Err(_) => null(),
    }, else real!(
        pcap_next(key => *mut PcapT, header => *mut PacketHeader) -> *const c_uchar,
        null()
    ))
}

/// `pcap_next_ex`.
///
/// # Safety
/// As libpcap's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_next_ex(
    key: *mut PcapT,
    header: *mut *const PacketHeader,
    data: *mut *const c_uchar,
) -> c_int {
    answer!(key, |handle| match one(handle) {
        Ok((found, bytes)) => {
            // SAFETY: room for two pointers, as libpcap asks.
            unsafe {
                header.write(found);
                data.write(bytes);
            }
            1
        }
        Err(code) => code,
    }, else real!(
        pcap_next_ex(
            key => *mut PcapT, header => *mut *const PacketHeader, data => *mut *const c_uchar
        ) -> c_int,
        ERROR
    ))
}

/// `pcap_breakloop`: also for signal handlers.
///
/// # Safety
/// As libpcap's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_breakloop(key: *mut PcapT) {
    answer!(key, |handle| handle.break_loop(),
        else real!(pcap_breakloop(key => *mut PcapT) -> (), ()))
}

/// `pcap_setfilter`.
///
/// # Safety
/// As libpcap's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_setfilter(key: *mut PcapT, program: *const BpfProgram) -> c_int {
    answer!(key, |handle| {
        // SAFETY: null, or a program with that many instructions, as libpcap asks.
        let given = unsafe {
            program.as_ref().filter(|it| !it.instructions.is_null()).map(|program| {
                std::slice::from_raw_parts(program.instructions, program.length as usize)
            })
        };
        guarded(ERROR, || {
            let instructions = given.unwrap_or_default().iter().map(|it| Instruction {
                code: it.code,
                jump_true: it.jump_true,
                jump_false: it.jump_false,
                k: it.k,
            });
            match handle.set_filter(instructions.collect()) {
                Ok(()) => 0,
                Err(why) => {
                    handle.fail(&why);
                    ERROR
                }
            }
        })
    }, else real!(
        pcap_setfilter(key => *mut PcapT, program => *const BpfProgram) -> c_int,
        ERROR
    ))
}

/// `pcap_setdirection`: 0 both, 1 in, 2 out.
///
/// # Safety
/// As libpcap's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_setdirection(key: *mut PcapT, way: c_int) -> c_int {
    answer!(key, |handle| guarded(ERROR, || {
        let ways = match way {
            0 => Ways::Both,
            1 => Ways::In,
            2 => Ways::Out,
            _ => return ERROR,
        };
        handle.set_ways(ways);
        0
    }), else real!(pcap_setdirection(key => *mut PcapT, way => c_int) -> c_int, ERROR))
}

/// `pcap_setnonblock`.
///
/// # Safety
/// As libpcap's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_setnonblock(
    key: *mut PcapT,
    nonblocking: c_int,
    error: *mut c_char,
) -> c_int {
    answer!(key, |handle| guarded(ERROR, || {
        handle.set_nonblocking(nonblocking != 0);
        0
    }), else real!(
        pcap_setnonblock(
            key => *mut PcapT, nonblocking => c_int, error => *mut c_char
        ) -> c_int,
        ERROR
    ))
}

/// `pcap_getnonblock`.
///
/// # Safety
/// As libpcap's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_getnonblock(key: *mut PcapT, error: *mut c_char) -> c_int {
    answer!(key, |handle| guarded(ERROR, || c_int::from(handle.is_nonblocking())),
        else real!(pcap_getnonblock(key => *mut PcapT, error => *mut c_char) -> c_int, ERROR))
}

/// `pcap_stats`: received are the frames that the filter accepted and those that this reader was
/// too slow for, as on Linux; dropped are the latter; what the capture itself lost since the
/// activation counts as the interface's.
///
/// # Safety
/// As libpcap's, but for a null handle, of which Suricata asks when a device went away.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_stats(key: *mut PcapT, statistics: *mut Statistics) -> c_int {
    if key.is_null() {
        return ERROR;
    }
    answer!(key, |handle| {
        if !handle.is_active() || statistics.is_null() {
            return NOT_ACTIVATED;
        }
        guarded((), || handle.count_losses());
        let counts = &handle.counts;
        let missed = counts.missed.load(Ordering::Relaxed);
        let received = counts.accepted.load(Ordering::Relaxed).wrapping_add(missed);
        let dropped_before = counts.dropped_before.load(Ordering::Relaxed);
        // C has 32 bits for each, which wrap.
        let found = Statistics {
            received: received as u32,
            dropped: missed as u32,
            dropped_by_interface: dropped_before as u32,
        };
        // SAFETY: not null, and room for the counts, as libpcap asks.
        unsafe { statistics.write(found) };
        0
    }, else real!(pcap_stats(key => *mut PcapT, statistics => *mut Statistics) -> c_int, ERROR))
}

/// `pcap_inject`: a ring is for reading.
///
/// # Safety
/// As libpcap's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_inject(key: *mut PcapT, data: *const c_void, bytes: usize) -> c_int {
    answer!(key, |handle| {
        guarded((), || handle.fail("a device of Ringside sends nothing; `ringside send` does"));
        ERROR
    }, else real!(
        pcap_inject(key => *mut PcapT, data => *const c_void, bytes => usize) -> c_int,
        ERROR
    ))
}

/// `pcap_sendpacket`: as `pcap_inject`.
///
/// # Safety
/// As libpcap's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pcap_sendpacket(
    key: *mut PcapT,
    data: *const c_uchar,
    bytes: c_int,
) -> c_int {
    answer!(key, |handle| {
        guarded((), || handle.fail("a device of Ringside sends nothing; `ringside send` does"));
        ERROR
    }, else real!(
        pcap_sendpacket(key => *mut PcapT, data => *const c_uchar, bytes => c_int) -> c_int,
        ERROR
    ))
}
