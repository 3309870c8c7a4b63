//! Command lines as documents show them, for tests: whether this program would take them.

use super::Cli;
use clap::Parser;
use clap::error::ErrorKind;

/// Words at which the part of a line for this program ends.
const ENDS: [&str; 4] = ["|", "&&", ";", "#"];

/// Parses the command that `line` shows, if it is one of this program: the words after `ringside`
/// up to a pipe or comment. A comment may also stand behind two spaces.
///
/// # Errors
/// The program would refuse it: the line, and why.
pub(crate) fn parsed(line: &str) -> Option<Result<(), String>> {
    let line = line.trim().strip_prefix("sudo ").unwrap_or(line.trim());
    let rest = line.strip_prefix("ringside ")?;
    let words = ["ringside".to_owned()].into_iter().chain(words(rest));
    Some(match Cli::try_parse_from(words).map(drop) {
        // The file has it.
        Err(error)
            if rest.starts_with("--config ")
                && error.kind() == ErrorKind::MissingRequiredArgument =>
        {
            Ok(())
        }
        parsed => parsed.map_err(|error| format!("{line}: {error}")),
    })
}

/// Words as a shell splits them, without variables.
fn words(line: &str) -> Vec<String> {
    let (mut words, mut word, mut quote, mut blanks) = (Vec::new(), None::<String>, None, 0);
    for letter in line.chars() {
        match (quote, letter) {
            (Some(open), _) if open == letter => quote = None,
            (None, '\'' | '"') => {
                quote = Some(letter);
                word.get_or_insert_default();
            }
            (None, ' ') => {
                if let Some(word) = word.take() {
                    if ENDS.contains(&word.as_str()) {
                        return words;
                    }
                    words.push(word);
                    blanks = 0;
                }
                blanks += 1;
                if blanks == 2 {
                    return words;
                }
            }
            _ => word.get_or_insert_default().push(letter),
        }
    }
    words.extend(word.filter(|word| !ENDS.contains(&word.as_str())));
    words
}

#[test]
fn a_line_ends_at_a_pipe_or_a_comment() {
    assert_eq!(words("read -r 'a b' --json | jq .tcp"), ["read", "-r", "a b", "--json"]);
    assert_eq!(words("read -r a  the file"), ["read", "-r", "a"]);
    assert_eq!(words("read -r a # the file"), ["read", "-r", "a"]);
}
