//! Clocks: of the system, and of a card.

use super::check::{Checks, State};
use ringside_core::time::NANOS_PER_SEC;
use ringside_keeper::Request;
use ringside_netdev as netdev;
use ringside_sys::clock;
use std::fs::read_to_string;

/// Where the kernel says which hardware tells it the time.
const SOURCES: &str = "/sys/devices/system/clocksource/clocksource0";
/// Sources that cost a microsecond a reading, which is several frames.
const SLOW: [&str; 4] = ["hpet", "acpi_pm", "pit", "jiffies"];
/// A card's clock that is this far from TAI is not disciplined by any program.
const AHEAD_NS_MAX: u64 = 1_000_000;

/// The system's clock.
pub fn of_machine(checks: &mut Checks) {
    let source = |file: &str| {
        let text = read_to_string(format!("{SOURCES}/{file}")).unwrap_or_default();
        text.trim().to_owned()
    };
    clock_source(checks, &source("current_clocksource"), &source("available_clocksource"));
    match clock::is_synchronised() {
        Some(false) => {
            let why = "stamps drift from those of other machines";
            checks
                .add("clock", State::Warning, "not synchronised", why)
                .fix("systemctl enable --now chrony (or ptp4l and phc2sys)");
        }
        Some(true) => checks.good("clock", "synchronised"),
        None => checks.good("clock", "not known whether it is synchronised"),
    }
    let offset = clock::tai_offset_ns() / NANOS_PER_SEC;
    checks.good("tai", format!("{offset} s ahead of UTC by the system's word; subtracted"));
}

fn clock_source(checks: &mut Checks, current: &str, available: &str) {
    if !SLOW.contains(&current) {
        checks.good("clock source", if current.is_empty() { "not known" } else { current });
        return;
    }
    let why = "each stamp costs about a microsecond with it";
    let check = checks.add("clock source", State::Problem, current, why);
    let better = available.split_whitespace().find(|source| !SLOW.contains(source));
    if let Some(better) = better {
        check.fix(format!("echo {better} > {SOURCES}/current_clocksource"));
        check.fixed_by([Request::File {
            path: format!("{SOURCES}/current_clocksource").into(),
            value: better.to_owned(),
        }]);
    }
}

/// The clock of an interface's card.
pub fn of_interface(checks: &mut Checks, name: &str) {
    let capability = netdev::stamp_capability(name).unwrap_or_default();
    let Some(number) = capability.ptp_clock else {
        let why = "frames are stamped by software, some microseconds late";
        checks.add("hardware clock", State::Warning, "none", why);
        return;
    };
    let stamps = match (capability.receive_hardware, capability.every_frame) {
        (true, true) => "stamps every frame",
        (true, false) => "stamps frames of PTP only",
        (false, _) => "stamps nothing on receipt",
    };
    let found = format!("/dev/ptp{number}, {stamps}");
    if capability.receive_hardware && capability.every_frame {
        checks.good("hardware clock", format!("{found} (capture --hardware-time)"));
    } else {
        let why = "frames are stamped by software, some microseconds late";
        checks.add("hardware clock", State::Warning, found, why);
    }
    match clock::hardware_clock_ahead_ns(number) {
        Ok(ahead) => ptp(checks, name, ahead),
        Err(error) => checks.good("ptp", format!("not known: {error}")),
    }
}

fn ptp(checks: &mut Checks, name: &str, ahead_ns: i64) {
    let found = format!("{ahead_ns} ns ahead of TAI");
    if ahead_ns.unsigned_abs() <= AHEAD_NS_MAX {
        checks.good("ptp", found);
        return;
    }
    let why = "the card's stamps are no time of day until somebody sets its clock";
    checks
        .add("ptp", State::Warning, found, why)
        .fix(format!("phc2sys -s CLOCK_REALTIME -c {name} -O 0 (or ptp4l -i {name})"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_source_is_in_the_way_and_fixed_by_a_better_one() {
        for (current, available, state, fixed) in [
            ("tsc", "tsc hpet", State::Ok, false),
            ("hpet", "hpet tsc acpi_pm", State::Problem, true),
            ("acpi_pm", "acpi_pm hpet", State::Problem, false),
            ("", "", State::Ok, false),
        ] {
            let mut checks = Checks::of("machine");
            clock_source(&mut checks, current, available);
            let check = &checks.into_vec()[0];
            assert_eq!((check.state, check.fixable), (state, fixed), "{current}");
        }
    }

    #[test]
    fn a_card_far_from_tai_is_reported() {
        for (ahead, state) in [
            (0, State::Ok),
            (-900_000, State::Ok),
            (37_000_000_000, State::Warning),
            (i64::MIN, State::Warning),
        ] {
            let mut checks = Checks::of("eth1");
            ptp(&mut checks, "eth1", ahead);
            assert_eq!(checks.into_vec()[0].state, state, "{ahead}");
        }
    }
}
