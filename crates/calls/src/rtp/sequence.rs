//! The sequence numbers of a stream: what came, what came twice, what never came.

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

    /// Packets that were sent, by their numbers.
    pub fn expected(&self) -> u64 {
        self.expected_before + self.highest - self.first + 1
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
