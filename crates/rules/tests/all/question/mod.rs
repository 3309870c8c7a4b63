//! What questions mean: term by term on frames made for it, against libpcap on every real capture,
//! as boolean algebra, and on any bytes.

mod booleans;
mod frames;
mod fuzz;
mod headers;
mod link;
mod messages;
mod reference;
mod tunnels;

use ringside_core::LinkType;
use ringside_filter::Compiler;
use ringside_inspect::DissectedFrame;
use ringside_rules::Question;
use ringside_rules::language::{Match, RuleId, Sets, parse_rule};

/// Filters in tests are our own.
const COMPILER: Compiler = Compiler::InProcess { optimise: true };

/// The match of a text.
fn matches(text: &str) -> Match {
    let rule = parse_rule(format!("{text} => count").as_bytes(), RuleId::FIRST, &mut Sets::none());
    rule.unwrap_or_else(|error| panic!("{error}")).matches
}

/// The question of a text, about Ethernet frames.
fn question(text: &str) -> Question {
    Question::new(&matches(text), LinkType::ETHERNET, &COMPILER).unwrap()
}

/// A whole Ethernet frame.
fn dissected(bytes: &[u8]) -> DissectedFrame<'_> {
    DissectedFrame::new(bytes, bytes.len() as u32, LinkType::ETHERNET)
}

/// Asks each question about the frame, and its `not` where it has one.
#[track_caller]
fn judge(dissected: &DissectedFrame<'_>, yes: &[&str], no: &[&str]) {
    for (texts, expected) in [(yes, true), (no, false)] {
        for text in texts {
            let layers = dissected.layers();
            assert_eq!(question(text).holds(dissected), expected, "{text} on {layers:?}");
            // `bidir` is said of a whole match, so that there is no `not` of it.
            if text.ends_with("bidir") {
                continue;
            }
            let negated = format!("not ({text})");
            assert_eq!(question(&negated).holds(dissected), !expected, "{negated} on {layers:?}");
        }
    }
}
