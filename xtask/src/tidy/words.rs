//! Words that must not stay: reminders, leftovers of debugging, panics without a proof, and paths
//! of one machine.

use super::rust::{RustFile, is_sign, is_word};
use super::{Finding, House};
use proc_macro2::{Delimiter, TokenTree};

// Put together here, so that this file obeys its own rule.
const REMINDERS: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];
const MACROS: [&str; 3] = ["todo", "unimplemented", "dbg"];
const MACHINE_PATHS: [&str; 2] = [concat!("/wo", "rk/"), concat!("/ro", "ot/")];
const CODE: [&str; 6] = [".rs", ".c", ".h", ".toml", ".sh", ".py"];

/// Judges the words of every text file, comments included.
pub fn check(house: &House) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in &house.tree.files {
        let name = file.path.rsplit('/').next().unwrap_or(&file.path);
        let is_code = CODE.iter().any(|end| name.ends_with(end)) || !name.contains('.');
        for (index, line) in file.text.lines().enumerate() {
            let mut find = |text| findings.push(Finding::new(&file.path, index + 1, text));
            for path in MACHINE_PATHS.iter().filter(|path| names_path(line, path)) {
                find(format!("path of one machine ({path}…); make it relative or a variable"));
            }
            for word in REMINDERS.iter().filter(|word| is_code && has_word(line, word)) {
                find(format!("{word}; do it now, or open an issue and say what holds today"));
            }
        }
    }
    findings
}

/// Judges what only tokens tell apart from text.
pub fn check_rust(file: &RustFile<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    file.each_token(|tokens, at| {
        let line = tokens[at].span().start().line;
        let mut find = |text: String| findings.push(Finding::new(file.path, line, text));
        for name in MACROS {
            if is_word(tokens, at, name) && is_sign(tokens, at + 1, '!') {
                find(format!("{name}! is left; write the code, or remove it"));
            }
        }
        if is_sign(tokens, at, '#') && is_ignore(tokens.get(at + 1)) {
            find("ignored test; use testkit::skip, which is counted, or remove it".into());
        }
        let call = is_sign(tokens, at, '.')
            && is_word(tokens, at + 1, "unwrap")
            && matches!(tokens.get(at + 2), Some(TokenTree::Group(g)) if g.stream().is_empty());
        if call && !file.is_test_line(tokens[at + 1].span().start().line) {
            find("unwrap outside tests; return the error, or prove it in expect(\"…\")".into());
        }
    });
    findings
}

/// `[ignore]` or `[ignore = "…"]`.
fn is_ignore(token: Option<&TokenTree>) -> bool {
    let Some(TokenTree::Group(group)) = token else { return false };
    let first = group.stream().into_iter().next();
    let named = matches!(first, Some(TokenTree::Ident(ident)) if ident == "ignore");
    group.delimiter() == Delimiter::Bracket && named
}

/// True if `path` begins an absolute path in `line`, not the middle of a longer one.
fn names_path(line: &str, path: &str) -> bool {
    line.match_indices(path).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        before.is_none_or(|c| !c.is_alphanumeric() && !"._-})/*$".contains(c))
    })
}

fn has_word(line: &str, word: &str) -> bool {
    let part = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    line.match_indices(word).any(|(at, _)| {
        let after = line[at + word.len()..].chars().next();
        !part(line[..at].chars().next_back()) && !part(after)
    })
}
