#![forbid(unsafe_code)]
//! Files: the pcap and pcapng codec, the block format of the capture ring, recordings, merge.
pub mod block;
pub mod error;
pub mod merge;
pub mod pcapng;
pub mod reader;
pub mod recording;
pub mod writer;

pub use error::StoreError;
