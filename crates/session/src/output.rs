//! Where a run writes, how, and how much it keeps.

use crate::refused::Refused;
use anyhow::Context;
use ringside_capture::config::{DiskOptions, FileFormat, Output, Rotation};
use ringside_capture::output::{check_pattern, is_pattern};
use ringside_control::OutputStatus;
use ringside_core::Shown;
use ringside_store::retention::{Policy, file_interval};
use ringside_store::{Format, Packing};
use ringside_sys::clock;
use std::fs::OpenOptions;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How a status names a stream.
const STREAM: &str = "-";

/// What is asked about the output. By default nothing is.
#[derive(Default)]
pub struct OutputOptions {
    /// A directory of a recording (a name without an ending, or with `/` behind it), or a file by
    /// its ending: .pcapng or .pcap, with .gz or .zst behind it packed. Of a file that is cut by
    /// time the name may be a pattern of local time, as in strftime(3). Several are directories,
    /// which hold one recording together.
    pub paths: Vec<PathBuf>,
    /// A stream that is written to in place of paths.
    pub stream: Option<OwnedFd>,
    /// Format of a stream, and of a file whose name does not tell.
    pub format: Option<FileFormat>,
    /// Size at which a new file begins.
    pub file_bytes: Option<u64>,
    /// Time after which a new file begins. With a limit of age, or an age at which files are
    /// compressed, there is one by itself.
    pub file_time: Option<Duration>,
    /// How much is kept of what lies in the directories.
    pub retention: Policy,
    /// Blocks of the ring in one write to a directory, 1 to 64; by default tried on the disk.
    pub write_blocks: Option<usize>,
    /// The indexes of files in directories are left to others.
    pub no_index: bool,
}

impl OutputOptions {
    /// True if all that is named is directories, or is to be made as such.
    pub fn is_directory(&self) -> bool {
        self.format.is_none()
            && self.stream.is_none()
            && !self.paths.iter().any(|path| names_a_file(path))
    }

    /// True if files end and others begin by themselves.
    pub fn rotates(&self) -> bool {
        self.is_cut() || self.interval().is_some() || !self.retention.is_unlimited()
    }

    /// Time after which a new file begins, asked for or by itself.
    pub(crate) fn interval(&self) -> Option<Duration> {
        let Policy { limit_age, compress_after, .. } = self.retention;
        self.file_time
            .or_else(|| limit_age.into_iter().chain(compress_after).min().map(file_interval))
    }

    /// Opens a stream, or says what is to be made: a file by its ending, else a directory.
    pub(crate) fn open(&mut self) -> anyhow::Result<Output> {
        if let Some(fd) = self.stream.take() {
            self.check_stream(None)?;
            return Ok(Output::Stream { fd, format: self.format.unwrap_or(FileFormat::Pcapng) });
        }
        let Some(first) = self.paths.first() else { return Ok(Output::Count) };
        if self.paths.len() > 1 {
            return self.directories();
        }
        let path = first.clone();
        let by_ending = by_ending(&path);
        let format = self.format.or(by_ending).unwrap_or(FileFormat::Pcapng);
        if path.exists() && !path.is_file() && !path.is_dir() {
            self.check_stream(Some(&path))?;
            let file = OpenOptions::new().write(true).open(&path);
            let fd = file.with_context(|| format!("cannot open {}", path.shown()))?.into();
            return Ok(Output::Stream { fd, format });
        }
        let is_directory = path.is_dir() || has_slash(&path);
        if is_directory || (self.format.is_none() && by_ending.is_none()) {
            return self.directories();
        }
        self.check_limits(Some(&path))?;
        if is_pattern(&path) {
            let now = clock::realtime_now().seconds();
            check_pattern(&path, self.interval(), now).map_err(anyhow::Error::msg)?;
        }
        let rotation = Rotation { bytes: self.file_bytes, interval: self.interval() };
        Ok(Output::File { path, format, rotation })
    }

    fn directories(&self) -> anyhow::Result<Output> {
        for path in &self.paths {
            if path.is_file() {
                return Err(Refused::IsFile(path.clone()).into());
            }
            if is_unclear(path) {
                return Err(Refused::UnclearName(path.clone()).into());
            }
            if self.paths.len() > 1 && names_a_file(path) {
                return Err(Refused::SeveralOutputs(Some(path.clone())).into());
            }
        }
        if self.format.is_some() {
            return Err(Refused::DirectoryFormat.into());
        }
        Ok(Output::Directory {
            paths: self.paths.clone(),
            rotation: Rotation { bytes: self.file_bytes, interval: self.interval() },
            options: DiskOptions {
                write_blocks: self.write_blocks,
                index: !self.no_index,
                ..DiskOptions::default()
            },
            retention: self.retention,
        })
    }

    fn is_cut(&self) -> bool {
        self.file_bytes.is_some() || self.file_time.is_some()
    }

    fn check_stream(&self, path: Option<&PathBuf>) -> Result<(), Refused> {
        match self.is_cut() {
            true => Err(Refused::NotFiles(path.cloned())),
            false => self.check_limits(path),
        }
    }

    fn check_limits(&self, path: Option<&PathBuf>) -> Result<(), Refused> {
        match self.retention == Policy::default() && self.write_blocks.is_none() {
            true => Ok(()),
            false => Err(Refused::NotLimited(path.cloned())),
        }
    }

    /// What the control socket says of `output`, which was made of this.
    pub(crate) fn status(&self, output: &Output, prints: bool) -> OutputStatus {
        let (kind, is_stream) = match output {
            Output::Count if prints => ("print", false),
            Output::Count => ("count", false),
            Output::Directory { .. } => ("directory", false),
            Output::File { .. } => ("file", false),
            Output::Stream { .. } => ("stream", self.paths.is_empty()),
        };
        let stream = is_stream.then(|| STREAM.to_owned());
        let paths = self.paths.iter().map(|path| path.shown().to_string());
        OutputStatus { kind: kind.to_owned(), paths: paths.chain(stream).collect() }
    }
}

/// True for what is no directory and would be made as a file, or is something else.
fn names_a_file(path: &Path) -> bool {
    !path.is_dir() && (path.exists() || by_ending(path).is_some())
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
