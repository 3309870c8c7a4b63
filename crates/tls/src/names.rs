//! What the fields of a handshake are called: each field once, and the columns of five schemes.

mod ecs;
mod eve;
mod otel;
mod ringside;
mod zeek;

use crate::Handshake;
use crate::certificate::Certificate;
use crate::handshake::{ClientSide, Ending, ServerSide};
use crate::words::{quic_version, version};
use ringside_core::{InterfaceId, Timestamp};
use ringside_logs::Logged;
use ringside_record::{Column, Kind, Names, Row, community_id, text_of_time};
use ringside_wire::IpProtocol;
use serde_json::{Value, json};

type Field = ringside_record::Field<Handshake>;

impl ringside_record::Record for Handshake {
    const LOG: &'static str = "ssl";

    fn columns(names: Names) -> &'static [Column<Handshake>] {
        match names {
            Names::Ringside => ringside::COLUMNS,
            Names::Zeek => zeek::COLUMNS,
            Names::Eve => eve::COLUMNS,
            Names::Ecs => ecs::COLUMNS,
            Names::Otel => otel::COLUMNS,
        }
    }
}

impl Logged for Handshake {
    fn end(&self) -> Timestamp {
        Timestamp(self.end_ns)
    }

    fn interface(&self) -> InterfaceId {
        self.interface
    }
}

const CONNECTION: Field = Field::new(Kind::Count, |row| row.record.connection.into());
const COMMUNITY_ID: Field = Field::new(Kind::Text, |row| {
    let Handshake { client, server, quic, .. } = row.record;
    let protocol = if quic.is_some() { IpProtocol::UDP } else { IpProtocol::TCP };
    community_id(*client, *server, protocol, false, 0).into()
});
const TRANSPORT: Field = Field::new(Kind::Text, |row| carried(row, "tcp", "quic"));
const QUIC_VERSION: Field = Field::new(Kind::Text, |row| row.record.quic.map(quic_version).into());
const INTERFACE: Field = Field::new(Kind::Text, |row| row.interface());
const VLAN: Field = Field::new(Kind::Count, |row| row.record.vlan.into());
const CLIENT: Field = Field::new(Kind::Address, |row| row.record.client.0.to_string().into());
const CLIENT_PORT: Field = Field::new(Kind::Port, |row| row.record.client.1.into());
const SERVER: Field = Field::new(Kind::Address, |row| row.record.server.0.to_string().into());
const SERVER_PORT: Field = Field::new(Kind::Port, |row| row.record.server.1.into());
const FIRST: Field = Field::new(Kind::Time, |row| row.record.first_ns().into());
const END: Field = Field::new(Kind::Time, |row| row.record.end_ns.into());
const SERVER_HELLO: Field = Field::new(Kind::Duration, |row| row.record.server_hello_ns().into());
const ENDING: Field = Field::new(Kind::Text, |row| row.record.ending.name().into());
const VERSION: Field = Field::new(Kind::Text, |row| row.record.version().map(version).into());
const CIPHER: Field = Field::new(Kind::Text, |row| {
    answered(row, |answer| format!("{:#06x}", answer.cipher_suite).into())
});
const NAME: Field = Field::new(Kind::Text, |row| asked(row, |h| h.server_name.clone().into()));
const OFFERED: Field = Field::new(Kind::List, |row| {
    asked(row, |hello| match hello.protocols.is_empty() {
        true => Value::Null,
        false => hello.protocols.iter().map(String::as_str).collect(),
    })
});
const PROTOCOL: Field = Field::new(Kind::Text, |row| answered(row, |a| a.protocol.clone().into()));
const JA3: Field = Field::new(Kind::Text, |row| asked(row, |hello| hello.ja3.as_str().into()));
const JA3S: Field = Field::new(Kind::Text, |row| answered(row, |a| a.ja3s.as_str().into()));
const JA4: Field = Field::new(Kind::Text, |row| asked(row, |hello| hello.ja4.as_str().into()));
const RESUMED: Field = Field::new(Kind::Bool, |row| row.record.is_resumed().into());
const ALERT: Field = Field::new(Kind::Count, |row| row.record.alert.into());
const SUBJECT: Field = Field::new(Kind::Text, |row| certified(row, |c| c.subject.as_str().into()));
const ISSUER: Field = Field::new(Kind::Text, |row| certified(row, |c| c.issuer.as_str().into()));
const SERIAL: Field = Field::new(Kind::Text, |row| certified(row, |c| c.serial.as_str().into()));
const NOT_BEFORE: Field = Field::new(Kind::Text, |row| certified(row, |c| day(c.not_before)));
const NOT_AFTER: Field = Field::new(Kind::Text, |row| certified(row, |c| day(c.not_after)));

/// One of two names, by what carried the handshake.
fn carried(row: &Row<'_, Handshake>, over_tcp: &str, over_quic: &str) -> Value {
    if row.record.quic.is_some() { over_quic.into() } else { over_tcp.into() }
}

/// Of the ClientHello, if it was seen.
fn asked(row: &Row<'_, Handshake>, value: impl Fn(&ClientSide) -> Value) -> Value {
    row.record.hello.as_ref().map_or(Value::Null, value)
}

/// Of the ServerHello, if it was seen.
fn answered(row: &Row<'_, Handshake>, value: impl Fn(&ServerSide) -> Value) -> Value {
    row.record.answer.as_ref().map_or(Value::Null, value)
}

/// Of the certificate, if it was seen.
fn certified(row: &Row<'_, Handshake>, value: impl Fn(&Certificate) -> Value) -> Value {
    row.record.certificate.as_ref().map_or(Value::Null, value)
}

/// A time of a certificate: it may lie before 1970, and as far away as the calendar goes.
fn day(seconds: i64) -> Value {
    let ns = u64::try_from(seconds).ok().and_then(|seconds| seconds.checked_mul(1_000_000_000));
    ns.map_or(Value::Null, |ns| text_of_time(ns, "%Y-%m-%dT%H:%M:%SZ"))
}
