//! A table with every option of a subcommand, from the declaration of the command line.

use super::options::{arguments, name_of};
use clap::{Arg, ArgAction, Command};
use std::fmt::Write;

/// Columns of a comment.
const COLUMNS: usize = 96;

/// The table of the command that `path` names, with all its options as comments: what each does,
/// and its default or what stands for its value.
pub fn template(command: &Command, path: &[String]) -> String {
    let mut text = format!("[{}]\n", path.join("."));
    for arg in arguments(command).filter(|arg| !arg.is_hide_set()) {
        let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
        let values: Vec<_> = arg.get_possible_values();
        let names: Vec<&str> = values.iter().map(clap::builder::PossibleValue::get_name).collect();
        let choice = match names.as_slice() {
            [] => String::new(),
            names => format!(" One of {}.", names.join(", ")),
        };
        text.push('\n');
        for line in wrapped(&format!("{help}{choice}")) {
            let _ = writeln!(text, "# {line}");
        }
        let _ = writeln!(text, "#{} = {}", key(&name_of(arg)), example(arg));
    }
    text
}

/// A key as TOML has it: quoted, if it is more than letters and hyphens.
fn key(name: &str) -> String {
    let is_bare = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    if is_bare { name.to_owned() } else { format!("\"{name}\"") }
}

/// The default of an option; without one, words for what its value is.
fn example(arg: &Arg) -> String {
    match arg.get_action() {
        ArgAction::SetTrue | ArgAction::SetFalse => return "false".to_owned(),
        ArgAction::Count => return "0".to_owned(),
        _ => {}
    }
    let defaults = arg.get_default_values().iter();
    let mut values: Vec<String> = defaults.map(|value| value.to_string_lossy().into()).collect();
    if values.is_empty() {
        let names = arg.get_value_names().unwrap_or_default();
        values = names.iter().map(ToString::to_string).collect();
    }
    if values.is_empty() {
        values.push(arg.get_id().as_str().to_uppercase());
    }
    let is_list = matches!(arg.get_action(), ArgAction::Append) || values.len() > 1;
    let values: Vec<String> = values.iter().map(|value| literal(value)).collect();
    if is_list { format!("[{}]", values.join(", ")) } else { values.concat() }
}

fn literal(value: &str) -> String {
    let is_number = value.parse::<u64>().is_ok();
    if is_number { value.to_owned() } else { toml_text(value) }
}

/// A text as TOML has it. Defaults and names of values hold no control characters.
fn toml_text(value: &str) -> String {
    format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
}

/// Lines of at most [`COLUMNS`], broken between words.
fn wrapped(text: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.len() + 1 + word.len() <= COLUMNS => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}
