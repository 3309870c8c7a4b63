//! What was lost, by cause, wherever it was.

use ringside_core::Ledger;
use ringside_core::ledger::{ByCause, add_frames};

/// What was lost in either stage; what a rule or trigger left out is no loss.
pub fn losses(ledger: &Ledger) -> ByCause {
    let mut losses = ByCause::new();
    let stages = ledger.consumers.iter().map(|one| &one.missed).chain([&ledger.dropped]);
    for (&cause, &frames) in stages.flatten().filter(|(cause, _)| cause.is_loss()) {
        add_frames(&mut losses, cause, frames);
    }
    losses
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringside_core::ledger::total;
    use ringside_core::{Cause, Consumer};

    #[test]
    fn losses_are_those_of_the_ledger() {
        let missed = ByCause::from([(Cause::DiskFull, 2), (Cause::OutsideTrigger, 9)]);
        let dropped = ByCause::from([(Cause::KernelRingFull, 3), (Cause::ByRule, 7)]);
        let consumer = Consumer { missed, ..Consumer::default() };
        let consumers = vec![consumer.clone(), consumer];
        let ledger = Ledger { dropped, consumers, ..Ledger::default() };
        let losses = losses(&ledger);
        assert_eq!(total(&losses), ledger.lost());
        assert_eq!(losses, ByCause::from([(Cause::DiskFull, 4), (Cause::KernelRingFull, 3)]));
    }
}
