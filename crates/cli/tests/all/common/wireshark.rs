//! What Wireshark's programs say of a file.

use super::{arg, run_clean};
use ringside_testkit::by_run;
use std::path::Path;

/// Packets that they find; they must find no fault in the file. capinfos reads with the library
/// that tshark reads with and dissects nothing, which takes a fraction of the time: the short run
/// asks it alone.
pub fn packets_by_wireshark(path: &Path) -> u64 {
    let table = run_clean("capinfos", &["-c", "-M", "-T", "-r", arg(path)]);
    let count = table.trim().rsplit('\t').next().unwrap().parse().unwrap();
    if by_run(false, true) {
        let fields = ["-T", "fields", "-e", "frame.number"];
        let lines = run_clean("tshark", &[&["-r", arg(path)], &fields[..]].concat());
        assert_eq!(lines.lines().count() as u64, count, "{}", path.display());
    }
    count
}
