use super::*;
use crate::backend::OpenRequest;
use crate::backend::tests::take_rest;
use ringside_core::{Cause, Source, SourceError, TimestampKind};
use ringside_pfring::Library;
use ringside_testkit::{fakes, skip};
use std::time::Duration;
use tempfile::TempDir;

/// Frames of the file.
const FRAMES: u32 = 400;

/// A library that plays PF_RING's, and a folder with a file of frames; skips `test` without.
fn library(test: &str) -> Option<(Library, TempDir)> {
    let folder = tempfile::tempdir().unwrap();
    let library = match fakes::pf_ring(folder.path()) {
        Ok(path) => Library::at(&path).unwrap(),
        Err(error) => {
            skip(test, &error);
            return None;
        }
    };
    let mut file: Vec<u8> = Vec::new();
    for word in [0xa1b2_c3d4u32, 4 << 16 | 2, 0, 0, 65_535, 1] {
        file.extend(word.to_le_bytes());
    }
    for number in 0..FRAMES {
        for word in [7, number, 100, 100] {
            file.extend(word.to_le_bytes());
        }
        file.extend([number as u8; 100]);
    }
    std::fs::write(folder.path().join("frames"), file).unwrap();
    Some((library, folder))
}

fn request(folder: &TempDir, words: &str, lanes: u16) -> OpenRequest {
    let device = format!("{PREFIX}fake:{}{words}", folder.path().join("frames").display());
    OpenRequest { lanes: Some(lanes), ..OpenRequest::new(&device) }
}

#[test]
fn as_many_lanes_as_receive_queues_are_these() {
    let Some((library, folder)) = library("as_many_lanes_as_receive_queues_are_these") else {
        return;
    };
    let opened = open_by(library, &request(&folder, ",channels=3", 3)).unwrap();
    assert_eq!(opened.way.unwrap(), "PF_RING 8.9.0, one ring a receive queue");
    assert_eq!(opened.lanes.len(), 3);
    // A file has no flows that the module could spread.
    let error = open_by(library, &request(&folder, ",channels=3", 2)).err().unwrap().to_string();
    assert!(error.contains("joining a cluster: this device cannot do it"), "{error}");
}

#[test]
fn lost_frames_are_received_and_dropped() {
    let Some((library, folder)) = library("lost_frames_are_received_and_dropped") else { return };
    let opened = open_by(library, &request(&folder, ",drop=8", 1)).unwrap();
    let mut source: Box<dyn Source> = opened.lanes.into_iter().next().unwrap().0;
    source.start().unwrap();
    source.detach().unwrap();
    let lent = take_rest(source.as_mut());
    assert_eq!(lent.len() as u32, FRAMES - FRAMES / 8);
    assert!(lent.iter().all(|frame| frame.meta.timestamp_kind == TimestampKind::Kernel));
    let counters = source.counters();
    assert_eq!((counters.received, counters.in_flight), (Some(FRAMES.into()), Some(0)));
    assert_eq!(counters.dropped, [(Cause::KernelRingFull, u64::from(FRAMES / 8))].into());
}

#[test]
fn a_device_that_counts_nothing_is_read_to_its_end() {
    let Some((library, folder)) = library("a_device_that_counts_nothing") else { return };
    let opened = open_by(library, &request(&folder, ",bare=1", 1)).unwrap();
    let mut source: Box<dyn Source> = opened.lanes.into_iter().next().unwrap().0;
    source.start().unwrap();
    source.detach().unwrap();
    assert_eq!(take_rest(source.as_mut()).len() as u32, FRAMES);
    let counters = source.counters();
    assert_eq!((counters.received, counters.filtered), (None, Some(0)));
}

/// As when the demonstration of a driver without a licence is over.
#[test]
fn a_ring_that_ends_by_itself_has_an_exact_account() {
    let Some((library, folder)) = library("a_ring_that_ends_by_itself") else { return };
    let opened = open_by(library, &request(&folder, ",error=300", 1)).unwrap();
    let mut source: Box<dyn Source> = opened.lanes.into_iter().next().unwrap().0;
    source.start().unwrap();
    let mut lent = 0;
    let error = loop {
        match source.next_batch(Duration::from_millis(1)) {
            Ok(batch) => lent += batch.map_or(0, |batch| batch.frame_count()),
            Err(error) => break error,
        }
    };
    assert!(
        matches!(&error, SourceError::Io { source, .. }
        if source.to_string().contains("demonstration is over")),
        "{error}"
    );
    assert!(source.is_finished());
    assert_eq!((lent, source.counters().received), (300, Some(300)));
}

#[test]
fn devices_have_the_names_of_their_interfaces_for_the_kernel() {
    for (name, kernel) in [
        ("pf-ring:zc:eth1@2", "eth1"),
        ("pf-ring:eth1", "eth1"),
        ("eth1", "eth1"),
        ("pf-ring:pcap:a", "pf-ring:pcap:a"),
    ] {
        assert_eq!(kernel_name(name), kernel);
    }
}
