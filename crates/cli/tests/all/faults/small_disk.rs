//! Small disks that a test fills, slows down and breaks.

use super::support::capture_by;
use crate::common::*;
use ringside_testkit::{need_root, need_tool, skip};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A small disk in a mount namespace of its own: with the process that holds it, the mounts and
/// the loop devices are gone, however the test ends.
pub struct SmallDisk {
    holder: Running,
    mounted_at: tempfile::TempDir,
    root: PathBuf,
}

/// Makes an ext4 in the file `image` and mounts it, by a loop device, at `at`. mkfs leaves nothing
/// for later, so that only the test writes to the disk. (A file system that is too full for
/// its image would be of no use: loop devices tell a write that got there in part as done.)
fn ext4(image: &str, bytes: &str, mount: &str, at: &str) -> String {
    let at_once = "-J size=4 -m 0 -E lazy_itable_init=0,lazy_journal_init=0";
    format!(
        "truncate -s {bytes} {image} && mkfs.ext4 -q {at_once} {image} && \
         mkdir {at} && mount -o loop,{mount} {image} {at}"
    )
}

/// True if ext4 on loop devices can be made here; else skips `test`.
pub fn need_loop(test: &str) -> bool {
    if !need_root(test) || !need_tool(test, "mkfs.ext4") {
        return false;
    }
    let has_loop = Path::new("/dev/loop-control").exists();
    if !has_loop {
        skip(test, "the kernel has no loop devices");
    }
    has_loop
}

impl SmallDisk {
    /// A tmpfs with these mount options.
    pub fn mount(options: &str) -> SmallDisk {
        SmallDisk::hold("", options, &[])
    }

    /// An ext4 of `bytes` (as truncate(1) takes it) in memory, which takes direct writes.
    pub fn ext4(bytes: &str) -> SmallDisk {
        let disk = ext4("image", bytes, "errors=remount-ro", "disk");
        SmallDisk::hold("disk", "size=1g", &[disk])
    }

    /// An ext4 of 128 MiB on a device that works until [`break_under`](SmallDisk::break_under).
    pub fn breakable_ext4() -> SmallDisk {
        let under = ext4("image", "192M", "errors=remount-ro", "under");
        let disk = ext4("under/image", "128M", "errors=continue", "disk");
        SmallDisk::hold("disk", "size=1g", &[under, disk])
    }

    /// A tmpfs with these options, and on it what `steps` make; the disk to test is `below`.
    fn hold(below: &str, options: &str, steps: &[String]) -> SmallDisk {
        let mounted_at = tempfile::tempdir().unwrap();
        let mount = format!("mount -t tmpfs -o {options} none \"$0\" && cd \"$0\"");
        let steps = [&[mount], steps, &["cd / && echo mounted && exec sleep 120".into()]].concat();
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "slave", "sh", "-c", &steps.join(" && ")]);
        command.arg(mounted_at.path());
        let holder = Running::start(command);
        holder.wait_for_stdout("mounted\n");
        let root = mounted_at.path().join(below);
        SmallDisk { holder, mounted_at, root }
    }

    /// What to put before a program so that it sees the disk.
    pub fn enter(&self) -> Vec<String> {
        let holder = self.holder.pid().to_string();
        ["nsenter", "--mount", "--target", &holder, "--"].map(String::from).into()
    }

    /// A path of the disk as programs on it see it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// The same path from outside.
    pub fn outside(&self, path: &Path) -> PathBuf {
        let root = PathBuf::from(format!("/proc/{}/root", self.holder.pid()));
        root.join(path.strip_prefix("/").unwrap())
    }

    /// Starts a capture that sees the disk, and waits until it listens.
    pub fn capture(&self, network: &Network, args: &[&str]) -> Running {
        self.capture_by(&[], network, args)
    }

    /// The same, by way of another program.
    pub fn capture_by(&self, prefix: &[&str], network: &Network, args: &[&str]) -> Running {
        let enter = self.enter();
        let enter: Vec<&str> = enter.iter().map(String::as_str).collect();
        let running = Running::start(capture_by(&[&enter, prefix].concat(), network, args));
        running.wait_for_stderr("listening on");
        running
    }

    /// The device below the directory `name`, as `(loop0, 7:0)`.
    pub fn device(&self, name: &str) -> (String, String) {
        let mounts = format!("/proc/{}/mountinfo", self.holder.pid());
        let mounts = std::fs::read_to_string(mounts).unwrap();
        let at = self.mounted_at.path().join(name);
        let line = mounts.lines().find(|line| line.contains(&format!(" {} ", arg(&at)))).unwrap();
        let number = line.split(' ').nth(2).unwrap();
        let device = line.split("/dev/").nth(1).unwrap().split(' ').next().unwrap();
        (device.to_owned(), number.to_owned())
    }

    /// The file system finds an error of its own: it is read-only from now on.
    pub fn trip(&self) {
        self.trip_ext4("disk");
    }

    /// The device of the disk fails every write from now on (EIO).
    pub fn break_under(&self) {
        self.trip_ext4("under");
    }

    fn trip_ext4(&self, name: &str) {
        let (device, _) = self.device(name);
        std::fs::write(format!("/sys/fs/ext4/{device}/trigger_fs_error"), "1").unwrap();
    }
}
