use super::*;
use ringside_flow::RecordSums;
use ringside_testkit::kafka::{self, Message};
use ringside_testkit::{Random, by_run, need_tool, skip};
use std::thread;

/// Long enough for any machine.
const LONG: Duration = Duration::from_secs(60);

/// Records of a batch.
const RECORDS: u64 = 20;

fn batch(run: u128, sequence: u64) -> Batch {
    let line = |number| {
        let key = format!("{}", number % 5);
        format!("{{\"community_id\":\"{key}\",\"run\":{run},\"number\":{number}}}\n")
    };
    let first = sequence * RECORDS;
    let body = (first..first + RECORDS).map(line).collect::<String>().into_bytes();
    let held = RecordSums { records: RECORDS, ..RecordSums::default() };
    Batch { run, sequence, held, body }
}

fn engine(brokers: &str) -> Kafka {
    let (brokers, topic) = (brokers.to_owned(), "records".to_owned());
    let settings = Settings { brokers, topic, ..Settings::default() };
    Kafka::new(Library::find().unwrap(), settings)
}

/// All records of these batches.
fn expected(batches: &[Batch]) -> Vec<String> {
    let body: Vec<u8> = batches.iter().flat_map(|batch| batch.body.clone()).collect();
    let mut all: Vec<_> = String::from_utf8(body).unwrap().lines().map(str::to_owned).collect();
    all.sort();
    all
}

fn values(messages: Vec<Message>) -> Vec<String> {
    let mut all: Vec<_> = messages.into_iter().map(|message| message.value).collect();
    all.sort();
    all
}

#[test]
fn the_key_is_the_community_id_if_there_is_one() {
    assert_eq!(key(b"{\"a\":{\"community_id\":1},\"community_id\":\"1:x=\"}").unwrap(), "1:x=");
    for line in ["{\"a\":1}", "{\"community_id\":null}", "{\"community_id\":7}", "no"] {
        assert_eq!(key(line.as_bytes()), None, "{line}");
    }
}

#[test]
fn what_the_library_says_has_the_fix_before_it() {
    let of = |reason: &str| said(reason.to_owned());
    let verify =
        "ssl://h/bootstrap: SSL handshake failed: broker certificate could not be verified";
    assert!(of(verify).starts_with("its certificate is of an authority"));
    assert!(
        of("h: SSL handshake failed: unexpected eof").contains("speaks no TLS at this port (h:")
    );
    assert_eq!(of("h: Connection refused"), "h: Connection refused");
}

#[test]
fn batches_arrive_and_brokers_that_are_away_are_waited_for() {
    let test = "batches_arrive_and_brokers_that_are_away";
    let library = match Library::find() {
        Ok(library) => library,
        Err(error) => return skip(test, &error.to_string()),
    };
    if !need_tool(test, "kcat") {
        return;
    }
    let cluster = ringside_kafka::mock::MockCluster::start(library, 2);
    let brokers = cluster.brokers();
    // What an earlier run left comes first.
    let batches = [batch(7, 4), batch(8, 0), batch(8, 1)];
    let mut one = engine(&brokers);
    for batch in &batches {
        assert_eq!(one.deliver(batch, LONG), Outcome::acknowledged());
    }
    assert_eq!(one.deliver(&batches[2], LONG), Outcome::acknowledged(), "known, and not sent");
    let found = kafka::messages(&brokers, "records");
    assert!(found.iter().all(|one| one.key.as_deref().is_some_and(|key| key.len() == 1)));
    assert!(values(found) == expected(&batches));
    cluster.set_up(false);
    let Outcome::Failed(why) = engine(&brokers).deliver(&batch(9, 0), LONG) else { panic!() };
    assert!(why.contains("127.0.0.1"), "{why}");
}

/// Tries that end at any moment, with the producer; and a broker that goes and comes back.
#[test]
fn kafka_itself_has_each_record_once_wherever_tries_are_cut() {
    let test = "kafka_itself_has_each_record_once";
    let folder = tempfile::tempdir().unwrap();
    if !need_tool(test, "kcat") {
        return;
    }
    let Some(mut broker) = kafka::Kafka::start(test, folder.path()) else { return };
    let brokers = format!("127.0.0.1:{}", broker.port());
    let (mut random, mut engine_now) = (Random::new(5), engine(&brokers));
    let batches: Vec<_> =
        (0..by_run(60, 600)).map(|number| batch(u128::from(number / 25), number % 25)).collect();
    let (mut cut, mut vain) = (0, 0);
    for (number, batch) in batches.iter().enumerate() {
        if number % 29 == 28 {
            broker.restart();
        }
        if random.below(2) == 0 {
            // Its answer is lost, and who comes next knows nothing of it.
            let time = match random.below(3) {
                0 => LONG,
                _ => Duration::from_millis(random.below(20) as u64 * 10),
            };
            let outcome = engine_now.deliver(batch, time);
            vain += u32::from(matches!(outcome, Outcome::Failed(_)));
            engine_now = engine(&brokers);
            cut += 1;
        }
        loop {
            match engine_now.deliver(batch, LONG) {
                Outcome::Failed(_) => thread::sleep(Duration::from_millis(100)),
                outcome => break assert_eq!(outcome, Outcome::acknowledged()),
            }
        }
    }
    assert!(vain > 0 && vain < cut, "some were cut before, some behind: {vain} of {cut}");
    let (found, expected) = (values(broker.messages("records")), expected(&batches));
    let missing: Vec<_> = expected.iter().filter(|one| !found.contains(one)).collect();
    let counts = (found.len(), expected.len());
    assert!(found == expected, "{counts:?}, missing {missing:?}");
}
