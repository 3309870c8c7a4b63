//! What is refused, with a clear answer, and what ends.

use crate::common::{Served, limits, with_service};
use ringside_core::Ledger;
use ringside_serve::{Config, Limits, Tokens};
use serde_json::json;
use std::io::{Read, Write};
use std::time::Duration;

fn served(config: Config, work: impl FnOnce(&Served)) {
    with_service(Ledger::default(), config, work);
}

fn plain() -> Config {
    Config { limits: limits(), ..Config::default() }
}

#[test]
fn strangers_are_refused_and_every_answer_has_its_headers() {
    served(plain(), |service| {
        for (headers, words) in [
            ([("Host", "evil.example"), ("Accept", "*/*")], "not known by that name"),
            ([("Origin", "http://evil.example"), ("Accept", "*/*")], "other sites"),
            ([("Sec-Fetch-Site", "cross-site"), ("Accept", "*/*")], "other sites"),
        ] {
            for (method, path) in [("GET", "/api/v1/captures"), ("POST", "/api/v1/rules/test")] {
                let answer = service.ask(method, path, &headers, "");
                assert_eq!(answer.status, 403, "{answer:?}");
                assert!(answer.error().contains(words), "{answer:?}");
                assert!(answer.head.contains("frame-ancestors 'none'"), "{answer:?}");
            }
        }
        let page = service.get("/");
        assert_eq!(page.status, 200);
        for header in ["default-src 'self'", "nosniff", "no-referrer", "no-store"] {
            assert!(page.head.contains(header), "{header}: {page:?}");
        }
    });
}

#[test]
fn tokens_open_what_their_scopes_say() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokens");
    // printf look | sha256sum, printf all | sha256sum
    let look = "3c01eba119e00d79c82b6f65d70bc5f1044d568618bf41377e6d1432023fc2b8";
    let all = "5ef5ef0364b6939c4ca61f34b393f7b368d1be8619647aaf83d5b395919ab629";
    std::fs::write(&path, format!("looker read {look}\nowner read,packets,control {all}\n"))
        .unwrap();
    let tokens = Some(Tokens::load(&path).unwrap());
    served(Config { tokens, ..plain() }, |service| {
        let with = |method: &str, path: &str, token: &str| {
            let bearer = format!("Bearer {token}");
            let headers = [("Authorization", &*bearer), ("Content-Type", "application/json")];
            service.ask(method, path, &headers, "{}").status
        };
        assert_eq!(service.get("/").status, 200, "the page holds no data");
        assert_eq!(service.get("/api/v1/captures").status, 401);
        for (method, path, for_looker, for_owner) in [
            ("GET", "/api/v1/captures", 200, 200),
            ("GET", "/metrics", 200, 200),
            ("GET", "/api/v1/packets", 403, 404),
            ("GET", "/api/v1/records/flows", 403, 404),
            ("GET", "/api/v1/talkers", 403, 404),
            ("GET", "/api/v1/calls/1@host/ladder", 403, 404),
            ("POST", "/api/v1/captures/1/rules", 403, 400),
        ] {
            assert_eq!(with(method, path, "look"), for_looker, "{path}");
            assert_eq!(with(method, path, "all"), for_owner, "{path}");
            assert_eq!(with(method, path, "none"), 401, "{path}");
        }
        let bearer = [("Authorization", "Bearer look")];
        let signed_in = service.ask("POST", "/api/v1/session", &bearer, "");
        assert_eq!(signed_in.json()["scopes"], json!(["read"]));
        assert!(signed_in.head.contains("ringside=look; path=/; httponly; samesite=strict"));
        let cookie = [("Cookie", "ringside=look")];
        assert_eq!(service.ask("GET", "/api/v1/captures", &cookie, "").status, 200);
        assert_eq!(service.ask("GET", "/api/v1/packets", &cookie, "").status, 403);
    });
}

#[test]
fn no_path_leads_out() {
    served(plain(), |service| {
        for path in [
            "/../Cargo.toml",
            "/..%2f..%2fetc/passwd",
            "/%2e%2e/etc/passwd",
            "//etc/passwd",
            "/app.js/../../etc/passwd",
            "/api/v1/captures/..%2f..",
            "/api/v1/packets?recording=..%2f..%2fetc%2fpasswd",
            "/api/v1/find?recording=/etc/passwd",
        ] {
            let answer = service.get(path);
            assert!([400, 404].contains(&answer.status), "{path}: {answer:?}");
            assert!(!answer.body.contains("root:"), "{path}");
        }
    });
}

#[test]
fn what_is_not_written_right_is_named() {
    let recordings = vec![ringside_testkit::project_root().join("docs")];
    served(Config { recordings, ..plain() }, |service| {
        for (query, words) in [
            ("from=yesterday", "from: "),
            ("last=never", "last: "),
            ("last=1m&from=-1h", "does not go together"),
            ("from=200&to=100", "nothing lies between"),
            ("limit=many", ""),
            ("colour=red", ""),
            ("recording=other", "no recording of that name"),
            (&format!("filter={}", "x".repeat(5000)), "at most 4096"),
        ] {
            let answer = service.get(&format!("/api/v1/find?{query}"));
            assert!([400, 404].contains(&answer.status), "{query}: {answer:?}");
            assert!(answer.body.contains(words), "{query}: {answer:?}");
        }
    });
}

#[test]
fn what_is_too_large_is_refused() {
    served(plain(), |service| {
        let header =
            format!("GET / HTTP/1.1\r\nHost: localhost\r\nX: {}\r\n\r\n", "x".repeat(1 << 20));
        let answer = service.raw(header.as_bytes(), false);
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 431"), "{answer}");
        let rules = json!({ "rules": ["x".repeat(100_000)] });
        assert_eq!(service.post("/api/v1/rules/test", &rules).status, 413);
    });
}

#[test]
fn a_client_that_gives_and_takes_nothing_is_left() {
    let limits = Limits {
        head_time_max: Duration::from_millis(50),
        stall_time_max: Duration::from_millis(50),
        // Events without a pause, which the client below does not read.
        tick: Duration::from_millis(1),
        ..limits()
    };
    served(Config { limits, ..Config::default() }, |service| {
        let host = &service.address;
        let post =
            format!("POST /api/v1/rules/test HTTP/1.1\r\nHost: {host}\r\nContent-Length: 9\r\n");
        for begin in ["", "GET / HT", &format!("GET / HTTP/1.1\r\nHost: {host}\r\n"), &post] {
            let mut stream = service.connect();
            stream.write_all(begin.as_bytes()).unwrap();
            let _ = stream.read_to_end(&mut Vec::new());
        }
        // The head is there, and the body never comes.
        let mut stream = service.connect();
        stream
            .write_all(format!("{post}Content-Type: application/json\r\n\r\n{{").as_bytes())
            .unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"HTTP/1.1 408");
    });
}

#[test]
fn whatever_is_sent_the_service_goes_on() {
    served(plain(), |service| {
        let host = &service.address;
        let seeds = [
            format!("GET /api/v1/find?filter=udp&last=10m HTTP/1.1\r\nHost: {host}\r\n\r\n"),
            format!("GET /api/v1/captures/1/rules?after=7 HTTP/1.1\r\nHost: {host}\r\n\r\n"),
            format!(
                "POST /api/v1/rules/test HTTP/1.1\r\nHost: {host}\r\nContent-Length: 23\r\n\
                 Content-Type: application/json\r\n\r\n{{\"rules\":[\"udp=>drop\"]}}"
            ),
            format!(
                "GET /api/v1/session HTTP/1.1\r\nHost: {host}\r\nCookie: ringside=a; b\r\n\
                 Authorization: Bearer x\r\n\r\n"
            ),
        ]
        .map(String::into_bytes);
        ringside_testkit::fuzz("serve-requests", 300, &seeds, |request| {
            let answer = service.raw(request, true);
            assert!(!answer.starts_with("HTTP/1.1 500"), "{answer}");
        });
        assert_eq!(service.get("/").status, 200);
    });
}
