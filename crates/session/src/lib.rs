#![forbid(unsafe_code)]
//! A capture from what is asked of it to its ledger, for the program that wants one: a command
//! line, or a service.
//!
//! - [`Session::start`] takes plain structs: an [`Origin`] of frames ([`CaptureOptions`] for
//!   interfaces and files, [`AttachOptions`] for a running capture) and [`RunOptions`].
//! - [`Session::watch`] answers at the control socket while it lasts, and asks its caller ten times
//!   a second what to do: go on, begin new files, stop.
//! - [`Session::finish`] gives the ledger and what else was counted.
//!
//! In addition, what a service does with stored frames by the same filters and rules:
//! [`filters::programs`], [`FrameJudges`], [`judge_stored`].
//!
//! ```no_run
//! use ringside_session::{CaptureOptions, OpenOptions, Order, Origin, RunOptions, Session};
//!
//! let open = OpenOptions { interfaces: vec!["eth1".into()], ..OpenOptions::default() };
//! let origin = Origin::from(CaptureOptions { open, ..CaptureOptions::default() });
//! let mut session = Session::start(origin, RunOptions::default(), None, &|_note| ())?;
//! session.watch(&mut |moment| {
//!     Ok(if moment.ledger.taken < 1_000_000 { Order::GoOn } else { Order::Stop })
//! })?;
//! let finished = session.finish();
//! assert!(finished.report.errors.is_empty());
//! # Ok::<(), anyhow::Error>(())
//! ```
//!
//! What is to be said meanwhile goes to the caller as a [`Note`]. What is refused because it does
//! not go together is a [`Refused`] in the error, to be found by `downcast_ref`; everything else in
//! errors is the system's. Neither names an option of a command line, and nothing is printed here:
//! it refuses to know who reads.

mod attach;
mod capture;
pub mod driver_rules;
pub mod filters;
mod keep;
mod marking;
mod metering;
mod note;
mod open;
mod output;
mod pins;
mod placement;
mod rates;
mod refused;
mod session;
mod setting;
mod sql;
mod stored_rules;

pub use attach::AttachOptions;
pub use capture::{CaptureOptions, TriggerOptions};
pub use keep::{KeepOptions, RulesFrom};
pub use metering::{
    CacheOptions, Hook, MeterReport, Metering, MeteringOptions, MeteringReport, finish_for_dead,
};
pub use note::{NotInDriver, Note, Notes};
pub use open::files::check_output;
pub use open::{OpenOptions, enter_namespace, interfaces};
pub use output::OutputOptions;
pub use pins::{Held, files_that_hold};
pub use placement::PlacementOptions;
pub use refused::Refused;
pub use session::{
    Finished, Moment, Order, Origin, Privileges, RING_BYTES_MIN, RunOptions, Session,
};
pub use setting::{Rss, Setting};
pub use sql::{RowFormat, SqlEnd, SqlQuestion};
pub use stored_rules::{FrameJudges, judge_stored};

pub use ringside_capture::backend::af_xdp::Waiting;
pub use ringside_capture::backend::{BACKENDS, Description};
pub use ringside_capture::config::{FileFormat, Print};
pub use ringside_capture::keep::{AdaptiveBounds, DigestOutput, FlowCutoff};
pub use ringside_capture::run::RunReport;
pub use ringside_control::{Rates, SocketPlace};
pub use ringside_keeper::Link;
pub use ringside_store::retention::Policy;
pub use ringside_sys::packet::{CaptureDirection, FanoutMode};
