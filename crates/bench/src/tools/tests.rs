use super::*;
use ringside_core::ledger::{ByCause, Cause, Consumer};

/// What the tools said at their ends after loads of 1,514-byte frames.
const TCPDUMP: &str = "tcpdump: listening on rx0, link-type EN10MB (Ethernet), snapshot length \
262144 bytes\n450696 packets captured\n524288 packets received by filter\n73592 packets dropped by \
kernel\n";
const DUMPCAP: &str = "Capturing on 'rx0'\nFile: /dev/shm/rb/one.pcap\nPackets captured: 191403\n\
Packets received/dropped on interface 'rx0': 191403/300117 \
(pcap:300117/dumpcap:0/flushed:0/ps_ifdrop:0) (38.9%)\n";
const NETSNIFF: &str = "Running! Hang up with ^C!\n\n\r      332128  packets incoming (143008 \
unread on exit)\n\r      332128  packets passed filter\n\r      143008  packets failed filter (out \
of space)\n\r     30.0983% packet droprate\n\r           4  sec, 454483 usec in total\n";

fn frames_and_lost(summary: Option<Summary>) -> Option<(u64, Option<u64>)> {
    summary.map(|summary| (summary.frames, summary.lost))
}

#[test]
fn what_the_peers_say_is_understood() {
    assert_eq!(frames_and_lost(of_tcpdump(TCPDUMP)), Some((450_696, Some(73_592))));
    assert_eq!(frames_and_lost(of_dumpcap(DUMPCAP)), Some((191_403, Some(300_117))));
    assert_eq!(frames_and_lost(of_netsniff(NETSNIFF)), Some((332_128, Some(143_008))));
    let one = "1 packet captured\n1 packet received by filter\n0 packets dropped by kernel\n";
    assert_eq!(frames_and_lost(of_tcpdump(one)), Some((1, Some(0))));
    let unnamed = "7 packets captured\n";
    assert_eq!(frames_and_lost(of_tcpdump(unnamed)), Some((7, None)));
}

#[test]
fn what_says_nothing_is_no_summary() {
    for text in ["", "\n", "packets captured", "x packets captured", "Packets received/dropped"] {
        assert_eq!(of_tcpdump(text), None, "{text}");
        assert_eq!(of_dumpcap(text), None, "{text}");
        assert_eq!(of_netsniff(text), None, "{text}");
        assert_eq!(of_ringside(text), None, "{text}");
    }
    assert_eq!(of_dumpcap("Packets received/dropped on interface 'rx0': a/b"), None);
    assert_eq!(of_netsniff("packets incoming"), None);
}

#[test]
fn our_own_ledger_is_read_with_every_loss() {
    let mut ledger = Ledger::from_lanes(Vec::new());
    ledger.dropped.insert(Cause::KernelRingFull, 5);
    let missed = ByCause::from([(Cause::RecorderBehind, 2)]);
    let name = "recorder".to_owned();
    ledger.consumers.push(Consumer { name, delivered: 40, missed, ..Consumer::default() });
    let line = serde_json::json!({ "ledger": ledger });
    let output = format!("{{\"status\":{{}}}}\n{line}\n");
    assert_eq!(frames_and_lost(of_ringside(&output)), Some((40, Some(7))));
    assert_eq!(of_ringside("{\"ledger\":{}}"), None);
}

#[test]
fn stenotypes_blocks_are_counted() {
    let dir = tempfile::tempdir().unwrap();
    let block = |frames: u32| {
        let mut block = vec![0; STENOTYPE_BLOCK_BYTES as usize];
        block[12..16].copy_from_slice(&frames.to_ne_bytes());
        block
    };
    std::fs::write(dir.path().join("one"), [block(655), block(654)].concat()).unwrap();
    // A block that is not whole yet.
    std::fs::write(dir.path().join("two"), [&block(3)[..], &block(9)[..100]].concat()).unwrap();
    assert_eq!(stenotype_frames(dir.path()).unwrap(), 655 + 654 + 3);
    assert!(stenotype_frames(&dir.path().join("missing")).is_err());
}

#[test]
fn versions_are_found() {
    let dumpcap = "Dumpcap (Wireshark) 4.0.17 (Git v4.0.17 packaged as 4.0.17-0+deb12u3).";
    let netsniff = "netsniff-ng 0.6.8 (Flutternozzle), Git id: (none)";
    for (text, version) in [
        ("tcpdump version 4.99.3\nlibpcap version 1.10.3", Some("4.99.3")),
        (dumpcap, Some("4.0.17")),
        (netsniff, Some("0.6.8")),
        ("Usage: stenotype [OPTION...]\n --blocks=NUM  each is 1MB", None),
    ] {
        assert_eq!(version_number(text).as_deref(), version, "{text}");
    }
}

#[test]
fn every_tool_gets_the_same_memory_and_its_file() {
    let dir = Path::new("/where-files-go");
    for tool in Tool::value_variants() {
        let options = Options { memory_bytes: 96 << 20, ..Options::default() };
        let words = tool.command(Target::Recording(dir), options);
        let line = words.join(" ".as_ref()).to_string_lossy().into_owned();
        let ours = "--kernel-ring-size 33554432 --ring-size 67108864";
        let rings = [ours, "-B 98304", "-B 96", "--ring-size 96MiB", "--blocks=96"];
        assert!(rings.iter().any(|ring| line.contains(ring)), "{line}");
        assert!(line.contains("/where-files-go"), "{line}");
    }
    let kept = Options { snaplen: Some(64), ..Options::default() };
    for tool in [Tool::Ringside, Tool::Tcpdump, Tool::Dumpcap] {
        let words = tool.command(Target::Nowhere, kept);
        assert!(words.contains(&"-s64".into()), "{words:?}");
    }
}

#[test]
fn a_limit_is_kept_in_sixteen_files_by_tools_that_can() {
    let dir = Path::new("/where-files-go");
    let limited = Options { limit_bytes: Some(2 << 30), ..Options::default() };
    let limits = [
        "--limit-bytes 2147483648",
        "-C 134 -W 16",
        "-b filesize:134217 -b files:16",
        "/where-files-go --interval 128MiB --overwrite 16",
    ];
    for tool in Tool::value_variants() {
        let words = tool.command(Target::Recording(dir), limited);
        let line = words.join(" ".as_ref()).to_string_lossy().into_owned();
        let keeps = limits.iter().any(|limit| line.contains(limit));
        assert_eq!(keeps, tool.keeps_limits(), "{line}");
    }
}
