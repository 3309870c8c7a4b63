//! A server in user space: the TCP of smoltcp, whose long packets leave as segments over a transmit
//! sink. The kernel's stack knows nothing of it: its addresses are no interface's.

mod answer;
mod connection;
mod device;
mod lossy;

use anyhow::Context;
use connection::Connection;
use device::Device;
use ringside_core::SinkCounters;
use ringside_transmit::sink::SinkKind;
use smoltcp::iface::{Config, Interface, PollIngressSingleResult, PollResult, SocketSet};
use smoltcp::socket::tcp::{CongestionControl, Socket, SocketBuffer};
use smoltcp::time::Instant as Moment;
use smoltcp::wire::{EthernetAddress, IpCidr};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Connections at a time; each has buffers of its own. Another one is answered with RST.
const CONNECTIONS_MAX: usize = 64;

/// What may be on its way to one client: at a round trip of 2 ms, which the receive ring makes of
/// any, this is 8 Gb/s. Pages that are never written cost nothing.
const SEND_BUFFER_BYTES: usize = 2 << 20;

/// A request is short, and read at once.
const RECEIVE_BUFFER_BYTES: usize = 16 << 10;

/// A peer that is silent for this time is gone. The timer of repeated losses waits up to a minute.
const SILENCE_MAX: smoltcp::time::Duration = smoltcp::time::Duration::from_secs(120);

/// Rounds of sending, up to 64 KiB for each connection, until it is looked for acknowledgments.
const ROUNDS_MAX: usize = 8;

/// How long is waited at most before it is looked whether the server is to end.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);

/// What to serve, and where.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Interface in the calling thread's network namespace.
    pub interface: String,
    /// The server's address, which no interface has; the interface's network is reached directly.
    pub address: Ipv4Addr,
    /// Bits of the network's part of the address.
    pub prefix_length: u8,
    /// TCP port.
    pub port: u16,
    /// Whose files are served; `/bytes/N` is without one, too.
    pub directory: Option<PathBuf>,
    /// How frames are sent.
    pub sink: SinkKind,
    /// Send chains over payload memory, where the sink has them.
    pub has_chains: bool,
    /// How the rate follows losses.
    pub congestion: CongestionControl,
    /// For trials: lose each frame whose number is a multiple; 0 loses none.
    pub lose_every: u64,
}

/// What a server did.
#[derive(Clone, Debug, Default)]
pub struct Served {
    /// Requests that were answered, errors too.
    pub requests: u64,
    /// Packets that TCP handed over; those longer than the MTU were cut.
    pub packets: u64,
    /// Frames that were lost on purpose.
    pub lost: u64,
    /// Frames that found no room in the sink.
    pub left_out: u64,
    /// The account of the sink.
    pub sink: SinkCounters,
}

/// A server that listens.
pub struct Server {
    device: Device,
    interface: Interface,
    sockets: SocketSet<'static>,
    connections: Vec<Connection>,
    config: ServerConfig,
    start: Instant,
    requests: u64,
}

impl Server {
    /// Opens it; from now on the interface answers ARP for the address. Lines for the user go to
    /// `notes`.
    ///
    /// # Errors
    /// There is no such interface, a privilege is missing (CAP_NET_RAW), or there is no such
    /// directory.
    pub fn open(mut config: ServerConfig, notes: &mut Vec<String>) -> anyhow::Result<Server> {
        if let Some(directory) = &mut config.directory {
            // Files are compared with the real path.
            let real = directory.canonicalize();
            *directory = real.with_context(|| format!("the directory {}", directory.display()))?;
        }
        let mac = mac(config.address);
        let mut device = Device::open(&config, mac, notes)?;
        let mut settings = Config::new(EthernetAddress(mac).into());
        // The initial sequence numbers must not be predictable.
        settings.random_seed = RandomState::new().build_hasher().finish();
        let mut interface = Interface::new(settings, &mut device, Moment::ZERO);
        let address = IpCidr::new(config.address.into(), config.prefix_length);
        // An empty list takes one address.
        interface.update_ip_addrs(|addresses| _ = addresses.push(address));
        let mut sockets = SocketSet::new(Vec::new());
        let mut connections = Vec::new();
        for _ in 0..CONNECTIONS_MAX {
            connections.push(Connection::new(sockets.add(listening(&config)?)));
        }
        let start = Instant::now();
        Ok(Server { device, interface, sockets, connections, config, start, requests: 0 })
    }

    /// Serves until `stop` is set; then connections end as if the power went.
    ///
    /// # Errors
    /// The interface failed, or was removed.
    pub fn run(mut self, stop: &AtomicBool) -> anyhow::Result<Served> {
        while !stop.load(Ordering::Relaxed) {
            let was_busy = self.turn()?;
            if !was_busy {
                let now = self.now();
                let wait = self.interface.poll_delay(now, &self.sockets);
                let wait = wait.map_or(LOOK_INTERVAL, Duration::from);
                self.device.wait(wait.min(LOOK_INTERVAL))?;
            }
        }
        let (packets, left_out, lost) = self.device.counts();
        let sink = self.device.end()?;
        Ok(Served { requests: self.requests, packets, lost, left_out, sink })
    }

    fn now(&self) -> Moment {
        Moment::from_micros(self.start.elapsed().as_micros() as i64)
    }

    /// Takes what came in, has connections go on, and sends; true if there was anything.
    fn turn(&mut self) -> anyhow::Result<bool> {
        let mut was_busy = self.device.collect();
        let now = self.now();
        self.interface.poll_maintenance(now);
        loop {
            let (interface, sockets) = (&mut self.interface, &mut self.sockets);
            match interface.poll_ingress_single(now, &mut self.device, sockets) {
                PollIngressSingleResult::None => break,
                _ => was_busy = true,
            }
        }
        was_busy |= self.serve()?;
        for _ in 0..ROUNDS_MAX {
            let (interface, sockets) = (&mut self.interface, &mut self.sockets);
            match interface.poll_egress(now, &mut self.device, sockets) {
                PollResult::None => break,
                PollResult::SocketStateChanged => was_busy = true,
            }
        }
        self.device.flush()?;
        Ok(was_busy)
    }

    /// Has each connection go on; true if one did.
    fn serve(&mut self) -> anyhow::Result<bool> {
        let mut was_busy = false;
        let now = Instant::now();
        for connection in &mut self.connections {
            let socket = self.sockets.get_mut::<Socket<'_>>(connection.handle);
            let directory = self.config.directory.as_deref();
            let progress = connection.go_on(socket, directory, now);
            was_busy |= progress.is_some;
            self.requests += u64::from(progress.has_request);
            if connection.is_over(socket) {
                *socket = listening(&self.config)?;
                *connection = Connection::new(connection.handle);
            }
        }
        Ok(was_busy)
    }
}

/// A socket with buffers, which takes the next connection.
fn listening(config: &ServerConfig) -> anyhow::Result<Socket<'static>> {
    let receive = SocketBuffer::new(vec![0; RECEIVE_BUFFER_BYTES]);
    let mut socket = Socket::new(receive, SocketBuffer::new(vec![0; SEND_BUFFER_BYTES]));
    socket.set_timeout(Some(SILENCE_MAX));
    socket.set_congestion_control(config.congestion);
    socket.listen(config.port).with_context(|| format!("listening on port {}", config.port))?;
    Ok(socket)
}

/// A hardware address that belongs to the address: locally administered, so no card has it.
fn mac(address: Ipv4Addr) -> [u8; 6] {
    let [a, b, c, d] = address.octets();
    [0x02, 0x52, a, b, c, d]
}
