//! What is sent, by the options that were given; and which options are of which mode: one that the
//! chosen mode does not use is refused, not passed over.

#[cfg(test)]
mod tests;

use super::Options;
use clap::error::ErrorKind;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command};

/// What is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// Frames of our own making, if no other mode is chosen.
    Generate,
    /// Captures.
    Replay,
    /// What another interface receives.
    Relay,
    /// Bulk payload as segments.
    Stream,
}

use Mode::{Generate, Relay, Replay, Stream};

/// Every option of `send` once, by the modes that use it.
const OPTIONS: [(&[Mode], &[&str]); 9] = [
    (&[Generate, Replay, Relay, Stream], &["interface", "netns", "count", "duration", "json"]),
    (&[Generate, Stream], &["link_speed"]),
    (&[Generate, Replay, Stream], &["rate", "cpus", "mac_src", "mac_dst", "vlan"]),
    (&[Replay, Stream], &["to"]),
    (&[Replay, Relay], &["sink"]),
    (
        &[Generate],
        &[
            "size",
            "flows",
            "src",
            "dst",
            "src_port",
            "dst_port",
            "tcp",
            "checksum",
            "template",
            "no_number",
            "stamp",
            "engine",
        ],
    ),
    (
        &[Replay],
        &[
            "read",
            "speed",
            "fast",
            "max_gap",
            "loops",
            "from",
            "no_vlan",
            "address_map",
            "cut",
            "skip_unsendable",
            "no_scan",
            "retry",
            "filter",
        ],
    ),
    (&[Relay], &["relay", "relay_netns", "mtu", "fragment"]),
    (&[Stream], &["stream", "udp", "mss", "way", "from_address"]),
];

impl Mode {
    /// The mode that the options choose.
    ///
    /// # Errors
    /// An option was given that this mode does not use; both, and the fix, are named.
    pub(super) fn chosen(matches: &ArgMatches) -> Result<Mode, clap::Error> {
        let is_given = |id: &str| matches.value_source(id) == Some(ValueSource::CommandLine);
        let is_chosen = |mode: &Mode| mode.option().is_some_and(is_given);
        let mode = [Replay, Relay, Stream].into_iter().find(is_chosen).unwrap_or(Generate);
        for (modes, options) in OPTIONS.iter().filter(|(modes, _)| !modes.contains(&mode)) {
            if let Some(option) = options.iter().find(|id| is_given(id)) {
                return Err(mode.refusal(option, modes));
            }
        }
        Ok(mode)
    }

    /// The option that chooses it.
    fn option(self) -> Option<&'static str> {
        match self {
            Generate => None,
            Replay => Some("read"),
            Relay => Some("relay"),
            Stream => Some("stream"),
        }
    }

    /// What is sent, in words.
    fn what(self) -> &'static str {
        match self {
            Generate => "generated frames",
            Replay => "captures",
            Relay => "relays",
            Stream => "streams",
        }
    }

    /// Why `option`, which is of `modes`, is not taken.
    fn refusal(self, option: &str, modes: &[Mode]) -> clap::Error {
        let mut command = Options::augment_args(Command::new("send").bin_name("ringside send"));
        // Only what is built knows how its options are written.
        command.build();
        let written = |id: &str| {
            let found = command.get_arguments().find(|arg| arg.get_id() == id);
            found.map_or_else(|| id.to_owned(), |arg| format!("'{arg}'"))
        };
        let of = modes.iter().map(|mode| mode.what()).collect::<Vec<_>>().join(" and ");
        let choosing = modes.iter().filter_map(|mode| mode.option()).map(written);
        let (option, choosing) = (written(option), choosing.collect::<Vec<_>>().join(" or "));
        let message = match self.option().map(written) {
            Some(chosen) => format!(
                "{option} cannot be used with {chosen}: it is for {of}; leave one of the two out"
            ),
            None => format!(
                "{option} cannot be used with generated frames: it is for {of}; give {choosing} \
                 too, or leave it out"
            ),
        };
        clap::Error::raw(ErrorKind::ArgumentConflict, message).format(&mut command)
    }
}
