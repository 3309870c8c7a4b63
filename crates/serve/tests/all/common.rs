//! A capture that is none, a service next to it, and a client that is not ours to trust.

use ringside_control::{
    Asked, Command, ControlSocket, Desk, OutputStatus, Reply, RuleDesk, RuleStore, Status,
    StatusParts, serve_while,
};
use ringside_core::Ledger;
use ringside_rules::engine::Counts;
use ringside_rules::language::{Rule, RuleId, RuleSet, Verdict};
use ringside_serve::{Config, Limits, Listen, Orders, Server};
use ringside_testkit::WAIT_MAX;
use ringside_testkit::stacks::{Header, Stack};
use serde_json::Value;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A run of which the test knows the ledger.
pub struct Fake {
    ledger: Ledger,
    rules: RuleDesk,
}

impl Asked for Fake {
    fn status(&self, parts: &StatusParts) -> anyhow::Result<Status> {
        Ok(parts.status(self.ledger.clone()))
    }

    fn answer(&self, command: Command) -> Reply {
        match command {
            Command::Rules(command) => self.rules.answer(command),
            _ => Reply::refused("not asked here"),
        }
    }
}

/// Rules that judge nothing.
#[derive(Default)]
struct Rules(Vec<Rule>);

impl RuleStore for Rules {
    fn add(&mut self, rule: Rule) -> Result<(), String> {
        if self.0.iter().any(|known| known.id == rule.id) {
            return Err(format!("there is a rule {} already", rule.id.0));
        }
        self.0.push(rule);
        self.0.sort_by_key(|rule| rule.id);
        Ok(())
    }

    fn remove(&mut self, id: RuleId) -> bool {
        let before = self.0.len();
        self.0.retain(|rule| rule.id != id);
        self.0.len() < before
    }

    fn load(&mut self, set: RuleSet) -> Result<(), String> {
        self.0 = set.rules;
        Ok(())
    }

    fn count(&self) -> usize {
        self.0.len()
    }

    fn list(&self, after: Option<RuleId>, each: &mut dyn FnMut(&Rule, Counts, &str) -> bool) {
        let mut behind = self.0.iter().filter(|rule| after.is_none_or(|after| rule.id > after));
        behind.all(|rule| each(rule, Counts::default(), "fake"));
    }

    fn last(&self) -> Option<RuleId> {
        self.0.last().map(|rule| rule.id)
    }

    fn default_counts(&self) -> (Verdict, Counts) {
        (Verdict::Pass, Counts::default())
    }
}

/// A service, and where it is.
pub struct Served {
    pub address: String,
}

/// Limits that a test can wait for.
pub fn limits() -> Limits {
    Limits {
        tick: Duration::from_millis(10),
        keep_alive: Duration::from_millis(50),
        ..Limits::default()
    }
}

/// Runs `work` next to a service by TCP, and a capture with this ledger.
pub fn with_service(ledger: Ledger, config: Config, work: impl FnOnce(&Served)) {
    with_renewals(ledger, config, &AtomicBool::new(false), work);
}

/// The same; each time that `is_renewed` is set the certificate is read again.
pub fn with_renewals(
    ledger: Ledger,
    config: Config,
    is_renewed: &AtomicBool,
    work: impl FnOnce(&Served),
) {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("capture.sock");
    let control = ControlSocket::bind(&socket).unwrap();
    let output = OutputStatus { kind: "directory".into(), paths: vec!["/data/\u{1b}x".into()] };
    let parts = StatusParts::new("rx0 (1 lane)".into(), vec!["rx0".into()], output);
    let rules = RuleDesk::new(Box::new(Rules::default()));
    let desk = Desk::new(parts, Fake { ledger, rules });
    let config = Config { control: vec![socket], ..config };
    let listen = Listen::Tcp("127.0.0.1:0".parse().unwrap());
    let serve = || {
        let server = Server::bind(config, &listen).unwrap();
        let address = server.address();
        let (_, address) = address.split_once("://").unwrap();
        let address = address.trim_end_matches('/').to_owned();
        let served = Served { address };
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let _end = EndOnDrop(&stop);
            scope.spawn(|| {
                let orders = Orders {
                    stop: &|| stop.load(Ordering::Acquire),
                    renew: &|| is_renewed.swap(false, Ordering::AcqRel),
                };
                server.run(&orders).unwrap();
            });
            work(&served);
        });
    };
    serve_while(Some(control), |command| desk.answer(command), serve);
}

/// Ends the service when it is dropped, also by a test that fails.
struct EndOnDrop<'a>(&'a AtomicBool);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    /// Out of what came until the end of a connection.
    pub fn of(text: &str) -> Answer {
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        Answer { status, head: head.to_ascii_lowercase(), body: body.to_owned() }
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// The error's text.
    pub fn error(&self) -> String {
        self.json()["error"].as_str().unwrap().to_owned()
    }
}

impl Served {
    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(WAIT_MAX)).unwrap();
        stream.set_write_timeout(Some(WAIT_MAX)).unwrap();
        stream
    }

    /// Sends bytes, and gives what comes until the service closes; `is_all` closes the client's way
    /// before, so that the service waits for nothing more.
    pub fn raw(&self, request: &[u8], is_all: bool) -> String {
        let mut stream = self.connect();
        // It may answer, and close, before it has all.
        let _ = stream.write_all(request);
        if is_all {
            let _ = stream.shutdown(std::net::Shutdown::Write);
        }
        String::from_utf8_lossy(&read_all(&mut stream)).into_owned()
    }

    /// Asks, with further headers.
    pub fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let request = self.request(method, path, headers, body);
        Answer::of(&self.raw(request.as_bytes(), false))
    }

    /// A request, as text.
    pub fn request(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> String {
        let host = self.address.as_str();
        let length = body.len().to_string();
        let mut request = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        let own = [("Host", host), ("Content-Length", &length)];
        let is_own_left = |name: &str| !headers.iter().any(|(other, _)| *other == name);
        let own = own.iter().filter(|(name, _)| is_own_left(name));
        for (name, value) in own.chain(headers) {
            request += &format!("{name}: {value}\r\n");
        }
        format!("{request}\r\n{body}")
    }

    pub fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[], "")
    }

    pub fn post(&self, path: &str, body: &Value) -> Answer {
        self.ask("POST", path, &[("Content-Type", "application/json")], &body.to_string())
    }

    /// The captures, once they were asked.
    pub fn captures(&self) -> Value {
        let mut captures = Value::Null;
        ringside_testkit::wait_until("a look at the captures", || {
            captures = self.get("/api/v1/captures").json();
            captures["captures"][0].is_object()
        });
        captures
    }
}

/// What comes until the other end closes, as far as it came.
pub fn read_all(stream: &mut impl Read) -> Vec<u8> {
    let (mut all, mut bytes) = (Vec::new(), [0; 4096]);
    loop {
        match stream.read(&mut bytes) {
            Ok(0) => return all,
            Ok(count) => all.extend_from_slice(&bytes[..count]),
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return all,
            Err(error) => panic!("{error}"),
        }
    }
}

/// The folder of the page.
pub fn web() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("web")
}

/// A datagram of UDP over IPv4: source and destination, and their ports.
pub fn datagram(addresses: [u8; 8], ports: [u16; 2], payload: &[u8]) -> Vec<u8> {
    let ip = Header::Ipv4 { id: 1, dont_fragment: true, addresses, options: Vec::new() };
    Stack(vec![Header::Ethernet, ip, Header::Udp { ports, has_checksum: true }]).uncut(payload)
}

/// A file of pcap: frames with their microseconds since a moment of 2023.
pub fn write_pcap(path: &Path, frames: impl Iterator<Item = (u64, Vec<u8>)>) {
    let mut bytes = Vec::new();
    for word in [0xa1b2_c3d4u32, 4 << 16 | 2, 0, 0, 65_535, 1] {
        bytes.extend(word.to_le_bytes());
    }
    for (at_us, frame) in frames {
        let (seconds, rest) = (at_us / 1_000_000, at_us % 1_000_000);
        let length = frame.len() as u32;
        for word in [1_700_000_000 + seconds as u32, rest as u32, length, length] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(frame);
    }
    std::fs::write(path, bytes).unwrap();
}
