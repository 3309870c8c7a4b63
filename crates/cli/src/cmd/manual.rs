//! `ringside manual` and `ringside completions`: what packages and shells want to have of the
//! commands, from the declaration that parses them.

use anyhow::Context;
use clap::{Args, Command};
use clap_complete::Shell;
use ringside_terminal::say;
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of `manual`.
#[derive(Args)]
#[command(after_help = "Examples:
  sudo ringside manual /usr/local/share/man/man1     then `man ringside-capture`
  ringside manual . && man ./ringside-find.1         only look at one

`make install` does this.")]
pub struct ManualArgs {
    /// Directory that gets `ringside.1` and a page for each subcommand; it is made if it is not
    /// there.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

/// Arguments of `completions`.
#[derive(Args)]
#[command(after_help = "Examples:
  ringside completions bash     for `source <(...)` in this shell, or a line of ~/.bashrc
  ringside completions zsh      for a file _ringside in a directory of $fpath
  ringside completions fish     for ~/.config/fish/completions/ringside.fish

`make install` does this for bash, zsh and fish.")]
pub struct CompletionsArgs {
    /// The shell.
    #[arg(value_name = "SHELL")]
    shell: Shell,
}

/// Writes a manual page for each command.
pub fn write_pages(args: &ManualArgs, cli: Command) -> anyhow::Result<ExitCode> {
    let directory = &args.directory;
    let written = std::fs::create_dir_all(directory)
        .and_then(|()| clap_mangen::generate_to(without_help(cli), directory));
    written.with_context(|| format!("writing manual pages to {}", directory.display()))?;
    Ok(ExitCode::SUCCESS)
}

/// `help` and what is below it would have pages too.
fn without_help(command: Command) -> Command {
    command.disable_help_subcommand(true).mut_subcommands(without_help)
}

/// Prints the script by which a shell completes commands and options.
pub fn print_completions(args: &CompletionsArgs, mut cli: Command) -> anyhow::Result<ExitCode> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut cli, "ringside", &mut script);
    say::data(String::from_utf8(script)?.trim_end())?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cli;
    use clap::CommandFactory;
    use std::process::Stdio;

    /// Pages that a command and those below it have.
    fn pages(command: &Command, name: &str, pages: &mut Vec<String>) {
        pages.push(format!("{name}.1"));
        for below in command.get_subcommands().filter(|one| !one.is_hide_set()) {
            self::pages(below, &format!("{name}-{}", below.get_name()), pages);
        }
    }

    #[test]
    fn every_command_has_a_page_with_its_examples() {
        let directory = tempfile::tempdir().unwrap();
        let args = ManualArgs { directory: directory.path().join("man1") };
        write_pages(&args, Cli::command()).unwrap();
        let mut expected = Vec::new();
        pages(&Cli::command(), "ringside", &mut expected);
        let found = args.directory.read_dir().unwrap();
        let mut found: Vec<String> =
            found.map(|page| page.unwrap().file_name().into_string().unwrap()).collect();
        expected.sort_unstable();
        found.sort_unstable();
        assert_eq!(found, expected);
        for page in found {
            let text = std::fs::read_to_string(args.directory.join(&page)).unwrap();
            assert!(text.contains("Examples:"), "{page}");
        }
    }

    #[test]
    fn bash_completes_commands_and_options() {
        let mut script = Vec::new();
        clap_complete::generate(Shell::Bash, &mut Cli::command(), "ringside", &mut script);
        let asked = "ask() { _ringside ringside $1; echo ${COMPREPLY[@]}; }
            COMP_WORDS=(ringside compl); COMP_CWORD=1; ask compl
            COMP_WORDS=(ringside find --ded); COMP_CWORD=2; ask --ded";
        script.extend_from_slice(asked.as_bytes());
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), script).unwrap();
        let bash =
            std::process::Command::new("bash").arg(file.path()).stdin(Stdio::null()).output();
        assert_eq!(String::from_utf8(bash.unwrap().stdout).unwrap(), "completions\n--dedup\n");
    }
}
