//! The machine: kernel, privileges, BPF, memory, limits, and what dead processes left.

use super::check::{Check, Checks, State};
use super::{clock, dpdk, netmap, pf_ring};
use ringside_core::Shown;
use ringside_keeper::Request;
use ringside_sys::bpf;
use ringside_terminal::units;
use rustix::process::{Resource, getrlimit};
use rustix::system::uname;
use std::fs::read_to_string;
use std::path::Path;

/// The first kernels with what is needed, and with frames of several pieces in AF_XDP sockets.
const KERNEL_MIN: (u32, u32) = (5, 15);
const KERNEL_WANTED: (u32, u32) = (6, 6);
const JIT: &str = "/proc/sys/net/core/bpf_jit_enable";
const TRANSPARENT: &str = "/sys/kernel/mm/transparent_hugepage";
/// Memory that a capture ring and the memory of AF_XDP sockets take by default.
const LOCKED_BYTES_WANTED: u64 = 1 << 30;
/// Descriptors of a run of many lanes, in its keeper and its worker.
const DESCRIPTORS_WANTED: u64 = 4096;

/// All about it.
pub fn checks() -> Vec<Check> {
    let mut checks = Checks::of("machine");
    kernel(&mut checks, &uname().release().to_string_lossy());
    programs(&mut checks);
    if let Ok(text) = read_to_string(JIT) {
        jit(&mut checks, text.trim());
    }
    let meminfo = read_to_string("/proc/meminfo").unwrap_or_default();
    huge_pages(&mut checks, &meminfo);
    for (name, file, wanted) in [
        ("transparent huge pages", "enabled", "madvise"),
        ("huge pages of shared memory", "shmem_enabled", "advise"),
    ] {
        let path = Path::new(TRANSPARENT).join(file);
        if let Ok(text) = read_to_string(&path) {
            transparent(&mut checks, name, &path, &text, wanted);
        }
    }
    limits(&mut checks);
    clock::of_machine(&mut checks);
    dpdk::checks(&mut checks, Path::new("/"), &meminfo);
    pf_ring::checks(&mut checks);
    netmap::checks(&mut checks);
    leftovers(&mut checks);
    checks.into_vec()
}

fn kernel(checks: &mut Checks, release: &str) {
    let mut numbers = release.split(['.', '-']).map_while(|part| part.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    if version < KERNEL_MIN {
        let why = "5.15 is the first that Ringside was made for";
        checks.add("kernel", State::Problem, release, why);
    } else if version < KERNEL_WANTED {
        let why = "AF_XDP sockets take frames of several pieces (jumbo) from 6.6 on";
        checks.add("kernel", State::Warning, release, why);
    } else {
        checks.good("kernel", release);
    }
}

fn programs(checks: &mut Checks) {
    match bpf::try_xdp() {
        Ok(()) => checks.good("bpf", "programs for interfaces can be loaded"),
        Err(error) => {
            let why = "without programs no frame is taken inside the driver, and filters run in \
                       user space";
            checks.add("bpf", State::Problem, error.to_string(), why).fix("sudo ringside …");
            return;
        }
    }
    let trampolines = if bpf::may_use_trampolines() {
        "allowed"
    } else {
        "refused by this kernel; Ringside joins programs by tail calls and needs none"
    };
    checks.good("bpf trampolines", trampolines);
}

fn jit(checks: &mut Checks, value: &str) {
    if value != "0" {
        checks.good("bpf_jit_enable", value);
        return;
    }
    let why = "programs are interpreted, which costs several times as much a frame";
    let check = checks.add("bpf_jit_enable", State::Problem, "0", why);
    check.fix("sysctl -w net.core.bpf_jit_enable=1");
    check.fixed_by([Request::File { path: JIT.into(), value: "1".into() }]);
}

fn huge_pages(checks: &mut Checks, meminfo: &str) {
    let field = |name: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().trim_end_matches(" kB").parse::<u64>().ok()
    };
    let (Some(total), Some(free)) = (field("HugePages_Total:"), field("HugePages_Free:")) else {
        let why = "the ring lies in pages of 4 KiB, and each costs an entry of the TLB";
        checks.add("huge pages", State::Warning, "the kernel has none", why);
        return;
    };
    let kib = field("Hugepagesize:").unwrap_or(0);
    checks.good(
        "huge pages",
        format!(
            "{free} of {total} free, of {kib} KiB (capture --huge-pages reserves what it takes)"
        ),
    );
}

fn transparent(checks: &mut Checks, name: &'static str, path: &Path, text: &str, wanted: &str) {
    let text = text.trim();
    let is_off = ["[never]", "[deny]"].iter().any(|off| text.contains(off));
    if !is_off || !text.contains(wanted) {
        checks.good(name, text);
        return;
    }
    let why = "rings lie in pages of 4 KiB then, and each costs an entry of the TLB";
    let check = checks.add(name, State::Warning, text, why);
    check.fix(format!("echo {wanted} > {}", path.shown()));
    check.fixed_by([Request::File { path: path.to_owned(), value: wanted.to_owned() }]);
}

fn limits(checks: &mut Checks) {
    let is_root = rustix::process::geteuid().is_root();
    for (name, resource, wanted, option, why) in [
        (
            "locked memory",
            Resource::Memlock,
            LOCKED_BYTES_WANTED,
            "-l unlimited",
            "memory of AF_XDP sockets and registered buffers counts as locked",
        ),
        (
            "open files",
            Resource::Nofile,
            DESCRIPTORS_WANTED,
            "-n 65536",
            "each lane has some descriptors, and its keeper copies of them",
        ),
    ] {
        // What is allowed at most counts: a run raises its own limit so far, root beyond it.
        let most = getrlimit(resource).maximum;
        let found = most.map_or("unlimited".into(), units::grouped);
        if is_root || most.is_none_or(|most| most >= wanted) {
            checks.good(name, if is_root { format!("{found}; root may raise it") } else { found });
        } else {
            checks.add(name, State::Warning, found, why).fix(format!("ulimit {option}"));
        }
    }
}

fn leftovers(checks: &mut Checks) {
    for (process, names) in ringside_keeper::left_by_the_dead() {
        let found = format!("process {process} was killed and left turned: {}", names.join(", "));
        let why = "it was not put back; the next capture would";
        let check = checks.add("leftovers", State::Warning, found, why);
        check.fix("ringside repair --knobs");
        // Not by a knob: what is turned is put back.
        check.fixable = true;
    }
    match ringside_keeper::what_stays_turned() {
        Ok(names) if names.is_empty() => {}
        Ok(names) => {
            let found = format!("turned by --fix: {}", names.join(", "));
            checks.good("fixed", format!("{found} (`ringside doctor --undo` puts it back)"));
        }
        Err(error) => {
            let why = "what an earlier --fix turned cannot be put back by --undo";
            checks.add("fixed", State::Warning, format!("{error:#}"), why);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn only(check: impl FnOnce(&mut Checks)) -> Check {
        let mut checks = Checks::of("machine");
        check(&mut checks);
        let mut found = checks.into_vec();
        assert_eq!(found.len(), 1, "{found:?}");
        found.remove(0)
    }

    #[test]
    fn kernels() {
        for (release, state) in [
            ("5.10.0-30-amd64", State::Problem),
            ("5.15.0", State::Warning),
            ("6.1.0-49-amd64", State::Warning),
            ("6.6", State::Ok),
            ("6.18.44", State::Ok),
            ("7.0-rc1", State::Ok),
            ("strange", State::Problem),
        ] {
            assert_eq!(only(|checks| kernel(checks, release)).state, state, "{release}");
        }
    }

    #[test]
    fn an_interpreter_is_in_the_way() {
        let check = only(|checks| jit(checks, "0"));
        assert!(check.state == State::Problem && check.fixable);
        assert_eq!(only(|checks| jit(checks, "1")).state, State::Ok);
    }

    #[test]
    fn choices_of_huge_pages() {
        for (text, state) in [
            ("always [madvise] never\n", State::Ok),
            ("[always] madvise never", State::Ok),
            ("always madvise [never]", State::Warning),
            ("always [never]", State::Ok),
        ] {
            let path = Path::new("enabled");
            let check = only(|checks| transparent(checks, "x", path, text, "madvise"));
            assert_eq!(check.state, state, "{text}");
        }
    }

    #[test]
    fn huge_pages_are_read_from_meminfo() {
        let text = "HugePages_Total:      64\nHugePages_Free:       60\nHugepagesize:  2048 kB\n";
        let check = only(|checks| huge_pages(checks, text));
        assert!(check.found.starts_with("60 of 64 free, of 2048 KiB"), "{}", check.found);
        assert_eq!(only(|checks| huge_pages(checks, "")).state, State::Warning);
    }
}
