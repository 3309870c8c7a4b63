//! Batches in a cluster of librdkafka's own, and in Kafka itself; kcat reads them.

use super::*;
use crate::mock::MockCluster;
use ringside_testkit::kafka::{Kafka, Message, messages};
use ringside_testkit::{need_tool, skip};
use std::collections::BTreeSet;

/// Long enough for any machine.
const LONG: Duration = Duration::from_secs(60);

fn library(test: &str) -> Option<Library> {
    let found = Library::find();
    if let Err(error) = &found {
        skip(test, &error.to_string());
    }
    found.ok()
}

fn settings(cluster: &MockCluster, name: &str) -> Settings {
    let (brokers, topic) = (cluster.brokers(), "records".to_owned());
    Settings { brokers, topic, name: name.to_owned(), ..Settings::default() }
}

/// Records with these values, every second one with a key.
fn records(values: &[String]) -> impl Iterator<Item = Record<'_>> {
    values.iter().enumerate().map(|(at, value)| Record {
        key: (at % 2 == 0).then(|| &value.as_bytes()[..1]),
        value: value.as_bytes(),
    })
}

fn values(range: std::ops::Range<u32>) -> Vec<String> {
    range.map(|number| format!("{}-{number}", number % 7)).collect()
}

#[test]
fn batches_arrive_and_what_has_one_key_is_in_one_partition() {
    let test = "batches_arrive";
    let Some(library) = library(test) else { return };
    if !need_tool(test, "kcat") {
        return;
    }
    let cluster = MockCluster::start(library, 3);
    let settings = settings(&cluster, "ringside-1");
    let (mut producer, next) = Producer::start(library, &settings, LONG).unwrap();
    assert_eq!(next, 0);
    for (number, range) in [(1, 0..500), (2, 500..900), (3, 900..1000)] {
        assert_eq!(producer.send(records(&values(range)), number, LONG), Ok(()));
    }
    let mut found = messages(&settings.brokers, "records");
    let expected = |value: String| {
        let number: u32 = value.split_once('-').unwrap().1.parse().unwrap();
        // The place in its own batch, of which all begin with an even number.
        Message {
            key: (number.is_multiple_of(2)).then(|| value[..1].to_owned()),
            value,
            partition: 0,
        }
    };
    let mut expected: Vec<_> = values(0..1000).into_iter().map(expected).collect();
    // What has one key is in one partition.
    for digit in 0..7 {
        let key = Some(digit.to_string());
        let partitions = found.iter().filter(|one| one.key == key).map(|one| one.partition);
        assert_eq!(partitions.collect::<BTreeSet<_>>().len(), 1, "{digit}");
    }
    found.iter_mut().for_each(|one| one.partition = 0);
    found.sort();
    expected.sort();
    assert!(found == expected, "{} of {}", found.len(), expected.len());
}

#[test]
fn a_producer_finds_where_the_one_before_was_and_shuts_it_out() {
    let test = "a_producer_finds_where_the_one_before_was";
    let Some(library) = library(test) else { return };
    let folder = tempfile::tempdir().unwrap();
    let Some(broker) = Kafka::start(test, folder.path()) else { return };
    let named = |name: &str| Settings {
        brokers: format!("127.0.0.1:{}", broker.port()),
        topic: "records".to_owned(),
        name: name.to_owned(),
        ..Settings::default()
    };
    let (mut first, next) = Producer::start(library, &named("ringside-1"), LONG).unwrap();
    assert_eq!(next, 0);
    assert_eq!(first.send(records(&values(0..9)), 7, LONG), Ok(()));
    let (mut second, next) = Producer::start(library, &named("ringside-1"), LONG).unwrap();
    assert_eq!(next, 7);
    assert!(first.send(records(&values(9..10)), 8, LONG).is_err(), "it is shut out");
    assert_eq!(second.send(records(&values(10..20)), 8, LONG), Ok(()));
    assert_eq!(Producer::start(library, &named("ringside-2"), LONG).unwrap().1, 0);
    let mut found: Vec<_> = broker.messages("records").into_iter().map(|one| one.value).collect();
    found.sort();
    let mut expected = [values(0..9), values(10..20)].concat();
    expected.sort();
    assert_eq!(found, expected);
}

#[test]
fn the_longest_record_is_taken_and_a_longer_one_is_a_failure() {
    let Some(library) = library("the_longest_record") else { return };
    let cluster = MockCluster::start(library, 1);
    let (mut producer, _) =
        Producer::start(library, &settings(&cluster, "ringside-1"), LONG).unwrap();
    let longest = "x".repeat(crate::MESSAGE_BYTES_MAX - 1);
    assert_eq!(
        producer.send(records(std::slice::from_ref(&longest)), 1, LONG),
        Ok(()),
        "with its key"
    );
    let failure = producer.send(records(&[longest.clone() + &longest]), 2, LONG).unwrap_err();
    assert!(failure.reason.contains("too large"), "{}", failure.reason);
}

#[test]
fn brokers_that_are_away_are_said_with_the_reason_and_soon() {
    let Some(library) = library("brokers_that_are_away") else { return };
    let cluster = MockCluster::start(library, 2);
    let settings = settings(&cluster, "ringside-1");
    cluster.set_up(false);
    let began = Instant::now();
    let failure = Producer::start(library, &settings, LONG).err().unwrap();
    assert!(began.elapsed() < LONG, "it does not wait for the end of the time");
    assert!(failure.reason.contains("127.0.0.1") && !failure.is_final, "{}", failure.reason);
    cluster.set_up(true);
    let (mut producer, _) = Producer::start(library, &settings, LONG).unwrap();
    assert_eq!(producer.send(records(&values(0..9)), 1, LONG), Ok(()));
    // A text with a 0 cannot be a setting.
    let wrong = Settings { brokers: "h\0".to_owned(), ..settings };
    let failure = Producer::start(library, &wrong, LONG).err().unwrap();
    assert!(failure.reason.contains("a byte 0"), "{}", failure.reason);
}
