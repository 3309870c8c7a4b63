//! Lines as web servers and proxies write them.

use crate::text::Text;
use crate::{Ending, Transaction};
use ringside_core::time::NANOS_PER_SEC;
use std::io::Write;

/// Time as Apache and nginx write it.
const COMBINED_TIME: &str = "%d/%b/%Y:%H:%M:%S +0000";
/// Date and time as syslog had them.
const SYSLOG_TIME: &str = "%b %e %H:%M:%S";
const W3C_TIME: &str = "%Y-%m-%d %H:%M:%S";

/// The fields of W3C's format in the order of IIS, the one that analysers take for granted.
const W3C_FIELDS: &str = "date time s-ip cs-method cs-uri-stem cs-uri-query s-port cs-username \
     c-ip cs(User-Agent) cs(Referer) sc-status sc-substatus sc-win32-status time-taken";

/// Apache's and nginx's Combined format. The time is that of the request; bytes are those of the
/// body. None without request or response, which no server writes.
pub(crate) fn combined(transaction: &Transaction, out: &mut Vec<u8>) -> Option<()> {
    let (request, response) = (transaction.request.as_ref()?, transaction.response.as_ref()?);
    let user = word(&request.user);
    let time = time(transaction.first_ns(), COMBINED_TIME);
    let (method, target) = (quoted(&request.method), quoted(&request.target));
    let version = match request.minor_version {
        Some(minor) => format!(" HTTP/1.{minor}"),
        None => String::new(),
    };
    let bytes = response.message.body_bytes + response.message.missing_bytes;
    let (client, status) = (transaction.client.0, known(response.status)?);
    let (referrer, agent) = (quoted_field(&request.referrer), quoted_field(&request.user_agent));
    // Writing to memory does not fail.
    writeln!(
        out,
        "{client} - {user} [{time}] \"{method} {target}{version}\" {status} {bytes} \
         \"{referrer}\" \"{agent}\""
    )
    .ok()
}

/// Squid's native format, with time and the host's name before it for those who expect syslog. The
/// time is that of the end; bytes are those of the whole response. None without a request.
pub(crate) fn squid(
    transaction: &Transaction,
    syslog_host: Option<&str>,
    out: &mut Vec<u8>,
) -> Option<()> {
    let request = transaction.request.as_ref()?;
    let response = transaction.response.as_ref()?;
    let end_ns = transaction.last_ns();
    let (seconds, millis) = (end_ns / NANOS_PER_SEC, end_ns % NANOS_PER_SEC / 1_000_000);
    let elapsed = end_ns.saturating_sub(transaction.first_ns()) / 1_000_000;
    let message = &response.message;
    let bytes = message.head_bytes + message.body_bytes + message.missing_bytes;
    let is_over = message.is_whole || transaction.ending == Ending::HeadersOnly;
    let result = if is_over { "TCP_MISS" } else { "TCP_MISS_ABORTED" };
    let (client, status) = (transaction.client.0, known(response.status)?);
    let method = escaped(&request.method);
    let url = escaped(&transaction.url()?);
    let (user, server) = (word(&request.user), transaction.server.0);
    let kind = message.content_type.as_ref().map(|kind| {
        let end = kind.iter().position(|byte| matches!(byte, b';' | b' '));
        escape(&kind[..end.unwrap_or(kind.len())], is_plain_word)
    });
    let kind = kind.filter(|kind| !kind.is_empty()).unwrap_or_else(|| "-".into());
    if let Some(host) = syslog_host {
        let time = time(end_ns, SYSLOG_TIME);
        write!(out, "{time} {host} squid: ").ok()?;
    }
    writeln!(
        out,
        "{seconds}.{millis:03} {elapsed:6} {client} {result}/{status:03} {bytes} {method} {url} \
         {user} HIER_DIRECT/{server} {kind}"
    )
    .ok()
}

/// What stands above the lines of a W3C log.
pub(crate) fn w3c_head(first_ns: u64, out: &mut Vec<u8>) {
    let date = time(first_ns, W3C_TIME);
    let version = env!("CARGO_PKG_VERSION");
    // Writing to memory does not fail.
    let _ = write!(
        out,
        "#Software: Ringside {version}\n#Version: 1.0\n#Date: {date}\n#Fields: {W3C_FIELDS}\n"
    );
}

/// W3C's extended format in the order of IIS. The time is that of the end, and the time taken is in
/// milliseconds. None without request or response.
pub(crate) fn w3c(transaction: &Transaction, out: &mut Vec<u8>) -> Option<()> {
    let (request, response) = (transaction.request.as_ref()?, transaction.response.as_ref()?);
    let end_ns = transaction.last_ns();
    let time = time(end_ns, W3C_TIME);
    let taken = end_ns.saturating_sub(transaction.first_ns()) / 1_000_000;
    let (stem, query) = path_and_query(&request.target);
    let (server, port) = transaction.server;
    let (client, status) = (transaction.client.0, known(response.status)?);
    let field = |text: &Option<Text>| text.as_ref().map_or_else(|| "-".into(), |t| w3c_field(t));
    let (method, stem, query) = (w3c_field(&request.method), w3c_field(stem), w3c_field(query));
    let (user, agent) = (field(&request.user), field(&request.user_agent));
    let referrer = field(&request.referrer);
    writeln!(
        out,
        "{time} {server} {method} {stem} {query} {port} {user} {client} {agent} {referrer} \
         {status} 0 0 {taken}"
    )
    .ok()
}

/// A response of HTTP/0.9 has no status, which the format has no way to say.
fn known(status: u16) -> Option<u16> {
    (status > 0).then_some(status)
}

fn time(ns: u64, format: &str) -> String {
    let time = ringside_record::text_of_time(ns, format);
    time.as_str().unwrap_or("-").to_owned()
}

/// Path and query of a target, without scheme and host.
fn path_and_query(target: &[u8]) -> (&[u8], &[u8]) {
    let host = target.windows(3).position(|three| three == b"://").filter(|_| target[0] != b'/');
    let path = match host {
        Some(at) => {
            let rest = &target[at + 3..];
            let path = rest.iter().position(|byte| matches!(byte, b'/' | b'?'));
            path.map_or(b"/".as_slice(), |path| &rest[path..])
        }
        None => target,
    };
    match path.iter().position(|&byte| byte == b'?') {
        Some(at) => (&path[..at], &path[at + 1..]),
        None => (path, b""),
    }
}

/// Spaces become `+`, as with IIS; what is empty becomes `-`.
fn w3c_field(bytes: &[u8]) -> String {
    let spaces: Vec<u8> =
        bytes.iter().map(|&b| if matches!(b, b' ' | b'\t') { b'+' } else { b }).collect();
    match spaces.is_empty() {
        true => "-".into(),
        false => escape(&spaces, |byte| (b'!'..=b'~').contains(&byte)),
    }
}

/// A name without spaces, or `-`.
fn word(text: &Option<Text>) -> String {
    match text {
        Some(text) if !text.is_empty() => escaped(text),
        _ => "-".into(),
    }
}

fn escaped(bytes: &[u8]) -> String {
    escape(bytes, is_plain_word)
}

fn is_plain_word(byte: u8) -> bool {
    (b'!'..=b'~').contains(&byte) && byte != b'"' && byte != b'\\'
}

fn quoted(bytes: &[u8]) -> String {
    escape(bytes, |byte| (b' '..=b'~').contains(&byte) && byte != b'"' && byte != b'\\')
}

fn quoted_field(text: &Option<Text>) -> String {
    match text {
        Some(text) if !text.is_empty() => quoted(text),
        _ => "-".into(),
    }
}

/// Bytes that are not plain as `\xHH`.
fn escape(bytes: &[u8], is_plain: impl Fn(u8) -> bool) -> String {
    let mut out = String::with_capacity(bytes.len());
    for &byte in bytes {
        match is_plain(byte) {
            true => out.push(byte as char),
            false => out.push_str(&format!("\\x{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests;
