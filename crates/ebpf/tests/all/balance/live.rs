//! The balancer on an interface.

use super::support::frames::{End, SYN, end, tcp};
use super::support::{OURS, cases};
use crate::pair::{Pair, ifindex, inside, ip};
use ringside_balance::balancer::Count;
use ringside_balance::{Config, Tables};
use ringside_ebpf::Error;
use ringside_ebpf::balance::{BalanceAttachmentConfig, BalanceProgram, BalanceRoom};
use ringside_sys::clock::monotonic_ns;
use ringside_testkit::{need_root, wait_until};

const FRAMES: u16 = 1_000;

#[test]
fn one_balancer_is_on_an_interface_and_counts_what_comes() {
    if !need_root("a balancer on an interface") {
        return;
    }
    let pair = Pair::new("balance");
    let hop = "next_hop = \"02:00:00:00:00:33\"";
    let vip = "address = \"192.0.2.1\"\nprotocol = \"tcp\"";
    let text = cases::one_vip(vip, &[("10.0.0.51", hop), ("10.0.0.52", hop)]);
    let tables = Tables::new(&Config::read(text.as_bytes()).unwrap(), monotonic_ns());
    let room = BalanceRoom::twice(&tables, 1 << 12);
    ip(&["-n", &pair.receiver, "link", "set", "end", "address", &OURS.to_string()]);
    let config = BalanceAttachmentConfig {
        interface: "end",
        ifindex: ifindex(&pair.receiver),
        generic_allowed: false,
    };
    let open = || inside(&pair.receiver, || BalanceProgram::open(&config, &tables, &room, OURS));
    let mut program = open().unwrap();
    let refused = open().unwrap_err();
    assert!(matches!(refused, Error::BalancePlace { .. }), "{refused}");
    assert!(refused.to_string().starts_with("a balancer is on end already"), "{refused}");
    let transmitter = pair.transmitter();
    for port in 1..=FRAMES {
        let client = End([198, 51, 100, 7].into(), port);
        let frame = tcp(client, end("192.0.2.1 80"), SYN, 10);
        while transmitter.send_batch(&[&frame]).unwrap() == 0 {}
    }
    wait_until("the frames", || program.totals()[0] >= u64::from(FRAMES));
    program.stop().unwrap();
    let [seen, passed] = program.totals();
    let counts = program.counts(0);
    assert_eq!(counts[Count::Forwarded as usize], u64::from(FRAMES));
    assert_eq!(seen, passed + counts[..Count::FATES].iter().sum::<u64>());
    let at_reals: Vec<u64> = (0..2).map(|real| program.real_counts(real)[0]).collect();
    assert!(at_reals.iter().all(|frames| *frames > u64::from(FRAMES) / 3), "{at_reals:?}");
    // The place is free again, also while the one that stopped is still there.
    let next = open().unwrap();
    assert_eq!(next.totals()[1], next.totals()[0]);
    assert!(next.notes().is_empty() && next.memory_bytes() > 1 << 18);
}
