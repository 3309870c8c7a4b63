//! Tables of texts: what they mean in canonical form, and what is said about wrong ones.

use super::*;
use std::fmt::Write;

mod hostile;
mod random;

/// Address files that rules of these tests may name.
fn known_sets() -> [(&'static str, AddressSet); 2] {
    let bad = AddressSet::parse(b"198.51.100.0/24\n\t2001:db8::-2001:db8::5 # some").unwrap();
    [("bad", bad), ("my list", AddressSet::default())]
}

fn rule(text: &str) -> Result<Rule, RuleError> {
    let mut sets = Sets::none();
    for (path, addresses) in known_sets() {
        sets.insert(path, addresses);
    }
    parse_rule(text.as_bytes(), RuleId::FIRST, &mut sets)
}

/// The canonical text without the id, and a check that it reads back as the same rule.
fn canonical(text: &str) -> String {
    let parsed = rule(text).unwrap_or_else(|error| panic!("{error}"));
    let shown = parsed.to_string();
    assert_eq!(rule(&shown).unwrap_or_else(|error| panic!("{error}")), parsed, "{shown}");
    shown.split_once(": ").unwrap().1.to_owned()
}

/// The canonical text of a match.
fn canonical_match(text: &str) -> String {
    let shown = canonical(&format!("{text} => drop"));
    shown.strip_suffix(" => drop").unwrap().to_owned()
}

fn refusal(text: &str) -> RuleError {
    match rule(text) {
        Err(error) => error,
        Ok(rule) => panic!("{text} is taken as {rule}"),
    }
}

#[test]
fn matches_have_a_canonical_form() {
    for (text, expected) in [
        ("any", "any"),
        ("tcp", "tcp"),
        ("proto tcp", "tcp"),
        ("proto udp,tcp", "proto tcp,udp"),
        ("proto 5-7", "proto 5-7"),
        ("proto 89", "proto ospf"),
        ("ip4 ip6", "ip4 and ip6"),
        ("vlan 7,5,6,100-200", "vlan 5-7,100-200"),
        ("vlan 0-", "vlan any"),
        ("vlan any", "vlan any"),
        ("mpls -15", "mpls 0-15"),
        ("mac 2:0:5E:10:0:1", "mac 02:00:5e:10:00:01"),
        ("src mac 02:00:00:00:00:00/8", "src mac 02:00:00:00:00:00/ff:00:00:00:00:00"),
        ("mac 00:00:00:00:00:00/0", "mac 00:00:00:00:00:00/00:00:00:00:00:00"),
        ("mac 02:00:00:00:00:01/48", "mac 02:00:00:00:00:01"),
        ("ethertype 0x0806", "ethertype arp"),
        ("ethertype ip,0x1234", "ethertype ip,0x1234"),
        ("ip 10.0.0.0-10.255.255.255", "ip 10.0.0.0/8"),
        ("src ip 10.0.0.1,10.0.0.2 , 2001:DB8::/32", "src ip 10.0.0.1-10.0.0.2,2001:db8::/32"),
        ("dst ip ::ffff:192.0.2.1", "dst ip ::ffff:192.0.2.1"),
        ("ip 0.0.0.0/0,::/0", "ip 0.0.0.0/0,::/0"),
        ("ip 10.0.0.1/32", "ip 10.0.0.1"),
        ("ip @\"my list\",@bad,10.1.1.1,@bad", "ip 10.1.1.1,@bad,@\"my list\""),
        ("port 443,80", "port 80,443"),
        ("src port 0-65535", "src port 0-65535"),
        ("dst port 1024-", "dst port 1024-65535"),
        ("tcpflags syn,!ack", "tcpflags syn,!ack"),
        ("tcpflags !ack , syn,fin", "tcpflags fin,syn,!ack"),
        ("length 64-", "length 64-"),
        ("length -128", "length 0-128"),
        ("bytes net+9=06", "bytes net+9 = 06"),
        ("bytes frame+12 = 0x0800/ffff", "bytes frame+12 = 0800"),
        ("bytes payload = 40/f0", "bytes payload+0 = 40/f0"),
        (r#"filter "host 10.0.0.1""#, r#"filter "host 10.0.0.1""#),
        (r#"payload "GET \"/\"" at 0"#, r#"payload "GET \"/\"" at 0"#),
        (r#"payload "Host:" at 4 nocase"#, r#"payload "host:" nocase at 4"#),
        (r#"payload "a\x00b""#, r#"payload hex "61 00 62""#),
        (r#"payload hex "DEAD beef""#, r#"payload hex "de ad be ef""#),
        (r#"payload hex "41 42""#, r#"payload "AB""#),
        (r#"payload "é\r\n""#, r#"payload "é\r\n""#),
        ("http.method POST|GET|GET", "http.method GET|POST"),
        ("http.status 500-599|200", "http.status 200|500-599"),
        ("http.host *.Example.COM.", "http.host *.example.com"),
        (r#"dns.qname "a.b"|c"#, "dns.qname a.b|c"),
        (r#"sip.from "Alice <sip:a@b>""#, r#"sip.from "Alice <sip:a@b>""#),
        ("sip.call_id a84b4c@pc33||tls.sni x", "sip.call_id a84b4c@pc33 or tls.sni x"),
        ("inner (tcp port 80)", "inner (tcp and port 80)"),
        ("not inner(udp) vlan 5", "not inner (udp) and vlan 5"),
    ] {
        assert_eq!(canonical_match(text), expected, "{text}");
    }
}

#[test]
fn not_binds_before_and_before_or() {
    for (text, expected) in [
        ("tcp and port 80 or udp", "tcp and port 80 or udp"),
        ("udp or tcp port 80", "udp or tcp and port 80"),
        ("(udp or tcp) port 80", "(udp or tcp) and port 80"),
        ("not tcp port 80", "not tcp and port 80"),
        ("!(tcp port 80)", "not (tcp and port 80)"),
        ("not not tcp", "tcp"),
        ("!!!(tcp)", "not tcp"),
        ("((tcp) and (udp and icmp))", "tcp and udp and icmp"),
        ("tcp&&udp||icmp&&!igmp", "tcp and udp or icmp and not igmp"),
        ("tcp or (udp or (sctp))", "tcp or udp or sctp"),
    ] {
        assert_eq!(canonical_match(text), expected, "{text}");
    }
    assert_eq!(canonical("src ip 10.0.0.1 bidir => drop"), "src ip 10.0.0.1 bidir => drop");
}

#[test]
fn actions_have_a_canonical_form() {
    for (text, expected) in [
        ("drop", "drop"),
        ("drop, stop", "drop"),
        ("count", "count"),
        ("count,continue", "count"),
        ("count , take,continue", "take, count, continue"),
        ("cap 96, take", "take, cap 96"),
        ("keep 100-199,0-63, count", "keep 0-63,100-199, count"),
        ("keep 14-", "keep 14-"),
        ("sample 1/100,take", "take, sample 1/100"),
        ("mirror eth0, redirect eth1.5", "redirect eth1.5, mirror eth0"),
        ("redirect queue 3", "redirect queue 3"),
        ("redirect cpu 3 # here", "redirect cpu 3"),
        ("redirect \"queue\"", "redirect \"queue\""),
        ("mirror \"a,b\"", "mirror \"a,b\""),
        ("digest, drop", "drop, digest"),
        ("digest, continue", "digest, continue"),
        ("pin, count", "count, pin"),
        ("take, pin", "take, pin"),
        ("stop", "stop"),
        ("continue", "continue"),
    ] {
        assert_eq!(canonical(&format!("any => {text}")), format!("any => {expected}"), "{text}");
    }
}

#[test]
fn contradictions_name_both() {
    for (text, one, other) in [
        ("drop, take", "drop", "take"),
        ("pass, count, drop", "pass", "drop"),
        ("redirect eth0, take", "redirect", "take"),
        ("cap 96, keep 0-5", "cap", "keep"),
        ("drop, cap 96", "drop", "cap"),
        ("keep 0-9, redirect cpu 1", "keep", "redirect"),
        ("pass, keep 0-9", "pass", "keep"),
        ("digest, take", "digest", "take"),
        ("pin, drop", "pin", "drop"),
        ("pass, pin", "pass", "pin"),
        ("digest, pin", "digest", "pin"),
        ("cap 9, digest", "cap", "digest"),
        ("stop, count, continue", "stop", "continue"),
    ] {
        let error = refusal(&format!("any => {text}"));
        assert_eq!(error.problem, format!("`{one}` and `{other}` exclude each other"), "{text}");
    }
    assert_eq!(refusal("any => drop, drop").problem, "`drop` stands twice");
    assert!(refusal("tcpflags syn,!syn => drop").problem.contains("exclude each other"));
}

/// Text, column, part of the problem, part of the fix.
const REFUSED: &[(&str, usize, &str, &str)] = &[
    ("", 1, "there is no rule", "MATCH => ACTION"),
    ("tcp", 4, "no `=>`", "tcp => drop"),
    ("tcp drop", 5, "unknown match `drop`", "`=>` before"),
    ("tpc => drop", 1, "unknown match `tpc`", "did you mean `tcp`?"),
    ("TCP => drop", 1, "unknown match `TCP`", "did you mean `tcp`?"),
    ("ip and tcp => drop", 4, "`and` is no address", "`ip4`"),
    ("and tcp => drop", 1, "one is missing", ""),
    ("tcp or => drop", 8, "unexpected `=`", "a match is expected"),
    ("host 10.0.0.1 => drop", 1, "unknown match `host`", "`ip ADDRESS`"),
    ("src 10.0.0.1 => drop", 5, "cannot follow `src`", "`src ip`"),
    ("src host x => drop", 5, "cannot follow `src`", "`ip ADDRESS`"),
    ("ip 10.0.0.1/8 => drop", 4, "bits set behind its prefix", "10.0.0.0/8, or 10.0.0.1"),
    ("ip 2001:db8::1/32 => drop", 4, "bits set", "write 2001:db8::/32"),
    ("ip 10.0.0.0/33 => drop", 4, "`33` is no prefix length", "0 to 32"),
    ("ip 10.0.0.0/255.0.0.0 => drop", 4, "no prefix length", "10.0.0.0/N"),
    ("ip 10.0.0.9-10.0.0.1 => drop", 4, "is empty", "10.0.0.1-10.0.0.9"),
    ("ip 10.0.0.1-::1 => drop", 4, "mixes IPv4 and IPv6", ""),
    ("ip 10.0.0.300 => drop", 4, "`10.0.0.300` is no address", "0 to 255"),
    ("ip example.com => drop", 4, "is no address", "not looked up"),
    ("ip 10.0.0.1, => drop", 14, "unexpected `=`", "192.0.2.1"),
    ("ip @gone => drop", 4, "files are not read here", ""),
    ("ip @ => drop", 4, "names no file", ""),
    ("port 99999 => drop", 6, "`99999` is no port", "0 to 65535"),
    ("port 90-80 => drop", 6, "is empty", "`80-90`"),
    ("port http => drop", 6, "`http` is no port", ""),
    ("port +5 => drop", 6, "`+5` is no port", ""),
    ("port - => drop", 6, "no end", ""),
    ("port => drop", 6, "unexpected `=`", "port 80,443"),
    ("vlan 4096 => drop", 6, "no VLAN id", "0 to 4095"),
    ("mpls 1048576 => drop", 6, "no MPLS label", "1048575"),
    ("http.status 99 => drop", 13, "no HTTP status", "100 to 999"),
    ("proto tpc => drop", 7, "no IP protocol", "`tcp`"),
    ("mac 02:00:00:00:00 => drop", 5, "no hardware address", ""),
    ("mac 02:00:00:00:00:01/8 => drop", 5, "outside the mask", "02:00:00:00:00:00/ff:00"),
    ("mac 02:00:00:00:00:01/49 => drop", 23, "is no mask", ""),
    ("tcpflags sin => drop", 10, "no flag of TCP", "`fin`"),
    ("tcpflags => drop", 10, "unexpected `=`", ""),
    ("bytes nett+9 = 06 => drop", 7, "counted from `nett`", "`net`"),
    ("bytes net+x = 06 => drop", 7, "no right offset", "below 262144"),
    ("bytes net+0 = 4 => drop", 15, "is no value", ""),
    ("bytes net+0 = 45/f0 => drop", 15, "outside its mask", ""),
    ("bytes net+0 => drop", 13, "unexpected `=`", "bytes net+8"),
    ("filter tcp => drop", 8, "unexpected `tcp`", "filter \""),
    ("filter \"a\\x00\" => drop", 8, "holds a NUL", ""),
    ("filter \" \" => drop", 8, "is empty", "`any`"),
    ("payload \"abc => drop", 9, "does not end", ""),
    ("payload \"\\q\" => drop", 10, "unknown escape", "\\xHH"),
    ("payload \"\" => drop", 9, "0 bytes", "1 to 1024"),
    ("payload hex \"abc\" => drop", 13, "no hexadecimal bytes", ""),
    ("payload hex \"ab\" nocase => drop", 18, "`nocase` cannot", ""),
    ("payload \"a\" nocase nocase => drop", 20, "unknown match `nocase`", ""),
    ("http.host a*b => drop", 11, "no host name", "at the start"),
    ("tls.sni bücher.de => drop", 9, "no host name", "Punycode"),
    ("dns.qname . => drop", 11, "no host name", ""),
    ("sip.from \"\\xff\" => drop", 10, "not UTF-8", ""),
    ("inner tcp => drop", 7, "unexpected `tcp`", "inner (MATCH)"),
    ("inner (inner (tcp)) => drop", 8, "within `inner`", ""),
    ("inner (length 5) => drop", 8, "whole frame", "outside"),
    ("inner (bytes frame+1 = 00) => drop", 14, "whole frame", ""),
    ("(tcp => drop", 1, "never closed", ""),
    ("tcp) => drop", 4, "unexpected `)`", "no `(`"),
    ("(tcp bidir) => drop", 6, "unexpected `bidir`", "whole match"),
    ("tcp bidir udp => drop", 11, "unexpected `udp`", "ends the match"),
    ("tcp | udp => drop", 5, "unexpected `|`", "`or`"),
    ("tcp =>", 7, "the line ends here", "actions are drop"),
    ("tcp => # drop", 8, "the line ends here", ""),
    ("tcp => dorp", 8, "unknown action `dorp`", "`drop`"),
    ("tcp => accept", 8, "unknown action `accept`", "`take`"),
    ("tcp => drop count", 13, "unexpected `count`", "`,`"),
    ("tcp => drop,", 13, "the line ends here", ""),
    ("tcp => cap 0, take", 12, "cannot be `0`", "1 to 262144"),
    ("tcp => sample 2/3", 15, "`2/3`", "1/100"),
    ("tcp => sample 1/0", 15, "`1/0`", ""),
    ("tcp => mirror a/b", 15, "cannot be an interface", "15 bytes"),
    ("tcp => mirror, drop", 14, "unexpected `,`", "mirror IF"),
    ("tcp => redirect queue 65536", 23, "cannot be `65536`", "65535"),
    ("tcp => redirect queue", 22, "the line ends here", "redirect queue N"),
    ("12 tcp => drop", 1, "`12` is no match", "`12:`"),
    ("4294967296: tcp => drop", 1, "no id", "4294967295"),
    ("x: tcp => drop", 1, "unknown match `x:`", ""),
    ("tcp\u{a0}udp => drop", 4, "U+00A0", ""),
    ("\u{feff}tcp => drop", 1, "unknown match", ""),
];

#[test]
fn errors_say_where_what_and_what_would_be_right() {
    let mut wrong = String::new();
    for &(text, column, problem, fix) in REFUSED {
        let error = refusal(text);
        let place = (error.line, error.column);
        if place != (1, column) || !error.problem.contains(problem) || !error.fix.contains(fix) {
            write!(wrong, "\n{error}\n  expected in column {column}: {problem}; {fix}").unwrap();
        }
        assert!(!error.fix.is_empty() && error.to_string().ends_with('^'), "{error}");
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn an_error_shows_the_place_with_a_caret() {
    let error = refusal("payload \"éé\" and prot 80 => drop");
    assert_eq!(
        error.to_string(),
        "line 1, column 18: unknown match `prot`; did you mean `port`?\n  \
         payload \"éé\" and prot 80 => drop\n                   ^"
    );
    let far = refusal(&format!("{} prot 5 => drop", "tcp ".repeat(200)));
    assert_eq!(far.column, 802);
    assert!(far.excerpt.chars().count() < 100 && far.excerpt.starts_with('…'), "{far}");
    assert!(far.excerpt.chars().skip(far.caret).collect::<String>().starts_with("prot"), "{far}");
}

#[test]
fn a_text_of_several_lines() {
    let text = "\u{feff}# drop lists\r\n\r\n  tcp => drop # one\r\n10: udp => count\n\
                icmp => take\n default take\n\n3: any => pass";
    let set = parse(text.as_bytes(), &mut Sets::none()).unwrap();
    let ids: Vec<u32> = set.rules.iter().map(|rule| rule.id.0).collect();
    assert_eq!((ids, set.default), (vec![1, 3, 10, 11], Verdict::Take));
    let shown = "default take\n1: tcp => drop\n3: any => pass\n10: udp => count\n\
                 11: icmp => take\n";
    assert_eq!(set.to_string(), shown);
    assert_eq!(parse(shown.as_bytes(), &mut Sets::none()).unwrap(), set);
}

fn problems(text: &str) -> Vec<(usize, String)> {
    let errors = parse(text.as_bytes(), &mut Sets::none()).unwrap_err().errors;
    errors.into_iter().map(|error| (error.line, error.problem)).collect()
}

#[test]
fn ids_and_defaults_stand_once() {
    let twice = problems("7: tcp => drop\nudp => drop\n7: icmp => drop\n");
    assert_eq!(twice, [(3, "lines 1 and 3 are both rule 7".to_owned())]);
    let counted = problems("8: tcp => drop\n7: tcp => drop\ntcp => drop");
    let expected = "lines 1 and 3 are both rule 8 (one more than the rule before)";
    assert_eq!(counted, [(3, expected.to_owned())]);
    let end = problems("4294967295: tcp => drop\ntcp => drop");
    assert_eq!(end, [(2, "there is no id after 4294967295".to_owned())]);
    let defaults = problems("default drop\ndefault pass\ndefault cap\ndefault drop, count");
    assert_eq!(defaults[0], (2, "lines 1 and 2 both say the default".to_owned()));
    assert_eq!((defaults[1].0, defaults[2].0, defaults.len()), (3, 4, 3));
}

#[test]
fn exact_rules_name_one_conversation() {
    let exact = |text: &str| rule(&format!("{text} => drop")).unwrap().matches.exact_flow();
    let whole = "src ip 10.0.0.1 src port 5060 dst ip 10.0.0.2 dst port 5061 udp";
    let flow = exact(whole).unwrap();
    assert_eq!(flow.source, std::net::IpAddr::from([10, 0, 0, 1]));
    assert_eq!((flow.source_port.0, flow.destination_port.0), (5060, 5061));
    assert_eq!(exact(&format!("{whole} bidir")), Some(flow));
    for other in [
        "src ip 10.0.0.1 src port 5060 dst ip 10.0.0.2 udp".to_owned(),
        whole.replace("10.0.0.2", "10.0.0.0/24"),
        whole.replace("10.0.0.2", "2001:db8::1"),
        whole.replace("10.0.0.2", "@bad"),
        whole.replace("5061", "5061-5062"),
        whole.replace("udp", "icmp"),
        whole.replace("udp", "not udp"),
        whole.replace("dst ip", "ip"),
        format!("{whole} vlan 5"),
        format!("{whole} or tcp"),
    ] {
        assert_eq!(exact(&other), None, "{other}");
    }
}

#[test]
fn exchanged_sides() {
    let rule =
        rule("src ip 10.0.0.1 and not (dst port 80 or src mac 0:0:0:0:0:1) => drop").unwrap();
    assert_eq!(
        rule.matches.expression.exchanged().to_string(),
        "dst ip 10.0.0.1 and not (src port 80 or dst mac 00:00:00:00:00:01)"
    );
}
