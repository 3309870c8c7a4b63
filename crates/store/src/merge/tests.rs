use super::*;
use proptest::prelude::*;

/// Everything in a merger that is fed one item of a random lane at a time.
fn merge(lanes: &[Vec<u64>], hold_ns: Option<u64>, order: &[usize]) -> (Vec<Popped<usize>>, u64) {
    let mut merger = Merger::new(lanes.len(), hold_ns);
    let mut next = vec![0; lanes.len()];
    let mut out = Vec::new();
    let mut now = 0;
    let feed = order.iter().map(|lane| lane % lanes.len());
    let rest = (0..lanes.len()).flat_map(|lane| std::iter::repeat_n(lane, lanes[lane].len()));
    for lane in feed.chain(rest) {
        now += 1;
        if let Some(&stamp) = lanes[lane].get(next[lane]) {
            merger.push(lane, stamp, now, next[lane]);
            next[lane] += 1;
            if next[lane] == lanes[lane].len() {
                merger.advance(lane, u64::MAX);
            }
        }
        out.extend(std::iter::from_fn(|| merger.pop(now)));
        if let Some(hold) = hold_ns {
            assert!(merger.expires_ns().is_none_or(|at| at > now && at <= now + hold));
        }
    }
    (0..lanes.len()).for_each(|lane| merger.advance(lane, u64::MAX));
    out.extend(std::iter::from_fn(|| merger.pop(now)));
    assert!(merger.is_empty() && merger.blocking_lane().is_none());
    (out, merger.late())
}

fn lanes_of(stamps: impl Strategy<Value = u64>) -> impl Strategy<Value = Vec<Vec<u64>>> {
    prop::collection::vec(prop::collection::vec(stamps, 0..40), 1..6)
}

/// Checks what holds for every merge; returns the keys in order of output.
fn check(lanes: &[Vec<u64>], out: &[Popped<usize>], late: u64) -> Vec<u64> {
    let mut next = vec![0; lanes.len()];
    let mut running = vec![0; lanes.len()];
    let (mut largest, mut late_seen) = (0, 0);
    for popped in out {
        assert_eq!(popped.item, next[popped.lane], "the order of a lane is kept");
        running[popped.lane] = running[popped.lane].max(lanes[popped.lane][popped.item]);
        assert_eq!(popped.key, running[popped.lane]);
        next[popped.lane] += 1;
        assert_eq!(popped.late, popped.key < largest);
        largest = largest.max(popped.key);
        late_seen += u64::from(popped.late);
    }
    let lengths: Vec<usize> = lanes.iter().map(Vec::len).collect();
    assert_eq!(next, lengths, "everything comes out once");
    assert_eq!(late_seen, late);
    out.iter().map(|popped| popped.key).collect()
}

proptest! {
    #[test]
    fn without_a_limit_nothing_is_late_whatever_the_stamps(
        lanes in lanes_of(prop_oneof![0u64..50, Just(u64::MAX)]),
        order in prop::collection::vec(any::<usize>(), 0..100),
    ) {
        let (out, late) = merge(&lanes, None, &order);
        let keys = check(&lanes, &out, late);
        prop_assert!(keys.is_sorted());
        prop_assert_eq!(late, 0);
        // Ties go to the lower lane: the order does not depend on the order of arrival.
        let places: Vec<_> = out.iter().map(|p| (p.key, p.lane, p.item)).collect();
        prop_assert!(places.is_sorted());
    }

    #[test]
    fn with_a_limit_nothing_is_lost_and_late_is_exact(
        lanes in lanes_of(0u64..50),
        order in prop::collection::vec(any::<usize>(), 0..100),
        hold_ns in 1u64..30,
    ) {
        let (out, late) = merge(&lanes, Some(hold_ns), &order);
        check(&lanes, &out, late);
    }

    #[test]
    fn sorted_lanes_come_out_sorted(mut lanes in lanes_of(0u64..1000)) {
        lanes.iter_mut().for_each(|lane| lane.sort_unstable());
        let (out, late) = merge(&lanes, None, &[]);
        let mut expected: Vec<u64> = lanes.concat();
        expected.sort_unstable();
        prop_assert_eq!(check(&lanes, &out, late), expected);
    }
}

#[test]
fn a_promise_lets_an_item_pass_and_equal_stamps_wait_for_the_lower_lane() {
    let mut merger = Merger::new(2, None);
    merger.push(1, 10, 0, "b");
    assert_eq!((merger.pop(0), merger.blocking_lane()), (None, Some(0)));
    merger.advance(0, 10);
    assert_eq!(merger.pop(0), None, "lane 0 may still bring a 10, which goes first");
    merger.advance(0, 11);
    merger.advance(0, 5); // a promise is not taken back
    assert_eq!(merger.pop(0).unwrap().item, "b");
    merger.push(0, 12, 0, "a");
    merger.advance(1, 12);
    assert_eq!(merger.pop(0).unwrap().item, "a", "lane 1 loses the tie");
    assert_eq!(merger.queued(0), 0);
}

#[test]
fn an_item_is_held_for_the_limit_and_what_comes_after_it_is_late() {
    let mut merger = Merger::new(2, Some(20));
    merger.push(0, 100, 1000, 'x');
    merger.push(0, 90, 1001, 'y'); // an inversion within the lane: key 100
    assert_eq!(merger.pop(1019), None);
    assert_eq!(merger.expires_ns(), Some(1020));
    assert_eq!(merger.pop(1020).unwrap().item, 'x');
    assert_eq!(merger.pop(1020), None);
    merger.push(1, 50, 1020, 'z');
    let popped = merger.pop(1020).unwrap();
    assert_eq!((popped.item, popped.late, popped.key), ('z', true, 50));
    let popped = merger.pop(1021).unwrap();
    assert_eq!((popped.item, popped.late, popped.key), ('y', false, 100));
    assert_eq!(merger.late(), 1);
}

#[test]
fn a_waiting_item_is_not_given_out_before_an_earlier_one_when_its_time_is_up() {
    let mut merger = Merger::new(3, Some(20));
    merger.push(0, 100, 1000, 'x');
    merger.push(1, 50, 1019, 'y');
    let order: Vec<char> = std::iter::from_fn(|| merger.pop(1020)).map(|p| p.item).collect();
    assert_eq!(order, ['y', 'x'], "lane 2 never spoke");
    assert_eq!(merger.late(), 0);
}

#[test]
fn nothing_that_is_given_out_later_lies_below_the_low_water() {
    let mut merger = Merger::new(2, Some(20));
    assert_eq!(merger.low_water(), 0);
    merger.push(0, 100, 1000, 'x');
    merger.advance(1, 70);
    assert_eq!(merger.low_water(), 70, "lane 1 may still bring one");
    merger.advance(1, 120);
    assert_eq!(merger.low_water(), 100, "it waits to be given out");
    assert_eq!(merger.pop(1000).unwrap().item, 'x');
    assert_eq!(merger.low_water(), 100);
    merger.advance(0, 110);
    assert_eq!(merger.low_water(), 110);
    merger.advance(0, u64::MAX);
    assert_eq!(merger.low_water(), 120);
    merger.advance(1, u64::MAX);
    assert_eq!(merger.low_water(), u64::MAX, "nothing will come");
}
