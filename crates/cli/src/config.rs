//! Configuration files: options of the command line, in TOML.
//!
//! What a file may hold is read off the declaration of the command line: a table for each
//! subcommand, a key for each of its options. Values become words of the command line, which is
//! parsed afterwards as if they had been written there: each option is declared, checked and
//! explained in one place, and no option is listed here.

mod options;
mod template;
#[cfg(test)]
mod tests;

use anyhow::{Context, anyhow, ensure};
use clap::Command;
use clap::error::ErrorKind;
use clap::parser::ValueSource;
pub use options::Section;
use options::{Reader, Setting};
use ringside_balance::config::Place;
use ringside_core::Shown;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
pub use template::template;

/// Longest file: some hundred options, and lists of thousands.
const FILE_BYTES_MAX: u64 = 256 << 10;

/// The option that names the file, in front of the subcommand.
const OPTION: &str = "--config";

/// A configuration, of which each option is right by itself, and none excludes another.
pub struct Config {
    pub sections: Vec<Section>,
}

/// What is wrong with a configuration, and where.
#[derive(Debug)]
pub struct Problem {
    pub place: Place,
    pub text: String,
}

/// The command line with the options that its configuration file gives in addition; without a file
/// it is as it was.
///
/// # Errors
/// The file cannot be read, or something is wrong with it.
pub fn with_file(
    mut words: Vec<OsString>,
    cli: impl FnOnce() -> Command,
) -> anyhow::Result<Vec<OsString>> {
    let Some((path, rest)) = named(&words) else { return Ok(words) };
    let mut cli = cli();
    cli.build();
    let config =
        parse(&read(&path)?, &cli).map_err(|problems| anyhow!(listed(&path, &problems)))?;
    let rest = config.merged(&cli, &words[rest..]);
    words.truncate(1);
    words.extend(rest);
    Ok(words)
}

/// The file that is named, and the index of the first word behind.
fn named(words: &[OsString]) -> Option<(PathBuf, usize)> {
    let first = words.get(1)?;
    if first == OPTION {
        return Some((words.get(2)?.into(), 3));
    }
    let path = first.as_bytes().strip_prefix(OPTION.as_bytes())?.strip_prefix(b"=")?;
    Some((OsStr::from_bytes(path).into(), 2))
}

/// The bytes of a file.
///
/// # Errors
/// It cannot be read, is no regular file, or is longer than any configuration.
pub fn read(path: &Path) -> anyhow::Result<Vec<u8>> {
    let opened = || format!("configuration {}", path.shown());
    // Both processes of a run read the file, so it cannot be a pipe, which gives its bytes once.
    let is_file = path.metadata().with_context(opened)?.is_file();
    ensure!(is_file, "{} is no file", opened());
    let file = File::open(path).with_context(opened)?;
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes).with_context(opened)?;
    ensure!(
        bytes.len() as u64 <= FILE_BYTES_MAX,
        "{} is longer than {FILE_BYTES_MAX} bytes",
        opened()
    );
    Ok(bytes)
}

/// Reads a configuration by the declaration of the command line, on which
/// [`build`](Command::build) was called.
///
/// # Errors
/// What is wrong with it: the first 20 of it, in the order of the file.
pub fn parse(bytes: &[u8], cli: &Command) -> Result<Config, Vec<Problem>> {
    let text = match str::from_utf8(bytes) {
        Ok(text) => text,
        Err(error) => {
            let valid = str::from_utf8(&bytes[..error.valid_up_to()]).unwrap_or_default();
            let place = Place::of(valid, valid.len());
            return Err(vec![Problem { place, text: "not UTF-8".to_owned() }]);
        }
    };
    let mut reader = Reader::new(text);
    match toml::de::DeTable::parse(text) {
        Ok(table) => reader.table(cli, &[], table.get_ref()),
        Err(error) => {
            let at = error.span().map_or(0, |span| span.start);
            reader.problem(at, &error.message().trim().replace('\n', "; "));
        }
    }
    reader.finish()
}

/// A line for each problem.
pub fn listed(path: &Path, problems: &[Problem]) -> String {
    let line = |Problem { place, text }: &Problem| format!("{}:{place}: {text}", path.shown());
    problems.iter().map(line).collect::<Vec<_>>().join("\n")
}

impl Config {
    /// The words behind `ringside`, with what this says of the subcommand that they name. Options
    /// that were given win, also over those that they exclude.
    fn merged(&self, cli: &Command, given: &[OsString]) -> Vec<OsString> {
        let (path, command) = named_command(cli, given);
        let Some(section) = self.sections.iter().find(|section| section.path == path) else {
            return given.to_vec();
        };
        let (names, own) = given.split_at(path.len());
        [names, &options::line(&taken(command, section, own), own)].concat()
    }
}

/// The settings that hold next to what was given: not what was given, nor what that excludes,
/// nor what makes no sense without what it excludes.
fn taken<'s>(command: &Command, section: &'s Section, given: &[OsString]) -> Vec<&'s Setting> {
    let ids = ids(command, given);
    let others = section.settings.iter().filter(|setting| !ids.contains(&setting.id));
    let (out, mut taken): (Vec<&Setting>, Vec<&Setting>) =
        others.partition(|setting| excluded(command, setting, given));
    if !out.is_empty() {
        let out = out.iter().filter_map(|setting| {
            let arg = command.get_arguments().find(|arg| arg.get_id().as_str() == setting.id);
            arg.map(ToString::to_string)
        });
        let out: Vec<String> = out.collect();
        let always = options::missing(command, &[]);
        taken.retain(|setting| {
            let needed = options::missing(command, &[setting]);
            !needed.iter().any(|name| out.contains(name) && !always.contains(name))
        });
    }
    taken
}

/// The subcommand that the first words name, and its declaration.
fn named_command<'c>(cli: &'c Command, words: &[OsString]) -> (Vec<String>, &'c Command) {
    let (mut path, mut command) = (Vec::new(), cli);
    for word in words {
        let below = options::commands(command).find(|below| word == below.get_name());
        let Some(below) = below else { break };
        path.push(below.get_name().to_owned());
        command = below;
    }
    (path, command)
}

/// The subcommand with these names.
pub fn command<'c>(cli: &'c Command, path: &[String]) -> Option<&'c Command> {
    let below = |above: &'c Command, name: &String| {
        options::commands(above).find(|command| command.get_name() == name)
    };
    path.iter().try_fold(cli, below)
}

/// What a command also needs that its table does not give.
pub fn missing(cli: &Command, section: &Section) -> Vec<String> {
    command(cli, &section.path).map_or_else(Vec::new, |command| section.missing(command))
}

/// The options among words of a command line. What is wrong with them is found later, when they are
/// parsed with the others.
fn ids(command: &Command, words: &[OsString]) -> BTreeSet<String> {
    let lenient = command.clone().ignore_errors(true);
    let Ok(matches) = lenient.try_get_matches_from(options::behind_name(words)) else {
        return BTreeSet::new();
    };
    let ids = matches.ids().map(clap::Id::as_str);
    ids.filter(|id| matches.value_source(id) == Some(ValueSource::CommandLine))
        .map(str::to_owned)
        .collect()
}

/// True if what was given and the setting exclude each other.
fn excluded(command: &Command, setting: &Setting, given: &[OsString]) -> bool {
    let line = options::line(&[setting], given);
    let parsed = command.clone().try_get_matches_from(options::behind_name(&line));
    parsed.is_err_and(|error| error.kind() == ErrorKind::ArgumentConflict)
}
