use super::*;
use clap::Parser;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    record: RecordBench,
}

fn parse(line: &str) -> Result<RecordBench, clap::Error> {
    Line::try_parse_from(["bench"].into_iter().chain(line.split_whitespace())).map(|l| l.record)
}

#[test]
fn figures_share_their_loads() {
    let args = parse("--sizes 64,imix").unwrap();
    assert_eq!(args.memory, crate::tools::MEMORY_BYTES);
    let plan = Plan::new(&args, &[Tool::Ringside, Tool::Tcpdump]);
    // At each size: two tools to two places, discarding, three snapshot lengths.
    assert_eq!(plan.loads.len(), 2 * (4 + 1 + 3));
    // Two sizes, two tools, two places.
    assert_eq!(plan.searches.len(), 8);

    let args = parse("--figure 4.5 --to tmpfs --sizes 64").unwrap();
    let plan = Plan::new(&args, &[Tool::Ringside, Tool::Tcpdump]);
    assert_eq!((plan.loads.len(), plan.searches.len()), (2, 0));
}

#[test]
fn the_estimate_grows_with_what_is_asked_for() {
    let estimate = |line: &str| {
        let args = parse(line).unwrap();
        Plan::new(&args, &[Tool::Ringside, Tool::Tcpdump]).estimate()
    };
    let small = estimate("--figure load --sizes 64 --rounds 1 --for 1s");
    assert!(small > Duration::from_secs(4 * 2) && small < Duration::from_secs(60), "{small:?}");
    assert!(estimate("--figure load --sizes 64 --rounds 5 --for 1s") > small * 2);
    assert!(estimate("--figure load,zero-loss --sizes 64 --rounds 1 --for 1s") > small * 2);
}

#[test]
fn slips_are_refused() {
    for line in ["--figure 4.7", "--tools gulp", "--sizes 9", "--resolution 0", "--rounds 0"] {
        assert!(parse(line).is_err(), "{line}");
    }
}
