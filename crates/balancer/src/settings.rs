//! What is set while a balancer runs, in place of what its file says.

use crate::BalancerError;
use ringside_balance::Config;
use ringside_balance::config::{DRAIN_DEFAULT_S, Real, RealState, SECONDS_MAX};
use ringside_balance::maglev::WEIGHT_MAX;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// A state that a real is to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetState {
    /// New flows and old ones.
    Up,
    /// Old ones until a deadline.
    Draining,
    /// None.
    Down,
    /// What the file says, of the weight too.
    AsInFile,
}

/// What is to be set of one real.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Name of the VIP.
    pub vip: String,
    /// Address of the real.
    pub real: IpAddr,
    /// Its state; as it is where none is given.
    pub state: Option<SetState>,
    /// Seconds that it drains.
    pub drain_s: Option<u32>,
    /// Its weight; as it is where none is given.
    pub weight: Option<u32>,
}

/// What is set of a real.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Set {
    state: Option<RealState>,
    weight: Option<u32>,
}

/// All that is set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Settings(BTreeMap<(String, IpAddr), Set>);

impl Settings {
    /// Sets something of a real of this configuration.
    pub fn set(&mut self, setting: &Setting, config: &Config) -> Result<(), BalancerError> {
        let Setting { vip, real, .. } = setting;
        real_of(config, vip, *real)?;
        in_range("the weight", setting.weight.unwrap_or(0), WEIGHT_MAX)?;
        in_range("the time to drain", setting.drain_s.unwrap_or(0), SECONDS_MAX)?;
        if setting.state.is_none() && setting.weight.is_none() {
            return Err(BalancerError::Nothing);
        }
        if setting.drain_s.is_some() && setting.state != Some(SetState::Draining) {
            return Err(BalancerError::NotDraining);
        }
        let key = (vip.clone(), *real);
        let mut set = self.0.get(&key).copied().unwrap_or_default();
        match setting.state {
            None => {}
            Some(SetState::AsInFile) => set = Set::default(),
            Some(SetState::Up) => set.state = Some(RealState::Up),
            Some(SetState::Down) => set.state = Some(RealState::Down),
            Some(SetState::Draining) => {
                let drain_s = setting.drain_s.unwrap_or(DRAIN_DEFAULT_S);
                set.state = Some(RealState::Draining { drain_s });
            }
        }
        set.weight = setting.weight.or(set.weight);
        match set == Set::default() {
            true => self.0.remove(&key),
            false => self.0.insert(key, set),
        };
        Ok(())
    }

    /// What the file says of a real counts.
    pub fn forget(&mut self, vip: &str, real: IpAddr) {
        self.0.remove(&(vip.to_owned(), real));
    }

    /// True if something of a real is set.
    pub fn has(&self, vip: &str, real: IpAddr) -> bool {
        self.0.contains_key(&(vip.to_owned(), real))
    }

    /// The file has changed: what it says anew of a real counts, and of those that it has no more
    /// nothing is kept.
    pub fn follow(&mut self, before: &Config, now: &Config) {
        let said = |config: &Config, vip: &str, real: IpAddr| {
            let real = real_of(config, vip, real).ok()?;
            Some((real.state, real.weight))
        };
        self.0.retain(|(vip, real), _| {
            let says = said(now, vip, *real);
            says.is_some() && says == said(before, vip, *real)
        });
    }

    /// The configuration with all that is set.
    pub fn applied(&self, config: &Config) -> Config {
        let mut config = config.clone();
        for vip in &mut config.vips {
            for real in &mut vip.reals {
                let Some(set) = self.0.get(&(vip.name.clone(), real.address)) else { continue };
                real.state = set.state.unwrap_or(real.state);
                real.weight = set.weight.unwrap_or(real.weight);
            }
        }
        config
    }
}

/// A real by the names that people give.
pub(crate) fn real_of<'c>(
    config: &'c Config,
    name: &str,
    address: IpAddr,
) -> Result<&'c Real, BalancerError> {
    /// Names that are listed.
    const TOLD_MAX: usize = 10;
    let vip = config.vips.iter().find(|vip| vip.name == name).ok_or_else(|| {
        let known: Vec<&str> = config.vips.iter().map(|vip| &vip.name[..]).take(TOLD_MAX).collect();
        BalancerError::NoVip { name: name.to_owned(), known: known.join(", ") }
    })?;
    vip.reals.iter().find(|real| real.address == address).ok_or_else(|| {
        let known = vip.reals.iter().map(|real| real.address.to_string()).take(TOLD_MAX);
        let known = known.collect::<Vec<_>>().join(", ");
        BalancerError::NoReal { vip: name.to_owned(), address, known }
    })
}

fn in_range(what: &'static str, value: u32, max: u32) -> Result<(), BalancerError> {
    match value <= max {
        true => Ok(()),
        false => Err(BalancerError::Range { what, value, min: 0, max }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(reals: &[(&str, &str)]) -> Config {
        let mut text = "source_v4 = \"10.9.0.0/16\"\n[[vip]]\nname = \"web\"\n".to_owned();
        text += "address = \"192.0.2.1\"\nprotocol = \"tcp\"\n";
        for (real, rest) in reals {
            text += &format!("[[vip.real]]\naddress = \"{real}\"\n{rest}\n");
        }
        Config::read(text.as_bytes()).unwrap()
    }

    fn setting(real: &str, state: Option<SetState>, weight: Option<u32>) -> Setting {
        let (vip, real, drain_s) = ("web".to_owned(), real.parse().unwrap(), None);
        Setting { vip, real, state, drain_s, weight }
    }

    #[test]
    fn what_is_set_counts_until_the_file_says_something_else_of_that_real() {
        let first = config(&[("10.0.0.1", ""), ("10.0.0.2", "weight = 3")]);
        let mut settings = Settings::default();
        settings.set(&setting("10.0.0.1", Some(SetState::Draining), None), &first).unwrap();
        settings.set(&setting("10.0.0.1", None, Some(7)), &first).unwrap();
        settings.set(&setting("10.0.0.2", Some(SetState::Down), None), &first).unwrap();
        let applied = settings.applied(&first);
        let [one, two] = &applied.vips[0].reals[..] else { panic!("{applied:?}") };
        assert_eq!((one.state, one.weight), (RealState::Draining { drain_s: 300 }, 7));
        assert_eq!((two.state, two.weight), (RealState::Down, 3));
        // One more real changes neither, another weight of the second one changes that.
        let next = config(&[("10.0.0.3", ""), ("10.0.0.1", ""), ("10.0.0.2", "weight = 4")]);
        settings.follow(&first, &next);
        assert!(settings.has("web", "10.0.0.1".parse().unwrap()));
        assert!(!settings.has("web", "10.0.0.2".parse().unwrap()));
        settings.set(&setting("10.0.0.1", Some(SetState::AsInFile), None), &next).unwrap();
        assert_eq!(settings, Settings::default());
        settings.set(&setting("10.0.0.3", None, Some(0)), &next).unwrap();
        settings.follow(&next, &first);
        assert_eq!(settings, Settings::default(), "it is gone");
    }

    #[test]
    fn what_cannot_be_set_is_refused_with_what_there_is() {
        let config = config(&[("10.0.0.1", "")]);
        let refused = |setting: Setting| {
            let error = Settings::default().set(&setting, &config).unwrap_err();
            error.to_string()
        };
        let up = || setting("10.0.0.1", Some(SetState::Up), None);
        let text = refused(Setting { vip: "x".into(), ..up() });
        assert!(text.contains("there are web"), "{text}");
        let text = refused(setting("10.0.0.9", Some(SetState::Up), None));
        assert!(text.contains("it has 10.0.0.1"), "{text}");
        let text = refused(setting("10.0.0.1", None, Some(70_000)));
        assert!(text.contains("0 to 65535"), "{text}");
        assert!(refused(setting("10.0.0.1", None, None)).contains("nothing was set"));
        assert!(refused(Setting { drain_s: Some(1), ..up() }).contains("draining alone"));
    }
}
