#![forbid(unsafe_code)]
//! Reads a running capture from another process, without a privilege and without slowing it.
//!
//! [`Attachment::connect`] asks the owner for its ring (`ringside capture --share SOCKET`). Then
//! there are two ways: [`Attachment::sources`] gives one [`ringside_core::Source`] per lane, for
//! programs that work in lanes; [`Reader`] merges the lanes by time and lends one frame after
//! another.
//!
//! ```no_run
//! use ringside_client::{Attachment, ReadOptions, Reader};
//! use std::time::Duration;
//!
//! let attachment = Attachment::connect("/run/capture.share".as_ref())?;
//! let mut reader = Reader::new(&attachment, &ReadOptions::default());
//! while !reader.is_finished() {
//!     if let Some(frame) = reader.next_frame(Duration::from_millis(100)) {
//!         println!("{} {} bytes", frame.meta.timestamp, frame.bytes.len());
//!     }
//! }
//! println!("missed {}", reader.missed());
//! # Ok::<(), ringside_client::ClientError>(())
//! ```
//!
//! A reader never delays the capture. If it falls behind by more than the ring, it gets the exact
//! number of frames that it missed, and continues with the oldest that are left. The memory is
//! mapped for reading only, and everything in it is checked before it is used: a faulty owner can
//! give wrong frames, but cannot make a reader panic or read outside of the mapping.

mod attachment;
mod border;
mod owner;
mod reader;
mod source;

pub use attachment::{Attachment, ClientError};
pub use border::guarded;
pub use reader::Reader;
pub use source::{ReadOptions, RingSource};
