//! Kafka of tests: a broker from its own jars, and what kcat reads.

use crate::server::free_port;
use crate::{skip, wait_until};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The folder of Kafka's jars.
const JARS: &str = "RINGSIDE_KAFKA_JARS";

/// A broker with one partition of its own topics and three of others; none where its jars are not
/// (docs/howto/outlets.md).
pub struct Kafka {
    jars: PathBuf,
    properties: PathBuf,
    port: u16,
    child: Child,
}

impl Kafka {
    /// Starts it, with its data in a folder; without its jars `test` is skipped visibly.
    ///
    /// # Panics
    /// It does not start.
    pub fn start(test: &str, folder: &Path) -> Option<Kafka> {
        let Some(jars) = std::env::var_os(JARS).map(PathBuf::from) else {
            skip(test, &format!("{JARS} names no folder of Kafka's jars (docs/howto/outlets.md)"));
            return None;
        };
        let (port, controller) = (free_port(), free_port());
        let properties = folder.join("server.properties");
        let data = folder.join("data");
        let text = format!(
            "process.roles=broker,controller\nnode.id=1\n\
             controller.quorum.voters=1@127.0.0.1:{controller}\n\
             listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}\n\
             advertised.listeners=PLAINTEXT://127.0.0.1:{port}\n\
             controller.listener.names=CONTROLLER\n\
             listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT\n\
             log.dirs={}\nnum.partitions=3\ngroup.initial.rebalance.delay.ms=0\n\
             offsets.topic.replication.factor=1\noffsets.topic.num.partitions=1\n\
             transaction.state.log.replication.factor=1\ntransaction.state.log.min.isr=1\n\
             transaction.state.log.num.partitions=1\n",
            data.display()
        );
        fs::write(&properties, text).expect("the folder is writable");
        let mut format = java(&jars, "kafka.tools.StorageTool");
        format.args(["format", "-t", "abcdefghijklmnopqrstuv", "-c"]).arg(&properties);
        let formatted = format.stdout(Stdio::null()).status().expect("java");
        assert!(formatted.success(), "Kafka's folder was not made");
        let child = Kafka::run(&jars, &properties, port);
        Some(Kafka { jars, properties, port, child })
    }

    fn run(jars: &Path, properties: &Path, port: u16) -> Child {
        let mut command = java(jars, "kafka.Kafka");
        command.arg(properties).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().expect("java");
        wait_until("Kafka", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        child
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Ends it in order, and starts it again with the data that it had. One that is killed loses
    /// what it acknowledged last, where no other broker has it: seen with Kafka 4.3.1, whose log
    /// then lacks the end of a transaction that it had committed.
    ///
    /// # Panics
    /// It does not start.
    pub fn restart(&mut self) {
        let child = Pid::from_child(&self.child);
        kill_process(child, Signal::TERM).expect("the broker is there");
        self.child.wait().expect("the broker ends");
        self.child = Kafka::run(&self.jars, &self.properties, self.port);
    }

    /// What a topic has.
    ///
    /// # Panics
    /// kcat cannot read it.
    pub fn messages(&self, topic: &str) -> Vec<Message> {
        messages(&format!("127.0.0.1:{}", self.port), topic)
    }
}

impl Drop for Kafka {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn java(jars: &Path, class: &str) -> Command {
    let mut command = Command::new("java");
    command.args(["-Xmx400m", "-XX:+UseSerialGC", "-cp"]).arg(jars.join("*")).arg(class);
    command
}

/// A message of a topic.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Message {
    /// Its value, which has neither tabs nor ends of lines.
    pub value: String,
    /// Its key.
    pub key: Option<String>,
    /// The partition that it is in.
    pub partition: u32,
}

/// What a topic has, by who reads what is committed alone.
///
/// # Panics
/// kcat cannot read it.
pub fn messages(brokers: &str, topic: &str) -> Vec<Message> {
    let args = ["-C", "-q", "-e", "-o", "beginning", "-X", "isolation.level=read_committed"];
    let mut command = Command::new("kcat");
    command.args(args).args(["-f", "%K\t%k\t%p\t%s\n", "-b", brokers, "-t", topic]);
    let output = command.output().expect("kcat");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let message = |line: &str| {
        let mut parts = line.splitn(4, '\t');
        let mut part = || parts.next().expect("four parts");
        let (bytes, key) = (part(), part());
        let key = (bytes != "-1" && bytes != "0").then(|| key.to_owned());
        Message { key, partition: part().parse().expect("a number"), value: part().to_owned() }
    };
    text.lines().map(message).collect()
}
