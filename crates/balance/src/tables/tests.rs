use super::*;
use ringside_testkit::Random;

fn config(text: &str) -> Config {
    Config::read(text.as_bytes()).unwrap_or_else(|e| panic!("{text}\n{e}"))
}

const TOP: &str = "source_v4 = \"10.9.0.0/16\"\n";

fn vip(name: &str, rest: &str, reals: &[(&str, &str)]) -> String {
    let mut text = format!("[[vip]]\nname = \"{name}\"\nslots = 251\n{rest}\n");
    for (address, rest) in reals {
        text += &format!("[[vip.real]]\naddress = \"{address}\"\n{rest}\n");
    }
    text
}

const WEB: &str = "address = \"192.0.2.1\"\nport = 80\nprotocol = \"tcp\"";

fn of_web(reals: &[(&str, &str)]) -> Config {
    config(&(TOP.to_owned() + &vip("web", WEB, reals)))
}

fn real_at(tables: &Tables, address: &str) -> Option<u32> {
    let live = |real: &&(u32, &RealEntry)| real.1.ip().to_string() == address;
    (0..).zip(&tables.reals).find(|real| live(&real)).map(|(at, _)| at)
}

#[test]
fn reals_keep_their_index_and_an_index_with_another_real_has_another_serial() {
    let first = Tables::new(&of_web(&[("10.0.0.1", ""), ("10.0.0.2", "")]), 0);
    let second = first.next(&of_web(&[("10.0.0.3", ""), ("10.0.0.2", "")]), 0);
    assert_eq!(real_at(&first, "10.0.0.2"), real_at(&second, "10.0.0.2"));
    // A newcomer does not take the place of one that went just now, while there are others.
    assert_eq!(real_at(&second, "10.0.0.3"), Some(2));
    assert_eq!(second.reals[0].until_ns, DOWN);
    assert_eq!([0, 1, 2, 3].map(|at| second.has_real(at)), [false, true, true, false]);
    let third = second.next(&of_web(&[("10.0.0.4", ""), ("10.0.0.2", "")]), 0);
    assert_eq!(real_at(&third, "10.0.0.4"), Some(0));
    assert_ne!(third.reals[0].serial, first.reals[0].serial);
    assert_eq!(third.reals[1].serial, first.reals[1].serial);
}

#[test]
fn twice_as_many_reals_find_room_whatever_went_before() {
    let of = |third: u8, count: u8| {
        let reals: Vec<String> = (1..=count).map(|last| format!("10.0.{third}.{last}")).collect();
        of_web(&reals.iter().map(|real| (real.as_str(), "")).collect::<Vec<_>>())
    };
    let first = Tables::new(&of(0, 100), 0);
    assert_eq!(first.room(), [16, 200]);
    let mut tables = first.next(&of(1, 150), 0);
    assert_eq!((tables.reals.len(), tables.room()), (200, [16, 200]));
    let live = |tables: &Tables| (0..200).filter(|at| tables.has_real(*at)).count();
    assert_eq!(live(&tables), 150);
    // All at once go, and others have their indices with other serial numbers.
    for third in 2..9 {
        let next = tables.next(&of(third, 200), 0);
        assert_eq!((next.reals.len(), live(&next)), (200, 200));
        let mut both = next.reals.iter().zip(&tables.reals);
        assert!(both.all(|(now, before)| now.serial != before.serial));
        tables = next;
    }
    assert_eq!(tables.next(&of(0, 201), 0).reals.len(), 201, "which a data plane refuses");
}

#[test]
fn a_deadline_runs_on_over_changes_and_ends_the_real() {
    let draining = "state = \"draining\"\ndrain_s = 10";
    let up = Tables::new(&of_web(&[("10.0.0.1", ""), ("10.0.0.2", "")]), 0);
    assert_eq!(up.reals[0].until_ns, UP);
    let first = up.next(&of_web(&[("10.0.0.1", draining), ("10.0.0.2", "")]), 5 * SECOND_NS);
    let second = first.next(&of_web(&[("10.0.0.1", draining), ("10.0.0.2", "")]), 9 * SECOND_NS);
    for tables in [&first, &second] {
        let real = &tables.reals[0];
        assert_eq!(real.until_ns, 15 * SECOND_NS);
        assert!(real.is_usable(15 * SECOND_NS - 1) && !real.is_usable(15 * SECOND_NS));
        assert!(tables.slots.iter().all(|real| *real == 1), "no new flows");
    }
    let again = second.next(&of_web(&[("10.0.0.1", ""), ("10.0.0.2", "")]), 9 * SECOND_NS);
    assert_eq!(again.reals[0].until_ns, UP);
    let down = again.next(&of_web(&[("10.0.0.1", "state = \"down\""), ("10.0.0.2", "")]), 0);
    assert!(!down.reals[0].is_usable(0));
}

#[test]
fn the_longest_prefix_counts_and_then_the_port() {
    let of = |address: &str, port: &str| {
        format!("address = \"{address}\"\n{port}\nprotocol = \"udp\"\necho = false")
    };
    let text = [
        vip("net", &of("192.0.2.0/24", ""), &[]),
        vip("net-53", &of("192.0.2.0/24", "port = 53"), &[]),
        vip("one", &of("192.0.2.1", "port = 80"), &[]),
        vip("all-v6", &of("2001:db8::/32", ""), &[]),
        vip("echo", &of("192.0.2.1", "port = 81").replace("false", "true"), &[]),
    ];
    let tables = Tables::new(&config(&text.concat()), 0);
    let found = |address: &str, port: u16, protocol| {
        let address: IpAddr = address.parse().unwrap();
        let version = if address.is_ipv4() { 4 } else { 6 };
        let at = tables.vip(version, address_words(address), port, protocol);
        at.and_then(|at| tables.vip_name(at)).unwrap_or("-")
    };
    assert_eq!(found("192.0.2.1", 80, IpProtocol::UDP), "one");
    assert_eq!(found("192.0.2.1", 53, IpProtocol::UDP), "net-53");
    assert_eq!(found("192.0.2.2", 80, IpProtocol::UDP), "net");
    assert_eq!(found("192.0.2.1", 80, IpProtocol::TCP), "-");
    assert_eq!(found("192.0.3.1", 80, IpProtocol::UDP), "-");
    assert_eq!(found("2001:db8:1::1", 9, IpProtocol::UDP), "all-v6");
    assert_eq!(found("::ffff:192.0.2.1", 80, IpProtocol::UDP), "-");
    let any = |address: &str| tables.any_vip(4, address_words(address.parse().unwrap()));
    assert_eq!(any("192.0.2.1").and_then(|at| tables.vip_name(at)), Some("echo"));
    assert!(any("192.0.2.9").is_some() && any("192.0.3.9").is_none());
}

/// The index against a walk over the configuration.
#[test]
fn every_address_is_at_the_vip_that_a_walk_over_all_finds() {
    let mut random = Random::new(9);
    for _ in 0..30 {
        let mut text = String::new();
        let mut seen = BTreeSet::new();
        for number in 0..random.below(60) {
            let bits = [8, 12, 24, 28, 32][random.below(5)];
            let address = IpAddr::from([10, random.below(2) as u8, 0, random.below(40) as u8]);
            let prefix = Prefix::new(address, bits);
            let port = random.below(3);
            if !seen.insert((prefix, port)) {
                continue;
            }
            let port = if port == 0 { String::new() } else { format!("port = {port}\n") };
            let rest = format!("address = \"{prefix}\"\n{port}protocol = \"tcp\"");
            text += &vip(&format!("v{number}"), &rest, &[]);
        }
        let config = config(&text);
        let tables = Tables::new(&config, 0);
        for _ in 0..300 {
            let address = IpAddr::from([10, random.below(3) as u8, 0, random.below(40) as u8]);
            let port = 1 + random.below(3) as u16;
            let matches = |vip: &&Vip| {
                vip.prefix.contains(address) && vip.port.is_none_or(|other| other == port)
            };
            let best = config.vips.iter().filter(matches);
            let best =
                best.max_by_key(|vip| (vip.prefix.bits(), vip.port)).map(|vip| &vip.name[..]);
            let found = tables.vip(4, address_words(address), port, IpProtocol::TCP);
            assert_eq!(found.and_then(|at| tables.vip_name(at)), best, "{text}{address}:{port}");
        }
    }
}

#[test]
fn outer_sources_leave_the_prefix_alone() {
    let of = |v4: &str, v6: &str| {
        settings(&config(&format!("source_v4 = \"{v4}\"\nsource_v6 = \"{v6}\"\n")))
    };
    let one = of("10.0.0.1", "2001:db8::1");
    assert_eq!((one.source_v4.1, one.source_v6.1), (0, 0));
    let many = of("10.9.0.0/16", "2001:db8::/32");
    assert_eq!((many.source_v4.1, many.source_v6.1), (0xffff, u64::MAX));
    assert_eq!(of("10.9.0.0/16", "2001:db8::/96").source_v6.1, 0xffff_ffff);
}

/// The most that a configuration may want, in the tables' bytes as documents state them.
#[test]
fn names_of_vips_and_reals_come_and_go_within_their_limits() {
    let mut places = Places::<u32>::none(8);
    let mut random = Random::new(4);
    for round in 0..50u32 {
        let wanted: BTreeSet<u32> = (0..8).map(|_| random.below(30) as u32 + round).collect();
        let wanted: Vec<u32> = wanted.into_iter().collect();
        let (next, indices) = places.next(&wanted);
        let different: BTreeSet<u32> = indices.iter().copied().collect();
        assert_eq!(different.len(), wanted.len());
        for (name, &at) in wanted.iter().zip(&indices) {
            assert!(at < 8);
            assert_eq!(next.names[at as usize], Some(*name));
            let before = places.names.get(at as usize).copied().flatten();
            let serial = places.serials.get(at as usize).copied().unwrap_or(0);
            assert_eq!(next.serials[at as usize] != serial, before != Some(*name));
        }
        places = next;
    }
}

#[test]
fn tables_of_which_only_the_indices_are_known_are_followed_as_if_all_was() {
    let draining = "state = \"draining\"\ndrain_s = 10";
    let reals = [("10.0.0.1", ""), ("10.0.0.2", draining), ("10.0.0.3", "")];
    let first = Tables::new(&of_web(&reals), 0);
    let second = first.next(&of_web(&reals[1..]), SECOND_NS);
    let names = (0..second.vips.len() as u32).map(|at| second.vip_name(at).map(str::to_owned));
    let mut entries = second.reals.clone();
    // As in a data plane, which has more room.
    entries.resize(64, RealEntry::default());
    let known = Tables::known(names.chain([None, None]).collect(), entries);
    let config = of_web(&[("10.0.0.4", ""), ("10.0.0.2", draining), ("10.0.0.3", "")]);
    let (next, expected) =
        (known.next(&config, 5 * SECOND_NS), second.next(&config, 5 * SECOND_NS));
    assert_eq!((&next.reals, &next.vips), (&expected.reals, &expected.vips));
    assert_eq!((&next.slots, &next.keys), (&expected.slots, &expected.keys));
    assert_eq!(next.reals[1].until_ns, 10 * SECOND_NS, "the deadline runs on");
}
