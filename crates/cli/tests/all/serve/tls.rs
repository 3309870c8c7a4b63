//! By TLS: a certificate that is renewed, and other hosts.

use crate::common::folder::Folder;
use crate::common::*;
use ringside_lab::RECEIVER_ADDRESS;
use ringside_testkit::certificates::{Authority, Certified};
use ringside_testkit::{need_root, need_tool};
use rustix::process::Signal;
use std::fs::{Permissions, set_permissions, write};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

/// `printf look | sha256sum`
const LOOK: &str = "3c01eba119e00d79c82b6f65d70bc5f1044d568618bf41377e6d1432023fc2b8";
/// Wrong tokens after which an address is left out.
const WRONG_TOKENS_MAX: usize = 10;

/// Puts a certificate and its key into files, next to that of its authority.
fn put(folder: &Folder, authority: &Authority, certified: &Certified) {
    folder.add("authority", authority.pem());
    folder.add("certificate", &certified.certificate);
    let key = folder.path("key");
    write(&key, &certified.key).unwrap();
    set_permissions(key, Permissions::from_mode(0o600)).unwrap();
}

/// `ringside serve` with these files.
fn command(folder: &Folder, listen: &str) -> Vec<String> {
    let files = ["certificate", "key"].map(|name| arg(&folder.path(name)).to_owned());
    let [certificate, key] = files;
    let args = ["serve", "--listen", listen, "--tls-cert", &certificate, "--tls-key", &key];
    args.map(str::to_owned).to_vec()
}

/// Where it listens.
fn url(running: &Running) -> String {
    running.wait_for_stderr("listening on https://");
    let said = running.stderr_so_far();
    let (_, rest) = said.split_once("listening on ").unwrap();
    rest.lines().next().unwrap().to_owned()
}

/// The status that curl gets.
fn status(program: &[&str], folder: &Folder, url: &str, more: &[&str]) -> String {
    let authority = folder.path("authority");
    let own = ["--silent", "--output", "/dev/null", "--write-out", "%{http_code}", "--cacert"];
    let args = [&program[1..], &own, &[arg(&authority)], more, &[url]].concat();
    run(program[0], &args).text()
}

#[test]
fn a_certificate_is_read_again_by_sighup_and_one_that_is_wrong_changes_nothing() {
    if !need_tool("serve::tls::a_certificate_is_read_again", "curl") {
        return;
    }
    let (folder, first) = (Folder::new(), Authority::new("first"));
    put(&folder, &first, &first.certify(&["127.0.0.1"]));
    // As under nohup: the signal ends nothing here, and is answered all the same.
    let mut service = Command::new("env");
    service.arg("--ignore-signal=HUP").arg(ringside()).args(command(&folder, "127.0.0.1:0"));
    let running = Running::start(service);
    let url = format!("{}api/v1/captures", url(&running));
    assert_eq!(status(&["curl"], &folder, &url, &[]), "200", "by its own user");

    let certificate = std::fs::read(folder.path("certificate")).unwrap();
    folder.add("certificate", "hello");
    running.signal(Signal::HUP);
    running.wait_for_stderr("the certificate stays the one that was read before");
    assert_eq!(status(&["curl"], &folder, &url, &[]), "200");
    folder.add("certificate", certificate);

    let second = Authority::new("second");
    put(&folder, &second, &second.certify(&["127.0.0.1"]));
    assert_eq!(status(&["curl"], &folder, &url, &[]), "000", "it is not known yet");
    running.signal(Signal::HUP);
    running.wait_for_stderr("the certificate was read again");
    assert_eq!(status(&["curl"], &folder, &url, &[]), "200");

    running.signal(Signal::TERM);
    let outcome = running.finish();
    assert_eq!(outcome.code(), Some(0), "{outcome:?}");
    assert!(outcome.stderr.contains("holds no certificate"), "{outcome:?}");
}

#[test]
fn another_host_gets_in_by_a_token_and_by_many_wrong_ones_nowhere() {
    let test = "serve::tls::another_host_gets_in";
    if !need_root(test) || !need_tool(test, "curl") {
        return;
    }
    let (network, folder, authority) = (Network::up(), Folder::new(), Authority::new("tests"));
    put(&folder, &authority, &authority.certify(&[RECEIVER_ADDRESS, "127.0.0.1"]));
    let tokens = folder.add("tokens", format!("looker read {LOOK}\n"));
    let inside = |namespace: &str| ["ip", "netns", "exec", namespace].map(str::to_owned);
    let mut service = Command::new("ip");
    service.args(&inside(network.receiver())[1..]).arg(ringside());
    service.args(command(&folder, "0.0.0.0:8443")).args(["--tokens", arg(&tokens)]);
    let running = Running::start(service);
    assert_eq!(url(&running), "https://0.0.0.0:8443/");

    let ask = |namespace: &str, address: &str, path: &str, token: &str| {
        let program = inside(namespace);
        let program: Vec<&str> = program.iter().map(String::as_str).chain(["curl"]).collect();
        let header = format!("Authorization: Bearer {token}");
        let url = format!("https://{address}:8443{path}");
        status(&program, &folder, &url, &["--header", &header])
    };
    let from_afar = |path: &str, token: &str| ask(network.sender(), RECEIVER_ADDRESS, path, token);
    assert_eq!(from_afar("/api/v1/captures", "look"), "200");
    assert_eq!(from_afar("/api/v1/packets", "look"), "403");
    for _ in 0..WRONG_TOKENS_MAX {
        assert_eq!(from_afar("/api/v1/captures", "none"), "401");
    }
    assert_eq!(from_afar("/api/v1/captures", "none"), "429");
    assert_eq!(from_afar("/api/v1/captures", "look"), "429");
    assert_eq!(from_afar("/", "look"), "200", "the page asks for no token");
    let here = |token: &str| ask(network.receiver(), "127.0.0.1", "/api/v1/captures", token);
    (0..=WRONG_TOKENS_MAX).for_each(|_| assert_eq!(here("none"), "401", "clients share it"));
    assert_eq!(here("look"), "200");
    running.signal(Signal::TERM);
    assert_eq!(running.finish().code(), Some(0));
}

#[test]
fn metrics_are_for_other_hosts_with_a_token() {
    if !need_tool("serve::tls::metrics_are_for_other_hosts", "curl") {
        return;
    }
    let (folder, authority) = (Folder::new(), Authority::new("tests"));
    put(&folder, &authority, &authority.certify(&["127.0.0.1"]));
    let tokens = folder.add("tokens", format!("prometheus read {LOOK}\n"));
    let mut service = Command::new(ringside());
    service.args(command(&folder, "0.0.0.0:0")).args(["--metrics", "--tokens", arg(&tokens)]);
    let running = Running::start(service);
    let url = format!("{}metrics", url(&running).replace("0.0.0.0", "127.0.0.1"));
    let token = ["--header", "Authorization: Bearer look"];
    assert_eq!(status(&["curl"], &folder, &url, &[]), "401");
    assert_eq!(status(&["curl"], &folder, &url, &token), "200");
    running.signal(Signal::TERM);
    assert_eq!(running.finish().code(), Some(0));
}

#[test]
fn what_is_wrong_with_tls_is_said_with_its_fix() {
    let (folder, authority) = (Folder::new(), Authority::new("tests"));
    put(&folder, &authority, &authority.certify_expired(&["127.0.0.1"]));
    let socket = format!("unix:{}", arg(&folder.path("serve.sock")));
    let whole = |listen: &str| command(&folder, listen);
    let without = |listen: &str, count: usize| {
        let mut args = whole(listen);
        args.truncate(args.len() - count);
        args
    };
    let tokens = folder.add("tokens", format!("looker read {LOOK}\n"));
    let with_tokens = |mut args: Vec<String>| {
        args.extend(["--tokens".to_owned(), arg(&tokens).to_owned()]);
        args
    };
    for (args, words) in [
        (without("127.0.0.1:0", 2), "--tls-key"),
        (whole(&socket), "a Unix socket speaks no TLS: leave out --tls-cert"),
        (whole("0.0.0.0:0"), "--tokens FILE, and tokens are missing"),
        (with_tokens(without("0.0.0.0:0", 4)), "--tokens FILE, and TLS is missing"),
        (without("0.0.0.0:0", 4), "neither is there"),
        (whole("0.0.0.0:0"), "warning: certificate"),
        (whole("0.0.0.0:0"), "expired on Jan  1 00:00:00 2002"),
    ] {
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let outcome = run_ringside(&args);
        assert_eq!(outcome.code(), Some(2), "{outcome:?}");
        assert!(outcome.stderr.contains(words), "{outcome:?}");
    }
    set_permissions(folder.path("key"), Permissions::from_mode(0o644)).unwrap();
    let args = whole("127.0.0.1:0");
    let outcome = run_ringside(&args.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(outcome.stderr.contains("chmod 600"), "{outcome:?}");
}
