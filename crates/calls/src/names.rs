//! What the fields of a call are called: each field once, and the columns of five schemes.

mod others;
mod ringside;
mod streams;

use crate::call::{Call, Dialog, Party, Transport};
use crate::stream::Endpoint;
use ringside_core::{InterfaceId, Timestamp};
use ringside_logs::Logged;
use ringside_record::{Column, Kind, Names, community_id};
use ringside_wire::IpProtocol;
use serde_json::Value;
use streams::of_stream;

type Field = ringside_record::Field<Call>;

impl ringside_record::Record for Call {
    const LOG: &'static str = "sip";

    fn columns(names: Names) -> &'static [Column<Call>] {
        match names {
            Names::Ringside => ringside::COLUMNS,
            Names::Zeek => others::ZEEK,
            Names::Eve => others::EVE,
            Names::Ecs => others::ECS,
            Names::Otel => others::OTEL,
        }
    }
}

impl Logged for Call {
    fn end(&self) -> Timestamp {
        let streams = self.streams.iter().map(|stream| stream.last_ns);
        let dialog = self.dialog.as_ref().map(|dialog| dialog.last_ns);
        Timestamp(streams.chain(dialog).max().unwrap_or_default())
    }

    fn interface(&self) -> InterfaceId {
        self.interface
    }
}

const NUMBER: Field = Field::new(Kind::Count, |row| row.record.number.into());
const INTERFACE: Field = Field::new(Kind::Text, |row| row.interface());
const VLAN: Field = Field::new(Kind::Count, |row| row.record.vlan.into());
const ENDING: Field = Field::new(Kind::Text, |row| row.record.ending.name().into());
const COMMUNITY_ID: Field = Field::new(Kind::Text, |row| row.record.community_id().into());
const CALLER_AT: Field =
    Field::new(Kind::Address, |row| ends(row.record, |(from, _)| address(from)));
const CALLER_PORT: Field =
    Field::new(Kind::Port, |row| ends(row.record, |(from, _)| from.1.into()));
const CALLEE_AT: Field = Field::new(Kind::Address, |row| ends(row.record, |(_, to)| address(to)));
const CALLEE_PORT: Field = Field::new(Kind::Port, |row| ends(row.record, |(_, to)| to.1.into()));
const TRANSPORT: Field = Field::new(Kind::Text, |row| {
    said(row.record, |dialog| match dialog.transport {
        Transport::Udp => "udp".into(),
        Transport::Tcp => "tcp".into(),
    })
});
const CALL_ID: Field = Field::new(Kind::Text, |row| said(row.record, |d| d.call_id.clone().into()));
const CALLER: Field = Field::new(Kind::Text, |row| said(row.record, |d| d.caller.clone().into()));
const CALLEE: Field = Field::new(Kind::Text, |row| said(row.record, |d| d.callee.clone().into()));
const CALLER_AGENT: Field =
    Field::new(Kind::Text, |row| said(row.record, |d| d.caller_agent.clone().into()));
const CALLEE_AGENT: Field =
    Field::new(Kind::Text, |row| said(row.record, |d| d.callee_agent.clone().into()));
const STATUS: Field = Field::new(Kind::Count, |row| said(row.record, |d| d.status.into()));
const FIRST: Field = Field::new(Kind::Time, |row| row.record.first_ns().into());
const END: Field = Field::new(Kind::Time, |row| said(row.record, |d| d.ended_ns.into()));
const POST_DIAL: Field =
    Field::new(Kind::Duration, |row| said(row.record, |d| d.post_dial_ns().into()));
const RING: Field = Field::new(Kind::Duration, |row| said(row.record, |d| d.ring_ns().into()));
const TALK: Field = Field::new(Kind::Duration, |row| said(row.record, |d| d.talk_ns().into()));
const HUNG_UP_BY: Field = Field::new(Kind::Text, |row| {
    said(row.record, |dialog| match dialog.hung_up_by {
        Some(Party::Caller) => "caller".into(),
        Some(Party::Callee) => "callee".into(),
        None => Value::Null,
    })
});
const STREAMS: Field = Field::new(Kind::List, |row| {
    let call = row.record;
    call.streams.iter().map(|stream| of_stream(stream, call)).collect()
});

/// Of what the signalling said, if there was some.
fn said(call: &Call, value: impl Fn(&Dialog) -> Value) -> Value {
    call.dialog.as_ref().map_or(Value::Null, value)
}

fn ends(call: &Call, value: impl Fn((Endpoint, Endpoint)) -> Value) -> Value {
    call.ends().map_or(Value::Null, value)
}

fn address(endpoint: Endpoint) -> Value {
    endpoint.0.to_string().into()
}

impl Call {
    /// Caller and callee, as addresses of their signalling; sender and receiver of media that
    /// no call announced.
    pub fn ends(&self) -> Option<(Endpoint, Endpoint)> {
        match (&self.dialog, self.streams.first()) {
            (Some(dialog), _) => Some((dialog.caller_at, dialog.callee_at)),
            (None, Some(stream)) => Some((stream.key.source, stream.key.destination)),
            (None, None) => None,
        }
    }

    /// When it began, by the packets that were seen.
    pub fn first_ns(&self) -> Option<u64> {
        let stream = || self.streams.first().map(|stream| stream.first_ns);
        self.dialog.as_ref().map(|dialog| dialog.invite_ns).or_else(stream)
    }

    /// The [Community ID](community_id()) of what carries the signalling, or the media alone.
    pub fn community_id(&self) -> Option<String> {
        let (from, to) = self.ends()?;
        let is_tcp = self.dialog.as_ref().is_some_and(|dialog| dialog.transport == Transport::Tcp);
        let protocol = if is_tcp { IpProtocol::TCP } else { IpProtocol::UDP };
        Some(community_id(from, to, protocol, false, 0))
    }
}
