//! A run: threads that send, bounded, paced and accounted for.

use crate::job::{FrameSender, Job, Load, SENDERS_MAX, SenderKind};
use crate::live::{self, Live, LiveSender};
use crate::pace::Pacer;
use crate::packet::PacketSender;
use crate::sink_sender::SinkSender;
use crate::wire::WireCounters;
use crate::{Error, FRAME_BYTES_MAX, FRAME_BYTES_MIN, Report, Sent};
use ringside_core::OwnedFrame;
use ringside_sys::thread::{allowed_cpus, pin_to_cpu};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long the far end may take to receive what is in its ring. A ring holds 256 frames, so this
/// is only reached when its NAPI is starved or gone.
const SETTLE: Duration = Duration::from_secs(5);

/// Longest sleep of a paced sender, so that it sees its limits and a stop soon.
const SLEEP_MAX: Duration = Duration::from_millis(50);

/// Ethernet header, which an interface takes beyond its MTU. (It would take a VLAN tag too, but
/// only of frames that have one: the stricter limit holds for all.)
const HEADER_BYTES: u64 = 14;

/// How far a run is, for those who watch it.
#[derive(Debug, Default)]
pub struct Progress {
    offered: AtomicU64,
}

impl Progress {
    /// Frames offered so far by all threads.
    pub fn offered(&self) -> u64 {
        self.offered.load(Ordering::Relaxed)
    }
}

/// The share of thread `index` of `threads`; shares differ by 1 at most.
fn share(whole: u64, index: usize, threads: usize) -> u64 {
    let (index, threads) = (index as u64, threads as u64);
    whole / threads + u64::from(index < whole % threads)
}

/// Does `job`, until its limit or until `stop` says so (it is asked every few milliseconds).
///
/// # Errors
/// The job is refused (sizes, MTU, a far end without NAPI, a missing interface), or the system
/// refused. After [`Error::NotSettled`] the counts cannot be trusted.
pub fn run(job: &Job, stop: &(dyn Fn() -> bool + Sync)) -> Result<Report, Error> {
    run_shown(job, stop, &Progress::default())
}

/// As [`run`], and tells meanwhile how far it is.
///
/// # Errors
/// As [`run`].
pub fn run_shown(
    job: &Job,
    stop: &(dyn Fn() -> bool + Sync),
    progress: &Progress,
) -> Result<Report, Error> {
    let (load, unsendable) = sendable(&job.load)?;
    let job = Job { load, ..job.clone() };
    check(&job)?;
    let before = job.wire.counters()?;
    let sent = job.wire.sender.inside(|| send_all(&job, stop, progress))?;
    account(&job, before, &sent, unsendable)
}

/// Runs the sending threads; the calling thread is in the sender's namespace, and so are they.
fn send_all(
    job: &Job,
    stop: &(dyn Fn() -> bool + Sync),
    progress: &Progress,
) -> Result<Vec<Sent>, Error> {
    let cpus = match (&job.cpus[..], job.sender) {
        ([], sender) if sender.is_live() => {
            vec![allowed_cpus()?.first().copied().unwrap_or(0)]
        }
        (cpus, _) => cpus.to_vec(),
    };
    let live = match (&job.load, job.sender) {
        (Load::Numbered(shape), sender) if sender.is_live() => {
            let even = job.rate_per_sec.filter(|_| sender == SenderKind::Even);
            let even = even.map(|rate| (rate / cpus.len() as u64).max(1));
            Some((Live::new(&job.wire, shape, &cpus, even)?, shape))
        }
        _ => None,
    };
    let threads = cpus.len().max(1);
    let send = |index: usize| {
        let cpu = cpus.get(index).copied();
        if let Some(cpu) = cpu {
            pin_to_cpu(cpu)?;
        }
        if let (SenderKind::Sink(kind), Load::Numbered(shape)) = (job.sender, &job.load) {
            let mut sender = SinkSender::new(&job.wire, kind, shape, index as u16)?;
            return send_until(&mut sender, job, (index, threads), stop, progress);
        }
        match (&live, cpu) {
            (Some((live, shape)), Some(cpu)) => {
                let mut sender = LiveSender::new(live, shape, cpu);
                send_until(&mut sender, job, (index, threads), stop, progress)
            }
            _ => {
                let mut sender = PacketSender::new(&job.wire, &job.load, index as u16)?;
                send_until(&mut sender, job, (index, threads), stop, progress)
            }
        }
    };
    std::thread::scope(|scope| {
        let send = &send;
        let handles: Vec<_> = (0..threads).map(|i| scope.spawn(move || send(i))).collect();
        // All are waited for before the first error is told.
        let sent: Vec<_> =
            handles.into_iter().map(|h| h.join().unwrap_or(Err(Error::ThreadLost))).collect();
        sent.into_iter().collect()
    })
}

/// Leaves out frames of a capture that no interface takes.
fn sendable(load: &Load) -> Result<(Load, u64), Error> {
    let Load::Replay(frames) = load else { return Ok((load.clone(), 0)) };
    let limits = usize::from(FRAME_BYTES_MIN)..=usize::from(FRAME_BYTES_MAX);
    let kept: Arc<[OwnedFrame]> =
        frames.iter().filter(|frame| limits.contains(&frame.bytes.len())).cloned().collect();
    if kept.is_empty() {
        return Err(Error::NothingToSend);
    }
    let unsendable = (frames.len() - kept.len()) as u64;
    Ok((Load::Replay(kept), unsendable))
}

fn check(job: &Job) -> Result<(), Error> {
    let limit =
        |what, value: usize, limit: String| Err(Error::Limit { what, value: value as u64, limit });
    if job.cpus.len() > SENDERS_MAX {
        return limit(
            "the number of sending threads",
            job.cpus.len(),
            format!("1 to {SENDERS_MAX}"),
        );
    }
    let needs_rate = job.sender == SenderKind::Even && job.rate_per_sec.is_none();
    if job.rate_per_sec == Some(0) || needs_rate {
        return limit("the rate", 0, "at least 1 frame a second".into());
    }
    let longest = match (&job.load, job.sender) {
        (Load::Replay(_), kind) if kind != SenderKind::Packet => return Err(Error::LiveReplay),
        (Load::Replay(_), _) if job.cpus.len() > 1 => {
            return limit("the number of threads that send a capture", job.cpus.len(), "1".into());
        }
        (Load::Replay(frames), _) => frames.iter().map(|f| f.bytes.len()).max().unwrap_or(0),
        (Load::Numbered(shape), kind) => {
            if kind.is_live() {
                live::check_sizes(shape)?;
            }
            usize::from(shape.sizes.longest())
        }
    };
    for end in std::iter::once(&job.wire.sender).chain(&job.wire.receiver) {
        let mtu = end.inside(|| Ok(end.device()?.mtu_bytes))?;
        let allowed = u64::from(mtu) + HEADER_BYTES;
        if longest as u64 > allowed {
            let needed = longest - HEADER_BYTES as usize;
            return Err(Error::Mtu {
                bytes: longest,
                interface: end.place(),
                mtu,
                allowed,
                needed,
            });
        }
    }
    if job.sender.is_live() {
        live::check_receiver(&job.wire)?;
    }
    Ok(())
}

fn send_until(
    sender: &mut dyn FrameSender,
    job: &Job,
    (index, threads): (usize, usize),
    stop: &(dyn Fn() -> bool + Sync),
    progress: &Progress,
) -> Result<Sent, Error> {
    let quota = share(job.limits.count.unwrap_or(u64::MAX), index, threads);
    // The program itself keeps an even rate.
    let paced = job.rate_per_sec.filter(|_| job.sender != SenderKind::Even);
    let rate_per_sec = paced.map(|rate| share(rate, index, threads).max(1));
    let duration = job.limits.duration;
    let start = Instant::now();
    let mut pacer = rate_per_sec.map(|rate| Pacer::new(rate, 0));
    let mut sent = Sent::default();
    while sent.frames < quota {
        let now = start.elapsed();
        if duration.is_some_and(|duration| now >= duration) {
            break;
        }
        if stop() {
            sent.stopped = true;
            break;
        }
        let granted = match &mut pacer {
            None => u64::MAX,
            Some(pacer) => match pacer.grant(now.as_nanos() as u64) {
                Ok(frames) => frames,
                Err(wait_ns) => {
                    let left = duration.map_or(SLEEP_MAX, |duration| duration - now);
                    std::thread::sleep(Duration::from_nanos(wait_ns).min(SLEEP_MAX).min(left));
                    continue;
                }
            },
        };
        let asked = granted.min(quota - sent.frames).min(sender.call_frames_max());
        let offered = sender.send(asked)?;
        sent.frames += offered;
        progress.offered.fetch_add(offered, Ordering::Relaxed);
        if let Some(pacer) = &mut pacer {
            pacer.give_back(granted.saturating_sub(offered));
        }
    }
    sender.finish();
    sent.elapsed = start.elapsed();
    sent.bytes = sender.bytes();
    sent.refused_by_socket = sender.refused();
    sent.refused_for_room = sender.refused_for_room();
    Ok(sent)
}

/// Turns counters into a report, once the far end has received what it was handed.
fn account(
    job: &Job,
    before: WireCounters,
    sent: &[Sent],
    unsendable: u64,
) -> Result<Report, Error> {
    let after = job.wire.counters()?;
    let offered: u64 = sent.iter().map(|s| s.frames).sum();
    let (ring_full, before_ring) = match job.sender {
        SenderKind::Live | SenderKind::Even => {
            let ring_full = after.redirect_refused - before.redirect_refused;
            let taken = match (after.redirected, before.redirected) {
                (Some(after), Some(before)) => after - before,
                _ => after.tx_packets - before.tx_packets,
            };
            let counted = taken + ring_full;
            // Whatever was offered and not counted was freed before it reached the far end.
            (ring_full, offered.saturating_sub(counted))
        }
        SenderKind::Sink(_) => {
            // A sink's account is exact.
            let ring_full: u64 = sent.iter().map(|s| s.refused_for_room).sum();
            let refused: u64 = sent.iter().map(|s| s.refused_by_socket).sum();
            (ring_full, refused - ring_full)
        }
        SenderKind::Packet => {
            let ring_full = after.tx_dropped - before.tx_dropped;
            let refused: u64 = sent.iter().map(|s| s.refused_by_socket).sum();
            // From Linux 6.16 on the socket reports a full ring too; before, only other refusals.
            let others = if refused >= ring_full { refused - ring_full } else { refused };
            (ring_full, others)
        }
    };
    let handed = offered.saturating_sub(ring_full + before_ring);
    let received = settle(job, before.received, handed)?;
    Ok(Report {
        sender: job.sender,
        offered,
        handed,
        refused_ring_full: ring_full,
        refused_before_ring: before_ring,
        received_by_interface: received,
        unsendable,
        streams: sent.iter().map(|s| s.frames).collect(),
        offered_bytes: sent.iter().map(|s| s.bytes).sum(),
        elapsed_ns: sent.iter().map(|s| s.elapsed.as_nanos() as u64).max().unwrap_or(0),
        stopped: sent.iter().any(|s| s.stopped),
    })
}

/// Waits until the far end has taken `handed` frames out of its ring; returns what it received.
fn settle(job: &Job, before: Option<u64>, handed: u64) -> Result<Option<u64>, Error> {
    let start = Instant::now();
    loop {
        let (Some(end), Some(before)) = (&job.wire.receiver, before) else { return Ok(None) };
        let received = job.wire.received()?.unwrap_or(0).saturating_sub(before);
        if received >= handed {
            return Ok(Some(received));
        }
        if start.elapsed() > SETTLE {
            let (missing, receiver) = (handed - received, end.place());
            return Err(Error::NotSettled { missing, receiver, waited: SETTLE });
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
