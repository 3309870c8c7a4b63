//! The file that a balancer's configuration is in.

use anyhow::{Context, anyhow};
use ringside_balance::Config;
use ringside_balance::config::CONFIG_BYTES_MAX;
use ringside_core::Shown;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// What tells one state of a file from the next: its time and length.
type State = Option<(SystemTime, u64)>;

/// The file, with its state when it was read.
pub(super) struct ConfigFile {
    path: PathBuf,
    state: State,
}

impl ConfigFile {
    pub fn new(path: &Path) -> ConfigFile {
        ConfigFile { path: path.to_owned(), state: None }
    }

    /// What it says now.
    pub fn read(&mut self) -> anyhow::Result<Config> {
        // Before the bytes: what is written meanwhile is a change.
        self.state = self.look();
        let shown = self.path.shown();
        let file = File::open(&self.path).with_context(|| format!("cannot open {shown}"))?;
        let mut text = Vec::new();
        // One more than is taken, so that a longer file is refused and not cut.
        let bytes = file.take(CONFIG_BYTES_MAX as u64 + 1).read_to_end(&mut text);
        bytes.with_context(|| format!("cannot read {shown}"))?;
        Config::read(&text).map_err(|error| anyhow!("{shown}, {error}"))
    }

    /// True if it is another file than the one that was read, or has another time or length.
    pub fn has_changed(&self) -> bool {
        self.look() != self.state
    }

    fn look(&self) -> State {
        let metadata = std::fs::metadata(&self.path).ok()?;
        Some((metadata.modified().ok()?, metadata.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_seen_and_a_mistake_named_with_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("balance.toml");
        let mut file = ConfigFile::new(&path);
        assert!(file.read().unwrap_err().to_string().starts_with("cannot open"));
        std::fs::write(&path, "mtu = 1500\n").unwrap();
        assert!(file.has_changed());
        assert_eq!(file.read().unwrap().mtu, 1500);
        assert!(!file.has_changed());
        std::fs::write(&path, "\nmtu = 15000\n").unwrap();
        assert!(file.has_changed());
        let error = file.read().unwrap_err().to_string();
        let text = "line 2, column 7: mtu is 15000; it must be 1328 to 9216";
        assert!(error.ends_with(text), "{error}");
        assert!(!file.has_changed(), "it is not said again and again");
    }
}
