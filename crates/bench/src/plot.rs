//! Figures as SVG files: those of `bench record`, and charts of lines and bars for others.

mod bars;

pub(super) use self::bars::{Bar, Series, bar_chart};

use super::load::FrameSizes;
use super::measure::{Destination, Setup};
use super::results::{LoadRow, Results};
use super::tools::Tool;
use anyhow::Context;
use clap::ValueEnum;
use plotters::coord::types::RangedCoordf64;
use plotters::coord::{Shift, cartesian::Cartesian2d};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::path::Path;

/// Width and height of a figure, in pixels.
const SIZE: (u32, u32) = (960, 540);
/// Pixels at the right for the legend, so that it hides nothing: without names, and for each
/// character of the longest.
const LEGEND_WIDTH: u32 = 40;
const LEGEND_CHARACTER: u32 = 8;
/// Pixels from one entry to the next.
const LEGEND_LINE: i32 = 24;
/// Pixels from the top to the first entry.
const LEGEND_TOP: i32 = 60;
const BACKGROUND: RGBColor = RGBColor(255, 255, 255);
const FAINT: RGBColor = RGBColor(225, 225, 225);
/// Colours that remain apart for people who see colours differently (Okabe and Ito).
const PALETTE: [RGBColor; 8] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(90, 90, 90),
    RGBColor(0, 0, 0),
];
/// Room above the highest value.
const HEADROOM: f64 = 1.12;
/// Most labels on an axis.
const LABELS_MAX: usize = 8;

/// A line of a chart, by frame size or what else the chart's words say.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Line {
    pub(super) name: String,
    /// (frame bytes, value), by size.
    pub(super) points: Vec<(f64, f64)>,
    /// The same for mixes, at their mean size; they stand alone.
    pub(super) mixes: Vec<(f64, f64)>,
}

/// What stands at a chart of lines.
#[derive(Clone, Copy)]
pub(super) struct Words<'a> {
    pub(super) title: &'a str,
    pub(super) x: &'a str,
    pub(super) y: &'a str,
}

impl Line {
    /// A line through the values of frame sizes.
    pub(super) fn through<'a>(
        name: &str,
        values: impl Iterator<Item = (&'a FrameSizes, f64)>,
    ) -> Line {
        let mut line = Line { name: name.into(), points: Vec::new(), mixes: Vec::new() };
        for (sizes, value) in values {
            let list = if sizes.single().is_some() { &mut line.points } else { &mut line.mixes };
            list.push((sizes.mean_bytes(), value));
        }
        line.points.sort_by(|a, b| a.0.total_cmp(&b.0));
        line
    }

    /// `value` of each row that `setup` has.
    fn new(name: &str, results: &Results, setup: Setup, value: fn(&LoadRow) -> f64) -> Line {
        let rows = results.loads.iter().filter(|row| row.setup == setup);
        Line::through(name, rows.map(|row| (&row.sizes, value(row))))
    }

    fn all(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        self.points.iter().chain(&self.mixes).copied()
    }
}

/// Draws what there are figures for; `dir` exists.
///
/// # Errors
/// `dir` cannot be written.
pub(super) fn draw(results: &Results, dir: &Path) -> anyhow::Result<()> {
    for destination in [Destination::Memory, Destination::Disk] {
        let lines = tools(results, destination);
        if lines.len() > 1 {
            let title = format!("Recorded at full load, to {}", long_name(destination));
            let file = dir.join(format!("full-load-{}.svg", destination.name()));
            line_chart(&file, &title, "million frames a second, received", &lines)?;
        }
    }
    let setup = |destination, snaplen| Setup { tool: Tool::Ringside, destination, snaplen };
    let gigabits = "Gbit/s of frames, received";
    let discard: Vec<Line> = [Destination::Nowhere, Destination::Memory, Destination::Disk]
        .into_iter()
        .map(|destination| {
            Line::new(destination.name(), results, setup(destination, None), gbit_per_s)
        })
        .filter(|line| line.all().next().is_some())
        .collect();
    if discard.iter().any(|line| line.name == Destination::Nowhere.name()) {
        let title = "Ringside at full load: discarding and storing";
        line_chart(&dir.join("figure-4.5.svg"), title, gigabits, &discard)?;
    }
    let snaplens = snaplens(results);
    if snaplens.len() > 1 {
        let lines: Vec<Line> = snaplens
            .into_iter()
            .map(|snaplen| {
                let name = snaplen.map_or("whole frames".into(), |bytes| format!("{bytes} bytes"));
                Line::new(&name, results, setup(Destination::Memory, snaplen), gbit_per_s)
            })
            .collect();
        let title = "Ringside at full load, keeping the first bytes of each frame, to tmpfs";
        line_chart(&dir.join("figure-4.6.svg"), title, gigabits, &lines)?;
    }
    if !results.zero_loss.is_empty() {
        zero_loss_chart(&dir.join("zero-loss.svg"), results)?;
    }
    Ok(())
}

/// A line for each tool that was measured with whole frames.
fn tools(results: &Results, destination: Destination) -> Vec<Line> {
    let lines = Tool::value_variants().iter().map(|&tool| {
        let setup = Setup { tool, destination, snaplen: None };
        Line::new(tool.name(), results, setup, |row| row.median(|s| s.received_mps()))
    });
    lines.filter(|line| line.all().next().is_some()).collect()
}

/// The snapshot lengths that were measured, whole frames last.
fn snaplens(results: &Results) -> Vec<Option<u32>> {
    let kept = results.loads.iter().filter_map(|row| row.setup.snaplen);
    let mut lengths: Vec<u32> = kept.collect();
    lengths.sort_unstable();
    lengths.dedup();
    lengths.into_iter().map(Some).chain([None]).collect()
}

fn gbit_per_s(row: &LoadRow) -> f64 {
    row.median(|sample| sample.received_mps()) * row.sizes.mean_bytes() * 8.0 / 1e3
}

fn long_name(destination: Destination) -> &'static str {
    match destination {
        Destination::Nowhere => "nowhere",
        Destination::Memory => "new files on tmpfs",
        Destination::Disk => "new files on a disk",
        Destination::MergedFile => "one merged file on tmpfs",
    }
}

/// A chart of lines by frame size.
///
/// # Errors
/// `file` cannot be written.
pub(super) fn line_chart(file: &Path, title: &str, y: &str, lines: &[Line]) -> anyhow::Result<()> {
    let has_mixes = lines.iter().any(|line| !line.mixes.is_empty());
    let mixes = if has_mixes { " (diamonds: a mix, at its mean)" } else { "" };
    chart(file, Words { title, x: &format!("frame size in bytes{mixes}"), y }, lines)
}

/// A chart of lines.
///
/// # Errors
/// `file` cannot be written.
pub(super) fn chart(file: &Path, words: Words<'_>, lines: &[Line]) -> anyhow::Result<()> {
    let root = SVGBackend::new(file, SIZE).into_drawing_area();
    draw_lines(&root, words, lines)
        .and_then(|()| root.present().map_err(Into::into))
        .with_context(|| format!("drawing {}", file.display()))
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

fn draw_lines(root: &Area<'_>, words: Words<'_>, lines: &[Line]) -> anyhow::Result<()> {
    let points = || lines.iter().flat_map(Line::all);
    let right = points().map(|(x, _)| x).fold(0.0, f64::max) * 1.04;
    let top = points().map(|(_, y)| y).fold(0.0, f64::max).max(1e-9) * HEADROOM;
    let names: Vec<&str> = lines.iter().map(|line| line.name.as_str()).collect();
    root.fill(&BACKGROUND)?;
    let (left, aside) = root.split_horizontally(SIZE.0 - legend_width(&names));
    let mut chart = ChartBuilder::on(&left)
        .caption(words.title, ("sans-serif", 20))
        .margin(14)
        .x_label_area_size(50)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..right, 0.0..top)?;
    mesh(&mut chart, words.x, words.y)?;
    for (index, line) in lines.iter().enumerate() {
        let color = PALETTE[index % PALETTE.len()];
        let stroke = color.stroke_width(2);
        let points = line.points.iter().copied();
        if index < PALETTE.len() {
            chart.draw_series(LineSeries::new(points, stroke))?;
        } else {
            // Colours repeat, the line does not.
            chart.draw_series(DashedLineSeries::new(points, 6, 5, stroke))?;
        }
        let fill = if index < PALETTE.len() { color.filled() } else { stroke };
        let dot = |&point: &(f64, f64)| Circle::new(point, 4, fill);
        chart.draw_series(line.points.iter().map(dot))?;
        let diamond = |&point: &(f64, f64)| {
            EmptyElement::at(point)
                + Polygon::new([(0, -7), (6, 0), (0, 7), (-6, 0)], color.filled())
        };
        chart.draw_series(line.mixes.iter().map(diamond))?;
    }
    legend(&aside, &names)
}

/// The highest rates without loss: a group for each size and place, in it a bar for each tool.
fn zero_loss_chart(file: &Path, results: &Results) -> anyhow::Result<()> {
    let rows = &results.zero_loss;
    let mut groups: Vec<(&FrameSizes, Destination)> = Vec::new();
    for row in rows {
        if !groups.contains(&(&row.sizes, row.setup.destination)) {
            groups.push((&row.sizes, row.setup.destination));
        }
    }
    let mut series = Vec::new();
    for &tool in Tool::value_variants() {
        let bars = rows.iter().filter(|row| row.setup.tool == tool).filter_map(|row| {
            let group = groups.iter().position(|g| *g == (&row.sizes, row.setup.destination))?;
            let sign = if row.at_limit() { "≥" } else { "" };
            let (value, label) = (row.rate_mps(), format!("{sign}{:.2}", row.rate_mps()));
            Some(Bar { group, value, label })
        });
        let bars: Vec<Bar> = bars.collect();
        if !bars.is_empty() {
            series.push(Series { name: tool.name().to_owned(), bars });
        }
    }
    let name = |(sizes, destination): &(&FrameSizes, Destination)| {
        format!("{sizes} to {}", destination.name())
    };
    let groups: Vec<String> = groups.iter().map(name).collect();
    let words = Words {
        title: "Highest rate without a lost frame (≥: all that the generator gives)",
        x: "frame size in bytes, and where the recording goes",
        y: "million frames a second",
    };
    bar_chart(file, words, &groups, &series)
}

type Numbers = Cartesian2d<RangedCoordf64, RangedCoordf64>;

fn mesh(
    chart: &mut ChartContext<'_, SVGBackend<'_>, Numbers>,
    x_label: &str,
    y_label: &str,
) -> anyhow::Result<()> {
    chart
        .configure_mesh()
        .light_line_style(BACKGROUND)
        .bold_line_style(FAINT)
        .x_labels(LABELS_MAX)
        .y_labels(LABELS_MAX)
        .x_label_formatter(&|bytes| format!("{bytes:.0}"))
        .x_desc(x_label)
        .y_desc(y_label)
        .axis_desc_style(("sans-serif", 16))
        .label_style(("sans-serif", 14))
        .draw()?;
    Ok(())
}

/// Pixels that the names take.
fn legend_width(names: &[&str]) -> u32 {
    let longest = names.iter().map(|name| name.chars().count()).max().unwrap_or(0) as u32;
    (LEGEND_WIDTH + LEGEND_CHARACTER * longest).min(SIZE.0 / 2)
}

/// A coloured square and its name for each series, in the order of the palette; hollow where the
/// line is dashed.
fn legend(aside: &Area<'_>, names: &[&str]) -> anyhow::Result<()> {
    for (index, name) in names.iter().enumerate() {
        let color = PALETTE[index % PALETTE.len()];
        let y = LEGEND_TOP + index as i32 * LEGEND_LINE;
        let fill = if index < PALETTE.len() { color.filled() } else { color.stroke_width(2) };
        aside.draw(&Rectangle::new([(0, y - 6), (12, y + 6)], fill))?;
        let style = ("sans-serif", 14).into_text_style(aside);
        let style = style.pos(Pos::new(HPos::Left, VPos::Center));
        aside.draw(&Text::new((*name).to_owned(), (20, y), style))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
