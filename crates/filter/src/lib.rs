#![forbid(unsafe_code)]
//! Filters: pcap-filter(7) expressions with one meaning in every place where they run.
//!
//! The meaning is that of libpcap's own evaluator on the frame as it was on the wire, VLAN tags in
//! place. [`compile`](fn@compile) has libpcap turn the expression into classic BPF, in a bounded
//! child process, because its optimiser can take minutes and its parser is C; [`bounded`] is such a
//! child for other libraries too.
//! [`evaluate`](fn@evaluate) is the reference in plain Rust, used on files and in tests;
//! [`Prepared`] is the same, checked once. [`translate`](fn@translate) writes the same program for
//! the kernel's eBPF machine and puts back the tag that the kernel had taken out of the frame, so
//! that `vlan 5` means the same there.
//!
//! This crate refuses to load or attach anything (`ringside-sys`, `ringside-ebpf` do), and it
//! does not look into expressions: what they mean is libpcap's word.

pub mod bounded;
pub mod child;
pub mod classic;
pub mod compile;
pub mod error;
pub mod evaluate;
pub mod libpcap;
pub mod translate;

pub use child::child_main;
pub use classic::{Operation, validate};
pub use compile::{Compiled, Compiler, compile};
pub use error::{FilterError, shown};
pub use evaluate::{Prepared, evaluate};
pub use translate::{Second, Target, TranslateOptions, translate, translate_two};
