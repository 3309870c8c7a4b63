use super::segments::ReturnOrder;
use super::*;

fn setup(policy: Policy, threads: usize) -> Setup {
    Setup {
        policy,
        threads,
        cpus: Vec::new(),
        frame_bytes: 200,
        rate_per_sec: None,
        descriptors: 1024,
        buffer_bytes: 16 << 20,
        time_max: Duration::from_secs(1),
    }
}

#[test]
fn every_frame_comes_once_and_in_order_whatever_the_threads() {
    for threads in 1..=4 {
        let setup = setup(Policy::Ordered, threads);
        let outcome = measure(&setup).unwrap();
        assert_eq!((outcome.frames, outcome.disorder.frames), (setup.frames(), setup.frames()));
        assert_eq!(outcome.disorder.out_of_order, 0);
        assert_eq!(outcome.by_thread.len(), threads);
    }
}

#[test]
fn with_fixed_segments_every_frame_comes_once_and_of_one_thread_in_order() {
    for threads in 1..=4 {
        let setup = setup(Policy::Segments, threads);
        let outcome = measure(&setup).unwrap();
        assert_eq!((outcome.frames, outcome.disorder.frames), (setup.frames(), setup.frames()));
        assert!(outcome.disorder.out_of_order_in_flow <= outcome.disorder.out_of_order);
        assert!(threads > 1 || outcome.disorder.out_of_order == 0);
    }
}

#[test]
fn a_rate_ends_by_time() {
    for policy in [Policy::Ordered, Policy::Segments] {
        let rate_per_sec = Some(50_000.0);
        let time_max = Duration::from_millis(20);
        let outcome = measure(&Setup { rate_per_sec, time_max, ..setup(policy, 2) }).unwrap();
        assert_eq!(outcome.frames, 1000);
        assert!(outcome.elapsed >= time_max);
    }
}

#[test]
fn descriptors_go_back_in_the_order_of_the_segments() {
    // Two threads, segments of 4 descriptors; thread 1 is ready first.
    let order = ReturnOrder::new(2);
    let (mut first, mut second) = (true, false);
    assert!(!order.free(1, &mut second, 8, true), "the segment before it was not returned");
    assert!(order.free(0, &mut first, 2, false));
    assert!(!order.free(1, &mut second, 8, true));
    assert!(order.free(0, &mut first, 4, true));
    // With the flag of the previous thread, as algorithm 3.1 is printed, thread 0 would now find
    // its own way free again, and thread 1 never would.
    assert!(!order.free(0, &mut first, 10, false), "the other segment comes first");
    assert!(order.free(1, &mut second, 8, true));
    assert_eq!(order.returned(), 8);
    assert!(order.free(0, &mut first, 10, false));
}
