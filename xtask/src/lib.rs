#![forbid(unsafe_code)]
//! The project's own chores, as a library so that tests can call them.
//!
//! [`tidy`] turns the house rules of docs/STYLE.md into findings, one line each, with the fix. Its
//! rules work on a [`tidy::House`], which is plain data: a test builds a small wrong one in memory.
//! [`mod@test`] runs the steps of `make test` and `make test-all`, bounded in time, and adds up how
//! the tests end.
//! [`book`] lays out what the site of the documentation is built from.
//! [`fuzz`] runs the fuzz tests guided by what their inputs reach.
//! [`vm`] runs tests of network cards in an emulated machine, as one of these steps.
//!
//! Nothing of the product depends on this crate, and it knows no room of the product but testkit.

pub mod book;
pub mod fuzz;
pub mod test;
pub mod tidy;
pub mod vm;
