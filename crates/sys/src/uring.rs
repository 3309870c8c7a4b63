//! Writing blocks of shared memory by io_uring, as they lie.
//!
//! A write is given away with the *claim* to its bytes, of whatever kind ([`Lends`]): the queue
//! owns the claim, and a share of the loan, until the kernel has said what became of the write. So
//! no thread can write the blocks while the disk still reads them, and [`Uring`] waits for what is
//! in flight before it goes. What the kernel took only in part, or interrupted, is continued here;
//! a completion means all or an error.
//!
//! The memory is registered with the kernel (pieces of at most 1 GiB), so that its pages
//! are pinned once and not for each write; where that is refused (RLIMIT_MEMLOCK), writes go
//! without. One wait covers completions and a [`Bell`], by a poll in the ring.
//!
//! The ring is made for one thread (IORING_SETUP_SINGLE_ISSUER, and DEFER_TASKRUN, so that
//! completions are worked off when that thread waits and never interrupt it). Such a ring belongs
//! to the thread that enables it: hence [`UringSetup`], made disabled wherever the privileges and
//! the memory are, and [`UringSetup::enable`], called by the thread, whose result cannot leave it.
//! Kernels before 6.1 do not know these flags and get a ring without them.
//!
//! io_uring may be missing (before 5.11), switched off (`kernel.io_uring_disabled`) or forbidden
//! (seccomp): [`UringSetup::new`] then says which, and the caller writes by itself.

#[cfg(not(feature = "loom"))]
#[cfg(test)]
mod tests;

use crate::bell::Bell;
use crate::shared_memory::{LentBytes, SharedMemory};
use io_uring::{IoUring, Probe, opcode, squeue, types};
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::Duration;

/// Most writes in flight in one queue: a lane has one, and more lanes than this do not make a disk
/// faster.
pub const WRITES_MAX: usize = 64;
/// Entries of the submission queue: all writes, and the poll of the bell.
const ENTRIES: u32 = (WRITES_MAX as u32 + 1).next_power_of_two();
/// Longest single write: what 32 bits hold, in whole pages.
const WRITE_BYTES_MAX: u32 = !4095;
/// Marks the completion of the bell's poll; writes bear their index.
const BELL_TOKEN: u64 = u64::MAX;
/// Attempts to continue a write that the kernel interrupts without having written anything. A
/// device that always does so would keep the thread busy for ever.
const RETRIES_MAX: u32 = 1000;

/// Why there is no ring.
#[derive(Debug, thiserror::Error)]
pub enum UringError {
    /// The system refused it.
    #[error("io_uring is not to be had: {source}{}", hint(source))]
    Refused {
        /// The system's reason.
        source: io::Error,
    },
    /// The kernel is older than what is used here.
    #[error("io_uring of this kernel cannot {0}")]
    Missing(&'static str),
}

fn refused(source: io::Error) -> UringError {
    UringError::Refused { source }
}

/// What lies behind the usual refusals.
fn hint(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(libc::EPERM) => " (see sysctl kernel.io_uring_disabled, or a seccomp filter)",
        Some(libc::ENOSYS) => " (the kernel is built without it, or a seccomp filter)",
        Some(libc::ENOMEM) => " (see ulimit -l)",
        _ => "",
    }
}

/// What lends its bytes to a write.
pub trait Lends {
    /// The bytes.
    fn lent(&self) -> &Arc<LentBytes>;
}

/// A ring that no thread owns yet.
pub struct UringSetup {
    ring: IoUring,
    /// True if the kernel has pinned the memory, in the pieces of `shared_memory::pieces`.
    registered: bool,
    memory: Arc<SharedMemory>,
}

impl UringSetup {
    /// Makes a ring that writes the blocks of `memory`.
    ///
    /// # Errors
    /// The kernel does not have io_uring or what is used of it here, or does not allow it.
    pub fn new(memory: &Arc<SharedMemory>) -> Result<UringSetup, UringError> {
        let ring = build().map_err(refused)?;
        if !ring.params().is_feature_ext_arg() {
            return Err(UringError::Missing("wait with a time-out (Linux 5.11)"));
        }
        let mut probe = Probe::new();
        ring.submitter().register_probe(&mut probe).map_err(refused)?;
        let codes = [opcode::Write::CODE, opcode::WriteFixed::CODE, opcode::PollAdd::CODE];
        if !codes.into_iter().all(|code| probe.is_supported(code)) {
            return Err(UringError::Missing("write (Linux 5.6)"));
        }
        let buffer = |(base, bytes): (NonNull<u8>, usize)| libc::iovec {
            iov_base: base.as_ptr().cast(),
            iov_len: bytes,
        };
        let buffers: Vec<libc::iovec> = memory.piece_pointers().into_iter().map(buffer).collect();
        // SAFETY: the pieces are memory of `memory`, which is mapped as long as it lives; it is
        // kept with the ring and dropped after it, by the order of the fields. The kernel only
        // reads from them, for writes whose claims this module holds.
        let registered = unsafe { ring.submitter().register_buffers(&buffers) }.is_ok();
        Ok(UringSetup { ring, registered, memory: memory.clone() })
    }

    /// True if the kernel has pinned the memory.
    pub fn is_registered(&self) -> bool {
        self.registered
    }

    /// Gives the ring to the calling thread.
    ///
    /// # Errors
    /// The system refused.
    pub fn enable<C: Lends>(self) -> Result<Uring<C>, UringError> {
        self.ring.submitter().register_enable_rings().map_err(refused)?;
        Ok(Uring {
            ring: Some(self.ring),
            registered: self.registered,
            memory: self.memory,
            writes: (0..WRITES_MAX).map(|_| None).collect(),
            in_flight: 0,
            bell_armed: false,
            completed: VecDeque::new(),
            thread: PhantomData,
        })
    }
}

/// A disabled ring with the flags for one thread, or without where the kernel does not know them.
fn build() -> io::Result<IoUring> {
    let mut builder = IoUring::builder();
    builder.setup_r_disabled().dontfork();
    let plain = builder.clone();
    builder.setup_single_issuer().setup_defer_taskrun().setup_coop_taskrun();
    builder.build(ENTRIES).or_else(|error| match error.raw_os_error() {
        Some(libc::EINVAL) => plain.build(ENTRIES),
        _ => Err(error),
    })
}

/// A write that the kernel has, wholly or in part.
struct Write<C> {
    file: Arc<File>,
    /// Keeps the bytes as they are, whatever the claim does.
    lent: Arc<LentBytes>,
    claim: C,
    /// First byte of them that is still to be written.
    from: usize,
    /// Where in the file that byte belongs.
    offset: u64,
    written: usize,
    retries: u32,
    token: u64,
}

/// What became of a write. The claim is the caller's again.
pub struct Completion<C> {
    /// As it was given.
    pub token: u64,
    /// As it was given.
    pub claim: C,
    /// Bytes that reached the file from where the write began, all of them if there is no error.
    pub written: usize,
    /// Why not all.
    pub result: io::Result<()>,
}

/// A queue of writes, owned by the thread that enabled it.
pub struct Uring<C: Lends> {
    /// `None` only while it is dropped.
    ring: Option<IoUring>,
    registered: bool,
    memory: Arc<SharedMemory>,
    writes: Vec<Option<Write<C>>>,
    in_flight: usize,
    bell_armed: bool,
    completed: VecDeque<Completion<C>>,
    /// Neither `Send` nor `Sync`: the kernel takes calls from the enabling thread only.
    thread: PhantomData<*const ()>,
}

impl<C: Lends> Uring<C> {
    /// Writes in flight.
    pub fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Begins to write the claim's bytes from `from` on to `file` at `offset`. With a file that
    /// was opened for direct writes, both are multiples of its alignment. Its end is reported by
    /// [`next_completion`](Uring::next_completion) under `token`.
    ///
    /// # Panics
    /// If [`WRITES_MAX`] writes are in flight, or the claim has no byte at `from`.
    pub fn submit_write(
        &mut self,
        file: &Arc<File>,
        claim: C,
        from: usize,
        offset: u64,
        token: u64,
    ) {
        let lent = claim.lent().clone();
        assert!(from < lent.bytes().len(), "a write of no bytes");
        let index = self.writes.iter().position(Option::is_none).expect("at most WRITES_MAX");
        let file = file.clone();
        let write = Write { file, lent, claim, from, offset, written: 0, retries: 0, token };
        self.writes[index] = Some(write);
        self.in_flight += 1;
        self.push_write(index);
    }

    /// The end of a write, if one is known: see [`wait`](Uring::wait).
    pub fn next_completion(&mut self) -> Option<Completion<C>> {
        self.completed.pop_front()
    }

    /// Waits until a write has ended, `bell` rings, or `timeout` is over, and takes in what ended
    /// meanwhile. The caller [listens](Bell::listen) to the bell or does not care for it.
    ///
    /// # Errors
    /// The system refused to wait; a bug, or a kernel that lost its memory.
    pub fn wait(&mut self, bell: &Bell, timeout: Duration) -> io::Result<()> {
        if !self.bell_armed {
            let fd = types::Fd(bell.as_fd().as_raw_fd());
            let poll = opcode::PollAdd::new(fd, libc::POLLIN as u32).build().user_data(BELL_TOKEN);
            // SAFETY: the poll has no memory. If the bell's descriptor is closed before it fires,
            // the kernel keeps the file behind it.
            unsafe { self.push(&poll) };
            self.bell_armed = true;
        }
        self.enter(Some(timeout))?;
        self.reap();
        Ok(())
    }

    /// Submits what is queued and waits for one completion.
    fn enter(&mut self, timeout: Option<Duration>) -> io::Result<()> {
        let Some(ring) = &self.ring else { return Ok(()) };
        let waited = match timeout {
            Some(timeout) => {
                let time = types::Timespec::from(timeout);
                let args = types::SubmitArgs::new().timespec(&time);
                ring.submitter().submit_with_args(1, &args)
            }
            None => ring.submitter().submit_and_wait(1),
        };
        match waited {
            Ok(_) => Ok(()),
            // The time is over, a signal came, or the completions must be taken first.
            Err(error) => match error.raw_os_error() {
                Some(libc::ETIME | libc::EINTR | libc::EBUSY | libc::EAGAIN) => Ok(()),
                _ => Err(error),
            },
        }
    }

    /// Takes in all completions.
    fn reap(&mut self) {
        let Some(ring) = &mut self.ring else { return };
        let ended: Vec<(u64, i32)> =
            ring.completion().map(|entry| (entry.user_data(), entry.result())).collect();
        for (token, result) in ended {
            if token == BELL_TOKEN {
                self.bell_armed = false;
            } else {
                self.end(token as usize, result);
            }
        }
    }

    /// One write, or a part of it, came back with `result`: a count of bytes, or an error below 0.
    fn end(&mut self, index: usize, result: i32) {
        let Some(write) = self.writes.get_mut(index).and_then(Option::as_mut) else { return };
        let error = match usize::try_from(result) {
            Ok(0) => Some(io::ErrorKind::WriteZero.into()),
            Ok(count) => {
                write.from += count;
                write.offset += count as u64;
                write.written += count;
                None
            }
            Err(_) if matches!(-result, libc::EINTR | libc::EAGAIN) => {
                write.retries += 1;
                (write.retries > RETRIES_MAX).then(|| io::Error::from_raw_os_error(-result))
            }
            Err(_) => Some(io::Error::from_raw_os_error(-result)),
        };
        let is_whole = write.from >= write.lent.bytes().len();
        if error.is_none() && !is_whole {
            self.push_write(index);
            return;
        }
        self.in_flight -= 1;
        if let Some(Write { lent, claim, written, token, .. }) = self.writes[index].take() {
            drop(lent);
            let result = error.map_or(Ok(()), Err);
            self.completed.push_back(Completion { token, claim, written, result });
        }
    }

    /// Queues what is left of write `index`; the next [`wait`](Uring::wait) hands it over, and
    /// [`submit`](Uring::submit) at once.
    fn push_write(&mut self, index: usize) {
        let Some(write) = &self.writes[index] else { return };
        let bytes = &write.lent.bytes()[write.from..];
        let length = u32::try_from(bytes.len()).unwrap_or(WRITE_BYTES_MAX);
        let (fd, address) = (types::Fd(write.file.as_raw_fd()), bytes.as_ptr());
        let is_registered = self.registered && write.lent.is_of(&self.memory);
        let entry = match write.lent.piece().filter(|_| is_registered) {
            Some(piece) => opcode::WriteFixed::new(fd, address, length, piece as u16)
                .offset(write.offset)
                .build(),
            None => opcode::Write::new(fd, address, length).offset(write.offset).build(),
        };
        // SAFETY: the bytes are those of the loan, which lies in `writes`, at this index, until the
        // kernel's completion for it has been taken in (`end`), or is leaked (`drop`). A loan keeps
        // the memory mapped and its bytes from being written. The file is open: `writes` holds it
        // too.
        unsafe { self.push(&entry.user_data(index as u64)) };
    }

    /// Hands what is queued to the kernel without waiting.
    ///
    /// # Errors
    /// As [`wait`](Uring::wait).
    pub fn submit(&mut self) -> io::Result<()> {
        let Some(ring) = &self.ring else { return Ok(()) };
        match ring.submit() {
            Ok(_) => Ok(()),
            Err(error) => match error.raw_os_error() {
                Some(libc::EINTR | libc::EBUSY | libc::EAGAIN) => Ok(()),
                _ => Err(error),
            },
        }
    }

    /// # Safety
    /// What the entry refers to stays valid until its completion.
    unsafe fn push(&mut self, entry: &squeue::Entry) {
        let Some(ring) = &mut self.ring else { return };
        // SAFETY: the caller's promise.
        unsafe { ring.submission().push(entry) }
            .expect("entries for every write and the bell, each queued once");
    }
}

impl<C: Lends> Drop for Uring<C> {
    /// Waits for what is in flight: the kernel reads from the memory until then.
    fn drop(&mut self) {
        while self.in_flight > 0 {
            if self.enter(None).is_err() {
                // The kernel may still read from the blocks: neither they nor their memory
                // are ever freed or reused.
                std::mem::forget(std::mem::take(&mut self.writes));
                std::mem::forget(self.ring.take());
                std::mem::forget(self.memory.clone());
                return;
            }
            self.reap();
        }
    }
}
