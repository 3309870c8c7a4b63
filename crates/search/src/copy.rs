//! Stored frames on their way to a copy, or wherever else they go.

use crate::filters::FrameFilter;
use ringside_core::{Frame, SourceInterface};
use ringside_store::writer::create_copy;
use ringside_store::{Format, FrameWriter, Packing, StoredSource};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long one step waits for input; matters for a pipe only.
const WAIT: Duration = Duration::from_millis(200);
/// What of a compressed copy waits for more at most: small members compress badly.
const PACKED_WAIT_MAX: Duration = Duration::from_secs(1);
/// What was found is seen so soon, while the search goes on.
const SEEN_AFTER: Duration = Duration::from_millis(50);
/// After the order to stop so long is read on from a pipe, unless it pauses: Ctrl-C is also for the
/// writer, which hands over what it still has.
const DRAIN_MAX: Duration = Duration::from_secs(1);

/// When the reading ends before its inputs do.
pub struct CopyLimits<'a> {
    /// Frames that match.
    pub count_max: u64,
    /// Some input is no file: it may pause, and what it has given by then is to be seen.
    pub is_stream: bool,
    /// True once it is to end.
    pub is_stopped: &'a dyn Fn() -> bool,
    /// Gets the number of frames read so far, and of those that match, every few frames.
    pub look: &'a dyn Fn(u64, u64),
}

/// Moves frames that match; returns how many.
///
/// # Errors
/// An input cannot be read, or the output cannot be written.
pub fn copy(
    source: &mut dyn StoredSource,
    filter: &mut FrameFilter,
    output: &mut dyn Output,
    limits: &CopyLimits<'_>,
) -> anyhow::Result<u64> {
    let (mut read, mut matched, mut known) = (0, 0, 0);
    // A stream is waited for only after what it has given is handed on.
    let mut timeout = WAIT;
    let mut stopped_at: Option<Instant> = None;
    let (mut seen, mut seen_at) = (0, None::<Instant>);
    while !source.is_finished() {
        (limits.look)(read, matched);
        if (limits.is_stopped)() {
            let since = *stopped_at.get_or_insert_with(Instant::now);
            if !limits.is_stream || since.elapsed() >= DRAIN_MAX {
                return Ok(matched);
            }
        }
        let Some(batch) = source.next_batch(timeout)? else {
            output.idle()?;
            if timeout == WAIT && stopped_at.is_some() {
                return Ok(matched);
            }
            timeout = WAIT;
            continue;
        };
        if limits.is_stream {
            timeout = Duration::ZERO;
        }
        read += batch.frame_count() as u64;
        // A file may name interfaces while it is read; the copy must know them all.
        for interface in &batch.interfaces()[known..] {
            output.add_interface(interface)?;
        }
        known = batch.interfaces().len();
        for frame in batch.iter() {
            let link_type = batch.interface_of(&frame.meta)?.link_type;
            if filter.accepts(&frame, link_type)? {
                output.put(&frame)?;
                matched += 1;
                if matched == limits.count_max {
                    return Ok(matched);
                }
            }
        }
        if matched > seen && seen_at.is_none_or(|at| at.elapsed() >= SEEN_AFTER) {
            output.idle()?;
            (seen, seen_at) = (matched, Some(Instant::now()));
        }
    }
    // Interfaces without a packet are part of the file too.
    for interface in &source.interfaces()[known..] {
        output.add_interface(interface)?;
    }
    Ok(matched)
}

/// Where packets go.
pub trait Output {
    /// Frames of this interface may follow.
    ///
    /// # Errors
    /// It cannot be written.
    fn add_interface(&mut self, interface: &SourceInterface) -> anyhow::Result<()>;
    /// Takes a frame.
    ///
    /// # Errors
    /// It cannot be written.
    fn put(&mut self, frame: &Frame<'_>) -> anyhow::Result<()>;
    /// The input pauses: what is buffered should be seen.
    ///
    /// # Errors
    /// It cannot be written.
    fn idle(&mut self) -> anyhow::Result<()>;
    /// Ends the output.
    ///
    /// # Errors
    /// It cannot be written.
    fn finish(&mut self) -> anyhow::Result<()>;
    /// Ends the output after an error, with what was put before it: the name of a file, and how
    /// many packets it holds now.
    fn abandon(&mut self) -> Option<(PathBuf, u64)>;
}

/// Writes a capture file or stream.
pub struct Copier {
    writer: Box<dyn FrameWriter>,
    /// When the last pause of the input was made use of, if the copy is compressed.
    packed_at: Option<Instant>,
    /// A file's name, and the handle by which it is cut; none for a stream.
    cut: Option<(PathBuf, File)>,
}

impl Copier {
    /// To a file, which is made; compressed if its name says so.
    ///
    /// # Errors
    /// It is one of the `inputs`, another process writes it, or it cannot be made.
    pub fn to_file(path: &Path, format: Format, inputs: &[PathBuf]) -> anyhow::Result<Copier> {
        let file = create_copy(path, inputs)?;
        if !file.metadata()?.is_file() {
            return Copier::to_stream(file, format);
        }
        let cut = Some((path.to_owned(), file.try_clone()?));
        let packing = Packing::of_path(path);
        let writer = match packing {
            Some(packing) => packing.writer(format, file, &[])?,
            None => format.writer(file, &[])?,
        };
        Ok(Copier { writer, packed_at: packing.map(|_| Instant::now()), cut })
    }

    /// To what may be a pipe.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn to_stream(stream: File, format: Format) -> anyhow::Result<Copier> {
        Ok(Copier { writer: format.writer(stream, &[])?, packed_at: None, cut: None })
    }
}

impl Output for Copier {
    fn add_interface(&mut self, interface: &SourceInterface) -> anyhow::Result<()> {
        self.writer.add_interface(interface)?;
        Ok(())
    }

    fn put(&mut self, frame: &Frame<'_>) -> anyhow::Result<()> {
        Ok(self.writer.write(frame)?)
    }

    fn idle(&mut self) -> anyhow::Result<()> {
        if let Some(at) = &mut self.packed_at {
            if at.elapsed() < PACKED_WAIT_MAX {
                return Ok(());
            }
            *at = Instant::now();
        }
        Ok(self.writer.flush()?)
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        Ok(self.writer.finish(&[])?)
    }

    fn abandon(&mut self) -> Option<(PathBuf, u64)> {
        // It does nothing after a refused write; another error would hide the first.
        let _ = self.writer.finish(&[]);
        let (path, file) = self.cut.as_ref()?;
        file.set_len(self.writer.bytes_written()).ok()?;
        Some((path.clone(), self.writer.frames_written()))
    }
}

/// Counts only: the copying does.
pub struct Counter;

impl Output for Counter {
    fn add_interface(&mut self, _interface: &SourceInterface) -> anyhow::Result<()> {
        Ok(())
    }

    fn put(&mut self, _frame: &Frame<'_>) -> anyhow::Result<()> {
        Ok(())
    }

    fn idle(&mut self) -> anyhow::Result<()> {
        Ok(())
    }

    fn finish(&mut self) -> anyhow::Result<()> {
        Ok(())
    }

    fn abandon(&mut self) -> Option<(PathBuf, u64)> {
        None
    }
}
