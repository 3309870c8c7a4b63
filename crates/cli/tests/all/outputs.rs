//! What `-w` makes: which file, under which name, and who may write it.

use crate::common::*;
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
