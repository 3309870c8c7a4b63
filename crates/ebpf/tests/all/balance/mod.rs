//! The balancer in the driver against its model, frame by frame.

mod behaviours;
mod decap;
mod live;
mod random;

#[path = "../../../../balance/tests/all/support/mod.rs"]
mod support;

use crate::pair::ip;
use ringside_balance::balancer::{Balancer, Count, Verdict};
use ringside_balance::{Config, Tables};
use ringside_ebpf::Verdict as Ending;
use ringside_ebpf::balance::{BalanceProgram, BalanceRoom};
use ringside_sys::bpf::cpu_numbers;
use ringside_sys::clock::monotonic_ns;
use ringside_sys::netns::Namespace;
use ringside_sys::thread::{allowed_cpus, pin_to_cpu};
use ringside_testkit::skip;
use std::cell::Cell;
use std::sync::OnceLock;
use support::{INTERFACE, OURS, OUT, Plane, route};

/// Program and model, asked about the same frames in the same order.
pub struct Driver {
    program: BalanceProgram,
    model: Balancer,
    /// How far the model's clock is ahead of the kernel's.
    ahead_ns: u64,
}

/// CPUs of the process, before a thread of it is pinned.
static ALLOWED: OnceLock<Vec<usize>> = OnceLock::new();

/// Routes as [`route`] has them, by real addresses of the tests.
const ROUTES: &str = "
set -e
ip link set lo up
ip link add out type veth peer name far
ip link set out address 02:00:00:00:00:04
ip link set out up
ip link set far up
echo 1 > /proc/sys/net/ipv4/ip_forward
echo 1 > /proc/sys/net/ipv6/conf/all/forwarding
ip addr add 10.255.0.1/24 dev out
ip addr add 2001:db8:ff::1/64 dev out nodad
ip neigh add 10.255.0.2 lladdr 02:00:00:00:00:03 dev out nud permanent
ip neigh add 2001:db8:ff::2 lladdr 02:00:00:00:00:03 dev out nud permanent
for n in 50 51 52 53 54; do
    ip route add 10.0.0.$n via 10.255.0.2
    ip route add 2001:db8:a::$n via 2001:db8:ff::2
done
ip route add 10.0.0.120 via 10.255.0.2 mtu lock 1400
ip route add 2001:db8:a::78 via 2001:db8:ff::2 mtu lock 1400
ip route add 10.0.0.160 dev out
ip route add 2001:db8:a::a0 dev out
";

/// Puts this thread into a namespace of its own with those routes, once; it goes with the thread.
fn enter_routes() {
    thread_local! {
        static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
    }
    if IS_INSIDE.replace(true) {
        return;
    }
    let thread = format!("{:?}", std::thread::current().id());
    let digits: String = thread.chars().filter(char::is_ascii_digit).collect();
    let name = format!("ringside-balance-{}-{digits}", std::process::id());
    ip(&["netns", "add", &name]);
    ip(&["netns", "exec", &name, "sh", "-c", ROUTES]);
    Namespace::open(&name).unwrap().enter().unwrap();
    ip(&["netns", "del", &name]);
}

/// The clock of the program: that of the last interrupt.
fn coarse_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::MonotonicCoarse);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

impl Plane for Driver {
    fn start(config: &Config) -> Driver {
        enter_routes();
        let tables = Tables::new(config, monotonic_ns());
        let flows = config.flows_per_cpu;
        // Room for all tables that follow in tests.
        let room = BalanceRoom { vips: 16, reals: 256, slots: 1 << 14, keys: 1 << 10, flows };
        let program = BalanceProgram::load(&tables, &room, OURS).unwrap();
        let model = Balancer::new(INTERFACE, tables, flows as usize, program.seed());
        let model = model.with_cpus(cpu_numbers().unwrap() as usize);
        let mut driver = Driver { program, model, ahead_ns: 0 };
        driver.go_to_cpu(0);
        driver
    }

    fn go_to_cpu(&mut self, cpu: usize) -> bool {
        let all = ALLOWED.get_or_init(|| allowed_cpus().unwrap());
        let Some(cpu) = all.get(cpu) else {
            skip("a flow that comes to another CPU", "there is one CPU");
            return false;
        };
        pin_to_cpu(*cpu).unwrap();
        self.model.go_to_cpu(*cpu);
        true
    }

    fn decide(&mut self, frame: &[u8]) -> Verdict {
        let now_ns = coarse_ns() + self.ahead_ns;
        let expected = self.model.decide(frame, now_ns, &mut route);
        let run = self.program.test_run(frame).unwrap();
        let (ending, out) = match &expected {
            Verdict::Pass => (Ending::Pass, frame),
            Verdict::Drop(_) => (Ending::Drop, frame),
            Verdict::Answer(answer) => (Ending::Transmit, &answer[..]),
            Verdict::Send { interface: OUT, frame, .. } => (Ending::Redirect, &frame[..]),
            Verdict::Send { frame, .. } => (Ending::Transmit, &frame[..]),
        };
        let (kind, head) = (std::mem::discriminant(&expected), &frame[..frame.len().min(150)]);
        assert_eq!(run.verdict, ending, "{kind:?} of {head:02x?}");
        if run.verdict != Ending::Drop {
            assert!(run.frame == out, "{:02x?}\n{out:02x?}\nof {head:02x?}", run.frame);
        }
        expected
    }

    fn change(&mut self, config: &Config) {
        let now_ns = monotonic_ns();
        let tables = self.model.tables().next(config, now_ns);
        self.program.change(&tables, now_ns).unwrap();
        self.model.change(tables, now_ns);
    }

    fn age(&mut self, seconds: u64) {
        self.program.age(seconds * 1_000_000_000);
        self.ahead_ns += seconds * 1_000_000_000;
    }

    fn tables(&self) -> &Tables {
        self.model.tables()
    }

    fn counts(&self, vip: u32) -> [u64; Count::ALL] {
        let counts = self.program.counts(vip);
        assert_eq!(counts, self.model.counts(vip));
        counts
    }
}
