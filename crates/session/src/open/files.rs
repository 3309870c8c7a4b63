//! Captures on disk in place of interfaces.

use super::{OpenOptions, Opened};
use crate::placement::Placed;
use anyhow::{bail, ensure};
use ringside_capture::backend::file::FileLane;
use ringside_capture::run::LaneSource;
use ringside_core::{InterfaceId, Shown, Source};
use ringside_store::is_input;
use std::fs::File;
use std::path::PathBuf;

/// What the lane is called where the capture does not name an interface.
const NAMELESS: &str = "file";

/// Opens what is to be read as one lane.
pub(super) fn open(options: &OpenOptions) -> anyhow::Result<Opened> {
    let source = FileLane::open(&options.read)?;
    let interfaces = source.interfaces().to_vec();
    let first = interfaces.first().map(|interface| interface.name.clone());
    let interface = first.filter(|name| !name.is_empty()).unwrap_or_else(|| NAMELESS.to_owned());
    let names = options.read.iter().map(|path| path.shown().to_string());
    let lane =
        LaneSource { source: Box::new(source), interface, interface_id: InterfaceId(0), queue: 0 };
    Ok(Opened {
        lanes: vec![lane],
        interfaces,
        placed: Placed { cpus: options.placement.cpus.clone(), memory: None },
        description: names.collect::<Vec<_>>().join(", "),
        ..Opened::default()
    })
}

/// Refuses to write over what is read.
///
/// # Errors
/// `output` is one of `inputs`, or cannot be looked at.
pub fn check_output(inputs: &[PathBuf], output: &PathBuf) -> anyhow::Result<()> {
    let shown = output.shown();
    let same = |input: &PathBuf| input.canonicalize().ok() == output.canonicalize().ok();
    if output.is_dir() {
        ensure!(
            !inputs.iter().any(same),
            "{shown} is read and written at once: name another directory"
        );
    } else if output.is_file() && is_input(inputs, &File::open(output)?)? {
        bail!("{shown} is read and written at once: name another file");
    }
    Ok(())
}
