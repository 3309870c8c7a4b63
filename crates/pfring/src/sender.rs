//! A handle that sends.

use crate::api::{NO_ROOM, SENDS};
use crate::device::Device;
use crate::error::PfRingError;
use crate::library::Library;
use crate::ring::{CAPLEN_MAX, Owned, check};
use std::io;

/// A handle that sends, for one thread at a time.
pub struct Sender {
    handle: Owned,
}

/// What became of a frame.
#[derive(Debug)]
pub enum SendOutcome {
    /// The device took it.
    Sent,
    /// There was no room: it may be tried again.
    NoRoom,
    /// It was refused, with the system's reason.
    Refused(io::Error),
}

impl Sender {
    /// Opens a handle on a device.
    ///
    /// # Errors
    /// There is no such device, no module, or the library refuses.
    pub fn open(library: Library, device: &Device) -> Result<Sender, PfRingError> {
        let handle = Owned::open(library, device, CAPLEN_MAX, 0)?;
        // SAFETY: an open handle.
        let done = unsafe {
            (handle.api.pfring_set_socket_mode)(handle.raw(), SENDS);
            (handle.api.pfring_enable_ring)(handle.raw())
        };
        check("enabling the device", done)?;
        Ok(Sender { handle })
    }

    /// Sends a frame.
    pub fn send(&mut self, frame: &[u8]) -> SendOutcome {
        // SAFETY: an open handle; the library reads as many bytes, though it asks for a pointer
        // that could be written to.
        let done = unsafe {
            let bytes = frame.as_ptr().cast_mut().cast();
            (self.handle.api.pfring_send)(self.handle.raw(), bytes, frame.len() as u32, 0)
        };
        let error = io::Error::last_os_error();
        match done {
            done if done >= 0 => SendOutcome::Sent,
            NO_ROOM => SendOutcome::NoRoom,
            -1 if error.kind() == io::ErrorKind::WouldBlock => SendOutcome::NoRoom,
            -1 => SendOutcome::Refused(error),
            code => {
                let refused = PfRingError::Refused { what: "sending", code };
                SendOutcome::Refused(io::Error::other(refused.to_string()))
            }
        }
    }

    /// Has the device send what waits.
    pub fn flush(&mut self) {
        if let Some(flush) = self.handle.api.pfring_flush_tx_packets {
            // SAFETY: an open handle.
            unsafe { flush(self.handle.raw()) };
        }
    }
}
