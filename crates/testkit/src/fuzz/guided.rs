//! A target under libFuzzer, in a test program that `cargo xtask fuzz` has built with its counters.

use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};

/// Where the run keeps what belongs to the target; none in a run that is not guided.
pub(super) fn folder() -> Option<PathBuf> {
    std::env::var_os("RINGSIDE_FUZZ_FOLDER").map(PathBuf::from)
}

/// Writes the seeds where libFuzzer looks for them and hands over to it. Does not return: libFuzzer
/// ends the process after the time that it was given, or at a failure.
pub(super) fn run(folder: &Path, seeds: &[Vec<u8>], target: impl Fn(&[u8])) {
    let folder = folder.join("seeds");
    for (index, seed) in seeds.iter().enumerate() {
        std::fs::write(folder.join(format!("{index:04}")), seed).expect("a writable folder");
    }
    // A panic ends the process, so no code sees what it left half done.
    let target = AssertUnwindSafe(target);
    bolero::check!().for_each(move |input: &[u8]| {
        let target = &target;
        (target.0)(input);
    });
}
