//! Every bound of the language, with its reason.

/// Longest line, in bytes: some thousand addresses, or the longest payload pattern many times over.
/// A longer line was not written by a person, and would hide rules on a screen.
pub const LINE_BYTES_MAX: usize = 64 << 10;

/// Largest file of rules, in bytes: a million rules of 512 bytes. It is read as a whole.
pub const FILE_BYTES_MAX: u64 = 512 << 20;

/// Rules in one set: a drop list of a million addresses, one rule for each. More belong in an
/// address file, which costs a fraction of the memory.
pub const RULES_MAX: usize = 1 << 20;

/// Errors that are collected before the rest of a file is left unread: two screens. A user
/// who gives the wrong file should not wait for a million of them.
pub const ERRORS_MAX: usize = 20;

/// Parentheses within each other. People stop at four; the parser and everything that walks the
/// tree recurse this deep and no deeper.
pub const DEPTH_MAX: usize = 64;

/// Terms of one rule. Each may be tried for each frame.
pub const TERMS_MAX: usize = 1024;

/// Items of one list (ports, addresses, names). Longer lists of addresses belong in a file.
pub const LIST_ITEMS_MAX: usize = 4096;

/// Bytes of a payload pattern, and of a text that a field is compared with: more than the first
/// line of any request, and within a frame of common size.
pub const PATTERN_BYTES_MAX: usize = 1024;

/// Bytes of the value of a `bytes` term: four addresses of IPv6. What is longer is a payload.
pub const VALUE_BYTES_MAX: usize = 64;

/// Bytes of a `filter` expression: libpcap's optimiser needs seconds for 300 `host` terms, which
/// are 8 KiB.
pub const FILTER_BYTES_MAX: usize = 8 << 10;

/// Bytes of a host name (RFC 1035, 2.3.4, as text without the last dot).
pub const HOST_BYTES_MAX: usize = 253;

/// Byte ranges of a `keep`: each is a copy for each frame.
pub const KEEP_RANGES_MAX: usize = 16;

/// Entries of an address file: merged and sorted they take 8 MB (IPv4) or 32 MB (IPv6).
pub const SET_ENTRIES_MAX: usize = 1_000_000;

/// Largest address file, in bytes: a million entries of the longest kind, with a comment each.
pub const SET_FILE_BYTES_MAX: u64 = 128 << 20;

/// Address files of one set of rules, so that their memory stays below 2 GiB.
pub const SET_FILES_MAX: usize = 64;

/// Bytes of a path (PATH_MAX of Linux, with its final zero).
pub const PATH_BYTES_MAX: usize = 4095;

/// Bytes of an interface's name (IFNAMSIZ of Linux, with its final zero).
pub const INTERFACE_NAME_BYTES_MAX: usize = 15;

/// Highest CPU number: Linux is built for 8,192 CPUs at most (NR_CPUS).
pub const CPU_MAX: u32 = 8191;
