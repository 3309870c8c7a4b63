//! `ringside read` on a pipe: what has come is printed at once, and a signal loses none of it.

use crate::common::*;
use ringside_core::{Frame, FrameMeta, SourceInterface, Timestamp};
use ringside_store::{Format, FrameWriter};
use rustix::process::Signal;
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};

/// What a writer of captures writes to, given out as it is asked for.
#[derive(Clone, Default)]
struct Bytes(Arc<Mutex<Vec<u8>>>);

impl Write for Bytes {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A capture that is written step by step.
struct Stream {
    bytes: Bytes,
    writer: Box<dyn FrameWriter>,
    frames: u64,
}

impl Stream {
    fn new(format: Format) -> Stream {
        let bytes = Bytes::default();
        let writer = format.writer(bytes.clone(), &[SourceInterface::ethernet("eth1")]).unwrap();
        Stream { bytes, writer, frames: 0 }
    }

    /// `frames` more frames, or only the header; each frame has a second of its own.
    fn next(&mut self, frames: u64) -> Vec<u8> {
        for _ in 0..frames {
            self.frames += 1;
            let (bytes, timestamp) = ([7; 60], Timestamp(self.frames * 1_000_000_000));
            let meta = FrameMeta { wire_bytes: 60, timestamp, ..FrameMeta::default() };
            self.writer.write(&Frame { bytes: &bytes, meta }).unwrap();
        }
        self.writer.flush().unwrap();
        std::mem::take(&mut *self.bytes.0.lock().unwrap())
    }
}

fn lines(running: &Running) -> usize {
    packet_lines(&String::from_utf8(running.stdout_so_far()).unwrap()).count()
}

#[test]
fn read_prints_from_a_pipe_as_packets_come_and_a_signal_loses_none() {
    for (signal, format) in
        [(Signal::INT, Format::Pcapng), (Signal::TERM, Format::Pcap), (Signal::HUP, Format::Pcap)]
    {
        let (theirs, mut ours) = std::io::pipe().unwrap();
        let mut stream = Stream::new(format);
        ours.write_all(&stream.next(0)).unwrap();
        let mut command = Command::new("env");
        command.arg("--default-signal=INT,HUP").arg(ringside()).args(["read", "-tt", "-r", "-"]);
        command.stdin(theirs).stdout(Stdio::piped());
        let running = Running::start_directed(command);
        for count in [1, 3] {
            ours.write_all(&stream.next(count)).unwrap();
            wait_until("a line for each packet", || lines(&running) as u64 >= stream.frames);
        }
        running.signal(Signal::USR1);
        running.wait_for_stderr("4 packets read, 4 of them match");
        // All in the pipe when the signal comes: what came after it could be after a pause.
        ours.write_all(&stream.next(520)).unwrap();
        running.signal(signal);
        let outcome = running.finish();
        assert_eq!(outcome.code(), Some(0), "{signal:?}: {}", outcome.stderr);
        assert_eq!(outcome.packets() as u64, stream.frames, "{signal:?}");
        drop(ours);
    }
}

#[test]
fn read_ends_on_a_signal_although_a_writer_goes_on() {
    let (theirs, ours) = std::io::pipe().unwrap();
    let mut command = Command::new(ringside());
    command.args(["read", "-r", "-"]).stdin(theirs).stdout(Stdio::piped());
    let running = Running::start_directed(command);
    let writer = std::thread::spawn(move || {
        let (mut ours, mut stream) = (ours, Stream::new(Format::Pcap));
        while ours.write_all(&stream.next(100)).is_ok() {}
    });
    wait_until("lines", || lines(&running) > 0);
    let outcome = running.stop();
    assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
    writer.join().unwrap();
}

#[test]
fn a_copy_that_a_signal_ends_says_how_many_packets_it_holds() {
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("copy.pcap");
    for (output, name) in [(arg(&copy), arg(&copy)), ("-", "standard output")] {
        let (theirs, mut ours) = std::io::pipe().unwrap();
        let mut stream = Stream::new(Format::Pcap);
        ours.write_all(&stream.next(3)).unwrap();
        let mut command = Command::new(ringside());
        command.args(["read", "-r", "-", "--format", "pcap", "-w", output]);
        command.stdin(theirs).stdout(Stdio::piped());
        let running = Running::start_directed(command);
        // A header of 24 bytes, and three records of 16 and 60.
        let written = || match output {
            "-" => running.stdout_so_far().len() as u64,
            _ => std::fs::metadata(&copy).map_or(0, |copy| copy.len()),
        };
        wait_until("three packets", || written() == 24 + 3 * 76);
        running.signal(Signal::TERM);
        let outcome = running.finish();
        assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
        let said = format!("ended by a signal: 3 packets copied to {name}");
        assert!(outcome.stderr.contains(&said), "{said}: {}", outcome.stderr);
        drop(ours);
    }
}

#[test]
fn a_question_before_the_first_byte_of_a_pipe_is_answered() {
    let (theirs, mut ours) = std::io::pipe().unwrap();
    let mut command = Command::new(ringside());
    command.args(["read", "-r", "-"]).stdin(theirs).stdout(Stdio::piped());
    let running = Running::start_directed(command);
    // Signals that are caught (proc(5)), signal 1 in bit 0.
    let catches = || {
        let status = std::fs::read_to_string(format!("/proc/{}/status", running.pid())).unwrap();
        let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
        u64::from_str_radix(mask.trim(), 16).unwrap() >> (Signal::USR1.as_raw() - 1) & 1 == 1
    };
    wait_until("SIGUSR1 is caught", catches);
    running.signal(Signal::USR1);
    ours.write_all(&Stream::new(Format::Pcap).next(1)).unwrap();
    running.wait_for_stderr("0 packets read, 0 of them match");
    drop(ours);
    let outcome = running.finish();
    assert_eq!((outcome.code(), outcome.packets()), (Some(0), 1), "{outcome:?}");
}
