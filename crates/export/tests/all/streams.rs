//! TCP: whole messages in order, whatever becomes of connections.

use crate::collector::*;
use ringside_core::Timestamp;
use ringside_export::{Address, Options, Outlet, State};
use ringside_flow::{Format, RecordSink};
use ringside_testkit::wait_until;
use rustix::io::ioctl_fionread;
use rustix::net::RecvFlags;
use std::io::{Read, Write};
use std::net::TcpListener;

/// Everything that comes until the other side closes, as one session.
fn read_all(listener: &TcpListener) -> Session {
    let (mut stream, _) = listener.accept().unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).unwrap();
    let mut session = Session::counted();
    assert_eq!(session.read_stream(&bytes), b"", "whole messages");
    session
}

#[test]
fn a_collector_gets_all_in_order_behind_the_templates() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut outlet = tcp(listener.local_addr().unwrap().port(), &options());
    let watch = outlet.watch();
    let reader = std::thread::spawn(move || read_all(&listener));
    put(&mut outlet, 1..=3_000);
    assert_account(&watch.status(), watch.status().counts.total().records);
    assert_eq!(outlet.counts().total().records, 3_000);
    outlet.finish(Timestamp(START));
    assert_eq!(reader.join().unwrap().flow_ids, Vec::from_iter(1..=3_000));
    let status = watch.status();
    assert_eq!((status.counts.delivered.records, status.connections), (3_000, 1));
    assert_eq!((status.state, status.sent_again), (State::Ended, 0));
    assert_eq!(status.counts.delivered, outlet.counts().total());
    let text = serde_json::to_value(&status).unwrap();
    assert_eq!(text["counts"]["delivered"]["records"], 3_000);
}

#[test]
fn several_collectors_have_accounts_of_their_own() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = Silent::new();
    let brief = Options { finish: std::time::Duration::ZERO, ..options() };
    let mut one = tcp(listener.local_addr().unwrap().port(), &options());
    let mut other = tcp(silent.port(), &brief);
    let reader = std::thread::spawn(move || read_all(&listener));
    for id in 1..=100 {
        one.put(&record(id), "", Timestamp(START));
        other.put(&record(id), "", Timestamp(START));
    }
    other.finish(Timestamp(START));
    one.finish(Timestamp(START));
    assert_eq!(reader.join().unwrap().flow_ids.len(), 100);
    assert_eq!(one.counts().delivered.records, 100);
    assert_eq!(other.counts().undelivered.records, 100, "{:?}", other.watch().status());
}

#[test]
fn without_a_spool_memory_is_bounded_and_what_does_not_fit_is_counted() {
    let silent = Silent::new();
    let queue_bytes = 64 << 10;
    let mut outlet = tcp(silent.port(), &Options { queue_bytes, ..options() });
    let watch = outlet.watch();
    wait_status(&watch, "a vain try", |status| status.state == State::Away);
    put(&mut outlet, 1..=20_000);
    let status = watch.status();
    assert_account(&status, status.counts.total().records);
    // The queue, a megabyte on its way, and a batch that the thread takes beyond that.
    let most = (queue_bytes + (1 << 20) + (256 << 10)) as u64 / 100;
    assert!(status.counts.waiting.records < most, "{status:?}");
    assert!(status.counts.queue_full.records > 0, "{status:?}");
    let lost = status.counts.queue_full.records;
    let listener = silent.listen();
    let reader = std::thread::spawn(move || read_all(&listener));
    outlet.finish(Timestamp(START));
    let session = reader.join().unwrap();
    assert!(session.flow_ids.is_sorted_by(|a, b| a < b));
    let counts = outlet.counts();
    assert_eq!(counts.delivered.records, session.flow_ids.len() as u64);
    assert!(counts.queue_full.records >= lost);
    assert_eq!(counts.total().records, 20_000);
    assert_eq!(counts.lost(), counts.queue_full);
}

#[test]
fn a_meter_that_can_wait_loses_nothing_to_a_slow_collector() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let options = Options { queue_bytes: 16 << 10, waits_for_room: true, ..options() };
    let mut outlet = tcp(listener.local_addr().unwrap().port(), &options);
    let reader = std::thread::spawn(move || read_all(&listener));
    put(&mut outlet, 1..=50_000);
    outlet.finish(Timestamp(START));
    assert_eq!(reader.join().unwrap().flow_ids, Vec::from_iter(1..=50_000));
    assert_eq!(outlet.counts().delivered.records, 50_000);
}

#[test]
fn what_was_not_acknowledged_when_a_connection_broke_is_sent_again_whole() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    // Inherited by the connections: little is acknowledged without being read.
    rustix::net::sockopt::set_socket_recv_buffer_size(&listener, 4096).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let spool = spooled_in(folder.path());
    let mut outlet =
        tcp(listener.local_addr().unwrap().port(), &Options { spool: Some(spool), ..options() });
    let watch = outlet.watch();
    let (broken, _) = listener.accept().unwrap();
    put(&mut outlet, 1..=60_000);
    wait_status(&watch, "more than fits on the way", |s| s.counts.spooled.records > 0);
    // The window is closed: what the kernel holds here is all that was acknowledged.
    let mut held = vec![0; ioctl_fionread(&broken).unwrap() as usize];
    let mut seen = Session::counted();
    wait_until("a closed window", || {
        let before = held.len();
        held.resize(ioctl_fionread(&broken).unwrap() as usize, 0);
        held.len() == before && !held.is_empty()
    });
    let (bytes, _) = rustix::net::recv(&broken, &mut held[..], RecvFlags::PEEK).unwrap();
    seen.read_stream(&held[..bytes]);
    // Closed with unread bytes: a reset.
    drop(broken);
    let reader = std::thread::spawn(move || read_all(&listener));
    outlet.finish(Timestamp(START));
    let session = reader.join().unwrap();
    let first = session.flow_ids[0];
    assert!(first <= seen.flow_ids.len() as u64 + 1, "nothing between is missing");
    assert_eq!(session.flow_ids, Vec::from_iter(first..=60_000));
    let status = watch.status();
    assert_account(&status, 60_000);
    assert_eq!(status.counts.delivered.records, 60_000);
    assert_eq!(status.connections, 2);
    assert!(status.sent_again > 0);
}

#[test]
fn a_collector_that_closes_at_once_again_and_again_costs_no_record() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut outlet = tcp(listener.local_addr().unwrap().port(), &options());
    let watch = outlet.watch();
    for _ in 0..20 {
        drop(listener.accept().unwrap());
    }
    wait_status(&watch, "an end that was noticed", |status| status.error.is_some());
    let (stream, _) = listener.accept().unwrap();
    let reader = std::thread::spawn(move || {
        let (mut stream, mut bytes) = (stream, Vec::new());
        // What it says means nothing to an exporter.
        stream.write_all(b"hello").unwrap();
        stream.read_to_end(&mut bytes).unwrap();
        let mut session = Session::counted();
        assert_eq!(session.read_stream(&bytes), b"");
        session.flow_ids
    });
    put(&mut outlet, 1..=500);
    outlet.finish(Timestamp(START));
    assert_eq!(reader.join().unwrap(), Vec::from_iter(1..=500));
    assert!(watch.status().connections >= 21);
}

#[test]
fn netflow_before_ipfix_has_no_form_for_streams() {
    for text in ["tcp:127.0.0.1", "file:/nowhere/flows"] {
        let address: Address = text.parse().unwrap();
        for format in [Format::Netflow5, Format::Netflow9] {
            let error = Outlet::open(&address, format, &options()).err().unwrap().to_string();
            assert!(error.contains(format.name()) && error.contains("IPFIX alone"), "{error}");
        }
    }
}

fn spooled_in(folder: &std::path::Path) -> ringside_export::SpoolOptions {
    ringside_export::SpoolOptions { folder: folder.join("spool"), bytes_max: 64 << 20 }
}
