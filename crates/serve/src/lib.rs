#![forbid(unsafe_code)]
//! Running captures and recordings over HTTP: an API, a stream of events, metrics and a web page
//! (`docs/serve.md`).
//!
//! ```text
//! limits    what clients may cost, each with its reason
//! tokens    the file of bearer tokens, and what each may do
//! identity  the certificate and its key, read again when they were renewed
//! hosts     by which names it may be asked
//! places    a bounded number of connections, of which one address has some
//! guesses   wrong tokens by address
//! handshake the beginning of TLS, or of what is none
//! problem   what went wrong with a request, as its client reads it
//! peer      which process is at the other end of a connection
//! listen    where it listens, and who may connect at all
//! stall     a connection that is given up when its client takes nothing
//! watch     the captures as last asked, once a second, however many clients look
//! health    what went in and out of each stage
//! service   what every request can reach
//! access    who may do what: hosts, origins, tokens, scopes, headers
//! api       the routes, of which the OpenAPI document is made
//! assets    the page
//! server    connections, one task each, on one thread
//! ```
//!
//! This is a process of its own, without capabilities: it asks captures at their control sockets as
//! any client does, and reads files. So nothing that a browser sends reaches a process that
//! receives, and a slow question costs no frame. It refuses to start captures, and to know a
//! command line.

mod access;
mod api;
mod assets;
mod extract;
mod guesses;
mod handshake;
mod health;
mod hosts;
mod identity;
mod limits;
mod listen;
mod peer;
mod places;
mod problem;
mod server;
mod service;
mod stall;
mod tokens;
mod watch;

pub use api::document;
pub use identity::Tls;
pub use limits::Limits;
pub use listen::Listen;
pub use server::{Orders, Server};
pub use service::Config;
pub use tokens::Tokens;
