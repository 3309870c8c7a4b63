//! The terminal, its keys, and the thread that asks.

use crate::draw::screen;
use crate::state::{Capture, Look, Order, State};
use anyhow::Context;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ringside_control::{Client, Command, Found};
use ringside_report::losses;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

/// How often the captures are asked.
const INTERVAL: Duration = Duration::from_secs(1);
/// How often keys and the order to stop are looked at.
const TICK: Duration = Duration::from_millis(50);

/// What running captures say: the one at `socket`, or all.
pub fn ask(socket: Option<&Path>) -> Look {
    let mut found = Found::at(socket);
    let mut look = Look::default();
    for client in &mut found.clients {
        match status(client) {
            Ok(capture) => look.captures.extend(capture),
            Err(error) => found.errors.push(error),
        }
    }
    look.errors = found.errors.iter().map(|error| format!("{error:#}")).collect();
    look.captures.sort_by_key(|capture| capture.status.pid);
    look
}

fn status(client: &mut Client) -> anyhow::Result<Option<Capture>> {
    let status = client.ask(&Command::Status {})?.status;
    Ok(status.map(|status| Capture { losses: losses(&status.ledger), status: *status }))
}

/// Shows `first`, and what is asked from then on, until a key or `is_stopped` ends it.
///
/// # Errors
/// The terminal cannot be used.
pub fn run(
    socket: Option<PathBuf>,
    first: Look,
    is_stopped: &dyn Fn() -> bool,
) -> anyhow::Result<()> {
    let (looks, seen) = mpsc::channel();
    let (end, ended) = mpsc::channel();
    let asking = std::thread::Builder::new()
        .name("ask".into())
        .spawn(move || ask_on(socket.as_deref(), &looks, &ended))
        .context("starting the thread that asks")?;
    let mut state = State::default();
    state.see(first);
    let mut terminal = ratatui::try_init().context("taking the terminal")?;
    let shown = show(&mut terminal, &mut state, &seen, is_stopped);
    ratatui::restore();
    drop((end, seen));
    // It may wait for a capture that stands still, for some seconds.
    drop(asking);
    shown
}

/// Asks each second, on a thread of its own: a capture that stands still holds up no key.
fn ask_on(socket: Option<&Path>, looks: &Sender<Look>, ended: &Receiver<()>) {
    while ended.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
        if looks.send(ask(socket)).is_err() {
            return;
        }
    }
}

fn show(
    terminal: &mut ratatui::DefaultTerminal,
    state: &mut State,
    seen: &Receiver<Look>,
    is_stopped: &dyn Fn() -> bool,
) -> anyhow::Result<()> {
    let mut is_changed = true;
    while !is_stopped() {
        if is_changed {
            terminal.draw(|frame| screen(frame, state)).context("writing to the terminal")?;
        }
        is_changed = false;
        if event::poll(TICK).context("reading keys")? {
            is_changed = true;
            if let Event::Key(key) = event::read().context("reading keys")?
                && key.kind == KeyEventKind::Press
            {
                if is_end(key) {
                    return Ok(());
                }
                order(key).into_iter().for_each(|order| state.obey(order));
            }
        }
        for look in seen.try_iter() {
            state.see(look);
            is_changed = true;
        }
    }
    Ok(())
}

fn is_end(key: KeyEvent) -> bool {
    let is_interrupt =
        key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
    is_interrupt || matches!(key.code, KeyCode::Esc | KeyCode::Char('q' | 'Q'))
}

fn order(key: KeyEvent) -> Option<Order> {
    match key.code {
        KeyCode::Left | KeyCode::BackTab => Some(Order::Move(-1)),
        KeyCode::Right | KeyCode::Tab => Some(Order::Move(1)),
        KeyCode::Char(' ' | 'p') => Some(Order::Freeze),
        KeyCode::Char('h' | '?') => Some(Order::Help),
        _ => None,
    }
}
