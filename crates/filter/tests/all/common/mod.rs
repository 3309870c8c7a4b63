//! Shared by the tests of `filter` and `ebpf`: the table of expressions, the real captures.

#![allow(dead_code)] // Each test uses a part.

pub mod expressions;

use ringside_core::LinkType;
use ringside_core::bpf::ClassicProgram;
use ringside_filter::{Compiler, compile};
use std::path::PathBuf;

/// Frames of one capture file.
pub struct CaptureFile {
    pub path: PathBuf,
    pub link_type: LinkType,
    pub frames: Vec<CapturedFrame>,
}

/// One frame of a file.
pub struct CapturedFrame {
    pub bytes: Vec<u8>,
    pub wire_bytes: u32,
}

/// Every capture that libpcap can open, each as far as it can be read.
pub fn captures(test: &str) -> Vec<CaptureFile> {
    ringside_testkit::capture_files(test).into_iter().filter_map(read).collect()
}

fn read(path: PathBuf) -> Option<CaptureFile> {
    let mut capture = pcap::Capture::from_file(&path).ok()?;
    let link_type = link_type(capture.get_datalink().0);
    let mut frames = Vec::new();
    while let Ok(packet) = capture.next_packet() {
        frames.push(CapturedFrame { bytes: packet.data.to_vec(), wire_bytes: packet.header.len });
    }
    Some(CaptureFile { path, link_type, frames })
}

/// The other way round than `ringside_filter::libpcap::dlt`.
fn link_type(dlt: i32) -> LinkType {
    LinkType(match dlt {
        11 => 100,
        12 => 101,
        16 => 102,
        15 => 103,
        19 => 106,
        other => u16::try_from(other).unwrap(),
    })
}

/// Compiles in this process; `None` if libpcap refuses it for the link type.
pub fn program(expression: &str, link_type: LinkType, optimise: bool) -> Option<ClassicProgram> {
    let compiler = Compiler::InProcess { optimise };
    compile(expression, link_type, 0, &compiler).ok().map(|compiled| compiled.program)
}
