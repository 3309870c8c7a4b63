//! What the site of the documentation is built from, in a folder of its own: mdBook copies
//! everything that lies where its pages do, and around the documents lies the whole source tree.

use crate::tidy::{self, Tree};
use anyhow::Context;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

/// Where, from the project's root; `src` of book.toml.
const FOLDER: &str = "target/book-source";

/// Copies the pages that SUMMARY.md names, and files that they link to, with the paths that they
/// have in the project. Returns how many.
///
/// # Errors
/// A file cannot be read or written.
pub fn lay_out(root: &Path) -> anyhow::Result<usize> {
    let folder = root.join(FOLDER);
    match fs::remove_dir_all(&folder) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            return Err(error).context(FOLDER);
        }
        _ => {}
    }
    let files = tidy::site(&Tree::read(root)?);
    for path in &files {
        let copy = folder.join(path);
        let parent = copy.parent().expect("it lies in the folder");
        fs::create_dir_all(parent).with_context(|| parent.display().to_string())?;
        fs::copy(root.join(path), &copy).with_context(|| path.clone())?;
    }
    Ok(files.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_and_pictures_are_copied_and_what_went_is_gone() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, bytes: &[u8]| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        };
        write("SUMMARY.md", b"[a](docs/a.md)\n");
        write("docs/a.md", b"![p](p.png)\n");
        write("docs/p.png", b"\x89PNG\xff\0");
        write("docs/other.png", b"");
        assert_eq!(lay_out(root.path()).unwrap(), 3);
        let there = |path: &str| fs::read(root.path().join(FOLDER).join(path)).ok();
        assert_eq!(there("docs/p.png").as_deref(), Some(&b"\x89PNG\xff\0"[..]));
        assert!(there("SUMMARY.md").is_some() && there("docs/other.png").is_none());

        write("docs/a.md", b"# A\n");
        assert_eq!(lay_out(root.path()).unwrap(), 2);
        assert!(there("docs/a.md").is_some() && there("docs/p.png").is_none());
    }
}
