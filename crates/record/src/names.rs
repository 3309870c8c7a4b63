//! Schemes of names.

use thiserror::Error;

/// A scheme of names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Names {
    /// Ours: everything that a record has.
    #[default]
    Ringside,
    /// Zeek's logs, as its JSON writer has them: dots are part of a name.
    Zeek,
    /// Suricata's eve.json.
    Eve,
    /// Elastic Common Schema.
    Ecs,
    /// OpenTelemetry's semantic conventions, as attributes: dots are part of a name.
    Otel,
}

/// A name of no scheme.
#[derive(Debug, Error)]
#[error("{name}: no such scheme of names; there are {}", Names::ALL.map(Names::name).join(", "))]
pub struct UnknownNames {
    name: String,
}

impl Names {
    /// All schemes.
    pub const ALL: [Names; 5] = [Names::Ringside, Names::Zeek, Names::Eve, Names::Ecs, Names::Otel];

    /// The scheme's name, as `--names` takes it.
    pub fn name(self) -> &'static str {
        match self {
            Names::Ringside => "ringside",
            Names::Zeek => "zeek",
            Names::Eve => "eve",
            Names::Ecs => "ecs",
            Names::Otel => "otel",
        }
    }

    /// True where dots in a name are levels of objects.
    pub(crate) fn has_levels(self) -> bool {
        matches!(self, Names::Eve | Names::Ecs)
    }
}

impl std::str::FromStr for Names {
    type Err = UnknownNames;

    /// # Errors
    /// There is no such scheme.
    fn from_str(name: &str) -> Result<Names, UnknownNames> {
        let found = Names::ALL.into_iter().find(|names| names.name() == name);
        found.ok_or_else(|| UnknownNames { name: name.into() })
    }
}
