//! The link of a card. The kernel has no interface of it, so nothing else says that it is down.

use ringside_dpdk::Port;
use std::time::{Duration, Instant};

/// How long it may take to come up: some cards receive only seconds after they were started.
const UP_MAX: Duration = Duration::from_secs(9);

/// Time between two looks. A card is asked over its bus, and its frames wait meanwhile.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// A link as it was last seen.
#[derive(Debug)]
pub(super) struct Link {
    name: String,
    is_up: bool,
    looked: Instant,
}

impl Link {
    /// That of the card `name`, after a time to come up. Of a driver that does not say, it is up.
    pub fn of(port: &Port, name: &str) -> Link {
        let start = Instant::now();
        while port.link_is_up() == Ok(false) && start.elapsed() < UP_MAX {
            std::thread::sleep(Duration::from_millis(10));
        }
        let mut link = Link { name: name.to_owned(), is_up: true, looked: start };
        link.watch(port);
        link
    }

    /// Says what has changed since the last look.
    pub fn watch(&mut self, port: &Port) {
        if self.looked.elapsed() < LOOK_INTERVAL {
            return;
        }
        self.looked = Instant::now();
        let change = port.link_is_up().ok().and_then(|is_up| self.change(is_up));
        if let Some(change) = change {
            tracing::warn!("{change}");
        }
    }

    fn change(&mut self, is_up: bool) -> Option<String> {
        let name = &self.name;
        let change = match (self.is_up, is_up) {
            (true, false) => format!("{name}: its link is down; frames come once it is up"),
            (false, true) => format!("{name}: its link is up again"),
            _ => return None,
        };
        self.is_up = is_up;
        Some(change)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_change_is_said_once() {
        let mut link = Link { name: "card".into(), is_up: true, looked: Instant::now() };
        let said = [true, false, false, true, true].map(|is_up| link.change(is_up));
        let said = said.map(|change| change.unwrap_or_default());
        let [first, down, still, up, last] = said.each_ref().map(String::as_str);
        assert_eq!([first, still, last], [""; 3]);
        assert_eq!(down, "card: its link is down; frames come once it is up");
        assert_eq!(up, "card: its link is up again");
    }
}
