//! What netmap finds here: its module, by its device.

use super::check::Checks;
use ringside_capture::backend::NETMAP;

/// What is here of it. A machine without it has no problem.
pub fn checks(checks: &mut Checks) {
    let release = NETMAP.system.and_then(|system| (system.release)());
    let missing = || NETMAP.probe.and_then(|probe| probe().err()).map(|error| error.to_string());
    let found = release.map(|release| format!("{release}: -i netmap:PORT"));
    checks.good("netmap", found.or_else(missing).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::State;

    #[test]
    fn a_machine_says_what_it_has_or_how_to_get_it() {
        let mut found = Checks::of("machine");
        checks(&mut found);
        let check = found.into_vec().remove(0);
        assert_eq!(check.state, State::Ok);
        let texts = ["-i netmap:PORT", "modprobe netmap", "sudo"];
        assert!(texts.iter().any(|text| check.found.contains(text)), "{}", check.found);
    }
}
