//! Why PF_RING cannot be used.

use std::path::PathBuf;
use thiserror::Error;

/// Why PF_RING, or a device, cannot be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum PfRingError {
    /// There is no library.
    #[error(
        "libpfring.so was not found ({reason}): it is in ntop's package `pfring` \
         (packages.ntop.org), or in `userland/lib` of PF_RING's sources; `ldconfig` makes it known"
    )]
    NoLibrary {
        /// The linker's words.
        reason: String,
    },
    /// It is there and lacks what is called.
    #[error("{} has no function {name}: PF_RING 8 or newer is needed", .path.display())]
    NoSymbol {
        /// The library.
        path: PathBuf,
        /// What it lacks.
        name: String,
    },
    /// A name that C has no string for.
    #[error("{name:?} is no name of a device")]
    Name {
        /// As it was given.
        name: String,
    },
    /// A device could not be opened.
    #[error("{reason}{}", fix(*.has_module))]
    Unopened {
        /// The system's words.
        reason: String,
        /// The kernel has PF_RING's module.
        has_module: bool,
    },
    /// The library refused something else.
    #[error("{what}: {}", meaning(*.code))]
    Refused {
        /// What was tried.
        what: &'static str,
        /// What it answered.
        code: i32,
    },
}

fn fix(has_module: bool) -> &'static str {
    if has_module {
        ""
    } else {
        "; the kernel has no module pf_ring: `modprobe pf_ring` (ntop's package `pfring-dkms` \
         builds it)"
    }
}

/// What an answer of the library's means.
fn meaning(code: i32) -> String {
    let text = match code {
        -2 => "an argument is not valid",
        -4 => "there is no room to send",
        -5 => "the device is set up in another way",
        -6 => "the demonstration is over: a ZC driver without a licence ends after five minutes",
        -7 => "this device cannot do it",
        -8 => "library and module are of different releases: install both anew",
        -10 => "there is not enough memory",
        -12 => "the ring is not enabled",
        -13 => "the name is not that of a device",
        -14 => "the kernel has no module pf_ring: `modprobe pf_ring`",
        code => return format!("PF_RING answers {code}"),
    };
    text.to_owned()
}
