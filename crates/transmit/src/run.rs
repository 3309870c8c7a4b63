//! A run: threads that send, bounded, paced and accounted for.

use crate::frame_sender::FrameSender;
use crate::interface::HEADER_BYTES;
use crate::job::{Job, Load, SENDERS_MAX, SenderKind};
use crate::live::{self, Live, LiveSender};
use crate::pace::Pacer;
use crate::report::{Report, Sent};
use crate::sink::SinkKind;
use crate::sink_sender::SinkSender;
use crate::wait::SLEEP_MAX;
use crate::wire::WireCounters;
use crate::{Error, FRAME_BYTES_MAX, FRAME_BYTES_MIN, Shape};
use ringside_core::{OwnedFrame, Refusal};
use ringside_sys::thread::{allowed_cpus, pin_to_cpu};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long an interface may take to count what it has sent: network cards tell their counts about
/// once a second.
pub(crate) const COUNTED: Duration = Duration::from_secs(2);

/// How long the far end may take to receive what is in its ring. A ring holds 256 frames, so this
/// is only reached when its NAPI is starved or gone.
const SETTLE: Duration = Duration::from_secs(5);

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
/// The job is refused (sizes, MTU, a far end without NAPI, a missing interface), the system
/// refused, or an error ended it before its time ([`Error::EndedEarly`]). After
/// [`Error::NotSettled`] the counts cannot be trusted.
pub fn run(job: &Job, stop: &(dyn Fn() -> bool + Sync)) -> Result<Report, Error> {
    let report = run_shown(job, stop, &Progress::default())?;
    match report.failure {
        None => Ok(report),
        Some(reason) => {
            Err(Error::EndedEarly { reason, offered: report.offered, handed: report.handed })
        }
    }
}

/// As [`run`], and tells meanwhile how far it is. What ended it once frames had been sent stands
/// in the report ([`Report::failure`]), with their account.
///
/// # Errors
/// As [`run`], before a frame was sent; or what was sent cannot be known any more.
pub fn run_shown(
    job: &Job,
    stop: &(dyn Fn() -> bool + Sync),
    progress: &Progress,
) -> Result<Report, Error> {
    let (load, unsendable) = sendable(&job.load)?;
    let job = Job { load, ..job.clone() };
    check(&job)?;
    // Until the counters are read, the interface is ours: no other's live frames are in them.
    let live = job.wire.sender.inside(|| live(&job))?;
    let before = job.wire.counters()?;
    let mut sent = job.wire.sender.inside(|| send_all(&job, live.as_ref(), stop, progress))?;
    let failure = sent.iter_mut().find_map(|sent| sent.failure.take());
    let has_sent = sent.iter().any(|sent| sent.frames > 0);
    match (account(&job, before, &sent, unsendable), failure) {
        (_, Some(failure)) if !has_sent => Err(failure),
        (Ok(report), failure) => Ok(Report { failure: failure.map(|e| e.to_string()), ..report }),
        (Err(error), _) => Err(error),
    }
}

/// What makes the frames of a run of live ones; the calling thread is in the sender's namespace.
fn live(job: &Job) -> Result<Option<(Live, &Shape)>, Error> {
    let (Load::Numbered(shape), true) = (&job.load, job.sender.is_live()) else { return Ok(None) };
    let cpus = cpus(job)?;
    let even = job.rate_per_sec.filter(|_| job.sender == SenderKind::Even);
    let even = even.map(|rate| (rate / cpus.len() as u64).max(1));
    Ok(Some((Live::new(&job.wire, shape, &cpus, even)?, shape)))
}

/// The CPUs that the threads are kept on; none for one that runs anywhere.
fn cpus(job: &Job) -> Result<Vec<usize>, Error> {
    Ok(match (&job.cpus[..], job.sender) {
        ([], sender) if sender.is_live() => {
            vec![allowed_cpus()?.first().copied().unwrap_or(0)]
        }
        (cpus, _) => cpus.to_vec(),
    })
}

/// Runs the sending threads; the calling thread is in the sender's namespace, and so are they. The
/// error of one ends all, and leaves the others' accounts as they are.
fn send_all(
    job: &Job,
    live: Option<&(Live, &Shape)>,
    stop: &(dyn Fn() -> bool + Sync),
    progress: &Progress,
) -> Result<Vec<Sent>, Error> {
    let cpus = cpus(job)?;
    let threads = cpus.len().max(1);
    let has_failed = AtomicBool::new(false);
    let send = |index: usize| {
        let cpu = cpus.get(index).copied();
        if let Some(cpu) = cpu {
            pin_to_cpu(cpu)?;
        }
        let stream = index as u16;
        let mut sender = match (live, cpu) {
            (Some((live, shape)), Some(cpu)) => {
                FrameSender::Live(Box::new(LiveSender::new(live, shape, cpu)?))
            }
            _ => {
                let sender = SinkSender::new(&job.wire, job.sender, &job.load, stream)?;
                FrameSender::Sink(Box::new(sender))
            }
        };
        let orders = Orders { stop, has_failed: &has_failed };
        Ok(send_until(&mut sender, job, (index, threads), orders, progress))
    };
    let failed = |failure| Sent { failure: Some(failure), ..Sent::default() };
    let send = |index| {
        let sent = send(index).unwrap_or_else(failed);
        has_failed.fetch_or(sent.failure.is_some(), Ordering::Relaxed);
        sent
    };
    std::thread::scope(|scope| {
        let send = &send;
        let handles: Vec<_> = (0..threads).map(|i| scope.spawn(move || send(i))).collect();
        let sent = handles.into_iter().map(|h| h.join());
        Ok(sent.map(|sent| sent.unwrap_or_else(|_| failed(Error::ThreadLost))).collect())
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
        (Load::Replay(_), kind) if kind.is_live() => return Err(Error::LiveReplay),
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
        // A frame with a tag may be longer, but not every one has it.
        let allowed = u64::from(mtu) + HEADER_BYTES as u64;
        if longest as u64 > allowed {
            let needed = longest - HEADER_BYTES;
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

/// What ends a thread before its limits.
#[derive(Clone, Copy)]
struct Orders<'o> {
    /// From outside.
    stop: &'o (dyn Fn() -> bool + Sync),
    /// Another thread met an error.
    has_failed: &'o AtomicBool,
}

fn send_until(
    sender: &mut FrameSender<'_>,
    job: &Job,
    (index, threads): (usize, usize),
    orders: Orders<'_>,
    progress: &Progress,
) -> Sent {
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
        sent.stopped = (orders.stop)();
        if sent.stopped || orders.has_failed.load(Ordering::Relaxed) {
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
        let offered = match sender.send(asked) {
            Ok(offered) => offered,
            Err(failure) => {
                sent.failure = Some(failure);
                break;
            }
        };
        sent.frames += offered;
        progress.offered.fetch_add(offered, Ordering::Relaxed);
        if let Some(pacer) = &mut pacer {
            pacer.give_back(granted.saturating_sub(offered));
        }
    }
    let (counters, failure) = sender.finish();
    sent.failure = sent.failure.or(failure);
    sent.elapsed = start.elapsed();
    sent.frames = counters.offered;
    sent.bytes = counters.offered_bytes;
    sent.refused_by_socket = counters.refused_total();
    sent.refused_for_room = counters.refused.get(&Refusal::NoRoom).copied().unwrap_or(0);
    sent
}

/// Turns counters into a report, once the far end has received what it was handed.
fn account(
    job: &Job,
    before: WireCounters,
    sent: &[Sent],
    unsendable: u64,
) -> Result<Report, Error> {
    let offered: u64 = sent.iter().map(|s| s.frames).sum();
    let (ring_full, before_ring) = match job.sender {
        SenderKind::Live | SenderKind::Even => {
            let counted =
                job.wire.redirected_since(&before, offered, COUNTED).map_err(|error| {
                    let (interface, reason) = (job.wire.sender.place(), error.to_string());
                    Error::Unaccounted { offered, interface, reason }
                })?;
            // Whatever was offered and not counted was freed before it reached the far end.
            (counted.refused, offered.saturating_sub(counted.taken + counted.refused))
        }
        SenderKind::Sink(_) => {
            // A sink's account is exact.
            let ring_full: u64 = sent.iter().map(|s| s.refused_for_room).sum();
            let refused: u64 = sent.iter().map(|s| s.refused_by_socket).sum();
            (ring_full, refused - ring_full)
        }
        SenderKind::Packet => {
            let ring_full = job.wire.counters()?.tx_dropped - before.tx_dropped;
            let refused: u64 = sent.iter().map(|s| s.refused_by_socket).sum();
            // From Linux 6.16 on the socket reports a full ring too; before, only other refusals.
            let others = if refused >= ring_full { refused - ring_full } else { refused };
            (ring_full, others)
        }
    };
    let handed = offered.saturating_sub(ring_full + before_ring);
    let (received, withheld) = settle(job, &before, handed, ring_full)?;
    Ok(Report {
        sender: job.sender,
        offered,
        handed: handed - withheld,
        refused_ring_full: ring_full,
        refused_before_ring: before_ring + withheld,
        received_by_interface: received,
        unsendable,
        streams: sent.iter().map(|s| s.frames).collect(),
        offered_bytes: sent.iter().map(|s| s.bytes).sum(),
        elapsed_ns: sent.iter().map(|s| s.elapsed.as_nanos() as u64).max().unwrap_or(0),
        stopped: sent.iter().any(|s| s.stopped),
        failure: None,
    })
}

/// Waits until the far end has taken `handed` frames out of its ring; returns what it received, and
/// how many of them never came to the ring.
fn settle(
    job: &Job,
    before: &WireCounters,
    handed: u64,
    ring_full: u64,
) -> Result<(Option<u64>, u64), Error> {
    let start = Instant::now();
    loop {
        let (Some(end), Some(had)) = (&job.wire.receiver, before.received) else {
            return Ok((None, 0));
        };
        // A far end that went away with the interface tells nothing any more.
        let Ok(Some(received)) = job.wire.received() else { return Ok((None, 0)) };
        let received = received.saturating_sub(had);
        let missing = handed.saturating_sub(received);
        if missing == 0 {
            return Ok((Some(received), 0));
        }
        if start.elapsed() > SETTLE {
            if missing <= withheld_max(job, before, ring_full)? {
                return Ok((Some(received), missing));
            }
            let receiver = end.place();
            return Err(Error::NotSettled { missing, receiver, waited: SETTLE });
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// How many frames the queueing discipline may have dropped without a word to the sender. While an
/// interface is set down, its discipline is noop_qdisc, which drops what it is given, counts it,
/// and returns NET_XMIT_CN, which sockets report as sent (noop_enqueue of
/// net/sched/sch_generic.c).
fn withheld_max(job: &Job, before: &WireCounters, ring_full: u64) -> Result<u64, Error> {
    if job.sender != SenderKind::Sink(SinkKind::Pcap) {
        return Ok(0);
    }
    let dropped = job.wire.counters()?.tx_dropped.saturating_sub(before.tx_dropped);
    Ok(dropped.saturating_sub(ring_full))
}
