//! What the rules look at: files, packages, exceptions.

use super::floors::{self, Package};
use super::tree::Tree;
use std::path::Path;

/// The project as plain data.
#[derive(Debug, Default)]
pub struct House {
    /// Its files.
    pub tree: Tree,
    /// Its packages, as `cargo metadata` reports them.
    pub packages: Vec<Package>,
}

impl House {
    /// Reads the project at `root`.
    ///
    /// # Errors
    /// A file or the output of `cargo metadata` cannot be read.
    pub fn read(root: &Path) -> anyhow::Result<House> {
        Ok(House { tree: Tree::read(root)?, packages: floors::packages(root)? })
    }

    /// Line from 1 of the first line of `path` that begins with `start`; 1 where there is none.
    pub(super) fn line_of(&self, path: &str, start: &str) -> usize {
        let text = self.tree.file(path).map_or("", |file| &file.text);
        let found = text.lines().position(|line| line.trim_start().starts_with(start));
        found.map_or(1, |index| index + 1)
    }
}
