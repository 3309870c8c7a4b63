//! What `-w` makes: which file, under which name, and who may write it.

use crate::common::*;
use ringside_core::{Frame, FrameMeta, SourceInterface, Timestamp};
use ringside_store::Format;
use ringside_testkit::need_root;
use ringside_transmit::{SenderKind, Shape, Sizes};
use std::path::Path;
use std::process::{Command, Stdio};

fn send(network: &Network, count: u64) {
    let shape = Shape::new(Sizes::fixed(100).unwrap(), 1).unwrap();
    network.send(SenderKind::Packet, &shape, count, Some(20_000));
}

fn frames_of(path: &Path) -> u64 {
    let mut frames = 0;
    assert_eq!(for_each_frame(&[path.to_owned()], |_, _| frames += 1), []);
    frames
}

#[test]
fn no_file_is_replaced_while_another_run_writes_it() {
    if !need_root("no_file_is_replaced") {
        return;
    }
    let network = Network::up();
    let folder = tempfile::tempdir().unwrap();
    let paths = ["a.pcapng", "r.pcap", "digests", "copy.pcap"].map(|name| folder.path().join(name));
    let [merged, rotated, digests, copy] = paths.each_ref().map(|path| arg(path));
    let rules = folder.path().join("rules");
    std::fs::write(&rules, "udp => digest\ndefault take\n").unwrap();
    let writes: [&[&str]; 3] = [
        &["-w", merged],
        &["-w", rotated, "-C", "100MB"],
        &["--rules", arg(&rules), "--digests", digests],
    ];
    for args in writes {
        let args = [&["-i", "rx0"], args].concat();
        let running = network.capture(&args);
        send(&network, 100);
        let mut second = network.capture_command();
        second.args(&args);
        let second = Running::start(second).finish();
        assert_eq!(second.code(), Some(2), "{args:?}: {}", second.stderr);
        let by = format!("is being written by process {}:", running.worker_pid());
        assert!(second.stderr.contains(&by), "{args:?}: {}", second.stderr);
        assert!(second.stderr.contains(arg(folder.path())), "{args:?}: {}", second.stderr);
        assert_eq!(running.stop().checked_ledger(100).taken, 100, "{args:?}");
    }
    assert_eq!(frames_of(Path::new(merged)), 100);
    assert_eq!(frames_of(&folder.path().join("r-000000.pcap")), 100);

    // A copy that is being written, and a capture of files that has the same output.
    let mut command = Command::new(ringside());
    let (theirs, ours) = std::io::pipe().unwrap();
    std::fs::write(copy, "").unwrap();
    command.args(["read", "-r", "-", "-w", copy]).stdin(theirs).stdout(Stdio::piped());
    let reading = Running::start_directed(command);
    let header = std::fs::read(folder.path().join("r-000000.pcap")).unwrap();
    std::io::Write::write_all(&mut { &ours }, &header[..24]).unwrap();
    wait_until("the header of the copy", || std::fs::metadata(copy).unwrap().len() == 24);
    for args in [&["read", "-r", merged, "-w", copy][..], &["capture", "-r", merged, "-w", copy]] {
        let refused = run_ringside(args);
        assert_eq!(refused.code(), Some(2), "{args:?}: {}", refused.stderr);
        let by = format!("{copy}: is being written by process {}:", reading.pid());
        assert!(refused.stderr.contains(&by), "{args:?}: {}", refused.stderr);
    }
    drop(ours);
    assert_eq!(reading.finish().code(), Some(1), "nothing was copied");
    assert_eq!(run_ringside(&["read", "-r", merged, "-w", copy]).code(), Some(0));
    assert_eq!(frames_of(Path::new(copy)), 100);
}

/// A capture of so many frames of 1,400 bytes, a millisecond apart.
fn capture_file(path: &Path, frames: u64) {
    let file = std::fs::File::create(path).unwrap();
    let interfaces = [SourceInterface::ethernet("eth1")];
    let mut writer = Format::Pcapng.writer(file, &interfaces).unwrap();
    for frame in 0..frames {
        let timestamp = Timestamp(1_700_000_000_000_000_000 + frame * 1_000_000);
        let meta = FrameMeta { wire_bytes: 1_400, timestamp, ..FrameMeta::default() };
        // Bytes that compress, but not to nothing.
        let bytes: Vec<u8> = (0..1_400u64).map(|at| (at * (frame | 1) >> 5) as u8).collect();
        writer.write(&Frame { bytes: &bytes, meta }).unwrap();
    }
    writer.finish(&[]).unwrap();
}

#[test]
fn the_files_that_are_said_are_those_that_are_there() {
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("in.pcapng"), folder.path().join("out"));
    capture_file(&input, 8_000);
    let args = ["capture", "-r", arg(&input), "-w", arg(&output), "--limit-bytes", "6MB"];
    let outcome = run_ringside(&args);
    assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("files deleted"), "{}", outcome.stderr);
    let there = files_in(&output).len();
    let said = format!("{there} files; to read them: ringside read -r '{}'", arg(&output));
    assert!(outcome.stderr.contains(&said), "{said}: {}", outcome.stderr);
}

#[test]
fn a_refused_option_leaves_no_directory_behind() {
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("in.pcapng"), folder.path().join("out/deep"));
    capture_file(&input, 1);
    std::fs::create_dir(folder.path().join("kept")).unwrap();
    let refused: [&[&str]; 3] =
        [&["--limit-bytes", "1kB"], &["--min-free", "4000PB"], &["--control", "/nowhere/at/all"]];
    for options in refused {
        for output in [&output, &folder.path().join("kept")] {
            let args = [&["capture", "-r", arg(&input), "-w", arg(output)], options].concat();
            let outcome = run_ringside(&args);
            assert_eq!(outcome.code(), Some(2), "{args:?}: {}", outcome.stderr);
        }
        assert!(!folder.path().join("out").exists(), "{options:?}");
        assert!(folder.path().join("kept").exists(), "{options:?}");
    }
}
