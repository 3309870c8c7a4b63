use super::*;
use crate::keep::RulesBuilder;
use ringside_core::LinkType;
use ringside_core::limits::FRAME_BYTES_MAX;
use ringside_filter::Compiler;
use ringside_rules::language::{self, Sets};
use ringside_rules::pre_filter::QUESTIONS_MAX;

const LINK: LinkType = LinkType::ETHERNET;

fn set(text: &str) -> RuleSet {
    language::parse(text.as_bytes(), &mut Sets::none()).unwrap()
}

fn rule(text: &str) -> Rule {
    set(text).rules.remove(0)
}

/// Rules at work behind a pre-filter that knows the web and name service, and those of others.
fn rules_with(others: Vec<(String, InterfacePreFilter)>) -> Rules {
    let text = "1: tcp port 80 => take\n2: udp port 53 => take\ndefault drop";
    let rules = RulesBuilder::new(set(text), Compiler::InProcess { optimise: true }).unwrap();
    let pre_filter = PreFilter::new(&set(text), LINK, FRAME_BYTES_MAX, QUESTIONS_MAX).unwrap();
    let own = InterfacePreFilter::installed(pre_filter, std::iter::empty());
    let all = [("eth1".to_owned(), own)].into_iter().chain(others);
    rules.with_pre_filters(all).build([LINK]).unwrap()
}

fn rules() -> Rules {
    rules_with(Vec::new())
}

fn text(rules: &Rules) -> String {
    let [(interface, status)] = &rules.pre_filters()[..] else { panic!("one interface") };
    assert_eq!(interface, "eth1");
    status.text(rules.count())
}

#[track_caller]
fn check(rules: &Rules, on: bool) {
    let text = text(rules);
    assert_eq!(text.starts_with("off"), !on, "{text}");
    assert_eq!(rules.lock().pre_filters.is_on, on);
}

#[test]
fn an_unknown_rule_switches_off_until_it_is_deleted() {
    let rules = rules();
    check(&rules, true);
    rules.add(rule("3: tcp dst port 80 src ip 10.0.0.1 => drop")).unwrap();
    check(&rules, true);
    rules.add(rule("4: icmp => take")).unwrap();
    check(&rules, false);
    assert!(text(&rules).contains("3 of 4 rules") && text(&rules).contains("(4)"));
    rules.add(rule("5: vlan 7 => take")).unwrap();
    assert!(rules.remove(RuleId(4)));
    check(&rules, false);
    assert!(rules.remove(RuleId(5)));
    check(&rules, true);
    // A rule that is known may go at any time.
    assert!(rules.remove(RuleId(1)));
    assert!(!rules.remove(RuleId(1)));
    check(&rules, true);
    assert!(text(&rules).starts_with("2 of 2 rules"), "{}", text(&rules));
}

#[test]
fn what_fails_leaves_things_as_they_were() {
    let rules = rules();
    // The id is taken.
    assert!(rules.add(rule("1: icmp => take")).is_err());
    check(&rules, true);
    rules.add(rule("4: icmp => take")).unwrap();
    for again in ["4: icmp6 => take", "4: udp port 53 => take"] {
        assert!(rules.add(rule(again)).is_err());
        check(&rules, false);
    }
    assert!(rules.load(set("1: udp => redirect cpu 1\ndefault drop")).is_err());
    check(&rules, false);
}

#[test]
fn a_load_decides_anew() {
    let rules = rules();
    rules.load(set("9: udp src port 53 => take\ndefault drop")).unwrap();
    check(&rules, true);
    rules.load(set("9: udp port 53 => take\n10: tcp => take\ndefault drop")).unwrap();
    check(&rules, false);
    rules.load(set("9: udp port 53 => take\ndefault drop")).unwrap();
    check(&rules, true);
    // What no rule decides about is not dropped any more.
    for default in ["take", "pass"] {
        rules.load(set(&format!("9: udp port 53 => take\ndefault {default}"))).unwrap();
        check(&rules, false);
        assert!(text(&rules).contains("default"));
        rules.load(set("default drop")).unwrap();
        check(&rules, true);
    }
}

#[test]
fn an_interface_without_one_needs_no_switch() {
    let none = InterfacePreFilter::none("for a test".to_owned());
    let rules = rules_with(vec![("tun0".to_owned(), none)]);
    let statuses = rules.pre_filters();
    let reason = PreFilterStatus::None { reason: "for a test".to_owned() };
    assert_eq!(statuses[1], ("tun0".to_owned(), reason));
    assert!(matches!(statuses[0].1, PreFilterStatus::On { questions: 1.. }));
    assert_eq!(statuses[1].1.text(2), "none: for a test");
}
