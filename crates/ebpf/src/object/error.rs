//! Why an object of somebody else is not run.

use libbpf_rs::ErrorKind;
use std::io;
use thiserror::Error;

/// Why an object of somebody else is not run.
#[derive(Debug, Error)]
pub enum ObjectError {
    /// libbpf cannot read it, for this reason.
    #[error("it is no eBPF object{0}; compile it with `clang -O2 -g -target bpf -c`")]
    NoObject(String),
    /// It has not one program.
    #[error("it has {0} programs, and is to have one, ringside_packet in SEC(\"xdp\")")]
    Programs(usize),
    /// Its program is another one.
    #[error("its program is {0}, and is to be ringside_packet in SEC(\"xdp\")")]
    Program(String),
    /// It has too many maps.
    #[error("it has {count} maps (variables take up to three), at most {limit} are taken")]
    Maps {
        /// How many.
        count: usize,
        /// How many may be.
        limit: usize,
    },
    /// A map of a kind that is more than a table.
    #[error("its map {map} is of type {of}: arrays and hash tables are taken, per CPU or not")]
    MapType {
        /// Name of the map.
        map: String,
        /// What it is.
        of: String,
    },
    /// Its maps are too large.
    #[error("its maps take {bytes} bytes, at most {limit} are taken; give them fewer max_entries")]
    Memory {
        /// How much, by the kernel's way to keep entries.
        bytes: u64,
        /// How much may be.
        limit: u64,
    },
    /// The tables that are shown are too long.
    #[error(
        "its tables have {rows} entries, of which each may become a record, and at most {limit} \
         do; give them fewer max_entries, or a name that begins with _ to what is no result"
    )]
    Rows {
        /// How many.
        rows: u64,
        /// How many may be.
        limit: u64,
    },
    /// A table whose entries cannot be shown.
    #[error(
        "the {part} of its map {map} cannot be shown: a struct of integers, bools and arrays of \
         bytes can, with each name once and at most {limit} fields in all, of tables per CPU \
         integers; compile with -g, or let the name of what is no result begin with _"
    )]
    Layout {
        /// Name of the map.
        map: String,
        /// Its key or its value.
        part: &'static str,
        /// Fields that a record may have.
        limit: usize,
    },
    /// It calls what an extension may not.
    #[error(
        "it calls {0}, and an extension may look up, update and delete entries of its tables, \
         read the packet, and add up checksums, and nothing else"
    )]
    Call(String),
    /// A loop that the verifier does not count.
    #[error("it has a loop (may_goto) that the kernel ends only after millions of rounds")]
    Loop,
    /// The kernel refused it.
    #[error("the kernel does not load it: {source}{said}{}", fix(.source))]
    Refused {
        /// What libbpf said, with the verifier's reason.
        said: String,
        /// What the kernel said.
        source: libbpf_rs::Error,
    },
    /// No descriptors are left.
    #[error("keeping its program: {0}")]
    Descriptor(#[source] io::Error),
    /// A table cannot be read.
    #[error("its map {map} cannot be read: {source}")]
    Read {
        /// Name of the map.
        map: String,
        /// What libbpf or the kernel said.
        source: libbpf_rs::Error,
    },
}

fn fix(error: &libbpf_rs::Error) -> &'static str {
    match error.kind() {
        ErrorKind::PermissionDenied => {
            "; if it is not the verifier, run it as root, or with CAP_BPF and CAP_NET_ADMIN"
        }
        _ => "",
    }
}
