//! Why a configuration is refused.

use crate::maglev::{SLOTS_MAX, SLOTS_MIN};
use crate::prefix::{Prefix, PrefixError};
use crate::quic::SERVER_ID_BYTES_MAX;
use std::net::IpAddr;
use thiserror::Error;

/// A configuration that is refused, with the place.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}, column {column}: {problem}")]
pub struct ConfigError {
    /// Line of the text, from 1.
    pub line: usize,
    /// Column in that line, in characters from 1.
    pub column: usize,
    /// What is wrong there.
    pub problem: Problem,
}

/// What is wrong in a configuration.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Problem {
    /// Longer than any that we could mean.
    #[error("the configuration has {bytes} bytes; at most {bytes_max} are read")]
    TooLong {
        /// Its bytes.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
    /// No text.
    #[error("the byte here is no UTF-8; write the file as UTF-8 text")]
    Encoding,
    /// No TOML, a word that we do not know, or one that is missing.
    #[error("{0}")]
    Toml(String),
    /// A number outside its limits.
    #[error("{field} is {value}; it must be {min} to {max}")]
    Range {
        /// Name of the field.
        field: &'static str,
        /// As it was given.
        value: i64,
        /// The least value.
        min: i64,
        /// The greatest value.
        max: i64,
    },
    /// An address or prefix that is none.
    #[error("{text:?} {reason}")]
    Prefix {
        /// As it was given.
        text: String,
        /// Why not.
        reason: PrefixError,
    },
    /// A prefix where an address belongs.
    #[error("{text:?} is a prefix; a real has one address")]
    NotOne {
        /// As it was given.
        text: String,
    },
    /// An address of the other version of IP, or one that no host has.
    #[error("{address} cannot be {what}; {fix}")]
    Address {
        /// As it was given.
        address: IpAddr,
        /// What it was to be.
        what: &'static str,
        /// What to write instead.
        fix: &'static str,
    },
    /// A hardware address that is none.
    #[error("{text:?} is no hardware address of one host; write it as 02:00:5e:10:00:01")]
    Mac {
        /// As it was given.
        text: String,
    },
    /// A name that cannot be shown.
    #[error(
        "the name {name:?} has {chars} characters; 1 to {chars_max} letters, digits, '-', '_' and \
         '.' are taken"
    )]
    Name {
        /// As it was given.
        name: String,
        /// Its length.
        chars: usize,
        /// The limit.
        chars_max: usize,
    },
    /// Something stands there twice.
    #[error("{what} stands on line {line} already; remove one of them")]
    Twice {
        /// What it is.
        what: String,
        /// Line of the first.
        line: usize,
    },
    /// More than there is room for.
    #[error("more than {max} {what}; {fix}")]
    TooMany {
        /// What there are too many of.
        what: &'static str,
        /// The limit.
        max: usize,
        /// What to do.
        fix: &'static str,
    },
    /// Slots of a table that are no prime.
    #[error("{slots} slots are no prime from {SLOTS_MIN} to {SLOTS_MAX}; write {instead}")]
    Slots {
        /// As it was given.
        slots: u32,
        /// The next prime.
        instead: u32,
    },
    /// A tunnel without an address where it begins.
    #[error("tunnels to {address} need an address of this balancer; set {field} at the top")]
    NoSource {
        /// The real.
        address: IpAddr,
        /// Which field gives it.
        field: &'static str,
    },
    /// A server id that is none.
    #[error(
        "the server id {text:?} is no even number of hexadecimal digits for 1 to \
         {SERVER_ID_BYTES_MAX} bytes; write it as \"0a0b\""
    )]
    ServerId {
        /// As it was given.
        text: String,
    },
    /// A server id that no connection id can have.
    #[error("no line of quic_lb has server_id_bytes = {bytes}, as this server id has; add one")]
    ServerIdLength {
        /// Bytes of the id.
        bytes: usize,
    },
    /// Something that belongs to VIPs of another protocol.
    #[error("{field} is for VIPs of protocol \"quic\"; remove it or change the protocol")]
    NotQuic {
        /// Name of the field.
        field: &'static str,
    },
    /// A question to an unknown port.
    #[error("a VIP of all ports needs a port that is asked: health = {{ kind = ..., port = 80 }}")]
    HealthPort,
    /// Something that belongs to another kind of question.
    #[error("{field} is for health of kind {kind:?}; remove it or change the kind")]
    HealthField {
        /// Name of the field.
        field: &'static str,
        /// The kind that has it.
        kind: &'static str,
    },
    /// An address that is not the VIP's.
    #[error("{text:?} is no address of the VIP; give one of {prefix}")]
    HealthAddress {
        /// As it was given.
        text: String,
        /// The VIP's.
        prefix: Prefix,
    },
    /// A word that no request can have.
    #[error(
        "the {field} {text:?} is not 1 to {chars_max} visible ASCII characters without blanks, a \
         path from '/' on; write it as a request has it"
    )]
    HealthWord {
        /// Name of the field.
        field: &'static str,
        /// As it was given.
        text: String,
        /// The limit.
        chars_max: usize,
    },
    /// A payload that is not valid.
    #[error(
        "{text:?} is no even number of hexadecimal digits for at most {bytes_max} bytes; write it \
         as \"0a0b\""
    )]
    HealthBytes {
        /// As it was given.
        text: String,
        /// The limit.
        bytes_max: usize,
    },
    /// A deadline of a real that does not drain.
    #[error("drain_s is for reals of state \"draining\"; remove it or change the state")]
    NotDraining,
}
