//! Where a run writes, how, and how much it keeps.

use super::habits::SwitchArgs;
use crate::open;
use anyhow::{Context, bail, ensure};
use clap::Args;
use ringside_capture::config::{DiskOptions, FileFormat, Output, Rotation};
use ringside_capture::output::{check_pattern, is_pattern};
use ringside_core::Shown;
use ringside_store::retention::{Policy, file_interval};
use ringside_store::{Format, Packing};
use ringside_sys::clock;
use ringside_terminal::units;
use std::fs::OpenOptions;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The options that have to do with writing.
#[derive(Args)]
pub struct WriteArgs {
    /// Record: to a directory (a series of files per lane; a name without an ending, or with `/`
    /// behind it), to FILE.pcapng or FILE.pcap (lanes merged by time; compressed with .gz or .zst
    /// behind), or to standard output with `-`. With -G a file's name may be a pattern of local
    /// time, as in strftime(3): cap-%Y%m%d-%H%M%S.pcapng. A file that another run writes is
    /// refused. Several directories, on several disks, hold one recording together.
    #[arg(short = 'w', long = "write", value_name = "DIR|FILE|-")]
    pub paths: Vec<PathBuf>,

    /// Begin a new file at this size: millions of bytes, or with a unit, as 512MiB.
    #[arg(short = 'C', long = "file-size", value_name = "SIZE", value_parser = units::file_bytes)]
    #[arg(requires = "paths")]
    file_bytes: Option<u64>,

    /// Begin a new file after this time: seconds, or with a unit, as 10m.
    #[arg(short = 'G', long = "file-time", value_name = "DURATION")]
    #[arg(value_parser = units::period, requires = "paths")]
    file_time: Option<Duration>,

    #[command(flatten)]
    switch: SwitchArgs,

    /// Format of `-w -` and of files without a telling ending.
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: Option<FormatArg>,

    /// Directories: delete the oldest files so that all together never take more.
    #[arg(long, value_name = "SIZE", value_parser = units::bytes, requires = "paths")]
    limit_bytes: Option<u64>,

    /// Directories: delete files when their first frame is this old.
    #[arg(long, value_name = "DURATION", value_parser = units::duration, requires = "paths")]
    limit_age: Option<Duration>,

    /// Directories: delete the oldest files so that this much stays free on the file system.
    #[arg(long, value_name = "SIZE", value_parser = units::bytes, requires = "paths")]
    min_free: Option<u64>,

    /// Directories: blocks of the ring (1 MiB) in one write; by default tried on the disk.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64))]
    #[arg(requires = "paths")]
    write_blocks: Option<u8>,
}

/// File format by name.
#[derive(Clone, Copy, clap::ValueEnum)]
pub enum FormatArg {
    /// pcapng.
    Pcapng,
    /// pcap with nanosecond stamps.
    Pcap,
}

impl From<FormatArg> for FileFormat {
    fn from(format: FormatArg) -> FileFormat {
        match format {
            FormatArg::Pcapng => FileFormat::Pcapng,
            FormatArg::Pcap => FileFormat::Pcap,
        }
    }
}

impl WriteArgs {
    /// True if all that is named is directories, or is to be made as such.
    pub fn is_directory(&self) -> bool {
        self.format.is_none()
            && !self.is_stdout()
            && !self.paths.iter().any(|path| names_a_file(path))
    }

    /// True for `-w -`.
    pub fn is_stdout(&self) -> bool {
        self.paths.iter().any(|path| path == Path::new("-"))
    }

    /// Size at which a new file begins.
    fn file_bytes(&self) -> Option<u64> {
        self.file_bytes.or_else(|| self.switch.bytes())
    }

    /// Time after which a new file begins.
    pub fn file_time(&self) -> Option<Duration> {
        let asked = self.file_time.or_else(|| self.switch.interval());
        asked.or_else(|| self.limit_age.map(file_interval))
    }

    /// What `-w` means: `-`, a file by its ending, else a directory.
    pub fn output(&self) -> anyhow::Result<Output> {
        let Some(first) = self.paths.first() else { return Ok(Output::Count) };
        if self.paths.len() > 1 {
            return self.directories();
        }
        let path = first.clone();
        let by_option = self.format.map(FileFormat::from);
        let is_stream = path == Path::new("-");
        if is_stream || (path.exists() && !path.is_file() && !path.is_dir()) {
            ensure!(!self.is_cut(), "-C and -G need files; {} is none", stream_name(&path));
            self.no_limits(&path)?;
            let fd = if is_stream {
                open::stdout_stream()?
            } else {
                let file = OpenOptions::new().write(true).open(&path);
                file.with_context(|| format!("cannot open {}", path.shown()))?.into()
            };
            let by_ending = by_ending(&path).filter(|_| !is_stream);
            let format = by_option.or(by_ending).unwrap_or(FileFormat::Pcapng);
            return Ok(Output::Stream { fd, format });
        }
        let by_ending = by_ending(&path);
        let is_directory = path.is_dir() || has_slash(&path);
        if is_directory || (by_option.is_none() && by_ending.is_none()) {
            return self.directories();
        }
        self.no_limits(&path)?;
        if is_pattern(&path) {
            let now = clock::realtime_now().seconds();
            check_pattern(&path, self.file_time(), now).map_err(anyhow::Error::msg)?;
        }
        let format = by_option.or(by_ending).unwrap_or(FileFormat::Pcapng);
        let rotation = Rotation { bytes: self.file_bytes(), interval: self.file_time() };
        Ok(Output::File { path, format, rotation })
    }

    fn directories(&self) -> anyhow::Result<Output> {
        for path in &self.paths {
            let shown = path.shown();
            if path.is_file() {
                bail!(
                    "{shown} is a file; name a directory, or a file that ends in .pcapng or .pcap"
                );
            }
            if is_unclear(path) {
                let bare = path.with_extension("");
                bail!(
                    "-w {shown}: its ending names no format: write {}.pcapng or .pcap for one \
                     file (also .gz or .zst behind it), {shown}/ for a directory of files, or add \
                     --format for one file of this name",
                    bare.shown()
                );
            }
            if self.paths.len() > 1 && (path == Path::new("-") || names_a_file(path)) {
                bail!(
                    "several -w are directories that hold one recording together; {} is none: \
                     name directories only, or one file or stream",
                    stream_name(path)
                );
            }
        }
        if self.format.is_some() {
            bail!("--format is for files and streams; a directory holds pcapng");
        }
        Ok(Output::Directory {
            paths: self.paths.clone(),
            rotation: Rotation { bytes: self.file_bytes(), interval: self.file_time() },
            options: DiskOptions {
                write_blocks: self.write_blocks.map(usize::from),
                ..DiskOptions::default()
            },
            retention: self.retention(),
        })
    }

    fn retention(&self) -> Policy {
        Policy { limit_bytes: self.limit_bytes, limit_age: self.limit_age, min_free: self.min_free }
    }

    /// True if files end and others begin by themselves.
    pub fn rotates(&self) -> bool {
        self.is_cut() || !self.retention().is_unlimited()
    }

    fn is_cut(&self) -> bool {
        let asked = self.file_time.or_else(|| self.switch.interval());
        self.file_bytes().is_some() || asked.is_some()
    }

    fn no_limits(&self, path: &Path) -> anyhow::Result<()> {
        ensure!(
            self.retention().is_unlimited() && self.write_blocks.is_none(),
            "--limit-bytes, --limit-age, --min-free and --write-blocks are for directories; {} is \
             none",
            stream_name(path)
        );
        Ok(())
    }
}

/// True for what is no directory and would be made as a file, or is something else.
fn names_a_file(path: &Path) -> bool {
    !path.is_dir() && (path.exists() || by_ending(path).is_some())
}

fn stream_name(path: &Path) -> String {
    if path == Path::new("-") {
        return "a stream on standard output".into();
    }
    path.shown().to_string()
}

/// True if a name says by its last character that it is of a directory.
fn has_slash(path: &Path) -> bool {
    path.as_os_str().as_bytes().ends_with(b"/")
}

/// True for a name that may be meant as a file or as a directory, neither of which is there. A
/// pattern of times is of files.
fn is_unclear(path: &Path) -> bool {
    let has_ending = path.extension().is_some() || is_pattern(path);
    has_ending && by_ending(path).is_none() && !has_slash(path) && !path.is_dir()
}

fn by_ending(path: &Path) -> Option<FileFormat> {
    // `x.gz` is pcapng: what does not tell is.
    let packed = Packing::of_path(path).map(|_| Format::Pcapng);
    let format = Format::of_path(path).or(packed).filter(|_| !has_slash(path));
    format.map(|format| match format {
        Format::Pcapng => FileFormat::Pcapng,
        Format::Pcap => FileFormat::Pcap,
    })
}
