//! One call out of files: its ladder, its packets, its sound.

use crate::inputs::Inputs;
use crate::record::RunArgs;
use anyhow::{Context, ensure};
use clap::Args;
use ringside_calls::{Call, CallsObserver, Options, Selection, Sound};
use ringside_core::{Frame, FrameMeta};
use ringside_inspect::{DissectedFrame, Observer, Received};
use ringside_logs::{LogCounts, RecordSink};
use ringside_session::check_output;
use ringside_store::writer::create_copy;
use ringside_store::{Format, FrameWriter, PcapngWriter};
use ringside_terminal::say;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

/// What is to be had of one call.
#[derive(Args)]
pub struct OneCall {
    /// Print the messages of the call with this Call-ID: who said what to whom, and when.
    #[arg(long, value_name = "ID", conflicts_with = "json")]
    ladder: Option<String>,

    /// Write the call's packets to a file, signalling and media, as pcapng.
    #[arg(long, num_args = 2, value_names = ["ID", "FILE"])]
    #[arg(conflicts_with_all = ["json", "ladder"])]
    save: Vec<String>,

    /// Write what the parties of a call said to a WAV file, a channel for each; of G.711.
    #[arg(long, num_args = 2, value_names = ["ID", "FILE"])]
    #[arg(conflicts_with_all = ["json", "ladder", "save"])]
    audio: Vec<String>,
}

/// Keeps the calls with a Call-ID.
#[derive(Clone, Default)]
struct Found {
    call_id: String,
    calls: Arc<Mutex<Vec<Call>>>,
    seen: u64,
}

impl RecordSink<Call> for Found {
    fn put(&mut self, call: &Call, _interface: &str) {
        self.seen += 1;
        if call.dialog.as_ref().is_some_and(|dialog| dialog.call_id == self.call_id) {
            self.calls.lock().unwrap_or_else(PoisonError::into_inner).push(call.clone());
        }
    }

    fn counts(&self) -> LogCounts {
        LogCounts { delivered: self.seen, ..LogCounts::default() }
    }
}

impl OneCall {
    /// True if something of one call is to be had.
    pub fn is_given(&self) -> bool {
        self.ladder.is_some() || !self.save.is_empty() || !self.audio.is_empty()
    }

    /// Reads the inputs: once for the ladder, else a second time for the packets of what was found.
    pub fn run(&self, inputs: &Inputs, run: &RunArgs) -> anyhow::Result<ExitCode> {
        match (self.ladder.as_deref(), self.save.as_slice(), self.audio.as_slice()) {
            (Some(call_id), ..) => ladder(call_id, inputs, run),
            (_, [call_id, file], _) => {
                let Some(calls) = find(call_id, Path::new(file), inputs, run)? else {
                    return Ok(ExitCode::from(1));
                };
                save(&calls, Path::new(file), inputs, run)
            }
            (.., [call_id, file]) => {
                let Some(calls) = find(call_id, Path::new(file), inputs, run)? else {
                    return Ok(ExitCode::from(1));
                };
                audio(&calls, Path::new(file), inputs, run)
            }
            _ => Ok(ExitCode::SUCCESS),
        }
    }
}

fn ladder(call_id: &str, inputs: &Inputs, run: &RunArgs) -> anyhow::Result<ExitCode> {
    let options = Options { ladder: Some(call_id.to_owned()), ..Options::default() };
    let mut observer = CallsObserver::new(options, Vec::new());
    inputs.stored(run)?.show(&mut observer, &mut || Ok(()))?;
    match observer.ladder().filter(|ladder| !ladder.is_empty()) {
        Some(ladder) => {
            say::data(ladder.text().trim_end())?;
            Ok(ExitCode::SUCCESS)
        }
        None => Ok(nothing(call_id)),
    }
}

fn nothing(call_id: &str) -> ExitCode {
    say::message(format_args!("no call has the Call-ID {call_id}; `ringside calls -r` lists them"));
    ExitCode::from(1)
}

/// The calls with a Call-ID: one, unless it was used again. None if there is none.
fn find(
    call_id: &str,
    file: &Path,
    inputs: &Inputs,
    run: &RunArgs,
) -> anyhow::Result<Option<Vec<Call>>> {
    let read = &inputs.open.read;
    ensure!(
        read.iter().all(|path| path.is_file() || path.is_dir()),
        "--save and --audio read their input twice: name files or directories"
    );
    check_output(read, &PathBuf::from(file))?;
    let found = Found { call_id: call_id.to_owned(), ..Found::default() };
    let sinks: Vec<(String, Box<dyn RecordSink<Call>>)> =
        vec![("found".into(), Box::new(found.clone()))];
    let mut observer = CallsObserver::new(Options::default(), sinks);
    inputs.stored(run)?.show(&mut observer, &mut || Ok(()))?;
    let calls = std::mem::take(&mut *found.calls.lock().unwrap_or_else(PoisonError::into_inner));
    if calls.is_empty() {
        nothing(call_id);
        return Ok(None);
    }
    Ok(Some(calls))
}

/// Writes the frames of calls.
struct Saver {
    selections: Vec<Selection>,
    writer: PcapngWriter<std::fs::File>,
    /// Ids in the file of interfaces of the inputs.
    interfaces: Vec<(u32, ringside_core::InterfaceId)>,
    frames: u64,
    error: Option<anyhow::Error>,
}

impl Saver {
    fn write(&mut self, frame: &DissectedFrame<'_>, received: &Received<'_>) -> anyhow::Result<()> {
        let id = received.meta.interface.0;
        let known = self.interfaces.iter().find(|(input, _)| *input == id).map(|(_, own)| *own);
        let interface = match known {
            Some(interface) => interface,
            None => {
                let own = self.writer.add_interface(received.interface)?;
                self.interfaces.push((id, own));
                own
            }
        };
        let meta = FrameMeta { interface, ..*received.meta };
        self.writer.write(&Frame { bytes: frame.bytes(), meta })?;
        self.frames += 1;
        Ok(())
    }
}

impl Observer for Saver {
    fn see(&mut self, frame: &DissectedFrame<'_>, received: &Received<'_>) {
        let is_meant = self.selections.iter().any(|selection| selection.has(frame, received));
        if is_meant && self.error.is_none() {
            self.error = self.write(frame, received).err();
        }
    }
}

fn save(calls: &[Call], file: &Path, inputs: &Inputs, run: &RunArgs) -> anyhow::Result<ExitCode> {
    ensure!(
        Format::of_path(file).is_none_or(|format| format == Format::Pcapng),
        "--save writes pcapng: name a file {}",
        file.with_extension("pcapng").display()
    );
    let output = create_copy(file, &inputs.open.read)?;
    let mut saver = Saver {
        selections: calls.iter().map(Selection::new).collect(),
        writer: PcapngWriter::new(output, &[])?,
        interfaces: Vec::new(),
        frames: 0,
        error: None,
    };
    inputs.stored(run)?.show(&mut saver, &mut || Ok(()))?;
    if let Some(error) = saver.error {
        return Err(error);
    }
    saver.writer.finish(&[])?;
    say::message(format_args!("{} packets in {}", saver.frames, file.display()));
    Ok(ExitCode::SUCCESS)
}

/// Takes the sound out of frames.
struct Listener(Sound);

impl Observer for Listener {
    fn see(&mut self, frame: &DissectedFrame<'_>, received: &Received<'_>) {
        self.0.take(frame, received);
    }
}

fn audio(calls: &[Call], file: &Path, inputs: &Inputs, run: &RunArgs) -> anyhow::Result<ExitCode> {
    // Of a Call-ID that was used again, the call with the most media.
    let call = calls.iter().max_by_key(|call| call.streams.len());
    let call = call.context("no call")?;
    let mut listener = Listener(Sound::new(call));
    inputs.stored(run)?.show(&mut listener, &mut || Ok(()))?;
    let Listener(sound) = listener;
    if sound.samples() == 0 {
        say::message("the call has no sound in G.711; `ringside calls -r` shows its codecs");
        return Ok(ExitCode::from(1));
    }
    let output = create_copy(file, &inputs.open.read)?;
    let mut output = BufWriter::new(output);
    sound.write(&mut output)?;
    output.flush()?;
    if sound.left_out() > 0 {
        say::message("what came more than an hour after the first sound was left out");
    }
    let seconds = sound.samples() as f64 / 8_000.0;
    say::message(format_args!("{seconds:.2} s of sound in {}", file.display()));
    Ok(ExitCode::SUCCESS)
}
