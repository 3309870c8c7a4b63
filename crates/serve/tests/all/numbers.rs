//! The numbers of every way to ask are those of the ledger.

use crate::common::{limits, with_service};
use ringside_core::ledger::ByCause;
use ringside_core::{Cause, Consumer, LaneCounters, Ledger};
use ringside_serve::Config;
use ringside_testkit::need_tool;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

/// Every term and every cause has a number of its own.
fn ledger() -> Ledger {
    let dropped: ByCause = Cause::ALL.into_iter().zip(100..).collect();
    let lane = |interface: &str, queue: u16| LaneCounters {
        interface: interface.into(),
        queue,
        received: Some(1_000_000),
        taken: 990_000,
        taken_bytes: 77_000_000,
        passed: 11,
        filtered: Some(22),
        in_flight: Some(33),
        dropped: dropped.clone(),
        ..LaneCounters::default()
    };
    let mut ledger = Ledger::from_lanes(vec![lane("rx0", 0), lane("rx0", 1), lane("rx\"1\\", 0)]);
    let missed: ByCause = Cause::ALL.into_iter().zip(200..).collect();
    let name = "recorder".into();
    ledger.consumers.push(Consumer { name, delivered: 2_900_000, late: 7, missed });
    ledger
}

fn config() -> Config {
    Config { limits: limits(), ..Config::default() }
}

/// Series of the text format with their values: an independent reader of what is written here.
fn series(text: &str) -> BTreeMap<String, f64> {
    let mut types = BTreeMap::new();
    let mut series = BTreeMap::new();
    for line in text.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            let (name, kind) = rest.split_once(' ').unwrap();
            assert!(["counter", "gauge"].contains(&kind), "{line}");
            assert!(types.insert(name, kind).is_none(), "{name} is there twice");
        } else if !line.starts_with('#') {
            let (name, value) = line.rsplit_once(' ').unwrap();
            let family = name.split('{').next().unwrap();
            assert_eq!(types.get(family) == Some(&"counter"), family.ends_with("_total"), "{line}");
            assert!(types.contains_key(family), "{family} has no type");
            let before = series.insert(name.to_owned(), value.parse().unwrap());
            assert!(before.is_none(), "{name} is there twice");
        }
    }
    series
}

#[test]
fn every_way_to_ask_gives_the_numbers_of_the_ledger() {
    let ledger = ledger();
    with_service(ledger.clone(), config(), |service| {
        let captures = service.captures();
        let capture = &captures["captures"][0];
        assert_eq!(capture["status"]["ledger"], json!(ledger));
        assert_eq!(capture["lost"], ledger.lost());
        let id = capture["id"].as_u64().unwrap();
        let path = format!("/api/v1/captures/{id}");
        assert_eq!(service.get(&format!("{path}/ledger")).json(), json!(ledger));
        assert_eq!(service.get(&path).json()["status"]["ledger"], json!(ledger));

        let health = service.get("/api/v1/health").json();
        assert_eq!(health["ok"], false);
        let stages = health["captures"][0]["stages"].as_array().unwrap();
        let names: Vec<_> = stages.iter().map(|stage| &stage["name"]).collect();
        assert_eq!(names, [&json!("rx\"1\\"), &json!("rx0"), &json!("recorder")]);
        let lost = |stage: &Value| {
            stage["lost"].as_object().unwrap().values().map(|n| n.as_u64().unwrap()).sum::<u64>()
        };
        assert_eq!(stages.iter().map(lost).sum::<u64>(), ledger.lost());
        assert_eq!(stages[1]["input"], 2_000_000);
    });
}

#[test]
fn metrics_are_the_ledger_and_their_judge_takes_them() {
    let ledger = ledger();
    with_service(ledger.clone(), config(), |service| {
        let id = service.captures()["captures"][0]["id"].as_u64().unwrap();
        let answer = service.get("/metrics");
        assert!(answer.head.contains("content-type: text/plain; version=0.0.4"), "{}", answer.head);
        let series = series(&answer.body);
        let sum = |name: &str, label: &str| -> f64 {
            let start = format!("ringside_{name}{{capture=\"{id}\"");
            let those =
                series.iter().filter(|(one, _)| one.starts_with(&start) && one.contains(label));
            those.map(|(_, value)| value).sum()
        };
        assert_eq!(sum("received_frames_total", ""), 3_000_000.0);
        assert_eq!(sum("received_frames_total", "interface=\"rx0\""), 2_000_000.0);
        assert_eq!(sum("taken_frames_total", "interface=\"rx\\\"1\\\\\""), 990_000.0);
        assert_eq!(sum("delivered_frames_total", "reader=\"recorder\""), 2_900_000.0);
        assert_eq!(sum("in_flight_frames", ""), 99.0);
        for (cause, &frames) in &ledger.dropped {
            let label = format!("cause=\"{}\"", cause.name());
            assert_eq!(sum("dropped_frames_total", &label), frames as f64, "{cause:?}");
        }
        let losses = "loss=\"yes\"";
        let lost = sum("dropped_frames_total", losses) + sum("missed_frames_total", losses);
        assert_eq!(lost, ledger.lost() as f64);
        judged(&answer.body);
    });
}

/// Prometheus takes a series that begins with its first loss for one that has no increase.
#[test]
fn a_cause_of_loss_has_a_series_before_the_first_loss() {
    let mut ledger = Ledger::from_lanes(vec![LaneCounters::default()]);
    ledger.consumers.push(Consumer { name: "recorder".into(), ..Consumer::default() });
    with_service(ledger, config(), |service| {
        let series = series(&service.get("/metrics").body);
        for name in ["dropped_frames_total", "missed_frames_total"] {
            let start = format!("ringside_{name}{{");
            let of_it = || series.iter().filter(|(one, _)| one.starts_with(&start));
            let losses = Cause::ALL.into_iter().filter(|cause| cause.is_loss());
            assert_eq!(of_it().count(), losses.clone().count(), "{name}");
            for cause in losses {
                let label = format!("cause=\"{}\",loss=\"yes\"", cause.name());
                assert!(of_it().any(|(one, &value)| one.contains(&label) && value == 0.0));
            }
        }
    });
}

#[test]
fn the_dashboard_asks_for_metrics_that_there_are() {
    let dashboard = include_str!("../../../../packaging/grafana.json");
    let dashboard: Value = serde_json::from_str(dashboard).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().unwrap());
    let asked: BTreeSet<&str> = targets
        .flat_map(|target| target["expr"].as_str().unwrap().split(|c: char| !is_of_name(c)))
        .filter(|word| word.starts_with("ringside_"))
        .collect();
    assert!(asked.len() >= 10, "{asked:?}");
    with_service(ledger(), config(), |service| {
        let metrics = service.get("/metrics").body;
        let is_there = |name: &&&str| series(&metrics).keys().any(|one| one.starts_with(**name));
        let missing: Vec<_> = asked.iter().filter(|name| !is_there(name)).collect();
        // The fake has no ring.
        assert_eq!(missing, [&"ringside_ring_held_bytes", &"ringside_ring_lane_bytes"]);
    });
}

fn is_of_name(char: char) -> bool {
    char.is_ascii_alphanumeric() || char == '_'
}

#[test]
fn a_service_of_metrics_alone_answers_for_nothing_else() {
    with_service(ledger(), Config { metrics_only: true, ..config() }, |service| {
        assert!(series(&service.get("/metrics").body).len() > 10);
        for path in ["/", "/app.js", "/api/v1/captures", "/api/v1/session", "/api/v1/openapi.json"]
        {
            assert_eq!(service.get(path).status, 404, "{path}");
        }
    });
}

/// By Prometheus' own checker.
fn judged(metrics: &str) {
    if !need_tool("numbers::metrics_are_the_ledger", "promtool") {
        return;
    }
    let mut promtool = Command::new("promtool");
    promtool.args(["check", "metrics"]).stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut child = promtool.spawn().unwrap();
    child.stdin.take().unwrap().write_all(metrics.as_bytes()).unwrap();
    let outcome = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&outcome.stderr);
    assert!(outcome.status.success() && said.is_empty(), "{said}");
}

/// The next event that is no comment: its name, id and data.
fn event(lines: &mut impl Iterator<Item = String>) -> (String, Option<u64>, Value) {
    let (mut name, mut id, mut data) = (String::new(), None, None);
    for line in lines {
        match line.split_once(": ") {
            Some(("event", text)) => name = text.to_owned(),
            Some(("id", text)) => id = text.parse().ok(),
            Some(("data", text)) => data = serde_json::from_str(text).ok(),
            _ => {}
        }
        if line.is_empty()
            && let Some(data) = data.take()
        {
            return (name, id, data);
        }
    }
    panic!("the stream ended");
}

#[test]
fn a_stream_of_events_goes_on_where_it_was_left() {
    with_service(ledger(), config(), |service| {
        service.captures();
        let open = |last: &str| {
            let mut stream = service.connect();
            let host = &service.address;
            let request = format!("GET /api/v1/events HTTP/1.1\r\nHost: {host}\r\n{last}\r\n");
            stream.write_all(request.as_bytes()).unwrap();
            BufReader::new(stream).lines().map(Result::unwrap)
        };
        let mut lines = open("");
        let (name, _, history) = event(&mut lines);
        assert_eq!(name, "history");
        assert!(!history.as_array().unwrap().is_empty());
        let (name, id, captures) = event(&mut lines);
        assert_eq!((name.as_str(), id), ("captures", captures["sequence"].as_u64()));
        let (_, later, captures) = event(&mut lines);
        assert!(later > id && captures["captures"][0]["lost"] == ledger().lost());
        drop(lines);
        let mut lines = open(&format!("Last-Event-ID: {}\r\n", later.unwrap()));
        let (_, _, history) = event(&mut lines);
        let of = |sample: &Value| sample["sequence"].as_u64();
        assert!(history.as_array().unwrap().iter().all(|sample| of(sample) > later), "{history}");
    });
}
