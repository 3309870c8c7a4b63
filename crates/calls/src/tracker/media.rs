//! Where the media of calls go, and what comes there.

use super::{Tracker, packets_of};
use crate::call::{Call, Ending};
use crate::codec::Codec;
use crate::limits::{CODECS_MAX, ENDPOINTS_MAX, ENDPOINTS_PER_CALL_MAX, STREAMS_PER_CALL_MAX};
use crate::met::Met;
use crate::stream::{Endpoint, Stream, StreamKey};
use ringside_proto::rtcp::{self, Part};
use ringside_proto::sdp::Media;
use ringside_proto::sip::Message;
use ringside_proto::{Rtp, Sdp};
use std::sync::Arc;

/// Codecs by their payload types.
type Codecs = Arc<[(u8, Codec)]>;

/// An endpoint that a call announced.
#[derive(Clone, Debug)]
pub(super) struct Announced {
    /// Number and place of the call.
    pub call: u64,
    place: u32,
    codecs: Codecs,
}

impl Tracker {
    /// Takes the endpoints of a description that a message of a call brings.
    pub(super) fn announce(&mut self, place: u32, message: &Message<'_>) {
        let Some(sdp) = Sdp::new(message.body).filter(|_| message.has_sdp()) else { return };
        for media in sdp.media().filter(|media| media.is_rtp() && media.port != 0) {
            let Some(address) = media.address else { continue };
            let codecs = codecs(&media);
            self.announce_one(place, (address, media.port), &codecs);
            self.count_in_kernel(place, (address, media.port), &codecs);
            let (address, port) = media.rtcp();
            if let Some(address) = address.filter(|_| port != media.port) {
                self.announce_one(place, (address, port), &codecs);
            }
        }
    }

    fn announce_one(&mut self, place: u32, endpoint: Endpoint, codecs: &Codecs) {
        let is_full = self.endpoints.len() >= ENDPOINTS_MAX;
        let Some(open) = self.calls.at(place) else { return };
        let is_known = open.endpoints.contains(&endpoint);
        let is_there = self.endpoints.contains_key(&endpoint);
        let has_room = open.endpoints.len() < ENDPOINTS_PER_CALL_MAX;
        if (!is_known && !has_room) || (is_full && !is_there) {
            self.ledger.endpoints_left_out += 1;
            return;
        }
        if !is_known {
            open.endpoints.push(endpoint);
        }
        let call = open.call.number;
        let announced = Announced { call, place, codecs: codecs.clone() };
        let before = self.endpoints.insert(endpoint, announced);
        if let Some(before) = before.filter(|before| before.call != call) {
            self.take_counted(before.place, &endpoint);
        }
    }

    /// Has the kernel count the media of an endpoint of a call.
    fn count_in_kernel(&mut self, place: u32, endpoint: Endpoint, codecs: &Codecs) {
        let Some(open) = self.calls.at(place) else { return };
        let owner = self.endpoints.get(&endpoint).map(|announced| announced.call);
        if let Some(kernel) = self.kernel.as_mut().filter(|_| owner == Some(open.call.number)) {
            kernel.announce(endpoint, open.call.number, codecs);
        }
    }

    /// Takes over what the kernel has counted at an endpoint that is a call's no more.
    pub(super) fn take_counted(&mut self, place: u32, endpoint: &Endpoint) {
        let Some(kernel) = &mut self.kernel else { return };
        let streams = kernel.take(endpoint);
        self.ledger.rtp_in_kernel += streams.iter().map(packets_of).sum::<u64>();
        if let Some(open) = self.calls.at(place) {
            open.counted.extend(streams);
        }
    }

    /// True if a datagram goes to or comes from where a call has its media.
    #[inline]
    pub(crate) fn is_media(&self, met: &Met) -> bool {
        self.announced(met).is_some()
    }

    /// Where it goes says more than where it comes from: in which codecs, and in which call.
    fn announced(&self, met: &Met) -> Option<&Announced> {
        self.endpoints.get(&met.destination).or_else(|| self.endpoints.get(&met.source))
    }

    /// An RTP packet came. False if it is none: no call announced it, and that is not enough.
    pub(crate) fn rtp(&mut self, met: &Met, rtp: &Rtp<'_>) -> bool {
        let Met { source, destination, interface, .. } = *met;
        let key = StreamKey { source, destination, ssrc: rtp.ssrc, interface };
        let announced = self.announced(met).cloned();
        if announced.is_none() && !self.finds_unannounced {
            return false;
        }
        self.ledger.rtp += 1;
        let at_call = announced.as_ref().map(|one| (one.call, one.place));
        let Some(place) = self.stream(key, at_call, met.now_ns) else {
            self.ledger.rtp_without_room += 1;
            return true;
        };
        let of_static = Codec::of_static(rtp.payload_type);
        let described = announced.as_ref().and_then(|one| {
            let found = one.codecs.iter().find(|(number, _)| *number == rtp.payload_type);
            found.map(|(_, codec)| codec)
        });
        let Some(stream) = self.streams.at(place) else { return true };
        let was_known = stream.is_known();
        stream.take(met.now_ns, rtp, described.or(of_static.as_ref()));
        self.ledger.begun += u64::from(stream.call.is_none() && stream.is_known() && !was_known);
        if let Some(open) = at_call.and_then(|(_, place)| self.calls.at(place)) {
            open.dialog.last_ns = open.dialog.last_ns.max(met.now_ns);
        }
        true
    }

    /// The place of a stream, which may begin.
    fn stream(&mut self, key: StreamKey, call: Option<(u64, u32)>, now_ns: u64) -> Option<u32> {
        if let Some(place) = self.streams.find(&key) {
            let owner = self.streams.at(place).and_then(|stream| stream.call);
            if owner.is_some() || call.is_none() || owner == call.map(|(number, _)| number) {
                return Some(place);
            }
            // What was found before its call is that call's now: another stream begins.
            self.end_stream(place);
        }
        if let Some((_, place)) = call {
            let open = self.calls.at(place)?;
            if open.streams.len() >= STREAMS_PER_CALL_MAX {
                open.call.streams_left_out += 1;
                return None;
            }
        }
        if self.streams.len() >= self.limits.streams {
            let (due_ns, place) = self.streams.first()?;
            if due_ns == u64::MAX {
                return None;
            }
            self.end_stream(place);
        }
        let place = self.streams.put(key, Stream::new(key, call.map(|(number, _)| number), now_ns));
        if let Some(open) = call.and_then(|(_, place)| self.calls.at(place)) {
            open.streams.push(place);
        }
        Some(place)
    }

    /// Ends a stream of no call.
    pub(super) fn end_stream(&mut self, place: u32) {
        let Some(stream) = self.streams.remove(place) else { return };
        if !stream.is_known() {
            self.ledger.unconfirmed += packets_of(&stream);
            return;
        }
        self.ledger.stream_packets += packets_of(&stream);
        self.numbers += 1;
        self.give(Call {
            number: self.numbers,
            interface: stream.key.interface,
            vlan: None,
            dialog: None,
            streams: vec![stream],
            streams_left_out: 0,
            ending: Ending::Media,
        });
    }

    /// An RTCP packet came. False if it belongs to nothing that is known.
    pub(crate) fn rtcp(&mut self, met: &Met, payload: &[u8]) -> bool {
        let Some(Announced { place, .. }) = self.announced(met).cloned() else { return false };
        self.ledger.rtcp += 1;
        let Some(open) = self.calls.at(place) else { return true };
        open.dialog.last_ns = open.dialog.last_ns.max(met.now_ns);
        let places = open.streams.clone();
        for part in rtcp::parts(payload) {
            let ssrc = match part {
                Part::Sender(report) => report.ssrc,
                Part::Reception(report) => report.ssrc,
                Part::Voip(metrics) => metrics.ssrc,
                Part::Bye { .. } => continue,
            };
            let mut is_found = false;
            for &place in &places {
                let found = self.streams.at(place).filter(|stream| stream.key.ssrc == ssrc);
                let Some(stream) = found else { continue };
                stream.rtcp.take(met.now_ns, &part);
                is_found = true;
            }
            if !is_found
                && self.kernel.is_some()
                && let Some(open) = self.calls.at(place)
            {
                open.take_report(met.now_ns, ssrc, &part);
            }
        }
        true
    }
}

fn codecs(media: &Media<'_>) -> Codecs {
    let types = media.payload_types().take(CODECS_MAX);
    types.filter_map(|number| Some((number, Codec::described(media, number)?))).collect()
}
