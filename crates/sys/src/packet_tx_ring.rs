//! A packet socket that sends from a ring in shared memory (TPACKET_V2, PACKET_TX_RING;
//! Documentation/networking/packet_mmap.rst, tpacket_snd of net/packet/af_packet.c).
//!
//! The ring is an array of places; each begins with a status word. Available: ours. Requested: the
//! kernel may send it. Sending: the driver has it, and reads it where it lies. The kernel goes
//! through the places in order, as we do, so that three numbers say whose each place is: frames
//! put, frames that the kernel has looked at, and frames that are done with.
//!
//! What the kernel does with a frame that the driver refuses: it ends the call with an error,
//! leaves the frame requested, and begins the next call with it. Here each frame is offered once,
//! so it is made one of no length, which the kernel passes over (PACKET_LOSS) without a word. That
//! it passes over bad frames without a word is also why lengths are checked before, and why the
//! bytes that a call says it sent are compared with what was asked for.

use crate::mmap::Mapping;
use crate::{SysError, socket};
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socket_with};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU32, Ordering};

/// linux/if_packet.h; libc has these for Android alone.
const PACKET_VERSION: i32 = 10;
const PACKET_TX_RING: i32 = 13;
const PACKET_LOSS: i32 = 14;
const TPACKET_V2: u32 = 1;
const TP_STATUS_SEND_REQUEST: u32 = 1;
const TP_STATUS_SENDING: u32 = 2;

/// Of a place: `struct tpacket2_hdr`, rounded up to TPACKET_ALIGNMENT. Behind it stand the data
/// (TPACKET2_HDRLEN − sizeof(struct sockaddr_ll)).
const HEADER_BYTES: usize = 32;
/// The length follows the status.
const LENGTH_AT: usize = 4;

/// Smallest place, a power of two that holds a frame of a usual MTU: two in a page.
const PLACE_BYTES_MIN: usize = 2048;
/// Blocks of the ring are whole pages.
const BLOCK_BYTES_MIN: usize = 4096;
/// Memory of a ring: a thousand places of the longest frames.
const RING_BYTES_MAX: usize = 128 << 20;

/// What a call of [`PacketTxRing::send`] came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RingSent {
    /// Frames that the driver took.
    pub accepted: u64,
    /// Frames that it refused.
    pub refused: u64,
    /// Frames that the kernel passed over, because they are none for the interface.
    pub passed_over: u64,
}

/// The socket and its ring. Used by one thread.
pub struct PacketTxRing {
    socket: OwnedFd,
    memory: Mapping,
    places: u64,
    place_bytes: usize,
    /// Frames put. Their lengths.
    put: u64,
    lengths: Box<[u32]>,
    /// Of those, frames that the kernel has looked at, or that were withdrawn before it could.
    judged: u64,
    /// Of those, frames whose place is ours again.
    done: u64,
    /// A frame that was withdrawn, and that the kernel has not passed over yet.
    withdrawn: Option<u64>,
}

impl PacketTxRing {
    /// Opens it, with `places` places, a power of two, for frames of at most `frame_bytes_max`.
    /// Frames go past the queueing discipline.
    ///
    /// # Errors
    /// A size beyond its limit, CAP_NET_RAW is missing, or there is no such interface.
    pub fn open(
        ifindex: u32,
        places: u32,
        frame_bytes_max: usize,
    ) -> Result<PacketTxRing, SysError> {
        let place_bytes = (HEADER_BYTES + frame_bytes_max).next_power_of_two().max(PLACE_BYTES_MIN);
        let ring_bytes = place_bytes.saturating_mul(places as usize);
        if !places.is_power_of_two() || places < 4 || ring_bytes > RING_BYTES_MAX {
            let limit = format!("a power of two from 4, and {RING_BYTES_MAX} bytes in all");
            let what = "the number of places of a transmit ring";
            return Err(SysError::Limit { what, value: places.into(), limit });
        }
        let (family, kind) = (AddressFamily::PACKET, SocketType::RAW);
        let socket = socket_with(family, kind, SocketFlags::CLOEXEC, None)
            .map_err(|e| SysError::io("opening a packet socket to send", e))?;
        let block_bytes = place_bytes.max(BLOCK_BYTES_MIN);
        // struct tpacket_req: size and number of blocks, size and number of frames.
        let request =
            [block_bytes, ring_bytes / block_bytes, place_bytes, places as usize].map(|n| n as u32);
        let set = |option, value: u32, name| {
            socket::set_option(&socket, libc::SOL_PACKET, option, value, name)
        };
        set(PACKET_VERSION, TPACKET_V2, "PACKET_VERSION")?;
        set(PACKET_LOSS, 1, "PACKET_LOSS")?;
        set(libc::PACKET_QDISC_BYPASS, 1, "PACKET_QDISC_BYPASS")?;
        let ring_option = (libc::SOL_PACKET, PACKET_TX_RING);
        socket::set_option(&socket, ring_option.0, ring_option.1, request, "PACKET_TX_RING")?;
        socket::set_send_buffer(&socket);
        // Protocol 0: the socket receives nothing.
        socket::bind_packet(&socket, ifindex, 0)?;
        let memory = Mapping::shared(&socket, ring_bytes)?;
        let lengths = vec![0; places as usize].into_boxed_slice();
        let places = u64::from(places);
        let (put, judged, done, withdrawn) = (0, 0, 0, None);
        Ok(PacketTxRing {
            socket,
            memory,
            places,
            place_bytes,
            put,
            lengths,
            judged,
            done,
            withdrawn,
        })
    }

    /// Longest frame that a place holds.
    pub fn frame_bytes_max(&self) -> usize {
        self.place_bytes - HEADER_BYTES
    }

    /// True if the next place is ours.
    #[inline]
    pub fn has_room(&mut self) -> bool {
        if self.put - self.done == self.places {
            self.collect();
        }
        self.put - self.done < self.places
    }

    /// Puts a frame of `bytes` bytes into the next place, if `write`, which writes it, says so.
    ///
    /// # Panics
    /// If there is no room, or the frame is empty or longer than a place.
    #[inline]
    pub fn put(&mut self, bytes: usize, write: impl FnOnce(&mut [u8]) -> bool) -> bool {
        assert!(bytes > 0 && bytes <= self.frame_bytes_max(), "a frame of {bytes} bytes");
        assert!(self.has_room(), "the next place is in flight");
        let at = self.place(self.put);
        // SAFETY: the place lies in the mapping (`place`), and is ours: it was never given away, or
        // came back (`done`, by an acquire load of its status); `&mut self` keeps others off.
        let data = unsafe {
            std::slice::from_raw_parts_mut(self.memory.as_ptr().add(at + HEADER_BYTES), bytes)
        };
        if !write(data) {
            return false;
        }
        self.set_length(self.put, bytes as u32);
        // Release: the kernel reads the frame after it saw the request.
        self.status(self.put).store(TP_STATUS_SEND_REQUEST, Ordering::Release);
        self.put += 1;
        true
    }

    /// Has the kernel send what was put, until the driver refuses a frame, or there is no room for
    /// more on its way; never waits. Tells what became of frames since the last call.
    ///
    /// # Errors
    /// The interface is down (ENETDOWN) or gone (ENXIO), or the kernel refused otherwise. What it
    /// has not looked at waits.
    pub fn send(&mut self) -> (RingSent, io::Result<()>) {
        let mut told = RingSent::default();
        while self.waiting() > 0 {
            let before = (self.judged, told.refused);
            let result = send(&self.socket, &[], SendFlags::DONTWAIT).map_err(io::Error::from);
            let looked_at = self.judge();
            let count = looked_at.len() as u64;
            told.accepted += count;
            match result {
                Ok(bytes) => {
                    let passed_over = passed_over(looked_at, bytes as u64);
                    told.accepted -= passed_over;
                    told.passed_over += passed_over;
                }
                Err(error) => match error.raw_os_error() {
                    Some(libc::ENOBUFS) => told.refused += self.withdraw(),
                    Some(libc::EAGAIN | libc::EINTR) => {}
                    _ => return (told, Err(error)),
                },
            }
            if before == (self.judged, told.refused) {
                break;
            }
        }
        (told, Ok(()))
    }

    /// The lengths of the frames that the kernel has looked at since the last call.
    fn judge(&mut self) -> Vec<u32> {
        let mut lengths = Vec::new();
        while self.judged < self.put {
            if self.status(self.judged).load(Ordering::Acquire) == TP_STATUS_SEND_REQUEST {
                break;
            }
            if self.withdrawn == Some(self.judged) {
                self.withdrawn = None;
            } else {
                lengths.push(self.lengths[(self.judged % self.places) as usize]);
            }
            self.judged += 1;
        }
        lengths
    }

    /// The driver refused the first frame that is still requested: it is not offered again.
    /// Returns how many that are: one.
    fn withdraw(&mut self) -> u64 {
        if self.waiting() == 0 || self.withdrawn.is_some() {
            return 0;
        }
        self.set_length(self.judged, 0);
        self.withdrawn = Some(self.judged);
        1
    }

    /// Takes places back whose frames are done with.
    #[inline]
    fn collect(&mut self) {
        while self.done < self.judged {
            // An available place's status may have the bits of stamps too.
            let status = self.status(self.done).load(Ordering::Acquire);
            if status & (TP_STATUS_SEND_REQUEST | TP_STATUS_SENDING) != 0 {
                break;
            }
            self.done += 1;
        }
    }

    /// Frames that the kernel has not looked at.
    pub fn waiting(&self) -> u64 {
        self.put - self.judged - u64::from(self.withdrawn.is_some())
    }

    /// Where the place of a frame begins.
    #[inline]
    fn place(&self, frame: u64) -> usize {
        (frame % self.places) as usize * self.place_bytes
    }

    #[inline]
    fn status(&self, frame: u64) -> &AtomicU32 {
        // SAFETY: places lie in the mapping, aligned; both sides touch the word as a whole only.
        unsafe { &*self.memory.as_ptr().add(self.place(frame)).cast::<AtomicU32>() }
    }

    fn set_length(&mut self, frame: u64, bytes: u32) {
        let at = self.place(frame) + LENGTH_AT;
        // SAFETY: the word lies in the place's header, aligned. The kernel reads it during our own
        // calls of send(2) alone.
        unsafe { self.memory.as_ptr().add(at).cast::<u32>().write_volatile(bytes) }
        self.lengths[(frame % self.places) as usize] = bytes;
    }
}

/// How many frames of these lengths were passed over, if `sent_bytes` of them were sent: where the
/// MTU was lowered meanwhile, the longest.
fn passed_over(mut lengths: Vec<u32>, sent_bytes: u64) -> u64 {
    let mut missing = lengths.iter().map(|bytes| u64::from(*bytes)).sum::<u64>();
    missing = missing.saturating_sub(sent_bytes);
    lengths.sort_unstable();
    let mut count = 0;
    while missing > 0
        && let Some(longest) = lengths.pop()
    {
        missing = missing.saturating_sub(longest.into());
        count += 1;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_frames_are_those_that_were_passed_over() {
        for (sent_bytes, count) in [(1774, 0), (1800, 0), (260, 1), (160, 2), (60, 3), (0, 4)] {
            assert_eq!(passed_over(vec![100, 1514, 60, 100], sent_bytes), count, "{sent_bytes}");
        }
        assert_eq!(passed_over(Vec::new(), 5), 0);
    }

    #[test]
    fn rings_beyond_their_limits_are_refused() {
        for (places, bytes) in [(0, 1514), (2, 1514), (100, 1514), (1 << 17, 1514), (4096, 65_549)]
        {
            let result = PacketTxRing::open(1, places, bytes);
            assert!(matches!(result, Err(SysError::Limit { .. })), "{places} of {bytes}");
        }
    }
}
