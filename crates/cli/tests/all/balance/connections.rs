//! Many real connections through a balancer that is changed, killed and started again.

use super::link::{BALANCER, CLIENT, Link, SERVERS, v4};
use crate::common::chaos::kill;
use crate::common::*;
use ringside_balancer::Ledger;
use ringside_sys::netns::Namespace;
use ringside_testkit::{by_run, need_bpf_fs, need_tool};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::collections::BTreeSet;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::time::Duration;

const VIP: &str = "192.0.2.1:80";

/// Says which server a process of these tests is to be: its namespace and number.
const SERVER: &str = "RINGSIDE_TEST_SERVER";

/// A server that answers each line with its number; a process of its own, so that both ends of all
/// connections are not files of one.
fn server(link: &Link, number: u8) -> Running {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "--nocapture", "balance::connections::serves_if_asked_to"]);
    command.env(SERVER, format!("{} {number}", link.name(number)));
    let running = Running::start(command);
    running.wait_for_stdout("serving");
    running
}

#[test]
fn serves_if_asked_to() {
    let Ok(asked) = std::env::var(SERVER) else { return };
    let (namespace, number) = asked.split_once(' ').unwrap();
    let number: u8 = number.parse().unwrap();
    Namespace::open(namespace).unwrap().enter().unwrap();
    raise_files();
    let listener = TcpListener::bind(VIP).unwrap();
    listener.set_nonblocking(true).unwrap();
    println!("serving");
    let mut connections = Vec::new();
    let mut bytes = [0; 4096];
    // Until it is killed.
    loop {
        while let Ok((connection, _)) = listener.accept() {
            connection.set_nonblocking(true).unwrap();
            connections.push(connection);
        }
        for connection in &mut connections {
            while let Ok(count @ 1..) = connection.read(&mut bytes) {
                let lines = bytes[..count].iter().filter(|byte| **byte == b'\n').count();
                let _ = connection.write_all(&vec![number; lines]);
            }
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Connections of a client, each with the number of its server.
struct Connections(Vec<(TcpStream, u8)>);

impl Connections {
    fn open(count: usize) -> Connections {
        Connections((0..count).map(|_| connect()).collect())
    }

    /// Every connection is answered, by the server that it is with.
    fn none_is_broken(&mut self, what: &str) {
        for (connection, _) in &mut self.0 {
            connection.write_all(b"\n").unwrap_or_else(|error| panic!("{what}: {error}"));
        }
        for (connection, server) in &mut self.0 {
            assert_eq!(answer(connection), Ok(*server), "{what}");
        }
    }

    fn servers(&self) -> BTreeSet<u8> {
        self.0.iter().map(|(_, server)| *server).collect()
    }
}

/// Connects, and asks which server answers.
fn connect() -> (TcpStream, u8) {
    let mut connection = TcpStream::connect_timeout(&VIP.parse().unwrap(), WAIT_MAX).unwrap();
    connection.set_read_timeout(Some(WAIT_MAX)).unwrap();
    connection.write_all(b"\n").unwrap();
    let server = answer(&mut connection).unwrap();
    (connection, server)
}

/// The server's number, if it answers.
fn answer(connection: &mut TcpStream) -> Result<u8, ErrorKind> {
    let mut answer = [0];
    connection.read_exact(&mut answer).map_err(|error| error.kind())?;
    Ok(answer[0])
}

fn text(servers: &[u8], more: &str) -> String {
    let mut text = "[[vip]]\nname = \"web\"\naddress = \"192.0.2.1\"\nport = 80\n".to_owned();
    text += &format!("protocol = \"tcp\"\nslots = 4093\n{more}\n");
    for server in servers {
        text += &format!("[[vip.real]]\naddress = \"{}\"\n", v4(*server));
    }
    text
}

/// The account of a balancer that is pinned, without a process.
fn pinned(link: &Link) -> Ledger {
    let outcome = link.ringside(BALANCER, &["balance", "status", "--json"]);
    assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
    let lines = outcome.json_lines();
    let account = lines[0]["pinned"].get("balance").unwrap_or_else(|| panic!("{}", lines[0]));
    serde_json::from_value(account.clone()).unwrap()
}

/// A connection is a file, and there may be many.
fn raise_files() {
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
}

#[test]
fn connections_live_through_kill_restart_growth_drain_and_reload() {
    let name = "connections through a balancer";
    if !need_bpf_fs(name) || !need_tool(name, "ethtool") {
        return;
    }
    raise_files();
    let link = Link::up();
    link.unpack();
    let mut servers: Vec<Running> = SERVERS.iter().map(|host| server(&link, *host)).collect();
    link.configure(&text(&SERVERS[..2], ""));
    let running = link.balance(&["--pin"]);
    let set = |words: &[&str]| {
        let target = ["balance", "set", "-i", "end", "--vip", "web", "--real"];
        let outcome = link.ringside(BALANCER, &[&target[..], words].concat());
        assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
    };
    let in_client = |work: &mut (dyn FnMut() + Send)| inside(&link.name(CLIENT), work);
    let mut all = Connections(Vec::new());
    in_client(&mut || all = Connections::open(by_run(300, 10_000)));
    assert_eq!(all.servers(), BTreeSet::from([11, 12]));
    all.none_is_broken("at first");

    kill(running.pid());
    running.finish();
    all.none_is_broken("without a process");
    let before = pinned(&link);
    let forwarded = before.vips[0].counts["forwarded"];
    assert!(forwarded >= 2 * all.0.len() as u64, "{before:#?}");

    let running = link.balance(&["--pin"]);
    running.wait_for_stderr("goes on with the balancer that was pinned");
    all.none_is_broken("with a new process");
    link.configure(&text(&SERVERS, ""));
    running.wait_for_stderr("changed: 1 VIP, 3 reals");
    all.none_is_broken("with one more server");
    set(&["10.77.0.11", "--state", "draining", "--drain", "1h"]);
    all.none_is_broken("with a server that drains");
    let mut new = Connections(Vec::new());
    in_client(&mut || new = Connections::open(60));
    assert_eq!(new.servers(), BTreeSet::from([12, 13]));
    all.0.append(&mut new.0);
    link.configure(&text(&SERVERS, "timeout_s = 7200"));
    wait_until("the file to be read", || running.stderr_so_far().matches("changed").count() == 2);
    all.none_is_broken("after a reload");
    in_client(&mut || assert_ne!(connect().1, 11, "it drains as before"));

    // Full segments do not fit the tunnel: the client learns that, and sends shorter ones.
    let (connection, server) = &mut all.0[0];
    connection.write_all(&[&[b'x'; 300_000][..], b"\n"].concat()).unwrap();
    assert_eq!(answer(connection), Ok(*server));

    // A server that dies takes its own connections along, and no others.
    drop(servers.remove(1));
    set(&["10.77.0.12", "--state", "down", "--save"]);
    let said = std::fs::read_to_string(link.folder.path("balance.toml")).unwrap();
    assert!(said.contains("address = \"10.77.0.12\"\nstate = \"down\""), "{said}");
    let (dead, mut rest): (Vec<_>, Vec<_>) = all.0.drain(..).partition(|(_, server)| *server == 12);
    for (mut connection, _) in dead {
        let _ = connection.write_all(b"\n");
        assert!(answer(&mut connection).is_err(), "its server is dead");
    }
    all.0.append(&mut rest);
    all.none_is_broken("when another server died");

    let outcome = running.stop();
    assert_eq!(outcome.code(), Some(0), "{}", outcome.stderr);
    all.none_is_broken("after the process has ended");
    let ledger = pinned(&link);
    assert_eq!(ledger.balance(), Ok(()), "{ledger:#?}");
    let vip = &ledger.vips[0];
    assert!(vip.counts["forwarded"] > forwarded && vip.counts["too_big_answered"] > 0, "{vip:#?}");
    assert_eq!((ledger.dropped(), vip.serial), (0, before.vips[0].serial), "{ledger:#?}");
    let unpacked = link.ringside(SERVERS[0], &["decap", "status", "--json"]);
    let unpacked = &unpacked.json_lines()[0]["pinned"]["decap"];
    assert!(unpacked["unpacked"].as_u64().unwrap() > 0, "{unpacked}");
    assert_eq!(unpacked["no_room"], 0);

    let off = link.ringside(BALANCER, &["balance", "off", "-i", "end"]);
    assert_eq!(off.code(), Some(0), "{}", off.stderr);
    assert!(off.stderr.contains("no balancer is pinned on end"), "{}", off.stderr);
    assert_eq!(link.programs(), 0);
    let status = link.ringside(BALANCER, &["balance", "status"]);
    assert_eq!(status.code(), Some(1), "{}", status.stderr);
}
