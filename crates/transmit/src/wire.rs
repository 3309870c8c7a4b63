//! The interface that frames are put into, the far end if it is ours to look at, and the counters
//! that say what crossed.
//!
//! Which counter says what of a veth pair (drivers/net/veth.c, tried on Linux 6.18):
//! - the sending end's ethtool statistics `tx_queue_N_xdp_xmit` and `tx_queue_N_xdp_xmit_errors`
//!   count redirected frames that the far end's ring took and refused;
//! - the sending end's `tx_dropped` counts frames of the stack and of packet sockets that the ring
//!   refused;
//! - the receiving end's `rx_packets` counts what its NAPI took out of the ring (or, without a
//!   NAPI, what was put into the backlog); its `rx_dropped` repeats the refusals.
//!
//! Other drivers have no such counters of redirected frames: there `tx_packets` says what was
//! taken, the host's own frames included.

use crate::Error;
use ringside_netdev::{self as netdev, NetDevice};
use ringside_sys::netns::Namespace;
use std::process::Command;
use std::time::{Duration, Instant};

/// One end: an interface in a network namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// Namespace by the name that `ip netns` knows; `None` for that of the calling thread.
    pub namespace: Option<String>,
    /// Interface, as `tx0`.
    pub interface: String,
}

/// Where to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wire {
    /// Where frames are put in.
    pub sender: End,
    /// Where they come out, if that is known and may be looked at: the other end of a veth pair.
    pub receiver: Option<End>,
}

/// Counters of a wire, cumulative; only differences mean something.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct WireCounters {
    /// Of redirected frames; `None` where the driver does not count them apart.
    pub redirected: Option<u64>,
    pub redirect_refused: u64,
    pub tx_packets: u64,
    pub tx_dropped: u64,
    /// By the far end, where that is known.
    pub received: Option<u64>,
}

/// What became of redirected frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Redirected {
    /// By the driver.
    pub taken: u64,
    /// For want of room in its ring, where it counts that.
    pub refused: u64,
}

/// How often counters are looked at.
const LOOK: Duration = Duration::from_millis(10);

impl End {
    /// Runs `work` on a thread of its own inside the namespace.
    pub(crate) fn inside<T: Send>(
        &self,
        work: impl FnOnce() -> Result<T, Error> + Send,
    ) -> Result<T, Error> {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                self.enter()?;
                work()
            });
            thread.join().unwrap_or(Err(Error::ThreadLost))
        })
    }

    /// Moves the calling thread into the namespace for good.
    pub(crate) fn enter(&self) -> Result<(), Error> {
        match &self.namespace {
            Some(name) => Ok(Namespace::open(name)?.enter()?),
            None => Ok(()),
        }
    }

    /// For messages: `tx0 of ringside-lab-a`.
    pub(crate) fn place(&self) -> String {
        match &self.namespace {
            Some(name) => format!("{} of {name}", self.interface),
            None => self.interface.clone(),
        }
    }

    /// The interface; the calling thread must be in the namespace.
    pub(crate) fn device(&self) -> Result<NetDevice, Error> {
        netdev::by_name(&self.interface)?.ok_or_else(|| {
            let namespace = self.namespace.as_deref().unwrap_or("this namespace");
            Error::NoInterface { interface: self.interface.clone(), namespace: namespace.into() }
        })
    }
}

impl Wire {
    pub(crate) fn counters(&self) -> Result<WireCounters, Error> {
        let received = self.received()?;
        self.sender.inside(|| {
            let statistics = self.sender.device()?.statistics;
            // A driver without statistics of its own is none that counts redirected frames.
            let queues = ethtool_statistics(&self.sender.interface).unwrap_or_default();
            Ok(WireCounters {
                redirected: sum_of_queues(&queues, "_xdp_xmit"),
                redirect_refused: sum_of_queues(&queues, "_xdp_xmit_errors").unwrap_or(0),
                tx_packets: statistics.tx_packets,
                tx_dropped: statistics.tx_dropped,
                received,
            })
        })
    }

    /// What became of `given` redirected frames since `before`. Where only `tx_packets` says so,
    /// this waits for it to say it of all, up to `timeout`.
    pub(crate) fn redirected_since(
        &self,
        before: &WireCounters,
        given: u64,
        timeout: Duration,
    ) -> Result<Redirected, Error> {
        let begin = Instant::now();
        loop {
            let now = self.counters()?;
            if let (Some(taken), Some(taken_before)) = (now.redirected, before.redirected) {
                let refused = now.redirect_refused.saturating_sub(before.redirect_refused);
                return Ok(Redirected { taken: taken.saturating_sub(taken_before), refused });
            }
            let taken = now.tx_packets.saturating_sub(before.tx_packets).min(given);
            if taken == given || begin.elapsed() > timeout {
                return Ok(Redirected { taken, refused: 0 });
            }
            std::thread::sleep(LOOK);
        }
    }

    pub(crate) fn received(&self) -> Result<Option<u64>, Error> {
        let Some(end) = &self.receiver else { return Ok(None) };
        end.inside(|| Ok(Some(end.device()?.statistics.rx_packets)))
    }
}

/// What `ethtool -S` prints in the calling thread's namespace.
fn ethtool_statistics(interface: &str) -> Result<String, Error> {
    let failed =
        |reason: String| Error::Tool { command: format!("ethtool -S {interface}"), reason };
    let output = Command::new("ethtool").args(["-S", interface]).output();
    let output = output.map_err(|e| failed(e.to_string()))?;
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).trim().to_string()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Adds `tx_queue_N<suffix>` over the queues; `None` if there is none.
fn sum_of_queues(statistics: &str, suffix: &str) -> Option<u64> {
    let value = |line: &str| {
        let (name, value) = line.trim().split_once(": ")?;
        let queue = name.strip_prefix("tx_queue_")?.strip_suffix(suffix)?;
        queue.parse::<u32>().ok()?;
        value.trim().parse::<u64>().ok()
    };
    statistics.lines().filter_map(value).reduce(|sum, value| sum + value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_from_what_the_tools_print() {
        let statistics = "NIC statistics:\n     peer_ifindex: 2\n     tx_queue_0_xdp_xmit: 5\n     \
                          tx_queue_0_xdp_xmit_errors: 7\n     tx_queue_1_xdp_xmit: 11\n";
        assert_eq!(sum_of_queues(statistics, "_xdp_xmit"), Some(16));
        assert_eq!(sum_of_queues(statistics, "_xdp_xmit_errors"), Some(7));
        assert_eq!(sum_of_queues("", "_xdp_xmit"), None);
    }
}
