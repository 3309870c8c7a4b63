//! Keeping a CPU awake, and measuring what others leave of it.

use anyhow::{Context, bail};
use ringside_sys::clock::thread_cpu_ns;
use ringside_sys::thread::{pin_to_cpu, yield_to_all};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

/// A thread that takes what nothing else wants of a CPU. A virtual CPU that has nothing to do is
/// taken off its host's, and comes back only after the rings of an interface have overflowed;
/// besides, what it gets is what the others left.
pub(super) struct Awake {
    is_over: Arc<AtomicBool>,
    /// Taken only when this is ended or dropped.
    thread: Option<JoinHandle<anyhow::Result<f64>>>,
}

impl Awake {
    /// From now on.
    ///
    /// # Errors
    /// The system makes no thread.
    pub(super) fn start(cpu: usize) -> anyhow::Result<Awake> {
        let is_over = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&is_over);
        let spin = move || {
            pin_to_cpu(cpu)?;
            yield_to_all()?;
            let (start, before) = (Instant::now(), thread_cpu_ns());
            while !seen.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
            let left_ns = (thread_cpu_ns() - before) as f64;
            Ok(1.0 - left_ns / 1e9 / start.elapsed().as_secs_f64())
        };
        let thread = std::thread::Builder::new().name("awake".into()).spawn(spin);
        Ok(Awake { is_over, thread: Some(thread.context("starting a thread")?) })
    }

    /// Ends it; the part of the CPU that others had.
    ///
    /// # Errors
    /// The thread could not do its work.
    pub(super) fn end(mut self) -> anyhow::Result<f64> {
        self.is_over.store(true, Ordering::Relaxed);
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(busy_share)) => Ok(busy_share?.clamp(0.0, 1.0)),
            _ => bail!("a thread that keeps a CPU awake died"),
        }
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // What it measured is not asked for any more.
            let _ = thread.join();
        }
    }
}
