//! Files of RFC 5655.

use crate::collector::*;
use ringside_core::Timestamp;
use ringside_export::{Address, ExportError, Outlet};
use ringside_flow::{Format, RecordSink};
use std::fs;

#[test]
fn a_file_holds_the_messages_back_to_back_behind_the_templates() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("flows.ipfix");
    fs::write(&path, vec![7; 1 << 20]).unwrap();
    let address = Address::File(path.clone());
    let mut outlet = Outlet::open(&address, Format::Ipfix, &options()).unwrap();
    let busy = Outlet::open(&address, Format::Ipfix, &options()).err().unwrap();
    assert!(matches!(busy, ExportError::Busy { .. }), "{busy}");
    put(&mut outlet, 1..=10_000);
    outlet.finish(Timestamp(START));
    let mut session = Session::counted();
    assert_eq!(session.read_stream(&fs::read(&path).unwrap()), b"", "what was there is gone");
    assert_eq!(session.flow_ids, Vec::from_iter(1..=10_000));
    assert_eq!(outlet.counts().delivered, outlet.counts().total());
    assert_account(&outlet.watch().status(), 10_000);
}

#[test]
fn what_is_no_regular_file_is_refused() {
    for path in ["/dev/null", "/nowhere/at/all"] {
        let outlet = Outlet::open(&Address::File(path.into()), Format::Ipfix, &options());
        let error = outlet.err().unwrap().to_string();
        assert!(error.contains(path), "{error}");
    }
}

#[test]
fn without_an_end_what_was_put_is_accounted_for() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("flows.ipfix");
    let mut outlet = Outlet::open(&Address::File(path), Format::Ipfix, &options()).unwrap();
    let watch = outlet.watch();
    put(&mut outlet, 1..=1_000);
    outlet.tick(Timestamp(START));
    drop(outlet);
    let counts = watch.status().counts;
    assert_eq!(counts.total().records, 1_000);
}
