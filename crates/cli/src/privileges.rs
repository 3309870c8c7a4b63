//! Giving up what is not needed any more: the user, capabilities, system calls.
//!
//! Everything that needs a privilege is opened before the run begins: sockets, filters, files, the
//! ring. The threads of the run are started by a thread that has given the rest up, and inherit
//! that; what is kept, and why, is in docs/privileges.md. All of this is of the calling thread, so
//! it happens before there are others.

use anyhow::{Context, bail};
use nix::unistd::{User, getgrouplist};
use ringside_capture::run::MadeDirectories;
use rustix::fs::{Access, AtFlags, CWD, accessat};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, Gid, Uid, capabilities, clear_ambient_capability_set,
    set_capabilities, set_keep_capabilities, set_no_new_privs, set_thread_groups,
    set_thread_res_gid, set_thread_res_uid,
};
use seccompiler::{
    SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    apply_filter,
};
use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Sender};
use std::thread::{self, JoinHandle};

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

/// First kernel where who holds a map may read it whatever `unprivileged_bpf_disabled` says.
const MAPS_BY_DESCRIPTOR: (u32, u32) = (5, 19);
/// Entries of a directory that are looked at. More of another user's are hardly hidden behind so
/// many of our own.
const ENTRIES_MAX: usize = 10_000;

/// bpf(2) commands that a run uses: those from the first to the second look up, set and delete
/// entries of maps that are open.
const BPF_MAP_LOOKUP_ELEM: u64 = 1;
const BPF_MAP_DELETE_ELEM: u64 = 3;

/// System calls that a run has no use for: whoever wants them is not us.
const DENIED: [libc::c_long; 30] = [
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsmount,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_setns,
    libc::SYS_unshare,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_open_by_handle_at,
    libc::SYS_acct,
];

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
            let context = || format!("giving {} to user {}", directory.display(), user.name);
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

/// Becomes the user `name`, with the user's groups. Of the capabilities only that of locking memory
/// is left, until [`give_up`]: the ring is still to be made. Missing `directories` are made and
/// given to the user before; they go again unless they are kept.
///
/// # Errors
/// There is no such user, or this process may not become it.
pub fn become_user(name: &str, directories: &[PathBuf]) -> anyhow::Result<UsersDirectories> {
    let user = User::from_name(name).with_context(|| format!("looking for user {name}"))?;
    let Some(user) = user else { bail!("--user {name}: there is no such user") };
    let made = UsersDirectories::make(directories, &user)?;
    let groups = groups_of(name, user.gid)?;
    let context = || format!("becoming user {name} (needs root)");
    let (uid, gid) = (Uid::from_raw(user.uid.as_raw()), Gid::from_raw(user.gid.as_raw()));
    set_keep_capabilities(true).with_context(context)?;
    set_thread_groups(&groups).with_context(context)?;
    set_thread_res_gid(gid, gid, gid).with_context(context)?;
    set_thread_res_uid(uid, uid, uid).with_context(context)?;
    set_keep_capabilities(false).with_context(context)?;
    keep_only(CapabilitySet::IPC_LOCK)?;
    Ok(made)
}

fn groups_of(name: &str, gid: nix::unistd::Gid) -> anyhow::Result<Vec<Gid>> {
    let text = CString::new(name).context("the name of a user has no zero byte")?;
    let groups = getgrouplist(&text, gid).with_context(|| format!("the groups of user {name}"))?;
    Ok(groups.into_iter().map(|gid| Gid::from_raw(gid.as_raw())).collect())
}

/// Gives up all that the threads of a run do not need to write to `directories` and to end it.
/// True if files of other users lie there.
///
/// # Errors
/// The system refused.
pub fn give_up(directories: &[PathBuf]) -> anyhow::Result<bool> {
    let for_files = needed_for_files(directories)?;
    keep_only(needed_for_maps() | for_files)?;
    if let Err(error) = deny_system_calls() {
        tracing::debug!("system calls are not filtered: {error:#}");
    }
    Ok(!for_files.is_empty())
}

/// What a process must keep in order to write, rotate and delete in `directories`: root reaches
/// other users' files only by [`CapabilitySet::DAC_OVERRIDE`].
///
/// # Errors
/// The system refused.
fn needed_for_files(directories: &[PathBuf]) -> anyhow::Result<CapabilitySet> {
    let all = capabilities(None).context("reading the capabilities")?;
    // Without them for a moment, to see what then can be done.
    let none = CapabilitySets { effective: CapabilitySet::empty(), ..all };
    set_capabilities(None, none).context("giving up capabilities")?;
    let reached = directories.iter().all(|directory| is_reached(directory));
    set_capabilities(None, all).context("taking capabilities back")?;
    Ok(if reached { CapabilitySet::empty() } else { CapabilitySet::DAC_OVERRIDE })
}

/// True if the directory can be written and what is a recording in it can be read.
fn is_reached(directory: &Path) -> bool {
    let may = |path: &Path, access| accessat(CWD, path, access, AtFlags::EACCESS).is_ok();
    let all = Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK;
    let of_recordings = |path: &PathBuf| path.extension().is_some_and(|end| end == "pcapng");
    let entries = fs::read_dir(directory).into_iter().flatten().flatten().take(ENTRIES_MAX);
    let mut files = entries.map(|entry| entry.path()).filter(of_recordings);
    may(directory, all) && files.all(|path| may(&path, Access::READ_OK))
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

/// Gives up system calls that a run has no use for; refused ones fail with EPERM. After
/// [`keep_only`], of whose promise it makes use.
///
/// # Errors
/// The kernel or the processor has no such filters.
fn deny_system_calls() -> anyhow::Result<()> {
    let mut rules: BTreeMap<i64, Vec<SeccompRule>> =
        DENIED.into_iter().map(|number| (number, Vec::new())).collect();
    let command = |operation, value| {
        SeccompRule::new(vec![SeccompCondition::new(0, SeccompCmpArgLen::Dword, operation, value)?])
    };
    let others_than_maps = vec![
        command(SeccompCmpOp::Lt, BPF_MAP_LOOKUP_ELEM)?,
        command(SeccompCmpOp::Gt, BPF_MAP_DELETE_ELEM)?,
    ];
    rules.insert(libc::SYS_bpf, others_than_maps);
    let (denied, others) = (SeccompAction::Errno(libc::EPERM as u32), SeccompAction::Allow);
    let filter = SeccompFilter::new(rules, others, denied, std::env::consts::ARCH.try_into()?)?;
    let program: seccompiler::BpfProgram = filter.try_into()?;
    Ok(apply_filter(&program)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringside_testkit::need_root;

    /// On a thread of its own: what it gives up is gone.
    fn apart<T: Send>(work: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|scope| scope.spawn(work).join().unwrap())
    }

    fn status(field: &str) -> String {
        let text = fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = text.lines().find_map(|line| line.strip_prefix(field)).unwrap();
        line.trim_start_matches(':').trim().to_owned()
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
    fn denied_calls_fail_and_others_do_not() {
        if !need_root("denied_calls") {
            return;
        }
        let map = ringside_sys::bpf::PerCpuArray::create("test", 2).unwrap();
        let error = apart(|| {
            keep_only(CapabilitySet::empty()).unwrap();
            deny_system_calls().unwrap();
            assert_eq!(map.sums().unwrap(), [0, 0], "a map that is open can be read");
            assert!(ringside_sys::bpf::PerCpuArray::create("test", 2).is_err());
            std::process::Command::new("true").spawn().unwrap_err()
        });
        assert_eq!(error.raw_os_error(), Some(libc::EPERM));
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
        let needed = |path: &PathBuf| needed_for_files(std::slice::from_ref(path)).unwrap();
        apart(|| {
            assert_eq!(needed(&own), CapabilitySet::empty());
            assert_eq!(needed(&other), CapabilitySet::DAC_OVERRIDE);
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
    fn another_user_gets_the_directory_and_nothing_else() {
        if !need_root("another_user") {
            return;
        }
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .unwrap();
        let directory = folder.path().join("recording");
        let error = become_user("rsafp-nobody", &[]).err().unwrap().to_string();
        assert!(error.contains("--user rsafp-nobody"), "{error}");
        apart(|| {
            become_user("nobody", std::slice::from_ref(&directory)).unwrap().keep();
            assert_eq!(status("Uid"), "65534\t65534\t65534\t65534");
            assert_eq!(status("CapEff"), format!("{:016x}", CapabilitySet::IPC_LOCK.bits()));
            keep_only(CapabilitySet::empty()).unwrap();
            fs::write(directory.join("file"), b"").unwrap();
            assert!(fs::write(folder.path().join("file"), b"").is_err());
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
}
