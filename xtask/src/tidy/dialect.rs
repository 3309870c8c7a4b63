//! Words of our own that comments and documents do without: each has a plain one, which a reader
//! whose first language is another knows.

use super::documents::prose;
use super::tree::File;
use super::{Finding, House};

/// Each word, in small letters, and what to write instead.
const WORDS: [(&str, &str); 16] = [
    ("beside", "\"next to\", \"in addition to\" or \"outside\""),
    ("mailbox", "\"queue\""),
    ("mend", "\"fix\" or \"repair\""),
    ("mended", "\"repaired\""),
    ("mends", "\"repairs\""),
    ("nobody", "\"no process\", \"no thread\", \"no reader\", or what does not happen"),
    ("seat", "\"slot\""),
    ("seats", "\"slots\""),
    ("sight", "what is seen, and by which program"),
    ("so many", "the parameter's name, or \"this number of\""),
    ("told", "\"reported\", \"gets\" or \"set\", and by which part"),
    ("whoever", "the process, thread or program that does it"),
    ("whomever", "the process, thread or program to which it happens"),
    ("wish", "\"request\" or \"option\""),
    ("wished", "\"requested\""),
    ("wishes", "\"requests\" or \"options\""),
];

/// Where they are looked for.
const FOLDERS: &[&str] = &[
    "bpf/",
    "crates/balance/",
    "crates/bench/",
    "crates/calls/",
    "crates/capture/",
    "crates/cli/",
    "crates/client-c/",
    "crates/client/",
    "crates/control/",
    "crates/core/",
    "crates/dns/",
    "crates/doctor/",
    "crates/dpdk/",
    "crates/ebpf/",
    "crates/export/",
    "crates/extension/",
    "crates/filter/",
    "crates/flow/",
    "crates/http/",
    "crates/inspect/",
    "crates/keeper/",
    "crates/lab/",
    "crates/logs/",
    "crates/meter/",
    "crates/netdev/",
    "crates/outlet/",
    "crates/pcap/",
    "crates/print/",
    "crates/proto/",
    "crates/record/",
    "crates/report/",
    "crates/ring/",
    "crates/route/",
    "crates/rules/",
    "crates/segment/",
    "crates/serve/",
    "crates/session/",
    "crates/store/",
    "crates/streams/",
    "crates/sys/",
    "crates/terminal/",
    "crates/testkit/",
    "crates/tls/",
    "crates/top/",
    "crates/transmit/",
    "crates/wire/",
    "crates/xdp/",
    "docs/",
    "xtask/",
];

pub(super) fn check(house: &House) -> Vec<Finding> {
    let is_checked = |file: &&File| FOLDERS.iter().any(|folder| file.path.starts_with(folder));
    house.tree.files.iter().filter(is_checked).flat_map(dialect).collect()
}

/// The words of the list in one file, also those that go over the end of a line. What stands
/// between backticks is a name, not prose.
fn dialect(file: &File) -> Vec<Finding> {
    let text = readable(file);
    let mut words: Vec<(usize, String)> = Vec::new();
    for (index, line) in prose(&text) {
        words.extend(line.split_whitespace().map(|word| (index, plain(word))));
    }
    let mut findings = Vec::new();
    for (at, (index, _)) in words.iter().enumerate() {
        for (word, instead) in WORDS {
            let mut parts = word.split(' ').zip(&words[at..]);
            let is_whole = word.split(' ').count() <= words.len() - at;
            if is_whole && parts.all(|(part, (_, found))| part == found) {
                let text = format!("{word}; write {instead}");
                findings.push(Finding::new(&file.path, index + 1, text));
            }
        }
    }
    findings
}

/// A word in small letters, without what surrounds it and without an `'s`.
fn plain(word: &str) -> String {
    let word = word.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
    word.strip_suffix("'s").map(str::to_owned).unwrap_or(word)
}

/// What people read of a file, with the lines where they are: a document as it is, the comments of
/// a program.
fn readable(file: &File) -> String {
    let end = file.path.rsplit('.').next().unwrap_or_default();
    let mut in_block = false;
    let comment = |line| match end {
        "rs" => line_comment(line).unwrap_or_default().to_owned(),
        "c" | "h" => c_comment(line, &mut in_block),
        "md" => line.to_owned(),
        _ => String::new(),
    };
    file.text.lines().map(comment).collect::<Vec<_>>().join("\n")
}

/// A comment to the end of the line, without its slashes. In a line with code a mark within quotes
/// is none.
fn line_comment(line: &str) -> Option<&str> {
    let is_code = |at: usize| line[..at].matches('"').count().is_multiple_of(2);
    let (at, _) = line.match_indices("//").find(|&(at, _)| is_code(at))?;
    Some(line[at..].trim_start_matches(['/', '!']))
}

/// The comments of a line of C. `in_block` says whether it begins within one, and then whether the
/// next line does.
fn c_comment(line: &str, in_block: &mut bool) -> String {
    let (mut comment, mut rest) = (String::new(), line);
    loop {
        if *in_block {
            let Some((inside, after)) = rest.split_once("*/") else { return comment + rest };
            comment.push_str(inside);
            (*in_block, rest) = (false, after);
        }
        let to_end = line_comment(rest);
        let begin = rest.find("/*").filter(|&at| line_comment(&rest[..at]).is_none());
        let Some(begin) = begin else { return comment + to_end.unwrap_or_default() };
        (*in_block, rest) = (true, &rest[begin + 2..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines and beginnings of what is found in a file of this name and text.
    fn found(path: &str, text: &str) -> Vec<(usize, String)> {
        let file = File { path: path.into(), text: text.into() };
        let word = |text: String| text.split(';').next().unwrap().to_owned();
        dialect(&file).into_iter().map(|finding| (finding.line, word(finding.text))).collect()
    }

    fn words(found: &[(usize, &str)]) -> Vec<(usize, String)> {
        found.iter().map(|&(line, word)| (line, word.to_owned())).collect()
    }

    #[test]
    fn comments_of_rust_are_read_and_its_code_is_not() {
        let text = "//! Nobody's.\nlet told = @// told@; // a seat\n    /// For whoever\n";
        let expected = words(&[(1, "nobody"), (2, "seat"), (3, "whoever")]);
        assert_eq!(found("a.rs", &text.replace('@', "\"")), expected);
        let names = "/// `told`, [`Wishes::beside`], besides, untold, a so-many\n";
        assert_eq!(found("a.rs", &format!("{names}/// ```\n/// told\n/// ```\n")), words(&[]));
        assert_eq!(found("a.toml", "# told"), words(&[]));
    }

    #[test]
    fn two_words_are_found_over_the_end_of_a_line() {
        assert_eq!(found("a.rs", "/// Takes so\n/// many.\n"), words(&[(1, "so many")]));
        assert_eq!(found("a.rs", "// So many are told\n"), words(&[(1, "so many"), (1, "told")]));
        assert_eq!(found("a.rs", "/// many so"), words(&[]));
    }

    #[test]
    fn comments_of_c_are_read_and_its_code_is_not() {
        let text = concat!(
            "int told; /* told */ int seat; /* a\n * mend\n */ int nobody; // a /* wish\n",
            "int seat;\n// beside */\n",
        );
        let expected = words(&[(1, "told"), (2, "mend"), (3, "wish"), (5, "beside")]);
        assert_eq!(found("bpf/a.bpf.c", text), expected);
    }

    #[test]
    fn documents_are_read_without_code() {
        let text = "It is told.\n```\ntold\n```\nand `told`\n";
        assert_eq!(found("docs/A.md", text), words(&[(1, "told")]));
    }

    #[test]
    fn every_word_of_the_list_is_found_and_has_another_instead() {
        for (word, instead) in WORDS {
            assert_eq!(found("a.rs", &format!("// a {word}.")), words(&[(1, word)]));
            assert_eq!(found("a.rs", &format!("// {instead}")), words(&[]), "{word}");
        }
    }
}
