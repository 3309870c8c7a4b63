//! A question to a real, step by step, without waiting.

use ringside_balance::config::{HealthCheck, Question};
use ringside_netdev as netdev;
use ringside_sys::socket::set_way;
use rustix::net::sockopt::set_socket_linger;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};
use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::OwnedFd;
use std::time::Duration;

/// Bytes of an answer that are read, at most: its first line is in them.
const ANSWER_BYTES_MAX: usize = 4096;

/// A question under way.
#[derive(Debug)]
pub(super) enum Asking {
    /// By TCP.
    Stream(TcpStream, Exchange),
    /// A datagram was sent.
    Sent { socket: UdpSocket, expect: Vec<u8> },
}

/// What goes over a connection.
#[derive(Debug)]
pub(super) enum Exchange {
    /// It comes about, or is there; then the request, if there is one, and what is a good status.
    Connecting(Option<(Vec<u8>, Option<u16>)>),
    /// A request was sent; of the answer this is there.
    Requested { status: Option<u16>, answer: Vec<u8> },
}

/// How far it has come.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Step {
    Waits,
    Answered(Result<(), String>),
}

impl Asking {
    /// Sends a question out of an interface, its packets with a mark. An error says why nothing can
    /// be asked, which is not the real's fault.
    pub fn begin(check: &HealthCheck, ifindex: u32, mark: u32) -> Result<Asking, String> {
        let address = check.address;
        let route = netdev::route(ifindex, address).map_err(|error| error.to_string())?;
        match route {
            None => return Err(format!("there is no route to {address} by this interface")),
            Some(route) if !route.is_unicast() => {
                return Err(format!("{address} is an address of this host"));
            }
            Some(_) => {}
        }
        let kind = match check.question {
            Question::Udp { .. } => SocketType::DGRAM,
            _ => SocketType::STREAM,
        };
        let socket = open(SocketAddr::new(address, check.port), kind, ifindex, mark);
        let socket = socket.map_err(|error| error.to_string())?;
        Ok(match &check.question {
            Question::Tcp => Asking::Stream(TcpStream::from(socket), Exchange::Connecting(None)),
            Question::Http { path, host, status } => {
                let request = format!(
                    "GET {path} HTTP/1.1\r\nHost: {host}\r\nUser-Agent: ringside\r\nAccept: */*\r\n\
                     Connection: close\r\n\r\n"
                );
                let exchange = Exchange::Connecting(Some((request.into_bytes(), *status)));
                Asking::Stream(TcpStream::from(socket), exchange)
            }
            Question::Udp { send, expect } => {
                let socket = UdpSocket::from(socket);
                socket.send(send).map_err(|error| error.to_string())?;
                Asking::Sent { socket, expect: expect.clone() }
            }
        })
    }

    /// Goes on as far as it goes without waiting.
    pub fn step(&mut self) -> Step {
        match self {
            Asking::Stream(stream, exchange) => exchange.step(stream),
            Asking::Sent { socket, expect } => {
                let mut bytes = [0; ANSWER_BYTES_MAX];
                match socket.recv(&mut bytes) {
                    Ok(count) if bytes[..count].starts_with(expect) => Step::Answered(Ok(())),
                    Ok(_) => Step::Answered(Err("another answer than expected".to_owned())),
                    Err(error) => failed(&error),
                }
            }
        }
    }
}

impl Exchange {
    fn step(&mut self, stream: &mut TcpStream) -> Step {
        let request = match self {
            Exchange::Connecting(request) => request,
            Exchange::Requested { status, answer } => return read(stream, *status, answer),
        };
        match stream.take_error() {
            Ok(None) => {}
            Ok(Some(error)) | Err(error) => return failed(&error),
        }
        if stream.peer_addr().is_err() {
            return Step::Waits;
        }
        let Some((request, status)) = request.take() else { return Step::Answered(Ok(())) };
        // It is shorter than the least send buffer.
        if let Err(error) = stream.write_all(&request) {
            return failed(&error);
        }
        *self = Exchange::Requested { status, answer: Vec::new() };
        Step::Waits
    }
}

/// A socket whose packets go out of an interface with a mark, on its way to an address.
fn open(
    address: SocketAddr,
    kind: SocketType,
    ifindex: u32,
    mark: u32,
) -> Result<OwnedFd, std::io::Error> {
    let family = match address.ip() {
        IpAddr::V4(_) => AddressFamily::INET,
        IpAddr::V6(_) => AddressFamily::INET6,
    };
    let socket = socket_with(family, kind, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC, None)?;
    set_way(&socket, ifindex, mark).map_err(std::io::Error::other)?;
    if kind == SocketType::STREAM {
        // Closed at once, by a reset: nothing of it comes later, when others have its mark.
        set_socket_linger(&socket, Some(Duration::ZERO))?;
    }
    match connect(&socket, &address) {
        Ok(()) | Err(rustix::io::Errno::INPROGRESS) => Ok(socket),
        Err(error) => Err(error.into()),
    }
}

/// Reads the first line of an answer.
fn read(stream: &mut TcpStream, status: Option<u16>, answer: &mut Vec<u8>) -> Step {
    let mut bytes = [0; ANSWER_BYTES_MAX];
    match stream.read(&mut bytes) {
        Ok(0) => return Step::Answered(Err("the connection ended without an answer".to_owned())),
        Ok(count) => answer.extend(&bytes[..count]),
        Err(error) => return failed(&error),
    }
    if !answer.contains(&b'\n') && answer.len() < ANSWER_BYTES_MAX {
        return Step::Waits;
    }
    Step::Answered(judge(answer, status))
}

/// Whether an answer is a good one.
fn judge(answer: &[u8], wanted: Option<u16>) -> Result<(), String> {
    // HTTP/1.1 200 and so on (RFC 9112, section 4).
    let rest = answer.strip_prefix(b"HTTP/1.").and_then(|rest| rest.get(2..5));
    let status = rest.and_then(|digits| str::from_utf8(digits).ok()?.parse::<u16>().ok());
    match (status, wanted) {
        (None, _) => Err("the answer is no HTTP".to_owned()),
        (Some(status), Some(wanted)) if status == wanted => Ok(()),
        (Some(200..=399), None) => Ok(()),
        (Some(status), _) => Err(format!("status {status}")),
    }
}

/// What a refusal means; not yet is none.
fn failed(error: &std::io::Error) -> Step {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::Interrupted => Step::Waits,
        kind => Step::Answered(Err(kind.to_string())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_judged_by_its_status() {
        assert_eq!(judge(b"HTTP/1.1 200 OK\r\n", None), Ok(()));
        assert_eq!(judge(b"HTTP/1.0 301 Moved\r\n", None), Ok(()));
        assert_eq!(judge(b"HTTP/1.1 503 Busy\r\n", None), Err("status 503".into()));
        assert_eq!(judge(b"HTTP/1.1 418 I\r\n", Some(418)), Ok(()));
        assert_eq!(judge(b"HTTP/1.1 200 OK\r\n", Some(204)), Err("status 200".into()));
        for wrong in [&b"SSH-2.0"[..], b"HTTP/1.1 2x0", b"HTTP/2 200", b"", b"HTTP/1."] {
            assert_eq!(judge(wrong, None), Err("the answer is no HTTP".into()));
        }
    }

    #[test]
    fn whatever_comes_is_a_good_answer_or_a_bad_one() {
        let seeds = [b"HTTP/1.1 200 OK\r\n\r\n".to_vec(), b"HTTP/1.1 503 \n".to_vec()];
        ringside_testkit::fuzz("health-answer", 200_000, &seeds, |bytes| {
            if judge(bytes, None).is_ok() {
                assert!(bytes.starts_with(b"HTTP/1.") && b"23".contains(&bytes[9]));
            }
        });
    }
}
