//! The guided run of fuzzing: the fuzz tests with libFuzzer in them, each for its share of a time.
//!
//! `testkit::fuzz` is the one entrance: a test that calls it is a target, here and in `cargo test`.
//! Built with `--cfg fuzzing_libfuzzer` and the compiler's counters (both work on the stable tool
//! chain), the same test hands its function to libFuzzer, by way of the crate bolero. What a target
//! has found stays in target/guided/NAME/corpus, so that the next run goes on from there.

mod corpus;
mod stats;

use crate::test::child::{Children, Ending};
use crate::test::suite::{Programs, Test};
use anyhow::{Context, bail, ensure};
use cargo_metadata::Metadata;
use ringside_testkit::fuzz::corpus::{Target, targets};
use stats::Stats;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// What to build and run.
pub struct Order {
    /// For all targets together.
    pub seconds: u64,
    /// Whether the smallest inputs that reach something are written into the tree.
    pub keep: bool,
    /// File to which the summary is appended.
    pub record: Option<PathBuf>,
    /// Targets; empty for all.
    pub names: Vec<String>,
}

/// What the compiler puts into the code for libFuzzer to see: counters of edges, their places, and
/// the operands of comparisons. One unit of code a crate, or sections of counters get lost.
const FLAGS: &str = "--cfg fuzzing --cfg fuzzing_libfuzzer -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares \
    -Ccodegen-units=1";

/// For the build, which is one of all crates with another code generation.
const BUILD_TIME_MAX: Duration = Duration::from_secs(7200);
/// For reading the corpus, and for choosing from it.
const REST_TIME_MAX: Duration = Duration::from_secs(1800);

/// Runs the targets that `order` names, one after the other. True if none failed.
///
/// # Errors
/// A target that is not listed, a build that fails, files that cannot be written.
pub fn run(root: &Path, order: &Order) -> anyhow::Result<bool> {
    let targets = chosen(&order.names)?;
    let metadata = cargo_metadata::MetadataCommand::new()
        .manifest_path(root.join("Cargo.toml"))
        .no_deps()
        .exec()
        .context("cargo metadata")?;
    let runner = Runner {
        folder: metadata.target_directory.join("guided").into_std_path_buf(),
        children: Children::new().context("signal handlers")?,
    };
    let tests = runner.build(&metadata, &targets)?;
    let mut report = stats::head(order.seconds);
    let mut well = true;
    for target in &targets {
        let test = tests.iter().find(|test| test.name == target.test);
        let test = test.with_context(|| format!("no test {}", target.test))?;
        let seconds = (order.seconds / targets.len() as u64).max(1);
        let (line, found) = runner.target(target, test, seconds, order.keep)?;
        println!("{line}");
        report.push_str(&line);
        report.push('\n');
        well &= !found;
        if runner.children.is_interrupted() {
            break;
        }
    }
    if let Some(record) = &order.record {
        let file = OpenOptions::new().create(true).append(true).open(record);
        let mut file = file.with_context(|| record.display().to_string())?;
        file.write_all(report.as_bytes())?;
    }
    Ok(well)
}

fn chosen(names: &[String]) -> anyhow::Result<Vec<Target>> {
    let mut all = targets();
    if let Some(name) = names.iter().find(|name| !all.iter().any(|target| target.name == **name)) {
        let list: Vec<_> = all.iter().map(|target| target.name.as_str()).collect();
        bail!("no target {name}; there are {}", list.join(", "));
    }
    all.retain(|target| names.is_empty() || names.contains(&target.name));
    Ok(all)
}

struct Runner {
    folder: PathBuf,
    children: Children,
}

impl Runner {
    /// Builds the programs of the targets, and those alone: a program without a fuzz test has no
    /// libFuzzer to link with.
    fn build(&self, metadata: &Metadata, targets: &[Target]) -> anyhow::Result<Vec<Test>> {
        let wanted = |program: &str| {
            let mut tests = targets.iter().map(|target| target.test.split(' ').next());
            tests.any(|test| test == Some(program))
        };
        let mut programs = Programs::of(metadata, wanted);
        for words in programs.selections() {
            let mut command = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
            command.args(["test", "--no-run", "--message-format=json-render-diagnostics"]);
            // With a target named, build scripts and macros are built without the counters.
            command.args(["--target", "host-tuple"]).args(&words);
            command.current_dir(&metadata.workspace_root).env("RUSTFLAGS", FLAGS);
            command.env("CARGO_TARGET_DIR", &self.folder).env("CARGO_INCREMENTAL", "0");
            let line = |line: &str| programs.line(line);
            let ending = self.children.run_quietly(&mut command, BUILD_TIME_MAX, line)?;
            ensure!(ending == Ending::Well, "the build of {words:?}: {ending}");
        }
        programs.tests()
    }

    /// Runs one target. Returns its line of the summary, and whether it failed.
    fn target(
        &self,
        target: &Target,
        test: &Test,
        seconds: u64,
        keep: bool,
    ) -> anyhow::Result<(String, bool)> {
        let files = corpus::TargetFiles::of(&self.folder.join(&target.name))?;
        let options = format!(
            "-max_total_time={seconds} -timeout=60 -rss_limit_mb=2048 -print_final_stats=1 \
             -artifact_prefix={}/found- {} {}",
            files.folder.display(),
            files.corpus().display(),
            files.seeds().display(),
        );
        let mut stats = Stats::default();
        let before = stats::children_cpu()?;
        let time_max = Duration::from_secs(seconds) + REST_TIME_MAX;
        let ending = self.libfuzzer(&files, test, &options, time_max, |line| stats.line(line))?;
        stats.cpu = stats::children_cpu()?.saturating_sub(before);
        let kept = match keep && ending == Ending::Well {
            true => Some(self.keep(target, test, &files)?),
            false => None,
        };
        let found = ending != Ending::Well && ending != Ending::Interrupted;
        Ok((stats.summary(&target.name, kept, found.then_some(&files.folder)), found))
    }

    /// Writes what is worth it into the tree. Returns the number of inputs.
    fn keep(
        &self,
        target: &Target,
        test: &Test,
        files: &corpus::TargetFiles,
    ) -> anyhow::Result<usize> {
        let chosen = files.begin_choice()?;
        // Edges alone: which of them were passed how often would keep ten times as many inputs.
        let options = format!(
            "-set_cover_merge=1 -use_counters=0 -timeout=60 -rss_limit_mb=2048 {} {}",
            chosen.display(),
            files.corpus().display(),
        );
        let ending = self.libfuzzer(files, test, &options, REST_TIME_MAX, |_| {})?;
        ensure!(ending == Ending::Well, "choosing from {}: {ending}", files.corpus().display());
        files.end_choice(&target.name)
    }

    /// Runs the test program as libFuzzer, with a log next to what it keeps.
    fn libfuzzer(
        &self,
        files: &corpus::TargetFiles,
        test: &Test,
        options: &str,
        time_max: Duration,
        mut look: impl FnMut(&str),
    ) -> anyhow::Result<Ending> {
        let mut log = OpenOptions::new().create(true).append(true).open(files.log())?;
        let mut command = test.command();
        command
            .env("RINGSIDE_FUZZ_FOLDER", &files.folder)
            // Nothing of real captures may come into what is kept.
            .env("RINGSIDE_PCAPS", files.folder.join("no-captures"))
            .env("BOLERO_LIBFUZZER_ARGS", options)
            // How libFuzzer starts the program anew, to choose from a corpus.
            .env("BOLERO_LIBTEST_HARNESS", "1")
            .env("BOLERO_TEST_NAME", test.path());
        let ending = self.children.run_quietly(&mut command, time_max, |line| {
            // A log that cannot be written loses nothing that the run needs.
            let _ = writeln!(log, "{line}");
            look(line);
        })?;
        Ok(ending)
    }
}
