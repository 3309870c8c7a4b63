//! `unsafe` lives in crates/sys and in crates whose interface is C, and each use says why it is
//! sound.

use super::rust::{RustFile, is_word};
use super::{Finding, House};
use proc_macro2::{Delimiter, TokenTree};

/// System calls, mappings and shared memory.
const SYS: &str = "sys";

/// Crates whose interface is C: who calls them, or what they call, hands over pointers, so that no
/// safe function can have these signatures. Such a crate is a shell: a new one is named here, in
/// docs/STYLE.md and in docs/ARCHITECTURE.md.
const FFI_CRATES: &[&str] = &["client-c", "dpdk", "kafka", "pcap", "pfring"];

const FORBID: &str = "#![forbid(unsafe_code)]";

/// Judges every `unsafe` of a file, also inside macros.
pub fn check(file: &RustFile<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    file.each_token(|tokens, index| {
        if !is_word(tokens, index, "unsafe") || is_pointer_type(tokens, index) {
            return;
        }
        let line = tokens[index].span().start().line;
        if !may_be_unsafe(file.path) {
            let text = format!("`unsafe` outside crates/{SYS}/; add a safe function there");
            findings.push(Finding::new(file.path, line, text));
        } else if !has_reason(&file.lines, line) {
            let text = "`unsafe` without a reason; add `// SAFETY:` (or `# Safety` in the \
                        documentation of an unsafe fn) with each obligation and why it holds";
            findings.push(Finding::new(file.path, line, text));
        }
    });
    findings
}

/// Every other crate forbids it, so that the compiler agrees.
pub fn check_roots(house: &House) -> Vec<Finding> {
    let roots = house.packages.iter().flat_map(|package| &package.roots);
    let files = roots.filter_map(|root| house.tree.file(root));
    files
        .filter(|file| !may_be_unsafe(&file.path) && !file.text.contains(FORBID))
        .map(|file| Finding::new(&file.path, 1, format!("lacks {FORBID}; add it as first line")))
        .collect()
}

fn may_be_unsafe(path: &str) -> bool {
    let folder = path.strip_prefix("crates/").and_then(|path| path.split('/').next());
    folder.is_some_and(|folder| folder == SYS || FFI_CRATES.contains(&folder))
}

/// `unsafe fn(…)` and `unsafe extern "C" fn(…)` name a type; only calling one is unsafe.
fn is_pointer_type(tokens: &[TokenTree], unsafe_at: usize) -> bool {
    let mut rest = tokens[unsafe_at + 1..].iter().take(3);
    let fn_at = rest.position(|token| matches!(token, TokenTree::Ident(ident) if ident == "fn"));
    let after = fn_at.and_then(|at| tokens.get(unsafe_at + at + 2));
    matches!(after, Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Parenthesis)
}

/// A SAFETY comment in the statement of `line`, or in the comments and attributes above it.
/// Clippy's undocumented_unsafe_blocks is stricter for blocks; this also covers functions.
fn has_reason(lines: &[&str], line: usize) -> bool {
    for text in lines[..line - 1].iter().rev().map(|text| text.trim()) {
        if text.starts_with("//") {
            if text.contains("SAFETY:") || text.contains("# Safety") {
                return true;
            }
        } else if text.is_empty() || (!text.starts_with('#') && text.ends_with([';', '{', '}'])) {
            return false;
        }
    }
    false
}
