//! RTCP (RFC 3550 section 6) and its extended reports (RFC 3611): what the parties of a stream say
//! of it.

/// Bytes of the header of each packet of a compound one.
const HEADER_BYTES: usize = 4;
/// Bytes of a block that reports on one stream.
const REPORT_BYTES: usize = 24;
/// Packets of a compound one that are looked at: a datagram of an Ethernet has room for 187 of
/// eight bytes.
const PACKETS_MAX: usize = 200;

/// A part of a compound packet that says something of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// What a sender says of itself.
    Sender(SenderReport),
    /// What a receiver says of a stream.
    Reception(ReceptionReport),
    /// What a receiver says of a call's quality.
    Voip(VoipMetrics),
    /// A sender goes.
    Bye {
        /// Which.
        ssrc: u32,
    },
}

/// What a sender says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SenderReport {
    /// The sender.
    pub ssrc: u32,
    /// Its clock, in NTP's format.
    pub ntp: u64,
    /// Packets that it has sent.
    pub packets: u32,
    /// Bytes of payload that it has sent.
    pub octets: u32,
}

/// What a receiver says of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceptionReport {
    /// The receiver.
    pub reporter: u32,
    /// Whose stream.
    pub ssrc: u32,
    /// Of the packets since the last report this part of 256 was lost.
    pub fraction_lost: u8,
    /// Packets that were lost in all; duplicates make it less.
    pub lost: i32,
    /// Jitter, in units of the timestamp.
    pub jitter: u32,
    /// The middle of the NTP time in the last sender report; 0 if there was none.
    pub last_sender_report: u32,
    /// How long ago that was, in 1/65536 s.
    pub delay: u32,
}

/// A receiver's VoIP Metrics Report Block (RFC 3611 section 4.7); `None` is what it does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VoipMetrics {
    /// Whose stream.
    pub ssrc: u32,
    /// Packets lost, and discarded, in parts of 256.
    pub loss_rate: u8,
    /// See `loss_rate`.
    pub discard_rate: u8,
    /// Round trip between the interfaces, in ms.
    pub round_trip_ms: u16,
    /// Delay within the receiver, in ms.
    pub end_system_ms: u16,
    /// R of the E-model.
    pub r_factor: Option<u8>,
    /// Quality of listening, times 10.
    pub mos_lq: Option<u8>,
    /// Quality of conversation, times 10.
    pub mos_cq: Option<u8>,
}

/// True if a datagram begins as RTCP does, and not as RTP (RFC 5761 section 4).
pub fn looks_like(bytes: &[u8]) -> bool {
    matches!(bytes, [first, 192..=223, _, _, ..] if first >> 6 == 2)
}

/// The parts of a compound packet, as far as they can be read.
pub fn parts(bytes: &[u8]) -> Parts<'_> {
    Parts { rest: bytes, packet: None, packets_left: PACKETS_MAX }
}

/// The parts of a compound packet.
#[derive(Clone, Debug)]
pub struct Parts<'a> {
    rest: &'a [u8],
    packet: Option<Packet<'a>>,
    packets_left: usize,
}

/// One packet of a compound one, and what is not read yet of it.
#[derive(Clone, Copy, Debug)]
struct Packet<'a> {
    kind: u8,
    count: u8,
    ssrc: u32,
    body: &'a [u8],
}

impl Iterator for Parts<'_> {
    type Item = Part;

    fn next(&mut self) -> Option<Part> {
        loop {
            if let Some(packet) = &mut self.packet
                && let Some(part) = packet.next()
            {
                return Some(part);
            }
            self.packet = Some(self.open()?);
        }
    }
}

impl<'a> Parts<'a> {
    /// The next packet.
    fn open(&mut self) -> Option<Packet<'a>> {
        self.packets_left = self.packets_left.checked_sub(1)?;
        let &[first, kind, high, low] = self.rest.first_chunk::<HEADER_BYTES>()?;
        if first >> 6 != 2 {
            return None;
        }
        let bytes = 4 * (usize::from(u16::from_be_bytes([high, low])) + 1);
        let (packet, rest) = self.rest.split_at_checked(bytes)?;
        self.rest = rest;
        let body = packet.get(HEADER_BYTES..)?;
        let ssrc = word(body, 0).unwrap_or(0);
        let body = if kind == 203 { body } else { body.get(4..).unwrap_or_default() };
        Some(Packet { kind, count: first & 0x1f, ssrc, body })
    }
}

impl Packet<'_> {
    fn next(&mut self) -> Option<Part> {
        match self.kind {
            // A sender report is a part of its own, and then as a receiver report.
            200 => {
                self.kind = 201;
                let sender = sender_report(self.ssrc, self.body);
                self.body = self.body.get(20..).unwrap_or_default();
                sender.map(Part::Sender).or_else(|| self.next())
            }
            201 => {
                self.count = self.count.checked_sub(1)?;
                let (block, rest) = self.body.split_at_checked(REPORT_BYTES)?;
                self.body = rest;
                reception_report(self.ssrc, block).map(Part::Reception)
            }
            203 => {
                self.count = self.count.checked_sub(1)?;
                let ssrc = word(self.body, 0)?;
                self.body = self.body.get(4..)?;
                Some(Part::Bye { ssrc })
            }
            207 => self.extended(),
            _ => None,
        }
    }

    /// The next block of an extended report that is known.
    fn extended(&mut self) -> Option<Part> {
        loop {
            let &[kind, _, high, low] = self.body.first_chunk()?;
            let bytes = 4 * (usize::from(u16::from_be_bytes([high, low])) + 1);
            let (block, rest) = self.body.split_at_checked(bytes)?;
            self.body = rest;
            if kind == 7
                && let Some(metrics) = voip_metrics(block)
            {
                return Some(Part::Voip(metrics));
            }
        }
    }
}

fn sender_report(ssrc: u32, body: &[u8]) -> Option<SenderReport> {
    let ntp = u64::from(word(body, 0)?) << 32 | u64::from(word(body, 4)?);
    Some(SenderReport { ssrc, ntp, packets: word(body, 12)?, octets: word(body, 16)? })
}

fn reception_report(reporter: u32, block: &[u8]) -> Option<ReceptionReport> {
    let lost = word(block, 4)?;
    Some(ReceptionReport {
        reporter,
        ssrc: word(block, 0)?,
        fraction_lost: (lost >> 24) as u8,
        // 24 bits with a sign.
        lost: (lost << 8) as i32 >> 8,
        jitter: word(block, 12)?,
        last_sender_report: word(block, 16)?,
        delay: word(block, 20)?,
    })
}

fn voip_metrics(block: &[u8]) -> Option<VoipMetrics> {
    let octet = |at: usize| block.get(at).copied();
    let half = |at: usize| Some(u16::from_be_bytes([octet(at)?, octet(at + 1)?]));
    let known = |at: usize| Some(octet(at)?).filter(|&value| value != 127);
    // The whole block is there, or nothing of it is believed.
    octet(35)?;
    Some(VoipMetrics {
        ssrc: word(block, 4)?,
        loss_rate: octet(8)?,
        discard_rate: octet(9)?,
        round_trip_ms: half(16)?,
        end_system_ms: half(18)?,
        r_factor: known(24),
        mos_lq: known(26),
        mos_cq: known(27),
    })
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().copied().map(u32::from_be_bytes)
}
