//! Duplicates are left out, as editcap leaves them out.

use super::traffic::{FRAMES, Traffic, packets_of};
use super::{find, number};
use crate::common::*;
use ringside_testkit::need_tool;

#[test]
fn what_two_ports_saw_is_there_once_and_counted_as_editcap_counts() {
    let traffic = Traffic::written();
    let twice = [&*traffic.file, &*traffic.file];
    let (all, answer, _) = find(&twice, &[]);
    assert_eq!((all.len() as u64, answer["duplicates"].is_null()), (2 * FRAMES, true));
    // Frames are a millisecond apart.
    let (packets, answer, outcome) = find(&twice, &["--dedup=500us"]);
    assert_eq!(packets.len() as u64, FRAMES, "{outcome:?}");
    assert!(packets == packets_of(&traffic.file), "the same in the same order");
    assert_eq!(number(&answer, &["packets"]), FRAMES);
    assert_eq!(number(&answer, &["duplicates", "packets"]), FRAMES);
    let bytes: usize = packets.iter().map(|packet| packet.bytes.len()).sum();
    assert_eq!(number(&answer, &["duplicates", "bytes"]), bytes as u64);
    assert!(!answer["duplicates"]["forgotten"].is_null());

    let counted = run_ringside(&["find", "--count", "--dedup", "-r", arg(&traffic.file), "ip6"]);
    assert!(counted.stderr.contains(" left out, of "), "{counted:?}");
    if !need_tool("find::dedup::what_two_ports_saw_is_there_once", "editcap") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let [merged, once] = ["merged.pcapng", "once.pcapng"].map(|name| dir.path().join(name));
    let file = arg(&traffic.file);
    run_clean("mergecap", &["-w", arg(&merged), file, file]);
    run("editcap", &["-w", "0.0005", arg(&merged), arg(&once)]);
    assert!(packets_of(&once) == packets, "editcap leaves out others");
}
