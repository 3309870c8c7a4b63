//! Where a run writes, how, and how much it keeps.

use super::habits::SwitchArgs;
use crate::{open, units};
use anyhow::{Context, bail, ensure};
use clap::Args;
use ringside_capture::config::{DiskOptions, FileFormat, Output, Rotation};
use ringside_store::Format;
use ringside_store::retention::{Policy, file_interval};
use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The options that have to do with writing.
#[derive(Args)]
pub struct WriteArgs {
    /// Record: to a directory (a series of files per lane), to FILE.pcapng or FILE.pcap (lanes
    /// merged by time), or to standard output with `-`. Several directories, on several disks,
    /// hold one recording together.
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
            ensure!(!self.rotates(), "-C and -G need files; {} is none", stream_name(&path));
            self.no_limits(&path)?;
            let fd = if is_stream {
                open::stdout_stream()?
            } else {
                let file = OpenOptions::new().write(true).open(&path);
                file.with_context(|| format!("cannot open {}", path.display()))?.into()
            };
            let by_ending = by_ending(&path).filter(|_| !is_stream);
            let format = by_option.or(by_ending).unwrap_or(FileFormat::Pcapng);
            return Ok(Output::Stream { fd, format });
        }
        let by_ending = by_ending(&path);
        if path.is_dir() || (by_option.is_none() && by_ending.is_none()) {
            return self.directories();
        }
        self.no_limits(&path)?;
        let format = by_option.or(by_ending).unwrap_or(FileFormat::Pcapng);
        let rotation = Rotation { bytes: self.file_bytes(), interval: self.file_time() };
        Ok(Output::File { path, format, rotation })
    }

    fn directories(&self) -> anyhow::Result<Output> {
        for path in &self.paths {
            let shown = path.display();
            if path.is_file() {
                bail!(
                    "{shown} is a file; name a directory, or a file that ends in .pcapng or .pcap"
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

    fn rotates(&self) -> bool {
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
    path.display().to_string()
}

fn by_ending(path: &Path) -> Option<FileFormat> {
    Format::of_path(path).map(|format| match format {
        Format::Pcapng => FileFormat::Pcapng,
        Format::Pcap => FileFormat::Pcap,
    })
}
