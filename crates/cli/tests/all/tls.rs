//! `tls`: openssl's server and client agree on what is written of them, and QUIC is read next to
//! it; live, from a recording, and under all names.

use crate::common::*;
use ringside_lab::RECEIVER_ADDRESS;
use ringside_testkit::{WAIT_MAX, need_root, need_tool, quic};
use serde_json::Value;
use std::net::UdpSocket;
use std::path::Path;
use std::process::{Command, Stdio};

const PORT: u16 = 4433;

/// A key and a certificate that says it is `known.test`.
fn certificate(folder: &Path) -> [String; 2] {
    let [key, certificate] =
        ["key.pem", "certificate.pem"].map(|name| arg(&folder.join(name)).to_owned());
    let mut args = vec!["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"];
    args.extend(["-nodes", "-days", "9", "-subj", "/O=Lab/CN=known.test", "-keyout", &key]);
    args.extend(["-out", &certificate]);
    let outcome = run("openssl", &args);
    assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
    [key, certificate]
}

/// openssl's server in the receiver's namespace.
fn server(network: &Network, [key, certificate]: &[String; 2]) -> Running {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", network.receiver(), "openssl", "s_server", "-www", "-alpn"]);
    command.args(["h2", "-accept", &PORT.to_string(), "-key", key, "-cert", certificate]);
    let running = Running::start(command);
    running.wait_for_stdout("ACCEPT");
    running
}

/// What openssl's client says of a connection.
fn client(network: &Network, args: &[&str]) -> String {
    let mut command = Command::new("ip");
    command.args(["netns", "exec", network.sender(), "openssl", "s_client", "-connect"]);
    command.arg(format!("{RECEIVER_ADDRESS}:{PORT}"));
    command.args(["-servername", "known.test", "-alpn", "h2,http/1.1"]).args(args);
    let output = command.stdin(Stdio::null()).output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

/// Clients and a server of QUIC say what the RFCs have as their examples.
fn over_quic(network: &Network) {
    let bind = |namespace, address| {
        let socket = inside(namespace, || UdpSocket::bind(address).unwrap());
        socket.set_read_timeout(Some(WAIT_MAX)).unwrap();
        socket
    };
    let server = bind(network.receiver(), (RECEIVER_ADDRESS, PORT));
    for example in [quic::version_1(), quic::version_2()] {
        let client = bind(network.sender(), ("0.0.0.0", 0));
        let mut bytes = [0; 2_000];
        client.send_to(&example.client, (RECEIVER_ADDRESS, PORT)).unwrap();
        let (length, from) = server.recv_from(&mut bytes).unwrap();
        assert_eq!(bytes[..length], example.client);
        server.send_to(&example.server, from).unwrap();
        let (length, _) = client.recv_from(&mut bytes).unwrap();
        assert_eq!(bytes[..length], example.server);
    }
}

/// The records among lines of JSON.
fn records(lines: &[Value]) -> Vec<&Value> {
    lines.iter().filter(|line| line.get("ending").is_some()).collect()
}

/// `TRANSPORT VERSION NAME CIPHER ALPN SUBJECT ENDING` of a line.
fn facts(line: &Value) -> String {
    let of = |name: &str| line[name].as_str().unwrap_or("-").to_owned();
    let names = ["transport", "version", "server_name", "cipher", "alpn", "subject", "ending"];
    names.map(of).join(" ")
}

#[test]
fn openssl_agrees_on_what_is_logged_live_and_recorded() {
    let test = "openssl_agrees_on_what_is_logged_live_and_recorded";
    if !need_root(test) || !need_tool(test, "openssl") {
        return;
    }
    let (network, folder) = (Network::up(), tempfile::tempdir().unwrap());
    let server = server(&network, &certificate(folder.path()));
    let recording = folder.path().join("recording");
    let mut command = Command::new("env");
    command.arg("--default-signal=INT,HUP").arg(ringside());
    command.args(["tls", "--json", "--no-control", "-w", arg(&recording)]);
    command.args(["--netns", network.receiver(), "-i", "rx0"]);
    let running = Running::start(command);
    running.wait_for_stderr("listening on");
    let suite = "ECDHE-ECDSA-AES128-GCM-SHA256";
    let older = client(&network, &["-tls1_2", "-cipher", suite]);
    assert!(older.contains(&format!("Cipher is {suite}")), "{older}");
    assert!(older.contains("ALPN protocol: h2") && older.contains("subject=O = Lab"), "{older}");
    let newer = client(&network, &["-tls1_3", "-ciphersuites", "TLS_AES_128_GCM_SHA256"]);
    assert!(newer.contains("Cipher is TLS_AES_128_GCM_SHA256"), "{newer}");
    // The server's key is of another kind.
    let refused = client(&network, &["-tls1_2", "-cipher", "ECDHE-RSA-AES128-GCM-SHA256"]);
    assert!(refused.contains("Cipher is (NONE)"), "{refused}");
    over_quic(&network);
    running.wait_for_stdout("\"quic_version\":\"2\"");
    let outcome = running.stop();
    server.stop();
    assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
    let lines = outcome.json_lines();
    let account = &lines.last().unwrap()["account"];
    assert_eq!(account["balances"], true, "{account}");
    let found = records(&lines);
    let expected = [
        "tcp TLS 1.2 known.test 0xc02b h2 O=Lab, CN=known.test complete",
        "tcp TLS 1.3 known.test 0x1301 - - complete",
        "tcp TLS 1.2 known.test - - - alert",
        "quic TLS 1.3 example.com 0x1301 - - complete",
        "quic TLS 1.3 example.com 0x1301 - - complete",
    ];
    assert_eq!(found.iter().map(|line| facts(line)).collect::<Vec<_>>(), expected);
    assert_eq!((&account["quic"]["read"], &found[2]["alert"]), (&4.into(), &40.into()));
    let stored = run_ringside(&["tls", "-r", arg(&recording), "--json"]);
    assert_eq!(stored.code(), Some(0), "{}", stored.stderr);
    let again = stored.json_lines();
    let without_interface = |lines: &[&Value]| -> Vec<Value> {
        let mut lines: Vec<Value> = lines.iter().map(|&line| line.clone()).collect();
        lines.iter_mut().for_each(|line| drop(line.as_object_mut().unwrap().remove("interface")));
        lines
    };
    assert_eq!(without_interface(&records(&again)), without_interface(&found));
    check_names(&recording);
}

/// The same fields under the names of others.
fn check_names(recording: &Path) {
    let of = |names: &str| {
        let args = ["tls", "-r", arg(recording), "--log-format", "json", "--names", names];
        let outcome = run_ringside(&args);
        assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
        outcome.json_lines()
    };
    let zeek = of("zeek");
    assert_eq!((&zeek[0]["version"], &zeek[0]["next_protocol"]), (&"TLSv12".into(), &"h2".into()));
    assert_eq!(zeek[3]["uid"], "CQ1");
    let eve = of("eve");
    assert_eq!(eve[0]["tls"]["sni"], "known.test");
    let quic = &eve[4];
    assert_eq!((&quic["event_type"], &quic["proto"]), (&"quic".into(), &"UDP".into()));
    assert_eq!(quic["quic"]["version"], "2");
    let ecs = of("ecs");
    assert_eq!(ecs[0]["tls"]["client"]["server_name"], "known.test");
    assert_eq!(ecs[3]["network"]["transport"], "udp");
    let otel = of("otel");
    assert_eq!(otel[1]["tls.cipher"], "0x1301");
    assert_eq!(otel[4]["network.transport"], "quic");
}
