//! How losses lie together: bursts and gaps (RFC 3611, section 4.7.2), and runs.

use super::sequence::Fate;

/// Packets that come between two losses which are not of one burst (Gmin).
pub const GAP_MIN: u64 = 16;

/// Counts of bursts and gaps. A burst begins and ends with a packet that is lost or discarded, and
/// has fewer than [`GAP_MIN`] between any two of them; one alone belongs to a gap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bursts {
    /// All packets.
    pub packets: u64,
    /// Of these: never came.
    pub lost: u64,
    /// Came too late to be played.
    pub discarded: u64,
    /// Bursts that are over.
    pub bursts: u64,
    /// Packets in bursts.
    pub burst_packets: u64,
    /// Of these: lost or discarded.
    pub burst_losses: u64,
    /// Runs of packets of which none was played.
    pub runs: u64,
    /// What may become a burst: packets and losses.
    open: (u64, u64),
    /// Packets that were played since the last loss.
    played: u64,
}

impl Bursts {
    /// The next packet, in the order of numbers.
    pub fn take(&mut self, fate: Fate) {
        self.packets += 1;
        match fate {
            Fate::Played => {
                self.played += 1;
                return;
            }
            Fate::Lost => self.lost += 1,
            Fate::Discarded => self.discarded += 1,
        }
        let is_first = self.open.1 == 0;
        self.runs += u64::from(is_first || self.played > 0);
        if is_first || self.played >= GAP_MIN {
            self.close();
            self.open = (1, 1);
        } else {
            self.open = (self.open.0 + self.played + 1, self.open.1 + 1);
        }
        self.played = 0;
    }

    fn close(&mut self) {
        let (packets, losses) = std::mem::take(&mut self.open);
        if losses > 1 {
            self.bursts += 1;
            self.burst_packets += packets;
            self.burst_losses += losses;
        }
    }

    /// As the kernel left it, in the order of the fields.
    pub(super) fn counted(words: &[u64; 10]) -> Bursts {
        let [packets, lost, discarded, bursts, burst_packets, burst_losses, runs, ..] = *words;
        let [.., open_packets, open_losses, played] = *words;
        let open = (open_packets, open_losses);
        Bursts { packets, lost, discarded, bursts, burst_packets, burst_losses, runs, open, played }
    }

    /// Adds those of another part of the stream, which are finished as these are. Between both,
    /// `between` numbers are missing.
    ///
    /// Where it is negative the parts overlap, and numbers that came to the one are lost to the
    /// other: counts are right then, and bursts are those of the part to which more came.
    pub(super) fn join(&mut self, other: &Bursts, between: i64) {
        let (gap, twice) = (between.max(0) as u64, between.min(0).unsigned_abs());
        let came = |part: &Bursts| part.packets - part.lost;
        let (most, least) =
            if came(self) < came(other) { (*other, *self) } else { (*self, *other) };
        let mut whole = Bursts {
            packets: (most.packets + least.packets + gap).saturating_sub(twice),
            lost: (most.lost + least.lost + gap).saturating_sub(twice),
            discarded: most.discarded + least.discarded,
            ..most
        };
        if twice == 0 {
            whole.bursts += least.bursts;
            whole.burst_packets += least.burst_packets;
            whole.burst_losses += least.burst_losses;
            whole.runs += least.runs + u64::from(gap > 0);
        }
        whole.burst_packets = whole.burst_packets.min(whole.packets);
        whole.burst_losses = whole.burst_losses.min(whole.unplayed());
        whole.runs = whole.runs.min(whole.unplayed());
        *self = whole;
    }

    /// The counts, with what is still open.
    pub fn finished(mut self) -> Bursts {
        self.close();
        self
    }

    /// Packets that were not played.
    pub fn unplayed(&self) -> u64 {
        self.lost + self.discarded
    }

    /// BurstR of G.107: the mean length of runs of losses over what it were if losses were
    /// independent. None without a loss, or without a packet that was played.
    pub fn burst_ratio(&self) -> Option<f64> {
        if self.runs == 0 || self.unplayed() == self.packets {
            return None;
        }
        let mean = self.unplayed() as f64 / self.runs as f64;
        Some(mean * (1.0 - self.unplayed() as f64 / self.packets as f64))
    }
}
