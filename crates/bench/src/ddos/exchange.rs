//! Requests and answers over TCP between the two ends of a network, as netperf's TCP_RR: a byte
//! there, a byte back, and the next as soon as it is there. Connections are made before a flood
//! begins and last beyond its end.

use super::super::TOOL_CPU;
use super::super::load::SENDER_CPU;
use super::super::network;
use anyhow::{Context, bail};
use ringside_lab::{Lab, RECEIVER_ADDRESS};
use ringside_sys::thread::{THIS_THREAD, give_short_turns, pin_to_cpu};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Longest time to connect, on a network without a flood.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// Turns of a client, which shares its CPU with the generator: it answers as soon as it can, as if
/// the generator had a machine of its own.
const CLIENT_TURN_US: u32 = 100;
/// Its weight, 9 to 1 of the generator.
const CLIENT_NICE: i32 = -10;
/// How often a thread that waits for a byte looks whether it is over.
const LOOK: Duration = Duration::from_millis(50);

/// Clients at the sending end, on the generator's CPU, and servers at the receiving end, on the CPU
/// of its receive path. Ended when dropped.
pub(super) struct Exchange {
    state: Arc<State>,
    threads: Vec<JoinHandle<anyhow::Result<()>>>,
}

#[derive(Default)]
struct State {
    is_over: AtomicBool,
    transactions: AtomicU64,
}

impl Exchange {
    /// Connects, and begins.
    ///
    /// # Errors
    /// No connection came about.
    pub(super) fn start(lab: &Lab, connections: u16) -> anyhow::Result<Exchange> {
        let status = lab.status();
        let listener = network::inside(&status.receiver_namespace, || {
            TcpListener::bind((RECEIVER_ADDRESS, 0)).context("listening")
        })?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        let mut exchange = Exchange { state: Arc::default(), threads: Vec::new() };
        for _ in 0..connections {
            let client = network::inside(&status.sender_namespace, || connect(address))?;
            let server = accept(&listener)?;
            exchange.spawn(server, TOOL_CPU, answer)?;
            exchange.spawn(client, SENDER_CPU, ask)?;
        }
        Ok(exchange)
    }

    fn spawn(
        &mut self,
        stream: TcpStream,
        cpu: usize,
        work: fn(TcpStream, &State) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(LOOK))?;
        let state = self.state.clone();
        self.threads.push(std::thread::spawn(move || {
            pin_to_cpu(cpu)?;
            match work(stream, &state) {
                // The other end was the first to go.
                Err(_) if state.is_over.load(Ordering::Relaxed) => Ok(()),
                result => result,
            }
        }));
        Ok(())
    }

    /// Transactions of all connections so far.
    pub(super) fn transactions(&self) -> u64 {
        self.state.transactions.load(Ordering::Relaxed)
    }

    /// Ends it.
    ///
    /// # Errors
    /// A connection broke.
    pub(super) fn finish(mut self) -> anyhow::Result<()> {
        self.state.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let Ok(result) = thread.join() else { bail!("a thread of the exchange died") };
            result.context("a connection broke")?;
        }
        Ok(())
    }
}

impl Drop for Exchange {
    fn drop(&mut self) {
        self.state.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // The user gets the earlier error, not this one.
            let _ = thread.join();
        }
    }
}

fn connect(address: SocketAddr) -> anyhow::Result<TcpStream> {
    TcpStream::connect_timeout(&address, CONNECT_MAX).with_context(|| format!("to {address}"))
}

fn accept(listener: &TcpListener) -> anyhow::Result<TcpStream> {
    let start = Instant::now();
    loop {
        match listener.accept() {
            Ok((stream, _)) => {
                stream.set_nonblocking(false)?;
                return Ok(stream);
            }
            Err(error) if error.kind() != ErrorKind::WouldBlock => return Err(error.into()),
            Err(_) if start.elapsed() > CONNECT_MAX => bail!("no client connected"),
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}

fn ask(mut stream: TcpStream, state: &State) -> anyhow::Result<()> {
    give_short_turns(THIS_THREAD, CLIENT_TURN_US, CLIENT_NICE)?;
    loop {
        stream.write_all(&[1])?;
        if !receive(&mut stream, state)? {
            return Ok(());
        }
        state.transactions.fetch_add(1, Ordering::Relaxed);
    }
}

fn answer(mut stream: TcpStream, state: &State) -> anyhow::Result<()> {
    while receive(&mut stream, state)? {
        stream.write_all(&[1])?;
    }
    Ok(())
}

/// Waits for a byte; false if it is over, or the other end thinks so.
fn receive(stream: &mut TcpStream, state: &State) -> io::Result<bool> {
    let mut byte = [0];
    while !state.is_over.load(Ordering::Relaxed) {
        match stream.read(&mut byte) {
            Ok(bytes) => return Ok(bytes == 1),
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                ) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_byte_there_and_a_byte_back_is_a_transaction() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let server = accept(&listener).unwrap();
        let mut exchange = Exchange { state: Arc::default(), threads: Vec::new() };
        let cpu = ringside_sys::thread::allowed_cpus().unwrap()[0];
        exchange.spawn(server, cpu, answer).unwrap();
        exchange.spawn(client, cpu, ask).unwrap();
        while exchange.transactions() < 100 {
            std::thread::yield_now();
        }
        exchange.finish().unwrap();
    }

    #[test]
    fn an_end_that_waits_in_vain_ends_all_the_same() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut exchange = Exchange { state: Arc::default(), threads: Vec::new() };
        exchange.spawn(client, ringside_sys::thread::allowed_cpus().unwrap()[0], ask).unwrap();
        exchange.finish().unwrap();
    }
}
