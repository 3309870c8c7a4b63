//! What `-w` makes: which file, under which name, and who may write it.

use crate::common::wireshark::packets_by_wireshark;
use crate::common::*;
use ringside_core::{Frame, FrameMeta, SourceInterface, Timestamp};
use ringside_store::Format;
use ringside_testkit::need_root;
use ringside_transmit::{SenderKind, Shape, Sizes};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
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
        let by = format!("is being written by process {} (ringside):", running.worker_pid());
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
        let by = format!("{copy}: is being written by process {} (ringside):", reading.pid());
        assert!(refused.stderr.contains(&by), "{args:?}: {}", refused.stderr);
    }
    drop(ours);
    assert_eq!(reading.finish().code(), Some(1), "nothing was copied");
    assert_eq!(run_ringside(&["read", "-r", merged, "-w", copy]).code(), Some(0));
    assert_eq!(frames_of(Path::new(copy)), 100);
}

/// A capture of `frames` frames of 1,400 bytes, a millisecond apart.
fn capture_file(path: &Path, frames: u64) {
    let file = std::fs::File::create(path).unwrap();
    let interfaces = [SourceInterface::ethernet("eth1")];
    let mut writer = Format::Pcapng.writer(file, &interfaces).unwrap();
    for frame in 0..frames {
        let timestamp = Timestamp(1_700_000_000_000_000_000 + frame * 1_000_000);
        let meta = FrameMeta { wire_bytes: 1_400, timestamp, ..FrameMeta::default() };
        // Bytes that compress, but not to nothing.
        let bytes: Vec<u8> = (0..1_400u64).map(|at| ((at * (frame | 1)) >> 5) as u8).collect();
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

#[test]
fn what_is_made_for_another_user_goes_again_if_the_run_is_refused() {
    if !need_root("what_is_made_for_another_user") {
        return;
    }
    const NOBODY: u32 = 65_534;
    let folder = tempfile::tempdir().unwrap();
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(folder.path(), mode).unwrap();
    let (input, output) = (folder.path().join("in.pcapng"), folder.path().join("out/deep"));
    capture_file(&input, 1);
    let run = |options: &[&str]| {
        let args = ["capture", "-r", arg(&input), "-w", arg(&output), "-Z", "nobody"];
        run_ringside(&[&args, options].concat())
    };
    for options in [["--limit-bytes", "1kB"], ["--min-free", "4000PB"]] {
        for keeper in [&[][..], &["--no-keeper"]] {
            let outcome = run(&[&options, keeper].concat());
            assert_eq!(outcome.code(), Some(2), "{options:?}: {}", outcome.stderr);
            assert!(!folder.path().join("out").exists(), "{options:?} {keeper:?}");
        }
    }
    let outcome = run(&[]);
    assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
    let owner = |path: &Path| std::fs::metadata(path).unwrap().uid();
    assert_eq!((owner(&output), owner(&folder.path().join("out"))), (NOBODY, 0));
    assert_eq!(files_in(&output).len(), 1);
}

#[test]
fn what_ends_in_gz_or_zst_is_compressed() {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("in.pcapng");
    capture_file(&input, 3_000);
    for (command, name, magic) in [
        ("read", "a.pcap.gz", &[0x1f, 0x8b][..]),
        ("read", "a.pcapng.zst", &[0x28, 0xb5, 0x2f, 0xfd]),
        ("capture", "b.pcapng.gz", &[0x1f, 0x8b]),
        ("capture", "b.pcap.zst", &[0x28, 0xb5, 0x2f, 0xfd]),
    ] {
        let output = folder.path().join(name);
        let outcome = run_ringside(&[command, "-r", arg(&input), "-w", arg(&output)]);
        assert_eq!(outcome.code(), Some(0), "{name}: {}", outcome.stderr);
        let bytes = std::fs::read(&output).unwrap();
        assert!(bytes.starts_with(magic), "{name}");
        assert!(bytes.len() < 3_000 * 1_400 / 2, "{name}: {} bytes", bytes.len());
        assert_eq!(packets_by_wireshark(&output), 3_000, "{name}");
        let read = run_ringside(&["read", "-r", arg(&output)]);
        assert_eq!((read.code(), read.packets()), (Some(0), 3_000), "{name}");
        if command == "capture" {
            let said = format!("ringside read -r '{}'", arg(&output));
            assert!(outcome.stderr.contains(&said), "{}", outcome.stderr);
        }
    }
    // Rotated, the number stands before both endings.
    let output = folder.path().join("c.pcap.gz");
    let args = ["capture", "-r", arg(&input), "-w", arg(&output), "-C", "1200kB"];
    let outcome = run_ringside(&args);
    assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
    let files: Vec<_> = files_in(folder.path());
    let files: Vec<_> = files.iter().filter(|path| arg(path).contains("/c-00000")).collect();
    assert!(files.len() > 1 && files.iter().all(|path| arg(path).ends_with(".pcap.gz")));
    assert_eq!(files.iter().map(|path| packets_by_wireshark(path)).sum::<u64>(), 3_000);
}

#[test]
fn a_killed_worker_leaves_a_compressed_file_of_what_the_ledger_says() {
    if !need_root("a_killed_worker_leaves_a_compressed_file") {
        return;
    }
    let network = Network::up();
    let folder = tempfile::tempdir().unwrap();
    for name in ["a.pcapng.gz", "cap-%Y%m%d-%H%M%S.pcap.zst"] {
        let output = folder.path().join(name);
        let args = ["-i", "rx0", "-w", arg(&output), "-G", "1h"];
        let running = network.capture(&args[..if name.contains('%') { 6 } else { 4 }]);
        // What came after the first has the writer say what it had done with the first.
        for delivered in [400, 800] {
            send(&network, 400);
            running.wait_for_stdout(&format!("\"delivered\":{delivered}"));
        }
        running.signal_worker(rustix::process::Signal::KILL);
        let outcome = running.finish();
        let ledger = outcome.ledger();
        assert_eq!(ledger.balance(), Ok(()), "{ledger:#?}");
        let file = files_in(folder.path()).pop().unwrap();
        let delivered = ledger.consumers[0].delivered;
        assert!(delivered >= 400, "{name}: {}", outcome.stderr);
        assert_eq!(packets_by_wireshark(&file), delivered, "{name}");
        std::fs::remove_file(file).unwrap();
    }
}

#[test]
fn a_name_that_may_mean_both_is_refused_with_both_ways() {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("in.pcapng");
    capture_file(&input, 10);
    let made = |output: &str, options: &[&str]| {
        let output = format!("{}/{output}", arg(folder.path()));
        let args = [&["capture", "-r", arg(&input), "-w", &output], options].concat();
        let outcome = run_ringside(&args);
        let path = Path::new(&output);
        let kind = match (path.is_dir(), path.is_file()) {
            (true, _) => "directory",
            (_, true) => "file",
            _ => "nothing",
        };
        (outcome.code(), kind, outcome.stderr)
    };
    let (code, kind, said) = made("cap.txt", &[]);
    assert_eq!((code, kind), (Some(2), "nothing"), "{said}");
    assert!(said.contains("cap.pcapng or .pcap") && said.contains("cap.txt/"), "{said}");
    for (output, options, expected) in [
        ("dotted.d/", &[][..], "directory"),
        ("dotted.d", &[], "directory"),
        ("x.pcap/", &[], "directory"),
        ("plain", &[], "directory"),
        (".hidden", &[], "directory"),
        ("cap.txt", &["--format", "pcap"], "file"),
        ("cap.ntar", &[], "file"),
        ("cap.CAP.GZ", &[], "file"),
    ] {
        let (code, kind, said) = made(output, options);
        assert_eq!((code, kind), (Some(0), expected), "{output}: {said}");
    }
    for (output, options, expected) in [
        ("cap-%H%M%S.pcapng", &[][..], "add -G"),
        ("cap-%Y.pcapng", &["-G", "60"], "the same name"),
        ("cap-%H", &["-G", "1h"], "its ending names no format"),
    ] {
        let (code, _, said) = made(output, options);
        assert_eq!(code, Some(2), "{output}: {said}");
        assert!(said.contains(expected), "{output}: {said}");
    }
}

#[test]
fn files_are_named_by_the_local_time_at_which_they_begin() {
    if !need_root("files_are_named_by_the_local_time") {
        return;
    }
    let network = Network::up();
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("cap-%Y%m%d-%H%M%S%z.pcapng");
    let mut command = network.capture_command();
    command.env("TZ", "Asia/Kolkata").args(["-i", "rx0", "-w", arg(&output), "-G", "1", "--json"]);
    let running = Running::start(command);
    running.wait_for_stderr("listening on");
    wait_until("a second file", || {
        send(&network, 1);
        files_in(folder.path()).len() >= 2
    });
    let outcome = running.stop();
    let ledger = outcome.ledger();
    assert_eq!((outcome.code(), ledger.balance()), (Some(0), Ok(())), "{}", outcome.stderr);
    let files = files_in(folder.path());
    assert_eq!(files.iter().map(|file| frames_of(file)).sum::<u64>(), ledger.taken);
    for file in files {
        let name = file.file_name().unwrap().to_str().unwrap();
        let is_local = name.starts_with("cap-20") && name.ends_with("+0530.pcapng");
        assert!(is_local && name.len() == "cap-20261124-235959+0530.pcapng".len(), "{name}");
    }
}
