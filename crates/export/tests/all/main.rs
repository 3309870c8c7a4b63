//! Outlets and the programs at their other end.

#![allow(clippy::unwrap_used)]

mod collector;
mod datagrams;
mod files;
mod spooled;
mod streams;
