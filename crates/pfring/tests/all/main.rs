#![forbid(unsafe_code)]
//! Rings of a library that plays PF_RING's, fed from files.

#![allow(clippy::unwrap_used)]

use ringside_pfring::{Device, Library, Received, Ring, RingOptions, Sender};
use ringside_testkit::{fakes, skip};
use std::path::Path;
use tempfile::TempDir;

const OPTIONS: RingOptions = RingOptions {
    caplen: 1_514,
    promiscuous: false,
    hardware_stamps: false,
    sent_too: false,
    cluster: None,
};

/// The library and a folder for files; skips `test` without a compiler.
fn library(test: &str) -> Option<(Library, TempDir)> {
    let folder = tempfile::tempdir().unwrap();
    match fakes::pf_ring(folder.path()) {
        Ok(path) => Some((Library::at(&path).unwrap(), folder)),
        Err(error) => {
            skip(test, &error);
            None
        }
    }
}

/// A file of pcap with `count` frames, each longer than the one before, a microsecond apart.
fn write_frames(path: &Path, count: u32) {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4u32, 4 << 16 | 2, 0, 0, 65_535, 1] {
        file.extend(word.to_le_bytes());
    }
    for number in 0..count {
        let bytes = bytes_of(number);
        for word in [1_000, number, bytes, bytes] {
            file.extend(word.to_le_bytes());
        }
        file.extend(vec![number as u8; bytes as usize]);
    }
    std::fs::write(path, file).unwrap();
}

fn bytes_of(number: u32) -> u32 {
    60 + number * 2
}

fn device(folder: &TempDir, words: &str) -> Device {
    Device::named(&format!("pf-ring:fake:{}{words}", folder.path().join("frames").display()))
}

fn take(ring: &mut Ring, most: usize) -> Vec<(Received, Vec<u8>)> {
    ring.receive(most).unwrap();
    let bytes = |frame: &Received| ring.memory()[frame.offset..][..frame.bytes as usize].to_vec();
    ring.frames().map(|frame| (frame, bytes(&frame))).collect()
}

#[test]
fn frames_come_in_bursts_and_cut_with_their_lengths_and_stamps() {
    let Some((library, folder)) = library("pfring: frames_come_in_bursts") else { return };
    assert_eq!(library.release(), "8.9.0");
    write_frames(&folder.path().join("frames"), 1_000);
    let mut ring = Ring::open(library, &device(&folder, ""), &OPTIONS).unwrap();
    assert!(ring.receive(1).unwrap_err().to_string().contains("not enabled"));
    ring.enable().unwrap();
    assert_eq!(ring.queued(), Some(1_000));
    let mut number = 0;
    while !ring.is_empty() {
        let burst = take(&mut ring, 100);
        assert_eq!(burst.len(), 100);
        for (frame, bytes) in burst {
            assert_eq!(frame.wire_bytes, bytes_of(number));
            assert_eq!(bytes, vec![number as u8; bytes_of(number).min(1_514) as usize]);
            assert_eq!(frame.stamp_ns, 1_000_000_000_000 + u64::from(number) * 1_000);
            assert!(frame.stamps_agree);
            number += 1;
        }
    }
    assert_eq!((number, take(&mut ring, 100).len()), (1_000, 0));
    assert_eq!(ring.statistics().unwrap().read, 1_000);
}

#[test]
fn losses_are_counted_and_what_ends_a_ring_says_why() {
    let Some((library, folder)) = library("pfring: losses_are_counted") else { return };
    write_frames(&folder.path().join("frames"), 100);
    let device = device(&folder, ",drop=10,error=70,channels=4");
    let mut ring = Ring::open(library, &device, &OPTIONS).unwrap();
    assert_eq!(ring.channels(), 4);
    ring.enable().unwrap();
    // What came before the end is lent first.
    assert_eq!(take(&mut ring, 256).len(), 70);
    let error = ring.receive(256).unwrap_err().to_string();
    assert!(error.contains("demonstration is over"), "{error}");
    let counted = ring.statistics().unwrap();
    assert_eq!((counted.read, counted.dropped, ring.queued()), (70, 10, Some(20)));
}

#[test]
fn what_is_missing_is_named_with_the_fix() {
    let Some((library, _folder)) = library("pfring: what_is_missing") else { return };
    let nowhere = Device::named("rsnowhere9");
    let error = Ring::open(library, &nowhere, &OPTIONS).err().unwrap().to_string();
    assert!(error.contains("modprobe pf_ring") && error.contains("pfring-dkms"), "{error}");
    assert!(Sender::open(library, &nowhere).is_err());
    let error = Ring::open(library, &Device::named("eth\x001"), &OPTIONS).err().unwrap();
    assert!(error.to_string().contains("no name"), "{error}");
}
