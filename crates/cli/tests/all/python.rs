//! `import ringside`: what Python gets is what the commands say, packet by packet and record by
//! record, by whatever library the columns are read.

mod live;

use crate::common::*;
use crate::outlets::{ANALYZERS, captures, records, store::in_order};
use ringside_core::{Frame, LinkType, SourceInterface};
use ringside_testkit::{capture_sample, skip};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// The package, as a wheel installs it.
struct Package(TempDir);

impl Package {
    fn new() -> Package {
        let folder = tempfile::tempdir().unwrap();
        let package = folder.path().join("ringside");
        fs::create_dir(&package).unwrap();
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../python/python/ringside");
        for file in files_in(&sources) {
            symlink(&file, package.join(file.file_name().unwrap())).unwrap();
        }
        symlink(library(), package.join("_ringside.abi3.so")).unwrap();
        let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/all/python/by_hand.py");
        symlink(here, folder.path().join("by_hand.py")).unwrap();
        Package(folder)
    }

    /// Python with that package, and a script whose arguments are `args`.
    fn command(&self, script: &str, args: &[&str]) -> Command {
        let mut command = Command::new("python3");
        let script = format!("import json, sys, ringside\nfrom by_hand import *\n{script}");
        command.args(["-W", "always", "-c", &script]).args(args);
        let paths = std::env::var_os("PYTHONPATH").unwrap_or_default();
        let paths = [self.0.path().to_owned()].into_iter().chain(std::env::split_paths(&paths));
        command.env("PYTHONPATH", std::env::join_paths(paths).unwrap());
        command
    }

    fn run(&self, script: &str, args: &[&str]) -> Outcome {
        Running::start(self.command(script, args)).finish()
    }

    /// Lines of JSON of a script that ends well and says nothing else.
    fn lines(&self, script: &str, args: &[&str]) -> Vec<Value> {
        let outcome = self.run(script, args);
        assert_eq!((outcome.code(), &*outcome.stderr), (Some(0), ""), "{script}");
        outcome.json_lines()
    }

    /// True if Python has a module; a skip is said.
    fn has(&self, test: &str, module: &str) -> bool {
        let mut probe = self.command(&format!("import {module}"), &[]);
        let probe = probe.stdout(Stdio::null()).stderr(Stdio::null()).status();
        let found = probe.is_ok_and(|status| status.success());
        if !found {
            skip(test, &format!("python3 has no {module} (`pip install {module}`)"));
        }
        found
    }
}

/// Cargo puts the library next to these tests; a program that was built before them has its own.
fn library() -> PathBuf {
    let is_built_before = std::env::var_os("RINGSIDE_BIN").is_some();
    let neighbour = if is_built_before { ringside() } else { std::env::current_exe().unwrap() };
    let library = neighbour.with_file_name("libringside_python.so");
    assert!(library.exists(), "`cargo build -p ringside-python` makes {}", library.display());
    library
}

/// Real captures that can be read to their end.
fn whole_captures(test: &str, one_in: u64) -> Vec<PathBuf> {
    let mut files = capture_sample(test, one_in);
    files.retain(|file| {
        let is_malformed = file.components().any(|part| part.as_os_str() == "malformed");
        !is_malformed && run_ringside(&["find", "-r", arg(file), "--count"]).code() == Some(0)
    });
    files
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn packets_are_those_of_the_file_one_by_one_and_as_columns() {
    let package = Package::new();
    for file in whole_captures("packets_are_those_of_the_file", 12) {
        let mut expected = Vec::new();
        for_each_frame(std::slice::from_ref(&file), |frame: &Frame<'_>, interfaces| {
            let known = SourceInterface::of(&frame.meta, interfaces).ok();
            let link = known.map_or(LinkType::UNKNOWN, |one| one.link_type);
            let name = known.map(|one| one.name.clone()).filter(|name| !name.is_empty());
            expected.push(json!([
                frame.meta.timestamp.0,
                frame.meta.wire_bytes,
                link.0,
                name,
                hex(frame.bytes)
            ]));
        });
        let one_by_one = package.lines(
            "for p in ringside.open(sys.argv[1]):\n    print(json.dumps([p.time_ns, p.wire_bytes, \
             p.link_type, p.interface, bytes(p).hex()]))\n    assert len(p) == len(p.data)\n",
            &[arg(&file)],
        );
        assert_eq!(one_by_one, expected, "{}", file.display());
        // The link type is no column: a table of several is seldom wanted.
        let expected: Vec<_> = expected
            .iter()
            .map(|packet| json!([packet[0], packet[1], packet[3], packet[4]]))
            .collect();
        let as_columns = package.lines(
            "for p in rows(ringside.open(sys.argv[1]).batches(data=True)):\n    \
             assert p['captured_bytes'] * 2 == len(p['data'])\n    \
             rest = [p.get('interface'), p['data']]\n    \
             print(json.dumps([p.get('time', 0), p['wire_bytes'], *rest]))\n",
            &[arg(&file)],
        );
        assert_eq!(as_columns, expected, "{}", file.display());
    }
}

/// What tshark says of a packet with one IP header: addresses, ports, flags and length.
fn tshark_fields(line: &str) -> Option<Vec<String>> {
    let fields: Vec<_> = line.split('\t').map(str::to_owned).collect();
    // An IP header within another one, or in a message of ICMP, is one more, or of both kinds.
    let is_plain = fields.iter().all(|field| !field.contains(','));
    (is_plain && fields[0].is_empty() != fields[1].is_empty()).then_some(fields)
}

#[test]
fn addresses_ports_and_flags_are_those_of_tshark() {
    let package = Package::new();
    let mut compared = 0;
    let mut files = whole_captures("addresses_ports_and_flags_are_those_of_tshark", 6);
    // What tshark shows of those are blocks of pcapng, not only packets.
    files.retain(|file| !arg(file).contains("/formats/"));
    for file in &files {
        let wanted = [
            "ip.src",
            "ipv6.src",
            "ip.dst",
            "ipv6.dst",
            "tcp.srcport",
            "tcp.dstport",
            "udp.srcport",
            "udp.dstport",
            "tcp.flags",
            "tcp.len",
        ];
        let mut args = vec!["-n", "-o", "ip.defragment:FALSE", "-o", "ipv6.defragment:FALSE"];
        args.extend(["-T", "fields", "-E", "occurrence=a"]);
        args.extend(wanted.iter().flat_map(|field| ["-e", field]));
        args.push("-r");
        let said = judged("tshark", &args, file);
        let script = "for p in rows(ringside.open(sys.argv[1]).batches()): print(json.dumps(p))";
        let rows = package.lines(script, &[arg(file)]);
        assert_eq!(said.lines().count(), rows.len(), "{}", file.display());
        for (number, (line, row)) in said.lines().zip(&rows).enumerate() {
            let Some(fields) = tshark_fields(line) else { continue };
            let text = |name: &str| match &row[name] {
                Value::Null => String::new(),
                Value::String(text) => text.clone(),
                other => other.to_string(),
            };
            let place = || format!("{} frame {}: {line} / {row}", file.display(), number + 1);
            let either = |one: usize, other: usize| [&*fields[one], &*fields[other]].concat();
            assert_eq!(text("src"), either(0, 1), "{}", place());
            assert_eq!(text("dst"), either(2, 3), "{}", place());
            let protocol = row["protocol"].as_u64();
            if protocol == Some(6) && !fields[4].is_empty() {
                assert_eq!([text("src_port"), text("dst_port")], fields[4..6]);
                let flags = u16::from_str_radix(fields[8].trim_start_matches("0x"), 16).unwrap();
                assert_eq!(text("tcp_flags"), flags.to_string(), "{}", place());
                // Of a segment that was cut tshark says what it had.
                if row["captured_bytes"] == row["wire_bytes"] {
                    assert_eq!(text("payload_bytes"), fields[9], "{}", place());
                }
            } else if protocol == Some(17) && !fields[6].is_empty() {
                assert_eq!([text("src_port"), text("dst_port")], fields[6..8]);
            }
            compared += 1;
        }
    }
    assert!(files.is_empty() || compared > 500, "{compared}");
}

#[test]
fn records_are_those_of_the_commands() {
    let test = "records_are_those_of_the_commands";
    let package = Package::new();
    let captures = captures(test);
    if captures.is_empty() {
        return;
    }
    let files: Vec<&str> =
        captures.iter().map(String::as_str).filter(|word| *word != "-r").collect();
    for analyzer in ANALYZERS {
        let mut args = vec![analyzer, "--json"];
        args.extend(captures.iter().map(String::as_str));
        let outcome = run_ringside(&args);
        let expected = records(&outcome);
        let script = format!(
            "b = ringside.open(*sys.argv[1:]).{analyzer}()\nassert b.ledger() is None\nshow(b)\n\
             print(json.dumps(b.ledger()))"
        );
        let outcome = package.run(&script, &files);
        assert_eq!(outcome.code(), Some(0), "{analyzer}: {}", outcome.stderr);
        let mut found = outcome.json_lines();
        let ledger = found.pop().unwrap();
        for record in &mut found {
            let record = record.as_object_mut().unwrap();
            assert_eq!(record.remove("time"), record.get("first_ns").cloned(), "{analyzer}");
        }
        assert_eq!(in_order(found).len(), expected.len(), "{analyzer}");
        assert_eq!(ledger["records"]["records"], expected.len(), "{analyzer}: {ledger}");
        assert_eq!(ledger["records"]["balances"], true, "{analyzer}: {ledger}");
        let script = format!("show(ringside.open(*sys.argv[1:]).{analyzer}())");
        let again = package.run(&script, &files);
        let without_time = |mut record: Value| {
            record.as_object_mut().unwrap().remove("time");
            record
        };
        let again: Vec<_> = again.json_lines().into_iter().map(without_time).collect();
        assert_eq!(in_order(again), in_order(expected), "{analyzer}");
    }
}

/// A file of numbered frames, some of which match a filter, a second apart from each other.
fn numbered(folder: &Path, frames: u8) -> PathBuf {
    let path = folder.join("numbered.pcap");
    let frames: Vec<Vec<u8>> = (0..frames).map(udp_frame).collect();
    write_pcap(&path, frames.iter().map(Vec::as_slice));
    path
}

/// A datagram of IPv4 to port 5000 plus its number.
fn udp_frame(number: u8) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0];
    frame.extend([0x45, 0, 0, 32, 0, number, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    frame.extend(4000_u16.to_be_bytes());
    frame.extend((5000 + u16::from(number)).to_be_bytes());
    frame.extend([0, 12, 0, 0, number, 0, 0, 0]);
    frame
}

#[test]
fn filters_spans_and_limits_are_those_of_find() {
    let package = Package::new();
    let folder = tempfile::tempdir().unwrap();
    let file = numbered(folder.path(), 100);
    let copy = folder.path().join("copy.pcapng.zst");
    let found = package.lines(include_str!("python/which.py"), &[arg(&file), arg(&copy)]);
    let last = run_ringside(&["find", "-r", arg(&file), "--last", "1h", "--count"]);
    let last: u64 = last.text().trim().parse().unwrap();
    let early = run_ringside(&["find", "-r", arg(&file), "--to", "1", "--count"]);
    let early: u64 = early.text().trim().parse().unwrap();
    let expected = json!({
        "all": 100, "some": 2, "no filter": 100, "limited": 7, "one": 1, "last": last,
        "early": early, "saved": 1, "ports": [5010, 5011], "payloads": [11],
    });
    assert_eq!(found[0], expected);
    assert_eq!(found[1], json!([2, 100, 98, "complete", "stopped"]));
    let shown = found[2][1].as_str().unwrap();
    assert!(shown.contains("10.0.0.1:4000 > 10.0.0.2:5010 protocol 17, 46 bytes"), "{shown}");
    assert!(found[2][0].as_str().unwrap().contains("(dst port 5010 or dst port 5011) and (udp)"));
}

#[test]
fn what_is_wrong_is_an_exception_and_what_is_missing_a_warning() {
    let package = Package::new();
    let folder = tempfile::tempdir().unwrap();
    let file = numbered(folder.path(), 10);
    let cut = folder.path().join("cut.pcap");
    let bytes = fs::read(&file).unwrap();
    fs::write(&cut, &bytes[..bytes.len() - 5]).unwrap();
    let text = folder.path().join("text.pcap");
    fs::write(&text, "this is no capture, whatever its name says").unwrap();
    let args = [arg(&file), arg(&cut), arg(&text)];
    let found = package.lines(include_str!("python/wrong.py"), &args);
    let expected = [
        ("ValueError", "needs a file"),
        ("FileNotFoundError", "/none"),
        ("ValueError", "porrt"),
        ("ValueError", "write a date"),
        ("TypeError", "a moment is"),
        ("ValueError", "negative"),
        ("RingsideError", "text.pcap"),
        ("RingsideError", "numbered.pcap"),
        ("ValueError", "porrt"),
        ("FileNotFoundError", "/none"),
        ("ValueError", "last("),
        ("ValueError", "100 years"),
        ("ValueError", "parenthesis"),
        ("ValueError", "100 years"),
        ("ValueError", "1970"),
        ("ValueError", "100 years"),
        ("ValueError", "both sides"),
        ("ValueError", "porrt"),
    ];
    for (line, (kind, text)) in found.iter().zip(expected) {
        assert_eq!(line[0], kind, "{line}");
        assert!(line[1].as_str().unwrap().contains(text), "{line}");
    }
    let rest = &found[expected.len()..];
    for line in &rest[..4] {
        assert_eq!((&line[0], &line[1][0][0]), (&json!(9), &json!("RingsideWarning")), "{line}");
        assert!(line[1][0][1].as_str().unwrap().contains("cut.pcap"), "{line}");
        assert_eq!(line[1].as_array().unwrap().len(), 1, "{line}");
    }
    assert_eq!(rest[4..], [json!("incomplete"), json!("RingsideWarning")]);
}

#[test]
fn many_flows_that_end_at_once_are_several_batches_and_an_account_at_any_time() {
    const FLOWS: u64 = 40_000;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("scan.pcap");
    let frames: Vec<Vec<u8>> = (0..FLOWS)
        .map(|number| {
            let mut frame = udp_frame(0);
            frame[34..36].copy_from_slice(&(number as u16).to_be_bytes());
            frame[29] = (number >> 16) as u8;
            frame
        })
        .collect();
    write_pcap(&path, frames.iter().map(Vec::as_slice));
    let script = "flows = iter(ringside.open(sys.argv[1]).flows())\n\
        sizes = [len(next(flows))]\n\
        print(json.dumps(flows.ledger()['records']))\n\
        sizes += [len(batch) for batch in flows]\n\
        print(json.dumps([sizes, flows.ledger()['records']]))\n\
        early = ringside.open(sys.argv[1]).flows()\n\
        iterator = iter(early)\nnext(iterator)\ndel iterator\n\
        print(json.dumps(early.ledger()['records']))";
    let lines = Package::new().lines(script, &[arg(&path)]);
    let counts = |account: &Value| {
        assert_eq!(account["balances"], true, "{account}");
        [&account["received"]["packets"], &account["records"], &account["waiting"]]
            .map(|count| count.as_u64().unwrap())
    };
    let sizes: Vec<u64> = serde_json::from_value(lines[1][0].clone()).unwrap();
    assert!(sizes.len() > 2 && sizes.iter().all(|&rows| rows <= 16_384), "{sizes:?}");
    assert_eq!(sizes.iter().sum::<u64>(), FLOWS);
    assert_eq!(counts(&lines[0]), [FLOWS, FLOWS, FLOWS - sizes[0]]);
    assert_eq!(counts(&lines[1][1]), [FLOWS, FLOWS, 0]);
    // Of a reading that was given up, what it did not hand on is counted.
    assert_eq!(counts(&lines[2]), [FLOWS, FLOWS, FLOWS - sizes[0]]);
}

#[test]
fn pyarrow_polars_pandas_and_duckdb_read_the_columns() {
    let test = "pyarrow_polars_pandas_and_duckdb_read_the_columns";
    let package = Package::new();
    let Some(file) = whole_captures(test, 1).into_iter().find(|file| arg(file).contains("mixed"))
    else {
        return;
    };
    let sums = "import collections\nq = ringside.open(sys.argv[1])\n\
        s = collections.Counter()\n\
        for row in rows(q.batches()): s[row.get('src')] += row['wire_bytes']\n\
        flows = sorted(row['bytes'] for row in rows(q.flows()))\n";
    for (module, script) in [
        (
            "pyarrow",
            "import pyarrow as pa\nt = pa.table(q.batches())\n\
             g = t.group_by('src').aggregate([('wire_bytes', 'sum')])\n\
             found = dict(zip(g['src'].to_pylist(), g['wire_bytes_sum'].to_pylist()))\n\
             few = [pa.record_batch(b).num_rows for b in q.batches()]\nassert sum(few) == len(t)\n\
             got = sorted(pa.table(q.flows())['bytes'].to_pylist())",
        ),
        (
            "polars",
            "import polars as pl\nt = pl.DataFrame(q.batches())\n\
             g = t.group_by('src').agg(pl.col('wire_bytes').cast(pl.UInt64).sum())\n\
             found = dict(g.iter_rows())\n\
             assert sum(pl.DataFrame(b).height for b in q.batches()) == t.height\n\
             got = sorted(pl.DataFrame(q.flows())['bytes'].to_list())",
        ),
        (
            "pandas",
            "import pandas as pd\nt = pd.DataFrame.from_arrow(q.batches())\n\
             g = t.groupby('src', dropna=False)['wire_bytes'].sum()\n\
             found = {None if pd.isna(k) else k: int(v) for k, v in g.items()}\n\
             got = sorted(pd.DataFrame.from_arrow(q.flows())['bytes'].tolist())",
        ),
        (
            "duckdb",
            "import duckdb\nb, f = q.batches(), q.flows()\n\
             found = {k: int(v) for k, v in\n    \
                 duckdb.sql('SELECT src, sum(wire_bytes) FROM b GROUP BY src').fetchall()}\n\
             got = [v for v, in duckdb.sql('SELECT bytes FROM f ORDER BY 1').fetchall()]",
        ),
    ] {
        if !package.has(test, module) {
            continue;
        }
        let end = "\nassert found == dict(s), (found, s)\nassert got == flows\n\
            print(json.dumps(len(got)))";
        let outcome = package.run(&format!("{sums}{script}{end}"), &[arg(&file)]);
        assert_eq!(outcome.code(), Some(0), "{module}: {}", outcome.stderr);
        assert!(outcome.json_lines()[0].as_u64() > Some(10), "{module}");
    }
}
