//! What an extension may use, and why that much.

use std::time::Duration;

/// Bytes of a module, of its text, or of an eBPF object. A module in C or in Rust without `std` has
/// some ten thousand, one with a JSON library a few hundred thousand; it is compiled before the
/// first packet, in a time that follows its length.
pub const FILE_BYTES_MAX: usize = 1 << 20;

/// Bytes of a packet that an extension gets, and of the buffer that it has for them: one page of
/// its memory. Longer packets, which the kernel or the card has yet to cut, come without their end.
pub const PACKET_BYTES_MAX: usize = 64 << 10;

/// Bytes of a packet that an eBPF object gets: with what the kernel puts around it, it lies in one
/// page, and a program reads it in place.
pub const OBJECT_PACKET_BYTES_MAX: usize = 3 << 10;

/// Processor time of the child that tries an eBPF object, in seconds: libbpf needs milliseconds
/// for one, the kernel's verifier for its longest program a second.
pub const TRIAL_CPU_SECONDS: u64 = 5;

/// Address space of that child, in bytes: some ten times what libbpf takes for the longest object.
pub const TRIAL_MEMORY_BYTES: u64 = 512 << 20;

/// Time until that child is stopped, also if it waits.
pub(crate) const TRIAL_TIME_MAX: Duration = Duration::from_secs(60);

/// Maps of an eBPF object: some tables, and three of its variables.
pub const OBJECT_MAPS_MAX: usize = 16;

/// Bytes of an extension's memory, of an eBPF object those of its maps: the buffer, and tables of
/// some hundred thousand entries.
pub const MEMORY_BYTES_MAX: usize = 16 << 20;

/// Entries of its table of functions: more than a module of [`FILE_BYTES_MAX`] needs.
pub(crate) const TABLE_ENTRIES_MAX: usize = 20_000;

/// Calls within each other. Recursion over the layers of a packet needs some tens.
pub(crate) const CALL_DEPTH_MAX: usize = 1_000;

/// Bytes of the interpreter's own stack, which holds the locals of these calls.
pub(crate) const STACK_BYTES_MAX: usize = 1_000_000;

/// Fuel of one packet, about one instruction each: ten for every byte of the longest packet, and a
/// few milliseconds of one core at most.
pub const PACKET_FUEL: u64 = 1_000_000;

/// Fuel of the start, and of the end, where an extension makes records of what it has added up.
pub const EDGE_FUEL: u64 = 50_000_000;

/// Fuel of each byte that the host looks at for an extension: what it costs in time to read a
/// record and write its line, so that fuel bounds the host's work too.
pub(crate) const HOST_FUEL_A_BYTE: u64 = 20;

/// Bytes of a record as an extension hands it over: what a line of a log has at most.
pub const RECORD_BYTES_MAX: usize = 8 << 10;

/// Fields of a record: the widest log of ours has half of that.
pub const FIELDS_MAX: usize = 64;

/// Records of one packet: a DNS answer has some ten.
pub const PACKET_RECORDS_MAX: u32 = 256;

/// Records of the start and of the end: one for each port there is, and then some.
pub const EDGE_RECORDS_MAX: u32 = 70_000;

/// Counters of an extension: they stand in its account, which people read.
pub const COUNTERS_MAX: usize = 64;

/// Bytes of a counter's name.
pub const COUNTER_NAME_BYTES_MAX: usize = 32;

/// Faults after which an extension is stopped: enough that a rare packet that it cannot take does
/// no harm, and so few that endless loops cost less than a second in all.
pub const FAULTS_MAX: u64 = 100;
