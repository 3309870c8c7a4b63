//! The one definition of what is known of a call.

use crate::limits::{LINGER_NS, RETRY_NS, SILENT_NS, STREAMS_PER_CALL_MAX, UNANSWERED_NS};
use crate::stream::{Endpoint, Rtcp, Stream};
use crate::timed::Due;
use ringside_core::InterfaceId;
use ringside_proto::rtcp::Part;

/// What carries SIP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// UDP.
    Udp,
    /// TCP.
    Tcp,
}

/// Who of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Party {
    /// Who called.
    Caller,
    /// Who was called.
    Callee,
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ending {
    /// It was answered, and a party hung up.
    HungUp,
    /// The caller gave up before an answer.
    Cancelled,
    /// The callee's side refused it.
    Rejected,
    /// The callee is elsewhere.
    Redirected,
    /// The caller's name and password were asked for, and no other attempt came.
    Challenged,
    /// Nothing came any more before an answer.
    Unanswered,
    /// It was answered, and no packet came for long.
    Silent,
    /// Another call needed its place.
    Displaced,
    /// There was nothing more to see.
    Forced,
    /// No call: media that no call announced.
    Media,
}

impl Ending {
    /// All endings, each at its [`index`](Ending::index).
    pub const ALL: [Ending; 10] = [
        Ending::HungUp,
        Ending::Cancelled,
        Ending::Rejected,
        Ending::Redirected,
        Ending::Challenged,
        Ending::Unanswered,
        Ending::Silent,
        Ending::Displaced,
        Ending::Forced,
        Ending::Media,
    ];

    /// The place in tables.
    pub fn index(self) -> usize {
        self as usize
    }

    /// The name in output formats.
    pub fn name(self) -> &'static str {
        match self {
            Ending::HungUp => "hung_up",
            Ending::Cancelled => "cancelled",
            Ending::Rejected => "rejected",
            Ending::Redirected => "redirected",
            Ending::Challenged => "challenged",
            Ending::Unanswered => "unanswered",
            Ending::Silent => "silent",
            Ending::Displaced => "displaced",
            Ending::Forced => "forced",
            Ending::Media => "media",
        }
    }
}

/// What the signalling of a call said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Dialog {
    /// Call-ID.
    pub call_id: String,
    /// Tags of caller and callee.
    pub from_tag: Option<String>,
    /// See `from_tag`; of the one who answered, where there were several.
    pub to_tag: Option<String>,
    /// URIs of caller and callee.
    pub caller: Option<String>,
    /// See `caller`.
    pub callee: Option<String>,
    /// Programs of caller and callee.
    pub caller_agent: Option<String>,
    /// See `caller_agent`.
    pub callee_agent: Option<String>,
    /// Where the first INVITE came from and went to.
    pub caller_at: Endpoint,
    /// See `caller_at`.
    pub callee_at: Endpoint,
    /// What carried it.
    pub transport: Transport,
    /// When it came.
    pub invite_ns: u64,
    /// When the first answer came that is more than "trying" and no challenge.
    pub progress_ns: Option<u64>,
    /// When it rang.
    pub ringing_ns: Option<u64>,
    /// When it was answered.
    pub answered_ns: Option<u64>,
    /// When the caller acknowledged that.
    pub confirmed_ns: Option<u64>,
    /// When it was over: a party hung up or gave up, or it was refused.
    pub ended_ns: Option<u64>,
    /// The last final status of an INVITE before it was answered.
    pub status: Option<u16>,
    /// Who hung up.
    pub hung_up_by: Option<Party>,
    /// Media were described before the answer.
    pub has_early_media: bool,
    /// INVITEs for other reasons than the first one: attempts after a challenge, and changes.
    pub retries: u32,
    /// See `retries`.
    pub reinvites: u32,
    /// Parties that gave answers.
    pub forks: Vec<String>,
    /// SIP messages, and those of them that were seen before: sent again, or on another hop.
    pub messages: u64,
    /// See `messages`.
    pub repeated: u64,
    /// Number of the INVITE that stands.
    pub(crate) cseq: u32,
    /// When the last packet came.
    pub(crate) last_ns: u64,
    /// How it has ended so far.
    pub(crate) over: Option<Ending>,
    pub(crate) is_cancelled: bool,
    /// Caller and callee are the same.
    pub(crate) is_self: bool,
}

/// A call, or media that no call announced.
#[derive(Clone, Debug)]
pub struct Call {
    /// Number, from 1, in the order of beginnings.
    pub number: u64,
    /// Interface that received the first packet.
    pub interface: InterfaceId,
    /// Id of its VLAN tag nearest to the IP header.
    pub vlan: Option<u16>,
    /// What the signalling said; none of media that no call announced.
    pub dialog: Option<Dialog>,
    /// Media, in the order of first packets.
    pub streams: Vec<Stream>,
    /// Streams for which there was no room.
    pub streams_left_out: u64,
    /// How it ended.
    pub ending: Ending,
}

impl Dialog {
    /// From the first INVITE to the first sign of the callee (RFC 6076, section 4.3).
    pub fn post_dial_ns(&self) -> Option<u64> {
        Some(self.progress_ns?.saturating_sub(self.invite_ns))
    }

    /// How long it rang: until it was answered or over.
    pub fn ring_ns(&self) -> Option<u64> {
        let until_ns = self.answered_ns.or(self.ended_ns)?;
        Some(until_ns.saturating_sub(self.ringing_ns?))
    }

    /// How long the parties could talk; unknown as long as none has hung up.
    pub fn talk_ns(&self) -> Option<u64> {
        Some(self.ended_ns?.saturating_sub(self.answered_ns?))
    }
}

/// A call that goes on.
#[derive(Debug)]
pub(crate) struct OpenCall {
    pub call: Call,
    pub dialog: Dialog,
    /// Places of its streams, and endpoints that it announced.
    pub streams: Vec<u32>,
    pub endpoints: Vec<Endpoint>,
    /// Streams that the kernel counted, of endpoints that are the call's no more.
    pub counted: Vec<Stream>,
    /// What RTCP said of streams that were not seen, by SSRC.
    pub reports: Vec<(u32, Rtcp)>,
}

impl OpenCall {
    /// Takes what RTCP says of a stream that was not seen: the kernel may count it.
    pub(crate) fn take_report(&mut self, now_ns: u64, ssrc: u32, part: &Part) {
        let at = self.reports.iter().position(|(other, _)| *other == ssrc);
        let at = at.unwrap_or_else(|| {
            if self.reports.len() < STREAMS_PER_CALL_MAX {
                self.reports.push((ssrc, Rtcp::default()));
            }
            self.reports.len() - 1
        });
        if let Some((_, rtcp)) = self.reports.get_mut(at).filter(|(other, _)| *other == ssrc) {
            rtcp.take(now_ns, part);
        }
    }

    /// All of the call's streams, as those that were seen and those that were counted together.
    /// Returns packets of streams that there is no room for.
    pub(crate) fn join(&mut self, seen: impl Iterator<Item = Stream>) -> u64 {
        let (streams, mut left_out) = (&mut self.call.streams, 0);
        streams.extend(seen);
        for mut stream in std::mem::take(&mut self.counted) {
            if let Some(known) = streams.iter_mut().find(|known| known.key == stream.key) {
                known.join(stream);
                continue;
            }
            if streams.len() >= STREAMS_PER_CALL_MAX {
                self.call.streams_left_out += 1;
                left_out += stream.statistics.packets + stream.statistics.malformed;
                continue;
            }
            let report = self.reports.iter().find(|(ssrc, _)| *ssrc == stream.key.ssrc);
            stream.rtcp = report.map(|(_, rtcp)| *rtcp).unwrap_or_default();
            streams.push(stream);
        }
        streams.sort_by_key(|stream| stream.first_ns);
        left_out
    }
}

impl Due for OpenCall {
    fn due_ns(&self) -> u64 {
        let dialog = &self.dialog;
        match (dialog.over, dialog.ended_ns) {
            (Some(Ending::Challenged), Some(ended_ns)) => ended_ns.saturating_add(RETRY_NS),
            (Some(_), Some(ended_ns)) => ended_ns.saturating_add(LINGER_NS),
            _ if dialog.answered_ns.is_some() => dialog.last_ns.saturating_add(SILENT_NS),
            _ => dialog.last_ns.saturating_add(UNANSWERED_NS),
        }
    }
}
