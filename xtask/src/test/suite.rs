//! The tests of the workspace, as the built test programs list them.

use anyhow::{Context, ensure};
use cargo_metadata::{Message, Metadata, Package, Target};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A test program that cargo built.
#[derive(Debug)]
pub struct Program {
    path: PathBuf,
    /// Folder of the package, in which cargo runs tests too.
    folder: PathBuf,
    /// Package and target: `ringside-store` for the library's own tests, else `ringside-store/all`.
    name: String,
}

/// One test.
#[derive(Clone, Debug)]
pub struct Test {
    /// Program and path in it, as `ringside-store/all repair::a_cut_file`.
    pub name: String,
    program: PathBuf,
    folder: PathBuf,
    path: String,
}

impl Test {
    /// The program with this one test. Each has a process of its own, so that a test that hangs or
    /// crashes is one test, and none meets what another has left in the process.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["--exact", &self.path, "--nocapture"]).current_dir(&self.folder);
        command
    }

    /// What the test is called in its program.
    pub fn path(&self) -> &str {
        &self.path
    }
}

/// The test programs that a run of `cargo test --no-run --message-format=json` has named.
pub struct Programs<'m> {
    metadata: &'m Metadata,
    programs: Vec<Program>,
    /// Names of test targets that no line has named yet.
    missing: BTreeSet<String>,
}

impl<'m> Programs<'m> {
    /// None yet.
    pub fn new(metadata: &'m Metadata) -> Programs<'m> {
        Programs::of(metadata, |_| true)
    }

    /// None yet, of those programs alone whose names are `wanted`.
    pub fn of(metadata: &'m Metadata, wanted: impl Fn(&str) -> bool) -> Programs<'m> {
        let targets = metadata.packages.iter().flat_map(|package| {
            let tested = package.targets.iter().filter(|target| target.test);
            tested.map(|target| name(package, target))
        });
        let missing = targets.filter(|name| wanted(name)).collect();
        Programs { metadata, programs: Vec::new(), missing }
    }

    /// Cargo's arguments that build each of the missing programs alone.
    pub fn selections(&self) -> Vec<Vec<String>> {
        let packages = self.metadata.packages.iter();
        let programs = packages.flat_map(|p| p.targets.iter().map(move |target| (p, target)));
        let missing = programs.filter(|(p, target)| self.missing.contains(&name(p, target)));
        let words = missing.map(|(package, target)| {
            let kind: &[&str] = match () {
                () if target.is_test() => &["--test", &target.name],
                () if target.is_bin() => &["--bin", &target.name],
                () => &["--lib"],
            };
            [&["--package", &package.name], kind].concat()
        });
        words.map(|words| words.into_iter().map(str::to_owned).collect()).collect()
    }

    /// Reads a line of cargo's output; shows it if it is none of its messages.
    pub fn line(&mut self, line: &str) {
        let artifact = match Message::parse_stream(line.as_bytes()).next() {
            Some(Ok(Message::CompilerArtifact(artifact))) if artifact.profile.test => artifact,
            Some(Ok(Message::TextLine(text))) => return println!("{text}"),
            _ => return,
        };
        let Some(path) = artifact.executable else { return };
        let mut packages = self.metadata.packages.iter();
        let Some(package) = packages.find(|package| package.id == artifact.package_id) else {
            return;
        };
        let name = name(package, &artifact.target);
        self.missing.remove(&name);
        let folder = package.manifest_path.parent().map(Into::into).unwrap_or_default();
        self.programs.push(Program { path: path.into(), folder, name });
    }

    /// The tests of all programs.
    ///
    /// # Errors
    /// Cargo named no program for a test target, or one cannot be run or does not list its tests.
    pub fn tests(&self) -> anyhow::Result<Vec<Test>> {
        ensure!(self.missing.is_empty(), "cargo built no test program of {:?}", self.missing);
        let mut tests = Vec::new();
        for program in &self.programs {
            let list = list(&program.path, &program.folder)
                .with_context(|| format!("the tests of {}", program.name))?;
            tests.extend(names(&list).map(|path| Test {
                name: format!("{} {path}", program.name),
                program: program.path.clone(),
                folder: program.folder.clone(),
                path: path.to_owned(),
            }));
        }
        Ok(tests)
    }
}

/// What a program is called: by its package, and by its target if that is a file under tests.
fn name(package: &Package, target: &Target) -> String {
    match target.is_test() {
        true => format!("{}/{}", package.name, target.name),
        false => package.name.to_string(),
    }
}

fn list(program: &Path, folder: &Path) -> anyhow::Result<String> {
    let mut command = Command::new(program);
    command.args(["--list", "--format", "terse"]).current_dir(folder);
    let output = command.output()?;
    ensure!(output.status.success(), "{command:?}: {}", output.status);
    Ok(String::from_utf8(output.stdout)?)
}

/// The names in a list of libtest: lines as `repair::a_cut_file: test`.
fn names(list: &str) -> impl Iterator<Item = &str> {
    list.lines().filter_map(|line| line.strip_suffix(": test"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_read_from_a_list_and_benchmarks_are_not() {
        let list = "a::b: test\nspeed: benchmark\n\nc: test\n";
        assert_eq!(names(list).collect::<Vec<_>>(), ["a::b", "c"]);
    }
}
