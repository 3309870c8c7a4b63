//! Records of recorded packets: how many, of what size, and what is said of those that are missing.
//! That they are those of the commands is tested where the commands are.

use crate::common::{Served, datagram, limits, with_service, write_pcap};
use ringside_core::Ledger;
use ringside_serve::{Config, Limits};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// More than a batch of the reader has.
const FLOWS: u16 = 600;
const KINDS: [&str; 5] =
    ["records/flows", "records/http", "records/dns", "records/tls", "records/calls"];

/// A packet from 10.0.0.1 to 10.0.0.2.
fn frame(ports: [u16; 2], payload: &[u8]) -> Vec<u8> {
    datagram([10, 0, 0, 1, 10, 0, 0, 2], ports, payload)
}

/// A capture of one packet of each flow, each longer than that before it, and of one question for
/// each name.
fn recorded(folder: &Path) -> PathBuf {
    let flows = (0..FLOWS).map(|at| frame([1000 + at, 9999], &vec![0; usize::from(at)]));
    let question = |at: u16| {
        let mut query = at.to_be_bytes().to_vec();
        query.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 4, b'n', b'a', b'm', b'e', 0, 0, 1, 0, 1]);
        frame([3000 + at, 53], &query)
    };
    let frames = flows.chain((0..FLOWS).map(question));
    let path = folder.join("recorded.pcap");
    write_pcap(&path, (0..).zip(frames));
    path
}

/// A service of that capture.
fn served(limits: Limits, work: impl FnOnce(&Served)) {
    let folder = tempfile::tempdir().unwrap();
    let recordings = vec![recorded(folder.path())];
    with_service(Ledger::default(), Config { recordings, limits, ..Config::default() }, work);
}

/// The records of an answer, and what it says is missing.
fn ask(service: &Served, path: &str) -> (Vec<Value>, Vec<String>) {
    let answer = service.get(&format!("/api/v1/{path}"));
    assert_eq!(answer.status, 200, "{answer:?}");
    let answer = answer.json();
    let missing = answer["incomplete"].as_array().unwrap().iter();
    let causes = missing.map(|missing| missing["cause"].as_str().unwrap().to_owned()).collect();
    (answer["records"].as_array().unwrap().clone(), causes)
}

fn sum(records: &[Value], name: &str) -> u64 {
    records.iter().map(|record| record[name].as_u64().unwrap()).sum()
}

#[test]
fn the_largest_flows_come_first_and_the_first_questions() {
    served(limits(), |service| {
        let (flows, missing) = ask(service, "records/flows?limit=10000");
        assert_eq!((flows.len(), missing.len()), (2 * usize::from(FLOWS), 0));
        assert!(flows.is_sorted_by(|one, other| one["bytes"].as_u64() >= other["bytes"].as_u64()));
        let (first, missing) = ask(service, "records/flows?limit=10");
        assert_eq!((&first[..], missing), (&flows[..10], vec!["limit".to_owned()]));
        assert_eq!(first[0]["src_port"], 1000 + FLOWS - 1);

        let (names, missing) = ask(service, "records/dns");
        assert_eq!((names.len(), missing.len()), (usize::from(FLOWS), 0));
        let (first, missing) = ask(service, "records/dns?limit=7");
        assert_eq!((&first[..], missing), (&names[..7], vec!["limit".to_owned()]));
        for kind in ["records/http", "records/tls", "records/calls"] {
            assert_eq!(ask(service, kind), (Vec::new(), Vec::new()), "{kind}");
        }
    });
}

#[test]
fn talkers_are_the_ends_of_all_flows() {
    served(limits(), |service| {
        let (flows, _) = ask(service, "records/flows?limit=10000");
        let (talkers, missing) = ask(service, "talkers");
        assert_eq!((talkers.len(), missing.len()), (2, 0));
        let of = |address: &str| {
            talkers.iter().find(|talker| talker["address"] == address).unwrap().clone()
        };
        let bytes = sum(&flows, "bytes");
        for (address, sent, received) in [("10.0.0.1", bytes, 0), ("10.0.0.2", 0, bytes)] {
            let talker = of(address);
            assert_eq!(
                (&talker["sent_bytes"], &talker["received_bytes"]),
                (&sent.into(), &received.into())
            );
            assert_eq!((&talker["bytes"], &talker["flows"]), (&bytes.into(), &flows.len().into()));
            assert_eq!(talker["packets"], sum(&flows, "packets"));
        }
        let (largest, missing) = ask(service, "talkers?limit=1");
        assert_eq!((&largest[..], missing), (&talkers[..1], vec!["limit".to_owned()]));
    });
}

#[test]
fn what_ends_an_answer_is_said_in_it() {
    for (limits, cause) in [
        (Limits { records_time_max: Duration::ZERO, ..limits() }, "time"),
        (Limits { records_packets_max: 1, ..limits() }, "packets"),
    ] {
        served(limits, |service| {
            for kind in KINDS.into_iter().chain(["talkers"]) {
                let (records, missing) = ask(service, kind);
                assert_eq!(missing, [cause], "{kind}");
                assert!(records.len() < usize::from(FLOWS), "{kind}");
            }
        });
    }
    served(Limits { records_bytes_max: 5000, ..limits() }, |service| {
        for kind in ["records/flows", "records/dns"] {
            let (records, missing) = ask(service, kind);
            assert_eq!(missing, ["size"], "{kind}");
            let bytes: usize = records.iter().map(|record| record.to_string().len()).sum();
            assert!((1..5000).contains(&bytes), "{kind}: {bytes}");
        }
    });
}

#[test]
fn what_is_not_asked_right_is_named() {
    served(limits(), |service| {
        for (path, status, words) in [
            ("records/colours", 404, "there are flows, http, dns, tls, calls"),
            ("records/talkers", 404, "no such records"),
            ("records/flows?limit=0", 400, "from 1 to 10000"),
            ("records/flows?limit=10001", 400, "from 1 to 10000"),
            ("records/flows?limit=many", 400, ""),
            ("records/flows?active=never", 400, "active: "),
            ("records/flows?active=3h", 400, "at most two hours"),
            ("records/http?active=1h", 400, "active is for flows"),
            ("records/flows?recording=other", 404, "no recording of that name"),
            ("records/flows?last=1m&from=-1h", 400, "does not go together"),
            ("records/flows?colour=red", 400, ""),
            ("talkers?from=yesterday", 400, "from: "),
            ("sql?sql=SELECT%201", 404, "--store DIR"),
            ("sql?colour=red", 400, ""),
        ] {
            let answer = service.get(&format!("/api/v1/{path}"));
            assert_eq!(answer.status, status, "{path}: {answer:?}");
            assert!(answer.body.contains(words), "{path}: {answer:?}");
        }
    });
}
