//! What keeps a flood from a host: this program's rules in the driver, and its peers. Each is put
//! in place on the receiving end of a network and taken away again.

use super::network;
use super::receiver::{self, Idle, Program, Receiver, Summary};
use super::tools;
use ringside_lab::{Lab, RECEIVER_INTERFACE};
use ringside_terminal::signals::StopSignal;
use std::ffi::OsString;
use std::path::Path;
use std::time::{Duration, Instant};

/// Where the table of nftables hooks in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hook {
    /// Behind the driver, before the stack: `netdev`, `ingress`.
    Ingress,
    /// In the stack, before it knows whose the packet is: `ip`, `prerouting`, priority raw.
    Prerouting,
}

/// A defence that stands.
pub(super) enum Defence {
    /// No defence.
    None,
    /// A process, until it is ended.
    Process(Box<Receiver<'static>>),
    /// Rules of nftables.
    Nftables(Ruleset),
}

/// The rules of nftables in a namespace of ours; all go when this is dropped.
pub(super) struct Ruleset {
    namespace: String,
}

impl Drop for Ruleset {
    fn drop(&mut self) {
        // What stays goes with the namespace.
        let _ = network::tool(&self.namespace, "nft -f -", "flush ruleset\n");
    }
}

impl Defence {
    /// `ringside drop` with the rules of a file.
    ///
    /// # Errors
    /// It did not start; what it said is in the error.
    pub(super) fn ringside(lab: &Lab, rules: &Path, stop: &StopSignal) -> anyhow::Result<Defence> {
        Defence::ringside_at(lab, rules, None, stop)
    }

    /// The same, with a control socket there.
    ///
    /// # Errors
    /// As above.
    pub(super) fn ringside_at(
        lab: &Lab,
        rules: &Path,
        control: Option<&Path>,
        stop: &StopSignal,
    ) -> anyhow::Result<Defence> {
        let mut command = vec![tools::own_program(), "drop".into()];
        match control {
            Some(socket) => command.extend(["--control".into(), socket.into()]),
            None => command.push("--no-control".into()),
        }
        command.extend(["-i", RECEIVER_INTERFACE, "--rules"].map(OsString::from));
        command.push(rules.into());
        Defence::process(lab, "ringside drop", command, "listening on", stop)
    }

    /// xdp-filter, with the commands that add what is dropped.
    ///
    /// # Errors
    /// As above.
    pub(super) fn xdp_filter(
        lab: &Lab,
        features: &str,
        commands: &[String],
        stop: &StopSignal,
    ) -> anyhow::Result<Defence> {
        // Its maps are pinned where `ip netns exec` shows another file system, and it is a command,
        // not a process: so a shell holds the place of both.
        let mut script = format!(
            "set -e; mount -t bpf bpf /sys/fs/bpf; xdp-filter load -f {features} {0}; \
             trap 'xdp-filter unload {0}; kill $!; exit 0' TERM; ",
            RECEIVER_INTERFACE
        );
        for command in commands {
            script.push_str(&format!("{command}; "));
        }
        script.push_str("echo in place; sleep infinity & wait");
        let command = ["sh", "-c", &script].map(OsString::from).to_vec();
        Defence::process(lab, "xdp-filter", command, "in place", stop)
    }

    fn process(
        lab: &Lab,
        name: &str,
        command: Vec<OsString>,
        ready_text: &'static str,
        stop: &StopSignal,
    ) -> anyhow::Result<Defence> {
        let program = Program {
            name: name.to_owned(),
            command,
            ready_text,
            has_packet_socket: false,
            idle: Idle::Never,
            settle: Duration::ZERO,
            stop_signal: rustix::process::Signal::TERM,
            hangs_at_end: false,
            // It delivers nothing; what came through is seen at the host.
            summary: Box::new(|_, _| Some(Summary { frames: 0, lost: None })),
        };
        let namespace = &lab.status().receiver_namespace;
        Ok(Defence::Process(Box::new(Receiver::start(namespace, program, &[], stop)?)))
    }

    /// A chain of nftables with one rule, such as `udp dport 9 drop`, and the sets that it names.
    ///
    /// # Errors
    /// nft refused.
    pub(super) fn nftables(
        lab: &Lab,
        hook: Hook,
        sets: &str,
        rule: &str,
    ) -> anyhow::Result<Defence> {
        let namespace = lab.status().receiver_namespace.clone();
        network::tool(&namespace, "nft -f -", &ruleset(hook, sets, rule))?;
        Ok(Defence::Nftables(Ruleset { namespace }))
    }

    /// How long its start was waited for beyond need.
    pub(super) fn waited(&self) -> Duration {
        match self {
            Defence::Process(_) => receiver::AFTER_START,
            Defence::None | Defence::Nftables(_) => Duration::ZERO,
        }
    }

    /// Takes it away.
    ///
    /// # Errors
    /// A process failed meanwhile or at its end.
    pub(super) fn end(self) -> anyhow::Result<()> {
        match self {
            Defence::Process(receiver) => receiver.finish(Instant::now()).map(drop),
            Defence::Nftables(ruleset) => {
                drop(ruleset);
                Ok(())
            }
            Defence::None => Ok(()),
        }
    }
}

fn ruleset(hook: Hook, sets: &str, rule: &str) -> String {
    let (family, line) = match hook {
        Hook::Ingress => {
            ("netdev", format!("type filter hook ingress device {RECEIVER_INTERFACE} priority 0;"))
        }
        Hook::Prerouting => ("ip", "type filter hook prerouting priority raw;".to_owned()),
    };
    format!(
        "table {family} bench {{\n{sets}chain bench {{\n{line} policy accept;\n{rule}\n}}\n}}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ruleset_has_its_hook_its_sets_and_its_rule() {
        let expected = "table netdev bench {\nset s { type ipv4_addr; }\nchain bench {\n\
                        type filter hook ingress device rx0 priority 0; policy accept;\n\
                        ip saddr @s drop\n}\n}\n";
        let set = "set s { type ipv4_addr; }\n";
        assert_eq!(ruleset(Hook::Ingress, set, "ip saddr @s drop"), expected);
        let prerouting = ruleset(Hook::Prerouting, "", "udp dport 9 drop");
        assert!(prerouting.starts_with("table ip bench {\nchain"), "{prerouting}");
        assert!(prerouting.contains("hook prerouting priority raw; policy accept;"));
    }
}
