//! The file that a balancer's configuration is in.

use crate::BalancerError;
use ringside_balance::Config;
use ringside_balance::config::{CONFIG_BYTES_MAX, Real, RealState};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::{Path, PathBuf};
use std::time::SystemTime;
use toml_edit::{DocumentMut, Item, TableLike, Value};

/// What tells one state of a file from the next: its device and inode, time and length.
type State = Option<(u64, u64, SystemTime, u64)>;

/// The file, with its state when it was read.
#[derive(Debug)]
pub struct ConfigFile {
    path: PathBuf,
    state: State,
}

impl ConfigFile {
    /// A file that was not read yet.
    pub fn new(path: &Path) -> ConfigFile {
        ConfigFile { path: path.to_owned(), state: None }
    }

    /// What it says now.
    ///
    /// # Errors
    /// It cannot be read, or something in it is wrong.
    pub fn read(&mut self) -> Result<Config, BalancerError> {
        // Before the bytes: what is written meanwhile is a change.
        self.state = self.look();
        let text = self.text()?;
        Config::read(&text)
            .map_err(|problem| BalancerError::Config { path: self.path.clone(), problem })
    }

    fn text(&self) -> Result<Vec<u8>, BalancerError> {
        let file = File::open(&self.path).map_err(|error| self.refused("open", error))?;
        let mut text = Vec::new();
        // One more than is taken, so that a longer file is refused and not cut.
        let read = file.take(CONFIG_BYTES_MAX as u64 + 1).read_to_end(&mut text);
        read.map_err(|error| self.refused("read", error))?;
        Ok(text)
    }

    /// Writes state and weight of a real of a VIP into the file, which is replaced at once; all
    /// else in it stays as it is, comments too.
    ///
    /// # Errors
    /// It cannot be read or written, or has no such real.
    pub fn save(&self, vip: &str, real: &Real) -> Result<(), BalancerError> {
        let text = String::from_utf8(self.text()?).map_err(|e| self.wrong(&e.to_string()))?;
        let mut document: DocumentMut = text.parse().map_err(|e| self.wrong(&format!("{e}")))?;
        let entry = entry_of(document.as_item_mut(), vip, real);
        note(entry.ok_or_else(|| self.wrong("it has no such real any more"))?, real);
        self.replace(document.to_string().as_bytes()).map_err(|error| self.refused("write", error))
    }

    /// Another file takes its place, whole: a reader has the old one or the new one.
    fn replace(&self, text: &[u8]) -> io::Result<()> {
        let path = std::fs::canonicalize(&self.path)?;
        let new = path.with_extension(format!("new-{}", std::process::id()));
        let written = File::create_new(&new).and_then(|mut file| {
            let old = std::fs::metadata(&path)?;
            // An operator's file stays the operator's. A new owner costs some bits of the mode.
            fchown(&file, Some(old.uid()), Some(old.gid()))?;
            file.set_permissions(old.permissions())?;
            file.write_all(text)?;
            file.sync_all()?;
            std::fs::rename(&new, &path)
        });
        if written.is_err() {
            // Perhaps it was not made.
            let _ = std::fs::remove_file(&new);
        }
        written
    }

    fn refused(&self, what: &'static str, source: io::Error) -> BalancerError {
        BalancerError::File { what, path: self.path.clone(), source }
    }

    fn wrong(&self, text: &str) -> BalancerError {
        self.refused("change", io::Error::new(io::ErrorKind::InvalidData, text))
    }

    /// True if it is another file than the one that was read, or has another time or length.
    pub fn has_changed(&self) -> bool {
        self.look() != self.state
    }

    fn look(&self) -> State {
        let metadata = std::fs::metadata(&self.path).ok()?;
        Some((metadata.dev(), metadata.ino(), metadata.modified().ok()?, metadata.len()))
    }
}

/// The table of a real in a document.
fn entry_of<'d>(root: &'d mut Item, vip: &str, real: &Real) -> Option<&'d mut dyn TableLike> {
    let is_vip = |table: &dyn TableLike| table.get("name").and_then(Item::as_str) == Some(vip);
    let is_real = |table: &dyn TableLike| {
        let address = table.get("address").and_then(Item::as_str);
        address.and_then(|address| address.parse().ok()) == Some(real.address)
    };
    let vip = table_in(root.get_mut("vip")?, is_vip)?;
    table_in(vip.get_mut("real")?, is_real)
}

/// The first wanted table of an array, in either of its forms.
fn table_in(
    item: &mut Item,
    is_wanted: impl Fn(&dyn TableLike) -> bool,
) -> Option<&mut dyn TableLike> {
    match item {
        Item::ArrayOfTables(tables) => {
            let found = tables.iter_mut().find(|table| is_wanted(&**table))?;
            Some(found)
        }
        Item::Value(all) => {
            let all = all.as_array_mut()?.iter_mut();
            let found = all.filter_map(Value::as_inline_table_mut).find(|one| is_wanted(&**one))?;
            Some(found)
        }
        _ => None,
    }
}

/// Has a table say what a real is.
fn note(table: &mut dyn TableLike, real: &Real) {
    let (state, drain_s) = match real.state {
        RealState::Up => ("up", None),
        RealState::Down => ("down", None),
        RealState::Draining { drain_s } => ("draining", Some(drain_s)),
    };
    put(table, "state", state.into());
    put(table, "weight", i64::from(real.weight).into());
    match drain_s {
        Some(drain_s) => put(table, "drain_s", i64::from(drain_s).into()),
        None => {
            table.remove("drain_s");
        }
    }
}

/// Writes a value; what stood around the one before, as a comment behind it, stays.
fn put(table: &mut dyn TableLike, key: &str, mut new: Value) {
    if let Some(old) = table.get_mut(key).and_then(Item::as_value_mut) {
        *new.decor_mut() = old.decor().clone();
        *old = new;
    } else {
        table.insert(key, Item::Value(new));
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
        let text = "balance.toml, line 2, column 7: mtu is 15000; it must be 1328 to 9216";
        assert!(error.ends_with(text), "{error}");
        assert!(!file.has_changed(), "it is not said again and again");
        // Another file with the same time and length.
        let (other, old) = (folder.path().join("other"), std::fs::metadata(&path).unwrap());
        std::fs::write(&other, "\nmtu = 14000\n").unwrap();
        File::options()
            .write(true)
            .open(&other)
            .unwrap()
            .set_modified(old.modified().unwrap())
            .unwrap();
        std::fs::rename(&other, &path).unwrap();
        assert!(file.has_changed());
    }

    #[test]
    fn a_real_is_changed_in_the_file_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("balance.toml");
        let text = "# ours\nsource_v4 = \"10.9.0.0/16\"\n\n[[vip]]\nname = \"web\" # the site\n\
                    address = \"192.0.2.1\"\nprotocol = \"tcp\"\n\n[[vip.real]]\n\
                    address = \"10.0.0.1\"  # rack 1\nstate = \"draining\" # old\ndrain_s = 5\n\n\
                    [[vip.real]]\naddress = \"10.0.0.2\"\n\n\
                    [[vip]]\nname = \"dns\"\naddress = \"192.0.2.2\"\nprotocol = \"udp\"\n\
                    real = [{ address = \"10.0.0.1\" }]\n";
        std::fs::write(&path, text).unwrap();
        // Only root may give a file away.
        let is_given = std::os::unix::fs::chown(&path, Some(65_534), Some(65_534)).is_ok();
        let mut file = ConfigFile::new(&path);
        let mut config = file.read().unwrap();
        let real = &mut config.vips[0].reals[0];
        (real.state, real.weight) = (RealState::Down, 3);
        file.save("web", real).unwrap();
        let said = std::fs::read_to_string(&path).unwrap();
        for kept in ["# ours", "# the site", "# rack 1", "\"down\" # old"] {
            assert!(said.contains(kept), "{said}");
        }
        assert_eq!(file.read().unwrap(), config);
        let real = &mut config.vips[1].reals[0];
        real.state = RealState::Draining { drain_s: 60 };
        file.save("dns", real).unwrap();
        assert_eq!(file.read().unwrap(), config);
        let mut stranger = config.vips[0].reals[1].clone();
        stranger.address = "10.0.0.9".parse().unwrap();
        assert!(file.save("web", &stranger).unwrap_err().to_string().contains("no such real"));
        assert!(!is_given || std::fs::metadata(&path).unwrap().uid() == 65_534, "another owner");
        let left = std::fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(left, 1, "nothing but the file is there");
    }
}
