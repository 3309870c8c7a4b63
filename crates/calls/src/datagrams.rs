//! What a datagram says: SIP, media, or something else.

use crate::call::Transport;
use crate::met::Met;
use crate::tracker::Tracker;
use ringside_proto::{Outcome, rtcp, rtp, sip};
use ringside_streams::Datagram;

/// Ports where SIP is at home: what comes there and is none is counted as such.
const SIP_PORTS: [u16; 2] = [5060, 5061];

impl Tracker {
    /// A datagram came.
    pub(crate) fn datagram(&mut self, datagram: &Datagram<'_>) {
        let [source, destination] = datagram.ends();
        let met = Met {
            now_ns: datagram.stamp.0,
            source,
            destination,
            interface: datagram.key.interface(),
            vlan: datagram.key.vlan(),
            transport: Transport::Udp,
        };
        let payload = datagram.payload;
        let is_at_home = [source.1, destination.1].iter().any(|port| SIP_PORTS.contains(port));
        if is_at_home && payload.iter().all(|byte| b"\r\n\0".contains(byte)) {
            self.ledger.keepalives += 1;
        } else if is_at_home || sip::looks_like(payload) {
            match whole(payload) {
                Some(message) => {
                    self.ledger.sip_udp += 1;
                    self.message(&met, &message);
                }
                None => self.ledger.sip_malformed_udp += 1,
            }
        } else {
            self.media(&met, payload, datagram.payload_bytes as usize);
        }
    }

    fn media(&mut self, met: &Met, payload: &[u8], wire_bytes: usize) {
        let is_taken = if rtcp::looks_like(payload) {
            self.rtcp(met, payload)
        } else {
            let found = rtp::parse(payload, wire_bytes).found();
            found.is_some_and(|rtp| self.rtp(met, &rtp))
        };
        match (is_taken, self.is_media(met)) {
            (true, _) => {}
            (false, true) => self.ledger.other_media += 1,
            (false, false) => self.ledger.other_udp += 1,
        }
    }
}

/// A message over UDP: all of its head, and of the body as much as it says. What was cut by the
/// capture has as much as there is.
fn whole(payload: &[u8]) -> Option<sip::Message<'_>> {
    let Outcome::Fields(message) = sip::message(payload) else { return None };
    message.start.call_id?;
    message.cseq?;
    let bytes = message.content_length.unwrap_or(message.body.len());
    let body = message.body.get(..bytes).unwrap_or(message.body);
    Some(sip::Message { body, ..message })
}
