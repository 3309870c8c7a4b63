//! Kafka by its C client, librdkafka, opened at run time: batches of records that are there exactly
//! once.
//!
//! - [`Library`] is librdkafka, 2.0 or newer, where it is installed. Without it all else works.
//! - [`Settings`] say which cluster and topic, and as whom.
//! - [`Producer`] sends batches, each by one transaction, which also writes down how far the
//!   producer has come: [`Producer::start`] finds that out, whatever became of the one before. Who
//!   reads committed records alone (`isolation.level=read_committed`) has each of them once.
//!
//! The library makes threads of its own; they have the rights of the thread that makes a producer.

mod api;
mod error;
mod handle;
mod library;
#[cfg(any(test, feature = "mock"))]
pub mod mock;
mod position;
mod producer;
mod settings;

pub use error::{Failure, KafkaError};
pub use library::Library;
pub use producer::{Producer, Record};
pub use settings::{MESSAGE_BYTES_MAX, Mechanism, Settings};
