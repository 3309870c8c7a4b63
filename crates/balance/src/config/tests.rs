use super::*;
use crate::error::Problem;
use ringside_testkit::fuzz;

const TOP: &str = "source_v4 = \"10.9.0.0/16\"\nsource_v6 = \"2001:db8:9::/64\"\n";
const WEB: &str = "[[vip]]\nname = \"web\"\naddress = \"192.0.2.1\"\nprotocol = \"tcp\"\n";
const QUIC: &str = "[[vip]]\nname = \"q\"\naddress = \"192.0.2.1\"\nprotocol = \"quic\"\n";
const REAL: &str = "[[vip.real]]\naddress = \"10.0.0.1\"\n";

fn read(parts: &[&str]) -> Result<Config, ConfigError> {
    Config::read(parts.concat().as_bytes())
}

#[test]
fn an_example_with_everything() {
    let text = r#"
source_v4 = "10.9.0.0/16"
source_v6 = "2001:db8:9::/64"
mtu = 9000
gue_port = 6081
flows_per_cpu = 1000
new_flows_per_second_max = 5
change_window_s = 7

[[vip]]
name = "web"
address = "192.0.2.0/24"
port = 443
protocol = "quic"
timeout_s = 10
affinity = "source"
echo = false
slots = 1021
via = "gue"
quic_lb = [{ rotation = 0, server_id_bytes = 2 }, { rotation = 6, server_id_bytes = 8 }]
[[vip.real]]
address = "2001:db8::1"
weight = 7
state = "draining"
drain_s = 9
next_hop = "02:00:5e:10:00:01"
server_ids = ["0a0B", "0000000000000001"]
[[vip.real]]
address = "10.0.0.1"
state = "down"

[[vip]]
name = "all"
address = "2001:db8:1::/48"
protocol = "udp"
health = { kind = "udp", port = 53, address = "2001:db8:1::7", send = "0A0b", rise = 1 }

[[vip]]
name = "site"
address = "192.0.3.1"
port = 80
protocol = "tcp"
[vip.health]
kind = "http"
path = "/up?x=1"
status = 204
interval_ms = 500
timeout_ms = 300
fall = 9
[[vip.real]]
address = "10.0.0.1"
"#;
    let config = read(&[text]).unwrap();
    assert_eq!((config.mtu, config.gue_port, config.flows_per_cpu), (9000, 6081, 1024));
    assert_eq!((config.new_flows_per_second_max, config.change_window_s), (5, 7));
    let [web, all, site] = &config.vips[..] else { panic!("{config:?}") };
    assert_eq!((web.port, web.timeout_s, web.echo, web.slots), (Some(443), 10, false, 1021));
    assert_eq!((web.affinity, web.via, web.protocol), (Affinity::Source, Via::Gue, Protocol::Quic));
    assert_eq!(web.server_id_bytes, [2, 0, 0, 0, 0, 0, 8]);
    let [first, second] = &web.reals[..] else { panic!("{web:?}") };
    assert_eq!((first.weight, first.state), (7, RealState::Draining { drain_s: 9 }));
    assert_eq!(first.next_hop, Some(MacAddr([2, 0, 0x5e, 0x10, 0, 1])));
    let id = |number, bytes| ServerId { number, bytes };
    assert_eq!(first.server_ids, [id(0x0a0b, 2), id(1, 8)]);
    assert_eq!((second.weight, second.state, second.next_hop), (1, RealState::Down, None));
    assert_eq!((all.port, all.timeout_s, all.echo, all.slots), (None, 30, true, 65_537));
    assert_eq!((all.affinity, all.via), (Affinity::Flow, Via::Ipip));
    let asked = all.health.clone().unwrap();
    assert_eq!((asked.address, asked.port), ("2001:db8:1::7".parse().unwrap(), 53));
    assert_eq!((asked.interval_ms, asked.timeout_ms, asked.rise, asked.fall), (2000, 1000, 1, 3));
    assert_eq!(asked.question, Question::Udp { send: vec![10, 11], expect: vec![] });
    let asked = site.health.clone().unwrap();
    assert_eq!((asked.port, asked.interval_ms, asked.timeout_ms, asked.fall), (80, 500, 300, 9));
    let (path, host, status) = ("/up?x=1".into(), "192.0.3.1".into(), Some(204));
    assert_eq!(asked.question, Question::Http { path, host, status });
    assert_eq!(config.asked().count(), 1);
}

/// What is written, the place of its mistake and the beginning of what is said about it.
type Mistake<'m> = (&'m [&'m str], usize, usize, &'m str);

#[test]
fn mistakes_are_named_with_their_place_and_the_fix() {
    let cases: &[Mistake<'_>] = &[
        (&["mtu = 100\n"], 1, 7, "mtu is 100; it must be 1328 to 9216"),
        (&["mtu = \"a\"\n"], 1, 7, "invalid type: string \"a\", expected i64"),
        (&["mtu = \n"], 1, 7, "string values must be quoted"),
        (&["\n  mut = 1\n"], 2, 3, "unknown field `mut`, expected one of"),
        (&[TOP, "[[vip]]\nname = \"a\"\n"], 3, 1, "missing field `address`"),
        (&[WEB, "port = 0\n"], 5, 8, "port is 0; it must be 1 to 65535"),
        (
            &[WEB, "slots = 65536\n"],
            5,
            9,
            "65536 slots are no prime from 251 to 1048573; write 65537",
        ),
        (&[WEB, "slots = -5\n"], 5, 9, "4294967295 slots are no prime"),
        (&[WEB, "via = \"nat\"\n"], 5, 7, "unknown variant `nat`, expected one of `ipip`, `gue`"),
        (
            &[WEB, REAL],
            6,
            11,
            "tunnels to 10.0.0.1 need an address of this balancer; set source_v4",
        ),
        (&["source_v4 = \"::1:2\"\n"], 1, 13, "::1:2 cannot be a source of tunnels over IPv4"),
        (&["source_v6 = \"1.2.3.4\"\n"], 1, 13, "1.2.3.4 cannot be a source of tunnels over IPv6"),
        (&[TOP, WEB, REAL, REAL], 9, 1, "the real 10.0.0.1 of this VIP stands on line 7 already"),
        (&[TOP, WEB, WEB], 7, 1, "a VIP named \"web\" stands on line 3 already"),
        (&[TOP, WEB, &WEB.replace("web", "other")], 7, 1, "a VIP of 192.0.2.1, any port and TCP"),
        (&[TOP, QUIC, &QUIC.replace("\"q\"", "\"r\"").replace("quic", "udp")], 7, 1, "a VIP of"),
        (&[&WEB.replace("2.1", "2.1/24")], 3, 11, "\"192.0.2.1/24\" has bits behind its prefix"),
        (&[&WEB.replace("192.0.2.1", "224.0.0.1")], 3, 11, "224.0.0.1 cannot be the address of a"),
        (&[&WEB.replace("\"web\"", "\"w b\"")], 2, 8, "the name \"w b\" has 3 characters; 1 to 64"),
        (&[TOP, WEB, "[[vip.real]]\naddress = \"10.0.0.0/8\"\n"], 8, 11, "\"10.0.0.0/8\" is a pre"),
        (&[TOP, WEB, REAL, "weight = 65536\n"], 9, 10, "weight is 65536; it must be 0 to 65535"),
        (&[TOP, WEB, REAL, "drain_s = 1\n"], 9, 11, "drain_s is for reals of state \"draining\""),
        (&[TOP, WEB, REAL, "next_hop = \"1:2\"\n"], 9, 12, "\"1:2\" is no hardware address"),
        (
            &[TOP, WEB, REAL, "next_hop = \"01:00:5e:00:00:01\"\n"],
            9,
            12,
            "\"01:00:5e:00:00:01\" is",
        ),
        (&[TOP, WEB, REAL, "server_ids = [\"01\"]\n"], 9, 15, "server_ids is for VIPs of protocol"),
        (&[WEB, "quic_lb = []\n"], 5, 11, "quic_lb is for VIPs of protocol \"quic\""),
        (
            &[QUIC, "quic_lb = [{ rotation = 7, server_id_bytes = 1 }]\n"],
            5,
            25,
            "rotation is 7; it",
        ),
        (&[TOP, QUIC, REAL, "server_ids = [\"01\"]\n"], 9, 15, "no line of quic_lb has server_id"),
        (&[TOP, QUIC, REAL, "server_ids = [\"0\"]\n"], 9, 15, "the server id \"0\" is no even"),
        (
            &[TOP, QUIC, REAL, "server_ids = [\"\u{e4}b\"]\n"],
            9,
            15,
            "the server id \"\u{e4}b\" is no",
        ),
        (
            &[TOP, &WEB.replace("192.0.2.1", "2001:db8::5"), REAL],
            8,
            11,
            "10.0.0.1 cannot be a real",
        ),
    ];
    are_named(cases);
}

#[test]
fn mistakes_of_health_are_named_with_their_place_and_the_fix() {
    let cases: &[Mistake<'_>] = &[
        (&[WEB, "health = { kind = \"tcp\" }\n"], 5, 10, "a VIP of all ports needs a port"),
        (&[WEB, "health = { kind = \"icmp\" }\n"], 5, 19, "unknown variant `icmp`, expected one"),
        (&[WEB, "health = { kind = \"tcp\", port = 0 }\n"], 5, 33, "port is 0; it must be 1"),
        (
            &[WEB, "health = { kind = \"tcp\", port = 80, path = \"/\" }\n"],
            5,
            44,
            "path is for health of kind \"http\"",
        ),
        (
            &[WEB, "health = { kind = \"http\", port = 80, path = \"/a b\" }\n"],
            5,
            45,
            "the path \"/a b\" is not 1 to 512 visible",
        ),
        (
            &[WEB, "health = { kind = \"udp\", port = 80, send = \"abc\" }\n"],
            5,
            44,
            "\"abc\" is no even number of hexadecimal digits for at most 512 bytes",
        ),
        (
            &[WEB, "health = { kind = \"tcp\", port = 80, address = \"192.0.2.2\" }\n"],
            5,
            47,
            "\"192.0.2.2\" is no address of the VIP; give one of 192.0.2.1",
        ),
        (
            &[WEB, "health = { kind = \"tcp\", port = 80, timeout_ms = 1 }\n"],
            5,
            50,
            "timeout_ms is 1; it must be 250 to 60000",
        ),
    ];
    are_named(cases);
}

fn are_named(cases: &[Mistake<'_>]) {
    for (parts, line, column, begin) in cases {
        let text = parts.concat();
        let error = read(parts).expect_err(&text);
        let problem = error.problem.to_string();
        assert!(problem.starts_with(begin), "{text}\n{problem}");
        assert_eq!((error.line, error.column), (*line, *column), "{text}\n{error}");
    }
}

#[test]
fn what_is_no_text_or_too_long_is_refused() {
    let error = Config::read(b"mtu = 1500\n# \xc3\xa4 \xff").unwrap_err();
    assert_eq!((error.line, error.column, &error.problem), (2, 5, &Problem::Encoding));
    let error = Config::read(&vec![b'\n'; CONFIG_BYTES_MAX + 1]).unwrap_err();
    assert!(matches!(error.problem, Problem::TooLong { .. }));
    let nested = "a = ".to_owned() + &"[".repeat(100_000);
    assert!(read(&[&nested]).is_err());
}

/// The named limits, each one more than allowed.
#[test]
fn more_than_there_is_room_for_is_refused() {
    let refused = |text: &str, limit: usize| {
        let problem = read(&[text]).unwrap_err().problem;
        assert!(matches!(problem, Problem::TooMany { max, .. } if max == limit), "{problem}");
    };
    let vip = |number: usize, address: &str| {
        let head = format!("[[vip]]\nname = \"v{number}\"\naddress = \"{address}\"\n");
        head + "protocol = \"udp\"\nslots = 251\n"
    };
    let vips = |count| {
        let one = |number| vip(number, &format!("10.0.{}.{}", number >> 8, number & 255));
        (1..=count).map(one).collect::<String>()
    };
    assert_eq!(read(&[&vips(VIPS_MAX)]).unwrap().vips.len(), VIPS_MAX);
    refused(&vips(VIPS_MAX + 1), VIPS_MAX);
    let lengths: String =
        (1..=PREFIX_LENGTHS_MAX + 1).map(|at| vip(at, &format!("10.0.0.0/{}", 8 + at))).collect();
    refused(&lengths, PREFIX_LENGTHS_MAX);
    let large = vips(17).replace("251", "1048573");
    refused(&large, SLOTS_SUM_MAX);
    let real = |number: usize| {
        format!("[[vip.real]]\naddress = \"10.{}.{}.1\"\n", number >> 8, number & 255)
    };
    let reals: String = (0..REALS_MAX / 2 + 1).map(real).collect();
    let many = [TOP, &vip(1, "192.0.2.1"), &reals, &vip(2, "192.0.2.2"), &reals].concat();
    refused(&many, REALS_MAX);
    let ids: Vec<String> = (0..SERVER_IDS_MAX + 1).map(|id| format!("\"{id:08x}\"")).collect();
    let lb = "quic_lb = [{ rotation = 0, server_id_bytes = 4 }]\n";
    let ids = format!("server_ids = [{}]\n", ids.join(", "));
    refused(&[TOP, QUIC, lb, REAL, &ids].concat(), SERVER_IDS_MAX);
}

/// Whatever is written: no panic, and what is taken holds what a configuration promises.
#[test]
fn any_text_is_refused_or_within_its_limits() {
    let seeds: Vec<Vec<u8>> = [
        [TOP, WEB, REAL].concat(),
        [
            TOP,
            QUIC,
            "quic_lb = [{ rotation = 0, server_id_bytes = 1 }]\n",
            REAL,
            "server_ids = [\"01\"]\n",
        ]
        .concat(),
        [
            TOP,
            WEB,
            "via = \"gue\"\nslots = 1021\n",
            REAL,
            "state = \"draining\"\ndrain_s = 3\n",
            "next_hop = \"02:00:00:00:00:01\"\nweight = 3\n",
        ]
        .concat(),
        [
            TOP,
            WEB,
            "health = { kind = \"http\", port = 80, path = \"/\", host = \"a\", status = 200 }\n",
            REAL,
        ]
        .concat(),
        [WEB, "[vip.health]\nkind = \"udp\"\nport = 53\nsend = \"0a\"\nexpect = \"0b\"\n"].concat(),
    ]
    .map(String::into_bytes)
    .into();
    fuzz("balance-config", 4_000, &seeds, |text| {
        let Ok(config) = Config::read(text) else { return };
        assert!((MTU_MIN..=MTU_MAX).contains(&config.mtu));
        assert!(config.flows_per_cpu.is_power_of_two());
        for vip in &config.vips {
            assert!(crate::maglev::is_prime(vip.slots));
            assert!(vip.prefix.bits() <= vip.prefix.bits_max());
            if let Some(asked) = &vip.health {
                assert!(vip.prefix.contains(asked.address) && asked.port > 0);
                assert!(asked.timeout_ms >= 250 && asked.interval_ms >= 100 && asked.fall > 0);
            }
            for real in &vip.reals {
                let source =
                    if real.address.is_ipv4() { config.source_v4 } else { config.source_v6 };
                assert!(vip.via == Via::Direct || source.is_some());
            }
        }
    });
}

#[test]
fn places_are_counted_from_1_in_lines_and_characters() {
    let text = "é = 1\nb\n";
    for (at, place) in
        [(0, "1:1"), (2, "1:2"), (6, "1:6"), (7, "2:1"), (8, "2:2"), (9, "3:1"), (99, "3:1")]
    {
        assert_eq!(Place::of(text, at).to_string(), place, "{at}");
    }
    assert_eq!(Place::of(text, 1).to_string(), "3:1", "within a character");
    assert_eq!(Place::of("", 0).to_string(), "1:1");
}
