//! Charts of bars.

use super::{Area, BACKGROUND, FAINT, HEADROOM, PALETTE, SIZE, Words, legend, legend_width};
use anyhow::Context;
use plotters::coord::ranged1d::{NoDefaultFormatting, ValueFormatter};
use plotters::coord::types::RangedCoordf64;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::path::Path;

/// One bar.
pub(in super::super) struct Bar {
    /// Which group it stands in.
    pub(in super::super) group: usize,
    pub(in super::super) value: f64,
    /// What stands on it.
    pub(in super::super) label: String,
}

/// The bars of one colour.
pub(in super::super) struct Series {
    pub(in super::super) name: String,
    pub(in super::super) bars: Vec<Bar>,
}

/// A chart of groups of bars.
///
/// # Errors
/// `file` cannot be written.
pub(in super::super) fn bar_chart(
    file: &Path,
    words: Words<'_>,
    groups: &[String],
    series: &[Series],
) -> anyhow::Result<()> {
    let root = SVGBackend::new(file, SIZE).into_drawing_area();
    draw(&root, words, groups, series)
        .and_then(|()| root.present().map_err(Into::into))
        .with_context(|| format!("drawing {}", file.display()))
}

fn draw(
    root: &Area<'_>,
    words: Words<'_>,
    groups: &[String],
    series: &[Series],
) -> anyhow::Result<()> {
    let values = series.iter().flat_map(|one| &one.bars).map(|bar| bar.value);
    let top = values.fold(1e-9, f64::max) * HEADROOM;
    root.fill(&BACKGROUND)?;
    let names: Vec<&str> = series.iter().map(|one| one.name.as_str()).collect();
    let (left, aside) = root.split_horizontally(SIZE.0 - legend_width(&names));
    let mut chart = ChartBuilder::on(&left)
        .caption(words.title, ("sans-serif", 20))
        .margin(14)
        .x_label_area_size(50)
        .y_label_area_size(64)
        .build_cartesian_2d(Groups::new(groups), 0.0..top)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(BACKGROUND)
        .bold_line_style(FAINT)
        .x_labels(groups.len() + 1)
        .x_desc(words.x)
        .y_desc(words.y)
        .axis_desc_style(("sans-serif", 16))
        .label_style(("sans-serif", 14))
        .draw()?;
    let width = 0.8 / series.len().max(1) as f64;
    for (index, one) in series.iter().enumerate() {
        let color = PALETTE[index % PALETTE.len()];
        let left = |bar: &Bar| bar.group as f64 + 0.1 + index as f64 * width;
        // Colours repeat, a hollow bar does not.
        let fill = if index < PALETTE.len() { color.filled() } else { color.stroke_width(2) };
        let shape = |bar: &Bar| {
            Rectangle::new([(left(bar), 0.0), (left(bar) + width * 0.92, bar.value)], fill)
        };
        chart.draw_series(one.bars.iter().map(shape))?;
        let label = |bar: &Bar| {
            let center = Pos::new(HPos::Center, VPos::Bottom);
            let style = ("sans-serif", 12).into_text_style(root).pos(center);
            let at = (left(bar) + width * 0.46, bar.value + top * 0.005);
            Text::new(bar.label.clone(), at, style)
        };
        chart.draw_series(one.bars.iter().map(label))?;
    }
    legend(&aside, &names)
}

/// The axis of a bar chart: group `n` lies from `n` to `n + 1`, with its name in the middle.
struct Groups {
    names: Vec<String>,
    range: RangedCoordf64,
}

impl Groups {
    fn new(groups: &[String]) -> Groups {
        Groups { names: groups.to_vec(), range: (0.0..groups.len() as f64).into() }
    }
}

impl Ranged for Groups {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        self.range.map(value, limit)
    }

    fn key_points<Hint: plotters::coord::ranged1d::KeyPointHint>(&self, _: Hint) -> Vec<f64> {
        (0..self.names.len()).map(|group| group as f64 + 0.5).collect()
    }

    fn range(&self) -> std::ops::Range<f64> {
        self.range.range()
    }
}

impl ValueFormatter<f64> for Groups {
    fn format(value: &f64) -> String {
        value.to_string()
    }

    fn format_ext(&self, value: &f64) -> String {
        self.names.get(*value as usize).cloned().unwrap_or_default()
    }
}
