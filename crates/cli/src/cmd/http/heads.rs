//! Rules that let only packets with heads through (`--headers-only`).

use ringside_rules::language::{RuleSet, Sets, parse};

/// The beginnings of requests and responses. Four bytes each, so that a driver can compare them.
const BEGINNINGS: [&[u8; 4]; 12] = [
    b"HTTP", b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"OPTI", b"PATC", b"CONN", b"TRAC",
    b"PROP", b"REPO",
];

/// The rules. What they do not take goes on to the host where a driver decides (`passes`): there
/// it is the host's only copy.
pub fn rules(passes: bool) -> RuleSet {
    let mut text = String::new();
    for beginning in BEGINNINGS {
        let hex: String = beginning.iter().map(|byte| format!("{byte:02x}")).collect();
        text.push_str(&format!("tcp and bytes payload+0 = {hex} => take\n"));
    }
    text.push_str(if passes { "default pass\n" } else { "default drop\n" });
    parse(text.as_bytes(), &mut Sets::default()).expect("rules of our own")
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringside_rules::language::Verdict;

    #[test]
    fn the_rules_are_right() {
        assert_eq!(rules(false).rules.len(), BEGINNINGS.len());
        assert_eq!((rules(false).default, rules(true).default), (Verdict::Drop, Verdict::Pass));
    }
}
