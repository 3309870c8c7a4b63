//! A router as it is looked after, and as its clients see it.

use crate::in_driver::{Locked, Tended};
use ringside_control::{Asked, Status, StatusParts};
use ringside_report::route as report;
use ringside_route::{Ledger, Router};
use serde_json::Value;
use std::time::{Duration, Instant};

impl Asked for Locked<Router> {
    fn status(&self, parts: &StatusParts) -> anyhow::Result<Status> {
        let ledger = self.lock().ledger()?;
        let route = serde_json::to_value(&ledger).ok();
        Ok(Status { route, ..parts.status(report::lanes(&ledger)) })
    }
}

impl Tended for Locked<Router> {
    type Account = Ledger;

    fn tend(&self) -> anyhow::Result<Vec<String>> {
        Ok(self.lock().tend(Instant::now())?)
    }

    fn account(&self) -> anyhow::Result<Ledger> {
        Ok(self.lock().ledger()?)
    }

    fn line(now: &Ledger, before: &Ledger, elapsed: Duration) -> String {
        report::line(now, before, elapsed)
    }

    fn json(account: &Ledger) -> Value {
        serde_json::json!(account)
    }
}
