#![deny(unsafe_op_in_unsafe_fn)]
//! What Ringside asks of the operating system, and the only `unsafe` code of the project.
//!
//! Each module wraps one kernel interface into types that cannot be misused from safe code:
//!
//! - [`packet`]: the receive ring of a packet socket (TPACKET_V3), and how it is opened, started
//!   and detached so that every frame is counted once;
//! - [`packet_tx`] and [`packet_tx_ring`]: packet sockets that send, by calls and by a ring;
//! - [`packet_gso`]: one that hands the kernel long packets to be cut;
//! - [`xsk`]: AF_XDP sockets that receive, and ones that send;
//! - [`xdp_ring`]: rings that a program in the driver fills;
//! - [`ethtool`]: what a driver is asked, and how it is set, by ioctl; [`socket`]: options of
//!   sockets;
//! - [`shared_memory`]: words and blocks of several threads and processes, with checked loans;
//! - [`turns`]: threads that work side by side on what comes in order; [`sync`]: their atomics;
//! - [`uring`] and [`disk`]: such blocks on their way to a disk, and what the disk can do;
//! - [`file_lock`]: who holds the lock of a file;
//! - [`file_map`]: files in memory that are written by stores;
//! - [`bpf`] loads programs and maps by bpf(2);
//! - [`words`]: arrays of atomic words, in memory or in a BPF array;
//! - [`flat`]: a buffer that threads fill by one atomic addition each, for comparison;
//! - [`child`], [`fdpass`]: messages with descriptors, to a child process and over sockets;
//! - [`bell`] wakes a thread that waits;
//! - [`hints`] to the processor and the kernel, about memory that is looked at next;
//! - [`window_filter`]: vector instructions that look for many four-byte windows at once;
//! - [`mmap`], [`numa`], [`thread`], [`netns`], [`clock`]: memory, CPUs, namespaces, time.
//!
//! `unsafe` is kept in one crate so that it can be read in one sitting: every block states its
//! obligations, kernel layouts are asserted against the headers they come from, and whatever can
//! be a computation on plain slices (walking a block) is safe code in a file of its own, or in a
//! crate above (`ring`, `netdev`). Lengths and offsets that come from the kernel or from shared
//! memory are checked in release builds too.
//!
//! This crate decides nothing: which filter, how many lanes, what to tell the user is the
//! business of `capture`. It starts no threads.

pub mod bell;
pub mod bpf;
pub mod child;
pub mod clock;
pub mod disk;
mod error;
pub mod ethtool;
pub mod fdpass;
pub mod file_lock;
pub mod file_map;
pub mod flat;
pub mod hints;
pub mod live;
pub mod memory;
pub mod mmap;
pub mod netmap;
pub mod netns;
pub mod numa;
pub mod packet;
pub mod packet_gso;
pub mod packet_tx;
pub mod packet_tx_ring;
pub mod shared_memory;
pub mod socket;
pub mod sync;
pub mod thread;
pub mod turns;
pub mod uring;
pub mod window_filter;
pub mod words;
pub mod xdp_ring;
pub mod xsk;

pub use error::SysError;
