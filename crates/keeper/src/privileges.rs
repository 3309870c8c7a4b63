//! Giving up what is not needed any more: the user, capabilities, system calls, files.
//!
//! Everything that needs a privilege is opened before the run begins: sockets, filters, files, the
//! ring. The threads of the run are started by a thread that has given the rest up, and inherit
//! that; what is kept, and why, is in docs/privileges.md. All of this is of the calling thread, so
//! it happens before there are others.

mod reach;
mod system_calls;
mod user;

use anyhow::{Context, bail};
use ringside_core::Shown;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, Gid, capabilities, clear_ambient_capability_set,
    set_capabilities, set_no_new_privs, set_thread_groups,
};
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
pub use system_calls::Role;
pub use user::{NoSuchUser, UsersDirectories, become_another, uid_of};

/// What the binary needs to do without root what it does with sockets.
const WITHOUT_ROOT: &str = "not permitted; it needs CAP_NET_RAW: run with sudo, or `setcap \
                            cap_net_raw,cap_net_admin,cap_bpf,cap_perfmon+ep $(which ringside)`";

/// Adds to an error of the system what to do about a missing privilege, unless it says so already.
pub fn advised(error: anyhow::Error) -> anyhow::Error {
    let text = format!("{error:#}");
    // libpcap and libbpf give words, not numbers.
    let is_refused = text.contains("Operation not permitted");
    let is_advised = ["setcap", "as root", "with sudo"].iter().any(|words| text.contains(words));
    if is_refused && !is_advised { error.context(WITHOUT_ROOT) } else { error }
}

/// Files of a recording that are tried: whether all can be read shows with the first ones.
const FILES_TRIED_MAX: usize = 10_000;
/// First kernel where who holds a map may read it whatever `unprivileged_bpf_disabled` says.
const MAPS_BY_DESCRIPTOR: (u32, u32) = (5, 19);

/// Lets this process lock as much memory as the ring takes: registered buffers of io_uring count
/// as locked. Where it is not allowed, the limit stays.
pub fn raise_locked_memory() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Memlock);
    let unlimited = Rlimit { current: None, maximum: None };
    if setrlimit(Resource::Memlock, unlimited).is_err() {
        let _ = setrlimit(Resource::Memlock, Rlimit { current: maximum, maximum });
    }
}

/// Lets this process open as many files as it may: the keeper of many lanes holds copies of their
/// descriptors, and finishes many files. Where it is not allowed, the limit stays.
pub fn raise_descriptors() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum });
}

/// Gives up all that the threads of a run do not need to write to `directories` and to end it.
/// `others` are directories in which a file of theirs is written or removed; if the run
/// `runs_programs`, the kernel may still be asked to run those that are loaded. True if files of
/// other users lie in `directories`, or `others` are theirs.
///
/// # Errors
/// The system refused.
pub fn give_up(
    directories: &[PathBuf],
    others: &[PathBuf],
    runs_programs: bool,
) -> anyhow::Result<bool> {
    let for_files = needed_for_files(directories, others)?;
    keep_only(needed_for_maps() | for_files)?;
    let written = directories.iter().chain(others).map(PathBuf::as_path);
    confine(&[], written, Some(&[]), Role::Worker { runs_programs });
    Ok(!for_files.is_empty())
}

/// Gives up all capabilities of a process that reads `paths`, files and directories of files. Of
/// those of other users it joins the groups before: a recorder's files are of the user without
/// rights that root's recorder became, and of that user's group.
///
/// # Errors
/// A file would not be readable, or the system refused.
pub fn give_up_but_reading(paths: &[PathBuf]) -> anyhow::Result<()> {
    let all = capabilities(None).context("reading the capabilities")?;
    if all.permitted.contains(CapabilitySet::SETGID) {
        join_groups_of(paths)?;
    }
    keep_only(CapabilitySet::empty())?;
    match paths.iter().find(|path| !is_readable(path)) {
        None => Ok(()),
        Some(path) => bail!("{} cannot be read: run as its user (sudo -u USER)", path.shown()),
    }
}

/// Adds the groups of other users' files and directories to those of the calling thread.
fn join_groups_of(paths: &[PathBuf]) -> anyhow::Result<()> {
    let own = rustix::process::geteuid().as_raw();
    let found = paths.iter().filter_map(|path| std::fs::metadata(path).ok());
    let others: Vec<Gid> =
        found.filter(|found| found.uid() != own).map(|found| Gid::from_raw(found.gid())).collect();
    if others.is_empty() {
        return Ok(());
    }
    let groups = rustix::process::getgroups().context("reading the groups")?;
    set_thread_groups(&[groups, others].concat()).context("joining the group of a recording")
}

/// True if a file, or the files of a directory, can be opened; hidden ones are a recorder's own.
fn is_readable(path: &Path) -> bool {
    if !path.is_dir() {
        return std::fs::File::open(path).is_ok();
    }
    let Ok(entries) = std::fs::read_dir(path) else { return false };
    let mut files = entries.take(FILES_TRIED_MAX).filter_map(|entry| Some(entry.ok()?.path()));
    let is_hidden = |path: &Path| path.file_name().is_some_and(|n| n.as_bytes().starts_with(b"."));
    files.all(|path| is_hidden(&path) || path.is_dir() || std::fs::File::open(path).is_ok())
}

/// Has the calling thread, and those that it starts, open no other files than those below the
/// directories `held` and `written` and those that tell of the system, speak TCP to `ports` alone
/// (`None`: to all), and make the system calls of `role`; as far as the kernel can. After
/// [`keep_only`], of whose promise it makes use.
pub fn confine<'p>(
    held: &[BorrowedFd<'_>],
    written: impl IntoIterator<Item = &'p Path>,
    ports: Option<&[u16]>,
    role: Role,
) {
    match reach::confine(held, written, ports) {
        Ok(Some(())) => {}
        Ok(None) => tracing::info!("this kernel has no Landlock: files are bounded by the user"),
        Err(error) => tracing::warn!("files are not bounded by Landlock: {error:#}"),
    }
    if let Err(error) = system_calls::allow_only(role) {
        tracing::warn!("system calls are not bounded: {error:#}");
    }
}

/// Leaves a thread that sends to servers, and was started before the run gave up what it does not
/// need, no capability, and files below `written` and TCP to `ports` alone (`None`: to all).
pub fn confine_sender(written: &[PathBuf], ports: Option<&[u16]>) {
    if let Err(error) = keep_only(CapabilitySet::empty()) {
        tracing::warn!("a thread that sends to servers keeps its privileges: {error:#}");
    }
    confine(&[], written.iter().map(PathBuf::as_path), ports, Role::Sender);
}

/// Leaves the child that compiles a filter no rights at all: a user's text is read there by a
/// parser that is not ours. It may look up names, in files and by the network.
///
/// # Errors
/// The system refused.
pub fn give_up_all() -> anyhow::Result<()> {
    user::become_nobody()?;
    keep_only(CapabilitySet::empty())?;
    if let Err(error) = system_calls::allow_only(Role::Compiler) {
        tracing::warn!("system calls are not bounded: {error:#}");
    }
    Ok(())
}

/// What a process must keep in order to write, rotate and delete in `directories`, and to make and
/// remove files in `others`: root reaches other users' files only by
/// [`CapabilitySet::DAC_OVERRIDE`].
///
/// # Errors
/// The system refused.
fn needed_for_files(directories: &[PathBuf], others: &[PathBuf]) -> anyhow::Result<CapabilitySet> {
    let all = capabilities(None).context("reading the capabilities")?;
    if !all.permitted.contains(CapabilitySet::DAC_OVERRIDE) {
        // Another user, or a container's root: what is not reached here, the keeper reaches.
        return Ok(CapabilitySet::empty());
    }
    // Without them for a moment, to see what then can be done.
    let none = CapabilitySets { effective: CapabilitySet::empty(), ..all };
    set_capabilities(None, none).context("giving up capabilities")?;
    let reached = directories.iter().all(|directory| user::is_reached(directory))
        && others.iter().all(|directory| user::takes_names(directory));
    set_capabilities(None, all).context("taking capabilities back")?;
    Ok(if reached { CapabilitySet::empty() } else { CapabilitySet::DAC_OVERRIDE })
}

/// What is needed to read a BPF map that is open.
pub fn needed_for_maps() -> CapabilitySet {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    match version(&release) {
        Some(version) if version >= MAPS_BY_DESCRIPTOR => CapabilitySet::empty(),
        _ => CapabilitySet::BPF,
    }
}

fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// Gives up all capabilities but `kept` (of those that there are), for good, and the right to gain
/// any by starting a program.
///
/// # Errors
/// The system refused.
pub fn keep_only(kept: CapabilitySet) -> anyhow::Result<()> {
    let kept = capabilities(None).context("reading the capabilities")?.permitted & kept;
    let sets =
        CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() };
    // A kernel without ambient capabilities has none to clear.
    let _ = clear_ambient_capability_set();
    set_capabilities(None, sets).context("giving up capabilities")?;
    set_no_new_privs(true).context("giving up new privileges")
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringside_testkit::need_root;
    use std::fs;

    /// On a thread of its own: what it gives up is gone.
    pub(super) fn apart<T: Send>(work: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| scope.spawn(work).join().unwrap())
    }

    pub(super) fn status(field: &str) -> String {
        let text = fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(field)).unwrap();
        line.trim_start_matches(':').trim().to_owned()
    }

    #[test]
    fn a_sender_reaches_its_server_and_its_files_alone() {
        let folder = tempfile::tempdir().unwrap();
        let [spool, other] = ["spool", "other"].map(|name| folder.path().join(name));
        [&spool, &other].into_iter().for_each(|path| fs::create_dir(path).unwrap());
        let servers = [0; 2].map(|_| std::net::TcpListener::bind("127.0.0.1:0").unwrap());
        let [server, stranger] = servers.each_ref().map(|it| it.local_addr().unwrap());
        apart(|| {
            confine_sender(std::slice::from_ref(&spool), Some(&[server.port()]));
            assert_eq!(status("CapEff"), "0000000000000000");
            std::net::TcpStream::connect(("localhost", server.port())).unwrap();
            fs::write(spool.join("batch"), b"x").unwrap();
            let error = std::process::Command::new("true").spawn().unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EPERM));
            if std::net::TcpStream::connect(stranger).is_ok() {
                ringside_testkit::skip("a_sender_reaches", "this kernel's Landlock has no ports");
                return;
            }
            fs::write(other.join("file"), b"x").unwrap_err();
            fs::read("/etc/passwd").unwrap_err();
        });
    }

    #[test]
    fn what_is_given_up_is_gone() {
        if !need_root("what_is_given_up") {
            return;
        }
        apart(|| {
            keep_only(CapabilitySet::KILL).unwrap();
            for set in ["CapEff", "CapPrm"] {
                assert_eq!(status(set), format!("{:016x}", CapabilitySet::KILL.bits()));
            }
            assert_eq!(
                (status("CapInh").as_str(), status("NoNewPrivs").as_str()),
                ("0000000000000000", "1")
            );
            // What is not there cannot be kept.
            keep_only(CapabilitySet::KILL | CapabilitySet::SYS_ADMIN).unwrap();
            assert_eq!(status("CapEff"), format!("{:016x}", CapabilitySet::KILL.bits()));
        });
    }

    #[test]
    fn others_directories_need_a_capability_and_own_ones_do_not() {
        if !need_root("others_directories") {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let (own, other) = (folder.path().join("own"), folder.path().join("other"));
        for path in [&own, &other] {
            fs::create_dir(path).unwrap();
        }
        std::os::unix::fs::chown(&other, Some(65534), Some(65534)).unwrap();
        let needed = |path: &PathBuf| needed_for_files(std::slice::from_ref(path), &[]).unwrap();
        let for_name = |path: &PathBuf| needed_for_files(&[], std::slice::from_ref(path)).unwrap();
        apart(|| {
            assert_eq!(needed(&own), CapabilitySet::empty());
            assert_eq!(needed(&other), CapabilitySet::DAC_OVERRIDE);
            // A log there is put aside, which takes names in it.
            assert_eq!(for_name(&own), CapabilitySet::empty());
            assert_eq!(for_name(&other), CapabilitySet::DAC_OVERRIDE);
            let file = own.join("a.pcapng");
            fs::write(&file, b"").unwrap();
            fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o640))
                .unwrap();
            assert_eq!(needed(&own), CapabilitySet::empty());
            std::os::unix::fs::chown(&file, Some(65534), Some(65534)).unwrap();
            assert_eq!(needed(&own), CapabilitySet::DAC_OVERRIDE);
            assert!(status("CapEff") != "0000000000000000", "they are there again");
        });
    }

    #[test]
    fn releases_have_numbers() {
        for (release, expected) in [
            ("6.18.44-fc", Some((6, 18))),
            ("5.4.0-1-amd64", Some((5, 4))),
            ("4.18", Some((4, 18))),
            ("", None),
            ("x", None),
        ] {
            assert_eq!(version(release), expected, "{release}");
        }
    }

    #[test]
    fn who_reads_recordings_of_others_joins_their_group_and_has_no_capability() {
        if !need_root("who_reads_recordings_of_others_joins_their_group") {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().to_owned();
        let file = path.join("a.pcapng");
        fs::write(&file, "").unwrap();
        for path in [&path, &file] {
            std::os::unix::fs::chown(path, Some(65534), Some(65534)).unwrap();
        }
        fs::set_permissions(&path, permissions(0o750)).unwrap();
        fs::set_permissions(&file, permissions(0o640)).unwrap();
        apart(|| {
            give_up_but_reading(std::slice::from_ref(&path)).unwrap();
            assert_eq!(status("CapEff"), "0000000000000000");
            assert!(fs::File::open(&file).is_ok() && fs::write(&file, "").is_err());
        });
        fs::set_permissions(&file, permissions(0o600)).unwrap();
        let error = apart(|| give_up_but_reading(std::slice::from_ref(&path)).unwrap_err());
        assert!(error.to_string().contains("sudo -u USER"), "{error}");
    }

    fn permissions(mode: u32) -> fs::Permissions {
        std::os::unix::fs::PermissionsExt::from_mode(mode)
    }
}
