use super::super::measure::Sample;
use super::super::process::CpuTime;
use super::super::search::ZeroLoss;
use super::*;

/// Every tool to every place, at three sizes and a mix, with and without snapshot lengths.
fn results() -> Results {
    let mut results = Results::default();
    let sizes = ["64", "512", "1514", "imix"].map(|text| text.parse::<FrameSizes>().unwrap());
    let sample = |mps: f64| Sample {
        offered: 2_000_000,
        handed: 2_000_000,
        received: (mps * 1e6) as u64,
        before: 0,
        named_lost: None,
        load_seconds: 1.0,
        cpu: CpuTime::default(),
        stored_bytes: None,
        drain_seconds: 0.0,
    };
    for (index, &tool) in Tool::value_variants().iter().enumerate() {
        for destination in [Destination::Memory, Destination::Disk] {
            let setup = Setup { tool, destination, snaplen: None };
            for size in &sizes {
                let mps = 1.4 - 0.0004 * size.mean_bytes() - 0.1 * index as f64;
                results.add(setup, size, sample(mps));
                let rate_per_sec = mps * 0.9e6;
                let found = ZeroLoss { rate_per_sec, at_limit: mps > 1.3, loads: 9 };
                results.add_zero_loss(setup, size, found);
            }
        }
    }
    for size in &sizes {
        let ours = |destination, snaplen| Setup { tool: Tool::Ringside, destination, snaplen };
        results.add(ours(Destination::Nowhere, None), size, sample(1.45));
        for snaplen in [18, 64, 200] {
            results.add(ours(Destination::Memory, Some(snaplen)), size, sample(1.4));
        }
    }
    results
}

#[test]
fn every_figure_is_drawn_with_its_words() {
    let dir = tempfile::tempdir().unwrap();
    draw(&results(), dir.path()).unwrap();
    let words: [(&str, &[&str]); 5] = [
        ("full-load-tmpfs.svg", &["tcpdump", "frame size in bytes", "million frames a second"]),
        ("full-load-disk.svg", &["stenotype", "to new files on a disk"]),
        ("figure-4.5.svg", &["discard", "tmpfs", "Gbit/s of frames"]),
        ("figure-4.6.svg", &["18 bytes", "200 bytes", "whole frames"]),
        ("zero-loss.svg", &["netsniff-ng", "1514 to disk", "≥"]),
    ];
    for (file, words) in words {
        let svg = std::fs::read_to_string(dir.path().join(file)).unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"), "{file}");
        for word in words {
            assert!(svg.contains(word), "{word} in {file}");
        }
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), words.len());
}

#[test]
fn what_was_not_measured_is_not_drawn() {
    let dir = tempfile::tempdir().unwrap();
    draw(&Results::default(), dir.path()).unwrap();
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn lines_go_from_small_to_large_and_mixes_stand_apart() {
    let results = results();
    let setup = Setup { tool: Tool::Ringside, destination: Destination::Memory, snaplen: None };
    let line = Line::new("x", &results, setup, |row| row.median(Sample::received_mps));
    let sizes: Vec<f64> = line.points.iter().map(|point| point.0).collect();
    assert_eq!(sizes, [64.0, 512.0, 1514.0]);
    assert_eq!(line.mixes.len(), 1);
    assert_eq!(snaplens(&results), [Some(18), Some(64), Some(200), None]);
}
