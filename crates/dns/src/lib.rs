#![forbid(unsafe_code)]
//! DNS transactions: queries with their answers, over UDP and TCP.
//!
//! - [`DnsObserver`] sees every frame of a stream, finds messages of DNS, multicast DNS and LLMNR,
//!   pairs queries with answers by endpoints, transaction id and question, and hands each
//!   [`Transaction`] to sinks once it is over. Every one says how it ended ([`Ending`]): queries
//!   without an answer and answers without a query are transactions too.
//! - [`text`] is a transaction as a line for people; other formats come from its columns (crate
//!   `record`).
//! - [`DnsLedger`] says that no message and no transaction is missing; [`DnsStatus`] is what others
//!   may ask meanwhile.
//!
//! Memory is bounded by [`Limits`]. There is no clock here and no socket.

mod conversation;
mod data;
mod domain_name;
mod ledger;
mod limits;
mod names;
mod observer;
mod read;
mod status;
mod text;
mod tracker;
mod transaction;
mod transactions;
mod words;

pub use domain_name::DomainName;
pub use ledger::DnsLedger;
pub use limits::Limits;
pub use observer::DnsObserver;
pub use status::DnsStatus;
pub use text::text;
pub use transaction::{
    Answer, Ending, Protocol, Query, Question, Response, Transaction, Transport,
};
