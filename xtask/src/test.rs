//! The test run behind `make test`: every step in order, bounded in time, and one line at the end.
//!
//! A step that fails hides none of the later ones, but for the build: without a binary and
//! libraries nothing after it could say anything. The last line of the run is
//! `N passed, N failed, N skipped`; a failed step that runs no tests counts as one failure.

pub(crate) mod child;
mod summary;

use crate::tidy;
use crate::vm::{self, Outcome};
use anyhow::Context;
use child::{Children, Ending};
use clap::ValueEnum;
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use summary::Summary;

/// The whole run, on a machine half as fast as that of the records, which takes 35 minutes: CI
/// ends a run at 90, and what comes before it (Debian's packages, the compilation of this crate)
/// takes its share.
const RUN_TIME_MAX: Duration = Duration::from_secs(80 * 60);

/// Crates with lock-free code, which have models.
const LOOM_PACKAGES: [&str; 2] = ["sys", "rules"];

/// One step. The order here is the order of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Step {
    /// cargo fmt --check
    Format,
    /// cargo clippy, warnings are errors
    Clippy,
    /// the house rules
    Tidy,
    /// cargo doc, warnings are errors
    Docs,
    /// the release binary, which end-to-end tests run
    Build,
    /// unit, property, fuzz and documentation tests of every crate but the binary's
    Tests,
    /// the binary's tests, one at a time: they count frames of a lab to the last one
    EndToEnd,
    /// tests of network cards, in an emulated machine
    Vm,
    /// the model checks of crates/sys and crates/rules
    Loom,
    /// licences, versions and sources of dependencies, by cargo-deny
    Deny,
}

impl Step {
    /// Longest time of the step, for a cold build on two cores; a hang ends here.
    fn time_max(self) -> Duration {
        let minutes = match self {
            Step::Format | Step::Tidy | Step::Deny => 2,
            Step::Docs => 5,
            Step::Clippy | Step::Build | Step::Loom => 15,
            Step::Vm => 20,
            Step::Tests | Step::EndToEnd => 35,
        };
        Duration::from_secs(minutes * 60)
    }

    /// Name on the command line and in headings.
    fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// True if nothing after it could run once it failed.
    fn is_foundation(self) -> bool {
        self == Step::Build
    }
}

/// Runs the steps in `only`, or all of them if it is empty, in `root`. True if all went well.
///
/// # Errors
/// The run could not begin: `cargo metadata` or a file of the run failed.
pub fn run(root: &Path, only: &[Step]) -> anyhow::Result<bool> {
    let run = Run::begin(root)?;
    let mut summary = Summary::default();
    let chosen = |step: &Step| {
        let runs_binary = |step: &Step| matches!(step, Step::EndToEnd | Step::Vm);
        let needed = *step == Step::Build && only.iter().any(runs_binary);
        only.is_empty() || only.contains(step) || needed
    };
    let begin = Instant::now();
    for &step in Step::value_variants().iter().filter(|step| chosen(step)) {
        let step_begin = Instant::now();
        let time_max = step.time_max().min(RUN_TIME_MAX.saturating_sub(begin.elapsed()));
        println!("\n== {}", step.name());
        let ending = run.step(step, time_max, &mut summary)?;
        summary.end_step(&step.name(), &ending, step_begin.elapsed());
        if ending == Ending::Interrupted || (step.is_foundation() && ending != Ending::Well) {
            break;
        }
    }
    println!("\n== summary");
    print!("{}", summary.report(&run.skips(), &captures()));
    Ok(summary.failed() == 0)
}

/// What the steps share.
struct Run {
    root: PathBuf,
    cargo: OsString,
    target: PathBuf,
    skips: PathBuf,
    children: Children,
}

impl Run {
    fn begin(root: &Path) -> anyhow::Result<Run> {
        let metadata = cargo_metadata::MetadataCommand::new()
            .manifest_path(root.join("Cargo.toml"))
            .no_deps()
            .exec()
            .context("cargo metadata")?;
        let target = metadata.target_directory.into_std_path_buf();
        std::fs::create_dir_all(&target).with_context(|| target.display().to_string())?;
        let skips = target.join("skips.txt");
        std::fs::write(&skips, "").with_context(|| skips.display().to_string())?;
        Ok(Run {
            root: root.to_owned(),
            cargo: std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()),
            target,
            skips,
            children: Children::new().context("signal handlers")?,
        })
    }

    fn step(&self, step: Step, time: Duration, summary: &mut Summary) -> anyhow::Result<Ending> {
        if step == Step::Clippy {
            // "All targets" leaves out the one that nobody runs here.
            let mut command = self.cargo("clippy --package ringside-cli --test vm -- -D warnings");
            let ending = self.children.run(&mut command, time, |line| summary.line(line))?;
            if ending != Ending::Well {
                return Ok(ending);
            }
        }
        let mut command = match step {
            Step::Tidy => return self.tidy(),
            Step::Vm => return self.vm(time, summary),
            Step::Deny if !self.has_cargo_deny() => {
                summary.skip("deny: cargo-deny is not installed; `scripts/deps lint` installs it");
                return Ok(Ending::Well);
            }
            // Advisories would need the network.
            Step::Deny => self.cargo("deny check bans licenses sources"),
            Step::Loom if !self.has_loom_tests()? => {
                summary.skip("loom: no test is named loom_*");
                return Ok(Ending::Well);
            }
            // The names are enough: `cargo fmt` is the mend.
            Step::Format => self.cargo("fmt --all -- --check -l"),
            Step::Clippy => self.cargo("clippy --workspace --all-targets -- -D warnings"),
            Step::Build => self.cargo("build --release --package ringside-cli"),
            Step::Tests => self.cargo("test --workspace --exclude ringside-cli --no-fail-fast"),
            Step::EndToEnd => {
                self.cargo("test --package ringside-cli --no-fail-fast -- --test-threads=1")
            }
            Step::Loom => {
                let packages = LOOM_PACKAGES.map(|name| format!("--package ringside-{name}"));
                self.cargo(&format!("test {} --release --lib loom", packages.join(" ")))
            }
            Step::Docs => self.cargo("doc --workspace --no-deps --keep-going"),
        };
        match step {
            // A folder of its own: the flag changes the fingerprint of every crate.
            Step::Loom => command
                .env("RUSTFLAGS", "--cfg loom")
                .env("CARGO_TARGET_DIR", self.target.join("loom")),
            Step::Docs => command.env("RUSTDOCFLAGS", "-D warnings"),
            _ => command.env("RINGSIDE_BIN", self.target.join("release/ringside")),
        };
        let ending = self.children.run(&mut command, time, |line| summary.line(line));
        ending.with_context(|| format!("{command:?}"))
    }

    fn cargo(&self, arguments: &str) -> Command {
        let mut command = Command::new(&self.cargo);
        command
            .args(arguments.split(' '))
            .current_dir(&self.root)
            .env("RINGSIDE_SKIPS", &self.skips);
        command
    }

    fn tidy(&self) -> anyhow::Result<Ending> {
        let findings = tidy::check(&self.root)?;
        findings.iter().for_each(|finding| println!("{finding}"));
        Ok(if findings.is_empty() { Ending::Well } else { Ending::Failed })
    }

    /// Runs the emulated machine.
    fn vm(&self, time_max: Duration, summary: &mut Summary) -> anyhow::Result<Ending> {
        let plan = vm::Plan {
            root: &self.root,
            target: &self.target,
            cargo: &self.cargo,
            time_max,
            programs: vm::Programs(&self.children),
        };
        match plan.run(|line| summary.line(line))? {
            Outcome::Skipped(reason) => {
                println!("SKIPPED vm: {reason}");
                summary.skip(&format!("vm: {reason}"));
                Ok(Ending::Well)
            }
            Outcome::Ran { ending, skips } => {
                let file = OpenOptions::new().append(true).open(&self.skips);
                let mut file = file.with_context(|| self.skips.display().to_string())?;
                skips.iter().try_for_each(|skip| writeln!(file, "{skip}"))?;
                Ok(ending)
            }
        }
    }

    fn has_cargo_deny(&self) -> bool {
        self.cargo("deny --version").output().is_ok_and(|output| output.status.success())
    }

    fn has_loom_tests(&self) -> anyhow::Result<bool> {
        let tree = tidy::Tree::read(&self.root)?;
        let folders = LOOM_PACKAGES.map(|name| format!("crates/{name}/src/"));
        let is_modelled = |path: &str| folders.iter().any(|folder| path.starts_with(folder));
        let mut files = tree.files.iter().filter(|file| is_modelled(&file.path));
        Ok(files.any(|file| file.text.contains("fn loom_")))
    }

    /// Lines that testkit::skip wrote; none if the file is gone.
    fn skips(&self) -> String {
        std::fs::read_to_string(&self.skips).unwrap_or_default()
    }
}

/// Whether tests had real captures.
fn captures() -> String {
    match ringside_testkit::capture_dir() {
        Some(dir) => {
            let count = ringside_testkit::capture_files("summary").len();
            let dir = dir.canonicalize().unwrap_or(dir);
            format!("real captures: {count} files in {}, used", dir.display())
        }
        None => "real captures: not used, no folder ../shared/pcaps and no RINGSIDE_PCAPS; tests \
                 take what they generate"
            .into(),
    }
}
