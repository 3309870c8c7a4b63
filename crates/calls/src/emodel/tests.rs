use super::*;

fn near(value: f64, expected: f64, tolerance: f64) {
    assert!((value - expected).abs() <= tolerance, "{value} is not {expected}");
}

/// A codec under loss, without bursts.
fn under(ie: f64, bpl: f64, loss_percent: f64) -> Impairments {
    Impairments { delay_ms: 0.0, ie, bpl, loss_percent, burst_ratio: 1.0 }
}

#[test]
fn the_defaults_are_those_of_the_recommendation() {
    let r = r_factor(&under(0.0, 4.3, 0.0));
    near(r, 93.2, 0.05);
    near(mos(r), 4.41, 0.005);
}

/// G.107, table B.1: R and MOS at the limits of the categories of quality.
#[test]
fn r_is_mos_as_the_recommendation_has_it() {
    for (r, expected) in [(90.0, 4.34), (80.0, 4.03), (70.0, 3.60), (60.0, 3.10), (50.0, 2.58)] {
        // It rounds 4.024 up.
        near(mos(r), expected, 0.0065);
    }
    assert_eq!([mos(-5.0), mos(0.0), mos(3.0), mos(100.0), mos(110.0)], [1.0, 1.0, 1.0, 4.5, 4.5]);
}

/// Ie,eff at 2 % loss as a table of ICAO has it: 7, 19 and 24.
#[test]
fn loss_costs_what_published_tables_say() {
    for ((ie, bpl), expected) in [((0.0, 25.1), 7.0), ((11.0, 19.0), 19.0), ((15.0, 16.1), 24.0)] {
        near(93.2 - r_factor(&under(ie, bpl, 2.0)), expected, 0.3);
    }
}

/// Cole and Rosenbluth, "Voice over IP performance monitoring" (2001): 0.024 d, and
/// 0.11 (d - 177.3) more beyond that; a fit to the model, within a few points.
#[test]
fn delay_costs_what_its_usual_approximation_says() {
    for delay_ms in [50.0, 100.0, 150.0, 200.0, 300.0, 400.0] {
        let of = Impairments { delay_ms, ..under(0.0, 25.1, 0.0) };
        let usual = 0.024 * delay_ms + 0.11 * (delay_ms - 177.3f64).max(0.0);
        near(93.2 - r_factor(&of), usual, 4.0);
    }
}

#[test]
fn more_of_anything_bad_is_never_better() {
    for (ie, bpl) in [(0.0, 4.3), (0.0, 25.1), (11.0, 19.0), (15.0, 16.1), (5.0, 10.0)] {
        let mut before = f64::MAX;
        for loss in 0..=200 {
            let r = r_factor(&under(ie, bpl, f64::from(loss) / 2.0));
            assert!(r < before, "{ie} {bpl} {loss}: {r} after {before}");
            assert!((1.0..=4.5).contains(&mos(r)));
            before = r;
        }
        let mut before = f64::MAX;
        // Within a few milliseconds an echo helps the speaker, in the model too.
        for delay_ms in 20..600 {
            let r = r_factor(&Impairments { delay_ms: delay_ms.into(), ..under(ie, bpl, 1.0) });
            assert!(r <= before + 1e-9, "{delay_ms} ms");
            before = r;
        }
        let bursty = Impairments { burst_ratio: 2.0, ..under(ie, bpl, 5.0) };
        assert!(r_factor(&bursty) < r_factor(&under(ie, bpl, 5.0)));
    }
    assert!(mos(r_factor(&under(0.0, 25.1, 10.0))) < 3.5, "never 4.5 under 10 % loss");
}
