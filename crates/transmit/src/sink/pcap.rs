//! The `pcap` sink: libpcap's pcap_sendpacket, on any device that it knows, one frame a call.
//!
//! On an interface of Linux libpcap sends through the queueing discipline, which may drop a frame
//! later and report nothing; where there is none (veth has none) the driver's refusal comes back.

use super::one_by_one::{OneByOne, Outcome, Taker};
use super::outlet::Outlet;
use super::{SinkConfig, SinkKind};
use crate::Error;
use crate::interface::{EMSGSIZE, ENETDOWN, ENOBUFS};
use crate::wait::SLEEP_MAX;
use ::pcap::{Active, Capture};
use ringside_sys::packet_tx::bound_wait;
use std::io;

/// What libpcap says, as strerror(3) does, where the frame may be tried again: the socket's buffer
/// had no room (EAGAIN), or a signal came (EINTR).
const NOT_YET: [&str; 2] = ["Resource temporarily unavailable", "Interrupted system call"];
/// And where it was refused, with the numbers.
const CAUSES: [(&str, i32); 4] = [
    ("No buffer space available", ENOBUFS),
    ("Message too long", EMSGSIZE),
    ("Network is down", ENETDOWN),
    ("No such device", ENETDOWN),
];

/// A libpcap handle as a sink.
pub type PcapSink = OneByOne<Capture<Active>>;

impl Taker for Capture<Active> {
    const KIND: SinkKind = SinkKind::Pcap;

    fn send(&mut self, frame: &[u8]) -> Outcome {
        let Err(error) = self.sendpacket(frame) else { return Outcome::Sent };
        let text = error.to_string();
        if NOT_YET.iter().any(|said| text.contains(said)) {
            return Outcome::NoRoom;
        }
        let known = CAUSES.iter().find(|(said, _)| text.contains(said));
        let number = known.map(|(_, number)| io::Error::from_raw_os_error(*number));
        Outcome::Refused(number.unwrap_or_else(|| io::Error::other(text)))
    }
}

impl PcapSink {
    /// Opens it.
    ///
    /// # Errors
    /// There is no such interface, it is down, or libpcap refuses it.
    pub fn open(config: &SinkConfig) -> Result<PcapSink, Error> {
        let outlet = Outlet::open(config, SinkKind::Pcap)?;
        // It receives too, and that is not read: little memory, of which little is kept.
        let capture = Capture::from_device(&config.interface[..])
            .map(|capture| capture.snaplen(64).buffer_size(1 << 16).promisc(false))
            .and_then(Capture::open);
        let refused = |error: ::pcap::Error| {
            Error::sink(SinkKind::Pcap, &config.interface, &error.to_string())
        };
        let capture = capture.map_err(refused)?;
        bound_wait(&capture, SLEEP_MAX)?;
        Ok(OneByOne::new(outlet, capture))
    }
}
