#![forbid(unsafe_code)]
//! Files: the pcap and pcapng codec, the block format of the capture ring, recordings, merge.
pub mod block;
pub mod pcapng;
