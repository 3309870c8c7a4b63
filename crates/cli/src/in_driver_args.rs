//! Options of a run whose frames stay in the driver.

use crate::control_args::ControlArgs;
use crate::in_driver::Course;
use clap::Args;
use ringside_control::ControlSocket;
use ringside_sys::netns::Namespace;
use ringside_terminal::units;
use std::time::Duration;

/// Options of a run whose frames stay in the driver. Its command has a `pin` too.
#[derive(Args)]
pub struct InDriverArgs {
    /// Network namespace of the interface: a name, a path or a process id.
    #[arg(long, value_name = "NAME")]
    pub netns: Option<String>,

    /// Return as soon as the program in the driver is at work.
    #[arg(long, requires = "pin", conflicts_with_all = ["duration", "control", "no_control"])]
    pub detach: bool,

    /// End after this time.
    #[arg(long = "for", value_name = "DURATION", value_parser = units::duration)]
    duration: Option<Duration>,

    /// JSON lines on standard output: the account each second, then the last one, and the ledger.
    #[arg(long)]
    pub json: bool,

    #[command(flatten)]
    control: ControlArgs,
}

impl InDriverArgs {
    /// Answers signals from now on, and enters the namespace.
    pub fn begin(&self) -> anyhow::Result<Course> {
        let course = Course::begin(self.duration, self.json)?;
        if let Some(name) = &self.netns {
            Namespace::open(name)?.enter()?;
        }
        Ok(course)
    }

    /// The socket of a run of this kind; none where no process stays to answer.
    pub fn control(&self, kind: &str) -> anyhow::Result<Option<ControlSocket>> {
        match self.detach {
            true => Ok(None),
            false => ControlSocket::open(&self.control.place(), kind, None),
        }
    }
}
