//! Recordings made up for the purpose.

use super::*;

/// Frames are a microsecond apart, those of one flow four.
const FRAME_NS: u64 = 1000;
const START_NS: u64 = 1_795_335_600_000_000_000;

/// Frames 0 to `count` of the two flows, but for those of the subject that `is_dropped`.
fn frames(count: u64, is_dropped: impl Fn(u64) -> bool) -> Vec<Seen> {
    (0..count)
        .filter(|number| {
            number % FLOWS == WITNESS || (number % FLOWS == SUBJECT && !is_dropped(*number))
        })
        .map(|number| Seen { number, stamp_ns: START_NS + number * FRAME_NS })
        .collect()
}

/// A change whose request was read when frame `number` came, after 500 ns under way.
fn at(number: u64) -> Change {
    let read_ns = START_NS + number * FRAME_NS;
    Change { sent_ns: read_ns - 500, read_ns, took_ns: 700 }
}

fn pair(add: u64, delete: u64) -> Pair {
    Pair { add: at(add), delete: at(delete) }
}

#[test]
fn a_change_is_as_late_as_the_frame_that_shows_it() {
    // The rule is there from frame 1012 to 1999, and from 3004 to 3999.
    let seen = frames(6000, |n| (1012..2000).contains(&n) || (3004..4000).contains(&n));
    let found = analyse(&seen, &[pair(1000, 1990), pair(3001, 4000)], false).unwrap();
    let delays = |effects: &[Effect]| effects.iter().map(|e| e.delay_ns).collect::<Vec<_>>();
    assert_eq!(delays(&found.adds), [8_000, -1_000]);
    assert_eq!(delays(&found.deletes), [10_000, 0]);
    assert_eq!(found.adds[0].since_sent_ns, 8_500);
    assert_eq!(found.adds[0].took_ns, 700);
    assert!(found.adds.iter().chain(&found.deletes).all(|effect| !effect.is_paused));
    assert_eq!((found.spacing_ns, found.recorded), (4 * FRAME_NS, seen.len() as u64));
    assert_eq!(found.dropped, (988 + 996) / 4);
    assert_eq!((found.lost, found.stray, found.unseen), (0, 0, 0));
    // Of the frames 1004 and 1008, which came through after the answer, one may have been on its
    // way.
    assert_eq!(found.belated, 1);
}

#[test]
fn a_frame_judged_by_half_of_a_change_is_a_stray_run() {
    let pairs = [pair(1000, 2000), pair(3000, 4000)];
    let dropped = |n: u64| (1004..2004).contains(&n) || (3004..4004).contains(&n);
    for (name, lets_through, drops) in [
        ("one gets through while the rule is there", Some(1500), None),
        ("one is missing before the first change", None, Some(100)),
        ("one is missing between two", None, Some(2400)),
        ("one is missing just before the next change", None, Some(2900)),
        ("one is missing after the last", None, Some(5000)),
    ] {
        let seen = frames(6000, |n| (dropped(n) && Some(n) != lets_through) || Some(n) == drops);
        let found = analyse(&seen, &pairs, false).unwrap();
        assert_eq!((found.stray, found.lost, found.unseen), (1, 0, 0), "{name}");
    }
}

#[test]
fn a_change_without_an_effect_is_unseen() {
    let seen = frames(6000, |n| (1004..2004).contains(&n));
    let found = analyse(&seen, &[pair(1000, 2000), pair(3000, 4000)], false).unwrap();
    assert_eq!((found.adds.len(), found.unseen, found.stray), (1, 1, 0));
}

#[test]
fn where_frames_are_judged_late_a_whole_run_may_lie_before_its_change() {
    let seen = frames(6000, |n| (604..904).contains(&n) || (2704..3804).contains(&n));
    let pairs = [pair(1000, 2000), pair(3000, 4000)];
    let found = analyse(&seen, &pairs, true).unwrap();
    assert_eq!((found.stray, found.unseen, found.belated), (0, 0, 0));
    assert_eq!(found.adds.iter().map(|e| e.delay_ns).collect::<Vec<_>>(), [-400_000, -300_000]);
    let found = analyse(&seen, &pairs, false).unwrap();
    assert_eq!((found.stray, found.unseen), (1, 1));
    // One run too many is one too many.
    let seen = frames(6000, |n| (604..904).contains(&n) || n == 952 || (1004..3804).contains(&n));
    assert_eq!(analyse(&seen, &[pair(1000, 4000)], true).unwrap().stray, 2);
}

#[test]
fn an_answer_that_was_not_true_is_found() {
    // Of two more frames than may be under way, and of one that did not come back.
    let dropped = |n: u64| (1012..2004).contains(&n) || (3004..4024).contains(&n);
    let found = analyse(&frames(6000, dropped), &[pair(1000, 2000), pair(3000, 4000)], false);
    assert_eq!(found.unwrap().belated, 1);
    let seen = frames(6000, |n| (1004..2004).contains(&n) || n == 2400);
    let found = analyse(&seen, &[pair(1000, 2000)], false).unwrap();
    assert_eq!((found.belated, found.stray), (1, 1));
}

#[test]
fn a_lost_frame_of_the_other_flow_is_lost() {
    let mut seen = frames(3000, |n| (1004..2004).contains(&n));
    seen.retain(|frame| frame.number != 2001 && frame.number != 2005);
    assert_eq!(analyse(&seen, &[pair(1000, 2000)], false).unwrap().lost, 2);
}

#[test]
fn a_pause_of_the_receiving_cpu_is_recognised() {
    let mut seen = frames(6000, |n| (1004..2004).contains(&n) || (3004..4004).contains(&n));
    // From frame 3003 on all are 300 us late, as if the machine had stood still.
    for frame in seen.iter_mut().filter(|frame| frame.number >= 3003) {
        frame.stamp_ns += 3 * PAUSE_NS;
    }
    let mut pairs = [pair(1000, 2000), pair(3000, 4000)];
    pairs[1].delete.read_ns += 3 * PAUSE_NS;
    // The rule is found to be there only behind it.
    seen.insert(
        seen.partition_point(|frame| frame.number < 3004),
        Seen { number: 3004, stamp_ns: START_NS + 3004 * FRAME_NS + 3 * PAUSE_NS },
    );
    let found = analyse(&seen, &pairs, false).unwrap();
    assert_eq!(found.adds.iter().map(|e| e.is_paused).collect::<Vec<_>>(), [false, true]);
    assert_eq!(found.adds[1].delay_ns, 304_000);
    assert!(found.deletes.iter().all(|effect| !effect.is_paused));
}

#[test]
fn a_recording_out_of_order_or_without_a_flow_is_refused() {
    let mut seen = frames(100, |_| false);
    seen.swap(10, 11);
    assert!(analyse(&seen, &[], false).unwrap_err().to_string().contains("order"));
    let twice = [frames(100, |_| false), frames(100, |_| false)].concat();
    assert!(analyse(&twice, &[], false).is_err());
    assert!(
        analyse(&frames(100, |_| true), &[], false).unwrap_err().to_string().contains("25 frames")
    );
    assert!(analyse(&[], &[], false).is_err());
}
