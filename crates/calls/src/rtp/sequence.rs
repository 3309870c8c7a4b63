//! The sequence numbers of a stream: what came, what came twice, what never came. A program in the
//! kernel does the same (`bpf/rtp.h`).

use ringside_ebpf::rtp::SequenceState;

/// A jump forward of more is no loss, but another beginning or a stray packet (RFC 3550, A.1).
const DROPOUT_MAX: u16 = 3_000;

/// How far behind the highest number a packet still counts as late (RFC 3550, A.1). The window has
/// room for a few more.
const MISORDER_MAX: u16 = 100;

/// Numbers up to the highest of which it is known whether they came.
const WINDOW: u64 = 128;

/// What a packet's number means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Higher than all before.
    Ahead,
    /// Lower than the highest, and not seen before.
    Late,
    /// Seen before.
    Duplicate,
    /// Far from the others. If the next number follows, the stream has begun anew with both.
    Stray,
    /// The second of a new beginning; the first was taken for a stray packet.
    Restart,
}

/// What became of a packet, once nothing changes it any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It came in time.
    Played,
    /// It came too late to be played.
    Discarded,
    /// It never came.
    Lost,
}

/// Follows the numbers. Fates come out in the order of the numbers, `WINDOW` behind the highest.
#[derive(Clone, Debug)]
pub struct Sequence {
    /// First and highest number, without wrap.
    first: u64,
    highest: u64,
    /// Whether those up to the highest came, and whether too late to be played, from bit 0 down.
    seen: u128,
    discarded: u128,
    /// The number that would make a stray packet the first of another beginning.
    next_of_stray: Option<u16>,
    /// Packets that were expected before the stream began anew.
    expected_before: u64,
}

impl Sequence {
    /// Begins with a packet.
    pub fn new(number: u16) -> Sequence {
        // Above one whole turn, so that there is something below.
        let first = (1 << 16) + u64::from(number);
        let (seen, discarded) = (1, 0);
        let (next_of_stray, expected_before) = (None, 0);
        Sequence { first, highest: first, seen, discarded, next_of_stray, expected_before }
    }

    /// As the kernel left it.
    pub(super) fn counted(state: &SequenceState) -> Sequence {
        let SequenceState { first, highest, seen, discarded, next_of_stray, expected_before } =
            *state;
        Sequence { first, highest, seen, discarded, next_of_stray, expected_before }
    }

    /// Packets that were sent, by their numbers.
    pub fn expected(&self) -> u64 {
        self.expected_before.wrapping_add(self.span())
    }

    fn span(&self) -> u64 {
        self.highest - self.first + 1
    }

    /// One of two parts of a stream that were counted in two places. Returns by how many numbers
    /// the whole is longer than both: such as lie between them, negative where they overlap.
    pub(super) fn join(&mut self, later: &Sequence) -> i64 {
        let (here, there) = (self.span() as i64, later.span() as i64);
        // Where the other begins, from the highest here.
        let begin = i64::from((later.first as u16).wrapping_sub(self.highest as u16) as i16);
        let is_near = begin.unsigned_abs() < DROPOUT_MAX.into() || begin < 0;
        let before = self.expected_before.wrapping_add(later.expected_before);
        if later.expected_before > 0 || !is_near {
            let expected_before = before.wrapping_add(here as u64);
            *self = Sequence { expected_before, ..later.clone() };
            return 0;
        }
        let end = begin + there - 1;
        let whole = end.max(0) - begin.min(1 - here) + 1;
        let base = if end > 0 { later } else { &*self };
        let expected_before = before.wrapping_add((whole - base.span() as i64) as u64);
        *self = Sequence { expected_before, ..base.clone() };
        whole - here - there
    }

    /// Takes the next packet's number; what became of earlier ones goes to `out`.
    pub fn take(&mut self, number: u16, out: &mut impl FnMut(Fate)) -> Order {
        let ahead = number.wrapping_sub(self.highest as u16);
        let behind = (self.highest as u16).wrapping_sub(number);
        if ahead == 0 || behind <= MISORDER_MAX {
            return self.late(u64::from(behind));
        }
        if ahead < DROPOUT_MAX {
            self.next_of_stray = None;
            self.advance(ahead.into(), out);
            return Order::Ahead;
        }
        if self.next_of_stray != Some(number) {
            self.next_of_stray = Some(number.wrapping_add(1));
            return Order::Stray;
        }
        self.flush(out);
        let expected_before = self.expected();
        *self = Sequence { expected_before, ..Sequence::new(number.wrapping_sub(1)) };
        self.advance(1, out);
        Order::Restart
    }

    fn late(&mut self, behind: u64) -> Order {
        let bit = 1u128 << behind;
        if self.seen & bit != 0 {
            return Order::Duplicate;
        }
        self.seen |= bit;
        // Sent before the first that came.
        self.first = self.first.min(self.highest - behind);
        Order::Late
    }

    fn advance(&mut self, by: u64, out: &mut impl FnMut(Fate)) {
        for _ in 0..by {
            self.give(self.highest.saturating_sub(WINDOW - 1), out);
            self.highest += 1;
            self.seen <<= 1;
            self.discarded <<= 1;
        }
        self.seen |= 1;
    }

    /// A packet with this number, which is in the window, came too late to be played.
    pub fn discard(&mut self, number: u16) {
        let behind = (self.highest as u16).wrapping_sub(number);
        if u64::from(behind) < WINDOW {
            self.discarded |= 1 << behind;
        }
    }

    /// Gives the fates of all that is in the window.
    pub fn flush(&self, out: &mut impl FnMut(Fate)) {
        for number in self.highest.saturating_sub(WINDOW - 1)..=self.highest {
            self.give(number, out);
        }
    }

    fn give(&self, number: u64, out: &mut impl FnMut(Fate)) {
        let bit = 1u128 << (self.highest - number);
        if number < self.first {
            return;
        }
        out(match (self.seen & bit != 0, self.discarded & bit != 0) {
            (false, _) => Fate::Lost,
            (true, true) => Fate::Discarded,
            (true, false) => Fate::Played,
        });
    }
}
