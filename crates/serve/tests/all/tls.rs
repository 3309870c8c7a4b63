//! Over TLS: what curl and openssl say of it, and what ends a handshake that does not.

use crate::common::{Answer, Served, limits, read_all, with_renewals, with_service};
use ringside_core::Ledger;
use ringside_serve::{Config, Limits, Listen, Server, Tls, Tokens};
use ringside_testkit::certificates::{Authority, Certified};
use ringside_testkit::{WAIT_MAX, need_tool, wait_until};
use std::fs::{Permissions, set_permissions, write};
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tempfile::TempDir;

const NAMES: [&str; 2] = ["ringside.example", "127.0.0.1"];
/// `printf look | sha256sum`
const LOOK: &str = "3c01eba119e00d79c82b6f65d70bc5f1044d568618bf41377e6d1432023fc2b8";

/// An authority, and the files of a service.
struct Site {
    authority: Authority,
    folder: TempDir,
}

impl Site {
    fn new() -> Site {
        let site =
            Site { authority: Authority::new("tests"), folder: tempfile::tempdir().unwrap() };
        site.put(&site.authority.certify(&NAMES));
        write(site.path("authority"), site.authority.pem()).unwrap();
        write(site.path("tokens"), format!("looker read {LOOK}\n")).unwrap();
        site
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn put(&self, certified: &Certified) {
        write(self.path("certificate"), &certified.certificate).unwrap();
        write(self.path("key"), &certified.key).unwrap();
        set_permissions(self.path("key"), Permissions::from_mode(0o600)).unwrap();
    }

    fn tls(&self) -> Option<Tls> {
        Some(Tls::load(&self.path("certificate"), &self.path("key")).unwrap())
    }

    fn config(&self, limits: Limits) -> Config {
        Config { tls: self.tls(), limits, ..Config::default() }
    }

    fn config_with_tokens(&self) -> Config {
        let tokens = Some(Tokens::load(&self.path("tokens")).unwrap());
        Config { tokens, ..self.config(limits()) }
    }

    fn ask(&self, service: &Served, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
        let request = service.request(method, path, headers, "");
        let mut stream = self.authority.client(service.connect(), "127.0.0.1");
        stream.write_all(request.as_bytes()).unwrap();
        Answer::of(&String::from_utf8_lossy(&read_all(&mut stream)))
    }

    /// The status that curl got, or how it ended.
    fn curl(&self, service: &Served, path: &str, args: &[&str]) -> Result<u16, i32> {
        let (_, port) = service.address.split_once(':').unwrap();
        let mut command = Command::new("curl");
        command.args(["--silent", "--output", "/dev/null", "--write-out", "%{http_code}"]);
        command.args(["--resolve", &format!("ringside.example:{port}:127.0.0.1")]);
        command.arg("--cacert").arg(self.path("authority")).args(args);
        let url = format!("https://ringside.example:{port}{path}");
        let run = command.arg(url).output().unwrap();
        match run.status.code() {
            Some(0) => Ok(String::from_utf8(run.stdout).unwrap().parse().unwrap()),
            code => Err(code.unwrap()),
        }
    }

    /// What `openssl s_client` says.
    fn openssl(&self, service: &Served, args: &[&str]) -> String {
        let mut command = Command::new("openssl");
        command.args(["s_client", "-connect", &service.address, "-servername", "ringside.example"]);
        command.arg("-CAfile").arg(self.path("authority")).args(args).stdin(Stdio::null());
        let run = command.output().unwrap();
        let [out, err] =
            [run.stdout, run.stderr].map(|it| String::from_utf8_lossy(&it).into_owned());
        out + &err
    }
}

#[test]
fn curl_gets_the_page_and_with_a_token_what_its_scopes_open() {
    if !need_tool("tls::curl_gets_the_page", "curl") {
        return;
    }
    let site = Site::new();
    with_service(Ledger::default(), site.config_with_tokens(), |service| {
        let token = ["--header", "Authorization: Bearer look"];
        let wrong = ["--header", "Authorization: Bearer none"];
        assert_eq!(site.curl(service, "/", &[]), Ok(200));
        assert_eq!(site.curl(service, "/api/v1/captures", &[]), Ok(401));
        assert_eq!(site.curl(service, "/api/v1/captures", &wrong), Ok(401));
        assert_eq!(site.curl(service, "/api/v1/captures", &token), Ok(200));
        assert_eq!(site.curl(service, "/metrics", &token), Ok(200));
        assert_eq!(site.curl(service, "/api/v1/packets", &token), Ok(403));
        let other = ["--header", "Host: evil.example"];
        assert_eq!(site.curl(service, "/", &other), Ok(403));
        // A name of the certificate at the port that some other machine hands on from.
        let other = ["--header", "Host: ringside.example:1"];
        assert_eq!(site.curl(service, "/", &other), Ok(200));
        let stranger = site.path("stranger");
        write(&stranger, Authority::new("another").pem()).unwrap();
        let stranger = ["--cacert", stranger.to_str().unwrap()];
        assert_eq!(site.curl(service, "/", &stranger), Err(60), "it is really that certificate");
    });
}

#[test]
fn openssl_finds_the_versions_of_today_and_none_before() {
    if !need_tool("tls::openssl_finds_the_versions", "openssl") {
        return;
    }
    let site = Site::new();
    with_service(Ledger::default(), site.config(limits()), |service| {
        for (version, name) in [("-tls1_2", "TLSv1.2"), ("-tls1_3", "TLSv1.3")] {
            let said = site.openssl(service, &[version, "-alpn", "h2,http/1.1"]);
            for words in [name, "Verify return code: 0 (ok)", "ALPN protocol: http/1.1"] {
                assert!(said.contains(words), "{version}: {said}");
            }
        }
        for version in ["-tls1_1", "-tls1"] {
            let said = site.openssl(service, &[version, "-cipher", "ALL:@SECLEVEL=0"]);
            // It was asked for, and the service said no.
            for words in ["SSL alert number", "Cipher is (NONE)"] {
                assert!(said.contains(words), "{version}: {said}");
            }
        }
        let said = site.openssl(service, &["-alpn", "h2"]);
        assert!(said.contains("alert no application protocol"), "{said}");
    });
}

#[test]
fn cookies_and_origins_are_those_of_https() {
    let site = Site::new();
    with_service(Ledger::default(), site.config_with_tokens(), |service| {
        let own = format!("https://{}", service.address);
        let plain = format!("http://{}", service.address);
        let bearer = ("Authorization", "Bearer look");
        let signed_in = site.ask(service, "POST", "/api/v1/session", &[bearer, ("Origin", &own)]);
        assert_eq!(signed_in.status, 200, "{signed_in:?}");
        for words in [
            "ringside=look; path=/; httponly; samesite=strict; secure",
            "strict-transport-security: max-age=2592000",
        ] {
            assert!(signed_in.head.contains(words), "{signed_in:?}");
        }
        for origin in [&*plain, "https://evil.example", "null"] {
            let answer =
                site.ask(service, "POST", "/api/v1/session", &[bearer, ("Origin", origin)]);
            assert_eq!(answer.status, 403, "{origin}: {answer:?}");
        }
        let out = site.ask(service, "DELETE", "/api/v1/session", &[]);
        assert!(out.head.contains("secure; max-age=0"), "{out:?}");
        let port = service.address.split_once(':').unwrap().1;
        let local = [("Host", &*format!("localhost:{port}"))];
        let page = site.ask(service, "GET", "/", &local);
        assert_eq!(page.status, 200);
        assert!(!page.head.contains("strict-transport"), "it would be of every port: {page:?}");
    });
    with_service(Ledger::default(), Config { limits: limits(), ..Config::default() }, |service| {
        assert!(!service.get("/").head.contains("strict-transport"), "nothing is encrypted");
    });
}

#[test]
fn without_tls_a_client_is_answered_where_to_go() {
    let site = Site::new();
    with_service(Ledger::default(), site.config(limits()), |service| {
        let long = "x".repeat(40_000);
        for request in ["GET / HTTP/1.1\r\nHost: x\r\n\r\n", "POST /", &long] {
            let answer = Answer::of(&service.raw(request.as_bytes(), true));
            assert_eq!(answer.status, 400, "{answer:?}");
            let words = format!("this port speaks TLS: https://{}/", service.address);
            assert!(answer.body.contains(&words), "{answer:?}");
        }
    });
}

#[test]
fn handshakes_that_never_end_take_the_places_of_their_host_alone() {
    if !need_tool("tls::handshakes_that_never_end", "curl") {
        return;
    }
    let site = Site::new();
    let limits = Limits { handshake_time_max: 2 * WAIT_MAX, ..limits() };
    with_service(Ledger::default(), site.config(limits), |service| {
        // A client that another host cannot be: its own places are full. That others have theirs
        // is tested where they are counted.
        let mut hanging: Vec<_> = (0..64).map(|_| service.connect()).collect();
        // The beginning of a record that does not go on.
        hanging.iter_mut().for_each(|stream| stream.write_all(&[22, 3, 1, 2]).unwrap());
        let mut one_more = service.connect();
        assert!(read_all(&mut one_more).is_empty(), "this host has as many as it may");
        hanging.pop();
        wait_until("a place", || site.curl(service, "/", &[]) == Ok(200));
    });
}

#[test]
fn a_handshake_that_does_not_end_in_time_is_over() {
    let site = Site::new();
    let limits = Limits { handshake_time_max: Duration::from_millis(50), ..limits() };
    with_service(Ledger::default(), site.config(limits), |service| {
        // Also one of plain HTTP whose end does not come.
        for begin in [&b""[..], &[22], &[22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3], b"GET / HTTP/1.1\r\n"]
        {
            let mut stream = service.connect();
            stream.write_all(begin).unwrap();
            read_all(&mut stream);
        }
    });
}

#[test]
fn a_renewed_certificate_is_for_new_connections_and_ends_none() {
    let (site, is_renewed) = (Site::new(), AtomicBool::new(false));
    let config = site.config(limits());
    with_renewals(Ledger::default(), config, &is_renewed, |service| {
        let mut old = site.authority.client(service.connect(), "127.0.0.1");
        ask_and_stay(service, &mut old);
        let other = Authority::new("another");
        site.put(&other.certify(&NAMES));
        is_renewed.store(true, Ordering::Release);
        wait_until("the new certificate", || {
            let mut stream = other.client(service.connect(), "127.0.0.1");
            stream.write_all(b"GET").is_ok()
        });
        ask_and_stay(service, &mut old);
        let mut late = site.authority.client(service.connect(), "127.0.0.1");
        assert!(late.write_all(b"GET").is_err(), "the old authority vouches for it no more");
    });
}

/// One request of a connection that has more.
fn ask_and_stay(service: &Served, stream: &mut (impl Read + Write)) {
    let request = format!("GET /app.css HTTP/1.1\r\nHost: {}\r\n\r\n", service.address);
    stream.write_all(request.as_bytes()).unwrap();
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    let answer = Answer::of(&String::from_utf8(head).unwrap());
    assert_eq!(answer.status, 200, "{answer:?}");
    let length = answer.head.lines().find_map(|line| line.strip_prefix("content-length: "));
    stream.read_exact(&mut vec![0; length.unwrap().parse().unwrap()]).unwrap();
}

#[test]
fn other_hosts_are_let_in_by_tls_and_tokens_alone() {
    let site = Site::new();
    let listen: Listen = "0.0.0.0:0".parse().unwrap();
    for config in [
        Config::default(),
        site.config(limits()),
        Config { tls: None, ..site.config_with_tokens() },
        Config { metrics_only: true, ..Config::default() },
        Config { metrics_only: true, ..site.config(limits()) },
    ] {
        let error = Server::bind(config, &listen).err().unwrap().to_string();
        assert!(error.contains("TLS (--tls-cert") && error.contains("--tokens"), "{error}");
    }
    let server = Server::bind(site.config_with_tokens(), &listen).unwrap();
    assert!(server.address().starts_with("https://0.0.0.0:"), "{}", server.address());
    let socket = Listen::Unix(site.path("serve.sock"));
    let error = Server::bind(site.config(limits()), &socket).err().unwrap().to_string();
    assert!(error.contains("leave out --tls-cert"), "{error}");
}

#[test]
fn whatever_comes_first_the_service_goes_on() {
    let site = Site::new();
    with_service(Ledger::default(), site.config(limits()), |service| {
        let mut hello = Vec::new();
        site.authority.client(service.connect(), "127.0.0.1").conn.write_tls(&mut hello).unwrap();
        // Of SSL 2, an alert, data before the handshake, HTTP.
        let seeds = [
            hello,
            vec![0x80, 46, 1, 0, 2, 0, 21, 0, 0, 0, 16],
            vec![21, 3, 1, 0, 2, 1, 0],
            vec![23, 3, 3, 0, 3, b'G', b'E', b'T'],
            b"GET / HTTP/1.1\r\n\r\n".to_vec(),
        ];
        ringside_testkit::fuzz("serve-handshakes", 300, &seeds, |bytes| {
            let mut stream = service.connect();
            let _ = stream.write_all(bytes);
            let _ = stream.shutdown(Shutdown::Write);
            let answer = read_all(&mut stream);
            assert!(!answer.starts_with(b"HTTP/1.1 2"), "{answer:?}");
        });
        assert_eq!(site.ask(service, "GET", "/", &[]).status, 200);
    });
}
