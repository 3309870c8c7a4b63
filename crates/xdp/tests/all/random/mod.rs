//! Rules that a driver takes, and frames that have to do with them.

use ringside_testkit::Random;
use ringside_testkit::rules::random_rule;

pub use ringside_testkit::rules::random_frame;

/// Some rules; with `any` also such as are not for a driver. Rules that cannot be in a driver for
/// their form alone are left out.
pub fn random_rules(random: &mut Random, any: bool) -> String {
    let mut text = String::new();
    let mut id = 1;
    for _ in 0..random.below(14) {
        let line = random_rule(random, id, any);
        let rule = ringside_rules::language::parse(
            line.as_bytes(),
            &mut ringside_rules::language::Sets::none(),
        );
        let Ok(mut rule) = rule else { panic!("{line}{}", rule.unwrap_err()) };
        if any || is_for_a_driver(rule.rules.remove(0)) {
            text += &line;
            id += 1 + random.below(3);
        }
    }
    text
}

/// True if a rule can be in a driver, as far as its match goes.
pub fn is_for_a_driver(rule: ringside_rules::Rule) -> bool {
    use ringside_rules::cover::Cover;
    struct Any;
    impl ringside_xdp::checks::SetNumbers for Any {
        type Error = ();
        fn number(
            &mut self,
            _: &ringside_rules::language::Addresses,
        ) -> Result<ringside_xdp::SetId, ()> {
            Ok(ringside_xdp::SetId(0))
        }
    }
    rule.matches.exact_flow().is_some()
        || Cover::of(&rule.matches).is_exact
        || ringside_xdp::checks::of(&rule.matches, &mut Any).is_ok()
}
