//! What the fields of a transaction are called: each field once, and the columns of five schemes.

mod ecs;
mod eve;
mod otel;
mod ringside;
mod zeek;

use crate::Transaction;
use crate::data::{A, AAAA};
use crate::transaction::{Answer, Question, Response, Transport};
use crate::words::{class, opcode, rcode, rtype};
use ringside_core::{InterfaceId, Timestamp};
use ringside_logs::Logged;
use ringside_record::{Column, Kind, Names, Row, community_id};
use ringside_wire::IpProtocol;
use serde_json::{Value, json};

type Field = ringside_record::Field<Transaction>;

impl ringside_record::Record for Transaction {
    const LOG: &'static str = "dns";

    fn columns(names: Names) -> &'static [Column<Transaction>] {
        match names {
            Names::Ringside => ringside::COLUMNS,
            Names::Zeek => zeek::COLUMNS,
            Names::Eve => eve::COLUMNS,
            Names::Ecs => ecs::COLUMNS,
            Names::Otel => otel::COLUMNS,
        }
    }
}

impl Logged for Transaction {
    fn end(&self) -> Timestamp {
        Timestamp(self.end_ns)
    }

    fn interface(&self) -> InterfaceId {
        self.interface
    }
}

/// Bits of the flags.
const AUTHORITATIVE: u16 = 0x0400;
const TRUNCATED: u16 = 0x0200;
const RECURSION_DESIRED: u16 = 0x0100;
const RECURSION_AVAILABLE: u16 = 0x0080;
const AUTHENTIC: u16 = 0x0020;
const CHECKING_DISABLED: u16 = 0x0010;
/// Set in answers.
const RESPONSE: u16 = 0x8000;

const COMMUNITY_ID: Field = Field::new(Kind::Text, |row| row.record.community_id().into());
const INTERFACE: Field = Field::new(Kind::Text, |row| row.interface());
const VLAN: Field = Field::new(Kind::Count, |row| row.record.vlan.into());
const CLIENT: Field = Field::new(Kind::Address, |row| row.record.client.0.to_string().into());
const CLIENT_PORT: Field = Field::new(Kind::Port, |row| row.record.client.1.into());
const SERVER: Field = Field::new(Kind::Address, |row| row.record.server.0.to_string().into());
const SERVER_PORT: Field = Field::new(Kind::Port, |row| row.record.server.1.into());
const PROTOCOL: Field = Field::new(Kind::Text, |row| row.record.protocol.name().into());
const TRANSPORT: Field = Field::new(Kind::Text, |row| row.record.transport.name().into());
const FIRST: Field = Field::new(Kind::Time, |row| row.record.first_ns().into());
const LAST: Field = Field::new(Kind::Time, |row| row.record.last_ns().into());
const LATENCY: Field = Field::new(Kind::Duration, |row| row.record.latency_ns().into());
const ENDING: Field = Field::new(Kind::Text, |row| row.record.ending.name().into());
const ID: Field = Field::new(Kind::Count, |row| row.record.id.into());
const OPCODE: Field = Field::new(Kind::Text, |row| opcode(row.record.opcode()).into());
const QUESTIONS: Field = Field::new(Kind::Count, |row| row.record.questions.into());
const QNAME: Field = Field::new(Kind::Text, |row| asked(row, |q| q.name.to_string().into()));
const QTYPE: Field = Field::new(Kind::Count, |row| asked(row, |q| q.qtype.into()));
const QTYPE_NAME: Field = Field::new(Kind::Text, |row| asked(row, |q| rtype(q.qtype).into()));
const QCLASS: Field = Field::new(Kind::Count, |row| asked(row, |q| q.class.into()));
const QCLASS_NAME: Field = Field::new(Kind::Text, |row| asked(row, |q| class(q.class).into()));
const RCODE: Field = Field::new(Kind::Count, |row| answered(row, |r| r.rcode.into()));
const RCODE_NAME: Field = Field::new(Kind::Text, |row| answered(row, |r| rcode(r.rcode).into()));
const RETRANSMISSIONS: Field = Field::new(Kind::Count, |row| {
    row.record.query.map_or(Value::Null, |query| query.retransmissions.into())
});
const ANSWERS: Field = Field::new(Kind::List, |row| {
    answered(row, |response| response.answers.iter().map(|answer| answer.data.as_str()).collect())
});

impl Transaction {
    /// The [Community ID](community_id()) of its conversation.
    pub fn community_id(&self) -> String {
        let protocol = match self.transport {
            Transport::Udp => IpProtocol::UDP,
            Transport::Tcp => IpProtocol::TCP,
        };
        community_id(self.client, self.server, protocol, false, 0)
    }

    /// When its last message came.
    fn last_ns(&self) -> u64 {
        let query_ns = self.query.map_or(0, |query| query.last_ns);
        self.response.as_ref().map_or(query_ns, |response| response.stamp_ns.max(query_ns))
    }
}

/// Of the question, if there is one.
fn asked(row: &Row<'_, Transaction>, value: impl Fn(&Question) -> Value) -> Value {
    row.record.question.as_ref().map_or(Value::Null, value)
}

/// Of the answer, if it was seen.
fn answered(row: &Row<'_, Transaction>, value: impl Fn(&Response) -> Value) -> Value {
    row.record.response.as_ref().map_or(Value::Null, value)
}

fn has(row: &Row<'_, Transaction>, flag: u16) -> bool {
    row.record.flags() & flag != 0
}

/// Letters for what is set, as DNS tools write them.
fn flags(row: &Row<'_, Transaction>) -> Value {
    let letters = [
        (RESPONSE, "QR"),
        (AUTHORITATIVE, "AA"),
        (TRUNCATED, "TC"),
        (RECURSION_DESIRED, "RD"),
        (RECURSION_AVAILABLE, "RA"),
        (AUTHENTIC, "AD"),
        (CHECKING_DISABLED, "CD"),
    ];
    letters.into_iter().filter(|(flag, _)| has(row, *flag)).map(|(_, name)| name).collect()
}

/// The records of an answer section, each an object.
fn records(row: &Row<'_, Transaction>) -> Value {
    let object = |answer: &Answer| {
        json!({
            "name": answer.name.to_string(),
            "type": rtype(answer.rtype),
            "class": class(answer.class),
            "ttl": answer.ttl,
            "data": answer.data,
        })
    };
    answered(row, |response| response.answers.iter().map(object).collect())
}

/// Addresses among the answers.
fn addresses(row: &Row<'_, Transaction>) -> Value {
    let is_address = |answer: &&Answer| matches!(answer.rtype, A | AAAA);
    answered(row, |response| {
        let found = response.answers.iter().filter(is_address);
        found.map(|answer| answer.data.as_str()).collect()
    })
}

#[cfg(test)]
mod tests;
