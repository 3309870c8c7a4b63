//! Columns, and the length of files and functions, with a ratchet for what is over.

use super::rust::RustFile;
use super::tree::File;
use super::{Finding, House};

const COLUMNS_MAX: usize = 100;
/// Lines of code of a file: what one reader keeps in mind.
const FILE_LINES_MAX: usize = 500;
/// Tests are tables and cases, read one at a time.
const TEST_FILE_LINES_MAX: usize = 700;
/// Lines of a function: what fits on a screen.
const FUNCTION_LINES_MAX: usize = 70;
const TEST_FUNCTION_LINES_MAX: usize = 100;
/// Exceptions: `file PATH LINES REASON` or `function PATH:NAME LINES REASON`.
const RATCHET: &str = "xtask/ratchet.txt";

/// Something with a length.
struct Measure {
    /// `file PATH` or `function PATH:NAME`, as the ratchet names it.
    subject: String,
    path: String,
    line: usize,
    lines: usize,
    lines_max: usize,
}

struct Exception {
    line: usize,
    subject: String,
    lines: usize,
}

/// Judges every source file.
pub fn check(house: &House, rust: &[RustFile<'_>]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut measures = Vec::new();
    let sources = house.tree.files.iter().filter(|file| is_source(&file.path));
    for file in sources {
        findings.extend(columns(file));
        let parsed = rust.iter().find(|parsed| parsed.path == file.path);
        let is_test = parsed.is_some_and(|parsed| parsed.is_test);
        measures.push(Measure {
            subject: format!("file {}", file.path),
            path: file.path.clone(),
            line: 1,
            lines: code_lines(&file.text),
            lines_max: if is_test { TEST_FILE_LINES_MAX } else { FILE_LINES_MAX },
        });
        match parsed {
            Some(parsed) => measures.extend(rust_functions(parsed)),
            None => measures.extend(c_functions(file)),
        }
    }
    measures.retain(|measure| measure.lines > measure.lines_max);
    let (exceptions, bad) = exceptions(house);
    findings.extend(bad);
    findings.extend(measures.iter().filter_map(|measure| over(measure, &exceptions)));
    let unused = |exception: &&Exception| {
        !measures.iter().any(|measure| measure.subject == exception.subject)
    };
    findings.extend(exceptions.iter().filter(unused).map(|exception| {
        let text = format!("{} needs no exception; remove the line", exception.subject);
        Finding::new(RATCHET, exception.line, text)
    }));
    findings
}

fn is_source(path: &str) -> bool {
    [".rs", ".c", ".h"].iter().any(|end| path.ends_with(end))
}

fn columns(file: &File) -> impl Iterator<Item = Finding> + '_ {
    file.text.lines().enumerate().filter_map(|(index, line)| {
        // A tab of the kernel's C style is eight columns.
        let width: usize = line.chars().map(|c| if c == '\t' { 8 } else { 1 }).sum();
        let text = format!("{width} columns; break the line at {COLUMNS_MAX}");
        (width > COLUMNS_MAX).then(|| Finding::new(&file.path, index + 1, text))
    })
}

/// Lines that are neither blank nor comment.
fn code_lines(text: &str) -> usize {
    let mut in_comment = false;
    text.lines()
        .map(str::trim)
        .filter(|line| {
            let begins = line.starts_with("/*");
            let comment = in_comment || begins || line.starts_with("//");
            in_comment = (in_comment || begins) && !line.contains("*/");
            !comment && !line.is_empty()
        })
        .count()
}

fn rust_functions<'f>(file: &'f RustFile<'_>) -> impl Iterator<Item = Measure> + 'f {
    file.functions.iter().map(|function| {
        let line = *function.lines.start();
        let is_test = file.is_test_line(line);
        Measure {
            subject: format!("function {}:{}", file.path, function.name),
            path: file.path.to_owned(),
            line,
            lines: function.lines.end() - line + 1,
            lines_max: if is_test { TEST_FUNCTION_LINES_MAX } else { FUNCTION_LINES_MAX },
        }
    })
}

/// Functions in kernel style: the body opens on a line that begins in column 0, alone or at the
/// end of the signature, and closes with a brace in column 0.
fn c_functions(file: &File) -> Vec<Measure> {
    let mut measures = Vec::new();
    let mut open = None;
    let mut name = "";
    for (index, line) in file.text.lines().enumerate() {
        if line.starts_with(|c: char| c.is_alphabetic() || c == '_') && line.contains('(') {
            let head = line.split('(').next().unwrap_or_default();
            name = head.rsplit([' ', '*']).next().unwrap_or_default();
        }
        if line.ends_with('{') && !line.starts_with(char::is_whitespace) {
            open = Some(index);
        }
        if line == "}"
            && let Some(start) = open.take()
        {
            measures.push(Measure {
                subject: format!("function {}:{name}", file.path),
                path: file.path.clone(),
                line: start + 1,
                lines: index - start + 1,
                lines_max: FUNCTION_LINES_MAX,
            });
        }
    }
    measures
}

/// Judges one thing that is over its limit.
fn over(measure: &Measure, exceptions: &[Exception]) -> Option<Finding> {
    let Measure { subject, path, line, lines, lines_max } = measure;
    let exception = exceptions.iter().find(|exception| exception.subject == *subject);
    let Some(exception) = exception else {
        let text = format!("{subject} has {lines} lines of {lines_max}; split it along a noun");
        return Some(Finding::new(path, *line, text));
    };
    let was = exception.lines;
    (*lines > was)
        .then(|| {
            let text = format!("{subject} grew from {was} to {lines} lines; it may only shrink");
            Finding::new(path, *line, text)
        })
        .or_else(|| {
            let text = format!("{subject} shrank to {lines} lines; lower the number here");
            (*lines < was).then(|| Finding::new(RATCHET, exception.line, text))
        })
}

fn exceptions(house: &House) -> (Vec<Exception>, Vec<Finding>) {
    let (mut exceptions, mut findings) = (Vec::new(), Vec::new());
    let text = house.tree.file(RATCHET).map_or("", |file| &file.text);
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let mut words = line.split_whitespace();
        let parts = (words.next(), words.next(), words.next().map(str::parse), words.next());
        match parts {
            (Some(kind @ ("file" | "function")), Some(path), Some(Ok(lines)), Some(_)) => {
                let subject = format!("{kind} {path}");
                exceptions.push(Exception { line: index + 1, subject, lines });
            }
            _ => {
                let text = "write `file PATH LINES REASON` or `function PATH:NAME LINES REASON`";
                findings.push(Finding::new(RATCHET, index + 1, text));
            }
        }
    }
    (exceptions, findings)
}
