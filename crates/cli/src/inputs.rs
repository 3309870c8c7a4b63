//! Where the packets come from of a run that makes something of them: interfaces, files, or a
//! capture that runs.

use crate::attached::yield_to_capture;
use crate::open_args::OpenArgs;
use crate::range_args::RangeArgs;
use crate::record::RunArgs;
use crate::stored::Stored;
use anyhow::ensure;
use clap::Args;
use ringside_capture::config;
use ringside_session::{AttachOptions, CaptureOptions, KeepOptions, Origin};
use std::path::PathBuf;

/// Options that say where packets come from.
#[derive(Args)]
pub struct Inputs {
    #[command(flatten)]
    pub open: OpenArgs,

    /// Read a running capture along: the socket that `ringside capture --share` made.
    #[arg(long, value_name = "SOCKET", group = "elsewhere")]
    attach: Option<PathBuf>,

    #[command(flatten)]
    range: RangeArgs,
}

impl Inputs {
    /// True if files, directories or standard input are read.
    pub fn is_stored(&self) -> bool {
        !self.open.read.is_empty()
    }

    /// True if a running capture is read along.
    pub fn is_attached(&self) -> bool {
        self.attach.is_some()
    }

    /// Refuses what does not go together, in every process alike.
    pub fn check(&self, command: &str, run: &RunArgs) -> anyhow::Result<()> {
        ensure!(
            !run.write.is_stdout(),
            "-w - is not for {command}: its lines want standard output; write packets to a file or \
             directory"
        );
        ensure!(
            !self.is_stored() || (run.write.paths.is_empty() && run.duration().is_none()),
            "-w and --for are for interfaces; packets of files are copied by `ringside read -w`"
        );
        ensure!(
            self.is_stored() || self.is_attached() || !self.range.is_given(),
            "--from, --to and --last are for files, and --from and --last for --attach"
        );
        Ok(())
    }

    /// Files, directories and standard input, open.
    pub fn stored(&self, run: &RunArgs) -> anyhow::Result<Stored> {
        Stored::open(&self.open, &self.range, run.packets())
    }

    /// What a session is to receive from. Of interfaces only that is taken which `keep` says.
    pub fn origin(&self, run: &RunArgs, keep: KeepOptions) -> anyhow::Result<Origin> {
        if let Some(socket) = &self.attach {
            yield_to_capture();
            let (ago, filter) = (self.range.ago()?, self.open.filter());
            return Ok(AttachOptions { socket: socket.clone(), ago, filter }.into());
        }
        let records = !run.write.paths.is_empty();
        Ok(CaptureOptions {
            open: self.open.options(false),
            keep,
            ring_bytes: if records { config::DISK_RING_BYTES } else { config::RING_BYTES },
            ..CaptureOptions::default()
        }
        .into())
    }
}
