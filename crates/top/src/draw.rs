//! A state as a screen.

use crate::state::{Capture, State};
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Margin, Rect};
use ratatui::style::{Color, Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Paragraph, Row, Sparkline, Table};
use ringside_core::ledger::total;
use ringside_core::{LaneCounters, Ledger, Shown};
use ringside_terminal::units::{grouped, scaled};

/// Lines of each part that may be longer than the screen; what is behind them is counted.
const ROWS_MAX: usize = 8;
const KEYS: &str = "q quit   space freeze   left/right other capture   h keys";

/// Draws all of it.
pub fn screen(frame: &mut Frame<'_>, state: &State) {
    let area = frame.area();
    let [title, body, foot] =
        Layout::vertical([Constraint::Length(1), Constraint::Min(0), Constraint::Length(1)])
            .areas(area);
    let Some(look) = state.look() else {
        frame.render_widget("asking the captures ...", body);
        return;
    };
    frame.render_widget(heading(state, look.captures.len()).reversed(), title);
    frame.render_widget(footing(state, &look.errors).dim(), foot);
    match state.capture() {
        _ if state.has_help => frame.render_widget(help(), body),
        Some(capture) => self::capture(frame, body, state, capture),
        None => frame.render_widget("no capture runs", body),
    }
}

fn heading(state: &State, count: usize) -> Line<'static> {
    let Some(Capture { status, .. }) = state.capture() else { return Line::from(" ringside") };
    let of = if count > 1 { format!("{}/{count}  ", state.place() + 1) } else { String::new() };
    let seconds = status.running_ms / 1000;
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    let running = format!("{hours}:{minutes:02}:{:02}", seconds % 60);
    let to = match &status.output.paths[..] {
        [] => status.output.kind.clone(),
        paths => paths.join(", "),
    };
    let text = format!(" {of}{}  to {to}  pid {}  {running}", status.source, status.pid);
    Line::from(text.shown().to_string())
}

fn footing(state: &State, errors: &[String]) -> Line<'static> {
    let frozen = if state.is_frozen { " FROZEN  " } else { " " };
    let text = errors.first().map_or_else(|| KEYS.to_owned(), |error| error.shown().to_string());
    Line::from(format!("{frozen}{text}"))
}

fn help() -> Paragraph<'static> {
    let lines = [
        "",
        " q, Esc, Ctrl-C   end",
        " space            freeze what is shown, and go on",
        " left, right      the other captures",
        " h                these keys, and back",
        "",
        " Lost frames are red, with their causes: docs/LEDGER.md. What a rule or a",
        " trigger left out is no loss. BEHIND is what a reader has not come to yet.",
    ];
    Paragraph::new(lines.map(Line::from).to_vec())
}

fn capture(frame: &mut Frame<'_>, area: Rect, state: &State, capture: &Capture) {
    let ledger = &capture.status.ledger;
    let causes = u16::try_from(capture.losses.len().min(ROWS_MAX)).unwrap_or(0);
    let readers = u16::try_from(ledger.consumers.len().min(ROWS_MAX)).unwrap_or(0);
    let parts = [
        Constraint::Length(1),
        Constraint::Length(causes),
        Constraint::Length(1),
        Constraint::Length(4),
        Constraint::Length(1),
        Constraint::Length(1),
        Constraint::Length(readers + 1),
        Constraint::Length(1),
        Constraint::Min(0),
    ];
    let [verdict, losses, _, rates, _, ring, consumers, _, lanes] =
        Layout::vertical(parts).areas(area);
    frame.render_widget(self::verdict(capture), verdict);
    frame.render_widget(self::losses(capture), losses);
    self::rates(frame, rates, state, capture);
    frame.render_widget(self::ring(capture), ring);
    frame.render_widget(self::readers(ledger), consumers);
    frame.render_widget(self::lanes(ledger, lanes.height), lanes);
}

/// The line for which somebody looks.
fn verdict(capture: &Capture) -> Line<'static> {
    let (lost, ledger) = (total(&capture.losses), &capture.status.ledger);
    let taken = format!("   {} frames taken", grouped(ledger.taken));
    if lost == 0 {
        let good = Style::new().fg(Color::Green).add_modifier(Modifier::BOLD);
        return Line::from(vec![Span::styled(" CAPTURING, NOTHING LOST", good), taken.into()]);
    }
    let of = ledger.received.unwrap_or(ledger.taken).max(1);
    let share = lost as f64 / of as f64 * 100.0;
    let bad = Style::new().fg(Color::Red).add_modifier(Modifier::BOLD);
    let text = format!(" {} FRAMES LOST, {share:.2} %", grouped(lost));
    Line::from(vec![Span::styled(text, bad), taken.into()])
}

fn losses(capture: &Capture) -> Paragraph<'static> {
    let mut causes: Vec<_> = capture.losses.iter().collect();
    causes.sort_by_key(|(_, frames)| std::cmp::Reverse(**frames));
    let line = |(cause, &frames): (&ringside_core::Cause, &u64)| {
        Line::from(format!("{:>16}  {}", grouped(frames), cause.name())).fg(Color::Red)
    };
    Paragraph::new(causes.into_iter().take(ROWS_MAX).map(line).collect::<Vec<_>>())
}

/// Frames and bits a second, each with its past.
fn rates(frame: &mut Frame<'_>, area: Rect, state: &State, capture: &Capture) {
    let past = state.past();
    let rate = |number: Option<u64>| number.map_or("-".into(), |number| scaled(number as f64));
    let rates = capture.status.rates;
    let sides = Layout::horizontal([Constraint::Percentage(50); 2]).spacing(2).areas::<2>(area);
    let series = [
        (
            "frames/s",
            rates.map(|r| r.frames_per_second),
            past.iter().map(|m| m.frames_per_second).collect::<Vec<u64>>(),
        ),
        (
            "bit/s",
            rates.map(|r| r.bits_per_second),
            past.iter().map(|m| m.bits_per_second).collect(),
        ),
    ];
    for (side, (name, now, values)) in sides.into_iter().zip(series) {
        let [head, chart] =
            Layout::vertical([Constraint::Length(1), Constraint::Min(0)]).areas(side);
        frame.render_widget(Line::from(format!(" {name:<9}{:>9}", rate(now))).bold(), head);
        let chart = chart.inner(Margin::new(1, 0));
        // The newest stands at the right.
        let shown = &values[values.len().saturating_sub(usize::from(chart.width))..];
        frame.render_widget(Sparkline::default().data(shown).fg(Color::Cyan), chart);
    }
}

/// How full the fullest lane's part is.
fn ring(capture: &Capture) -> Line<'static> {
    const CELLS: usize = 40;
    let Some(ring) = &capture.status.ring else { return Line::from(" no ring: counts only") };
    let held = ring.held_bytes.iter().max().copied().unwrap_or(0);
    let part = (held as f64 / ring.lane_bytes.max(1) as f64).min(1.0);
    let full = (part * CELLS as f64).round() as usize;
    let bar = format!("{}{}", "#".repeat(full), ".".repeat(CELLS - full));
    let colour = if part > 0.8 { Color::Yellow } else { Color::Reset };
    let readers = capture.status.readers.map_or(String::new(), |n| format!("   {n} attached"));
    let text = format!(" ring  [{bar}] {:>3.0} %", part * 100.0);
    Line::from(vec![Span::styled(text, colour), readers.into()])
}

fn readers(ledger: &Ledger) -> Table<'static> {
    let rows = ledger.consumers.iter().take(ROWS_MAX).map(|consumer| {
        let missed = total(&consumer.missed);
        let got = consumer.delivered.saturating_add(missed);
        let numbers = [consumer.delivered, missed, consumer.late, ledger.taken.saturating_sub(got)];
        let is_bad = ringside_core::ledger::lost(&consumer.missed) > 0;
        row(format!(" {}", consumer.name.shown()), numbers.map(grouped), is_bad)
    });
    table(rows.collect(), " READER", ["DELIVERED", "MISSED", "LATE", "BEHIND"])
}

fn lanes(ledger: &Ledger, height: u16) -> Table<'static> {
    let lines = usize::from(height).saturating_sub(1);
    let hidden = ledger.lanes.len().saturating_sub(lines);
    let shown = if hidden > 0 { lines.saturating_sub(1) } else { lines };
    let mut rows: Vec<Row<'static>> = ledger.lanes.iter().take(shown).map(lane).collect();
    if hidden > 0 {
        let rest = LaneCounters::sum(ledger.lanes.iter().skip(shown));
        let name = format!(" and {} more", ledger.lanes.len() - shown);
        rows.push(lane_row(name, &rest));
    }
    table(rows, " LANE", ["RECEIVED", "TAKEN", "FILTERED", "DROPPED"])
}

fn lane(lane: &LaneCounters) -> Row<'static> {
    lane_row(format!(" {} {}", lane.interface.shown(), lane.queue), lane)
}

fn lane_row(name: String, lane: &LaneCounters) -> Row<'static> {
    let counted = |count: Option<u64>| count.map_or("-".into(), grouped);
    let dropped = grouped(total(&lane.dropped));
    let numbers = [counted(lane.received), grouped(lane.taken), counted(lane.filtered), dropped];
    row(name, numbers, ringside_core::ledger::lost(&lane.dropped) > 0)
}

fn row(name: String, numbers: [String; 4], is_bad: bool) -> Row<'static> {
    let style = if is_bad { Style::new().fg(Color::Red) } else { Style::new() };
    let cells = numbers.map(|text| Cell::from(Line::from(text).right_aligned()));
    Row::new(std::iter::once(Cell::from(name)).chain(cells)).style(style)
}

fn table(rows: Vec<Row<'static>>, name: &'static str, heads: [&'static str; 4]) -> Table<'static> {
    let cells = heads.map(|head| Cell::from(Line::from(head).right_aligned()));
    let head = Row::new(std::iter::once(Cell::from(name)).chain(cells)).dim();
    let widths = [Constraint::Fill(1)].into_iter().chain([Constraint::Length(15); 4]);
    Table::new(rows, widths).header(head)
}

#[cfg(test)]
mod tests;
