//! Hostile texts: large, deep, broken.

use super::*;
use limits::*;
use std::fs;

#[test]
fn a_million_rules() {
    let mut text = String::new();
    // In a short run most of them are short.
    let long = ringside_testkit::by_run(RULES_MAX as u32 / 16, RULES_MAX as u32);
    for number in 0..RULES_MAX as u32 {
        let address = std::net::Ipv4Addr::from_bits(0x0a00_0000 + number);
        match number < long {
            true => writeln!(text, "src ip {address} and dst port {} => drop", number % 60_000),
            false => writeln!(text, "any => drop"),
        }
        .unwrap();
    }
    let set = parse(text.as_bytes(), &mut Sets::none()).unwrap();
    assert_eq!(set.rules.len(), RULES_MAX);
    text.push_str("any => drop\n");
    let errors = parse(text.as_bytes(), &mut Sets::none()).unwrap_err();
    assert_eq!(errors.errors.len(), 1);
    assert_eq!(errors.errors[0].problem, "more than 1048576 rules");
}

#[test]
fn a_million_addresses_in_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let mut text = String::from("# every second address\r\n");
    for number in 0..SET_ENTRIES_MAX as u32 {
        // In no order: 2^32 and the factor have no divisor in common.
        let address = std::net::Ipv4Addr::from_bits(number.wrapping_mul(0x9e37_79b1) & !1);
        writeln!(text, "{address}").unwrap();
    }
    fs::write(folder.path().join("list.txt"), &text).unwrap();
    fs::write(folder.path().join("rules"), "src ip @list.txt => drop\nip @list.txt => take")
        .unwrap();
    let set = load(&folder.path().join("rules")).unwrap();
    let Expression::Term(Term::Ip(Side::Source, addresses)) = &set.rules[0].matches.expression
    else {
        panic!("{}", set.rules[0])
    };
    assert!(addresses.contains("0.0.0.0".parse().unwrap()));
    assert!(!addresses.contains("0.0.0.1".parse().unwrap()));
    assert!(set.to_string().starts_with("1: src ip @list.txt => drop\n"));

    text.push_str("0.0.0.0\n");
    let errors = AddressSet::parse(text.as_bytes()).unwrap_err();
    assert_eq!(errors.errors[0].problem, "more than 1000000 entries");
}

#[test]
fn address_files_that_cannot_be_used() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    fs::write(path("bad"), "10.0.0.0/8\n\n  10.0.0.1/8 # no\n").unwrap();
    let problem = |name: &str| {
        fs::write(path("rules"), format!("tcp => drop\nip {name} => drop")).unwrap();
        match load(&path("rules")).unwrap_err() {
            LoadError::Rules { errors, .. } => {
                assert_eq!((errors.errors[0].line, errors.errors[0].column), (2, 4));
                errors.errors[0].problem.clone()
            }
            other => panic!("{other}"),
        }
    };
    assert_eq!(
        problem("@bad"),
        "address file bad: line 3, column 3: 10.0.0.1/8 has bits set behind its prefix"
    );
    assert!(problem("@gone").contains("No such file"));
    assert!(problem("@.").contains("no regular file"));
    assert!(problem("@/dev/zero").contains("no regular file"));
    assert!(problem(&format!("@{}", "x".repeat(5000))).contains("4095"));
    assert!(matches!(load(&path("gone")), Err(LoadError::Read { .. })));
}

#[test]
fn many_address_files() {
    let mut sets = Sets::in_folder(std::path::Path::new("/"));
    for number in 0..SET_FILES_MAX {
        sets.insert(&number.to_string(), AddressSet::default());
    }
    assert!(parse(b"ip @0,@1,@63 => drop", &mut sets).is_ok());
    let errors = parse(b"ip @more => drop", &mut sets).unwrap_err();
    assert!(errors.errors[0].problem.contains("64 are allowed"), "{errors}");
}

#[test]
fn bytes_that_are_no_text() {
    let problem = |text: &[u8]| {
        let error = parse(text, &mut Sets::none()).unwrap_err().errors.remove(0);
        (error.line, error.column, error.problem)
    };
    for (text, line, column, expected) in [
        (&b"tcp => drop\nt\0cp => drop"[..], 2, 2, "U+0000 (NUL)"),
        (b"\xc3\xa9 # \xff", 1, 5, "byte 0xff is not UTF-8"),
        // A lone surrogate, as some encoders leave it; and an overlong NUL.
        (b"payload \"\xed\xa0\x80\" => drop", 1, 10, "byte 0xed"),
        (b"payload \"\xc0\x80\" => drop", 1, 10, "byte 0xc0"),
        (b"tcp \r => drop", 1, 5, "U+000D (a carriage return)"),
        ("tcp\u{202e} => drop".as_bytes(), 1, 4, "U+202E"),
        (b"tcp => drop\x1b[2J", 1, 12, "U+001B"),
        (b"\xff\xfet\0c\0p\0", 1, 1, "0xff"),
    ] {
        let (found_line, found_column, problem) = problem(text);
        assert_eq!((found_line, found_column), (line, column), "{problem}");
        assert!(problem.contains(expected), "{problem}");
    }
    assert!(parse(b"", &mut Sets::none()).unwrap().rules.is_empty());
    assert!(
        parse(b"\xef\xbb\xbf\r\n\n\r\n# \xc3\xa9", &mut Sets::none()).unwrap().rules.is_empty()
    );
    assert!(refusal("tcp => drop\nudp => drop").problem.contains("a line end"));
    assert!(rule("tcp => drop\r\n").is_ok());
}

#[test]
fn deep_parentheses() {
    let nested = |depth: usize, inner: &str| {
        format!("{}{inner}{} => drop", "(".repeat(depth), ")".repeat(depth))
    };
    assert!(rule(&nested(DEPTH_MAX, "tcp")).is_ok());
    let error = refusal(&nested(DEPTH_MAX + 1, "tcp"));
    assert!(error.problem.contains("64 parentheses") && error.column == DEPTH_MAX + 1, "{error}");
    assert!(refusal(&nested(30_000, "tcp")).problem.contains("64 parentheses"));
    assert!(refusal(&"(".repeat(LINE_BYTES_MAX)).problem.contains("64 parentheses"));
    assert!(rule(&format!("{} tcp => drop", "not ".repeat(16_000))).is_ok());
    // Alternating, so that nothing is flattened.
    let alternating = format!("{}tcp{} => drop", "(any or !(".repeat(32), "))".repeat(32));
    assert_eq!(
        rule(&alternating).unwrap(),
        rule(&rule(&alternating).unwrap().to_string()).unwrap()
    );
    let inner = format!("inner {} => drop", nested(DEPTH_MAX, "tcp").replace(" => drop", ""));
    assert!(rule(&inner).is_ok());
}

#[test]
fn long_terms_and_lists() {
    let long = "x".repeat(10_000);
    for text in [
        format!("{long} => drop"),
        format!("src {long} => drop"),
        format!("ip {long} => drop"),
        format!("ip {} => drop", "1".repeat(10_000)),
        format!("port {} => drop", "1".repeat(10_000)),
        format!("mac {long} => drop"),
        format!("payload \"{long}\" => drop"),
        format!("filter \"{long}\" => drop"),
        format!("http.host {long} => drop"),
        format!("sip.to {long} => drop"),
        format!("bytes net+0 = {} => drop", "00".repeat(5_000)),
        format!("tcp => {long}"),
        format!("tcp => mirror {long}"),
        format!("{}: tcp => drop", "1".repeat(10_000)),
        format!("tcp => drop # {}", "x".repeat(LINE_BYTES_MAX)),
    ] {
        let message = refusal(&text).to_string();
        assert!(message.len() < 600, "{message}");
    }
    let ports: Vec<String> = (0..=LIST_ITEMS_MAX).map(|port| (2 * port).to_string()).collect();
    assert!(rule(&format!("port {} => drop", ports[1..].join(","))).is_ok());
    assert!(refusal(&format!("port {} => drop", ports.join(","))).problem.contains("4096 items"));
    let terms = |count| format!("{} => drop", vec!["tcp"; count].join(" or "));
    assert!(rule(&terms(TERMS_MAX)).is_ok());
    assert!(refusal(&terms(TERMS_MAX + 1)).problem.contains("1024 terms"));
    let kept: Vec<String> = (0..=KEEP_RANGES_MAX).map(|at| (2 * at).to_string()).collect();
    assert!(rule(&format!("tcp => keep {}", kept[1..].join(","))).is_ok());
    assert!(refusal(&format!("tcp => keep {}", kept.join(","))).problem.contains("17 ranges"));
}

#[test]
fn a_rule_whose_canonical_text_is_no_line_is_refused() {
    // Two bytes of text become six of hexadecimal digits.
    let payload = format!("payload \"{}\\x00\" ", "é".repeat(500));
    assert!(rule(&format!("{} => drop", payload.repeat(20))).is_ok());
    let error = refusal(&format!("{} => drop", payload.repeat(60)));
    assert!(error.problem.starts_with("written out, the rule has 18"), "{error}");
    let list = (0..LIST_ITEMS_MAX).map(|n| format!("{}:{:x}::", n % 7, 2 * n));
    let list = format!("ip {} => drop", list.collect::<Vec<_>>().join(","));
    assert_eq!(rule(&rule(&list).unwrap().to_string()), rule(&list));
}

#[test]
fn errors_are_collected_up_to_a_limit() {
    let errors = parse("nonsense\n".repeat(1000).as_bytes(), &mut Sets::none()).unwrap_err();
    assert_eq!((errors.errors.len(), errors.is_cut), (ERRORS_MAX, true));
    assert!(errors.to_string().ends_with("the rest was not read after 20 errors"));
    let errors = parse("nonsense\n".repeat(20).as_bytes(), &mut Sets::none()).unwrap_err();
    assert_eq!((errors.errors.len(), errors.is_cut), (ERRORS_MAX, false));
}
