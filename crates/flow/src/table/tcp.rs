//! A TCP connection as far as flows need it: its end, its sequence numbers, its handshake.

use crate::{Segment, Side};
use ringside_wire::Tcp;

/// What is followed, in 52 bytes. Pairs are by direction.
#[derive(Clone, Debug, Default)]
#[repr(C)]
pub(super) struct Follow {
    /// The sequence number behind what was seen.
    next: [u32; 2],
    /// The latest gap in front of that, which is not filled: where it begins and ends.
    gap: [(u32, u32); 2],
    /// What was counted since the last record.
    retransmissions: [u32; 2],
    out_of_order: [u32; 2],
    zero_windows: [u16; 2],
    /// All flags since then.
    flags: [u16; 2],
    state: u8,
    step: Step,
}

/// The times of a handshake.
#[derive(Clone, Debug, Default)]
pub(super) struct Handshake {
    /// When its last step was seen, by stamp.
    step_ns: u64,
    /// From each direction's step to the answer to it.
    answer_ns: [u32; 2],
}

/// How far the handshake is, and who did the last step.
#[derive(Clone, Copy, Debug, Default)]
enum Step {
    #[default]
    None,
    Syn(u8),
    Answer(u8),
    Over,
}

/// Of the state, by direction: its sequence number is known, its FIN was seen.
const KNOWN: u8 = 1;
const FIN: u8 = 4;
/// Both FINs were seen, or one RST.
const ENDED: u8 = 16;

const SYN_ACK: u16 = Tcp::SYN | Tcp::ACK;

impl Follow {
    /// True if its end was seen.
    #[inline]
    pub fn is_ended(&self) -> bool {
        self.state & ENDED != 0
    }

    /// What was counted in one direction, and its flags.
    pub fn counts(&self, side: usize) -> Side {
        Side {
            tcp_flags: self.flags[side],
            retransmissions: self.retransmissions[side],
            out_of_order: self.out_of_order[side],
            zero_windows: self.zero_windows[side].into(),
            ..Side::default()
        }
    }

    /// Counts begin anew.
    pub fn begin_record(&mut self) {
        (self.retransmissions, self.out_of_order) = Default::default();
        (self.zero_windows, self.flags) = Default::default();
    }

    /// The next segment of a direction.
    #[inline]
    pub fn see(
        &mut self,
        handshake: &mut Handshake,
        side: usize,
        segment: &Segment,
        stamp_ns: u64,
    ) {
        let flags = segment.flags;
        self.flags[side] |= flags;
        let is_syn = flags & Tcp::SYN != 0;
        if !matches!(self.step, Step::Over) {
            self.handshake(handshake, side, flags, stamp_ns);
        }
        if segment.window == 0 && flags & (Tcp::SYN | Tcp::FIN | Tcp::RST) == 0 {
            self.zero_windows[side] = self.zero_windows[side].saturating_add(1);
        }
        if flags & Tcp::RST != 0 {
            // Its sequence number follows other rules.
            self.state |= ENDED;
            return;
        }
        let is_fin = flags & Tcp::FIN != 0;
        let numbers = segment.payload_bytes.saturating_add(u32::from(is_syn) + u32::from(is_fin));
        self.sequence(side, segment.sequence, numbers);
        if is_fin {
            self.see_end(side, flags);
        }
    }

    /// All flags of some segments of a direction, that were not looked at.
    pub fn see_flags(&mut self, side: usize, flags: u16) {
        self.flags[side] |= flags;
        self.see_end(side, flags);
    }

    /// What some flags of a direction say of the connection's end.
    fn see_end(&mut self, side: usize, flags: u16) {
        if flags & Tcp::FIN != 0 {
            self.state |= FIN << side;
        }
        if flags & Tcp::RST != 0 || self.state & (FIN | FIN << 1) == FIN | FIN << 1 {
            self.state |= ENDED;
        }
    }

    fn sequence(&mut self, side: usize, sequence: u32, numbers: u32) {
        let next = &mut self.next[side];
        let end = sequence.wrapping_add(numbers);
        if self.state & (KNOWN << side) == 0 {
            self.state |= KNOWN << side;
            *next = end;
            return;
        }
        let behind = next.wrapping_sub(sequence) as i32;
        if numbers == 0 || behind == 1 && numbers == 1 {
            // Nothing new is sent; the second is what keeps a connection alive.
            return;
        }
        if behind <= 0 {
            if behind < 0 {
                self.gap[side] = (*next, sequence);
            }
            *next = end;
            return;
        }
        let (from, to) = self.gap[side];
        let in_gap =
            (sequence.wrapping_sub(from) as i32) >= 0 && (to.wrapping_sub(end) as i32) >= 0;
        if from != to && in_gap {
            self.out_of_order[side] = self.out_of_order[side].saturating_add(1);
            // What was filled from the front; a piece out of the middle leaves the larger part.
            self.gap[side] = match sequence == from {
                true => (end, to),
                false => (from, sequence),
            };
            return;
        }
        self.retransmissions[side] = self.retransmissions[side].saturating_add(1);
        if (end.wrapping_sub(*next) as i32) > 0 {
            *next = end;
        }
    }

    /// SYN, its answer, and the answer to that. Whatever is sent twice ends it: it is unknown which
    /// of the two was answered.
    fn handshake(&mut self, times: &mut Handshake, side: usize, flags: u16, stamp_ns: u64) {
        let other = 1 - side;
        let is_new = self.state & (KNOWN | KNOWN << 1) == 0;
        let step = match (flags & SYN_ACK, self.step) {
            (Tcp::SYN, Step::None) if is_new => Step::Syn(side as u8),
            (SYN_ACK, Step::None) if is_new => Step::Answer(side as u8),
            (SYN_ACK, Step::Syn(from)) if usize::from(from) == other => {
                times.answer_ns[other] = between(times.step_ns, stamp_ns);
                Step::Answer(side as u8)
            }
            (Tcp::ACK, Step::Answer(from)) if usize::from(from) == other => {
                times.answer_ns[other] = between(times.step_ns, stamp_ns);
                Step::Over
            }
            (Tcp::SYN | SYN_ACK, _) => Step::Over,
            _ => return,
        };
        (self.step, times.step_ns) = (step, stamp_ns);
    }
}

impl Handshake {
    /// Round trips of a connection that `forward` began: to the responder and to the initiator.
    /// Neither where something was sent twice, or took more than 4 s.
    pub fn rtt_ns(&self, forward: usize) -> (Option<u32>, Option<u32>) {
        let known = |ns: u32| (ns != 0).then_some(ns);
        (known(self.answer_ns[forward]), known(self.answer_ns[1 - forward]))
    }
}

/// From one stamp to a later one; 0 if it is not later, or too much later.
fn between(from_ns: u64, to_ns: u64) -> u32 {
    u32::try_from(to_ns.saturating_sub(from_ns)).unwrap_or(0)
}
