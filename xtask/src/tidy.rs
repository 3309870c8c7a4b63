//! The house rules that the compiler and clippy do not check, as findings.

mod book;
mod bpf;
mod dialect;
mod documents;
mod floors;
mod house;
mod rooms;
mod rust;
mod safety;
mod size;
mod toolchain;
mod tree;
mod words;

#[cfg(test)]
mod tests;

pub use book::site;
pub use floors::{Dependency, Package};
pub use house::House;
pub use tree::Tree;

use std::fmt;
use std::path::Path;

/// One place that breaks a rule, and the fix.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Finding {
    /// File, from the project's root.
    pub path: String,
    /// Line from 1; 1 also stands for the file as a whole.
    pub line: usize,
    /// What is wrong, and how to fix it.
    pub text: String,
}

impl Finding {
    fn new(path: &str, line: usize, text: impl Into<String>) -> Finding {
        Finding { path: path.to_owned(), line, text: text.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.text)
    }
}

/// Checks the project at `root`. No finding means that every rule holds.
///
/// # Errors
/// A file or the output of `cargo metadata` cannot be read.
pub fn check(root: &Path) -> anyhow::Result<Vec<Finding>> {
    Ok(judge(&House::read(root)?))
}

/// Applies every rule; findings in order of file and line.
pub fn judge(house: &House) -> Vec<Finding> {
    let (files, mut findings) = rust::parse(&house.tree);
    findings.extend(floors::check(house));
    findings.extend(rooms::check(&files));
    findings.extend(size::check(house, &files));
    findings.extend(documents::check(house));
    findings.extend(book::check(house));
    findings.extend(bpf::check(house));
    findings.extend(words::check(house));
    findings.extend(dialect::check(house));
    findings.extend(toolchain::check(house));
    for file in &files {
        findings.extend(words::check_rust(file));
        findings.extend(safety::check(file));
    }
    findings.extend(safety::check_roots(house));
    findings.sort();
    findings.dedup();
    findings
}
