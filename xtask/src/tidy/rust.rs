//! Rust files, parsed once for all rules.

use super::{Finding, Tree};
use proc_macro2::{TokenStream, TokenTree};
use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// A parsed file.
pub struct RustFile<'t> {
    /// Path from the project's root.
    pub path: &'t str,
    /// Its lines.
    pub lines: Vec<&'t str>,
    /// Its functions, wherever they stand.
    pub functions: Vec<Function>,
    /// True if the whole file is compiled for tests only.
    pub is_test: bool,
    tokens: TokenStream,
    test_lines: Vec<RangeInclusive<usize>>,
    test_modules: Vec<String>,
}

/// A function with a body.
pub struct Function {
    /// Name without its path.
    pub name: String,
    /// Lines from the signature to the closing brace.
    pub lines: RangeInclusive<usize>,
}

/// Parses every Rust file; one that is no Rust is a finding.
pub fn parse(tree: &Tree) -> (Vec<RustFile<'_>>, Vec<Finding>) {
    let (mut files, mut findings) = (Vec::new(), Vec::new());
    for file in tree.files.iter().filter(|file| file.path.ends_with(".rs")) {
        match parse_one(&file.path, &file.text) {
            Ok(parsed) => files.push(parsed),
            Err(error) => findings.push(Finding::new(
                &file.path,
                error.span().start().line,
                format!("is no Rust ({error}); fix or remove it"),
            )),
        }
    }
    let modules: BTreeSet<String> =
        files.iter().flat_map(|file| file.test_modules.iter().cloned()).collect();
    for file in &mut files {
        let stem = file.path.trim_end_matches(".rs");
        let mut ancestors = stem.match_indices('/').map(|(at, _)| &stem[..at]);
        file.is_test = stem.split('/').any(|part| part == "tests" || part == "benches")
            || modules.contains(stem)
            || ancestors.any(|folder| modules.contains(folder));
    }
    (files, findings)
}

fn parse_one<'t>(path: &'t str, text: &'t str) -> syn::Result<RustFile<'t>> {
    let tokens: TokenStream = text.parse()?;
    let syntax: syn::File = syn::parse2(tokens.clone())?;
    let mut scan = Scan { folder: module_folder(path), ..Scan::default() };
    scan.visit_file(&syntax);
    Ok(RustFile {
        path,
        lines: text.lines().collect(),
        functions: scan.functions,
        is_test: false,
        tokens,
        test_lines: scan.test_lines,
        test_modules: scan.test_modules,
    })
}

impl RustFile<'_> {
    /// True if `line` is compiled for tests only.
    pub fn is_test_line(&self, line: usize) -> bool {
        self.is_test || self.test_lines.iter().any(|range| range.contains(&line))
    }

    /// Calls `look` for every token, also those in macros, with its neighbours and its index
    /// among them. Comments and documentation are no tokens of their own.
    pub fn each_token(&self, mut look: impl FnMut(&[TokenTree], usize)) {
        walk(self.tokens.clone(), &mut look);
    }
}

fn walk(tokens: TokenStream, look: &mut impl FnMut(&[TokenTree], usize)) {
    let level: Vec<TokenTree> = tokens.into_iter().collect();
    for index in 0..level.len() {
        look(&level, index);
        if let TokenTree::Group(group) = &level[index] {
            walk(group.stream(), look);
        }
    }
}

/// True if `tokens[index]` is the word `word`.
pub fn is_word(tokens: &[TokenTree], index: usize, word: &str) -> bool {
    matches!(tokens.get(index), Some(TokenTree::Ident(ident)) if ident == word)
}

/// True if `tokens[index]` is the character `sign`.
pub fn is_sign(tokens: &[TokenTree], index: usize, sign: char) -> bool {
    matches!(tokens.get(index), Some(TokenTree::Punct(punct)) if punct.as_char() == sign)
}

/// Where the files of a file's modules lie.
fn module_folder(path: &str) -> String {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    match name {
        "lib.rs" | "main.rs" | "mod.rs" => folder.to_owned(),
        _ => format!("{folder}/{}", name.trim_end_matches(".rs")),
    }
}

#[derive(Default)]
struct Scan {
    folder: String,
    functions: Vec<Function>,
    test_lines: Vec<RangeInclusive<usize>>,
    test_modules: Vec<String>,
}

impl Scan {
    fn function(&mut self, attributes: &[syn::Attribute], sig: &syn::Signature, end: usize) {
        let lines = sig.span().start().line..=end;
        if attributes.iter().any(is_for_tests) {
            self.test_lines.push(lines.clone());
        }
        self.functions.push(Function { name: sig.ident.to_string(), lines });
    }
}

impl<'s> Visit<'s> for Scan {
    fn visit_item_mod(&mut self, module: &'s syn::ItemMod) {
        if module.attrs.iter().any(is_for_tests) {
            match module.content {
                Some(_) => self.test_lines.push(lines(module)),
                None => self.test_modules.push(format!("{}/{}", self.folder, module.ident)),
            }
        }
        visit::visit_item_mod(self, module);
    }

    fn visit_item_fn(&mut self, function: &'s syn::ItemFn) {
        self.function(&function.attrs, &function.sig, function.block.span().end().line);
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'s syn::ImplItemFn) {
        self.function(&function.attrs, &function.sig, function.block.span().end().line);
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'s syn::TraitItemFn) {
        if let Some(block) = &function.default {
            self.function(&function.attrs, &function.sig, block.span().end().line);
        }
        visit::visit_trait_item_fn(self, function);
    }

    fn visit_item_impl(&mut self, item: &'s syn::ItemImpl) {
        if item.attrs.iter().any(is_for_tests) {
            self.test_lines.push(lines(item));
        }
        visit::visit_item_impl(self, item);
    }
}

fn lines(item: &impl Spanned) -> RangeInclusive<usize> {
    item.span().start().line..=item.span().end().line
}

/// `#[test]`, or a `#[cfg]` that holds in tests only.
fn is_for_tests(attribute: &syn::Attribute) -> bool {
    let cfg = attribute.path().is_ident("cfg");
    attribute.path().is_ident("test")
        || (cfg && attribute.parse_args().is_ok_and(|condition| implies_test(&condition)))
}

fn implies_test(condition: &syn::Meta) -> bool {
    let syn::Meta::List(list) = condition else { return condition.path().is_ident("test") };
    let parts = list.parse_args_with(Punctuated::<syn::Meta, syn::Token![,]>::parse_terminated);
    let Ok(parts) = parts else { return false };
    let mut implied = parts.iter().map(implies_test);
    match list.path.get_ident() {
        Some(all) if all == "all" => implied.any(|part| part),
        Some(any) if any == "any" => !parts.is_empty() && implied.all(|part| part),
        _ => false,
    }
}
