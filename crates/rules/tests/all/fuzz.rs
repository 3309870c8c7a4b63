//! Texts from anyone: no panic, and what is read can be written and read again.

use ringside_rules::language::{AddressSet, RuleId, Sets, parse, parse_rule};

const SEEDS: [&str; 17] = [
    "tcp port 80 => drop",
    "7: src ip 10.0.0.0/8,2001:db8::/32 and not (dst port 1-1023 or udp) bidir => take, cap 96",
    "ip @list,192.0.2.1-192.0.2.9 => redirect cpu 3, continue",
    "vlan 5,7-9 or vlan any && mpls 16-31 => count",
    "src mac 02:00:00:00:00:01/ff:ff:ff:00:00:00 ethertype arp,0x88cc => mirror eth1.5",
    "proto tcp,47 or igmp or icmp6 => sample 1/100, take",
    "tcpflags syn,!ack length 64-128,1000- => digest, stop",
    "udp port 53 => take, pin, sample 1/3",
    "bytes net+8 = 4006/fff6 => redirect queue 3",
    r#"payload "GET \"/\x00\\\r\n" nocase at 5 || payload hex "de ad be ef" => keep 0-5,9-,count"#,
    r#"filter "tcp[13] & 2 != 0" => redirect "cpu", digest"#,
    "http.method GET|HEAD http.host *.example.com|b http.status 200|500-599 => pass",
    r#"sip.method INVITE sip.from "a b" sip.call_id "x"|y@z sip.via 10.0.0.1 => take"#,
    "dns.qname example.com tls.sni *.b => drop",
    "inner (ip4 udp (dst port 53 or !any)) => take, continue # comment",
    "default drop\r\n\n# only a comment\n\ttcp => count\n4: udp=>drop,mirror \"a,b\"\n",
    "\u{feff}any => drop\n",
];

#[test]
fn rules() {
    let mut sets = Sets::none();
    sets.insert("list", AddressSet::default());
    let seeds: Vec<Vec<u8>> = SEEDS.iter().map(|text| text.as_bytes().to_vec()).collect();
    ringside_testkit::fuzz("rules", 40_000, &seeds, |text| {
        match parse(text, &mut sets.clone()) {
            Ok(set) => {
                let shown = set.to_string();
                let again = parse(shown.as_bytes(), &mut sets.clone());
                assert_eq!(again.as_ref(), Ok(&set), "{shown}");
                assert_eq!(again.map(|set| set.to_string()), Ok(shown));
            }
            Err(errors) => {
                assert!(!errors.errors.is_empty());
                let lines = 1 + text.iter().filter(|&&byte| byte == b'\n').count();
                for error in errors.errors {
                    assert!((1..=lines).contains(&error.line) && error.column >= 1, "{error}");
                    assert!(error.caret <= error.excerpt.chars().count(), "{error}");
                }
            }
        }
        let _ = parse_rule(text, RuleId::FIRST, &mut sets.clone());
    });
}

#[test]
fn address_files() {
    let seeds =
        [&b"10.0.0.0/8\n192.0.2.1 # one\r\n\n"[..], b"2001:db8::/32\n::1-::9\n1.2.3.4-1.2.3.9"];
    let seeds: Vec<Vec<u8>> = seeds.iter().map(|text| text.to_vec()).collect();
    ringside_testkit::fuzz("address-file", 500_000, &seeds, |text| {
        let Ok(set) = AddressSet::parse(text) else { return };
        let again = AddressSet::parse(set.to_string().replace(',', "\n").as_bytes());
        assert_eq!(again, Ok(set));
    });
}
