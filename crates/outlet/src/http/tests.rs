use super::*;
use crate::batch::Batch;
use crate::clickhouse::ClickHouse;
use crate::engine::Engine;
use crate::otlp::Otlp;
use ringside_flow::RecordSums;
use ringside_testkit::server::{Answer as Said, HttpServer, Table};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

/// Long enough for any machine, where an answer comes.
const LONG: Duration = Duration::from_secs(20);

fn batch(sequence: u64) -> Batch {
    let held = RecordSums { records: 2, ..RecordSums::default() };
    Batch { run: 1, sequence, held, body: b"{\"a\":1}\n{\"a\":2}\n".to_vec() }
}

fn clickhouse(port: u16, create: Option<&str>) -> ClickHouse {
    let user = ("me".to_owned(), "secret".to_owned());
    let origin = format!("http://127.0.0.1:{port}");
    ClickHouse::new(Client::new(Some(&user), None), &origin, "net.dns", create.map(str::to_owned))
}

fn is_failed(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Failed(_))
}

#[test]
fn a_status_says_whether_another_try_makes_sense() {
    let fate = |status| Answer { status, body: b"why\x1b[2J\n".to_vec() }.failure();
    assert_eq!(fate(200), None);
    assert_eq!(fate(204), None);
    for status in [301, 401, 403, 404, 408, 429, 500, 503, 599, 100] {
        assert!(matches!(fate(status), Some(Outcome::Failed(_))), "{status}");
    }
    for status in [400, 405, 413, 415, 422] {
        let Some(Outcome::Refused(why)) = fate(status) else { panic!("{status}") };
        assert!(why.ends_with("why [2J"), "{why}");
    }
}

#[test]
fn an_insert_is_taken_once_however_often_it_comes() {
    let table = Table::default();
    let (there, seen) = (table.clone(), Arc::new(Mutex::new(Vec::new())));
    let authorization = Arc::clone(&seen);
    let mut answers = vec![
        Said::Say(200, Vec::new()), // the table
        Said::Die,
        Said::Half(200),
        Said::Say(503, b"Code: 1".to_vec()),
        Said::Say(200, b"Code: 2. DB::Exception: too late".to_vec()),
        Said::Say(200, Vec::new()),
        Said::Say(400, b"Code: 27. DB::Exception: Cannot parse".to_vec()),
    ]
    .into_iter();
    let server = HttpServer::start(0, move |request| {
        authorization.lock().unwrap().push(request.header("authorization").map(str::to_owned));
        there.take(request);
        answers.next().unwrap()
    });
    let mut engine = clickhouse(server.port(), Some("CREATE TABLE IF NOT EXISTS net.dns"));
    for _ in 0..4 {
        assert!(is_failed(&engine.deliver(&batch(1), LONG)));
    }
    assert_eq!(engine.deliver(&batch(1), LONG), Outcome::acknowledged());
    let Outcome::Refused(why) = engine.deliver(&batch(2), LONG) else { panic!() };
    assert!(why.contains("Cannot parse"), "{why}");
    let content = table.content();
    assert_eq!(content.others, ["CREATE TABLE IF NOT EXISTS net.dns"]);
    assert_eq!(content.repeated, 4);
    assert_eq!(content.rows, [r#"{"a":1}"#, r#"{"a":2}"#, r#"{"a":1}"#, r#"{"a":2}"#]);
    let expected = Some("Basic bWU6c2VjcmV0".to_owned());
    assert!(seen.lock().unwrap().iter().all(|value| *value == expected));
}

#[test]
fn a_server_that_hangs_or_is_away_is_given_up_in_time() {
    let server = HttpServer::start(0, |_| Said::Hang);
    let mut engine = clickhouse(server.port(), None);
    assert!(is_failed(&engine.deliver(&batch(1), Duration::from_millis(50))));
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    assert!(is_failed(&clickhouse(port, None).deliver(&batch(1), LONG)));
}

#[test]
fn a_long_answer_is_not_read_to_its_end() {
    let server = HttpServer::start(0, |request| match request.target.contains("dns") {
        true => Said::Say(200, vec![b'x'; 1 << 20]),
        false => Said::Say(500, vec![b'x'; 1 << 20]),
    });
    let mut engine = clickhouse(server.port(), None);
    assert!(is_failed(&engine.deliver(&batch(1), LONG)));
    let origin = format!("http://127.0.0.1:{}", server.port());
    let mut engine = Otlp::new(Client::new(None, None), &origin, "/v1/logs");
    assert_eq!(
        engine.deliver(&batch(1), LONG),
        Outcome::Failed("the server failed (status 500)".into())
    );
}

#[test]
fn another_place_is_not_gone_to() {
    let server = HttpServer::start(0, |_| Said::Say(307, Vec::new()));
    let Outcome::Failed(why) = clickhouse(server.port(), None).deliver(&batch(1), LONG) else {
        panic!()
    };
    assert!(why.contains("another place (status 307)"), "{why}");
}
