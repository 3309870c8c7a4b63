#![forbid(unsafe_code)]
//! What records of every kind share: one definition gives all names and formats.
//!
//! A record is what an observer found: a flow, a transaction, a call. Its type implements
//! [`Record`] with lists of columns, one for each scheme of [`Names`]. A [`Column`] says how a
//! field is called there, of what [`Kind`] it is, and where its value comes from; a [`Field`]
//! is defined once for all schemes, and its kind decides how each writes it: Zeek has seconds where
//! we have nanoseconds, Elastic text. From that come JSON, comma-separated values and Zeek's own
//! logs ([`LineWriter`]), and whatever else needs to know types and units.
//!
//! [`community_id()`] is the name of a conversation that other tools give it too.
//!
//! This crate knows no record, and opens no file: lines go to a writer.

mod column;
pub mod community_id;
mod json;
mod lines;
mod names;
mod plain;
mod time;

pub use column::{Column, Field, Kind, Record, Row, object, values};
pub use community_id::community_id;
pub use lines::{LineFormat, LineWriter};
pub use names::{Names, UnknownNames};
pub use time::{seconds, text_of_time};
