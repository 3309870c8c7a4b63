use super::*;
use crate::probe::Probe;
use messages::PartialSuccess;
use ringside_flow::RecordSums;
use ringside_testkit::server::{Answer, HttpServer};
use std::sync::{Arc, Mutex};

/// The request, as a server reads it: messages with all that is sent.
#[derive(Clone, PartialEq, Message)]
struct Request {
    #[prost(message, repeated, tag = "1")]
    resource_logs: Vec<Received>,
}

#[derive(Clone, PartialEq, Message)]
struct Received {
    #[prost(message, optional, tag = "1")]
    resource: Option<Resource>,
    #[prost(message, repeated, tag = "2")]
    scope_logs: Vec<ScopeLogs>,
}

fn body(probes: &[Probe]) -> Vec<u8> {
    let mut body = Vec::new();
    for record in probes {
        encode(&Row { record, interface: "eth1" }, "probes", &mut body);
    }
    body
}

fn of<'a>(record: &'a LogRecord, key: &str) -> Option<&'a Any> {
    let found = record.attributes.iter().find(|attribute| attribute.key == key)?;
    found.value.as_ref()?.value.as_ref()
}

#[test]
fn a_batch_is_one_request_with_a_log_record_for_each() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let requests = Arc::clone(&seen);
    let server = HttpServer::start(0, move |request| {
        requests.lock().unwrap().push(request.clone());
        Answer::Say(200, Vec::new())
    });
    let origin = format!("http://127.0.0.1:{}", server.port());
    let mut engine = Otlp::new(Client::new(None, None), &origin, "/insert/v1/logs");
    let held = RecordSums { records: 2, ..RecordSums::default() };
    let batch = Batch { run: 1, sequence: 1, held, body: body(&[Probe(Some(5)), Probe(None)]) };
    assert_eq!(engine.deliver(&batch, Duration::from_secs(20)), Outcome::acknowledged());
    let request = seen.lock().unwrap().pop().unwrap();
    assert_eq!(request.target, "/insert/v1/logs");
    assert_eq!(request.header("content-type"), Some("application/x-protobuf"));
    let decoded = Request::decode(&*request.body).unwrap();
    let [received] = &decoded.resource_logs[..] else { panic!("{decoded:?}") };
    let attributes = &received.resource.as_ref().unwrap().attributes;
    assert_eq!(attributes[0], attribute("service.name", "ringside".into()));
    let [scope] = &received.scope_logs[..] else { panic!("{received:?}") };
    assert_eq!(scope.scope.as_ref().unwrap().name, "ringside");
    let [first, second] = &scope.log_records[..] else { panic!("{scope:?}") };
    assert_eq!(first.time_unix_nano, 1_700_000_000_123_456_789);
    assert_eq!(first.event_name, "ringside.probes");
    assert_eq!(of(first, "count"), Some(&Any::Whole(5)));
    assert_eq!(of(second, "count"), None);
    assert_eq!(of(first, "is_on"), Some(&Any::Bool(true)));
    assert_eq!(of(first, "took"), Some(&Any::Real(0.0)));
    assert_eq!(of(first, "bytes"), Some(&Any::Text(u64::MAX.to_string())));
    let Some(Any::List(tags)) = of(first, "tags") else { panic!("{first:?}") };
    assert_eq!(tags.values.len(), 2);
    let Some(Any::Map(map)) = &tags.values[1].value else { panic!("{tags:?}") };
    assert_eq!(map.values, [attribute("y", 1.into())]);
}

#[test]
fn records_that_a_server_refuses_are_counted() {
    let said = |rejected_log_records, error_message: &str| {
        let partial = PartialSuccess { rejected_log_records, error_message: error_message.into() };
        ExportResponse { partial_success: Some(partial) }.encode_to_vec()
    };
    let refused = |refused, reason: Option<&str>| Outcome::Acknowledged {
        refused,
        reason: reason.map(str::to_owned),
    };
    assert_eq!(acknowledged(&[], 10), refused(0, None));
    assert_eq!(acknowledged(b"{}", 10), refused(0, None));
    assert_eq!(acknowledged(&said(3, "too old"), 10), refused(3, Some("too old")));
    assert_eq!(acknowledged(&said(i64::MAX, ""), 10), refused(10, None));
    assert_eq!(acknowledged(&said(-1, ""), 10), refused(0, None));
}
