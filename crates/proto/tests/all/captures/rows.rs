//! What tshark says of each payload of the captures. It judges packets one by one, as we do: no
//! reassembly, no defragmentation.

use ringside_testkit::{capture_sample, judge, need_tool};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// Folders whose captures hold the protocols of this crate.
const FOLDERS: [&str; 7] = ["dns", "http", "ip", "malformed", "mixed", "tls", "voip"];
const PREFERENCES: [&str; 14] = [
    "tcp.desegment_tcp_streams:FALSE",
    "tcp.reassemble_out_of_order:FALSE",
    "ip.defragment:FALSE",
    "ipv6.defragment:FALSE",
    "http.desegment_headers:FALSE",
    "http.desegment_body:FALSE",
    "http.dechunk_body:FALSE",
    "http.decompress_body:FALSE",
    "sip.desegment_headers:FALSE",
    "sip.desegment_body:FALSE",
    "dns.desegment_dns_messages:FALSE",
    "tls.desegment_ssl_records:FALSE",
    "tls.desegment_ssl_application_data:FALSE",
    "tcp.analyze_sequence_numbers:FALSE",
];
const FIELDS: [&str; 22] = [
    "frame.number",
    "frame.protocols",
    "tcp.payload",
    "udp.payload",
    "http.request.method",
    "http.request.uri",
    "http.host",
    "http.response.code",
    "sip.Method",
    "sip.r-uri",
    "sip.Status-Code",
    "sip.From",
    "sip.from.addr",
    "sip.To",
    "sip.to.addr",
    "sip.Via",
    "sip.Call-ID",
    "dns.flags.response",
    "dns.qry.name",
    "dns.qry.type",
    "tls.handshake.type",
    "tls.handshake.extensions_server_name",
];
/// Separates several values of one field; in no name or URI.
const AGGREGATOR: &str = "\u{1e}";

/// One payload, with what tshark found in it.
#[derive(Debug)]
pub struct Row {
    pub file: String,
    pub frame: String,
    pub is_tcp: bool,
    pub payload: Vec<u8>,
    fields: BTreeMap<&'static str, Vec<String>>,
}

impl Row {
    /// The first value of a field.
    pub fn first(&self, field: &str) -> Option<&str> {
        Some(self.fields.get(field)?.first()?.as_str())
    }

    /// True if the frame has a layer of this name.
    pub fn has_layer(&self, layer: &str) -> bool {
        self.first("frame.protocols").is_some_and(|all| all.split(':').any(|name| name == layer))
    }

    /// True in captures that were broken on purpose, in which tshark goes on over what we refuse.
    pub fn is_broken(&self) -> bool {
        ["fuzz", "malformed", "overflow"].iter().any(|word| self.file.contains(word))
    }

    /// Where the payload is from, and what it is.
    pub fn context(&self) -> String {
        let Row { file, frame, fields, .. } = self;
        let start = &self.payload[..self.payload.len().min(200)];
        let is_shown = |(name, values): &(&&str, &Vec<String>)| {
            !name.ends_with("payload") && !values.is_empty()
        };
        let fields: Vec<_> = fields.iter().filter(is_shown).collect();
        format!("{file} frame {frame}: {fields:?}\n{}", crate::support::text(start))
    }
}

/// Every payload that is the only one of its frame. Empty, and `test` skipped visibly, where
/// captures or tshark are missing.
pub fn rows(test: &str) -> &'static [Row] {
    static ROWS: OnceLock<Vec<Row>> = OnceLock::new();
    if !need_tool(test, "tshark") || capture_sample(test, 1).is_empty() {
        return &[];
    }
    ROWS.get_or_init(|| {
        let files = capture_sample("rows", 3).into_iter().filter(|path| is_judged(path));
        let files: Vec<PathBuf> = files.collect();
        let share = files.len().div_ceil(std::thread::available_parallelism().unwrap().get());
        std::thread::scope(|scope| {
            let read =
                |files: &[PathBuf]| files.iter().flat_map(|path| of_file(path)).collect::<Vec<_>>();
            let threads: Vec<_> =
                files.chunks(share).map(|files| scope.spawn(move || read(files))).collect();
            let rows: Vec<Row> =
                threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
            // A version that lacks a field or a preference would compare nothing.
            assert!(rows.len() > 1000, "tshark gave {} payloads", rows.len());
            rows
        })
    })
}

fn is_judged(path: &Path) -> bool {
    let folder = path.parent().and_then(|dir| dir.file_name()).and_then(|name| name.to_str());
    folder.is_some_and(|folder| FOLDERS.contains(&folder))
}

fn of_file(path: &Path) -> Vec<Row> {
    let aggregator = format!("aggregator={AGGREGATOR}");
    let mut args = vec!["-n", "-T", "fields", "-E", "occurrence=a", "-E", &aggregator];
    args.extend(PREFERENCES.iter().flat_map(|preference| ["-o", preference]));
    args.extend(FIELDS.iter().flat_map(|field| ["-e", field]));
    args.push("-r");
    // A damaged file gives the frames before the damage.
    let output = judge::ask("tshark", &args, path);
    let file = path.file_name().unwrap().to_string_lossy();
    let text = String::from_utf8_lossy(&output.stdout);
    text.lines().filter_map(|line| row(&file, line)).collect()
}

fn row(file: &str, line: &str) -> Option<Row> {
    let values = line.split('\t').map(|value| {
        value.split(AGGREGATOR).filter(|one| !one.is_empty()).map(str::to_owned).collect()
    });
    let fields: BTreeMap<&str, Vec<String>> = FIELDS.into_iter().zip(values).collect();
    let (tcp, udp) = (&fields["tcp.payload"], &fields["udp.payload"]);
    // With several payloads in a frame (tunnels, quoted packets), the fields are of one of them.
    let (is_tcp, hex) = match (tcp.as_slice(), udp.as_slice()) {
        ([payload], []) => (true, payload),
        ([], [payload]) => (false, payload),
        _ => return None,
    };
    let payload = hex
        .as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap());
    let payload = payload.collect();
    let frame = fields["frame.number"].concat();
    Some(Row { file: file.to_owned(), frame, is_tcp, payload, fields })
}

/// A field as tshark prints it.
pub fn plain(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Differences between tshark and us that have a reason, counted by it.
#[derive(Debug, Default)]
pub struct Differences {
    compared: usize,
    explained: BTreeMap<&'static str, usize>,
    unexplained: Vec<String>,
}

impl Differences {
    /// Compares one field. `explain` gives the reason for a difference, if there is one.
    pub fn compare(
        &mut self,
        row: &Row,
        (ours, theirs): (Option<String>, Option<String>),
        explain: impl Fn(Option<&str>, Option<&str>) -> Option<&'static str>,
    ) {
        if ours.is_none() && theirs.is_none() {
            return;
        }
        self.compared += 1;
        if ours == theirs {
            return;
        }
        match explain(ours.as_deref(), theirs.as_deref()) {
            Some(reason) => *self.explained.entry(reason).or_default() += 1,
            None => self.unexplained.push(format!("{ours:?} {theirs:?} {}", row.context())),
        }
    }

    /// Fails on differences without a reason, and if a reason explains more than `expected`, so
    /// that it does not come to cover what it was not found for. Versions of tshark differ, so that
    /// fewer are fine.
    #[track_caller]
    pub fn check(&self, test: &str, expected: &[(&str, usize)]) {
        eprintln!("{test}: {} fields compared, explained {:#?}", self.compared, self.explained);
        let first: Vec<&str> = self.unexplained.iter().take(20).map(String::as_str).collect();
        let count = self.unexplained.len();
        assert!(first.is_empty(), "{count} differences\n{}", first.join("\n\n"));
        for (reason, count) in &self.explained {
            let most =
                expected.iter().find(|(name, _)| name == reason).map_or(0, |(_, most)| *most);
            assert!(*count <= most, "{count} times {reason}, expected {most}");
        }
    }
}
