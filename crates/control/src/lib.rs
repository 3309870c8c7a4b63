#![forbid(unsafe_code)]
//! The control socket of a running capture: asked by `ringside status` and `ringside control`, or
//! by any program that writes JSON lines (`docs/control.md`).
//!
//! ```text
//! side_effects         side effects of rules: mirrors, digests
//! board          what a capture answers
//! desk           what a run answers whose frames stay in the driver
//! place          where the socket lies, who may open it, what happens to a stale one
//! protocol       requests and replies
//! refusals       what a run is not made for
//! rule_messages  those about rules
//! rules          what a run answers about its rules
//! server         one thread, at most 16 clients, each a `connection`
//! client         the other side
//! rules_client   the same for rules
//! state_directory  where sockets lie, and other notes of running processes
//! ```
//!
//! Nothing that a client does or leaves undone reaches the capture: the server has a thread of its
//! own and waits for no client. It keeps one line and one reply a client, and takes at most a tenth
//! of a core. What a command does is a closure of the caller's, so that the server knows no run.
//!
//! This stands apart from the command line, so that a service may speak the protocol, at either
//! end, without it. It refuses to know who started a run: the keeper stands on it.

mod board;
mod client;
mod connection;
mod desk;
mod place;
mod protocol;
mod refusals;
mod rule_messages;
mod rules;
mod rules_client;
mod server;
mod side_effects;
pub mod state_directory;

pub use board::{Board, StatusParts, answer_flows, flow_status};
pub use client::{Client, Found, Refusal, read_reply};
pub use desk::{Asked, Desk};
pub use place::{
    BALANCE_KIND, CAPTURE_KIND, ControlSocket, DECAP_KIND, DROP_KIND, PlaceTaken, ROUTE_KIND,
    SocketPlace, paths, remove_left, running,
};
pub use protocol::{
    BalanceCommand, Command, OutputStatus, Rates, Reply, RingStatus, SetState, Status, VERSION,
};
pub use refusals::{NO_FLOWS, NO_RULES, not_for_this_run};
pub use rule_messages::{DefaultStatus, RuleStatus, RulesCommand, RulesReply, UPLOAD_CHARS};
pub use rules::{RuleDesk, RuleStore};
pub use rules_client::{RulesClient, RunningRules};
pub use server::{Remaining, serve_while};
pub use side_effects::SideEffectsStatus;
