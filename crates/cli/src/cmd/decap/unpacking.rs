//! The end of tunnels as it is looked after, and as its clients see it.

use crate::in_driver::{Locked, Tended};
use ringside_balancer::{DecapLedger, DriverDecap};
use ringside_control::{Asked, Status, StatusParts};
use ringside_report::balance as report;
use serde_json::Value;
use std::time::{Duration, Instant};

impl Asked for Locked<DriverDecap> {
    fn status(&self, parts: &StatusParts) -> anyhow::Result<Status> {
        let ledger = self.lock().ledger();
        let decap = serde_json::to_value(&ledger).ok();
        Ok(Status { decap, ..parts.status(report::decap_lanes(&ledger)) })
    }
}

impl Tended for Locked<DriverDecap> {
    type Account = DecapLedger;

    fn tend(&self) -> anyhow::Result<Vec<String>> {
        Ok(self.lock().tend(Instant::now())?)
    }

    fn account(&self) -> anyhow::Result<DecapLedger> {
        Ok(self.lock().ledger())
    }

    fn line(now: &DecapLedger, before: &DecapLedger, elapsed: Duration) -> String {
        report::decap_line(now, before, elapsed)
    }

    fn json(account: &DecapLedger) -> Value {
        serde_json::json!(account)
    }
}
