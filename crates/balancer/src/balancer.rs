//! A balancer at work.

use crate::health::Checker;
use crate::settings::{Settings, real_of};
use crate::{BalancerError, ConfigFile, Ledger, Setting, interface};
use ringside_balance::{Config, Tables};
use ringside_ebpf::balance::{BalanceAttachmentConfig, BalanceProgram, BalanceRoom, Before};
use ringside_sys::clock::monotonic_ns;
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
        let mut balancer = DriverBalancer {
            interface,
            program,
            file,
            config,
            settings,
            checker: None,
            ifindex: device.ifindex,
            tables,
            look_at,
        };
        balancer.follow_reals()?;
        Ok((balancer, notes))
    }

    /// Does what is due: follows the file. To be called some 20 times a second; most calls take no
    /// time. Gives what people are to know.
    ///
    /// # Errors
    /// The kernel refused.
    pub fn tend(&mut self, now: Instant) -> Result<Vec<String>, BalancerError> {
        let mut notes = self.checker.as_mut().map_or_else(Vec::new, |checker| checker.step(now));
        if !notes.is_empty() {
            self.go_on(self.config.clone(), self.settings.clone())?;
        }
        if now >= self.look_at {
            self.look_at = now + LOOK_INTERVAL;
            if self.program.put_back_if_gone()? {
                notes.push("the program was taken off, and was put back".to_owned());
            }
            if self.file.has_changed() {
                notes.push(match self.follow_file() {
                    Ok(()) => format!("changed: {}", self.summary()),
                    Err(error) => format!("nothing changed: {error}"),
                });
            }
        }
        Ok(notes)
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
        self.set(setting)?;
        let applied = self.settings.applied(&self.config);
        let real = real_of(&applied, &setting.vip, setting.real)?.clone();
        self.file.save(&setting.vip, &real)?;
        let config = self.file.read()?;
        let mut settings = self.settings.clone();
        settings.follow(&self.config, &config);
        settings.forget(&setting.vip, setting.real);
        self.go_on(config, settings)
    }

    /// Puts tables of a configuration in force, with what is set, and without reals that do not
    /// answer.
    fn go_on(&mut self, config: Config, settings: Settings) -> Result<(), BalancerError> {
        let now_ns = monotonic_ns();
        let mut applied = settings.applied(&config);
        if let Some(checker) = &self.checker {
            checker.apply(&mut applied);
        }
        let tables = self.tables.next(&applied, now_ns);
        self.program.change(&tables, now_ns)?;
        let has_changed = self.config != config;
        (self.config, self.settings, self.tables) = (config, settings, tables);
        if has_changed { self.follow_reals() } else { Ok(()) }
    }

    /// Has the reals asked that the file wants to be.
    fn follow_reals(&mut self) -> Result<(), BalancerError> {
        if self.config.asked().next().is_none() {
            self.checker = None;
            return Ok(());
        }
        let checker = match self.checker.take() {
            Some(checker) => checker,
            None => Checker::open(&self.interface, self.ifindex)?,
        };
        let checker = self.checker.insert(checker);
        checker.follow(&self.config, &self.tables.settings, Instant::now());
        Ok(())
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
        for vip in &mut ledger.vips {
            let Some(of_config) = applied.vips.iter().find(|one| one.name == vip.name) else {
                continue;
            };
            let weights: std::collections::HashMap<_, _> =
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
