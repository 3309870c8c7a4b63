//! Documents stay true: links lead somewhere, the map names every crate, every dependency has its
//! reason, every library says what it is for.

use super::floors::Package;
use super::tree::File;
use super::{Finding, House};
use std::collections::BTreeSet;

const ARCHITECTURE: &str = "docs/ARCHITECTURE.md";
const DEPENDENCIES: &str = "docs/DEPENDENCIES.md";
/// Where Debian's packages are listed, one a line, each list between a line that ends so and a
/// line that is so.
const PACKAGES: &str = "scripts/deps";
const PACKAGES_BEGIN: &str = "packages='";
const PACKAGES_END: &str = "'";
/// What a contract says at least: what is provided, why in this shape, what is refused.
const CONTRACT_LINES_MIN: usize = 3;

pub(super) fn check(house: &House) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in house.tree.files.iter().filter(|file| file.path.ends_with(".md")) {
        findings.extend(links(house, file));
    }
    for file in house.tree.files.iter().filter(|file| file.path.ends_with(".rs")) {
        findings.extend(mentions(house, file));
    }
    for package in &house.packages {
        findings.extend(on_the_map(house, package));
        findings.extend(package.roots.iter().filter_map(|root| contract(house, root)));
    }
    findings.extend(reasons(house));
    findings
}

/// Relative links of one document, with their anchors.
fn links(house: &House, file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in prose(&file.text) {
        for target in targets(&line) {
            if target.contains("://") || target.starts_with("mailto:") {
                continue;
            }
            let (path, anchor) = target.split_once('#').unwrap_or((&target, ""));
            let path = if path.is_empty() { Some(file.path.clone()) } else { join(file, path) };
            let text = match path {
                None => format!("link {target} leaves the project; name it in words"),
                Some(path) if !house.tree.has(&path) => {
                    format!("link to {path}, which does not exist; fix or remove it")
                }
                Some(path) if !has_anchor(house, &path, anchor) => {
                    format!("{path} has no heading #{anchor}; fix the link")
                }
                Some(_) => continue,
            };
            findings.push(Finding::new(&file.path, index + 1, text));
        }
    }
    findings
}

/// Lines outside code fences, numbered from 0, without code spans.
pub(super) fn prose(text: &str) -> impl Iterator<Item = (usize, String)> + '_ {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
            return None;
        }
        let outside: Vec<&str> = line.split('`').step_by(2).collect();
        (!fenced).then(|| (index, outside.concat()))
    })
}

/// Targets of `[text](target)` and of `[name]: target`.
pub(super) fn targets(line: &str) -> Vec<String> {
    let inline = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let named = line.trim_start().strip_prefix('[').and_then(|rest| rest.split_once("]: "));
    inline
        .chain(named.map(|(_, target)| target))
        .filter_map(|target| target.split_whitespace().next())
        .map(|target| target.trim_matches(['<', '>']).to_owned())
        .collect()
}

/// `path` as seen from the folder of `file`, or `None` if it leaves the project.
pub(super) fn join(file: &File, path: &str) -> Option<String> {
    let mut parts: Vec<&str> = file.path.split('/').collect();
    parts.pop();
    for part in path.split('/') {
        match part {
            "." | "" => {}
            ".." => drop(parts.pop()?),
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

fn has_anchor(house: &House, path: &str, anchor: &str) -> bool {
    let text = house.tree.file(path).map_or("", |file| &file.text);
    anchor.is_empty() || !path.ends_with(".md") || anchors(text).contains(anchor)
}

/// The anchors that GitHub and most renderers give headings; a repeated heading gets `-1`, `-2`.
fn anchors(text: &str) -> BTreeSet<String> {
    let mut anchors = BTreeSet::new();
    let mut fenced = false;
    for line in text.lines() {
        fenced ^= line.trim_start().starts_with("```");
        let title = line.trim_start_matches('#');
        if fenced || title.len() == line.len() || !title.starts_with(' ') {
            continue;
        }
        let keep = |c: char| match c {
            ' ' => Some('-'),
            c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
            _ => None,
        };
        let slug: String = title.trim().to_lowercase().chars().filter_map(keep).collect();
        let numbered = (1..).map(|n| format!("{slug}-{n}"));
        let free = std::iter::once(slug.clone()).chain(numbered).find(|s| !anchors.contains(s));
        anchors.extend(free);
    }
    anchors
}

/// Documents under docs/ that comments in code refer to by path.
fn mentions(house: &House, file: &File) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, line) in file.text.lines().enumerate() {
        // Strings of tests and tools may speak of files that are not ours.
        let Some(comment) = line.trim_start().strip_prefix("//") else { continue };
        for (at, _) in comment.match_indices("docs/") {
            let end = comment[at..].find(|c: char| !c.is_alphanumeric() && !"/_-.".contains(c));
            let path = comment[at..end.map_or(comment.len(), |end| at + end)].trim_end_matches('.');
            if path.ends_with(".md") && !house.tree.has(path) {
                let text = format!("speaks of {path}, which does not exist; write or unname it");
                findings.push(Finding::new(&file.path, index + 1, text));
            }
        }
    }
    findings
}

/// The map for newcomers names the crate's folder.
fn on_the_map(house: &House, package: &Package) -> Option<Finding> {
    let folder = package.manifest.trim_end_matches("/Cargo.toml");
    let name = folder.rsplit('/').next().unwrap_or(folder);
    let map = house.tree.file(ARCHITECTURE).map_or("", |file| &file.text);
    let named = map.contains(folder)
        || map.contains(&format!("`{name}`"))
        || map.split_whitespace().any(|word| word.strip_suffix('/') == Some(name));
    let text = format!("does not name {folder}; add what it is for and its floor");
    (!named).then(|| Finding::new(ARCHITECTURE, 1, text))
}

/// A library opens with its contract.
fn contract(house: &House, root: &str) -> Option<Finding> {
    let file = house.tree.file(root).filter(|file| file.path.ends_with("/lib.rs"))?;
    let head = file.text.lines().skip_while(|line| line.starts_with("#![") || line.is_empty());
    let said = head.take_while(|line| line.starts_with("//!")).filter(|line| line.len() > 4);
    let text = "has no contract; open it with `//!`: what it provides, why in this shape, what \
                it refuses";
    (said.count() < CONTRACT_LINES_MIN).then(|| Finding::new(root, 1, text))
}

/// Every crate of others and every Debian package has a line with its reason, and no line speaks
/// of one that is gone.
fn reasons(house: &House) -> Vec<Finding> {
    let text = house.tree.file(DEPENDENCIES).map_or("", |file| &file.text);
    let listed: Vec<(usize, &str)> =
        text.lines().enumerate().filter_map(|(index, line)| Some((index, row(line)?))).collect();
    let mut used = BTreeSet::new();
    let mut findings = Vec::new();
    for package in &house.packages {
        for dependency in package.dependencies.iter().filter(|dependency| !dependency.ours) {
            used.insert(dependency.name.as_str());
        }
    }
    for (line, name) in debian_packages(house).into_iter().chain(workspace_dependencies(house)) {
        if line.0 == "Cargo.toml" && !used.contains(name) {
            let text = format!("no crate uses {name}; remove the line");
            findings.push(Finding::new(line.0, line.1, text));
        }
        used.insert(name);
    }
    for name in &used {
        if !listed.iter().any(|(_, row)| row == name) {
            let text = format!("no reason for {name}; add a row | `{name}` | what it saves |");
            findings.push(Finding::new(DEPENDENCIES, 1, text));
        }
    }
    for (index, name) in listed.iter().filter(|(_, name)| !used.contains(name)) {
        let text = format!("nothing uses {name} any more; remove the row");
        findings.push(Finding::new(DEPENDENCIES, index + 1, text));
    }
    findings
}

/// The name in a row ``| `name` | reason |`` that gives a reason.
fn row(line: &str) -> Option<&str> {
    let (name, reason) = line.strip_prefix("| `")?.split_once("` |")?;
    (reason.trim_matches([' ', '|']).len() > 1).then_some(name)
}

/// Names in `[workspace.dependencies]` that are not ours, each with file and line.
fn workspace_dependencies(house: &House) -> Vec<((&str, usize), &str)> {
    let text = house.tree.file("Cargo.toml").map_or("", |file| &file.text);
    let section = text.lines().enumerate().skip_while(|(_, l)| *l != "[workspace.dependencies]");
    section
        .skip(1)
        .take_while(|(_, line)| !line.starts_with('['))
        .filter(|(_, line)| !line.starts_with('#') && !line.contains("path = "))
        .filter_map(|(index, line)| Some((("Cargo.toml", index + 1), line.split_once(" =")?.0)))
        .collect()
}

/// Debian's packages that the project installs, each with file and line.
fn debian_packages(house: &House) -> Vec<((&str, usize), &str)> {
    let text = house.tree.file(PACKAGES).map_or("", |file| &file.text);
    let mut is_listed = false;
    let mut packages = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if line == PACKAGES_END {
            is_listed = false;
        } else if is_listed {
            packages.push(((PACKAGES, index + 1), line.trim()));
        } else if line.ends_with(PACKAGES_BEGIN) {
            is_listed = true;
        }
    }
    packages
}
