//! `--outlet kafka://`: a topic has the records, which kcat reads; in librdkafka's own cluster, and
//! in Kafka itself where that is (docs/howto/outlets.md).

use super::*;
use ringside_kafka::Library;
use ringside_kafka::mock::MockCluster;
use ringside_testkit::kafka::{self, Kafka, Message};
use ringside_testkit::need_tool;
use std::collections::BTreeSet;
use std::time::Duration;

fn cluster(test: &str) -> Option<MockCluster> {
    match Library::find() {
        Ok(library) => need_tool(test, "kcat").then(|| MockCluster::start(library, 3)),
        Err(error) => {
            skip(test, &error.to_string());
            None
        }
    }
}

/// The records of messages, and that each has the key that its record says.
fn records_of(messages: Vec<Message>) -> Vec<Value> {
    let record = |message: Message| {
        let record: Value = serde_json::from_str(&message.value).unwrap();
        assert_eq!(record["community_id"].as_str(), message.key.as_deref(), "{record}");
        record
    };
    messages.into_iter().map(record).collect()
}

fn in_any_order(records: Vec<Value>) -> Vec<String> {
    let mut all: Vec<_> = records.iter().map(Value::to_string).collect();
    all.sort();
    all
}

#[test]
fn a_topic_has_the_records_of_each_analyzer() {
    let test = "a_topic_has_the_records_of_each_analyzer";
    let captures = captures(test);
    let Some(cluster) = cluster(test).filter(|_| !captures.is_empty()) else { return };
    let brokers = cluster.brokers();
    for analyzer in ANALYZERS {
        let outlet = format!("kafka://{brokers}");
        let outcome = run_into(analyzer, &captures, &outlet, &[]);
        assert_eq!(outcome.code(), Some(0), "{analyzer}: {}", outcome.stderr);
        let records = records(&outcome);
        let shown = format!("{outlet}/{analyzer}");
        let found = account(analyzer, &outcome, &shown);
        assert_eq!(found, counts([("delivered", records.len())]), "{analyzer}");
        let there = match records.is_empty() {
            true => Vec::new(),
            false => records_of(kafka::messages(&brokers, analyzer)),
        };
        assert!(in_any_order(there) == in_any_order(records), "{analyzer}");
    }
}

#[test]
fn brokers_that_are_away_cost_nothing_that_a_spool_keeps() {
    let test = "brokers_that_are_away_cost_nothing";
    let captures = captures(test);
    let Some(cluster) = cluster(test).filter(|_| !captures.is_empty()) else { return };
    let (brokers, folder) = (cluster.brokers(), tempfile::tempdir().unwrap());
    let outlet = format!("kafka://{brokers}/flows");
    let spool = ["--outlet-spool", arg(folder.path())];
    cluster.set_up(false);
    let away = run_into("flows", &captures, &outlet, &spool);
    assert_eq!(away.code(), Some(0), "{}", away.stderr);
    let first = records(&away);
    assert_eq!(account("flows", &away, &outlet), counts([("spooled", first.len())]));
    assert!(away.stderr.contains("the spool keeps") && away.stderr.contains("127.0.0.1"));
    cluster.set_up(true);
    deliver_all("flows", &outlet, folder.path(), &away);
    let there = records_of(kafka::messages(&brokers, "flows"));
    assert!(in_any_order(there) == in_any_order(first));
}

#[test]
fn live_records_reach_brokers_that_others_name_by_threads_without_rights() {
    let test = "live_records_reach_brokers";
    let Some(cluster) = cluster(test).filter(|_| need_root(test)) else { return };
    let folder = tempfile::tempdir().unwrap();
    let brokers = cluster.brokers();
    let first = brokers.split(',').next().unwrap();
    let records = send_live(&format!("kafka://{first}/flows"), folder.path(), &[]);
    let there = records_of(kafka::messages(&brokers, "flows"));
    assert!(in_any_order(there) == in_any_order(records));
}

/// The analyzer is killed, the broker goes and comes back: what the spool took is there once.
#[test]
fn kafka_itself_has_each_record_once_over_kills() {
    let test = "kafka_itself_has_each_record_once_over_kills";
    let folder = tempfile::tempdir().unwrap();
    if !need_tool(test, "kcat") {
        return;
    }
    let Some(mut broker) = Kafka::start(test, folder.path()) else { return };
    let outlet = format!("kafka://127.0.0.1:{}/flows", broker.port());
    let spool = folder.path().join("spool");
    let capture = folder.path().join("many.pcap");
    let args = ["flows", "-r", arg(&capture), "--json", "--outlet", &outlet];
    let args = [&args[..], &["--outlet-spool", arg(&spool)]].concat();
    for round in 0..4 {
        let frames: Vec<_> = (0..FLOWS).map(|number| frame(round, number)).collect();
        write_pcap(&capture, frames.iter().map(|frame| &frame[..]));
        if round == 3 {
            break;
        }
        let mut command = Command::new(ringside());
        command.args(&args).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        std::thread::sleep(Duration::from_millis(400 + 700 * u64::from(round)));
        if round == 1 {
            broker.restart();
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let outcome = run_ringside(&args);
    assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
    deliver_all("flows", &outlet, &spool, &outcome);
    let mut flows = BTreeSet::new();
    for record in records_of(broker.messages("flows")) {
        let flow = (record["src"].to_string(), record["src_port"].as_u64().unwrap());
        assert!(flows.insert(flow), "twice: {record}");
    }
    let of_last = flows.iter().filter(|(source, _)| source == "\"10.3.0.1\"").count();
    assert_eq!(of_last, FLOWS as usize, "of {}", flows.len());
}

/// Flows of a run.
const FLOWS: u16 = 60_000;

/// A datagram from 10.ROUND.0.1.
fn frame(round: u8, port: u16) -> [u8; 46] {
    let mut frame = [0; 46];
    frame[12..15].copy_from_slice(&[8, 0, 0x45]);
    frame[16..18].copy_from_slice(&32u16.to_be_bytes());
    frame[22..24].copy_from_slice(&[64, 17]);
    frame[26..34].copy_from_slice(&[10, round, 0, 1, 10, 9, 9, 9]);
    frame[34..36].copy_from_slice(&port.to_be_bytes());
    frame[37] = 53;
    frame[38..40].copy_from_slice(&12u16.to_be_bytes());
    frame
}
