//! A balancer as it is looked after, and as its clients see it.

use crate::in_driver::{Locked, Tended};
use ringside_balancer::{DriverBalancer, Ledger, SetState, Setting};
use ringside_control::{
    Asked, BalanceCommand, Command, Reply, SetState as Asking, Status, StatusParts,
    not_for_this_run,
};
use ringside_report::balance as report;
use serde_json::Value;
use std::time::{Duration, Instant};

fn set(balancer: &Locked<DriverBalancer>, command: BalanceCommand) -> Reply {
    let BalanceCommand::Set { vip, real, state, drain_s, weight, save } = command;
    let state = state.map(|state| match state {
        Asking::Up => SetState::Up,
        Asking::Draining => SetState::Draining,
        Asking::Down => SetState::Down,
        Asking::File => SetState::AsInFile,
    });
    let setting = Setting { vip, real, state, drain_s, weight };
    let set = match save {
        true => balancer.lock().set_and_save(&setting),
        false => balancer.lock().set(&setting),
    };
    match set {
        Ok(()) => Reply::done(),
        Err(error) => Reply::refused(&error.to_string()),
    }
}

impl Asked for Locked<DriverBalancer> {
    fn status(&self, parts: &StatusParts) -> anyhow::Result<Status> {
        let ledger = self.lock().ledger();
        let balance = serde_json::to_value(&ledger).ok();
        Ok(Status { balance, ..parts.status(report::lanes(&ledger)) })
    }

    fn answer(&self, command: Command) -> Reply {
        match command {
            Command::Balance(command) => set(self, command),
            other => not_for_this_run(&other),
        }
    }
}

impl Tended for Locked<DriverBalancer> {
    type Account = Ledger;

    fn tend(&self) -> anyhow::Result<Vec<String>> {
        Ok(self.lock().tend(Instant::now())?)
    }

    fn account(&self) -> anyhow::Result<Ledger> {
        Ok(self.lock().ledger())
    }

    fn line(now: &Ledger, before: &Ledger, elapsed: Duration) -> String {
        report::line(now, before, elapsed)
    }

    fn json(account: &Ledger) -> Value {
        serde_json::json!(account)
    }
}
