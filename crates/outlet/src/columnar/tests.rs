use super::hours::{HOURS_MAX, Hour, by_hour};
use ringside_testkit::{Random, by_run};

#[test]
fn any_stamps_lie_in_a_bounded_number_of_hours_and_none_is_lost() {
    let mut random = Random::new(3);
    for _ in 0..by_run(20, 400) {
        let stamps: Vec<_> = (0..2_000).map(|_| random.next_u64() >> random.below(40)).collect();
        let body: String = stamps.iter().map(|stamp| format!("{{\"seen\":{stamp}}}\n")).collect();
        let hours = by_hour(body.as_bytes(), Some("seen")).unwrap();
        assert!(hours.len() <= HOURS_MAX);
        let mut found: Vec<_> =
            hours.values().flatten().map(|line| line.stamp_ns.unwrap()).collect();
        assert!(hours.values().all(|lines| lines.is_sorted_by_key(|line| line.stamp_ns)));
        found.sort_unstable();
        let mut expected = stamps;
        expected.sort_unstable();
        assert_eq!(found, expected);
        for hour in hours.into_keys() {
            let text = hour.to_string();
            let (day, number) = text.split_once('/').unwrap();
            assert_eq!(Hour::read(day, number), Some(hour), "{text}");
        }
    }
    for (day, hour) in [
        ("date=2023-11-14", "hour=24"),
        ("date=2023-11-14", "hour=2"),
        ("date=2023-1-14", "hour=02"),
        ("date=1969-12-31", "hour=23"),
        ("date=__HIVE_DEFAULT_PARTITION__", "hour=02"),
        ("2023-11-14", "02"),
    ] {
        assert_eq!(Hour::read(day, hour), None, "{day}/{hour}");
    }
}
