//! Filter text from anyone: libpcap may refuse it, but whatever it compiles must pass our checks,
//! and our evaluator must agree with libpcap's.

use crate::common::expressions;
use pcap::{Capture, Linktype};
use ringside_core::LinkType;
use ringside_filter::{
    Compiler, FilterError, Target, TranslateOptions, compile, evaluate, translate,
};
use std::collections::HashSet;

/// Longer texts make slow inputs, not other ones.
const TEXT_BYTES_MAX: usize = 300;

/// Words of the table that are names, and may come to stand where a host's name does.
const NAMES: [&str; 12] = [
    "domain", "http", "ftp", "ftp-data", "main", "eth0", "match", "short", "aa", "data", "fe80",
    "ff02",
];

/// Words that are not in the table become numbers: libpcap would look them up in the DNS.
fn without_names(text: &str, known: &HashSet<&str>) -> String {
    let mut output = String::new();
    let mut rest = text;
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':');
    while let Some(first) = rest.chars().next() {
        let end = match is_word(first) {
            true => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            false => first.len_utf8(),
        };
        let (word, tail) = rest.split_at(end);
        let number = is_number(word);
        let plain = !is_word(first) && first.is_ascii() && first != '\\';
        output.push_str(match word {
            word if number || plain || known.contains(word) => word,
            _ if is_word(first) => "1",
            // A backslash would make a name of the keyword behind it.
            _ => " ",
        });
        rest = tail;
    }
    output
}

/// True for what libpcap takes for a number or an address. Digits with other dots between them
/// (`1.`, `1..2`, five numbers) are a name to it, which it looks up.
fn is_number(word: &str) -> bool {
    let number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let dotted = |part: &str| part.split('.').count() <= 4 && part.split('.').all(number);
    word.split(':').all(|part| part.is_empty() || dotted(part))
}

#[test]
fn what_libpcap_would_look_up_becomes_a_number() {
    let known = HashSet::from(["host", "net"]);
    let same = ["host 10.0.0.1", "net 10.1 host ::1", "host 1:2:3:4:5:6:7:8"];
    same.iter().for_each(|text| assert_eq!(without_names(text, &known), *text));
    for name in ["a", "1.", "19168.1.", "1..2", "1.2.3.4.5", "1:2.", "1a", "1-2", ".1"] {
        assert_eq!(without_names(&format!("host {name}"), &known), "host 1");
    }
}

#[test]
fn any_text_is_refused_or_means_the_same_as_in_libpcap() {
    let table = expressions::all();
    let known: HashSet<&str> = table
        .iter()
        .flat_map(|text| text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_')))
        .filter(|word| !NAMES.contains(word))
        .collect();
    let frames: [Vec<u8>; 3] = [
        // An IPv4 TCP segment, two tags before ARP, and noise.
        [&[2; 12][..], &[8, 0, 0x45, 0, 0, 40, 0, 1, 0, 0, 64, 6], &[1; 40]].concat(),
        [&[0xff; 12][..], &[0x81, 0, 0, 5, 0x81, 0, 0, 6, 8, 6], &[3; 40]].concat(),
        ringside_testkit::Random::new(3).bytes(200),
    ];
    let seeds: Vec<Vec<u8>> = table.iter().map(|text| text.as_bytes().to_vec()).collect();
    let handle = Capture::dead(Linktype(1)).unwrap();
    let targets = [Target::Socket, Target::Xdp { tags: true }, Target::XdpFast { tags: true }];
    let link_type = LinkType::ETHERNET;
    let options = |target| TranslateOptions { target, link_type, snaplen_bytes: 0, counters: None };
    ringside_testkit::fuzz("filter-text", 2_000, &seeds, |input| {
        let text = String::from_utf8_lossy(&input[..input.len().min(TEXT_BYTES_MAX)]);
        let text = without_names(&text, &known);
        let compiler = Compiler::InProcess { optimise: false };
        match compile(&text, LinkType::ETHERNET, 0, &compiler) {
            Err(FilterError::Refused { .. } | FilterError::NotInFrame { .. }) => {}
            Err(error) => panic!("libpcap's own program: {error}"),
            Ok(compiled) => {
                for target in targets {
                    translate(&compiled.program, &options(target)).unwrap();
                }
                let Ok(theirs) = handle.compile(&text, false) else { return };
                // libpcap before 1.10.6 may loop for ever in a `protochain`.
                let loops = compiled.program.instructions.iter();
                if loops.clone().any(|i| i.code == 5 && (i.k as i32) < 0) {
                    return;
                }
                for frame in &frames {
                    let ours = evaluate(&compiled.program, frame, frame.len() as u32) != 0;
                    assert_eq!(ours, theirs.filter(frame), "{text}");
                }
            }
        }
    });
}
