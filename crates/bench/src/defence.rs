//! What stands on the receiving end of a network: above all what keeps a flood from a host, this
//! program's rules in the driver and its peers; and what else deals with frames there. Each is put
//! in place and taken away again.

use super::network::{self, Attached};
use super::receiver::{self, Idle, Program, Receiver, Summary};
use super::tools;
use anyhow::Context;
use ringside_ebpf::XdpProgram;
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
    /// In the stack, where a packet is for the host: `ip`, `input`, priority filter.
    Input,
}

/// A defence that stands.
pub(super) enum Defence {
    /// No defence.
    None,
    /// A process, until it is ended.
    Process(Box<Receiver<'static>>),
    /// What tools of the system have set.
    Tool(ToolRule),
    /// A program in the driver.
    Program(Attached),
}

/// Reads how many packets a rule saw from what its tool printed.
type ReadCount = fn(&str) -> Option<u64>;

/// What a tool of the system has set in a namespace of ours; it is taken back when this is
/// dropped.
pub(super) struct ToolRule {
    namespace: String,
    /// What takes it back: a command, and its input.
    undo: [String; 2],
    /// A command that prints how many packets its rule saw, and reads that.
    count: Option<(String, ReadCount)>,
}

impl Drop for ToolRule {
    fn drop(&mut self) {
        // What stays goes with the namespace.
        let [line, input] = &self.undo;
        let _ = network::tool(&self.namespace, line, input);
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

    /// A process that says so when it is in place; what it delivers is not asked.
    ///
    /// # Errors
    /// As above.
    pub(super) fn process(
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
        Defence::program(lab, program, stop)
    }

    /// A process as it is described.
    ///
    /// # Errors
    /// As above.
    pub(super) fn program(
        lab: &Lab,
        program: Program<'static>,
        stop: &StopSignal,
    ) -> anyhow::Result<Defence> {
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
        let undo = ["nft -f -", "flush ruleset\n"].map(str::to_owned);
        let count: ReadCount = nftables_count;
        let count = Some(("nft list ruleset".to_owned(), count));
        Ok(Defence::Tool(ToolRule { namespace, undo, count }))
    }

    /// A rule of iptables, such as `PREROUTING -p udp --dport 9 -j DROP`, in a table.
    ///
    /// # Errors
    /// iptables refused.
    pub(super) fn iptables(lab: &Lab, table: &str, rule: &str) -> anyhow::Result<Defence> {
        let namespace = lab.status().receiver_namespace.clone();
        network::tool(&namespace, &format!("iptables -t {table} -A {rule}"), "")?;
        let undo = [format!("iptables -t {table} -D {rule}"), String::new()];
        let count: ReadCount = iptables_count;
        let count = Some((format!("iptables-save -c -t {table}"), count));
        Ok(Defence::Tool(ToolRule { namespace, undo, count }))
    }

    /// Packets that come in go out by another interface, by tc.
    ///
    /// # Errors
    /// tc refused.
    pub(super) fn mirred(lab: &Lab, to: &str) -> anyhow::Result<Defence> {
        let namespace = lab.status().receiver_namespace.clone();
        let device = RECEIVER_INTERFACE;
        network::tool(&namespace, &format!("tc qdisc add dev {device} clsact"), "")?;
        let undo = [format!("tc qdisc del dev {device} clsact"), String::new()];
        let rule = ToolRule { namespace, undo, count: None };
        let filter = "protocol ip u32 match u32 0 0 action mirred egress redirect dev";
        let line = format!("tc filter add dev {device} ingress {filter} {to}");
        network::tool(&rule.namespace, &line, "")?;
        Ok(Defence::Tool(rule))
    }

    /// A program in the driver, which is made inside the namespace.
    ///
    /// # Errors
    /// The kernel refused.
    pub(super) fn driver(
        lab: &Lab,
        program: impl FnOnce() -> anyhow::Result<XdpProgram> + Send,
    ) -> anyhow::Result<Defence> {
        let attach = || Ok(((), program()?.attach(network::ifindex(RECEIVER_INTERFACE)?)?));
        let ((), attached) = Attached::by(Some(lab.status().receiver_namespace.as_str()), attach)?;
        Ok(Defence::Program(attached))
    }

    /// Packets that its rule saw, where a rule counts them.
    ///
    /// # Errors
    /// Its tool does not say so.
    pub(super) fn counted(&self) -> anyhow::Result<Option<u64>> {
        let Defence::Tool(ToolRule { namespace, count: Some((line, read)), .. }) = self else {
            return Ok(None);
        };
        let said = network::output(namespace, line, "")?;
        Ok(Some(read(&said).with_context(|| format!("`{line}` shows no counter: {said}"))?))
    }

    /// How long its start was waited for beyond need.
    pub(super) fn waited(&self) -> Duration {
        match self {
            Defence::Process(_) => receiver::AFTER_START,
            _ => Duration::ZERO,
        }
    }

    /// Takes it away.
    ///
    /// # Errors
    /// A process failed meanwhile or at its end.
    pub(super) fn end(self) -> anyhow::Result<()> {
        self.finish(Instant::now()).map(drop)
    }

    /// The same, when a process has dealt with what was sent until `sent`; gives what it says.
    ///
    /// # Errors
    /// The same.
    pub(super) fn finish(self, sent: Instant) -> anyhow::Result<Option<Summary>> {
        match self {
            Defence::Process(receiver) => Ok(Some(receiver.finish(sent)?.summary)),
            Defence::Tool(rule) => {
                drop(rule);
                Ok(None)
            }
            Defence::Program(attached) => {
                drop(attached);
                Ok(None)
            }
            Defence::None => Ok(None),
        }
    }
}

/// `counter packets 5 bytes 320` of the rules of nftables, all together.
fn nftables_count(said: &str) -> Option<u64> {
    let counters = said.split("counter packets ").skip(1);
    counters.map(|rest| rest.split_whitespace().next()?.parse::<u64>().ok()).sum()
}

/// `[5:320] -A PREROUTING …` of the rules of iptables, all together.
fn iptables_count(said: &str) -> Option<u64> {
    let rules = said.lines().filter_map(|line| line.strip_prefix('[')?.split_once("] -A "));
    rules.map(|(counts, _)| counts.split(':').next()?.parse::<u64>().ok()).sum()
}

fn ruleset(hook: Hook, sets: &str, rule: &str) -> String {
    let (family, line) = match hook {
        Hook::Ingress => {
            ("netdev", format!("type filter hook ingress device {RECEIVER_INTERFACE} priority 0;"))
        }
        Hook::Prerouting => ("ip", "type filter hook prerouting priority raw;".to_owned()),
        Hook::Input => ("ip", "type filter hook input priority filter;".to_owned()),
    };
    format!(
        "table {family} bench {{\n{sets}chain bench {{\n{line} policy accept;\n{rule}\n}}\n}}\n"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_rules_counted_is_read() {
        let nft = "chain bench {\nudp dport 9 counter packets 51 bytes 3264 drop\n}\n";
        assert_eq!(nftables_count(nft), Some(51));
        assert_eq!(nftables_count("counter packets many"), None);
        let saved = "*raw\n:PREROUTING ACCEPT [7:448]\n[51:3264] -A PREROUTING -j DROP\nCOMMIT\n";
        assert_eq!(iptables_count(saved), Some(51));
        assert_eq!(iptables_count("[x:1] -A INPUT"), None);
    }

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
