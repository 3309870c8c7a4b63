//! A ring that receives.

use crate::api::{
    Api, BOTH, BY_FLOW, Counted, DO_NOT_PARSE, HARDWARE_STAMP, Handle, Header, PROMISCUOUS,
    RECEIVED, RECEIVES, STAMP,
};
use crate::device::Device;
use crate::error::PfRingError;
use crate::library::Library;
use crate::module::module;
use std::ffi::{CString, c_int};
use std::ptr::NonNull;
use std::time::Duration;

/// Most frames that are lent at a time.
pub const BURST_FRAMES: usize = 256;

/// Most bytes of a frame that the library keeps.
pub const CAPLEN_MAX: u32 = 65_600;

/// Bytes that the frames of a burst are copied to: 256 of the usual ones, a few of the longest.
const BLOCK_BYTES: usize = 512 << 10;

/// Sleep of a ring of a device that wakes no process.
const UNWOKEN_SLEEP: Duration = Duration::from_micros(500);

/// How PF_RING's tools show who has a ring.
const APPLICATION: &std::ffi::CStr = c"ringside";

/// What a ring is to receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingOptions {
    /// Bytes kept of each frame.
    pub caplen: u32,
    /// Frames of other stations too.
    pub promiscuous: bool,
    /// The card stamps frames.
    pub hardware_stamps: bool,
    /// What this host sends comes too.
    pub sent_too: bool,
    /// The group that shares the frames of the device by their flows.
    pub cluster: Option<u16>,
}

/// What a ring has counted since it was enabled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Frames that were read from it.
    pub read: u64,
    /// Frames that it had no room for.
    pub dropped: u64,
}

/// A frame of the last burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Where it begins in [`Ring::memory`].
    pub offset: usize,
    /// Bytes of it that are there.
    pub bytes: u32,
    /// Its length.
    pub wire_bytes: u32,
    /// When it came, in nanoseconds since 1970; 0 if it has no stamp.
    pub stamp_ns: u64,
    /// Both stamps of its header, pcap's in microseconds and the other, say the same: then it is
    /// the kernel's, not the card's.
    pub stamps_agree: bool,
}

/// A handle of the library's, closed when it goes.
pub(crate) struct Owned {
    pub api: &'static Api,
    pub raw: NonNull<Handle>,
}

// SAFETY: a handle belongs to no thread; its exclusive owner may call the library with it.
unsafe impl Send for Owned {}

impl Owned {
    pub fn open(
        library: Library,
        device: &Device,
        caplen: u32,
        flags: u32,
    ) -> Result<Owned, PfRingError> {
        let bad = |_| PfRingError::Name { name: device.name.clone() };
        let name = CString::new(device.name.as_str()).map_err(bad)?;
        // SAFETY: a string that outlives the call.
        let raw = unsafe { (library.api.pfring_open)(name.as_ptr(), caplen, flags) };
        let Some(raw) = NonNull::new(raw) else {
            let reason = std::io::Error::last_os_error().to_string();
            return Err(PfRingError::Unopened { reason, has_module: module().is_some() });
        };
        let owned = Owned { api: library.api, raw };
        let mut application = APPLICATION.to_bytes_with_nul().to_vec();
        // SAFETY: a string that is the library's to read during the call.
        unsafe {
            (owned.api.pfring_set_application_name)(owned.raw(), application.as_mut_ptr().cast())
        };
        Ok(owned)
    }

    pub fn raw(&self) -> *mut Handle {
        self.raw.as_ptr()
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        // SAFETY: an open handle, which is not used any more.
        unsafe { (self.api.pfring_close)(self.raw()) };
    }
}

pub(crate) fn check(what: &'static str, code: c_int) -> Result<(), PfRingError> {
    if code >= 0 { Ok(()) } else { Err(PfRingError::Refused { what, code }) }
}

/// A ring that receives, for one thread at a time.
pub struct Ring {
    handle: Owned,
    caplen: u32,
    block: Vec<u8>,
    frames: Vec<Received>,
}

impl Ring {
    /// Opens a ring on a device; it receives once it is enabled.
    ///
    /// # Errors
    /// There is no such device, no module, or the library refuses.
    pub fn open(
        library: Library,
        device: &Device,
        options: &RingOptions,
    ) -> Result<Ring, PfRingError> {
        let caplen = options.caplen.clamp(64, CAPLEN_MAX);
        let stamps = if options.hardware_stamps { HARDWARE_STAMP } else { 0 };
        let promiscuous = if options.promiscuous { PROMISCUOUS } else { 0 };
        let flags = STAMP | DO_NOT_PARSE | stamps | promiscuous;
        // The module assigns frames to members of a cluster by what is in them.
        let flags = if options.cluster.is_some() { flags & !DO_NOT_PARSE } else { flags };
        let handle = Owned::open(library, device, caplen, flags)?;
        let (api, raw) = (handle.api, handle.raw());
        let direction = if options.sent_too { BOTH } else { RECEIVED };
        // SAFETY: an open handle. What a device cannot do of these three it does by itself: a file
        // has one direction, and who polls needs no watermark.
        unsafe {
            (api.pfring_set_socket_mode)(raw, RECEIVES);
            (api.pfring_set_direction)(raw, direction);
            (api.pfring_set_poll_watermark)(raw, 1);
        }
        if let Some(cluster) = options.cluster {
            check("joining a cluster", join(&handle, cluster))?;
        }
        Ok(Ring { handle, caplen, block: vec![0; BLOCK_BYTES], frames: Vec::new() })
    }

    /// Receive queues of the device.
    pub fn channels(&self) -> u16 {
        // SAFETY: an open handle.
        u16::from(unsafe { (self.handle.api.pfring_get_num_rx_channels)(self.handle.raw()) }).max(1)
    }

    /// Begins.
    ///
    /// # Errors
    /// The library refuses.
    pub fn enable(&mut self) -> Result<(), PfRingError> {
        // SAFETY: an open handle.
        let done = unsafe { (self.handle.api.pfring_enable_ring)(self.handle.raw()) };
        check("enabling the ring", done)
    }

    /// Ends. What is still in the ring cannot be read any more.
    pub fn disable(&mut self) {
        // SAFETY: an open handle.
        unsafe { (self.handle.api.pfring_disable_ring)(self.handle.raw()) };
    }

    /// Takes the next frames, `most` at most, and gives back the last: how many there are.
    ///
    /// # Errors
    /// The library gives no more: the demonstration of a ZC driver is over, or the ring is shut.
    pub fn receive(&mut self, most: usize) -> Result<usize, PfRingError> {
        self.frames.clear();
        let mut end = 0;
        while self.frames.len() < most.min(BURST_FRAMES)
            && BLOCK_BYTES - end >= self.caplen as usize
        {
            match self.receive_one(end) {
                Ok(Some(frame)) => {
                    end += frame.bytes as usize;
                    self.frames.push(frame);
                }
                Ok(None) => break,
                // What came before it is lent first; the next call meets it again.
                Err(_) if !self.frames.is_empty() => break,
                Err(error) => return Err(error),
            }
        }
        Ok(self.frames.len())
    }

    fn receive_one(&mut self, offset: usize) -> Result<Option<Received>, PfRingError> {
        let mut header = Header::default();
        let mut lent: *mut u8 = std::ptr::null_mut();
        // SAFETY: an open handle and room for both answers. Without a buffer of ours the library
        // lends one of its own; without waiting it returns at once.
        let done = unsafe {
            let api = self.handle.api;
            (api.pfring_recv)(self.handle.raw(), &raw mut lent, 0, &raw mut header, 0)
        };
        if done <= 0 {
            return check("receiving", done).map(|()| None);
        }
        let bytes = header.caplen.min(self.caplen).min(header.len);
        let Some(lent) = NonNull::new(lent) else {
            return Err(PfRingError::Refused { what: "receiving", code: -1 });
        };
        // SAFETY: the library lends as many bytes as the header says, until the next call; the
        // ring was opened for `caplen` at most, and no more is read.
        let lent = unsafe { std::slice::from_raw_parts(lent.as_ptr(), bytes as usize) };
        self.block[offset..offset + lent.len()].copy_from_slice(lent);
        let seconds_ns = (header.seconds as u64).saturating_mul(1_000_000_000);
        let by_pcap = seconds_ns.saturating_add((header.microseconds as u64).saturating_mul(1_000));
        let stamp_ns = if header.timestamp_ns > 0 { header.timestamp_ns } else { by_pcap };
        let stamps_agree = stamp_ns / 1_000 == by_pcap / 1_000;
        Ok(Some(Received { offset, bytes, wire_bytes: header.len, stamp_ns, stamps_agree }))
    }

    /// The frames of the last burst, each of which lies in [`memory`](Self::memory).
    pub fn frames(&self) -> impl Iterator<Item = Received> + '_ {
        self.frames.iter().copied()
    }

    /// The memory that the frames of the last burst lie in.
    pub fn memory(&self) -> &[u8] {
        &self.block
    }

    /// True if no frame waits. A device that cannot say so is to be looked at.
    pub fn is_empty(&self) -> bool {
        // SAFETY: an open handle.
        unsafe { (self.handle.api.pfring_is_pkt_available)(self.handle.raw()) == 0 }
    }

    /// Waits for a frame, at most `time`. It may come back early.
    pub fn wait(&self, time: Duration) {
        let milliseconds = u32::try_from(time.as_millis()).unwrap_or(u32::MAX).max(1);
        // SAFETY: an open handle.
        let done = unsafe { (self.handle.api.pfring_poll)(self.handle.raw(), milliseconds) };
        if done < 0 {
            std::thread::sleep(time.min(UNWOKEN_SLEEP));
        }
    }

    /// Frames that wait; `None` if the device does not know.
    pub fn queued(&self) -> Option<u64> {
        let count = self.handle.api.pfring_get_num_queued_pkts?;
        // SAFETY: an open handle.
        let count = unsafe { count(self.handle.raw()) };
        // A refusal is a negative number, in a type that has none.
        u64::try_from(count.cast_signed()).ok()
    }

    /// What it has counted.
    ///
    /// # Errors
    /// The device does not count.
    pub fn statistics(&self) -> Result<Statistics, PfRingError> {
        let mut counted = Counted::default();
        // SAFETY: an open handle, and room for the answer, also of releases with more words.
        let done = unsafe { (self.handle.api.pfring_stats)(self.handle.raw(), &raw mut counted) };
        check("reading the counters", done)?;
        Ok(Statistics { read: counted.received, dropped: counted.dropped })
    }
}

/// The newer of two functions, since the older one goes.
fn join(handle: &Owned, cluster: u16) -> c_int {
    const ANY_QUEUE: u16 = u16::MAX;
    let (api, raw) = (handle.api, handle.raw());
    // SAFETY: an open handle.
    unsafe {
        if let Some(join) = api.pfring_set_cluster_consumer {
            join(raw, cluster, ANY_QUEUE, BY_FLOW, 0)
        } else if let Some(join) = api.pfring_set_cluster {
            join(raw, cluster.into(), BY_FLOW)
        } else {
            -7
        }
    }
}
