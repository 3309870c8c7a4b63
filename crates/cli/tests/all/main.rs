//! Tests of the crate from outside, one binary:
//! `cargo test -p ringside-cli --test all MODULE::`.

#![allow(clippy::unwrap_used)] // a test may panic, and its helpers with it

mod af_xdp;
mod backends;
mod balance;
mod bench;
mod calls;
mod calls_sipp;
mod common;
mod control;
mod crashes;
mod digests;
mod dns;
mod doctor;
mod drop;
mod drop_pin;
mod exactness;
mod extcap;
mod falsified;
mod faults;
mod filters;
mod find;
mod flow_cache;
mod flow_export;
mod flows;
mod http;
mod keep;
mod keeper;
mod mirror;
mod moved;
mod observers;
mod order;
mod others;
mod outputs;
mod placement;
mod pre_filter;
mod printing;
mod read_range;
mod read_stream;
mod readers;
mod repair;
mod retention;
mod route;
mod rules;
mod rules_live;
mod send_generate;
mod send_relay;
mod send_replay;
mod send_stream;
mod signals;
mod squatters;
mod terminals;
mod threads;
mod tls;
mod usage;
