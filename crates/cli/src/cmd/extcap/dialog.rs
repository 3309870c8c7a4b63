//! The dialog that Wireshark shows for each origin of packets, and the subcommand that it stands
//! for. The lines are those of extcap(4).

use super::Origin;
use anyhow::Context;
use clap::Args;
use ringside_core::limits::FRAME_BYTES_MAX;
use ringside_session::{BACKENDS, interfaces};
use std::ffi::OsString;
use std::fmt::{Display, Write};

/// What came is written as pcapng, which names the link types itself.
pub const LINK_TYPE: &str = "dlt {number=1}{name=EN10MB}{display=Ethernet, or what the file says}";

/// Values of the dialog. Wireshark leaves out those that are not filled in.
#[derive(Args)]
pub struct Dialog {
    /// ringside-live: interface, by name.
    #[arg(long, value_name = "IF")]
    interface: Option<OsString>,

    /// ringside-live: backend.
    #[arg(long, value_name = "NAME")]
    backend: Option<OsString>,

    /// ringside-live: bytes of each frame.
    #[arg(long, value_name = "BYTES")]
    snaplen: Option<OsString>,

    /// ringside-share: the socket that `ringside capture --share` made.
    #[arg(long, value_name = "SOCKET")]
    socket: Option<OsString>,

    /// ringside-share: how much of the past, as 30s.
    #[arg(long, value_name = "DURATION")]
    past: Option<OsString>,

    /// ringside-recording: directory or file.
    #[arg(long, value_name = "DIR|FILE")]
    recording: Option<OsString>,

    /// ringside-recording: from when, as for `ringside read --from`.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    from: Option<OsString>,

    /// ringside-recording: up to when.
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    to: Option<OsString>,

    /// ringside-recording: so long up to the newest packet, as 10m.
    #[arg(long, value_name = "DURATION")]
    last: Option<OsString>,
}

/// The list of interfaces.
pub fn interfaces() -> String {
    let version = env!("CARGO_PKG_VERSION");
    format!(
        "extcap {{version={version}}}{{display=Ringside}}\n\
         interface {{value=ringside-live}}{{display=Ringside: live}}\n\
         interface {{value=ringside-share}}{{display=Ringside: a capture that runs}}\n\
         interface {{value=ringside-recording}}{{display=Ringside: a recording}}"
    )
}

impl Dialog {
    /// The fields of the dialog for `origin`.
    ///
    /// # Errors
    /// The system does not list its interfaces.
    pub fn describe(&self, origin: Origin) -> anyhow::Result<String> {
        let mut fields = Fields::default();
        match origin {
            Origin::Live => {
                fields.add("interface", "Interface", "selector", "{required=true}");
                let devices = interfaces::in_order()?;
                let names = devices.iter().map(|device| device.name.as_str());
                fields.values(names.chain([interfaces::ANY]), "");
                let tooltip = "{tooltip=What receives the frames; ringside backends lists them}";
                fields.add("backend", "Backend", "selector", tooltip);
                fields.values(BACKENDS.iter().map(|one| one.name).chain(["auto"]), "auto");
                let range = format!("{{range=0,{FRAME_BYTES_MAX}}}{{tooltip=0: whole frames}}");
                fields.add("snaplen", "Bytes of each frame", "unsigned", &range);
            }
            Origin::Share => {
                let tooltip = "{tooltip=Made by ringside capture --share}{required=true}";
                fields.add("socket", "Socket", "string", tooltip);
                let tooltip = "{placeholder=30s}{tooltip=What the memory holds is shown first}";
                fields.add("past", "Begin so long ago", "string", tooltip);
            }
            Origin::Recording => {
                let tooltip = "{tooltip=Of a recording the directory}{required=true}";
                fields.add("recording", "Directory or file", "string", tooltip);
                let when = "{placeholder=2026-03-01T12:00:00Z}";
                fields.add("from", "From", "string", when);
                fields.add("to", "To", "string", when);
                let tooltip = "{placeholder=10m}{tooltip=Up to the newest packet}";
                fields.add("last", "Or only the last", "string", tooltip);
            }
        }
        Ok(fields.text)
    }

    /// The arguments of the subcommand that brings the packets.
    ///
    /// # Errors
    /// A field that is needed is empty.
    pub fn command(&self, origin: Origin, filter: Option<String>) -> anyhow::Result<Vec<OsString>> {
        let (subcommand, input, options) = match origin {
            Origin::Live => {
                let input = self.interface.as_ref().context("--interface is missing")?;
                let options = [("--backend", &self.backend), ("--snaplen", &self.snaplen)];
                ("capture", ["--interface".into(), input.clone()].to_vec(), options.to_vec())
            }
            Origin::Share => {
                let input = self.socket.clone().context("--socket is missing")?;
                ("attach", vec![input], Vec::new())
            }
            Origin::Recording => {
                let input = self.recording.as_ref().context("--recording is missing")?;
                let options = [("--from", &self.from), ("--to", &self.to), ("--last", &self.last)];
                ("read", ["--read".into(), input.clone()].to_vec(), options.to_vec())
            }
        };
        let mut all = vec![subcommand.into()];
        all.extend(input);
        all.extend(["--write".into(), "-".into()]);
        for (option, value) in options {
            all.extend(filled(value).into_iter().flat_map(|value| [option.into(), value]));
        }
        if let Some(past) = filled(&self.past).filter(|_| origin == Origin::Share) {
            let mut ago = OsString::from("-");
            ago.push(past);
            all.extend(["--from".into(), ago]);
        }
        let filter = filter.filter(|filter| !filter.trim().is_empty());
        all.extend(filter.into_iter().flat_map(|filter| ["-f".into(), filter.into()]));
        Ok(all)
    }
}

/// Wireshark may also give a field that is empty.
fn filled(value: &Option<OsString>) -> Option<OsString> {
    value.clone().filter(|value| !value.is_empty())
}

/// Lines of a dialog.
#[derive(Default)]
struct Fields {
    text: String,
    count: usize,
}

impl Fields {
    fn add(&mut self, call: &str, display: &str, kind: &str, more: &str) {
        let number = self.count;
        self.line(format_args!(
            "arg {{number={number}}}{{call=--{call}}}{{display={display}}}{{type={kind}}}{more}"
        ));
        self.count += 1;
    }

    /// Values to choose from of the field before. A name with braces cannot be said.
    fn values<'v>(&mut self, names: impl Iterator<Item = &'v str>, chosen: &str) {
        let number = self.count.saturating_sub(1);
        for name in names.filter(|name| !name.contains(['{', '}'])) {
            let is_chosen = name == chosen;
            self.line(format_args!(
                "value {{arg={number}}}{{value={name}}}{{display={name}}}{{default={is_chosen}}}"
            ));
        }
    }

    fn line(&mut self, line: impl Display) {
        let separator = if self.text.is_empty() { "" } else { "\n" };
        write!(self.text, "{separator}{line}").expect("a String takes every write");
    }
}

#[cfg(test)]
mod tests {
    use super::super::ExtcapArgs;
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        args: ExtcapArgs,
    }

    fn command(origin: Origin, given: &[&str]) -> anyhow::Result<Vec<String>> {
        let base = ["extcap", "--capture", "--fifo", "x", "--extcap-interface", "ringside-live"];
        let parsed = Program::try_parse_from(base.iter().chain(given)).unwrap();
        let made = parsed.args.dialog.command(origin, parsed.args.extcap_capture_filter.clone())?;
        Ok(made.into_iter().map(|word| word.into_string().unwrap()).collect())
    }

    #[test]
    fn what_the_dialog_says_becomes_a_subcommand() {
        let live = ["--interface", "eth1", "--backend", "auto", "--snaplen", "96"];
        let filter = ["--extcap-capture-filter", "port 53"];
        let made = command(Origin::Live, &[&live[..], &filter].concat()).unwrap().join(" ");
        assert_eq!(
            made,
            "capture --interface eth1 --write - --backend auto --snaplen 96 -f port 53"
        );
        let made = command(Origin::Share, &["--socket", "s", "--past", "30s"]).unwrap().join(" ");
        assert_eq!(made, "attach s --write - --from -30s");
        let made = command(Origin::Recording, &["--recording", "d", "--last", "", "--from", "-1m"]);
        assert_eq!(made.unwrap().join(" "), "read --read d --write - --from -1m");
        for (origin, missing) in [
            (Origin::Live, "--interface"),
            (Origin::Share, "--socket"),
            (Origin::Recording, "--recording"),
        ] {
            let said = command(origin, &["--extcap-capture-filter", " "]).unwrap_err().to_string();
            assert_eq!(said, format!("{missing} is missing"));
        }
    }
}
