//! The subcommands.

pub mod attach;
pub mod backends;
pub mod balance;
pub mod capture;
pub mod control;
pub mod demo;
pub mod doctor;
pub mod drop;
pub mod flows;
pub mod lab;
pub mod read;
pub mod repair;
pub mod route;
pub mod rules;
pub mod send;
pub mod status;
