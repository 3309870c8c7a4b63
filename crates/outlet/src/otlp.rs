//! OpenTelemetry's logs over HTTP (OTLP), as Protocol Buffers.
//!
//! A record is a log record whose attributes have the names of the semantic conventions. Nothing in
//! the protocol tells a batch that comes again from another one, so that it is delivered at least
//! once: twice, when an acknowledgement was lost.

mod messages;

use crate::batch::Batch;
use crate::engine::{Engine, Outcome};
use crate::http::{Client, reason};
use messages::{
    Any, AnyValue, ExportResponse, KeyValue, List, LogRecord, Map, Resource, ResourceLogs, Scope,
    ScopeLogs,
};
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint};
use ringside_arrow::time_column;
use ringside_record::{Names, Record, Row};
use serde_json::Value;
use std::time::Duration;

/// "Informational", in the specification's scale.
const SEVERITY_INFO: i32 = 9;

/// A service of a server.
pub(crate) struct Otlp {
    client: Client,
    url: String,
    /// Where the records are from.
    resource: Vec<u8>,
    /// What found them.
    scope: Vec<u8>,
}

impl Otlp {
    /// `origin` is what URLs of the server begin with.
    pub fn new(client: Client, origin: &str, path: &str) -> Otlp {
        let node = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let attributes = vec![
            attribute("service.name", "ringside".into()),
            attribute("host.name", node.as_str().into()),
        ];
        let resource = ResourceLogs { resource: Some(Resource { attributes }) };
        let version = env!("CARGO_PKG_VERSION").to_owned();
        let scope = Scope { name: "ringside".into(), version };
        let scope = ScopeLogs { scope: Some(scope), log_records: Vec::new() };
        let (resource, scope) = (resource.encode_to_vec(), scope.encode_to_vec());
        Otlp { client, url: format!("{origin}{path}"), resource, scope }
    }

    /// The body of a request. Messages that are laid one behind the other are one message with the
    /// fields of all, so that a batch is put in as it is.
    fn request(&self, records: &[u8]) -> Vec<u8> {
        const RESOURCE_LOGS: u32 = 1;
        const SCOPE_LOGS: u32 = 2;
        let scope = field(SCOPE_LOGS, &[&self.scope, records]);
        field(RESOURCE_LOGS, &[&self.resource, &scope])
    }
}

/// A message within another one, in parts.
fn field(number: u32, parts: &[&[u8]]) -> Vec<u8> {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut out = Vec::with_capacity(length + 16);
    encode_key(number, WireType::LengthDelimited, &mut out);
    encode_varint(length as u64, &mut out);
    parts.iter().for_each(|part| out.extend_from_slice(part));
    out
}

impl Engine for Otlp {
    fn deliver(&mut self, batch: &Batch, time: Duration) -> Outcome {
        let body = self.request(&batch.body);
        let answer = self.client.post(&self.url, [], "application/x-protobuf", &body, time);
        let answer = match answer {
            Ok(answer) => answer,
            Err(why) => return Outcome::Failed(why),
        };
        answer.failure().unwrap_or_else(|| acknowledged(&answer.body, batch.held.records))
    }
}

/// What a success says. Some servers say nothing, or that in another format.
fn acknowledged(body: &[u8], records: u64) -> Outcome {
    let partial = ExportResponse::decode(body).ok().and_then(|response| response.partial_success);
    let Some(partial) = partial else { return Outcome::acknowledged() };
    let refused = u64::try_from(partial.rejected_log_records).unwrap_or(0).min(records);
    let said = reason(partial.error_message.as_bytes());
    Outcome::Acknowledged { refused, reason: (!said.is_empty()).then_some(said) }
}

/// Appends a record, as a field of the message of its scope.
pub(crate) fn encode<R: Record>(row: &Row<'_, R>, kind: &str, out: &mut Vec<u8>) {
    let time = time_column::<R>().and_then(|column| (column.field.value)(row).as_u64());
    let attributes = R::columns(Names::Otel).iter().filter_map(|column| {
        let value = column.value(row, Names::Otel);
        (!value.is_null()).then(|| attribute(column.path, value))
    });
    let record = LogRecord {
        time_unix_nano: time.unwrap_or_default(),
        severity_number: SEVERITY_INFO,
        body: Some(any(kind.into())),
        attributes: attributes.collect(),
        observed_time_unix_nano: time.unwrap_or_default(),
        event_name: format!("ringside.{kind}"),
    };
    out.extend(ScopeLogs { scope: None, log_records: vec![record] }.encode_to_vec());
}

fn attribute(key: &str, value: Value) -> KeyValue {
    KeyValue { key: key.to_owned(), value: Some(any(value)) }
}

fn any(value: Value) -> AnyValue {
    let any = match value {
        Value::Null => None,
        Value::Bool(is_so) => Some(Any::Bool(is_so)),
        Value::String(text) => Some(Any::Text(text)),
        Value::Number(number) => Some(match (number.as_i64(), number.as_f64()) {
            (Some(whole), _) => Any::Whole(whole),
            (None, Some(real)) if number.is_f64() => Any::Real(real),
            // Beyond what the format has whole numbers for.
            _ => Any::Text(number.to_string()),
        }),
        Value::Array(items) => {
            Some(Any::List(List { values: items.into_iter().map(any).collect() }))
        }
        Value::Object(fields) => {
            let values = fields.into_iter().map(|(key, value)| attribute(&key, value)).collect();
            Some(Any::Map(Map { values }))
        }
    };
    AnyValue { value: any }
}

#[cfg(test)]
mod tests;
