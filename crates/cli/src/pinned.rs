//! Routers, balancers and the like, with a process or pinned without one: how they are, and their
//! end.

use crate::running;
use clap::Args;
use ringside_control::Status;
use ringside_ebpf::pins::{Kind, Pins};
use ringside_report::status::since;
use ringside_sys::netns::Namespace;
use ringside_terminal::say;
use serde_json::{Value, json};
use std::io;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::SystemTime;

/// Options of the end of one.
#[derive(Args)]
pub struct OffArgs {
    /// Any of its interfaces.
    #[arg(short = 'i', long = "interface", value_name = "IF")]
    interface: String,

    /// Network namespace of the interface: a name, a path or a process id. May be left out if it
    /// is this one, or if there is only one on an interface of that name.
    #[arg(long, value_name = "NAME")]
    netns: Option<String>,
}

/// Options of a question about them.
#[derive(Args)]
pub struct StatusArgs {
    /// Only what has this interface.
    #[arg(short = 'i', long = "interface", value_name = "IF")]
    interface: Option<String>,

    /// Only this network namespace: a name, a path or a process id.
    #[arg(long, value_name = "NAME")]
    netns: Option<String>,

    /// One JSON object a line on standard output for each.
    #[arg(long)]
    json: bool,
}

/// One that is pinned, whether or not a process is there.
pub struct Pinned {
    /// Its pins, of one interface or more of one network namespace.
    pub pins: Vec<Pins>,
    /// Where the first of its names are.
    pub directory: PathBuf,
    /// What it counted so far.
    pub account: Box<dyn Fn() -> anyhow::Result<Value> + Send + Sync>,
}

/// A kind of them.
pub struct Tool {
    /// How its control sockets are called, and its accounts in JSON.
    pub kind: &'static str,
    /// What its pins are.
    pub pins: Kind,
    /// What it is, for people: with `on INTERFACE` behind it, it is there.
    pub what: &'static str,
    /// The answer if there is none.
    pub nothing: &'static str,
    /// What goes on when its process ends, if it is pinned.
    pub stays: &'static str,
    /// All that are pinned, with what could not be read.
    pub all: fn() -> (Vec<Pinned>, Vec<String>),
    /// What is pinned of interfaces of a name, and is at work no more.
    pub remains: fn(&str) -> Vec<Pins>,
    /// An account, for people.
    pub text: fn(Value) -> String,
    /// The account of a running one.
    pub account_of: fn(&Status) -> Option<&Value>,
}

impl Pinned {
    fn interfaces(&self) -> Vec<String> {
        self.pins.iter().map(|pins| pins.interface().unwrap_or_default()).collect()
    }

    fn namespace(&self) -> Option<u64> {
        self.pins.first().map(Pins::namespace)
    }

    /// True if a process looks after it; also where that cannot be found out.
    fn is_held(&self) -> bool {
        let is_held = || self.pins.iter().any(Pins::is_held);
        self.namespace().is_none_or(|namespace| running::is_held(namespace, is_held))
    }

    /// True if it is the one of this status: one process has the place.
    fn is_of(&self, status: &Status) -> bool {
        let names = self.interfaces();
        names.iter().any(|name| status.interfaces.contains(name))
            && running::namespace_of(status) == self.namespace()
            && self.is_held()
    }

    fn since(&self) -> String {
        let first = self.pins.iter().filter_map(Pins::since).min();
        since(first.unwrap_or(SystemTime::UNIX_EPOCH))
    }
}

impl Tool {
    /// Those that are pinned on an interface of this name, or all; what cannot be read is reported.
    fn pinned(&self, interface: Option<&str>) -> Vec<Pinned> {
        let (mut all, errors) = (self.all)();
        for error in errors {
            say::message(format_args!("ringside: {error}"));
        }
        let has = |one: &Pinned, wanted: &str| one.interfaces().iter().any(|name| name == wanted);
        all.retain(|one| interface.is_none_or(|wanted| has(one, wanted)));
        all
    }

    /// Prints what each has done; 1 if there is none.
    pub fn status(&self, args: &StatusArgs) -> anyhow::Result<ExitCode> {
        let wanted = args.netns.as_deref().map(Namespace::open).transpose()?;
        let wanted = wanted.map(|namespace| namespace.identity()).transpose()?;
        let mut found = running::of_kind(self.kind, args.interface.as_deref());
        found.retain(|(_, status)| wanted.is_none() || running::namespace_of(status) == wanted);
        let mut alone = self.pinned(args.interface.as_deref());
        alone.retain(|one| {
            let is_shown = found.iter().any(|(_, status)| one.is_of(status));
            !is_shown && (wanted.is_none() || one.namespace() == wanted)
        });
        if found.is_empty() && alone.is_empty() {
            running::tell_nothing(self.nothing);
            return Ok(ExitCode::from(1));
        }
        for (client, status) in &found {
            if args.json {
                say::data(json!({ "socket": client.path(), "status": status }))?;
                continue;
            }
            let account = (self.account_of)(status).cloned().unwrap_or_default();
            self.tell(&format!("process {}", status.pid), &status.started, account)?;
        }
        for one in &alone {
            let (since, account) = (one.since(), (one.account)()?);
            if args.json {
                say::data(json!({ "pinned": {
                    "interfaces": one.interfaces(),
                    "directory": one.directory,
                    "since": since,
                    self.kind: account,
                } }))?;
                continue;
            }
            self.tell("pinned", &since, account)?;
        }
        Ok(ExitCode::SUCCESS)
    }

    fn tell(&self, who: &str, since: &str, account: Value) -> io::Result<()> {
        say::data(format!("{who}, since {since}\n\n{}\n", (self.text)(account).trim_end()))
    }

    /// Says what goes on when this process is gone.
    pub fn tell_stay(&self, interface: &str, netns: Option<&str>) {
        let netns = netns.map(|netns| format!(" --netns {netns}")).unwrap_or_default();
        let Tool { kind, stays, .. } = self;
        say::message(format_args!(
            "{stays}: `ringside {kind} status -i {interface}` tells what is counted, \
             `ringside {kind} off -i {interface}{netns}` ends it"
        ));
    }

    /// Ends what is on an interface, and waits until it has; 1 if there is none.
    pub fn off(&self, args: &OffArgs) -> anyhow::Result<ExitCode> {
        let interface = args.interface.as_str();
        let given = args.netns.as_deref().map(Namespace::open).transpose()?;
        let mut found = running::of_kind(self.kind, Some(interface));
        let was_stale = running::remove_stale(self.pins, interface, given.as_ref())?;
        let mut pinned = self.pinned(Some(interface));
        let mut remains = (self.remains)(interface);
        let places = found.iter().map(|(_, status)| running::namespace_of(status));
        let places = places.chain(pinned.iter().map(Pinned::namespace));
        let places = places.chain(remains.iter().map(|left| Some(left.namespace()))).collect();
        if let Some(place) = running::place(given.as_ref(), places, interface)? {
            found.retain(|(_, status)| running::namespace_of(status) == place);
            pinned.retain(|one| one.namespace() == place);
            remains.retain(|left| Some(left.namespace()) == place);
        }
        if found.is_empty() && pinned.is_empty() && remains.is_empty() {
            running::tell_nothing(&format!("there is no {} on {interface}", self.what));
            return Ok(ExitCode::from(u8::from(!was_stale)));
        }
        found.into_iter().try_for_each(running::end)?;
        let end = |pins: &Pins| {
            running::in_namespace(given.as_ref(), pins.namespace(), || Ok(pins.end()?))
        };
        for one in &pinned {
            let names = one.interfaces().join(" ");
            one.pins.iter().try_for_each(end)?;
            say::message(format_args!("no {} is pinned on {names} any more", self.what));
            say::message((self.text)((one.account)()?).trim_end());
        }
        for left in &remains {
            end(left)?;
            say::message(format_args!("removed what was left of a {} on {interface}", self.what));
        }
        Ok(ExitCode::SUCCESS)
    }
}
