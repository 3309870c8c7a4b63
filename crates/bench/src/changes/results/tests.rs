//! Tables and lines of made-up figures.

use super::super::rate::Window;
use super::*;

fn effect(delay_us: i64, is_paused: bool) -> Effect {
    let delay_ns = delay_us * 1000;
    Effect { delay_ns, since_sent_ns: delay_ns + 2000, took_ns: 1500, is_paused }
}

fn results() -> Results {
    let adds: Vec<Effect> =
        (1..=199).map(|us| effect(us, false)).chain([effect(5000, true)]).collect();
    let analysis = Analysis {
        adds,
        deletes: vec![effect(-3, false)],
        spacing_ns: 5000,
        recorded: 1000,
        dropped: 10,
        ..Analysis::default()
    };
    let window = |kind, rate| Window { kind, frames_per_sec: rate, changes_per_sec: 998.0 };
    let windows = vec![window(None, 4e6), window(Some(RuleKind::Exact), 3.8e6), window(None, 4e6)];
    Results {
        effects: vec![EffectRow {
            judge: Judge::Driver,
            kind: RuleKind::Exact,
            frames_per_sec: 8e5,
            analysis,
        }],
        rates: Some(Rates { windows }),
        failures: Vec::new(),
    }
}

#[test]
fn percentiles_are_of_the_sorted_delays_and_pauses_are_apart() {
    let all = Delays::of(&results().effects[0].analysis.adds, |effect| effect.delay_ns);
    assert_eq!((all.median(), all.p99(), all.max()), (101.0, 198.0, 5000.0));
    let calm = Delays::calm(&results().effects[0].analysis.adds);
    assert_eq!((calm.p99(), calm.max()), (198.0, 199.0));
    let none = Delays::of(&[], |effect| effect.delay_ns);
    assert!(none.p99().is_nan() && none.max().is_nan() && none.median().is_nan());
}

#[test]
fn every_figure_is_in_the_table_the_file_and_the_lines() {
    let results = results();
    let text = results.text();
    for part in ["driver  exact  add", "5000.0", "stray runs", "95.0", "998"] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let csv = results.csv();
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines[0], COLUMNS.join(","));
    assert_eq!(lines.len(), 1 + 2 + 2, "{csv}");
    assert!(lines.iter().all(|line| line.split(',').count() == COLUMNS.len()), "{csv}");
    assert!(lines[1].starts_with("effect,driver,exact,add,200,101.0,198.0,5000.0,198.0,199.0,1,"));
    let rows: Vec<Value> =
        results.json().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(rows[3]["figure"], "rate");
    assert_eq!(rows[2]["kept_percent"], 95.0);
    // Of the wildcards there is nothing to tell.
    assert_eq!(rows[3]["kept_percent"], Value::Null);
}

#[test]
fn frames_are_whole_only_if_nothing_is_lost_or_stray() {
    assert!(results().are_frames_whole());
    let spoils: [fn(&mut Analysis); 3] = [|a| a.lost = 1, |a| a.stray = 1, |a| a.belated = 1];
    for spoil in spoils {
        let mut results = results();
        spoil(&mut results.effects[0].analysis);
        assert!(!results.are_frames_whole());
    }
}
