//! `ringside config`: configuration files checked, shown as command lines, and begun.

use crate::config::{self, Config};
use anyhow::bail;
use clap::{Args, Command, Subcommand};
use ringside_terminal::{say, units};
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `config`.
#[derive(Args)]
#[command(after_help = "Examples:
  ringside config template capture >eth1.toml      every option, as comments
  ringside config check eth1.toml                  is it right?
  ringside config print eth1.toml                  the command line that it stands for
  sudo ringside --config eth1.toml capture         use it
  sudo ringside --config eth1.toml capture --for 1m   what is written here wins

docs/config.md describes the files.")]
pub struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Subcommand)]
enum ConfigCommand {
    /// Say whether a configuration is right; status 1 if it is not.
    #[command(after_help = "Examples:
  ringside config check /etc/ringside/eth1.toml")]
    Check(FileArgs),
    /// Print the command line that each table of a configuration stands for.
    #[command(after_help = "Examples:
  ringside config print /etc/ringside/eth1.toml")]
    Print(FileArgs),
    /// Print a table with every option of a command, as comments.
    #[command(after_help = "Examples:
  ringside config template capture >eth1.toml
  ringside config template lab up")]
    Template(TemplateArgs),
}

#[derive(Args)]
struct FileArgs {
    /// The configuration.
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

#[derive(Args)]
struct TemplateArgs {
    /// The command, by its names.
    #[arg(value_name = "COMMAND", required = true)]
    command: Vec<String>,
}

/// Runs the subcommand, with the declaration of the command line.
pub fn run(args: ConfigArgs, mut cli: Command) -> anyhow::Result<ExitCode> {
    cli.build();
    match args.command {
        ConfigCommand::Check(args) => check(&args, &cli),
        ConfigCommand::Print(args) => print(&args, &cli),
        ConfigCommand::Template(args) => template(&args, &cli),
    }
}

/// What a file says; `None` if it is wrong, which is then printed.
fn read(args: &FileArgs, cli: &Command) -> anyhow::Result<Option<Config>> {
    let read = config::parse(&config::read(&args.file)?, cli);
    if let Err(problems) = &read {
        say::message(config::listed(&args.file, problems));
    }
    Ok(read.ok())
}

fn check(args: &FileArgs, cli: &Command) -> anyhow::Result<ExitCode> {
    let Some(config) = read(args, cli)? else { return Ok(ExitCode::from(1)) };
    for section in &config.sections {
        let name = section.path.join(" ");
        let options = units::counted(section.settings.len() as u64, "option");
        let missing = config::missing(cli, section);
        match missing.as_slice() {
            [] => say::message(format_args!("{name}: {options}")),
            missing => say::message(format_args!(
                "{name}: {options}; the command line must give {}",
                missing.join(", ")
            )),
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn print(args: &FileArgs, cli: &Command) -> anyhow::Result<ExitCode> {
    let Some(config) = read(args, cli)? else { return Ok(ExitCode::from(1)) };
    for section in &config.sections {
        let words = [section.path.clone(), section.words()].concat();
        let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
        say::data(format_args!("ringside {}", words.join(" ")))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn template(args: &TemplateArgs, cli: &Command) -> anyhow::Result<ExitCode> {
    let Some(command) = config::command(cli, &args.command) else {
        bail!("there is no command `{}`: `ringside help` lists them", args.command.join(" "));
    };
    say::data(config::template(command, &args.command).trim_end())?;
    Ok(ExitCode::SUCCESS)
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:,@%+".contains(c);
    match !word.is_empty() && word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_takes_words_as_they_were() {
        for word in ["--interface=eth1", "tcp port 80", "it's", "", "a\nb", "$x `y` \"z\" \\"] {
            let output = std::process::Command::new("sh")
                .args(["-c", &format!("printf %s {}", quoted(word))])
                .output()
                .unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), word);
        }
    }
}
