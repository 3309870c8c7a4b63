//! Where recordings go: directories that are made for a measurement and removed after it, never
//! full, on memory that the host has given.

use super::load;
use anyhow::{Context, bail, ensure};
use ringside_sys::disk::is_in_memory;
use ringside_sys::memory;
use ringside_terminal::signals::StopSignal;
use ringside_terminal::units::scaled;
use rustix::fs::statvfs;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use std::ffi::CStr;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How a tmpfs of huge pages is mounted (Documentation/admin-guide/mm/transhuge.rst).
const HUGE_OPTIONS: &CStr = c"huge=within_size";
/// Where tmpfs is.
const MEMORY: &str = "/dev/shm";
/// Tried in this order for a disk.
const DISKS: [&str; 2] = [".", "/var/tmp"];
/// Memory that a recording on tmpfs leaves free, for rings and other programs.
const MEMORY_LEFT_BYTES: u64 = 2 << 30;
/// Share of what is free that a recording may take.
const SHARE_OF_FREE: f64 = 0.8;
/// What a record is longer than its frame, at most: packet block, options, padding.
const RECORD_OVERHEAD_BYTES: f64 = 128.0;
/// Bytes a second that no recording passes: a core copies each byte three times, at 22 GB/s.
const RECORDING_BYTES_PER_SEC_MAX: f64 = 5e9;
/// Memory is touched in pieces, so that a signal is seen.
const PREFAULT_PIECE_BYTES: usize = 1 << 20;

/// A directory that is removed when this is dropped.
#[derive(Debug)]
pub(super) struct Workspace {
    path: PathBuf,
    is_memory: bool,
    /// A file system of its own is mounted there.
    is_mounted: bool,
}

impl Workspace {
    /// On tmpfs.
    ///
    /// # Errors
    /// /dev/shm is no tmpfs, or cannot be written.
    pub(super) fn in_memory() -> anyhow::Result<Workspace> {
        ensure!(is_tmpfs(Path::new(MEMORY))?, "{MEMORY} is no tmpfs; mount one there");
        Workspace::within(Path::new(MEMORY))
    }

    /// On a tmpfs of its own whose files lie in huge pages, as far as the system has some.
    ///
    /// # Errors
    /// As [`in_memory`](Workspace::in_memory), or the kernel knows no huge pages there.
    pub(super) fn in_huge_pages() -> anyhow::Result<Workspace> {
        let mut workspace = Workspace::in_memory()?;
        mount("tmpfs", &workspace.path, "tmpfs", MountFlags::empty(), Some(HUGE_OPTIONS)).context(
            "mounting a tmpfs of huge pages; leave --huge-tmpfs out where there are none",
        )?;
        workspace.is_mounted = true;
        Ok(workspace)
    }

    /// In `parent`, whatever it is on.
    ///
    /// # Errors
    /// It does not exist or cannot be written.
    pub(super) fn within(parent: &Path) -> anyhow::Result<Workspace> {
        let is_memory = is_tmpfs(parent)?;
        let path = parent.join(format!("ringside-bench-{}", std::process::id()));
        std::fs::create_dir(&path).with_context(|| format!("making {}", path.display()))?;
        // Tools that drop their privileges reach their files from an absolute path.
        let path = path.canonicalize().with_context(|| format!("finding {}", path.display()))?;
        Ok(Workspace { path, is_memory, is_mounted: false })
    }

    /// In `parent`, which is made if it is missing; by default in the first of the current
    /// directory and /var/tmp that is a disk.
    ///
    /// # Errors
    /// `parent` is a tmpfs or cannot be written, or no disk was found.
    pub(super) fn on_disk(parent: Option<&Path>) -> anyhow::Result<Workspace> {
        if let Some(parent) = parent {
            std::fs::create_dir_all(parent)
                .with_context(|| format!("making {}", parent.display()))?;
            ensure!(!is_tmpfs(parent)?, "{} is a tmpfs, name a disk", parent.display());
            return Workspace::within(parent);
        }
        let disk = DISKS.iter().map(Path::new).find(|path| matches!(is_tmpfs(path), Ok(false)));
        let Some(disk) = disk else {
            bail!("neither the current directory nor /var/tmp is on a disk; name one by --disk");
        };
        Workspace::within(disk)
    }

    /// True on tmpfs.
    pub(super) fn is_memory(&self) -> bool {
        self.is_memory
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// An empty directory for one recording.
    ///
    /// # Errors
    /// It cannot be made.
    pub(super) fn fresh(&self) -> anyhow::Result<PathBuf> {
        let run = self.path.join("run");
        if run.exists() {
            std::fs::remove_dir_all(&run)?;
        }
        std::fs::create_dir(&run).with_context(|| format!("making {}", run.display()))?;
        Ok(run)
    }

    /// Frames of `mean_bytes` that a recording may hold now without filling the disk or the memory.
    ///
    /// # Errors
    /// The file system does not say how much is free.
    pub(super) fn frames_max(&self, mean_bytes: f64) -> anyhow::Result<u64> {
        let record_bytes = mean_bytes + RECORD_OVERHEAD_BYTES;
        Ok((self.free_bytes()? as f64 * SHARE_OF_FREE / record_bytes) as u64)
    }

    fn free_bytes(&self) -> anyhow::Result<u64> {
        let stat = statvfs(&self.path)?;
        let on_file_system = stat.f_bavail.saturating_mul(stat.f_frsize);
        if !self.is_memory {
            return Ok(on_file_system);
        }
        let available = memory::available_bytes().context("/proc/meminfo has no MemAvailable")?;
        Ok(on_file_system.min(available.saturating_sub(MEMORY_LEFT_BYTES)))
    }

    /// Refuses a load of `duration` with frames of `mean_bytes`, at most `frames_per_sec` a second,
    /// if there is no room for it.
    ///
    /// # Errors
    /// There is none, and how much would be needed.
    pub(super) fn check_room(
        &self,
        frames_per_sec: f64,
        mean_bytes: f64,
        duration: Duration,
    ) -> anyhow::Result<()> {
        let needed = recording_bytes(frames_per_sec, mean_bytes, duration);
        let usable = self.free_bytes()? as f64 * SHARE_OF_FREE;
        ensure!(
            needed <= usable,
            "a load may write {}B to {} and {}B are free for it; use a shorter --for or another \
             --disk",
            scaled(needed),
            self.path.display(),
            scaled(usable)
        );
        Ok(())
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        // No error can be returned here; the name says whose it was.
        if self.is_mounted {
            let _ = unmount(&self.path, UnmountFlags::DETACH);
        }
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// What a load of `frames_per_sec` may write at most.
pub(super) fn recording_bytes(frames_per_sec: f64, mean_bytes: f64, duration: Duration) -> f64 {
    let bytes_per_sec = frames_per_sec * (mean_bytes + RECORD_OVERHEAD_BYTES);
    duration.as_secs_f64() * bytes_per_sec.min(RECORDING_BYTES_PER_SEC_MAX)
}

/// Touches `bytes` of memory, or as much as is free, and gives it back: a virtual machine gets
/// memory from its host at the first touch, ten to fifty times slower than later ones, and loses it
/// again seconds after it was freed (free page reporting).
///
/// # Errors
/// The memory cannot be had, or a signal came.
pub(super) fn prefault(memory: &Workspace, bytes: f64, stop: &StopSignal) -> anyhow::Result<()> {
    let bytes = bytes.min(memory.free_bytes()? as f64 * SHARE_OF_FREE) as u64;
    let path = memory.path.join("prefault");
    let mut file = File::create(&path)?;
    // Space that is only allocated is not touched.
    let piece = vec![0; PREFAULT_PIECE_BYTES];
    let touched = (0..bytes / PREFAULT_PIECE_BYTES as u64).try_for_each(|_| {
        load::check(stop)?;
        file.write_all(&piece).context("touching memory")
    });
    std::fs::remove_file(&path)?;
    touched
}

/// Brings what is in `dir` to the disk and adds up the files' sizes.
///
/// # Errors
/// A file cannot be opened, or the disk failed.
pub(super) fn sync_files(dir: &Path) -> anyhow::Result<(u64, Duration)> {
    let start = Instant::now();
    let mut bytes = 0;
    for path in files(dir)? {
        let file = File::open(&path)?;
        file.sync_all().with_context(|| format!("syncing {}", path.display()))?;
        bytes += file.metadata()?.len();
    }
    Ok((bytes, start.elapsed()))
}

/// All files below `dir`.
fn files(dir: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            files.extend(self::files(&entry.path())?);
        } else {
            files.push(entry.path());
        }
    }
    Ok(files)
}

fn is_tmpfs(path: &Path) -> anyhow::Result<bool> {
    let opened = File::open(path).with_context(|| format!("looking at {}", path.display()))?;
    Ok(is_in_memory(opened))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workspace_goes_with_what_is_in_it_and_nothing_else() {
        let parent = tempfile::tempdir().unwrap();
        std::fs::write(parent.path().join("mine"), "x").unwrap();
        let workspace = Workspace::within(parent.path()).unwrap();
        let run = workspace.fresh().unwrap();
        std::fs::create_dir(run.join("deep")).unwrap();
        std::fs::write(run.join("deep/file"), [0; 1000]).unwrap();
        std::fs::write(run.join("other"), [0; 24]).unwrap();
        assert_eq!(sync_files(&run).unwrap().0, 1024);
        assert_eq!(std::fs::read_dir(workspace.fresh().unwrap()).unwrap().count(), 0);
        drop(workspace);
        let left: Vec<_> = std::fs::read_dir(parent.path()).unwrap().flatten().collect();
        assert_eq!(left.len(), 1);
    }

    #[test]
    fn no_room_is_refused_and_loads_are_bounded_by_it() {
        let parent = tempfile::tempdir().unwrap();
        let workspace = Workspace::within(parent.path()).unwrap();
        workspace.check_room(2e6, 64.0, Duration::from_millis(1)).unwrap();
        let century = Duration::from_secs(3_000_000_000);
        let error = workspace.check_room(2e6, 1514.0, century).unwrap_err().to_string();
        assert!(error.contains("--disk"), "{error}");
        let free = workspace.free_bytes().unwrap();
        assert!(workspace.frames_max(1514.0).unwrap() <= free / 1514);
    }

    #[test]
    fn a_disk_is_no_tmpfs() {
        if matches!(is_tmpfs(Path::new(MEMORY)), Ok(true)) {
            let error = Workspace::on_disk(Some(Path::new(MEMORY))).unwrap_err().to_string();
            assert!(error.contains("tmpfs"), "{error}");
        }
    }
}
