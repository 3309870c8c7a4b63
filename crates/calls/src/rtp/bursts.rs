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
