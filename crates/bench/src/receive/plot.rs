//! The figures of `bench receive` as SVG files, in the form of those that they repeat: 13 and 14 of
//! the survey of capture systems (rate by frame size, one line for each system; by queues and
//! stamps), 4.2 and 4.3 of the description of
//! HPCAP's recorder (rate without loss by frame size; rate by threads).

use super::super::network::Placement;
use super::super::plot::{Line, line_chart};
use super::contender::Kind;
use super::results::{Results, Row};
use std::path::Path;

/// Draws what there are figures for; `dir` exists.
///
/// # Errors
/// `dir` cannot be written.
pub(super) fn draw(results: &Results, dir: &Path) -> anyhow::Result<()> {
    for placement in [Placement::Own, Placement::Shared] {
        by_tool(results, placement, dir)?;
        by_queues(results, placement, dir)?;
    }
    by_threads(results, dir)?;
    let lines = lines(
        results.rows.iter().filter(|row| !row.zero_loss.is_empty()),
        |row| label(row, &row.cell.contender.to_string(), results),
        Row::zero_loss_gbit_per_s,
    );
    if !lines.is_empty() {
        let title = "Highest rate without a lost frame, the tool on a CPU of its own";
        line_chart(&dir.join("figure-4.2.svg"), title, "Gbit/s of frames", &lines)?;
    }
    Ok(())
}

/// One line for each tool, on one queue.
fn by_tool(results: &Results, placement: Placement, dir: &Path) -> anyhow::Result<()> {
    let lines = lines(
        on_one_queue(results, placement).filter(|row| row.cell.contender.threads() <= Some(1)),
        |row| row.cell.contender.to_string(),
        |row| row.median(|sample| sample.received_mps()),
    );
    if lines.is_empty() {
        return Ok(());
    }
    let file = dir.join(format!("figure-13-{}.svg", placement.name()));
    let title = format!("One queue; {}", placement.sentence());
    line_chart(&file, &title, "million frames a second, received", &lines)
}

/// One line for each number of threads a lane, with and without stamps, if there are several.
fn by_threads(results: &Results, dir: &Path) -> anyhow::Result<()> {
    let rows = || {
        let own = on_one_queue(results, Placement::Own);
        own.filter(|row| row.cell.contender.kind == Kind::Ringside)
            .filter(|row| row.cell.contender.only_counts())
    };
    if !rows().any(|row| row.cell.contender.threads() > Some(1)) {
        return Ok(());
    }
    let lines = lines(rows(), |row| row.cell.contender.to_string(), Row::received_gbit_per_s);
    let title = "Threads on one lane; the tool's threads share a CPU of their own";
    line_chart(&dir.join("figure-4.3.svg"), title, "Gbit/s of frames, received", &lines)
}

/// What was measured at full load on one queue.
fn on_one_queue(results: &Results, placement: Placement) -> impl Iterator<Item = &Row> {
    results.rows.iter().filter(move |row| {
        row.cell.placement == placement && row.cell.queues == 1 && !row.samples.is_empty()
    })
}

/// For each tool that was run on several numbers of queues a chart of its own: one line for each
/// number, with and without stamps.
fn by_queues(results: &Results, placement: Placement, dir: &Path) -> anyhow::Result<()> {
    let rows: Vec<&Row> = results
        .rows
        .iter()
        .filter(|row| row.cell.placement == placement && !row.samples.is_empty())
        .filter(|row| row.cell.contender.only_counts())
        .collect();
    let mut charts: Vec<String> = rows.iter().map(|row| chart_name(row)).collect();
    charts.dedup();
    charts.sort();
    charts.dedup();
    for chart in charts {
        let of_chart = || rows.iter().copied().filter(|row| chart_name(row) == chart);
        let mut queues: Vec<u16> = of_chart().map(|row| row.cell.queues).collect();
        queues.sort_unstable();
        queues.dedup();
        if queues.len() < 2 {
            continue;
        }
        let name = |row: &Row| {
            let stamps = match row.cell.contender.stamps_name() {
                "off" => ", no stamps",
                _ => "",
            };
            format!("{}{stamps}", queues_text(row.cell.queues))
        };
        let lines = lines(of_chart(), name, |row| row.median(|sample| sample.received_mps()));
        let file = format!("figure-14-{}-{}.svg", placement.name(), chart.replace(' ', "-"));
        let title = format!("{chart}: veth pairs of one queue each ({})", placement.name());
        line_chart(&dir.join(file), &title, "million frames a second, received", &lines)?;
    }
    Ok(())
}

/// Tool and way of waiting.
fn chart_name(row: &Row) -> String {
    let contender = &row.cell.contender;
    let threads = match contender.threads() {
        Some(threads) if threads > 1 => format!(" {threads} threads"),
        _ => String::new(),
    };
    let (name, wait) = (contender.kind.name(), contender.wait_name());
    format!("{name} {wait}{threads}").trim_end().to_owned()
}

/// The tool's name, and its queues where there are several numbers of them.
fn label(row: &Row, name: &str, results: &Results) -> String {
    let several = results.rows.iter().any(|other| other.cell.queues != row.cell.queues);
    if several { format!("{name}, {}", queues_text(row.cell.queues)) } else { name.to_owned() }
}

fn queues_text(queues: u16) -> String {
    if queues == 1 { "1 queue".into() } else { format!("{queues} queues") }
}

/// A line for each name, in the order of their first rows.
fn lines<'a>(
    rows: impl Iterator<Item = &'a Row>,
    name: impl Fn(&Row) -> String,
    value: impl Fn(&Row) -> f64,
) -> Vec<Line> {
    let rows: Vec<(String, &Row)> = rows.map(|row| (name(row), row)).collect();
    let mut names: Vec<&String> = Vec::new();
    for (name, _) in &rows {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    let line = |wanted: &String| {
        let of_line = rows.iter().filter(|(name, _)| name == wanted);
        Line::through(wanted, of_line.map(|(_, row)| (&row.cell.sizes, value(row))))
    };
    names.into_iter().map(line).collect()
}

#[cfg(test)]
mod tests;
