//! The system calls that a process may make once its run has begun: those that a run makes.
//!
//! Everything else fails with EPERM, so that a process that was taken over finds no program to
//! start, no process to trace, no namespace, mount, module or key, and no program to load. Calls
//! that the kernel learns later are refused as well. clone3, whose flags a filter cannot see, fails
//! with ENOSYS, so that the C library makes threads by clone, which may make threads alone.

use libc::c_long;
use seccompiler::{
    SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    apply_filter,
};
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

/// bpf(2) commands that a run uses: those from the first to the second look up, set and delete
/// entries of maps that are open.
const BPF_MAP_LOOKUP_ELEM: u64 = 1;
const BPF_MAP_DELETE_ELEM: u64 = 3;
const BPF_MAP_GET_NEXT_KEY: u64 = 4;
const BPF_PROG_TEST_RUN: u64 = 10;
/// It takes programs off whose links it holds: its keeper may hold them too.
const BPF_LINK_DETACH: u64 = 34;
/// The keeper of a dead worker also asks what is behind a descriptor.
const BPF_OBJ_GET_INFO_BY_FD: u64 = 15;

/// Whose calls they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// The process of a run.
    Worker {
        /// It has the kernel run programs that are loaded, and walks through their maps.
        runs_programs: bool,
    },
    /// The process that waits for it and finishes what it leaves; it also enters network namespaces
    /// to put settings back, if any were turned.
    Keeper {
        /// Settings were turned.
        puts_back: bool,
    },
    /// The child that compiles a filter.
    Compiler,
    /// A thread that sends to servers.
    Sender,
}

/// Files that are open or may be opened, and their names.
#[rustfmt::skip]
const FILES: &[c_long] = &[
    libc::SYS_read, libc::SYS_pread64, libc::SYS_readv, libc::SYS_preadv, libc::SYS_preadv2,
    libc::SYS_write, libc::SYS_pwrite64, libc::SYS_writev, libc::SYS_pwritev, libc::SYS_pwritev2,
    libc::SYS_lseek, libc::SYS_close, libc::SYS_close_range, libc::SYS_openat, libc::SYS_dup,
    libc::SYS_dup3, libc::SYS_fcntl, libc::SYS_flock, libc::SYS_fstat, libc::SYS_newfstatat,
    libc::SYS_statx, libc::SYS_statfs, libc::SYS_fstatfs, libc::SYS_ftruncate,
    libc::SYS_fallocate, libc::SYS_fsync, libc::SYS_fdatasync, libc::SYS_sync_file_range,
    libc::SYS_syncfs, libc::SYS_fadvise64, libc::SYS_fchmod, libc::SYS_flistxattr,
    libc::SYS_unlinkat, libc::SYS_renameat2, libc::SYS_linkat, libc::SYS_mkdirat,
    libc::SYS_getdents64, libc::SYS_readlinkat, libc::SYS_faccessat, libc::SYS_faccessat2,
    libc::SYS_getcwd, libc::SYS_umask, libc::SYS_ioctl, libc::SYS_pipe2, libc::SYS_splice,
    libc::SYS_sendfile, libc::SYS_copy_file_range, libc::SYS_memfd_create, libc::SYS_utimensat,
];

/// Memory.
#[rustfmt::skip]
const MEMORY: &[c_long] = &[
    libc::SYS_brk, libc::SYS_mmap, libc::SYS_munmap, libc::SYS_mremap, libc::SYS_mprotect,
    libc::SYS_madvise, libc::SYS_mlock, libc::SYS_munlock, libc::SYS_msync, libc::SYS_mbind,
    libc::SYS_set_mempolicy, libc::SYS_get_mempolicy, libc::SYS_membarrier,
];

/// Threads, time, signals to itself, and what a process asks about itself.
#[rustfmt::skip]
const THREADS: &[c_long] = &[
    libc::SYS_futex, libc::SYS_set_robust_list, libc::SYS_rseq, libc::SYS_set_tid_address,
    libc::SYS_exit, libc::SYS_exit_group, libc::SYS_sched_yield, libc::SYS_sched_getaffinity,
    libc::SYS_sched_setaffinity, libc::SYS_sched_getattr, libc::SYS_sched_setattr,
    libc::SYS_sched_getscheduler, libc::SYS_sched_setscheduler, libc::SYS_sched_getparam,
    libc::SYS_sched_get_priority_min, libc::SYS_sched_get_priority_max, libc::SYS_getcpu,
    libc::SYS_nanosleep, libc::SYS_clock_nanosleep, libc::SYS_clock_gettime,
    libc::SYS_clock_getres, libc::SYS_gettimeofday, libc::SYS_restart_syscall,
    libc::SYS_rt_sigaction, libc::SYS_rt_sigprocmask, libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigpending, libc::SYS_rt_sigtimedwait, libc::SYS_sigaltstack, libc::SYS_tgkill,
    libc::SYS_getpid, libc::SYS_getppid, libc::SYS_gettid, libc::SYS_getpgid, libc::SYS_getsid,
    libc::SYS_getuid, libc::SYS_geteuid, libc::SYS_getgid, libc::SYS_getegid,
    libc::SYS_getresuid, libc::SYS_getresgid, libc::SYS_getgroups, libc::SYS_capget,
    libc::SYS_prctl, libc::SYS_getrandom, libc::SYS_getrusage, libc::SYS_times,
    libc::SYS_sysinfo, libc::SYS_uname, libc::SYS_prlimit64,
];

/// Waiting, sockets and queues.
#[rustfmt::skip]
const SOCKETS: &[c_long] = &[
    libc::SYS_ppoll, libc::SYS_pselect6, libc::SYS_epoll_create1, libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait, libc::SYS_eventfd2, libc::SYS_timerfd_create,
    libc::SYS_timerfd_settime, libc::SYS_timerfd_gettime, libc::SYS_signalfd4,
    libc::SYS_socket, libc::SYS_socketpair, libc::SYS_bind, libc::SYS_listen, libc::SYS_connect,
    libc::SYS_accept4, libc::SYS_accept, libc::SYS_shutdown, libc::SYS_getsockname,
    libc::SYS_getpeername, libc::SYS_getsockopt, libc::SYS_setsockopt, libc::SYS_sendto,
    libc::SYS_sendmsg, libc::SYS_sendmmsg, libc::SYS_recvfrom, libc::SYS_recvmsg,
    libc::SYS_recvmmsg, libc::SYS_io_uring_enter, libc::SYS_io_uring_register,
];

/// Older forms of the above, which this processor's C library still uses.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
const OLDER: &[c_long] = &[
    libc::SYS_open, libc::SYS_stat, libc::SYS_lstat, libc::SYS_access, libc::SYS_readlink,
    libc::SYS_unlink, libc::SYS_rename, libc::SYS_renameat, libc::SYS_link, libc::SYS_mkdir,
    libc::SYS_rmdir, libc::SYS_dup2, libc::SYS_pipe, libc::SYS_poll, libc::SYS_select,
    libc::SYS_epoll_wait, libc::SYS_epoll_create, libc::SYS_eventfd, libc::SYS_time,
    libc::SYS_arch_prctl, libc::SYS_getpgrp, libc::SYS_getrlimit, libc::SYS_chmod,
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[c_long] = &[];

/// What the keeper does as well: it waits for its child and ends it.
#[rustfmt::skip]
const KEEPER: &[c_long] = &[
    libc::SYS_wait4, libc::SYS_waitid, libc::SYS_kill, libc::SYS_pidfd_open,
    libc::SYS_pidfd_send_signal, libc::SYS_fchmodat,
];

/// Gives up all calls but those of `role`, for good. The process must have given up the right to
/// gain privileges before.
///
/// # Errors
/// The kernel or the processor has no such filters.
pub fn allow_only(role: Role) -> anyhow::Result<()> {
    let arch = std::env::consts::ARCH.try_into()?;
    let apply = |rules, others, action| -> anyhow::Result<()> {
        let filter = SeccompFilter::new(rules, others, action, arch)?;
        let program: seccompiler::BpfProgram = filter.try_into()?;
        Ok(apply_filter(&program)?)
    };
    let refuse = |error: i32| SeccompAction::Errno(error as u32);
    // Of two filters the one that refuses decides.
    let clone3 = BTreeMap::from([(libc::SYS_clone3, Vec::new())]);
    apply(clone3, SeccompAction::Allow, refuse(libc::ENOSYS))?;
    apply(rules(role)?, refuse(libc::EPERM), SeccompAction::Allow)
}

/// The calls of `role`, with conditions where not all of a call is meant.
fn rules(role: Role) -> anyhow::Result<BTreeMap<c_long, Vec<SeccompRule>>> {
    let mut rules: BTreeMap<c_long, Vec<SeccompRule>> = [FILES, MEMORY, THREADS, SOCKETS, OLDER]
        .into_iter()
        .flatten()
        .map(|&number| (number, Vec::new()))
        .collect();
    // What the other filter refuses in its own way.
    rules.insert(libc::SYS_clone3, Vec::new());
    let thread = u64::from(libc::CLONE_THREAD as u32);
    let is_thread =
        SeccompCondition::new(0, SeccompCmpArgLen::Qword, SeccompCmpOp::MaskedEq(thread), thread)?;
    rules.insert(libc::SYS_clone, vec![SeccompRule::new(vec![is_thread])?]);
    if !matches!(role, Role::Compiler | Role::Sender) {
        let mut open = vec![
            bpf(BPF_MAP_LOOKUP_ELEM..=BPF_MAP_DELETE_ELEM)?,
            bpf(BPF_LINK_DETACH..=BPF_LINK_DETACH)?,
        ];
        if matches!(role, Role::Keeper { .. }) {
            open.push(bpf(BPF_OBJ_GET_INFO_BY_FD..=BPF_OBJ_GET_INFO_BY_FD)?);
        }
        if role == (Role::Worker { runs_programs: true }) {
            open.push(bpf(BPF_MAP_GET_NEXT_KEY..=BPF_MAP_GET_NEXT_KEY)?);
            open.push(bpf(BPF_PROG_TEST_RUN..=BPF_PROG_TEST_RUN)?);
        }
        rules.insert(libc::SYS_bpf, open);
        rules.insert(libc::SYS_socket, local_sockets()?);
    }
    if let Role::Keeper { puts_back } = role {
        rules.extend(KEEPER.iter().map(|&number| (number, Vec::new())));
        if puts_back {
            rules.insert(libc::SYS_setns, Vec::new());
        }
    }
    Ok(rules)
}

/// Sockets that lead nowhere outside: between processes of this machine, and to the kernel.
fn local_sockets() -> anyhow::Result<Vec<SeccompRule>> {
    let family = |family: i32| {
        let is = SeccompCmpOp::Eq;
        let family = SeccompCondition::new(0, SeccompCmpArgLen::Dword, is, family as u64)?;
        anyhow::Ok(SeccompRule::new(vec![family])?)
    };
    [libc::AF_UNIX, libc::AF_NETLINK].into_iter().map(family).collect()
}

/// Commands of bpf(2).
fn bpf(commands: RangeInclusive<u64>) -> anyhow::Result<SeccompRule> {
    let command =
        |operation, value| SeccompCondition::new(0, SeccompCmpArgLen::Dword, operation, value);
    Ok(SeccompRule::new(vec![
        command(SeccompCmpOp::Ge, *commands.start())?,
        command(SeccompCmpOp::Le, *commands.end())?,
    ])?)
}

#[cfg(test)]
mod tests {
    use super::super::keep_only;
    use super::super::tests::apart;
    use super::*;
    use ringside_core::bpf::EbpfInstruction;
    use ringside_sys::bpf::{PerCpuArray, Program, ProgramType};
    use ringside_testkit::need_root;
    use rustix::thread::CapabilitySet;

    fn bounded(role: Role, work: impl FnOnce() + Send) {
        apart(|| {
            keep_only(CapabilitySet::empty()).unwrap();
            allow_only(role).unwrap();
            work();
        });
    }

    #[test]
    fn a_worker_may_do_what_a_run_does_and_nothing_else() {
        if !need_root("a_worker_may_do_what_a_run_does") {
            return;
        }
        let map = PerCpuArray::create("test", 2).unwrap();
        bounded(Role::Worker { runs_programs: false }, || {
            assert_eq!(map.sums().unwrap(), [0, 0], "a map that is open can be read");
            assert!(PerCpuArray::create("test", 2).is_err());
            let error = std::process::Command::new("true").spawn().unwrap_err();
            assert_eq!(error.raw_os_error(), Some(libc::EPERM));
            std::thread::spawn(|| ()).join().unwrap();
            std::net::UdpSocket::bind("127.0.0.1:0").unwrap_err();
            std::os::unix::net::UnixDatagram::unbound().unwrap();
        });
    }

    #[test]
    fn only_who_asks_has_programs_run() {
        if !need_root("only_who_asks_has_programs_run") {
            return;
        }
        let i = |code, imm| EbpfInstruction { code, dst: 0, src: 0, offset: 0, imm };
        let pass = [i(0xb7, 2), i(0x95, 0)];
        let program = Program::load(ProgramType::Xdp, "test", &pass).unwrap();
        bounded(Role::Worker { runs_programs: true }, || {
            assert_eq!(program.test_run(&[0; 64], 1).unwrap().return_value, 2);
            Program::load(ProgramType::Xdp, "test", &pass).unwrap_err();
        });
        bounded(Role::Worker { runs_programs: false }, || {
            program.test_run(&[0; 64], 1).unwrap_err();
        });
    }

    #[test]
    fn calls_that_open_a_way_out_are_refused_to_everybody() {
        let numbers = [
            libc::SYS_unshare,
            libc::SYS_clone3,
            libc::SYS_fsconfig,
            libc::SYS_pidfd_getfd,
            libc::SYS_io_uring_setup,
            libc::SYS_ptrace,
            libc::SYS_keyctl,
            libc::SYS_perf_event_open,
            libc::SYS_execve,
            libc::SYS_open_by_handle_at,
        ];
        let worker = Role::Worker { runs_programs: true };
        for role in [worker, Role::Keeper { puts_back: true }, Role::Compiler] {
            let rules = rules(role).unwrap();
            let allowed = numbers.iter().filter(|number| rules.contains_key(number));
            // That one the other filter refuses.
            assert_eq!(allowed.collect::<Vec<_>>(), [&libc::SYS_clone3], "{role:?}");
            assert_eq!(
                rules.contains_key(&libc::SYS_setns),
                role == Role::Keeper { puts_back: true }
            );
        }
    }
}
