//! Requests and replies: one JSON object a line, each way.

use super::rule_messages::{RulesCommand, RulesReply, UPLOAD_CHARS};
use ringside_core::Ledger;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use std::net::IpAddr;

/// Version of the protocol. Replies may gain fields within a version, and requests commands.
pub const VERSION: u64 = 1;

/// Longest line of a client, in bytes: a command with a long list of arguments, far below what a
/// hostile client would need to hurt.
pub const LINE_BYTES_MAX: usize = 64 << 10;
const _: () = assert!(UPLOAD_CHARS * "\\u0000".len() + 1024 < LINE_BYTES_MAX);

/// Longest error text, in characters: some quote the request, or several wrong rules.
const ERROR_CHARS_MAX: usize = 4000;

/// What a client may ask for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case", deny_unknown_fields)]
pub enum Command {
    /// What the run is, and how it goes.
    Status {},
    /// The ledger as last read.
    Ledger {},
    /// Begin the next files.
    Rotate {},
    /// End the run as Ctrl-C does.
    Stop {},
    /// The account of flows, after a change of their time-outs if some are named.
    Flows {
        /// Idle time-out, in milliseconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        idle_ms: Option<u64>,
        /// Active time-out, in milliseconds.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        active_ms: Option<u64>,
        /// Entries of each cache in the kernel that may be used, of all CPUs.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        cache_entries: Option<u64>,
    },
    /// Look at or change the rules that frames are judged by.
    Rules(RulesCommand),
    /// Change a real of a balancer.
    Balance(BalanceCommand),
}

/// What a client asks of a balancer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum BalanceCommand {
    /// Sets state or weight of a real, in place of what the file says.
    Set {
        /// Name of the VIP.
        vip: String,
        /// Address of the real.
        real: IpAddr,
        /// Its state; as it is where none is given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        state: Option<SetState>,
        /// Seconds that it drains.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        drain_s: Option<u32>,
        /// Its weight; as it is where none is given.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        weight: Option<u32>,
        /// Write it into the file, too.
        #[serde(default)]
        save: bool,
    },
}

/// A state that a real of a balancer is to have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SetState {
    /// New flows and old ones.
    Up,
    /// Old ones until a deadline.
    Draining,
    /// None.
    Down,
    /// What the file says, of the weight too.
    File,
}

impl Command {
    /// The request as a line, without its end.
    pub fn line(&self) -> String {
        let mut request = serde_json::json!(self);
        request["version"] = VERSION.into();
        request.to_string()
    }

    /// Reads a request, or says what is wrong with it.
    pub fn parse(line: &[u8]) -> Result<Command, String> {
        let mut request: Map<String, Value> =
            serde_json::from_slice(line).map_err(|error| format!("not a request: {error}"))?;
        let version = request.remove("version");
        if version.as_ref().and_then(Value::as_u64) != Some(VERSION) {
            let asked = version.map_or_else(|| "none".into(), |version| version.to_string());
            return Err(format!("version {VERSION} is spoken here, the request names {asked}"));
        }
        serde_json::from_value(Value::Object(request)).map_err(|error| error.to_string())
    }
}

/// The answer to a request.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Reply {
    /// Version of the protocol.
    pub version: u64,
    /// True if it was done.
    pub ok: bool,
    /// Why it was not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Answer to `status`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Box<Status>>,
    /// Answer to `ledger`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ledger: Option<Box<Ledger>>,
    /// Answer to `flows`: see docs/control.md.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flows: Option<Value>,
    /// Answer to `rules`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rules: Option<Box<RulesReply>>,
}

impl Reply {
    /// It was done, and there is nothing more to say.
    pub fn done() -> Reply {
        Reply {
            version: VERSION,
            ok: true,
            error: None,
            status: None,
            ledger: None,
            flows: None,
            rules: None,
        }
    }

    /// It was not done; `error` is cut to a length that a line holds.
    pub fn refused(error: &str) -> Reply {
        let error = Some(error.chars().take(ERROR_CHARS_MAX).collect());
        Reply { ok: false, error, ..Reply::done() }
    }

    /// The answer to `status`.
    pub fn status(status: Status) -> Reply {
        Reply { status: Some(Box::new(status)), ..Reply::done() }
    }

    /// The answer to `ledger`.
    pub fn ledger(ledger: Ledger) -> Reply {
        Reply { ledger: Some(Box::new(ledger)), ..Reply::done() }
    }

    /// The answer to `flows`.
    pub fn flows(account: Value) -> Reply {
        Reply { flows: Some(account), ..Reply::done() }
    }

    /// The answer to `rules`.
    pub fn rules(rules: RulesReply) -> Reply {
        Reply { rules: Some(Box::new(rules)), ..Reply::done() }
    }

    /// Appends the reply as a line.
    pub fn append_line(&self, out: &mut Vec<u8>) {
        serde_json::to_writer(&mut *out, self).expect("a reply has text keys and plain numbers");
        out.push(b'\n');
    }
}

/// What a run is, and how it goes. What is not known is null.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Status {
    /// Process that captures.
    pub pid: u32,
    /// The process that receives, if it is another; `pid` is its keeper's then.
    #[serde(default)]
    pub worker_pid: Option<u32>,
    /// Name and version of the program.
    pub program: String,
    /// When it began to listen, UTC, as in RFC 3339.
    pub started: String,
    /// Milliseconds since then.
    pub running_ms: u64,
    /// Interfaces, backends and lanes, as `listening on` names them.
    pub source: String,
    /// Names of the interfaces.
    pub interfaces: Vec<String>,
    /// Number of lanes.
    pub lanes: usize,
    /// Where the frames go.
    pub output: OutputStatus,
    /// Of the last whole second.
    pub rates: Option<Rates>,
    /// The capture ring; null where frames are only counted.
    pub ring: Option<RingStatus>,
    /// Readers of other processes that are attached; null if the ring is not shared.
    pub readers: Option<usize>,
    /// As last read, at most a fifth of a second ago.
    pub ledger: Ledger,
    /// The account of flows, at most some seconds old; null where none are made.
    #[serde(default)]
    pub flows: Option<Value>,
    /// The account of a router; null of other runs.
    #[serde(default)]
    pub route: Option<Value>,
    /// The account of a balancer: see docs/balance.md; null of other runs.
    #[serde(default)]
    pub balance: Option<Value>,
    /// The account of the end of a balancer's tunnels; null of other runs.
    #[serde(default)]
    pub decap: Option<Value>,
}

/// Where the frames of a run go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutputStatus {
    /// `count`, `print`, `directory`, `file`, `stream`, `drop`, `route`, `balance` or `decap`.
    pub kind: String,
    /// What `-w` names; none where frames are only counted or printed.
    pub paths: Vec<String>,
}

impl OutputStatus {
    /// True if there are files that a rotation can end.
    pub fn has_files(&self) -> bool {
        self.kind == "directory" || self.kind == "file"
    }
}

/// How full the capture ring is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RingStatus {
    /// Size of each lane's part.
    pub lane_bytes: usize,
    /// How much of its part each lane holds for a recorder or writer that has not taken it yet, in
    /// whole blocks, the open one included.
    pub held_bytes: Vec<usize>,
}

/// How fast frames are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rates {
    /// Frames taken a second.
    pub frames_per_second: u64,
    /// Captured bits a second.
    pub bits_per_second: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_survives_its_line() {
        let rules = RulesCommand::Add { rules: "1: udp => drop".into(), upload: Some(7) };
        let commands = [
            Command::Status {},
            Command::Ledger {},
            Command::Rotate {},
            Command::Stop {},
            Command::Flows { idle_ms: Some(1), active_ms: None, cache_entries: Some(64) },
            Command::Rules(rules),
            Command::Rules(RulesCommand::List { after: None }),
            Command::Balance(BalanceCommand::Set {
                vip: "web".into(),
                real: "10.0.0.1".parse().unwrap(),
                state: Some(SetState::Draining),
                drain_s: Some(60),
                weight: None,
                save: true,
            }),
        ];
        for command in commands {
            assert_eq!(Command::parse(command.line().as_bytes()), Ok(command));
        }
        assert_eq!(Command::Stop {}.line(), r#"{"command":"stop","version":1}"#);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (line, word) in [
            ("", "not a request"),
            ("status", "not a request"),
            ("[1]", "not a request"),
            (r#"{"command":"status"}"#, "version 1 is spoken here, the request names none"),
            (r#"{"version":2,"command":"status"}"#, "the request names 2"),
            (r#"{"version":-1,"command":"status"}"#, "the request names -1"),
            (r#"{"version":1}"#, "command"),
            (r#"{"version":1,"command":7}"#, "7"),
            (r#"{"version":1,"command":"fly"}"#, "`fly`"),
            (r#"{"version":1,"command":"fly"}"#, "`rotate`"),
            (r#"{"version":1,"command":"stop","when":"later"}"#, "`when`"),
            (r#"{"version":1,"command":"rules"}"#, "`do`"),
            (r#"{"version":1,"command":"rules","do":"flush","all":true}"#, "`all`"),
            (r#"{"version":1,"command":"balance","do":"set","vip":"a","real":"b"}"#, "IP address"),
        ] {
            let error = Command::parse(line.as_bytes()).unwrap_err();
            assert!(error.contains(word), "{line}: {error}");
        }
        let deep = "[".repeat(LINE_BYTES_MAX);
        assert!(Command::parse(deep.as_bytes()).is_err());
    }

    #[test]
    fn an_error_is_cut() {
        let reply = Reply::refused(&"ä".repeat(LINE_BYTES_MAX));
        let mut line = Vec::new();
        reply.append_line(&mut line);
        assert!(line.len() < 4 * ERROR_CHARS_MAX && line.ends_with(b"\n"));
        let back: Reply = serde_json::from_slice(&line).unwrap();
        assert!(!back.ok && back.status.is_none());
    }

    #[test]
    fn no_line_makes_the_parser_panic() {
        let seeds = [
            Command::Status {}.line(),
            Command::Rules(RulesCommand::Delete { ids: vec![1, 2] }).line(),
            r#"{"version":1,"command":"rotate","more":[1.5e300,null,"\ud800\u0000"]}"#.into(),
            r#"{"version":18446744073709551616,"command":{"command":{}}}"#.into(),
        ]
        .map(String::into_bytes);
        ringside_testkit::fuzz("control-request", 200_000, &seeds, |line| {
            let reply = match Command::parse(line) {
                Ok(_) => Reply::done(),
                Err(error) => Reply::refused(&error),
            };
            let mut out = Vec::new();
            reply.append_line(&mut out);
            assert_eq!(out.iter().filter(|byte| **byte == b'\n').count(), 1);
            assert!(out.len() < 8 * ERROR_CHARS_MAX);
        });
    }
}
