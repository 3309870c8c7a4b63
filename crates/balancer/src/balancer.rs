//! A balancer at work.

use crate::health::{Checker, Turn};
use crate::interface::{self, AddressWatch};
use crate::settings::{Settings, real_of};
use crate::{BalancerError, ConfigFile, Ledger, Setting};
use ringside_balance::config::{RealState, Vip};
use ringside_balance::{Config, Tables};
use ringside_ebpf::balance::{BalanceAttachmentConfig, BalanceProgram, BalanceRoom, Before};
use ringside_sys::clock::monotonic_ns;
use std::collections::HashMap;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// How often the file is looked at, and whether the program is in its place.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// What a balancer is to be.
#[derive(Clone, Debug)]
pub struct Options {
    /// Name of its interface, in the calling thread's network namespace.
    pub interface: String,
    /// Its configuration.
    pub config: PathBuf,
    /// Attach to the kernel's generic path if the driver refuses.
    pub generic_allowed: bool,
    /// It outlives this object and the process, and goes on with one that is pinned.
    pub is_pinned: bool,
    /// The process ends as soon as packets are balanced: no real is asked for its health.
    pub is_detached: bool,
}

/// A balancer. On drop its program is taken off, unless it is pinned.
#[derive(Debug)]
pub struct DriverBalancer {
    interface: String,
    program: BalanceProgram,
    file: ConfigFile,
    /// As the file says.
    config: Config,
    settings: Settings,
    /// Asks the reals, if the file wants it.
    checker: Option<Checker>,
    ifindex: u32,
    address: AddressWatch,
    /// In force.
    tables: Tables,
    look_at: Instant,
}

impl DriverBalancer {
    /// Packets to VIPs go to reals from somewhere in this call on. Says what people are to know.
    ///
    /// # Errors
    /// The configuration is wrong, nothing can be balanced on the interface, another balancer is
    /// there, or the kernel refused.
    pub fn open(options: &Options) -> Result<(DriverBalancer, Vec<String>), BalancerError> {
        let mut file = ConfigFile::new(&options.config);
        let config = file.read()?;
        let (device, mac) = interface::find(&options.interface)?;
        let place = BalanceAttachmentConfig {
            interface: &options.interface,
            ifindex: device.ifindex,
            generic_allowed: options.generic_allowed,
        };
        let now_ns = monotonic_ns();
        let tables = |before: Option<&Tables>| match before {
            None => Tables::new(&config, now_ns),
            Some(before) => before.next(&config, now_ns),
        };
        let flows = config.flows_per_cpu;
        let mut notes = interface::forwarding_is_off(&options.interface, &config);
        // Before the program: what cannot be had ends this call while frames still pass.
        let checker = match options.is_detached {
            true => None,
            false => checker_of(&config, &options.interface, device.ifindex)?,
        };
        let (program, tables) = if options.is_pinned {
            let opened = BalanceProgram::open_to_stay(&place, tables, (flows, mac), now_ns)?;
            let (program, tables, before) = opened;
            notes.extend(note_of(before).map(str::to_owned));
            (program, tables)
        } else {
            let tables = tables(None);
            let room = BalanceRoom::twice(&tables, flows);
            (BalanceProgram::open(&place, &tables, &room, mac)?, tables)
        };
        let refused = program.notes().iter();
        notes.extend(refused.map(|note| format!("{}: {note}", options.interface)));
        let (interface, settings) = (options.interface.clone(), Settings::default());
        let look_at = Instant::now() + LOOK_INTERVAL;
        let address = AddressWatch::new(&interface, mac);
        let mut balancer = DriverBalancer {
            interface,
            program,
            file,
            config,
            settings,
            checker: None,
            ifindex: device.ifindex,
            address,
            tables,
            look_at,
        };
        balancer.follow_reals(checker);
        Ok((balancer, notes))
    }

    /// Does what is due: follows the file. To be called some 20 times a second; most calls take no
    /// time. Gives what people are to know.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn tend(&mut self, now: Instant) -> Result<Vec<String>, BalancerError> {
        let turns = self.checker.as_mut().map_or_else(Vec::new, |checker| checker.step(now));
        if !turns.is_empty() {
            self.go_on(self.config.clone(), self.settings.clone())?;
        }
        let mut notes = self.words(&turns);
        if now >= self.look_at {
            self.look_at = now + LOOK_INTERVAL;
            if self.program.put_back_if_gone()? {
                notes.push("the program was taken off, and was put back".to_owned());
            }
            notes.extend(self.address.look());
            if self.file.has_changed() {
                notes.push(match self.follow_file() {
                    Ok(()) => format!("changed: {}", self.summary()),
                    Err(error) => format!("nothing changed: {error}"),
                });
            }
        }
        Ok(notes)
    }

    /// Reals whose answers have turned their state, for people.
    fn words(&self, turns: &[Turn]) -> Vec<String> {
        if turns.is_empty() {
            return Vec::new();
        }
        let applied = self.settings.applied(&self.config);
        let is_wanted = |turn: &Turn| {
            real_of(&applied, &turn.vip, turn.real).is_ok_and(|real| real.state == RealState::Up)
        };
        turns.iter().map(|turn| turn.words(is_wanted(turn))).collect()
    }

    /// Goes on with what the file says now.
    fn follow_file(&mut self) -> Result<(), BalancerError> {
        let config = self.file.read()?;
        let mut settings = self.settings.clone();
        settings.follow(&self.config, &config);
        self.go_on(config, settings)
    }

    /// Sets something of a real, until the file says something else of it, or the process ends.
    ///
    /// # Errors
    /// There is no such real, it cannot be so, or the kernel refused; then nothing changes.
    pub fn set(&mut self, setting: &Setting) -> Result<(), BalancerError> {
        let mut settings = self.settings.clone();
        settings.set(setting, &self.config)?;
        self.go_on(self.config.clone(), settings)
    }

    /// The same, in the file too, which stays as it is but for that.
    ///
    /// # Errors
    /// As [`set`](DriverBalancer::set); or the file was changed meanwhile or cannot be written.
    pub fn set_and_save(&mut self, setting: &Setting) -> Result<(), BalancerError> {
        if self.file.has_changed() {
            self.follow_file()?;
        }
        let mut settings = self.settings.clone();
        settings.set(setting, &self.config)?;
        let applied = settings.applied(&self.config);
        let real = real_of(&applied, &setting.vip, setting.real)?;
        self.file.save(&setting.vip, real)?;
        let config = self.file.read()?;
        settings.follow(&self.config, &config);
        settings.forget(&setting.vip, setting.real);
        self.go_on(config, settings)
    }

    /// Puts tables of a configuration in force, with what is set, and without reals that do not
    /// answer. It is one change: two would end the window of the first.
    fn go_on(&mut self, config: Config, settings: Settings) -> Result<(), BalancerError> {
        let has_changed = self.config != config;
        let checker = match &self.checker {
            None if has_changed => checker_of(&config, &self.interface, self.ifindex)?,
            _ => None,
        };
        let now_ns = monotonic_ns();
        let mut applied = settings.applied(&config);
        if let Some(checker) = &self.checker {
            checker.apply(&mut applied);
        }
        let tables = self.tables.next(&applied, now_ns);
        self.program.change(&tables, now_ns)?;
        (self.config, self.settings, self.tables) = (config, settings, tables);
        if has_changed {
            self.follow_reals(checker);
        }
        Ok(())
    }

    /// Has the reals asked that the file wants to be, by `new` if none asks yet.
    fn follow_reals(&mut self, new: Option<Checker>) {
        let checker = self.checker.take().or(new);
        self.checker = checker.filter(|_| self.config.asked().next().is_some());
        if let Some(checker) = &mut self.checker {
            checker.follow(&self.config, &self.tables.settings, Instant::now());
        }
    }

    /// How many VIPs and reals there are, for people.
    pub fn summary(&self) -> String {
        let counted = |count: usize, what: &str| {
            format!("{count} {what}{}", if count == 1 { "" } else { "s" })
        };
        let reals = self.config.vips.iter().map(|vip| vip.reals.len()).sum();
        format!("{}, {}", counted(self.config.vips.len(), "VIP"), counted(reals, "real"))
    }

    /// Bytes of all its tables.
    pub fn memory_bytes(&self) -> usize {
        self.program.memory_bytes()
    }

    /// Frames so far.
    pub fn ledger(&self) -> Ledger {
        let mut ledger = Ledger::of(&self.interface, self.program.maps());
        let applied = self.settings.applied(&self.config);
        let by_name: HashMap<&str, &Vip> =
            applied.vips.iter().map(|vip| (vip.name.as_str(), vip)).collect();
        for vip in &mut ledger.vips {
            let Some(of_config) = by_name.get(vip.name.as_str()) else { continue };
            let weights: HashMap<IpAddr, u32> =
                of_config.reals.iter().map(|real| (real.address, real.weight)).collect();
            for real in &mut vip.reals {
                real.weight = weights.get(&real.address).copied();
                real.is_set = self.settings.has(&vip.name, real.address);
                let checker = self.checker.as_ref();
                real.health = checker.and_then(|checker| checker.ledger(&vip.name, real.address));
            }
        }
        ledger
    }

    /// Takes the program off: when this returns all frames pass, and the ledger is exact and stays
    /// as it is. What is pinned goes on.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn stop(&mut self) -> Result<(), BalancerError> {
        Ok(self.program.stop()?)
    }
}

/// What asks the reals of a configuration, if it wants that.
fn checker_of(
    config: &Config,
    interface: &str,
    ifindex: u32,
) -> Result<Option<Checker>, BalancerError> {
    let is_wanted = config.asked().next().is_some();
    is_wanted.then(|| Checker::open(interface, ifindex)).transpose()
}

fn note_of(before: Before) -> Option<&'static str> {
    match before {
        Before::None => None,
        Before::GoesOn => Some("goes on with the balancer that was pinned"),
        Before::Replaced => Some(
            "the balancer that was pinned is replaced: it has too little room, or was made for \
             another number of flows or hardware address; what it counted and remembered is gone",
        ),
    }
}
