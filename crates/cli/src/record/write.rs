//! Options that say where a run writes, how, and how much it keeps.

use super::habits::SwitchArgs;
use crate::open_args::stdout_stream;
use clap::Args;
use ringside_session::{FileFormat, OutputOptions, Policy, Refused};
use ringside_terminal::units;
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

    /// Directories: most bytes of files that may be pinned (`ringside pin`); half of --limit-bytes
    /// unless it says otherwise.
    #[arg(long, value_name = "SIZE", value_parser = units::bytes, requires = "paths")]
    pin_bytes: Option<u64>,

    /// Directories: compress files that ended this long after they were begun, so that they can
    /// still be searched, and `zstd -d` gives them back.
    #[arg(long, value_name = "DURATION", value_parser = units::duration, requires = "paths")]
    compress_after: Option<Duration>,

    /// Directories: blocks of the ring (1 MiB) in one write; by default tried on the disk.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(1..=64))]
    #[arg(requires = "paths")]
    write_blocks: Option<u8>,

    /// Directories: make no indexes for `find` while recording. They are made of what is in memory,
    /// where no other thread wants the CPU; `ringside index` makes those that are missing.
    #[arg(long, requires = "paths")]
    no_index: bool,
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
    /// True for `-w -`.
    pub fn is_stdout(&self) -> bool {
        self.paths.iter().any(|path| path == Path::new("-"))
    }

    /// What a session is to write: `-` is a stream to it.
    ///
    /// # Errors
    /// `-` is not alone, or standard output cannot be had as a stream of our own.
    pub fn options(&self) -> anyhow::Result<OutputOptions> {
        let stream = match (self.is_stdout(), self.paths.len()) {
            (true, 2..) => return Err(Refused::SeveralOutputs(None).into()),
            (true, _) => Some(stdout_stream()?),
            (false, _) => None,
        };
        Ok(OutputOptions {
            paths: if stream.is_none() { self.paths.clone() } else { Vec::new() },
            stream,
            format: self.format.map(FileFormat::from),
            file_bytes: self.file_bytes.or_else(|| self.switch.bytes()),
            file_time: self.file_time.or_else(|| self.switch.interval()),
            retention: Policy {
                limit_bytes: self.limit_bytes,
                limit_age: self.limit_age,
                min_free: self.min_free,
                pin_bytes: self.pin_bytes,
                compress_after: self.compress_after,
            },
            write_blocks: self.write_blocks.map(usize::from),
            no_index: self.no_index,
        })
    }
}
