#![forbid(unsafe_code)]
//! `ringside top`: the running captures on a terminal, for who comes by ssh (`docs/serve.md`).
//!
//! - `state`: what is known and chosen, changed by a look at the captures or a key.
//! - `draw`: a state as a screen of 80 columns and 24 lines, or whatever there is.
//! - `run`: the terminal, the keys, and the thread that asks.
//!
//! It is a client of control sockets, as the page of `ringside serve` is; a state and its screen
//! know neither terminal nor clock, so that tests compare whole screens. It refuses to give
//! orders: it only looks.

mod draw;
mod run;
mod state;

pub use run::{ask, run};
pub use state::{Capture, Look};
