//! The user that a run becomes: the one that was asked for, or one without rights.

use super::keep_only;
use anyhow::Context;
use nix::unistd::{User, getgrouplist};
use ringside_capture::config::Output;
use ringside_capture::run::MadeDirectories;
use ringside_core::Shown;
use rustix::fs::{Access, AtFlags, CWD, accessat};
use rustix::thread::{
    CapabilitySet, Gid, Uid, set_keep_capabilities, set_thread_groups, set_thread_res_gid,
    set_thread_res_uid,
};
use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};
use thiserror::Error;

/// Users without rights, in the order in which they are tried: our own, which a package or an
/// administrator makes, and the one that is on every system.
const WITHOUT_RIGHTS: [&str; 2] = ["ringside", "nobody"];
/// Entries of a directory that are looked at. More files of another user are unlikely to come after
/// that many of our own.
const ENTRIES_MAX: usize = 10_000;

/// There is no user of a name.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("there is no user {0}")]
pub struct NoSuchUser(pub String);

/// Directories that were made for the user that this process becomes. If the run is refused they go
/// again, for which the user's rights may not do: what they lie in may be root's. So a thread that
/// still has them waits for what becomes of the run.
pub struct UsersDirectories {
    /// A message is the order to keep them; the end of the channel is that to remove them.
    orders: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl UsersDirectories {
    /// Makes those of `directories` that are missing and gives them to `user`.
    fn make(directories: &[PathBuf], user: &User) -> anyhow::Result<UsersDirectories> {
        let missing: Vec<_> = directories.iter().filter(|path| !path.exists()).collect();
        if missing.is_empty() {
            return Ok(UsersDirectories { orders: None, thread: None });
        }
        let mut made = MadeDirectories::make(directories)?;
        for directory in missing {
            let (uid, gid) = (user.uid.as_raw(), user.gid.as_raw());
            let context = || format!("giving {} to user {}", directory.shown(), user.name);
            std::os::unix::fs::chown(directory, Some(uid), Some(gid)).with_context(context)?;
        }
        let (orders, order) = mpsc::channel();
        let wait = move || {
            if order.recv().is_ok() {
                made.keep();
            }
        };
        let thread = thread::Builder::new().name("directories".into()).spawn(wait)?;
        Ok(UsersDirectories { orders: Some(orders), thread: Some(thread) })
    }

    /// They stay; no thread has other rights any more.
    pub fn keep(self) {
        if let Some(orders) = &self.orders {
            // The thread waits for it.
            let _ = orders.send(());
        }
    }
}

impl Drop for UsersDirectories {
    fn drop(&mut self) {
        drop(self.orders.take());
        self.thread.take().map(JoinHandle::join);
    }
}

/// Becomes the user `asked`, or, if root asks for none, a user without rights who can write
/// `output` and `files`; `None` if this process stays who it is. Missing directories are made and
/// given to the user before.
///
/// # Errors
/// There is no user of that name, or this process may not become it.
pub fn become_another(
    asked: Option<&str>,
    output: &Output,
    files: &[PathBuf],
) -> anyhow::Result<Option<UsersDirectories>> {
    let directories = output.directories();
    let user = match asked {
        Some(name) => Some(named(name)?),
        None if rustix::process::geteuid().is_root() => without_rights(output, files),
        None => None,
    };
    // So `--user root` of root stays root.
    let is_other = |user: &User| user.uid.as_raw() != rustix::process::geteuid().as_raw();
    user.filter(is_other).map(|user| become_user(&user, &directories)).transpose()
}

/// The number of the user `name`.
///
/// # Errors
/// There is no user of that name.
pub fn uid_of(name: &str) -> anyhow::Result<u32> {
    named(name).map(|user| user.uid.as_raw())
}

fn named(name: &str) -> anyhow::Result<User> {
    let user = User::from_name(name).with_context(|| format!("looking for user {name}"))?;
    Ok(user.ok_or_else(|| NoSuchUser(name.to_owned()))?)
}

/// The first of the users without rights that there is, if it can write what a run writes.
fn without_rights(output: &Output, files: &[PathBuf]) -> Option<User> {
    let known = |name: &&str| User::from_name(name).ok().flatten();
    let user = WITHOUT_RIGHTS.iter().find_map(known).filter(|user| !user.uid.is_root())?;
    let can_write = as_user(&user, || {
        let directories = match output {
            Output::Directory { paths, .. } => paths.iter().all(|path| takes_recordings(path)),
            Output::File { path, .. } => takes_file(path),
            Output::Count | Output::Stream { .. } => true,
        };
        directories && files.iter().all(|path| takes_file(path))
    });
    if !can_write {
        tracing::info!(
            "the run stays root: user {} cannot write what it writes (docs/privileges.md)",
            user.name
        );
    }
    can_write.then_some(user)
}

/// What `look` says on a thread that is this user; false if it cannot be.
fn as_user(user: &User, look: impl FnOnce() -> bool + Send) -> bool {
    let look = || switch(user).is_ok() && look();
    thread::scope(|scope| scope.spawn(look).join().unwrap_or(false))
}

/// Has the calling thread be `user`.
fn switch(user: &User) -> anyhow::Result<()> {
    let groups = groups_of(&user.name, user.gid)?;
    let context = || format!("becoming user {} (needs root)", user.name);
    let (uid, gid) = (Uid::from_raw(user.uid.as_raw()), Gid::from_raw(user.gid.as_raw()));
    set_thread_groups(&groups).with_context(context)?;
    set_thread_res_gid(gid, gid, gid).with_context(context)?;
    set_thread_res_uid(uid, uid, uid).with_context(context)
}

/// Becomes `user`, with the user's groups. Of the capabilities only that of locking memory is left,
/// until they are [given up](super::give_up): the ring is still to be made.
fn become_user(user: &User, directories: &[PathBuf]) -> anyhow::Result<UsersDirectories> {
    let made = UsersDirectories::make(directories, user)?;
    let context = || format!("becoming user {} (needs root)", user.name);
    set_keep_capabilities(true).with_context(context)?;
    switch(user)?;
    set_keep_capabilities(false).with_context(context)?;
    keep_only(CapabilitySet::IPC_LOCK)?;
    Ok(made)
}

/// Becomes user `nobody`, if this is root's process: for work that needs none of its files.
///
/// # Errors
/// The system refused.
pub fn become_nobody() -> anyhow::Result<()> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let nobody = User::from_name("nobody").context("looking for user nobody")?;
    nobody.as_ref().map_or(Ok(()), switch)
}

fn groups_of(name: &str, gid: nix::unistd::Gid) -> anyhow::Result<Vec<Gid>> {
    let text = CString::new(name).context("the name of a user has no zero byte")?;
    let groups = getgrouplist(&text, gid).with_context(|| format!("the groups of user {name}"))?;
    Ok(groups.into_iter().map(|gid| Gid::from_raw(gid.as_raw())).collect())
}

fn may(path: &Path, access: Access) -> bool {
    accessat(CWD, path, access, AtFlags::EACCESS).is_ok()
}

/// True if a recording can be written there: the directory is there and can be used, or is to be
/// made in one that leads to it.
fn takes_recordings(directory: &Path) -> bool {
    if directory.exists() {
        return is_reached(directory);
    }
    let before = directory.ancestors().skip(1).find(|path| path.exists());
    may(before.unwrap_or(Path::new(".")), Access::EXEC_OK)
}

/// True if files can be made, renamed and removed in the directory; without a name it is the one
/// where the process is.
pub fn takes_names(directory: &Path) -> bool {
    let here = directory.as_os_str().is_empty();
    may(if here { Path::new(".") } else { directory }, Access::WRITE_OK | Access::EXEC_OK)
}

/// True if the file can be written, and others in its directory.
fn takes_file(path: &Path) -> bool {
    path.parent().is_none_or(takes_names)
        && (may(path, Access::WRITE_OK) || std::fs::symlink_metadata(path).is_err())
}

/// True if the directory can be written, what is a recording in it can be read, and what is a lock
/// taken.
pub fn is_reached(directory: &Path) -> bool {
    let all = Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK;
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten().take(ENTRIES_MAX);
    may(directory, all)
        && entries.map(|entry| entry.path()).all(|path| match Kind::of(&path) {
            Kind::Recording => may(&path, Access::READ_OK),
            Kind::Lock => may(&path, Access::READ_OK | Access::WRITE_OK),
            Kind::Other => true,
        })
}

/// What a name in a directory of recordings tells.
enum Kind {
    Recording,
    Lock,
    Other,
}

impl Kind {
    fn of(path: &Path) -> Kind {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        match (name.starts_with(".ringside") && name.ends_with(".lock"), path.extension()) {
            (true, _) => Kind::Lock,
            (_, Some(end)) if end == "pcapng" => Kind::Recording,
            _ => Kind::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{apart, status};
    use super::*;
    use ringside_capture::config::Rotation;
    use ringside_testkit::need_root;
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::{PermissionsExt, chown};

    fn directory(path: &Path) -> Output {
        Output::Directory {
            paths: vec![path.to_owned()],
            rotation: Rotation::default(),
            options: Default::default(),
            retention: Default::default(),
        }
    }

    #[test]
    fn another_user_gets_the_directory_and_nothing_else() {
        if !need_root("another_user") {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        let recording = folder.path().join("recording");
        let output = directory(&recording);
        let error = become_another(Some("rsafp-nobody"), &output, &[]).err().unwrap();
        assert_eq!(error.downcast_ref(), Some(&NoSuchUser("rsafp-nobody".into())), "{error}");
        apart(|| {
            become_another(Some("nobody"), &output, &[]).unwrap().unwrap().keep();
            assert_eq!(status("Uid"), "65534\t65534\t65534\t65534");
            assert_eq!(status("CapEff"), format!("{:016x}", CapabilitySet::IPC_LOCK.bits()));
            keep_only(CapabilitySet::empty()).unwrap();
            std::fs::write(recording.join("file"), b"").unwrap();
            assert!(std::fs::write(folder.path().join("file"), b"").is_err());
        });
    }

    #[test]
    fn root_stays_root_only_where_its_files_are_or_if_it_asks_for_that() {
        if !need_root("root_stays_root_only") {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let becomes = |asked: Option<&str>, output: &Output, files: &[PathBuf]| {
            let mut uid = String::new();
            apart(|| {
                become_another(asked, output, files).unwrap();
                uid = status("Uid");
            });
            !uid.starts_with("0\t")
        };
        let missing = directory(&at("new"));
        set_permissions(folder.path(), Permissions::from_mode(0o700)).unwrap();
        assert!(becomes(None, &Output::Count, &[]));
        assert!(!becomes(Some("root"), &Output::Count, &[]));
        assert!(!becomes(None, &missing, &[]), "only root comes there");
        set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        assert!(becomes(None, &missing, &[]));
        assert!(!at("new").exists(), "the run never began");
        let user = without_rights(&Output::Count, &[]).unwrap();
        let (uid, gid) = (user.uid.as_raw(), user.gid.as_raw());
        std::fs::create_dir(at("old")).unwrap();
        assert!(!becomes(None, &directory(&at("old")), &[]), "it is root's");
        chown(at("old"), Some(uid), Some(gid)).unwrap();
        assert!(becomes(None, &directory(&at("old")), &[]));
        std::fs::write(at("old/.ringside.lock"), b"").unwrap();
        set_permissions(at("old/.ringside.lock"), Permissions::from_mode(0o600)).unwrap();
        assert!(!becomes(None, &directory(&at("old")), &[]), "its lock is root's");
        let digests = [at("digests")];
        assert!(!becomes(None, &Output::Count, &digests), "no file can be made there");
        assert!(becomes(None, &Output::Count, &[at("old/digests")]));
    }
}
