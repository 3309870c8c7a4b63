#![forbid(unsafe_code)]
//! What runs and tools report: texts for people, and JSON for programs.
//!
//! - [`logs`] is what they have in common that write a line for each record, [`outputs`] how
//!   collectors and servers of records fare.
//! - [`run`] is said of every run that receives, while it lasts and at its end, [`flows`] in
//!   addition of one that adds packets up, [`http`] and [`dns`] of one that finds transactions,
//!   [`tls`] of one that finds handshakes, [`extension`] of what an analyzer of the user's own
//!   finds, [`mod@drop`] of rules inside a driver, [`route`] of forwarding there; [`send`] is the
//!   account of what was sent.
//! - [`rules`] is what rules counted, wherever they are at work; [`status`] what runs say of
//!   themselves at their control sockets; [`losses`] adds up what was lost, by cause.
//! - [`read`], [`find`], [`index`], [`pins`], [`compress`] and [`repair`] are said of recordings,
//!   [`doctor`], [`backends`], [`interfaces`] and [`lab`] of a machine.
//!
//! What comes in is plain data of the crates below. What goes out is text, on which people and
//! scripts rely, or lines on standard output and standard error, as [`ringside_terminal::say`]
//! writes them. Where a text advises, it does so in the words of the command line, whose user reads
//! it. This crate refuses to know arguments, and to do anything: it is a crate so that the command
//! line does not grow by what is said.

pub mod backends;
pub mod balance;
pub mod calls;
pub mod compress;
pub mod dns;
pub mod doctor;
pub mod drop;
pub mod extension;
pub mod find;
pub mod flows;
pub mod http;
pub mod index;
pub mod interfaces;
pub mod lab;
pub mod logs;
mod losses;
pub mod outputs;
pub mod pins;
pub mod read;
pub mod repair;
pub mod route;
pub mod rules;
pub mod run;
pub mod send;
pub mod status;
mod stdout;
pub mod tls;

pub use losses::losses;
