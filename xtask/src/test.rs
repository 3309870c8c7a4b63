//! The test runs behind `make test` and `make test-all`: every step in order, bounded in time, and
//! one line at the end.
//!
//! A step that fails hides none of the later ones, but for the build: without test programs nothing
//! after it could say anything. The last line is `N passed, N failed, N skipped`; a failed step
//! that runs no tests counts as one failure. Several tests run at a time (`schedule`), each in a
//! process of its own; the time of each is kept in `target/test-times.tsv`.

pub(crate) mod child;
mod order;
mod queue;
mod schedule;
pub(crate) mod suite;
mod summary;
mod times;

pub use order::{Length, Order, Step};

use crate::tidy;
use crate::vm::{self, Outcome};
use anyhow::Context;
use cargo_metadata::Metadata;
use child::{Children, Ending};
use clap::ValueEnum;
use schedule::{Expected, Listed, Schedule};
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use suite::{Programs, Test};
use summary::Summary;

/// Crates with lock-free code, which have models.
const LOOM_PACKAGES: [&str; 3] = ["ring", "sys", "rules"];

/// Tests at a time for each CPU. Most of them wait for packets, children and disks: with two a
/// third of the time was left over.
const TESTS_PER_CPU: usize = 3;

/// Tests that take long, so that a first run begins with them.
const SLOW: &str = "xtask/slow.tsv";

/// Runs what `order` asks for in `root`. True if all went well.
///
/// # Errors
/// The run could not begin: `cargo metadata` or a file of the run failed.
pub fn run(root: &Path, order: &Order) -> anyhow::Result<bool> {
    let begin = Instant::now();
    let mut runner = Runner::begin(root, order)?;
    let mut summary = Summary::default();
    for &step in Step::value_variants().iter().filter(|step| order.has(**step)) {
        let step_begin = Instant::now();
        let left = order.length.run_time_max().saturating_sub(begin.elapsed());
        let time_max = step.time_max(order.length).min(left);
        println!("\n== {} at {}", step.name(), summary::minutes(begin.elapsed()));
        let ending = runner.step(step, time_max, &mut summary)?;
        summary.end_step(&step.name(), ending, step_begin.elapsed());
        if ending == Ending::Interrupted || (step.is_foundation() && ending != Ending::Well) {
            break;
        }
    }
    println!("\n== summary");
    let report = summary.report(&runner.skips(), &captures());
    print!("{report}");
    if let Some(record) = &order.record {
        let text = format!("{} run, {}\n{report}", order.length.name(), runner.commit());
        std::fs::write(record, text).with_context(|| record.display().to_string())?;
    }
    Ok(summary.failed() == 0)
}

/// Tests that are not run like the others.
#[derive(Default)]
struct Lists {
    alone: Listed,
    in_turn: Listed,
}

/// What the steps share.
struct Runner<'o> {
    root: PathBuf,
    order: &'o Order,
    metadata: Metadata,
    cargo: OsString,
    target: PathBuf,
    skips: PathBuf,
    children: Children,
    /// What the build has made.
    tests: Vec<Test>,
}

impl<'o> Runner<'o> {
    fn begin(root: &Path, order: &'o Order) -> anyhow::Result<Runner<'o>> {
        let metadata = cargo_metadata::MetadataCommand::new()
            .manifest_path(root.join("Cargo.toml"))
            .no_deps()
            .exec()
            .context("cargo metadata")?;
        let target = metadata.target_directory.clone().into_std_path_buf();
        std::fs::create_dir_all(&target).with_context(|| target.display().to_string())?;
        let skips = target.join("skips.txt");
        std::fs::write(&skips, "").with_context(|| skips.display().to_string())?;
        Ok(Runner {
            root: root.to_owned(),
            order,
            metadata,
            cargo: std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()),
            target,
            skips,
            children: Children::new().context("signal handlers")?,
            tests: Vec::new(),
        })
    }

    fn step(
        &mut self,
        step: Step,
        time: Duration,
        summary: &mut Summary,
    ) -> anyhow::Result<Ending> {
        match step {
            Step::Tidy => self.tidy(),
            // The names are enough: `cargo fmt` puts it right.
            Step::Format => self.run_cargo("fmt --all -- --check -l", time, summary),
            Step::Clippy => {
                // "All targets" leaves out the one that is run in the emulated machine alone.
                let arguments = "clippy --workspace --all-targets --test vm -- -D warnings";
                self.run_cargo(arguments, time, summary)
            }
            Step::Docs => {
                let mut command = self.cargo("doc --workspace --no-deps --keep-going");
                self.with_what_clippy_checked(&mut command);
                self.run_command(command.env("RUSTDOCFLAGS", "-D warnings"), time, summary)
            }
            Step::Build => self.build(time, summary),
            Step::Tests => self.tests(time, summary),
            Step::DocTests => {
                self.run_cargo("test --workspace --doc --no-fail-fast", time, summary)
            }
            Step::Loom => self.loom(time, summary),
            Step::Vm => self.vm(time, summary),
            Step::Deny => self.deny(time, summary),
        }
    }

    /// Documentation needs each crate checked, as clippy has done: with its driver and arguments,
    /// as `cargo clippy` gives them, none is checked again.
    fn with_what_clippy_checked(&self, command: &mut Command) {
        // It names its driver by the place of its own file, which a link may lead to.
        let Ok(cargo) = std::fs::canonicalize(&self.cargo) else { return };
        let word = "__CLIPPY_HACKERY__";
        command
            .env("RUSTC_WORKSPACE_WRAPPER", cargo.with_file_name("clippy-driver"))
            .env("CLIPPY_ARGS", format!("-D{word}warnings{word}"));
    }

    fn run_cargo(
        &self,
        arguments: &str,
        time: Duration,
        summary: &mut Summary,
    ) -> anyhow::Result<Ending> {
        self.run_command(&mut self.cargo(arguments), time, summary)
    }

    fn run_command(
        &self,
        command: &mut Command,
        time: Duration,
        summary: &mut Summary,
    ) -> anyhow::Result<Ending> {
        let ending = self.children.run(command, time, |line| summary.line(line));
        ending.with_context(|| format!("{command:?}"))
    }

    fn cargo(&self, arguments: &str) -> Command {
        let mut command = Command::new(&self.cargo);
        command
            .args(arguments.split(' '))
            .current_dir(&self.root)
            .env("RINGSIDE_TESTS", self.order.length.name())
            .env("RINGSIDE_SKIPS", &self.skips);
        command
    }

    /// Builds the test programs, and with them the binary that end-to-end tests run: as tests are
    /// built, with assertions, or for a long run as it is installed.
    fn build(&mut self, time: Duration, summary: &mut Summary) -> anyhow::Result<Ending> {
        if self.order.length == Length::Long || self.order.only.contains(&Step::Vm) {
            let release = "build --release --package ringside-cli --package ringside-pcap";
            let ending = self.run_cargo(release, time, summary)?;
            if ending != Ending::Well {
                return Ok(ending);
            }
        }
        if !self.order.has(Step::Tests) {
            return Ok(Ending::Well);
        }
        let mut programs = Programs::new(&self.metadata);
        // What took how long lies in target/cargo-timings afterwards.
        let arguments =
            "test --workspace --no-run --timings --message-format=json-render-diagnostics";
        let mut command = self.cargo(arguments);
        let ending = self.children.run_quietly(&mut command, time, |line| programs.line(line));
        let ending = ending.with_context(|| format!("{command:?}"))?;
        if ending == Ending::Well {
            self.tests = programs.tests()?;
        }
        Ok(ending)
    }

    fn tests(&mut self, time_max: Duration, summary: &mut Summary) -> anyhow::Result<Ending> {
        let lists = Lists {
            alone: Listed::read(&self.root.join("xtask/alone.txt"))?,
            in_turn: Listed::read(&self.root.join("xtask/in-turn.txt"))?,
        };
        let names = &self.order.names;
        let is_chosen =
            |test: &str| names.is_empty() || names.iter().any(|name| test.contains(name));
        let tests = std::mem::take(&mut self.tests);
        self.run_tests(tests, is_chosen, &lists, time_max, summary)
    }

    /// Runs those that `is_chosen` chooses, several at a time, and keeps their times.
    fn run_tests(
        &self,
        tests: Vec<Test>,
        is_chosen: impl Fn(&str) -> bool,
        lists: &Lists,
        time_max: Duration,
        summary: &mut Summary,
    ) -> anyhow::Result<Ending> {
        let kept = self.target.join("test-times.tsv");
        let mut times = times::read(&kept);
        let expected = match times.is_empty() {
            true => Expected { times: &times::read(&self.root.join(SLOW)), others: Duration::ZERO },
            // A test that is new may be long.
            false => Expected { times: &times.clone(), others: Duration::MAX },
        };
        let cpus = std::thread::available_parallelism()?.get();
        let mut variables = vec![
            ("RINGSIDE_TESTS", self.order.length.name().into()),
            ("RINGSIDE_SKIPS", self.skips.clone().into()),
            ("RUST_BACKTRACE", "1".into()),
        ];
        variables.extend(match self.order.length {
            // Clearing memory costs a virtual machine 3 ms a MiB: that of the default would take
            // longer than most tests.
            Length::Short => vec![("RINGSIDE_RING_SIZE", "16MiB".into())],
            // Random cases are others each time: those that fail are printed.
            Length::Long => vec![
                ("RINGSIDE_BIN", self.target.join("release/ringside").into()),
                ("PROPTEST_RNG_SEED", seed_of_now().to_string().into()),
            ],
        });
        let schedule = Schedule {
            children: &self.children,
            slots: cpus * TESTS_PER_CPU,
            alone: &lists.alone,
            in_turn: &lists.in_turn,
            test_time_max: self.order.length.test_time_max(),
            time_max,
            expected,
            variables: &variables,
        };
        let outcomes = schedule.run(tests, is_chosen)?;
        times.extend(outcomes.iter().map(|outcome| (outcome.name.clone(), outcome.time)));
        times::write(&kept, &times).with_context(|| kept.display().to_string())?;
        Ok(summary.tests(outcomes))
    }

    fn loom(&self, time: Duration, summary: &mut Summary) -> anyhow::Result<Ending> {
        if !self.has_loom_tests()? {
            summary.skip("loom: no test is named loom_*");
            return Ok(Ending::Well);
        }
        let begin = Instant::now();
        let packages = LOOM_PACKAGES.map(|name| format!("ringside-{name}"));
        // The binary has no library to test: it is named so that what the crates stand on has the
        // features that it has in the build of all, and is not built again.
        let named = packages.iter().map(String::as_str).chain(["ringside-cli"]);
        let selection: Vec<_> = named.map(|name| format!("--package {name}")).collect();
        let selection = selection.join(" ");
        let features = LOOM_PACKAGES.map(|name| format!("ringside-{name}/loom")).join(",");
        let mut command = self.cargo(&format!(
            "test {selection} --features {features} --lib --no-run \
             --message-format=json-render-diagnostics"
        ));
        let mut programs = Programs::of(&self.metadata, |name| packages.iter().any(|p| p == name));
        let ending = self.children.run_quietly(&mut command, time, |line| programs.line(line));
        match ending.with_context(|| format!("{command:?}"))? {
            Ending::Well => {}
            ending => return Ok(ending),
        }
        let left = time.saturating_sub(begin.elapsed());
        let is_model = |test: &str| test.contains("::loom_");
        self.run_tests(programs.tests()?, is_model, &Lists::default(), left, summary)
    }

    /// The commit that was tried, for the record.
    fn commit(&self) -> String {
        let mut command = Command::new("git");
        let output =
            command.args(["log", "-1", "--format=%h of %cI"]).current_dir(&self.root).output();
        let text = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
        text.ok().filter(|text| !text.is_empty()).unwrap_or_else(|| "unknown commit".into())
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

    fn deny(&self, time: Duration, summary: &mut Summary) -> anyhow::Result<Ending> {
        let version = self.cargo("deny --version").output();
        if !version.is_ok_and(|output| output.status.success()) {
            summary.skip("deny: cargo-deny is not installed; `scripts/deps lint` installs it");
            return Ok(Ending::Well);
        }
        // Advisories would need the network.
        self.run_cargo("deny check bans licenses sources", time, summary)
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
        // The record of a run lies in the tree, and says nothing of the machine's folders.
        Some(_) => {
            let count = ringside_testkit::capture_files("summary").len();
            format!("real captures: {count} files, used")
        }
        None => "real captures: not used, no folder ../shared/pcaps and no RINGSIDE_PCAPS; tests \
                 take what they generate"
            .into(),
    }
}

/// A number that the next run does not have.
fn seed_of_now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
