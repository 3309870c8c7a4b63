//! Which files a process may open once its run has begun (Landlock, where the kernel has it).
//!
//! It may read what tells of the system, and read and write where the run writes. All else that its
//! user could open is out of its reach, whatever becomes of the process; so is TCP, but for threads
//! that send to servers, and there to their ports. What is open already stays open.

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, NetPort, PathBeneath, PathFd,
    Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetStatus, path_beneath_rules,
};
use std::os::fd::BorrowedFd;
use std::path::Path;

/// What tells of interfaces, processors, processes, time and network namespaces.
const READ: [&str; 6] =
    ["/proc", "/sys", "/dev", "/etc/localtime", "/usr/share/zoneinfo", "/run/netns"];
/// What names of hosts are looked up in, by the C library and what it loads for that.
const NAMES: [&str; 8] = [
    "/etc/hosts",
    "/etc/host.conf",
    "/etc/nsswitch.conf",
    "/etc/resolv.conf",
    "/etc/gai.conf",
    "/run/systemd/resolve",
    "/usr/lib",
    "/etc/ld.so.cache",
];
/// What the rules are written in; older kernels do as much of it as they know.
const KNOWN: ABI = ABI::V5;

/// Confines the calling thread, and those that it starts: files below the directories `held` and
/// `written` may be made, written and deleted, and what tells of the system read. Of a directory
/// that is not there yet it is what it lies in. To `ports` of other hosts, or to all (`None`), TCP
/// is open, and names of hosts may be looked up then. `None` where the kernel cannot.
///
/// # Errors
/// One of the directories cannot be opened, or the system refused.
pub fn confine<'p>(
    held: &[BorrowedFd<'_>],
    written: impl IntoIterator<Item = &'p Path>,
    ports: Option<&[u16]>,
) -> anyhow::Result<Option<()>> {
    let tcp = match ports {
        Some(_) => AccessNet::from_all(KNOWN),
        None => AccessNet::from_all(KNOWN) & !AccessNet::ConnectTcp,
    };
    let (all, read) = (AccessFs::from_all(KNOWN), AccessFs::from_read(KNOWN));
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(all)?
        .handle_access(tcp)?
        .create()?
        .add_rules(path_beneath_rules(READ, read & !AccessFs::Execute))?;
    let write = all & !AccessFs::Execute;
    for directory in held {
        rules = rules.add_rule(PathBeneath::new(directory, write))?;
    }
    for path in written {
        let there = path.ancestors().find(|path| path.exists()).unwrap_or(Path::new("."));
        rules = rules.add_rule(PathBeneath::new(PathFd::new(there)?, write))?;
    }
    if ports.is_none_or(|ports| !ports.is_empty()) {
        rules = rules.add_rules(path_beneath_rules(NAMES, read & !AccessFs::Execute))?;
    }
    for &port in ports.unwrap_or_default() {
        rules = rules.add_rule(NetPort::new(port, AccessNet::ConnectTcp))?;
    }
    let status = rules.restrict_self()?;
    Ok((status.ruleset != RulesetStatus::NotEnforced).then_some(()))
}

#[cfg(test)]
mod tests {
    use super::super::tests::apart;
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn only_what_was_named_can_be_opened() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        ["rec", "held"].into_iter().for_each(|name| std::fs::create_dir(at(name)).unwrap());
        let held = std::fs::File::open(at("held")).unwrap();
        std::fs::write(at("secret"), b"x").unwrap();
        let kept = std::fs::File::open(at("secret")).unwrap();
        apart(|| {
            if confine(&[held.as_fd()], [&*at("rec")], Some(&[])).unwrap().is_none() {
                ringside_testkit::skip("only_what_was_named", "this kernel has no Landlock");
                return;
            }
            std::fs::write(at("rec/file"), b"x").unwrap();
            std::fs::write(at("held/file"), b"x").unwrap();
            std::fs::rename(at("rec/file"), at("rec/other")).unwrap();
            std::fs::remove_file(at("rec/other")).unwrap();
            std::fs::read_to_string("/proc/self/status").unwrap();
            for path in [at("secret"), "/etc/passwd".into(), "/usr/bin/env".into()] {
                let error = std::fs::File::open(path).unwrap_err();
                assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied);
            }
            assert!(std::fs::write(at("new"), b"").is_err());
            assert!(std::fs::hard_link(at("secret"), at("rec/mine")).is_err());
            assert!(std::net::TcpListener::bind("127.0.0.1:0").is_err());
            assert_eq!(kept.metadata().unwrap().len(), 1);
        });
    }
}
