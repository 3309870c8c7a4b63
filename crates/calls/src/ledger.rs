//! Where every packet, message and call went.

use crate::Ending;
use serde::Serialize;

/// The account. At any time:
///
/// ```text
/// frames = datagrams + tcp_frames + other_frames
/// datagrams = sip_udp + sip_malformed_udp + keepalives + rtp + rtcp + other_media + other_udp
/// sip_udp + sip_tcp = in_calls + options + registers + other_methods + without_call
/// rtp + rtp_in_kernel = stream_packets + packets of open streams + rtp_without_room + unconfirmed
/// begun = Σ ended + self_calls + open
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CallsLedger {
    /// Frames that were seen.
    pub frames: u64,
    /// Frames of TCP.
    pub tcp_frames: u64,
    /// Frames without UDP and TCP, and fragments but for the last of each packet that was put
    /// together.
    pub other_frames: u64,
    /// UDP datagrams.
    pub datagrams: u64,
    /// SIP messages over UDP.
    pub sip_udp: u64,
    /// Of datagrams to or from SIP's ports, or which begin as SIP: such that are no messages.
    pub sip_malformed_udp: u64,
    /// Empty lines that keep a port open.
    pub keepalives: u64,
    /// RTP packets, with those of a header that contradicts itself.
    pub rtp: u64,
    /// RTP packets that the kernel counted, of rules that are no more in force. They are in no
    /// frame that was seen.
    pub rtp_in_kernel: u64,
    /// RTCP packets.
    pub rtcp: u64,
    /// Something else at an endpoint of media: STUN, DTLS, fax.
    pub other_media: u64,
    /// Anything else over UDP.
    pub other_udp: u64,
    /// SIP messages over TCP.
    pub sip_tcp: u64,
    /// Bytes of TCP streams in such messages, and those in none.
    pub sip_tcp_bytes: u64,
    /// See `sip_tcp_bytes`.
    pub other_tcp_bytes: u64,
    /// Messages of calls.
    pub in_calls: u64,
    /// OPTIONS and their answers: noise.
    pub options: u64,
    /// REGISTER and its answers.
    pub registers: u64,
    /// Messages of other methods outside calls.
    pub other_methods: u64,
    /// Messages of calls whose beginning was not seen.
    pub without_call: u64,
    /// RTP packets of streams for which there was no room.
    pub rtp_without_room: u64,
    /// Packets that began as RTP does, and had no others behind them that confirm it.
    pub unconfirmed: u64,
    /// Packets of streams that are out.
    pub stream_packets: u64,
    /// Endpoints of media for which there was no room.
    pub endpoints_left_out: u64,
    /// Calls, and streams without one, that began.
    pub begun: u64,
    /// Of these: ended, by how, at [`Ending::index`].
    pub ended: [u64; Ending::ALL.len()],
    /// Of these: calls of someone to themselves, which are not given out.
    pub self_calls: u64,
}

impl CallsLedger {
    /// Calls and streams without one that were given out.
    pub fn given(&self) -> u64 {
        self.ended.iter().sum()
    }

    /// True if nothing is missing, while `open` calls and streams without one are not over, with
    /// `open_packets` RTP packets in streams.
    pub fn balances(&self, open: u64, open_packets: u64) -> bool {
        let frames = self.datagrams + self.tcp_frames + self.other_frames;
        let datagrams = self.sip_udp
            + self.sip_malformed_udp
            + self.keepalives
            + self.rtp
            + self.rtcp
            + self.other_media
            + self.other_udp;
        let messages =
            self.in_calls + self.options + self.registers + self.other_methods + self.without_call;
        let rtp = self.stream_packets + open_packets + self.rtp_without_room + self.unconfirmed;
        self.frames == frames
            && self.datagrams == datagrams
            && self.sip_udp + self.sip_tcp == messages
            && self.rtp + self.rtp_in_kernel == rtp
            && self.begun == self.given() + self.self_calls + open
    }
}
