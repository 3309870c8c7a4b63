//! Tests that need network cards, in an emulated machine (docs/vm.md).
//!
//! `Packages` has a kernel and QEMU downloaded and unpacked, `initrd` makes
//! the first files of the machine, `machine` starts it. The machine sees the host's files, read
//! only, so it runs the binary and the tests that were built here: an ordinary test program of
//! crates/cli, `vm`, whose lines are counted like those of any other.
//!
//! What cannot be had (the packages, a wire of several queues) is reported as a reason to skip, not
//! by an error.

mod initrd;
mod machine;
mod packages;

use crate::test::child::{Children, Ending};
use anyhow::{Context, bail};
use cargo_metadata::Message;
use machine::{Machine, Purpose};
use packages::Packages;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Longest time of the machine. It takes a minute and a half on two cores of its own, and many
/// times that on a host that does much else.
const MACHINE_TIME_MAX: Duration = Duration::from_secs(600);

/// Longest time to build the tests, for a cold build on two cores.
const BUILD_TIME_MAX: Duration = Duration::from_secs(600);

/// What the script of the machine prints before the exit status of the tests.
const STATUS: &str = "vm: status ";
/// What it prints before each line that `testkit::skip` wrote.
const SKIPPED: &str = "vm: skipped ";

/// Runs children, bounded, and ends when the user interrupts.
pub struct Programs<'c>(pub &'c Children);

impl Programs<'_> {
    /// Runs `command` to its end, which must be well.
    fn run(&self, command: &mut Command, time_max: Duration) -> anyhow::Result<()> {
        let ending =
            self.0.run(command, time_max, |_| {}).with_context(|| format!("{command:?}"))?;
        match ending {
            Ending::Well => Ok(()),
            Ending::TimedOut => bail!("not done after {time_max:?}"),
            Ending::Failed | Ending::Interrupted => bail!("it failed"),
        }
    }
}

/// What the tests in the machine did.
pub enum Outcome {
    /// They could not run here, for this reason.
    Skipped(String),
    /// They ran.
    Ran {
        /// Well, or not: a test failed, or the machine did not come to its end.
        ending: Ending,
        /// Lines of `testkit::skip`, as `test: reason`.
        skips: Vec<String>,
    },
}

/// What a run needs to know.
pub struct Plan<'p> {
    /// Folder of the project.
    pub root: &'p Path,
    /// Folder of what is built.
    pub target: &'p Path,
    /// The cargo that runs this.
    pub cargo: &'p OsStr,
    /// Longest time for each part of it, below the part's own limit.
    pub time_max: Duration,
    /// Who runs children.
    pub programs: Programs<'p>,
}

impl Plan<'_> {
    /// Builds the tests, starts the machines, and gives `look` each line that they print.
    ///
    /// # Errors
    /// cargo or QEMU cannot be started, or a file of the run cannot be written.
    pub fn run(&self, mut look: impl FnMut(&str)) -> anyhow::Result<Outcome> {
        let folder = self.target.join("vm");
        fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
        let packages = match Packages::obtain(&folder, &self.programs) {
            Ok(packages) => packages,
            Err(_) if self.programs.0.is_interrupted() => {
                return Ok(Outcome::Ran { ending: Ending::Interrupted, skips: Vec::new() });
            }
            Err(error) => return Ok(Outcome::Skipped(format!("{error:#}"))),
        };
        let time_max = self.time_max.min(BUILD_TIME_MAX);
        let built = self.programs.0.run(&mut self.build_command(), time_max, |_| {})?;
        if built != Ending::Well {
            return Ok(Outcome::Ran { ending: built, skips: Vec::new() });
        }
        self.run_machines(&folder, &packages, &mut look)
    }

    /// Runs one machine after the other, whatever the first did.
    fn run_machines(
        &self,
        folder: &Path,
        packages: &Packages,
        look: &mut dyn FnMut(&str),
    ) -> anyhow::Result<Outcome> {
        let test = self.test_path()?;
        let time_max = self.time_max.min(MACHINE_TIME_MAX);
        let mut skips = Vec::new();
        let mut worst = Ending::Well;
        for purpose in [Purpose::Kernel, Purpose::Vfio] {
            let script = self.script(packages, &test, purpose);
            let machine = Machine::prepare(purpose, folder, packages, &script)?;
            println!(
                "booting {} under emulation for {} tests; kernel messages go to {}",
                packages.release,
                purpose.name(),
                machine.kernel_log.display()
            );
            let mut see = |line: &str| match line.strip_prefix(SKIPPED) {
                Some(skip) => skips.push(skip.to_owned()),
                None => look(line),
            };
            let ending = self.run_machine(&machine, time_max, &mut see)?;
            if ending != Ending::Well {
                worst = ending;
            }
            if ending == Ending::Interrupted {
                break;
            }
        }
        Ok(Outcome::Ran { ending: worst, skips })
    }

    /// Runs a machine to its end, and shows what its kernel said last if it is not well.
    fn run_machine(
        &self,
        machine: &Machine,
        time_max: Duration,
        look: &mut dyn FnMut(&str),
    ) -> anyhow::Result<Ending> {
        let mut status = None;
        let ending = self.programs.0.run(&mut machine.command(), time_max, |line| {
            match line.strip_prefix(STATUS) {
                Some(text) => status = text.parse::<i32>().ok(),
                None => look(line),
            }
        })?;
        let ending = match (ending, status) {
            (Ending::Well, Some(0)) => Ending::Well,
            (Ending::Well, _) => Ending::Failed,
            (ending, _) => ending,
        };
        if status.is_none() {
            println!("the machine did not come to its end");
        }
        if ending != Ending::Well {
            println!("its kernel said last:\n{}", machine.last_kernel_messages());
        }
        Ok(ending)
    }

    /// `cargo test` that builds the test program `vm` of crates/cli and does not run it.
    fn build_command(&self) -> Command {
        let mut command = Command::new(self.cargo);
        command
            .args(["test", "--package", "ringside-cli", "--test", "vm", "--no-run"])
            .current_dir(self.root);
        command
    }

    /// The path of the test program, which was built.
    fn test_path(&self) -> anyhow::Result<PathBuf> {
        let mut command = self.build_command();
        let output = command.args(["--quiet", "--message-format=json"]).output();
        let output = output.with_context(|| format!("{command:?}"))?;
        let mut executable = None;
        for message in Message::parse_stream(&output.stdout[..]) {
            if let Message::CompilerArtifact(artifact) = message? {
                let wanted = artifact.target.name == "vm";
                executable = artifact.executable.filter(|_| wanted).or(executable);
            }
        }
        Ok(executable.context("cargo built no test named vm")?.into_std_path_buf())
    }

    /// What the machine runs; the first serial line is its output.
    fn script(&self, packages: &Packages, test: &Path, purpose: Purpose) -> String {
        let binary = self.target.join("release/ringside");
        let busybox = packages.path("bin/busybox");
        format!(
            "export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
export HOME=/run TMPDIR=/run/tmp RUST_BACKTRACE=1
export RINGSIDE_BIN={} RINGSIDE_SKIPS=/run/skips
ip link set lo up
cd /run && {} {} --test-threads=1 --color never --show-output
status=$?
if [ -e /run/skips ]; then
    while read -r line; do echo \"{SKIPPED}$line\"; done </run/skips
fi
echo \"{STATUS}$status\"
{} poweroff -f
",
            quoted(&binary),
            quoted(test),
            purpose.tests(),
            quoted(&busybox),
        )
    }
}

/// A path as one word of the shell.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_path_is_one_word() {
        assert_eq!(quoted(Path::new("/a b/it's")), r"'/a b/it'\''s'");
    }
}
