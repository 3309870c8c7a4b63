//! The site of the documentation is whole: SUMMARY.md names every document, each once. That links
//! lead somewhere is the rule of all documents.

use super::documents::{join, prose, targets};
use super::tree::{File, Tree};
use super::{Finding, House};
use std::collections::{BTreeMap, BTreeSet};

/// The pages, in the order of reading.
const SUMMARY: &str = "SUMMARY.md";
/// How mdBook builds them.
const SETTINGS: &str = "book.toml";

pub(super) fn check(house: &House) -> Vec<Finding> {
    let Some(summary) = house.tree.file(SUMMARY) else {
        let text = format!("without {SUMMARY} there is no page; write one");
        return Vec::from_iter(house.tree.has(SETTINGS).then(|| Finding::new(SETTINGS, 1, text)));
    };
    let mut findings = Vec::new();
    let mut named = BTreeMap::new();
    for (line, path) in links(summary) {
        if !path.ends_with(".md") {
            let text = format!("{path} is no page; name a document, as a whole");
            findings.push(Finding::new(SUMMARY, line, text));
        } else if let Some(first) = named.get(&path) {
            let text = format!("{path} is a page already, by line {first}; remove one");
            findings.push(Finding::new(SUMMARY, line, text));
        } else {
            named.insert(path, line);
        }
    }
    let documents = house.tree.files.iter().map(|file| &file.path);
    let documents = documents.filter(|path| path.ends_with(".md") && *path != SUMMARY);
    for path in documents.filter(|path| !named.contains_key(*path)) {
        let text = format!("does not name {path}; add it where a reader looks for it");
        findings.push(Finding::new(SUMMARY, 1, text));
    }
    findings
}

/// The files that the site is made of: the pages with their summary, and files that they link to.
pub fn site(tree: &Tree) -> BTreeSet<String> {
    let Some(summary) = tree.file(SUMMARY) else { return BTreeSet::new() };
    let pages: Vec<&File> = links(summary).iter().filter_map(|(_, path)| tree.file(path)).collect();
    let linked = pages.iter().flat_map(|page| links(page));
    let linked = linked.filter_map(|(_, path)| Some(path.split('#').next()?.to_owned()));
    let named = pages.iter().map(|page| page.path.clone());
    let files = linked.chain(named).filter(|path| tree.is_file(path));
    files.chain([SUMMARY.to_owned()]).collect()
}

/// What a document links to in the project, with lines from 1 and with anchors.
fn links(file: &File) -> Vec<(usize, String)> {
    let mut links = Vec::new();
    for (index, line) in prose(&file.text) {
        let inside = targets(&line).into_iter().filter(|target| !target.contains("://"));
        links.extend(inside.filter_map(|target| Some((index + 1, join(file, &target)?))));
    }
    links
}
