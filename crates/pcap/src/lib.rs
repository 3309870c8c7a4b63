//! libpcap's functions for devices of Ringside: a library to be preloaded into programs that use
//! libpcap ([docs/libpcap.md](../../../docs/libpcap.md)).
//!
//! `ringside:SOCKET` is the ring that a capture shares, `ringside:BACKEND:INTERFACE` an interface,
//! by a capture that is started for it. Such a handle is one of libpcap's for no device
//! (`pcap_open_dead`), with which a program does whatever it likes; this library answers what
//! reads, and `table` says whose a handle is. All other devices are libpcap's own.
//!
//! As `client-c`, this crate is a shell of a safe one: `calls` turns pointers into references, and
//! `handle` does the work. No panic crosses into C.

mod calls;
mod child;
mod device;
mod handle;
mod real;
mod table;
