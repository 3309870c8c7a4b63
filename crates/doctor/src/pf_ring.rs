//! What PF_RING finds here: its library and its module, which are of one release.

use super::check::{Checks, State};
use ringside_pfring::{Library, module};

/// What is here of it. A machine without it has no problem.
pub fn checks(checks: &mut Checks) {
    let library = Library::find().map(|library| library.release());
    judge(checks, library.map_err(|error| error.to_string()), module());
}

fn judge(checks: &mut Checks, library: Result<String, String>, module: Option<String>) {
    match (library, module) {
        (Ok(library), Some(module)) if module.starts_with(&library) => {
            checks.good("pf-ring", format!("PF_RING {library}: -i pf-ring:DEVICE"));
        }
        (Ok(library), Some(module)) => {
            let found = format!("library {library}, module {module}");
            let why = "they understand each other only if they are of one release";
            let check = checks.add("pf-ring", State::Problem, found, why);
            check.fix("install pfring and pfring-dkms of one release, and load the module anew");
        }
        (Ok(library), None) => {
            let found = format!("library {library}, and no module");
            let why = "without its module PF_RING receives from no interface";
            checks.add("pf-ring", State::Problem, found, why).fix("modprobe pf_ring");
        }
        (Err(error), Some(module)) => {
            let found = format!("module {module}, and no library");
            let check = checks.add("pf-ring", State::Problem, found, "frames come by its library");
            check.fix(error);
        }
        (Err(error), None) => checks.good("pf-ring", error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thing_that_is_missing_is_reported_with_its_fix() {
        let look = |library: Result<&str, &str>, module: Option<&str>| {
            let mut found = Checks::of("machine");
            let library = library.map(ToOwned::to_owned).map_err(ToOwned::to_owned);
            judge(&mut found, library, module.map(ToOwned::to_owned));
            let check = found.into_vec().remove(0);
            (check.state, check.found, check.fix.unwrap_or_default())
        };
        let (state, found, _) = look(Ok("8.9.0"), Some("8.9.0 (dev)"));
        assert_eq!((state, found.as_str()), (State::Ok, "PF_RING 8.9.0: -i pf-ring:DEVICE"));
        assert_eq!(look(Err("not found"), None).0, State::Ok, "no interface here needs it");
        for (library, module, fix) in [
            (Ok("8.9.0"), None, "modprobe pf_ring"),
            (Ok("8.9.0"), Some("9.3.0"), "of one release"),
            (Err("it is in ntop's package"), Some("9.3.0"), "ntop's package"),
        ] {
            let (state, found, said) = look(library, module);
            assert_eq!(state, State::Problem, "{found}");
            assert!(said.contains(fix), "{said}");
        }
    }
}
