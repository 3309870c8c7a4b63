//! Messages as datagrams.

use crate::address::Host;
use crate::desk::Desk;
use crate::message::Message;
use ringside_flow::{Format, RecordSums};
use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::thread::sleep;
use std::time::Duration;

/// Of a limited rate: messages between two pauses.
const BURST: u32 = 32;

/// A socket for a collector: to the first of its addresses that there is a way to.
pub(crate) fn open(host: &Host, format: Format) -> io::Result<UdpSocket> {
    let mut result = Err(io::Error::from(ErrorKind::AddrNotAvailable));
    for address in host.resolve(format)? {
        let any: SocketAddr = match address {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        result = UdpSocket::bind(any).and_then(|socket| {
            socket.connect(address)?;
            Ok(socket)
        });
        if result.is_ok() {
            break;
        }
    }
    result
}

/// Sends what comes, until the desk is closed.
pub(crate) fn run(desk: &Desk, socket: &UdpSocket, per_second: Option<u32>) {
    let mut sent_last = RecordSums::default();
    let pause = per_second.map(|count| Duration::from_secs(1) * BURST / count.max(1));
    let mut in_burst = 0;
    desk.serve(|batch| {
        for message in batch {
            send(desk, socket, message, &mut sent_last);
            in_burst += 1;
            if in_burst >= BURST
                && let Some(pause) = pause
            {
                in_burst = 0;
                sleep(pause);
            }
        }
    });
    if let Ok(Some(error)) = socket.take_error() {
        count_refused(desk, &error, &mut sent_last);
    }
}

fn send(desk: &Desk, socket: &UdpSocket, message: &Message, sent_last: &mut RecordSums) {
    let mut outcome = socket.send(&message.bytes);
    if let Err(error) = &outcome
        && is_of_an_earlier_one(error)
    {
        // The kernel reports what came back for an earlier datagram, and sent nothing.
        count_refused(desk, error, sent_last);
        outcome = socket.send(&message.bytes);
    }
    let held = message.held;
    desk.change(|status| {
        status.counts.waiting -= held;
        match outcome {
            Ok(_) => {
                status.counts.delivered += held;
                status.messages += 1;
                *sent_last = held;
            }
            Err(error) => {
                status.counts.write_failed += held;
                status.error = Some(error.to_string());
            }
        }
    });
}

/// The collector's host answered that no program takes the last datagram.
fn count_refused(desk: &Desk, error: &io::Error, sent_last: &mut RecordSums) {
    let refused = match error.kind() {
        ErrorKind::ConnectionRefused => std::mem::take(sent_last),
        _ => RecordSums::default(),
    };
    desk.change(|status| {
        status.counts.delivered -= refused;
        status.counts.refused += refused;
        status.error = Some(error.to_string());
    });
    // A program that listens there from now on knows none.
    desk.want_templates();
}

/// True for errors that ICMP may have brought.
fn is_of_an_earlier_one(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionRefused | ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable
    )
}
