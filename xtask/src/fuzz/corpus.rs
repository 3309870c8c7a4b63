//! The folder of a target, and what of it goes into the tree.

use anyhow::{Context, ensure};
use ringside_testkit::fuzz::corpus;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// Bytes of a target's inputs in the tree; escaped they are up to four times as many.
const BYTES_MAX: usize = 12 << 10;
/// Longer inputs are left out: what they reach, shorter ones mostly do too.
const INPUT_BYTES_MAX: usize = 2 << 10;

/// Where a target's run has its files.
pub struct TargetFiles {
    /// What holds all of it; failing inputs are written here, as found-*.
    pub folder: PathBuf,
}

impl TargetFiles {
    /// The folder with what libFuzzer wants to find in it.
    pub fn of(folder: &Path) -> anyhow::Result<TargetFiles> {
        let files = TargetFiles { folder: folder.to_owned() };
        // libFuzzer's arguments are words.
        ensure!(!folder.display().to_string().contains(' '), "a blank in {}", folder.display());
        anew(&files.seeds())?;
        std::fs::create_dir_all(files.corpus()).with_context(|| folder.display().to_string())?;
        Ok(files)
    }

    /// Inputs that runs have found, by libFuzzer's names.
    pub fn corpus(&self) -> PathBuf {
        self.folder.join("corpus")
    }

    /// What the test itself begins with; it writes them.
    pub fn seeds(&self) -> PathBuf {
        self.folder.join("seeds")
    }

    pub fn log(&self) -> PathBuf {
        self.folder.join("log.txt")
    }

    fn chosen(&self) -> PathBuf {
        self.folder.join("chosen")
    }

    /// An empty folder for libFuzzer's choice of the corpus.
    pub fn begin_choice(&self) -> anyhow::Result<PathBuf> {
        anew(&self.chosen())?;
        Ok(self.chosen())
    }

    /// Writes the choice into the tree: the smallest first, as many as there is room for. Returns
    /// their number.
    pub fn end_choice(&self, name: &str) -> anyhow::Result<usize> {
        let mut inputs = read(&self.chosen())?;
        inputs.sort_by(|a, b| (a.len(), a).cmp(&(b.len(), b)));
        let mut room = BYTES_MAX;
        inputs.retain(|input| {
            let fits = (1..=INPUT_BYTES_MAX.min(room)).contains(&input.len());
            room -= if fits { input.len() } else { 0 };
            fits
        });
        corpus::write(name, &inputs).with_context(|| format!("the corpus of {name}"))?;
        Ok(inputs.len())
    }
}

/// Makes an empty folder.
fn anew(folder: &Path) -> anyhow::Result<()> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
        _ => {}
    }
    std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())
}

fn read(folder: &Path) -> anyhow::Result<Vec<Vec<u8>>> {
    let mut inputs = HashSet::new();
    for entry in std::fs::read_dir(folder)? {
        inputs.insert(std::fs::read(entry?.path())?);
    }
    Ok(inputs.into_iter().collect())
}
