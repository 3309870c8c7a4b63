//! Fields of DNS, HTTP, SIP and DHCP in JSON, from the same parsers as the lines.

use crate::application::{self, DNS_ENTRIES_MAX, Text};
use ringside_proto::dhcp::DhcpOption;
use ringside_proto::dns::{Entries, Message};
use ringside_proto::{Dhcp, HeaderValue, http1, sip};
use serde_json::{Map, Value, json};

/// Options of one message.
const OPTIONS_MAX: usize = 256;

/// Adds what a payload says, by the ports of its transport.
pub(super) fn fields(object: &mut Map<String, Value>, is_tcp: bool, ports: [u16; 2], bytes: &[u8]) {
    let is = |port| ports.contains(&port);
    match is_tcp {
        true if is(53) => insert(object, "dns", dns_over_tcp(bytes)),
        true if application::HTTP_PORTS.iter().any(|port| is(*port)) => {
            insert(object, "http", http(bytes));
        }
        true => {}
        false if is(53) || is(5353) => insert(object, "dns", dns(bytes)),
        false if is(5060) => insert(object, "sip", sip_fields(bytes)),
        false if is(67) || is(68) => insert(object, "dhcp", dhcp(bytes)),
        false => {}
    }
}

fn insert(object: &mut Map<String, Value>, key: &str, fields: Option<Value>) {
    if let Some(fields) = fields {
        object.insert(key.into(), fields);
    }
}

/// Bytes from the wire as text: what is no UTF-8, or controls a terminal, is replaced.
fn text(bytes: &[u8]) -> Value {
    String::from_utf8_lossy(bytes).replace(char::is_control, "\u{fffd}").into()
}

fn header(value: HeaderValue<'_>) -> Value {
    text(&value.bytes().collect::<Vec<u8>>())
}

fn http(bytes: &[u8]) -> Option<Value> {
    if !http1::looks_like(bytes) {
        return None;
    }
    let found = http1::parse(bytes).found()?;
    let mut fields = Map::new();
    insert(&mut fields, "method", found.method.map(text));
    insert(&mut fields, "target", found.target.map(text));
    insert(&mut fields, "status", found.status.map(Value::from));
    insert(&mut fields, "host", found.host.map(text));
    Some(fields.into())
}

fn sip_fields(bytes: &[u8]) -> Option<Value> {
    if !sip::looks_like(bytes) {
        return None;
    }
    let found = sip::parse(bytes).found()?;
    let mut fields = Map::new();
    insert(&mut fields, "method", found.method.map(text));
    insert(&mut fields, "uri", found.uri.map(text));
    insert(&mut fields, "status", found.status.map(Value::from));
    insert(&mut fields, "from", found.from.map(|from| header(from.value())));
    insert(&mut fields, "to", found.to.map(|to| header(to.value())));
    insert(&mut fields, "call_id", found.call_id.map(text));
    Some(fields.into())
}

/// Of a segment that is exactly one message with its length, as the line has it.
fn dns_over_tcp(bytes: &[u8]) -> Option<Value> {
    let (length, message) = bytes.split_first_chunk()?;
    (usize::from(u16::from_be_bytes(*length)) == message.len()).then(|| dns(message)).flatten()
}

fn dns(bytes: &[u8]) -> Option<Value> {
    let message = Message::new(bytes)?;
    let [questions, answers, authority, additional] = message.counts();
    let mut fields = Map::new();
    fields.insert("id".into(), message.id().into());
    fields.insert("response".into(), message.is_response().into());
    fields.insert("opcode".into(), message.opcode().into());
    fields.insert("flags".into(), message.flags().into());
    if message.is_response() {
        fields.insert("rcode".into(), message.rcode().into());
    }
    let mut entries = message.entries();
    let mut asked = Vec::new();
    for _ in 0..questions.min(DNS_ENTRIES_MAX) {
        let Ok(question) = entries.question() else { break };
        let (name, kind) = application::dns_question(&question);
        asked.push(json!({ "name": name, "type": kind, "class": question.class }));
    }
    fields.insert("questions".into(), asked.into());
    for (key, count) in [("answers", answers), ("authority", authority), ("additional", additional)]
    {
        if count > 0 {
            fields.insert(key.into(), records(&mut entries, count).into());
        }
    }
    Some(fields.into())
}

fn records(entries: &mut Entries<'_>, count: u16) -> Vec<Value> {
    let mut list = Vec::new();
    for _ in 0..count.min(DNS_ENTRIES_MAX) {
        let Ok(record) = entries.record() else { break };
        let (name, kind, data) = application::dns_record(&record);
        list.push(json!({
            "name": name, "type": kind, "class": record.class, "ttl": record.ttl, "data": data,
        }));
    }
    list
}

fn dhcp(bytes: &[u8]) -> Option<Value> {
    let message = Dhcp::new(bytes)?;
    let mut fields = Map::new();
    fields.insert("operation".into(), message.operation().into());
    fields.insert("transaction".into(), message.transaction().into());
    if let Some(mac) = message.client_mac() {
        let mac = ringside_wire::MacAddr(mac).to_string();
        fields.insert("client_mac".into(), mac.into());
    }
    let names = ["client_ip", "your_ip", "server_ip", "relay_ip"];
    for (name, address) in names.into_iter().zip(message.addresses()) {
        if !address.is_unspecified() {
            fields.insert(name.into(), address.to_string().into());
        }
    }
    if message.cookie() == Some(Dhcp::MAGIC_COOKIE) {
        let mut options = Map::new();
        for option in message.options().take(OPTIONS_MAX) {
            if option.code == DhcpOption::END {
                break;
            }
            if option.code != DhcpOption::PAD && option.is_whole() {
                let mut value = String::new();
                let mut text = Text { out: &mut value, verbosity: 1 };
                let name = application::dhcp_option(&mut text, &option);
                options.insert(format!("{name} ({})", option.code), value.into());
            }
        }
        fields.insert("options".into(), options.into());
    }
    Some(fields.into())
}
