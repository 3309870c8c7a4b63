use super::super::contender::{Contender, Way};
use super::super::results::Cell;
use super::*;
use crate::measure::Sample;
use crate::process::CpuTime;
use crate::search::ZeroLoss;
use clap::ValueEnum;
use ringside_terminal::Wait;

/// Every kind at three sizes and a mix, on 1, 6 and 12 queues in one placement and one in the
/// other.
fn results() -> Results {
    let mut results = Results::default();
    let way = |has_stamps, threads, ring_snaplen: Option<u32>| {
        let filter = ring_snaplen.map(|_| "net 10.0.0.0/8".to_owned());
        Way { wait: Wait::Spin, has_stamps, threads, filter, ring_snaplen }
    };
    let ways =
        [way(true, 1, None), way(false, 1, None), way(true, 4, None), way(true, 1, Some(64))];
    let contenders = Contender::all(Kind::value_variants(), &ways);
    for (placement, all_queues) in
        [(Placement::Own, &[1, 6, 12][..]), (Placement::Shared, &[1][..])]
    {
        for &queues in all_queues {
            for (index, contender) in contenders.iter().enumerate() {
                for size in ["64", "512", "1514", "imix"] {
                    let (sizes, contender) = (size.parse().unwrap(), contender.clone());
                    let mut row = Row::new(Cell { placement, contender, queues, sizes });
                    let received =
                        1_000_000 * (contenders.len() - index) as u64 / u64::from(queues);
                    row.samples.push(Sample {
                        offered: received,
                        handed: received,
                        received,
                        before: 0,
                        named_lost: None,
                        load_seconds: 1.0,
                        cpu: CpuTime::default(),
                        stored_bytes: None,
                        drain_seconds: 0.0,
                    });
                    let rate_per_sec = received as f64;
                    let found = ZeroLoss { rate_per_sec, at_limit: false, loads: 9 };
                    if placement == Placement::Own && queues == 1 {
                        row.zero_loss.push(found);
                    }
                    results.rows.push(row);
                }
            }
        }
    }
    results
}

#[test]
fn every_figure_is_drawn_with_its_words() {
    let dir = tempfile::tempdir().unwrap();
    draw(&results(), dir.path()).unwrap();
    let words: [(&str, &[&str]); 6] = [
        ("figure-13-own.svg", &["ringside spin, no stamps", "xdp-pass", "CPU of its own"]),
        ("figure-13-shared.svg", &["testpmd-af-xdp", "million frames a second"]),
        (
            "figure-14-own-ringside-spin.svg",
            &["12 queues, no stamps", "6 queues", "one queue each"],
        ),
        ("figure-14-own-tcpdump.svg", &["1 queue", "12 queues"]),
        ("figure-4.3.svg", &["ringside spin, 4 threads", "Gbit/s of frames, received"]),
        ("figure-4.2.svg", &["Highest rate without a lost frame", "Gbit/s of frames"]),
    ];
    for (file, words) in words {
        let svg = std::fs::read_to_string(dir.path().join(file)).unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"), "{file}");
        for word in words {
            assert!(svg.contains(word), "{word} in {file}");
        }
    }
    // Ringside with four threads is a chart of its own.
    let by_queues = Kind::value_variants().len() + 1;
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2 + by_queues + 2);
    let by_tool = std::fs::read_to_string(dir.path().join("figure-13-own.svg")).unwrap();
    assert!(!by_tool.contains("4 threads"));
    // By queues and threads those are shown that do no more than count.
    assert!(by_tool.contains("64 bytes into the ring"));
}

#[test]
fn nothing_measured_draws_nothing() {
    let dir = tempfile::tempdir().unwrap();
    draw(&Results::default(), dir.path()).unwrap();
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}
