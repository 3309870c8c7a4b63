//! What the kernel counts for a packet socket.

use crate::{SysError, socket};
use std::os::fd::AsFd;

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

const _: () = {
    use libc::tpacket_stats_v3;
    use std::mem::{offset_of, size_of};
    assert!(size_of::<tpacket_stats_v3>() == size_of::<[u32; 3]>());
    assert!(offset_of!(tpacket_stats_v3, tp_packets) == 0);
    assert!(offset_of!(tpacket_stats_v3, tp_drops) == 4);
    assert!(offset_of!(tpacket_stats_v3, tp_freeze_q_cnt) == 8);
};
