//! What the kernel counts for a packet socket.

use crate::{SysError, socket};
use std::os::fd::AsFd;
use std::time::Duration;

/// Cumulative counters since the ring was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketStatistics {
    /// Frames that the filter accepted (`tp_packets`), dropped ones included.
    pub received: u64,
    /// Of these, frames for which the ring had no room (`tp_drops`).
    pub dropped: u64,
    /// How often the kernel found every block taken (`tp_freeze_q_cnt`).
    pub freezes: u64,
}

impl PacketStatistics {
    /// Adds what was counted since the last call: PACKET_STATISTICS resets on read, so this is the
    /// only reader.
    pub(super) fn accumulate(&mut self, socket: impl AsFd) -> Result<(), SysError> {
        let (level, option) = (libc::SOL_PACKET, libc::PACKET_STATISTICS);
        // struct tpacket_stats_v3.
        let [packets, drops, freezes]: [u32; 3] =
            socket::get_option(socket, level, option, "PACKET_STATISTICS")?;
        self.received += u64::from(packets);
        self.dropped += u64::from(drops);
        self.freezes += u64::from(freezes);
        Ok(())
    }
}

/// Longest time between two readings of a counter of frames that is 32 bits wide. It goes round in
/// it at 43 million frames a second and socket, several times what the kernel counts there: each
/// frame takes the socket's lock (net/core/sock.c, net/packet/af_packet.c), some 50 ns at least.
const READING_INTERVAL_MAX: Duration = Duration::from_secs(100);

/// When counters of 32 bits were read: whether one may have gone round unseen, as in a process that
/// was frozen.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadingTimes {
    last_ns: Option<u64>,
    longest_ns: u64,
}

impl ReadingTimes {
    /// They are read, or begin to count, at `now_ns` of the monotonic clock.
    pub fn note(&mut self, now_ns: u64) {
        let before = self.last_ns.replace(now_ns).unwrap_or(now_ns);
        self.longest_ns = self.longest_ns.max(now_ns.saturating_sub(before));
    }

    /// The longest time without a reading, if a counter may have gone round in it.
    pub fn too_long(&self) -> Option<Duration> {
        let longest = Duration::from_nanos(self.longest_ns);
        (longest > READING_INTERVAL_MAX).then_some(longest)
    }
}

const _: () = {
    use libc::tpacket_stats_v3;
    use std::mem::{offset_of, size_of};
    assert!(size_of::<tpacket_stats_v3>() == size_of::<[u32; 3]>());
    assert!(offset_of!(tpacket_stats_v3, tp_packets) == 0);
    assert!(offset_of!(tpacket_stats_v3, tp_drops) == 4);
    assert!(offset_of!(tpacket_stats_v3, tp_freeze_q_cnt) == 8);
};

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: u64 = 1_000_000_000;

    #[test]
    fn counters_that_were_left_alone_for_long_are_not_believed_any_more() {
        let mut times = ReadingTimes::default();
        times.note(1_000 * SECOND_NS);
        assert_eq!(times.too_long(), None, "nothing was counted before");
        times.note(1_100 * SECOND_NS);
        assert_eq!(times.too_long(), None);
        times.note(1_201 * SECOND_NS);
        times.note(1_202 * SECOND_NS);
        assert_eq!(times.too_long(), Some(Duration::from_secs(101)), "for good");
        times.note(0);
        assert_eq!(times.too_long(), Some(Duration::from_secs(101)));
    }
}
