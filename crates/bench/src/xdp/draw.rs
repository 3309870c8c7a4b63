//! The drawings of `bench xdp`: bars where the paper has a figure of one core, lines for the CPU's
//! part at fixed rates.

use super::super::plot::{Bar, Line, Series, Words, bar_chart, chart};
use super::part::Part;
use super::results::{Results, Row};
use std::path::Path;

const RATE: &str = "million frames a second, one core";

impl Results {
    /// Draws what there are figures for; `dir` exists.
    ///
    /// # Errors
    /// `dir` cannot be written.
    pub(super) fn draw(&self, dir: &Path) -> anyhow::Result<()> {
        let figures: [(&str, &str, &[Part]); 4] = [
            ("drop", "Dropping frames", &[Part::Drop, Part::Pass]),
            (
                "forward",
                "Sending frames back, and out of another interface",
                &[Part::Tx, Part::Redirect],
            ),
            ("route", "Forwarding by routes", &[Part::Route]),
            ("balance", "Balancing load over 100 reals", &[Part::Balance]),
        ];
        for (name, title, parts) in figures {
            self.bars(&dir.join(format!("{name}.svg")), title, parts)?;
        }
        let lines = self.busy_lines();
        if lines.is_empty() {
            return Ok(());
        }
        let words = Words {
            title: "The core's part at fixed rates",
            x: "million frames a second, offered",
            y: "per cent of the core under test",
        };
        chart(&dir.join("cpu.svg"), words, &lines)
    }

    /// A group for each part or setting, in it a bar for each tool.
    fn bars(&self, file: &Path, title: &str, parts: &[Part]) -> anyhow::Result<()> {
        let is_in = |row: &&Row| parts.contains(&row.case.part) && row.mps().is_finite();
        let (mut groups, mut series): (Vec<String>, Vec<Series>) = (Vec::new(), Vec::new());
        for row in self.rows.iter().filter(is_in) {
            let setting = row.case.setting();
            let group = if setting.is_empty() { row.case.part.name().to_owned() } else { setting };
            let known = groups.iter().position(|one| *one == group);
            let group = known.unwrap_or_else(|| {
                groups.push(group);
                groups.len() - 1
            });
            let bar = Bar { group, value: row.mps(), label: format!("{:.2}", row.mps()) };
            let name = row.case.kind.name();
            match series.iter_mut().find(|one| one.name == name) {
                Some(one) => one.bars.push(bar),
                None => series.push(Series { name: name.to_owned(), bars: vec![bar] }),
            }
        }
        if series.is_empty() {
            return Ok(());
        }
        bar_chart(file, Words { title, x: "", y: RATE }, &groups, &series)
    }

    fn busy_lines(&self) -> Vec<Line> {
        let mut lines: Vec<Line> = Vec::new();
        let rows = self.rows.iter().filter(|row| row.case.part == Part::Cpu);
        for row in rows.filter(|row| !row.samples.is_empty()) {
            let rate = row.case.rate_per_sec.unwrap_or(0) as f64 / 1e6;
            let point = (rate, row.busy_percent());
            let name = row.case.kind.name();
            match lines.iter_mut().find(|line| line.name == name) {
                Some(line) => line.points.push(point),
                None => {
                    let name = name.to_owned();
                    lines.push(Line { name, points: vec![point], mixes: Vec::new() });
                }
            }
        }
        lines
    }
}
