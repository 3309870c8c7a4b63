#![forbid(unsafe_code)]
//! Files: the pcap and pcapng codec, the block format of the capture ring, recordings, merge.
//!
//! - [`block`] packs frames into the bytes that lie in the capture ring and go to disk as they
//!   are: pure functions over slices, used on the packet path.
//! - [`writer`] stores frames in one file or stream, pcapng or pcap; [`recording`] stores the
//!   ring's blocks in series of files.
//! - [`dir`] is a directory that is held open, through which files of recordings are made,
//!   renamed and deleted.
//! - [`repair`] completes recordings that were left unfinished.
//! - [`retention`] keeps a directory of recordings below its limits.
//! - [`Query`] asks for frames of inputs by their time: [`reader`] lends those of one file,
//!   [`merged`] those of several files and of directories, in the order of time, by the logic of
//!   [`merge`], which live readers use as well.
//!
//! The codec is our own, because the packet path writes blocks in place, because readers lend
//! frames in place from a bounded buffer, and because what a damaged file still holds must be
//! delivered and counted exactly. Other implementations judge it in the tests.
//!
//! This crate refuses to guess: a record that contradicts itself ends the reading of its file,
//! with its offset and reason. It does not sort within a lane.

pub mod block;
pub mod dir;
pub mod error;
mod file_header;
mod file_name;
mod inputs;
mod links;
pub mod merge;
pub mod merged;
mod part;
pub mod pcapng;
mod query;
pub mod reader;
pub mod recording;
pub mod repair;
pub mod retention;
mod run_lock;
mod seekable;
mod side_by_side;
pub mod writer;

pub use error::StoreError;
pub use file_header::FileHeader;
pub use inputs::is_input;
pub use merge::Merger;
pub use merged::MergedSource;
pub use part::{
    IndexMaker, Part, Pruner, index_path, remove_index_draft, remove_orphaned_index_drafts,
};
pub use query::{Query, open};
pub use reader::{Condition, FileSource, Notice, PartReader, PartStep, StoredSource, Tally};
pub use seekable::content_bytes;
pub use writer::{Format, FrameWriter, Packing, PcapWriter, PcapngWriter, TextWriter};
