//! The project's files, as text.

use anyhow::Context;
use std::collections::BTreeSet;
use std::path::Path;

/// Larger files are data, not text that somebody wrote.
const TEXT_BYTES_MAX: u64 = 1 << 20;

/// A text file; paths are from the project's root, with `/`.
#[derive(Debug)]
pub struct File {
    /// Path from the project's root.
    pub path: String,
    /// Contents, as UTF-8.
    pub text: String,
}

/// Everything that would be in a clone.
#[derive(Debug, Default)]
pub struct Tree {
    /// Text files, in order of path.
    pub files: Vec<File>,
    paths: BTreeSet<String>,
}

impl Tree {
    /// Reads the folder at `root` without what builds and runs leave there.
    ///
    /// # Errors
    /// A folder or file cannot be read.
    pub fn read(root: &Path) -> anyhow::Result<Tree> {
        let mut tree = Tree::default();
        tree.read_folder(root, "")?;
        tree.files.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(tree)
    }

    /// A tree in memory, for tests.
    pub fn of(files: &[(&str, &str)]) -> Tree {
        let mut tree = Tree::default();
        for (path, text) in files {
            tree.paths.insert((*path).to_owned());
            tree.files.push(File { path: (*path).to_owned(), text: (*text).to_owned() });
        }
        tree
    }

    /// The file at `path`, if it is text.
    pub fn file(&self, path: &str) -> Option<&File> {
        self.files.iter().find(|file| file.path == path)
    }

    /// True if `path` is a file, or a folder that holds one.
    pub fn has(&self, path: &str) -> bool {
        let folder = format!("{}/", path.trim_end_matches('/'));
        let below = self.paths.range(folder.clone()..).next();
        path.is_empty()
            || self.paths.contains(path)
            || below.is_some_and(|found| found.starts_with(&folder))
    }

    /// True if `path` is a file.
    pub fn is_file(&self, path: &str) -> bool {
        self.paths.contains(path)
    }

    fn read_folder(&mut self, root: &Path, folder: &str) -> anyhow::Result<()> {
        let here = root.join(folder);
        for entry in std::fs::read_dir(&here).with_context(|| here.display().to_string())? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = if folder.is_empty() { name.clone() } else { format!("{folder}/{name}") };
            let kind = entry.file_type()?;
            if is_output(folder, &name) {
                continue;
            }
            if kind.is_dir() {
                self.read_folder(root, &path)?;
            } else if kind.is_file() {
                if entry.metadata()?.len() <= TEXT_BYTES_MAX {
                    let bytes = std::fs::read(entry.path()).with_context(|| path.clone())?;
                    let text = String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'));
                    self.files.extend(text.map(|text| File { path: path.clone(), text }));
                }
                self.paths.insert(path);
            }
        }
        Ok(())
    }
}

/// What .gitignore names, and git's own: a folder, or a file in a further working tree.
fn is_output(folder: &str, name: &str) -> bool {
    folder.is_empty() && (name == ".git" || name == "out" || name.starts_with("target"))
}
