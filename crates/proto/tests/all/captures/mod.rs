//! Payloads of real captures: read as tshark reads them, consistent when cut, and the seeds of
//! fuzzing.

mod dns;
mod fuzz;
mod guesses;
mod http1;
mod judges;
mod prefixes;
mod rows;
mod sip;
mod tls;
