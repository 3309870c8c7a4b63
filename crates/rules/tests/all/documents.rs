//! The examples of docs/rules.md are real: rules parse, and mistakes are reported in these words.

use ringside_rules::language::{AddressSet, Sets, parse};
use std::fs;

/// The contents of the document's fences of one kind.
fn fences(kind: &str) -> Vec<String> {
    let path = ringside_testkit::project_root().join("docs/rules.md");
    let text = fs::read_to_string(path).unwrap();
    let mut rest = text.as_str();
    let mut found = Vec::new();
    while let Some((_, behind)) = rest.split_once(&format!("```{kind}\n")) {
        let (inside, after) = behind.split_once("```").unwrap();
        found.push(inside.to_owned());
        rest = after;
    }
    found
}

fn sets() -> Sets {
    let mut sets = Sets::none();
    sets.insert("blocked.txt", AddressSet::default());
    sets
}

#[test]
fn rules_parse() {
    let examples = fences("rules");
    assert!(examples.len() >= 7);
    for example in examples {
        let set = parse(example.as_bytes(), &mut sets());
        let set = set.unwrap_or_else(|errors| panic!("{errors}"));
        let again = parse(set.to_string().as_bytes(), &mut sets());
        assert_eq!(again, Ok(set));
    }
}

#[test]
fn mistakes_are_reported_in_these_words() {
    let examples = fences("error");
    assert!(examples.len() >= 5);
    for example in examples {
        let shown: Vec<&str> = example.lines().collect();
        let [_, wrong, _] = shown[..] else { panic!("{example}") };
        // Of the example about two lines the page shows the second.
        let first = if example.starts_with("line 2") { "7: tcp => take\n" } else { "" };
        let text = format!("{first}{}", wrong.trim_start());
        let errors = parse(text.as_bytes(), &mut sets()).unwrap_err();
        assert_eq!(errors.to_string(), example.trim_end(), "{text}");
    }
}
