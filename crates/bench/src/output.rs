//! Where figures go: standard output, as a table or JSON lines, and a file.

use super::results::csv;
use anyhow::Context;
use clap::Args;
use ringside_terminal::say;
use serde_json::{Map, Value};
use std::path::{Path, PathBuf};

/// Arguments of most measurements.
#[derive(Args)]
pub(super) struct OutputArgs {
    /// One JSON object for each figure on standard output, instead of tables.
    #[arg(long)]
    json: bool,

    /// Also write the figures to this file; of several rounds the medians.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
}

/// Figures in all their forms.
pub(super) trait Figures {
    /// Names of the fields, in the order of the file.
    const COLUMNS: &'static [&'static str];

    /// Tables for people.
    fn text(&self) -> String;

    /// The fields of each figure.
    fn records(&self) -> Vec<Map<String, Value>>;

    /// One object a line.
    fn json(&self) -> String {
        self.records().into_iter().map(|fields| format!("{}\n", Value::Object(fields))).collect()
    }

    /// A line of names, and one for each figure.
    fn csv(&self) -> String {
        csv(Self::COLUMNS, self.records().into_iter())
    }
}

impl OutputArgs {
    /// Prints the figures and writes the file.
    ///
    /// # Errors
    /// The file cannot be written, or standard output is closed.
    pub(super) fn put(&self, figures: &impl Figures) -> anyhow::Result<()> {
        let text = if self.json { figures.json() } else { figures.text() };
        say::data(text.trim_end())?;
        let Some(path) = &self.csv else { return Ok(()) };
        std::fs::write(path, figures.csv()).with_context(|| format!("writing {}", path.display()))
    }
}

/// Where figures are drawn.
#[derive(Args)]
pub(super) struct DrawArgs {
    /// Also draw the figures, as SVG files in this directory.
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
}

impl DrawArgs {
    /// Makes the directory and has `draw` fill it, if that was asked for.
    ///
    /// # Errors
    /// The directory cannot be made, or those of `draw`.
    pub(super) fn draw(
        &self,
        draw: impl FnOnce(&Path) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        let Some(dir) = &self.svg else { return Ok(()) };
        std::fs::create_dir_all(dir).with_context(|| format!("making {}", dir.display()))?;
        draw(dir)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_made_only_for_figures_that_are_asked_for() {
        let parent = tempfile::tempdir().unwrap();
        let dir = parent.path().join("new/figures");
        let draw = |svg: Option<&Path>| {
            DrawArgs { svg: svg.map(Path::to_owned) }.draw(|dir| {
                std::fs::write(dir.join("one.svg"), "<svg/>").unwrap();
                Ok(())
            })
        };
        draw(None).unwrap();
        assert!(!dir.exists());
        draw(Some(&dir)).unwrap();
        assert!(dir.join("one.svg").exists());
        let file = dir.join("one.svg");
        let refusal = draw(Some(&file)).unwrap_err().to_string();
        assert!(refusal.contains("making") && refusal.contains("one.svg"), "{refusal}");
    }
}
