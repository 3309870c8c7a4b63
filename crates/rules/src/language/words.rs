//! The words of the language, and what to say about one that is none of them.

use super::error::meant;
use super::names::{HOST_FIELDS, SHORTHANDS, TEXT_FIELDS, names};

/// Words that begin a match, in addition to those of the tables in `names.rs`.
const MATCHES: [&str; 19] = [
    "any",
    "vlan",
    "mpls",
    "src",
    "dst",
    "mac",
    "ethertype",
    "proto",
    "ip",
    "ip4",
    "ip6",
    "port",
    "tcpflags",
    "length",
    "bytes",
    "filter",
    "payload",
    "inner",
    "not",
];

/// Words that follow `src` and `dst`.
const DIRECTED: [&str; 3] = ["mac", "ip", "port"];

/// Words that begin an action.
pub const ACTIONS: [&str; 13] = [
    "drop", "take", "pass", "count", "cap", "keep", "sample", "mirror", "redirect", "digest",
    "pin", "stop", "continue",
];

/// Words of other languages that mean something here.
const ELSEWHERE: [(&str, &str); 17] = [
    ("host", "write `ip ADDRESS`"),
    ("net", "write `ip 10.0.0.0/8`"),
    ("portrange", "write `port 1-1023`"),
    ("ether", "write `mac` for an address, `ethertype` for a type"),
    ("greater", "write `length 64-`"),
    ("less", "write `length -64`"),
    ("len", "write `length 64-1500`"),
    ("ipv4", "write `ip4`"),
    ("ipv6", "write `ip6`"),
    ("icmpv6", "write `icmp6`"),
    ("arp", "write `ethertype arp`"),
    ("content", "write `payload \"text\"`"),
    ("accept", "write `take`, or `pass` for the host"),
    ("reject", "write `drop`; nothing is sent back"),
    ("deny", "write `drop`"),
    ("allow", "write `pass`"),
    ("snaplen", "write `cap 96`"),
];

/// What would be right instead of `word`, where a match should begin.
pub fn match_meant(word: &str) -> String {
    if ACTIONS.contains(&word) {
        return "write `=>` before the actions".to_owned();
    }
    let known = MATCHES.into_iter().chain(SHORTHANDS);
    let known = known.chain(names(&TEXT_FIELDS)).chain(names(&HOST_FIELDS)).chain(["http.status"]);
    elsewhere(word).unwrap_or_else(|| {
        meant(word, known, "a match is as `tcp`, `port 80`, `src ip 10.0.0.0/8` or `any`")
    })
}

/// What would be right instead of `word` behind `side`, which is `src` or `dst`.
pub fn directed_meant(side: &str, word: &str) -> String {
    if word.starts_with(|c: char| c.is_ascii_digit()) {
        return format!("write `{side} ip` for an address, `{side} port` for a port");
    }
    let fix = format!("write `{side} ip`, `{side} port` or `{side} mac`");
    elsewhere(word).unwrap_or_else(|| meant(word, DIRECTED.into_iter(), &fix))
}

/// What would be right instead of `word`, where an action should begin.
pub fn action_meant(word: &str) -> String {
    elsewhere(word).unwrap_or_else(|| meant(word, ACTIONS.into_iter(), &actions()))
}

/// All actions, as a sentence.
pub fn actions() -> String {
    format!("actions are {}", ACTIONS.join(", "))
}

fn elsewhere(word: &str) -> Option<String> {
    let found = ELSEWHERE.iter().find(|(theirs, _)| *theirs == word.to_ascii_lowercase());
    found.map(|(_, ours)| (*ours).to_owned())
}
