//! Tables of TOML as options of subcommands.

use super::{Config, Problem};
use clap::builder::ValueRange;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgAction, Command};
use ringside_balance::config::Place;
use ringside_core::{Shown, similar_names};
use std::ffi::OsString;
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

/// Problems that are looked for: a file with more is no configuration, and to find the names that
/// may have been meant takes time.
const PROBLEMS_MAX: usize = 20;

/// How often a letter may be repeated, as `v = 3`: more than any has a meaning for.
const REPEATED_MAX: u8 = 16;

/// What a file says about one subcommand.
pub struct Section {
    /// Its names, from the first behind `ringside` on.
    pub path: Vec<String>,
    /// In the order of the file.
    pub settings: Vec<Setting>,
}

/// What a file says about one option.
pub struct Setting {
    /// The option's name in the declaration.
    pub id: String,
    /// Where in the file it stands.
    at: usize,
    kind: Kind,
    words: Vec<OsString>,
}

/// Where the words of a setting stand on a command line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Option,
    /// Words without an option.
    Plain,
    /// Those behind `--`.
    Last,
}

impl Section {
    /// The words of the command line that it stands for, behind the names.
    pub fn words(&self) -> Vec<String> {
        let settings: Vec<&Setting> = self.settings.iter().collect();
        let words = line(&settings, &[]).into_iter();
        words.map(|word| word.to_string_lossy().into_owned()).collect()
    }

    /// What `command`, to which it belongs, also needs.
    pub fn missing(&self, command: &Command) -> Vec<String> {
        missing(command, &self.settings.iter().collect::<Vec<_>>())
    }
}

/// Reads the tables of one file.
pub struct Reader<'t> {
    text: &'t str,
    sections: Vec<Section>,
    problems: Vec<(usize, String)>,
}

impl<'t> Reader<'t> {
    pub fn new(text: &'t str) -> Reader<'t> {
        Reader { text, sections: Vec::new(), problems: Vec::new() }
    }

    /// Something is wrong at a byte of the text.
    pub fn problem(&mut self, at: usize, text: &str) {
        self.problems.push((at, text.shown().to_string()));
    }

    /// What was read.
    ///
    /// # Errors
    /// What is wrong.
    pub fn finish(mut self) -> Result<Config, Vec<Problem>> {
        if self.problems.is_empty() {
            return Ok(Config { sections: self.sections });
        }
        self.problems.sort_by_key(|(at, _)| *at);
        self.problems.truncate(PROBLEMS_MAX);
        let problem = |(at, text)| Problem { place: Place::of(self.text, at), text };
        Err(self.problems.into_iter().map(problem).collect())
    }

    /// Reads the table of `command`, whose names are `path`.
    pub fn table(&mut self, command: &Command, path: &[String], table: &DeTable<'_>) {
        let mut settings = Vec::new();
        for (key, value) in in_order(table) {
            if self.problems.len() >= PROBLEMS_MAX {
                return;
            }
            let name: &str = key.get_ref();
            let below = commands(command).find(|below| below.get_name() == name);
            // What stands in front of the subcommand is no option of any.
            let arg = arguments(command).find(|arg| !path.is_empty() && name_of(arg) == name);
            match (below, value.get_ref(), arg) {
                (Some(below), DeValue::Table(inner), _) => {
                    self.table(below, &[path, &[name.to_owned()]].concat(), inner);
                }
                (_, value_of, Some(arg)) => match self.setting(command, arg, value_of, value) {
                    Ok(setting) => settings.push(Setting { at: key.span().start, ..setting }),
                    Err(text) => self.problem(value.span().start, &format!("{name}: {text}")),
                },
                (Some(_), ..) => {
                    let text = format!("`{name}` is a command: its options stand in a table");
                    self.problem(key.span().start, &text);
                }
                (None, _, None) => {
                    self.problem(key.span().start, &unknown(command, path, name));
                }
            }
        }
        if let Some((at, text)) = conflict(command, &settings) {
            self.problem(at, &text);
        }
        if !settings.is_empty() {
            self.sections.push(Section { path: path.to_vec(), settings });
        }
    }

    /// An option with its value, which the command's own declaration accepts.
    fn setting(
        &self,
        command: &Command,
        arg: &Arg,
        value: &DeValue<'_>,
        spanned: &Spanned<DeValue<'_>>,
    ) -> Result<Setting, String> {
        let kind = match () {
            () if !arg.is_positional() => Kind::Option,
            () if arg.is_last_set() => Kind::Last,
            () => Kind::Plain,
        };
        let words = match arg.get_action() {
            ArgAction::SetTrue | ArgAction::SetFalse => switch(arg, value)?,
            ArgAction::Count => repeated(arg, value)?,
            _ => self.values(arg, value, spanned)?,
        };
        let words = words.into_iter().map(OsString::from).collect();
        let setting = Setting { id: arg.get_id().to_string(), at: 0, kind, words };
        match refusal(command, &[&setting]) {
            Some(error) if !is_incomplete(error.kind()) => Err(words_of(&error)),
            _ => Ok(setting),
        }
    }

    /// The words of an option that takes values.
    fn values(
        &self,
        arg: &Arg,
        value: &DeValue<'_>,
        spanned: &Spanned<DeValue<'_>>,
    ) -> Result<Vec<String>, String> {
        let takes = arg.get_num_args().unwrap_or(ValueRange::SINGLE);
        let is_list = matches!(arg.get_action(), ArgAction::Append);
        match value {
            DeValue::Boolean(is_on) if takes.min_values() == 0 => {
                Ok(if *is_on { vec![flag(arg)] } else { Vec::new() })
            }
            DeValue::Array(items) if takes.max_values() > 1 && !arg.is_positional() => {
                let each = items.iter().map(|item| item.get_ref().as_array());
                match each.collect::<Option<Vec<&DeArray<'_>>>>() {
                    Some(each) if is_list => {
                        let each = each.into_iter().map(|items| self.tuple(arg, items));
                        Ok(each.collect::<Result<Vec<_>, _>>()?.concat())
                    }
                    _ => self.tuple(arg, items),
                }
            }
            DeValue::Array(items) if is_list => {
                items.iter().map(|item| Ok(word(arg, &self.scalar(item)?))).collect()
            }
            DeValue::Array(_) => Err("takes one value, not a list".to_owned()),
            _ => Ok(vec![word(arg, &self.scalar(spanned)?)]),
        }
    }

    /// One use of an option that takes several values at once.
    fn tuple(&self, arg: &Arg, items: &DeArray<'_>) -> Result<Vec<String>, String> {
        let values = items.iter().map(|item| self.scalar(item));
        std::iter::once(Ok(flag(arg))).chain(values).collect()
    }

    /// A value as text.
    fn scalar(&self, value: &Spanned<DeValue<'_>>) -> Result<String, String> {
        match value.get_ref() {
            DeValue::String(text) => Ok(text.to_string()),
            DeValue::Integer(number) => Ok(number.to_string()),
            DeValue::Float(number) => Ok(number.to_string()),
            DeValue::Datetime(_) => Ok(self.text.get(value.span()).unwrap_or_default().to_owned()),
            DeValue::Boolean(_) => Err("takes a text or a number, not true or false".to_owned()),
            DeValue::Array(_) => Err("takes texts or numbers, not a list of lists".to_owned()),
            DeValue::Table(_) => Err("takes a text or a number, not a table".to_owned()),
        }
    }
}

/// Entries in the order of the file.
fn in_order<'d, 't>(
    table: &'d DeTable<'t>,
) -> Vec<(&'d Spanned<toml::de::DeString<'t>>, &'d Spanned<DeValue<'t>>)> {
    let mut entries: Vec<_> = table.iter().collect();
    entries.sort_by_key(|(key, _)| key.span().start);
    entries
}

/// The subcommands that a file may name.
pub fn commands(command: &Command) -> impl Iterator<Item = &Command> {
    command.get_subcommands().filter(|below| below.get_name() != "help")
}

/// The options that a file may hold. Of words without an option these are the first and those
/// behind `--`: which word others are depends on the words before.
pub fn arguments(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|arg| {
        let is_placed = !arg.is_positional() || arg.is_last_set() || arg.get_index() == Some(1);
        is_placed
            && matches!(
                arg.get_action(),
                ArgAction::Set
                    | ArgAction::Append
                    | ArgAction::SetTrue
                    | ArgAction::SetFalse
                    | ArgAction::Count
            )
    })
}

/// What an option is called in a file: its long name; its letter, if it has no other; of words
/// without an option what the declaration calls them.
pub fn name_of(arg: &Arg) -> String {
    let long = arg.get_long().map(str::to_owned);
    let name = long.or_else(|| arg.get_short().map(String::from));
    name.unwrap_or_else(|| arg.get_id().as_str().replace('_', "-"))
}

/// An option's word.
fn flag(arg: &Arg) -> String {
    let letter = || arg.get_short().map(|letter| format!("-{letter}"));
    let long = arg.get_long().map(|long| format!("--{long}"));
    long.or_else(letter).unwrap_or_default()
}

/// An option's word with its value. In one word, so that the value may begin with a hyphen.
fn word(arg: &Arg, value: &str) -> String {
    if arg.is_positional() { value.to_owned() } else { format!("{}={value}", flag(arg)) }
}

fn switch(arg: &Arg, value: &DeValue<'_>) -> Result<Vec<String>, String> {
    match value {
        DeValue::Boolean(true) => Ok(vec![flag(arg)]),
        DeValue::Boolean(false) => Ok(Vec::new()),
        _ => Err("is true or false".to_owned()),
    }
}

fn repeated(arg: &Arg, value: &DeValue<'_>) -> Result<Vec<String>, String> {
    let count = value.as_integer().and_then(|number| number.to_string().parse().ok());
    match count {
        Some(count @ 0..=REPEATED_MAX) => Ok(vec![flag(arg); usize::from(count)]),
        _ => Err(format!("is a number from 0 to {REPEATED_MAX}")),
    }
}

/// The words of a command line of which `given` are written and the settings are not.
pub fn line(settings: &[&Setting], given: &[OsString]) -> Vec<OsString> {
    let of = |kind: Kind| {
        let of_kind = settings.iter().filter(move |setting| setting.kind == kind);
        of_kind.flat_map(|setting| setting.words.iter().cloned())
    };
    let mut words: Vec<OsString> = of(Kind::Option).chain(of(Kind::Plain)).collect();
    words.extend_from_slice(given);
    if of(Kind::Last).next().is_some() && !given.iter().any(|word| word == "--") {
        words.push("--".into());
    }
    words.extend(of(Kind::Last));
    words
}

/// Words behind the name of a program, for which the parser wants some word.
pub fn behind_name(words: &[OsString]) -> impl Iterator<Item = OsString> {
    std::iter::once(OsString::from("ringside")).chain(words.iter().cloned())
}

/// Why a command with these settings alone would be refused.
fn refusal(command: &Command, settings: &[&Setting]) -> Option<clap::Error> {
    command.clone().try_get_matches_from(behind_name(&line(settings, &[]))).err()
}

/// What these settings of a command also need, in the parser's words.
pub fn missing(command: &Command, settings: &[&Setting]) -> Vec<String> {
    let error = refusal(command, settings);
    match error.as_ref().and_then(|error| error.get(ContextKind::InvalidArg)) {
        Some(ContextValue::Strings(names)) => names.clone(),
        _ => Vec::new(),
    }
}

/// True if nothing but more is needed, which the command line can give.
fn is_incomplete(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::MissingRequiredArgument
            | ErrorKind::MissingSubcommand
            | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
    )
}

/// The first setting that those before it exclude, and why.
fn conflict(command: &Command, settings: &[Setting]) -> Option<(usize, String)> {
    let settings: Vec<&Setting> = settings.iter().collect();
    let refused = |until: usize| {
        let error = refusal(command, &settings[..until])?;
        (error.kind() == ErrorKind::ArgumentConflict).then_some(error)
    };
    refused(settings.len())?;
    (1..=settings.len())
        .find_map(|until| Some((settings[until - 1].at, words_of(&refused(until)?))))
}

/// The parser's words without its advice, in one line.
fn words_of(error: &clap::Error) -> String {
    let text = error.to_string();
    let text = text.split("\n\n").next().unwrap_or_default();
    let text = text.strip_prefix("error: ").unwrap_or(text);
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn unknown(command: &Command, path: &[String], name: &str) -> String {
    let known: Vec<String> = match path {
        [] => commands(command).map(|below| below.get_name().to_owned()).collect(),
        _ => {
            let seen = arguments(command).filter(|arg| !arg.is_hide_set()).map(name_of);
            seen.chain(commands(command).map(|below| below.get_name().to_owned())).collect()
        }
    };
    let what = match path {
        [] => format!("`{name}` is no command of ringside"),
        _ => format!("`{name}` is no option of `ringside {}`", path.join(" ")),
    };
    match similar_names(name, known.iter().map(String::as_str)).first() {
        Some(meant) => format!("{what}; is `{meant}` meant?"),
        None => what,
    }
}
