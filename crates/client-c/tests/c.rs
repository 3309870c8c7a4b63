#![forbid(unsafe_code)]
//! The header compiles as C and C++, its struct is ours, and the example reads a ring.

#![allow(clippy::unwrap_used)] // a test may panic, and its helpers with it

use ringside_core::share::{Hello, HelloLane, SHARE_VERSION};
use ringside_core::{Frame, FrameMeta, InterfaceId, QueueId, SourceInterface, Timestamp};
use ringside_ring::{CaptureRing, HugePages, LaneWriter, RingLayout};
use ringside_store::block::{BlockHeader, write_block_header, write_packet_block};
use ringside_sys::fdpass;
use ringside_testkit::need_tool;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const FRAME: [u8; 100] = [7; 100];

fn folder() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Where cargo puts the library: in the test's folder, or one above.
fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let places = test.ancestors().skip(1).take(2);
    let mut libraries = places.map(|folder| folder.join("libringside_client_c.a"));
    libraries.find(|library| library.exists()).expect("cargo built the library for this test")
}

fn compile(compiler: &str, flags: &[&str], source: &Path, output: &Path) {
    let mut command = Command::new(compiler);
    command.args(flags).args(["-Wall", "-Wextra", "-Werror", "-pedantic", "-I"]);
    command.arg(folder().join("include")).arg(source).arg("-o").arg(output);
    if !flags.contains(&"-c") {
        command.arg(library()).args(["-lpcap", "-lpthread", "-ldl", "-lm"]);
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn the_header_is_c_and_cpp_and_its_struct_is_ours() {
    if !need_tool("the_header", "gcc") {
        return;
    }
    let here = tempfile::tempdir().unwrap();
    let source = here.path().join("layout.c");
    let text = "#include \"ringside.h\"\n\
        typedef char size[sizeof(struct ringside_frame) == 32 ? 1 : -1];\n\
        typedef char bytes[offsetof(struct ringside_frame, bytes) == 8 ? 1 : -1];\n\
        typedef char wire[offsetof(struct ringside_frame, wire_bytes) == 20 ? 1 : -1];\n\
        typedef char id[offsetof(struct ringside_frame, interface_id) == 24 ? 1 : -1];\n";
    std::fs::write(&source, text).unwrap();
    compile("gcc", &["-std=c99", "-c"], &source, &here.path().join("layout.o"));
    compile("gcc", &["-xc++", "-c"], &source, &here.path().join("layout++.o"));
}

#[test]
fn the_example_counts_what_it_attaches_to() {
    if !need_tool("the_example", "gcc") {
        return;
    }
    let here = tempfile::tempdir().unwrap();
    let program = here.path().join("count");
    compile("gcc", &["-std=c99"], &folder().join("examples/count.c"), &program);

    let layout =
        RingLayout { lanes: 1, blocks_per_lane: 2, block_bytes: 512 << 10, lossless_readers: 0 };
    let ring = CaptureRing::create(layout, HugePages::No).unwrap();
    ring.seal().unwrap();
    let mut writer = ring.writer(0).unwrap();
    writer.open(0).unwrap();
    let length = write_block_header(writer.tail(), &BlockHeader::default());
    writer.fill(length, 0);
    put(&mut writer, 300);
    let socket = here.path().join("share");
    let listener = UnixListener::bind(&socket).unwrap();
    let mut command = Command::new(&program);
    let mut child = command.arg(&socket).arg("all").stdout(Stdio::piped()).spawn().unwrap();
    let (stream, _) = listener.accept().unwrap();
    fdpass::send_line(&stream, &serde_json::to_vec(&hello()).unwrap(), &[ring.fd()]).unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "attached to rx0\n");
    put(&mut writer, 50);
    writer.finish();
    drop(stream);
    let mut rest = String::new();
    output.read_to_string(&mut rest).unwrap();
    assert_eq!(rest, "frames 350 bytes 35000 missed 0\n");
    assert!(child.wait().unwrap().success());

    let refused = Command::new(&program).arg(here.path().join("nobody")).output().unwrap();
    assert_eq!(refused.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&refused.stderr).contains("cannot connect"));
}

fn put(writer: &mut LaneWriter, frames: u64) {
    for number in 0..frames {
        let meta = FrameMeta {
            timestamp: Timestamp(1 + number),
            wire_bytes: FRAME.len() as u32,
            ..FrameMeta::default()
        };
        let length = write_packet_block(writer.tail(), &Frame { bytes: &FRAME, meta }, 0);
        writer.fill(length, 1);
        writer.set_times(1, 1 + number);
    }
    writer.publish();
}

fn hello() -> Hello {
    let interface = SourceInterface::ethernet("rx0");
    let lane =
        HelloLane { interface: "rx0".into(), interface_id: InterfaceId(0), queue: QueueId(0) };
    Hello {
        version: SHARE_VERSION,
        owner: "a test".into(),
        pid: std::process::id(),
        interfaces: vec![interface],
        lanes: vec![lane],
        block_timeout_ns: 0,
    }
}
