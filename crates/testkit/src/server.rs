//! A tiny HTTP server of tests that does what servers do when they are in trouble.

use crate::{project_root, skip, wait_until};
use std::collections::BTreeSet;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How long a client may take over its request.
const READ_MAX: Duration = Duration::from_secs(20);

/// What a client asked.
#[derive(Clone, Debug)]
pub struct Request {
    /// Path and query, as they came.
    pub target: String,
    /// Header lines, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Request {
    /// A header's value.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// A parameter of the query, with `%XX` and `+` decoded.
    pub fn parameter(&self, name: &str) -> Option<String> {
        let (_, query) = self.target.split_once('?')?;
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.into_iter().find(|(found, _)| *found == name).map(|(_, value)| decoded(value))
    }
}

fn decoded(text: &str) -> String {
    let (mut out, bytes) = (Vec::new(), text.as_bytes());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        at += 1;
        out.push(match byte {
            b'+' => b' ',
            b'%' => {
                at += 2;
                let hex = text.get(at - 2..at).expect("two digits");
                u8::from_str_radix(hex, 16).expect("two digits")
            }
            other => other,
        });
    }
    String::from_utf8(out).expect("UTF-8")
}

/// What becomes of a request.
#[derive(Clone, Debug)]
pub enum Answer {
    /// This status with this body.
    Say(u16, Vec<u8>),
    /// The connection stays open, and nothing comes.
    Hang,
    /// The status with half of its body, then the end of the connection.
    Half(u16),
    /// The end of the connection.
    Die,
}

/// A server on this machine, until it is dropped.
pub struct HttpServer {
    address: SocketAddr,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl HttpServer {
    /// Answers each request as `answer` says, one after the other; on `port`, or on one that is
    /// free.
    ///
    /// # Panics
    /// The port cannot be had.
    pub fn start(port: u16, answer: impl FnMut(&Request) -> Answer + Send + 'static) -> Self {
        HttpServer::run(port, |stream| Some(Box::new(stream)), answer)
    }

    /// The same by TLS, with this certificate.
    ///
    /// # Panics
    /// The port cannot be had.
    #[cfg(feature = "tls")]
    pub fn start_tls(
        port: u16,
        certified: &crate::certificates::Certified,
        answer: impl FnMut(&Request) -> Answer + Send + 'static,
    ) -> Self {
        let config = certified.server();
        let wrap = move |stream| -> Option<Stream> {
            let session = rustls::ServerConnection::new(config.clone()).ok()?;
            Some(Box::new(rustls::StreamOwned::new(session, stream)))
        };
        HttpServer::run(port, wrap, answer)
    }

    fn run(
        port: u16,
        wrap: impl Fn(TcpStream) -> Option<Stream> + Send + 'static,
        mut answer: impl FnMut(&Request) -> Answer + Send + 'static,
    ) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", port)).expect("a port");
        let address = listener.local_addr().expect("its address");
        let is_over = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&is_over);
        let thread = thread::spawn(move || {
            let mut hanging = Vec::new();
            for stream in listener.incoming() {
                if stop.load(Ordering::SeqCst) {
                    return;
                }
                let Ok(stream) = stream else { continue };
                let _ = stream.set_read_timeout(Some(READ_MAX));
                let Some(mut stream) = wrap(stream) else { continue };
                // A client that goes away has its reasons.
                if matches!(serve(&mut *stream, &mut answer), Ok(true)) {
                    hanging.push(stream);
                }
            }
        });
        HttpServer { address, is_over, thread: Some(thread) }
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.address.port()
    }
}

impl Drop for HttpServer {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
        self.thread.take().map(JoinHandle::join);
    }
}

/// What a connection's bytes come and go by.
trait Duplex: Read + Write + Send {}

impl<S: Read + Write + Send> Duplex for S {}

type Stream = Box<dyn Duplex>;

/// True if the connection is to hang.
fn serve(stream: &mut dyn Duplex, answer: &mut impl FnMut(&Request) -> Answer) -> io::Result<bool> {
    let request = read(stream)?;
    let (status, body, sent) = match answer(&request) {
        Answer::Hang => return Ok(true),
        Answer::Die => return Ok(false),
        Answer::Half(status) => (status, vec![b'x'; 100], 50),
        Answer::Say(status, body) => {
            let length = body.len();
            (status, body, length)
        }
    };
    let head = format!(
        "HTTP/1.1 {status} Because\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(&body[..sent])?;
    stream.flush()?;
    Ok(false)
}

fn read(stream: &mut dyn Duplex) -> io::Result<Request> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let target = line.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut headers = Vec::new();
    loop {
        line.clear();
        reader.read_line(&mut line)?;
        let Some((name, value)) = line.split_once(':') else { break };
        headers.push((name.to_lowercase(), value.trim().to_owned()));
    }
    let mut request = Request { target, headers, body: Vec::new() };
    let length = request.header("content-length").and_then(|length| length.parse().ok());
    request.body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut request.body)?;
    Ok(request)
}

/// ClickHouse in a process of Python's, on the data in a folder; none where Python has no chdb
/// (docs/howto/outlets.md).
pub struct ClickHouse {
    folder: PathBuf,
    port: u16,
    child: Child,
}

impl ClickHouse {
    /// Starts it; without chdb `test` is skipped visibly.
    ///
    /// # Panics
    /// It does not start.
    pub fn start(test: &str, folder: &Path) -> Option<ClickHouse> {
        let probe = ["-c", "import chdb"];
        let probe = Command::new("python3").args(probe).stderr(Stdio::null()).status();
        if !probe.is_ok_and(|status| status.success()) {
            skip(test, "python3 has no chdb (docs/howto/outlets.md)");
            return None;
        }
        let port = free_port();
        let (folder, child) = (folder.to_owned(), ClickHouse::run(folder, port));
        Some(ClickHouse { folder, port, child })
    }

    fn run(folder: &Path, port: u16) -> Child {
        let front = project_root().join("crates/testkit/servers/clickhouse.py");
        let mut command = Command::new("python3");
        command.arg(front).arg(folder).arg(port.to_string());
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("python3");
        wait_until("ClickHouse", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        child
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Kills it; after `pause` it is there again, with the data that it had.
    ///
    /// # Panics
    /// It does not start.
    pub fn kill(&mut self, pause: Duration) {
        self.end();
        thread::sleep(pause);
        self.child = ClickHouse::run(&self.folder, self.port);
    }

    fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// What a query answers, without the end of its last line.
    ///
    /// # Panics
    /// It answers with an error.
    pub fn ask(&self, query: &str) -> String {
        let url = format!("http://127.0.0.1:{}/", self.port);
        let args = ["--silent", "--show-error", "--fail-with-body", "--data-binary", query, &url];
        let output = Command::new("curl").args(args).output().expect("curl");
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        assert!(output.status.success(), "{query}: {text}");
        text.trim_end().to_owned()
    }
}

impl Drop for ClickHouse {
    fn drop(&mut self) {
        self.end();
    }
}

/// A port that was free a moment ago.
///
/// # Panics
/// No port is free.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("its address").port()
}

/// What a table of ClickHouse holds that takes each token once.
#[derive(Clone, Default)]
pub struct Table(Arc<Mutex<TableContent>>);

/// What is in a table.
#[derive(Clone, Debug, Default)]
pub struct TableContent {
    tokens: BTreeSet<String>,
    /// Lines of JSON.
    pub rows: Vec<String>,
    /// Inserts that were there already.
    pub repeated: u64,
    /// Statements that are no inserts.
    pub others: Vec<String>,
}

impl Table {
    /// Does what a request asks.
    ///
    /// # Panics
    /// It lacks what an insert must have.
    pub fn take(&self, request: &Request) {
        let query = request.parameter("query").expect("a query");
        let mut content = self.0.lock().expect("no panic");
        if !query.starts_with("INSERT INTO ") {
            content.others.push(query);
            return;
        }
        assert!(query.ends_with(" FORMAT JSONEachRow"), "{query}");
        let token = request.parameter("insert_deduplication_token").expect("a token");
        if !content.tokens.insert(token) {
            content.repeated += 1;
            return;
        }
        let body = String::from_utf8(request.body.clone()).expect("JSON is UTF-8");
        content.rows.extend(body.lines().map(String::from));
    }

    /// What is in it now.
    pub fn content(&self) -> TableContent {
        self.0.lock().expect("no panic").clone()
    }
}
