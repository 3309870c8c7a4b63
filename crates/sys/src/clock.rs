//! The system's clocks, in nanoseconds, and the name of the boot.

use crate::SysError;
use ringside_core::Timestamp;
use ringside_core::time::NANOS_PER_SEC;
use rustix::thread::clock_nanosleep_absolute;
use rustix::time::{ClockId, DynamicClockId, Timespec, clock_gettime, clock_gettime_dynamic};
use std::os::fd::AsFd;

/// A random UUID that the kernel draws at each boot (drivers/char/random.c).
const BOOT_ID_PATH: &str = "/proc/sys/kernel/random/boot_id";

/// Nanoseconds of UTC now (CLOCK_REALTIME): the clock that stamps frames in the kernel.
pub fn realtime_now() -> Timestamp {
    Timestamp(nanos(ClockId::Realtime))
}

/// Nanoseconds that TAI is ahead of UTC by the system's word (adjtimex(2)): whole seconds, 0 where
/// no program has set it.
pub fn tai_offset_ns() -> u64 {
    // The two clocks are read one after the other; the offset changes at leap seconds only.
    let utc = nanos(ClockId::Realtime);
    tai_ns().saturating_sub(utc) / NANOS_PER_SEC * NANOS_PER_SEC
}

/// Nanoseconds of TAI now, as an XDP program reads them; 0 where the kernel has no such clock.
pub fn tai_ns() -> u64 {
    clock_gettime_dynamic(DynamicClockId::Tai).map_or(0, nanos_of)
}

/// True if somebody (NTP, PTP) keeps the system's clock right, by the system's word (adjtimex(2));
/// `None` where it does not say.
pub fn is_synchronised() -> Option<bool> {
    // SAFETY: all zero bytes are a valid timex, and no modes mean that nothing is set.
    let mut state: libc::timex = unsafe { std::mem::zeroed() };
    // SAFETY: the call fills `state`, which lives until it returns, and holds no pointers.
    let result = unsafe { libc::adjtimex(&mut state) };
    (result >= 0).then_some(result != libc::TIME_ERROR && state.status & libc::STA_UNSYNC == 0)
}

/// Nanoseconds by which the hardware clock /dev/ptp`number` is ahead of TAI.
///
/// # Errors
/// There is no such clock, or it may not be opened.
pub fn hardware_clock_ahead_ns(number: u32) -> Result<i64, SysError> {
    let path = format!("/dev/ptp{number}");
    let failed = |e: std::io::Error| SysError::io(format!("reading the clock {path}"), e);
    let file = std::fs::File::open(&path).map_err(failed)?;
    let clock = DynamicClockId::Dynamic(file.as_fd());
    let hardware = clock_gettime_dynamic(clock).map_err(|e| failed(e.into()))?;
    let tai = clock_gettime_dynamic(DynamicClockId::Tai).map_err(|e| failed(e.into()))?;
    Ok((nanos_of(hardware) as i64).saturating_sub(nanos_of(tai) as i64))
}

/// Nanoseconds that the calling thread has had of a CPU (CLOCK_THREAD_CPUTIME_ID).
pub fn thread_cpu_ns() -> u64 {
    nanos(ClockId::ThreadCPUTime)
}

/// Nanoseconds since some fixed moment (CLOCK_MONOTONIC); never steps.
pub fn monotonic_ns() -> u64 {
    nanos(ClockId::Monotonic)
}

/// Sleeps until [`monotonic_ns`] is `until_ns`, or a signal comes (clock_nanosleep(2) with
/// TIMER_ABSTIME, which does not drift). How much later it wakes is up to the system;
/// [`use_precise_timers`](crate::thread::use_precise_timers) takes 50 microseconds off.
pub fn sleep_until_monotonic(until_ns: u64) {
    let until = Timestamp(until_ns);
    // Below 2^64 nanoseconds there are fewer seconds than an i64 holds.
    let time =
        Timespec { tv_sec: until.seconds() as i64, tv_nsec: i64::from(until.subsec_nanos()) };
    // An early return is allowed: the caller looks at the clock.
    let _ = clock_nanosleep_absolute(rustix::thread::ClockId::Monotonic, &time);
}

/// Nanoseconds since the boot, suspended time included (CLOCK_BOOTTIME); never steps, and means
/// nothing beyond this boot.
pub fn boottime_ns() -> u64 {
    nanos(ClockId::Boottime)
}

/// The name of this boot: two readings of [`boottime_ns`] compare only if it is the same.
///
/// # Errors
/// /proc is not mounted, or what it says is no UUID.
pub fn boot_id() -> Result<[u8; 16], SysError> {
    let fail = |error| SysError::io(format!("reading {BOOT_ID_PATH}"), error);
    let text = std::fs::read_to_string(BOOT_ID_PATH).map_err(fail)?;
    let no_uuid = || fail(std::io::Error::other(format!("{text:?} is no UUID")));
    uuid(text.trim()).ok_or_else(no_uuid)
}

/// One moment on all clocks that ages are computed from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clocks {
    /// UTC; may step either way.
    pub wall: Timestamp,
    /// [`boottime_ns`].
    pub boot_ns: u64,
    /// [`boot_id`].
    pub boot_id: [u8; 16],
}

impl Clocks {
    /// Now. The boot's name is given, because it is read once.
    pub fn now(boot_id: [u8; 16]) -> Clocks {
        Clocks { wall: realtime_now(), boot_ns: boottime_ns(), boot_id }
    }
}

/// The 16 bytes of a UUID in the usual notation.
fn uuid(text: &str) -> Option<[u8; 16]> {
    let digits: String = text.chars().filter(|&c| c != '-').collect();
    let valid = digits.len() == 32 && digits.chars().all(|c| c.is_ascii_hexdigit());
    valid.then(|| u128::from_str_radix(&digits, 16).ok().map(u128::to_be_bytes))?
}

fn nanos(clock: ClockId) -> u64 {
    nanos_of(clock_gettime(clock))
}

fn nanos_of(time: Timespec) -> u64 {
    // A clock that was set before 1970 reads as 1970: `Timestamp` cannot say less.
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u32::try_from(time.tv_nsec).unwrap_or(0);
    Timestamp::from_parts(seconds, nanos).0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{SystemTime, UNIX_EPOCH};

    #[test]
    fn both_clocks_go_forward_and_realtime_is_the_systems() {
        let before = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
        let now = realtime_now().0;
        let after = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
        assert!(before <= now && now <= after);
        let first = monotonic_ns();
        assert!(monotonic_ns() >= first);
    }

    #[test]
    fn the_boot_has_one_name_and_a_clock_that_counts_suspended_time() {
        let name = boot_id().unwrap();
        assert_eq!(boot_id().unwrap(), name);
        assert_ne!(name, [0; 16]);
        let monotonic = monotonic_ns();
        let now = Clocks::now(name);
        assert!(now.boot_ns >= monotonic && boottime_ns() >= now.boot_ns);
        assert!(now.wall <= realtime_now());
    }

    #[test]
    fn a_sleep_ends_at_its_time_and_one_in_the_past_at_once() {
        let until = monotonic_ns() + 2_000_000;
        while monotonic_ns() < until {
            sleep_until_monotonic(until);
        }
        sleep_until_monotonic(0);
        sleep_until_monotonic(until);
    }

    #[test]
    fn who_keeps_the_clock_can_be_asked() {
        assert!(is_synchronised().is_some());
        let refusal = hardware_clock_ahead_ns(99_999).unwrap_err().to_string();
        assert!(refusal.contains("/dev/ptp99999"), "{refusal}");
    }

    #[test]
    fn a_uuid_is_what_its_digits_say() {
        let seeds = ["00112233-4455-6677-8899-aabbccddeeff", "+0112233", "\u{ff11}"];
        let seeds = seeds.map(|text| text.as_bytes().to_vec());
        ringside_testkit::fuzz("boot-id", 200_000, &seeds, |bytes| {
            let text = String::from_utf8_lossy(bytes);
            let Some(uuid) = uuid(&text) else { return };
            let digits: String = uuid.iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(text.replace('-', "").to_ascii_lowercase(), digits);
        });
    }

    #[test]
    fn uuids() {
        let bytes = uuid("00112233-4455-6677-8899-aabbccddeeff").unwrap();
        assert_eq!(bytes[..3], [0, 0x11, 0x22]);
        for wrong in ["", "+0112233-4455-6677-8899-aabbccddeeff", "0011", "zz"] {
            assert_eq!(uuid(wrong), None, "{wrong}");
        }
    }
}
