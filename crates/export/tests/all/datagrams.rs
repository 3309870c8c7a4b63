//! UDP: a message is a datagram, and what comes back for one is counted.

use crate::collector::*;
use ringside_core::Timestamp;
use ringside_export::{Address, Options, Outlet};
use ringside_flow::{Format, RecordSink};
use ringside_testkit::{WAIT_MAX, wait_until};
use std::net::UdpSocket;

const SECOND: u64 = 1_000_000_000;

fn receiver(address: &str) -> UdpSocket {
    let socket = UdpSocket::bind(address).unwrap();
    socket.set_read_timeout(Some(WAIT_MAX)).unwrap();
    socket
}

fn outlet(to: &UdpSocket, options: &Options) -> Outlet {
    let address: Address = format!("udp:{}", to.local_addr().unwrap()).parse().unwrap();
    Outlet::open(&address, Format::Ipfix, options).unwrap()
}

#[test]
fn each_message_is_a_datagram() {
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let socket = receiver(address);
        let mut outlet = outlet(&socket, &options());
        put(&mut outlet, 1..=300);
        outlet.finish(Timestamp(START));
        let mut session = Session::counted();
        let mut datagram = [0; 2_000];
        while session.flow_ids.len() < 300 {
            let bytes = socket.recv(&mut datagram).unwrap();
            assert!(session.read(&datagram[..bytes]), "the first has the templates");
        }
        assert_eq!(session.flow_ids, Vec::from_iter(1..=300));
        let status = outlet.watch().status();
        assert_eq!(status.counts.delivered.records, 300);
        assert_account(&status, 300);
    }
}

#[test]
fn a_limited_rate_delivers_all_the_same() {
    let socket = receiver("127.0.0.1:0");
    let options = Options { datagrams_per_second: Some(100_000), ..options() };
    let mut outlet = outlet(&socket, &options);
    put(&mut outlet, 1..=800);
    outlet.finish(Timestamp(START));
    assert_eq!(outlet.counts().delivered.records, 800);
}

#[test]
fn what_is_refused_is_counted_and_the_templates_come_again() {
    let socket = receiver("127.0.0.1:0");
    let mut outlet = outlet(&socket, &options());
    let watch = outlet.watch();
    let mut id = 50;
    put(&mut outlet, 1..=id);
    let (_, sender) = socket.recv_from(&mut [0; 2_000]).unwrap();
    // Connected to another, it is no receiver of ours: the kernel answers that the port is closed.
    let other = receiver("127.0.0.1:0");
    socket.connect(other.local_addr().unwrap()).unwrap();
    wait_until("a refusal", || {
        put(&mut outlet, id + 1..=id + 20);
        id += 20;
        assert_account(&watch.status(), watch.status().counts.total().records);
        watch.status().counts.refused.records > 0
    });
    assert_eq!(outlet.counts().total().records, id);
    assert!(watch.status().error.unwrap().contains("refused"));

    // A collector begins to listen.
    socket.connect(sender).unwrap();
    let mut session = Session::default();
    let mut now = START;
    socket.set_nonblocking(true).unwrap();
    wait_until("records that are understood", || {
        now += 2 * SECOND;
        outlet.tick(Timestamp(now));
        id += 1;
        outlet.put(&record(id), "", Timestamp(now));
        let mut datagram = [0; 2_000];
        while let Ok(bytes) = socket.recv(&mut datagram) {
            session.read(&datagram[..bytes]);
        }
        !session.flow_ids.is_empty()
    });
    assert!(now < START + 60 * SECOND, "before the templates are due by their time");
    outlet.finish(Timestamp(now));
    assert_eq!(outlet.counts().total().records, id);
    assert_eq!(outlet.counts().lost(), outlet.counts().refused);
}

#[test]
fn a_name_that_is_none_is_refused_at_the_start() {
    let address: Address = "udp:no-such-host.invalid".parse().unwrap();
    let error = Outlet::open(&address, Format::Netflow9, &options()).err().unwrap();
    assert!(error.to_string().contains("no-such-host.invalid"), "{error}");
}
