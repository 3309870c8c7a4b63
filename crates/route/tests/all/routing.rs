//! A router at work on a thread of its own.

use crate::net::Net;
use ringside_route::{Ledger, Options, Router};
use ringside_sys::netns::Namespace;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// With the times of the command line.
pub fn options(interfaces: &[&str]) -> Options {
    let interfaces = interfaces.iter().map(|name| (*name).to_owned()).collect();
    let (probe_interval, answer_age_max) = (Duration::from_millis(400), Duration::from_millis(100));
    Options { interfaces, probe_interval, answer_age_max, is_pinned: false }
}

/// A router in a namespace.
pub struct Routing {
    is_stopping: Arc<AtomicBool>,
    said: Arc<Mutex<Vec<String>>>,
    ledger: Arc<Mutex<Ledger>>,
    thread: JoinHandle<Ledger>,
}

impl Routing {
    /// Starts it, and waits until it forwards.
    pub fn start(net: &Net, space: &str, options: Options) -> Routing {
        let name = net.ns(space);
        let is_stopping = Arc::new(AtomicBool::new(false));
        let said: Arc<Mutex<Vec<String>>> = Arc::default();
        let ledger: Arc<Mutex<Ledger>> = Arc::default();
        let (started, is_started) = mpsc::channel();
        let thread = {
            let (is_stopping, said, ledger) =
                (Arc::clone(&is_stopping), Arc::clone(&said), Arc::clone(&ledger));
            std::thread::spawn(move || {
                Namespace::open(&name).unwrap().enter().unwrap();
                let (mut router, notes) = Router::open(&options).unwrap();
                said.lock().unwrap().extend(notes);
                router.start().unwrap();
                *ledger.lock().unwrap() = router.ledger().unwrap();
                started.send(()).unwrap();
                while !is_stopping.load(Ordering::Acquire) {
                    let notes = router.tend(Instant::now()).unwrap();
                    said.lock().unwrap().extend(notes);
                    *ledger.lock().unwrap() = router.ledger().unwrap();
                    std::thread::sleep(Duration::from_millis(50));
                }
                router.stop().unwrap();
                router.read_devices().unwrap();
                router.ledger().unwrap()
            })
        };
        is_started.recv().expect("the router starts");
        Routing { is_stopping, said, ledger, thread }
    }

    /// The account, as last read.
    pub fn ledger(&self) -> Ledger {
        self.ledger.lock().unwrap().clone()
    }

    /// All that it has said.
    pub fn said(&self) -> String {
        self.said.lock().unwrap().join("\n")
    }

    /// Ends it.
    pub fn stop(self) -> Ledger {
        self.is_stopping.store(true, Ordering::Release);
        self.thread.join().unwrap()
    }
}
