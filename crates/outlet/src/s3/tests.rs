use super::*;
use crate::probe::Probe;
use ringside_flow::RecordSums;
use ringside_testkit::server::{Answer, HttpServer};
use std::sync::{Arc, Mutex};

fn s3(port: u16, key: Option<&(String, String)>) -> S3 {
    let origin = format!("http://127.0.0.1:{port}");
    let target = Target { origin: &origin, path: "bucket/a", region: None, key };
    S3::new(Client::new(None, None), Columnar::of::<Probe>("probes"), &target, "probes")
}

fn batch() -> Batch {
    // Two hours, of 2023-11-14.
    let body = b"{\"seen\":1700000000000000000}\n{\"seen\":1700003600000000000}\n".to_vec();
    Batch { run: 0xabc, sequence: 4, held: RecordSums::default(), body }
}

#[test]
fn a_batch_is_an_object_for_each_hour_which_replaces_itself() {
    let put = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&put);
    let server = HttpServer::start(0, move |request| {
        assert!(request.body.starts_with(b"PAR1") && request.body.ends_with(b"PAR1"));
        let mut seen = seen.lock().unwrap();
        seen.push(request.target.clone());
        // The second object of the first try is not taken.
        Answer::Say(if seen.len() == 2 { 503 } else { 200 }, Vec::new())
    });
    let mut engine = s3(server.port(), None);
    let time = Duration::from_secs(30);
    assert!(matches!(engine.deliver(&batch(), time), Outcome::Failed(_)));
    assert_eq!(engine.deliver(&batch(), time), Outcome::acknowledged());
    let name = "00000000000000000000000000000abc-4.parquet";
    let of = |hour| format!("/bucket/a/probes/date%3D2023-11-14/hour%3D{hour}/{name}");
    // The next try goes on where the first one ended; the next batch begins at its begin.
    assert_eq!(*put.lock().unwrap(), [of("22"), of("23"), of("23")]);
    let next = Batch { sequence: 5, ..batch() };
    assert_eq!(engine.deliver(&next, time), Outcome::acknowledged());
    assert_eq!(put.lock().unwrap().len(), 5);
}

#[test]
fn a_request_is_signed_and_what_is_refused_is_tried_again() {
    for status in [301, 400, 403, 404, 500] {
        let server = HttpServer::start(0, move |request| {
            let signature = request.header("authorization").unwrap();
            for words in [
                "AWS4-HMAC-SHA256 Credential=me/",
                "/us-east-1/s3/aws4_request,SignedHeaders=host;x-amz-content-sha256;x-amz-date,",
            ] {
                assert!(signature.contains(words), "{words}: {signature}");
            }
            assert_eq!(request.header("x-amz-date").unwrap().len(), "20130524T000000Z".len());
            assert!(!format!("{:?}", request.headers).contains("secret"));
            Answer::Say(status, b"<Error><Code>NoSuchBucket</Code></Error>".to_vec())
        });
        let key = ("me".to_owned(), "secret".to_owned());
        let mut engine = s3(server.port(), Some(&key));
        match engine.deliver(&batch(), Duration::from_secs(30)) {
            Outcome::Failed(why) => assert!(why.contains("NoSuchBucket"), "{why}"),
            other => panic!("{status}: {other:?}"),
        }
    }
}

#[test]
fn hosts_say_their_region_and_usual_ports_are_left_out() {
    for (origin, named, of) in [
        ("https://s3.eu-west-1.amazonaws.com:443", "s3.eu-west-1.amazonaws.com", "eu-west-1"),
        ("https://s3.amazonaws.com:443", "s3.amazonaws.com", "us-east-1"),
        ("http://127.0.0.1:80", "127.0.0.1", "us-east-1"),
        ("http://localhost:8333", "localhost:8333", "us-east-1"),
        ("https://s3.fr-par.scw.cloud:80", "s3.fr-par.scw.cloud:80", "fr-par"),
        (
            "https://s3.dualstack.eu-west-1.amazonaws.com:443",
            "s3.dualstack.eu-west-1.amazonaws.com",
            "eu-west-1",
        ),
        ("https://s3.corp.example.com:443", "s3.corp.example.com", "us-east-1"),
    ] {
        assert_eq!((host(origin), region(host(origin))), (named, of), "{origin}");
    }
}
