//! What two programs find in the same captures.

use std::collections::BTreeMap;
use std::path::Path;

/// How often each message was found.
pub type Messages = BTreeMap<String, usize>;

/// A file in which both say something else: the number of messages that only the other program has,
/// and that only we have, and why.
pub type Difference = (&'static str, usize, usize, &'static str);

/// Compares file by file, and has in the end what differs.
#[derive(Debug, Default)]
pub struct Agreement {
    files: usize,
    messages: usize,
    wrong: Vec<String>,
}

impl Agreement {
    /// Compares what was found in a file. `expected` is how many only they have, and only we, where
    /// `differences` does not name the file.
    pub fn compare(
        &mut self,
        path: &Path,
        [ours, theirs]: [&Messages; 2],
        differences: &[Difference],
        expected: (usize, usize),
    ) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let (only_theirs, only_ours) = (more(theirs, ours), more(ours, theirs));
        let known = differences.iter().find(|(file, ..)| *file == name);
        let expected = known.map_or(expected, |(_, theirs, ours, _)| (*theirs, *ours));
        if (only_theirs.len(), only_ours.len()) != expected {
            self.wrong.push(format!("{name}: only they {only_theirs:?}, only we {only_ours:?}"));
        }
        self.files += 1;
        self.messages += theirs.values().sum::<usize>();
    }

    /// Says how much was compared.
    ///
    /// # Panics
    /// Something differs that should not.
    pub fn check(self, test: &str) {
        eprintln!("{test}: {} messages of {} files", self.messages, self.files);
        assert!(self.wrong.is_empty(), "{}", self.wrong.join("\n"));
    }
}

/// Messages that one has more often than the other.
fn more(one: &Messages, other: &Messages) -> Vec<String> {
    let mut more = Vec::new();
    for (message, count) in one {
        let count = count.saturating_sub(other.get(message).copied().unwrap_or(0));
        more.extend((0..count).map(|_| message.clone()));
    }
    more
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(all: &[(&str, usize)]) -> Messages {
        all.iter().map(|(message, count)| ((*message).to_owned(), *count)).collect()
    }

    #[test]
    fn what_differs_is_expected_by_file() {
        let (ours, theirs) = (messages(&[("a", 2), ("b", 1)]), messages(&[("a", 1), ("c", 1)]));
        let compare = |name: &str, expected| {
            let mut agreement = Agreement::default();
            let known = [("known", 1, 2, "a reason")];
            agreement.compare(Path::new(name), [&ours, &theirs], &known, expected);
            agreement.wrong
        };
        assert_eq!(compare("known", (0, 0)), Vec::<String>::new());
        assert_eq!(compare("other", (1, 2)), Vec::<String>::new());
        assert_eq!(compare("other", (0, 0)), [r#"other: only they ["c"], only we ["a", "b"]"#]);
    }
}
