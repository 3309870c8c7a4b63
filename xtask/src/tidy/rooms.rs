//! Rooms: a crate's modules at the top do not import each other in a circle, so that each can be
//! read before those that stand on it.
//!
//! What counts is `crate::X` outside of tests, in whatever file of a room, and `super::X` where
//! that is the same. What the root names again is the root's, and no room's.

use super::Finding;
use super::rust::{RustFile, is_sign, is_word};
use proc_macro2::{TokenStream, TokenTree};
use std::collections::BTreeSet;

/// One room imports another.
struct Import<'t> {
    from: &'t str,
    to: String,
    path: &'t str,
    line: usize,
}

pub(super) fn check(files: &[RustFile<'_>]) -> Vec<Finding> {
    let name = |file: &RustFile<'_>| {
        let (name, path) = file.path.strip_prefix("crates/")?.split_once('/')?;
        path.starts_with("src/").then(|| name.to_owned())
    };
    let crates: BTreeSet<String> = files.iter().filter_map(name).collect();
    crates.iter().filter_map(|name| circle(name, files)).collect()
}

/// The circles of a crate, as one finding.
fn circle(name: &str, files: &[RustFile<'_>]) -> Option<Finding> {
    let folder = format!("crates/{name}/src/");
    let mut imports: Vec<Import<'_>> =
        files.iter().flat_map(|file| imports(file, &folder)).collect();
    // A room that imports none, or that none imports, is in no circle; nor is one that is so
    // without it.
    loop {
        let before = imports.len();
        let from: BTreeSet<String> = imports.iter().map(|one| one.from.to_owned()).collect();
        let to: BTreeSet<String> = imports.iter().map(|one| one.to.clone()).collect();
        imports.retain(|import| from.contains(&import.to) && to.contains(import.from));
        if imports.len() == before {
            break;
        }
    }
    let first = imports.first()?;
    let rooms: BTreeSet<&str> = imports.iter().map(|import| import.from).collect();
    let rooms: Vec<&str> = rooms.into_iter().collect();
    let text = format!(
        "{} import each other in a circle; move what two of them need to a module that needs none",
        rooms.join(", ")
    );
    Some(Finding::new(first.path, first.line, text))
}

/// What a file imports from other rooms of its crate, outside of tests.
fn imports<'t>(file: &RustFile<'t>, folder: &str) -> Vec<Import<'t>> {
    let Some((room, depth)) = room(file.path, folder) else { return Vec::new() };
    let mut imports = Vec::new();
    file.each_token(|tokens, index| {
        let line = tokens[index].span().start().line;
        let Some(after) = behind_root(tokens, index, depth) else { return };
        if file.is_test_line(line) {
            return;
        }
        let others = names(after).into_iter().filter(|name| name != room);
        imports.extend(others.map(|to| Import { from: room, to, path: file.path, line }));
    });
    imports
}

/// The room of a file, and how many modules the file lies below the root; none for a root, which
/// only names what is in the rooms.
fn room<'t>(path: &'t str, folder: &str) -> Option<(&'t str, usize)> {
    let module = path.strip_prefix(folder)?.trim_end_matches(".rs").trim_end_matches("/mod");
    let first = module.split('/').next()?;
    (!["lib", "main"].contains(&module)).then(|| (first, module.split('/').count()))
}

/// What follows the root in a path that begins at `index`, in a file `depth` modules below it.
fn behind_root(tokens: &[TokenTree], index: usize, depth: usize) -> Option<&TokenTree> {
    let is_step = |at: usize, word: &str| {
        is_word(tokens, at, word) && is_sign(tokens, at + 1, ':') && is_sign(tokens, at + 2, ':')
    };
    if is_step(index, "crate") {
        return tokens.get(index + 3);
    }
    let ups = (0..).take_while(|up| is_step(index + 3 * up, "super")).count();
    let is_begin = index < 3 || !is_step(index - 3, "super");
    tokens.get(index + 3 * ups).filter(|_| ups == depth && is_begin)
}

/// The names that follow the root: one, or the first of each path in braces.
fn names(after: &TokenTree) -> Vec<String> {
    match after {
        TokenTree::Ident(name) => vec![name.to_string()],
        TokenTree::Group(group) => first_names(group.stream()),
        _ => Vec::new(),
    }
}

fn first_names(paths: TokenStream) -> Vec<String> {
    let tokens: Vec<TokenTree> = paths.into_iter().collect();
    let starts = tokens.split(|token| matches!(token, TokenTree::Punct(p) if p.as_char() == ','));
    starts.filter_map(|path| path.first()).map(ToString::to_string).collect()
}
