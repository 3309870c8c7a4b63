//! Gives the capture ring to other processes: `--share SOCKET`.
//!
//! A process that may connect to the socket gets the ring's memfd, which is sealed against writing,
//! and the [`Hello`]. From then on a reader costs the capture nothing but an open connection: it is
//! neither woken nor waited for, and killing it changes nothing for anybody else.

use crate::start::{RunError, spawn};
use ringside_core::share::{ATTACHED_MAX, Hello};
use ringside_ring::CaptureRing;
use ringside_sys::fdpass;
use rustix::event::{PollFd, PollFlags, poll};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{JoinHandle, sleep};
use std::time::Duration;

/// How long no reader is let in after the system refused to.
const ACCEPT_PAUSE: Duration = Duration::from_millis(500);
/// How long a reader may take to accept the hello, before it is given up: others wait meanwhile.
const SEND_TIMEOUT: Duration = Duration::from_millis(500);

/// A listening socket on which no connection is answered yet.
pub struct ShareSocket {
    listener: UnixListener,
    /// Takes the socket's name away when it is dropped.
    _name: Box<dyn Send>,
}

impl ShareSocket {
    /// Readers will be answered on `listener`; `name` is dropped when the sharing ends.
    ///
    /// # Errors
    /// The system refused.
    pub fn new(listener: UnixListener, name: impl Send + 'static) -> io::Result<ShareSocket> {
        listener.set_nonblocking(true)?;
        Ok(ShareSocket { listener, _name: Box::new(name) })
    }

    /// Answers readers on a thread of its own.
    ///
    /// # Errors
    /// There is no thread or pipe to be had.
    pub(crate) fn serve(self, ring: Arc<CaptureRing>, hello: &Hello) -> Result<Share, RunError> {
        let hello = serde_json::to_vec(hello).expect("a struct of texts and numbers is JSON");
        let (stopped, stop) = UnixStream::pair().map_err(RunError::Thread)?;
        let attached = Arc::new(AtomicUsize::new(0));
        let server = Server {
            socket: self,
            ring,
            hello,
            stopped,
            attached: attached.clone(),
            readers: Vec::new(),
        };
        let thread = spawn("share", move || server.run())?;
        Ok(Share { stop: Some(stop), thread: Some(thread), attached })
    }
}

/// A ring that is being shared. Dropping it ends the sharing: readers see the end of the capture.
pub(crate) struct Share {
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
    attached: Arc<AtomicUsize>,
}

impl Share {
    /// Readers that are attached now.
    pub(crate) fn attached(&self) -> usize {
        self.attached.load(Ordering::Acquire)
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A panic there was printed; the capture does not depend on it.
            let _ = thread.join();
        }
    }
}

struct Server {
    socket: ShareSocket,
    ring: Arc<CaptureRing>,
    hello: Vec<u8>,
    stopped: UnixStream,
    attached: Arc<AtomicUsize>,
    readers: Vec<UnixStream>,
}

impl Server {
    fn run(mut self) {
        loop {
            let mut fds = vec![
                PollFd::new(&self.stopped, PollFlags::IN),
                PollFd::new(&self.socket.listener, PollFlags::IN),
            ];
            // A reader says nothing: whatever there is to read from it is its end, or noise that
            // ends it as well.
            fds.extend(self.readers.iter().map(|reader| PollFd::new(reader, PollFlags::IN)));
            match poll(&mut fds, None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => {
                    tracing::warn!("no further reader can attach: {error}");
                    return;
                }
            }
            let ready: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
            if ready[0] {
                return;
            }
            let mut ended = ready[2..].iter();
            self.readers.retain(|_| !ended.next().copied().unwrap_or(false));
            if ready[1] {
                self.accept();
            }
            self.attached.store(self.readers.len(), Ordering::Release);
        }
    }

    fn accept(&mut self) {
        let stream = match self.socket.listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Err(error) => {
                // As without descriptors: who waits at the door would wake us again at once.
                tracing::warn!("a reader cannot attach: {error}");
                sleep(ACCEPT_PAUSE);
                return;
            }
        };
        if self.readers.len() >= ATTACHED_MAX {
            tracing::warn!("a reader was refused: {ATTACHED_MAX} are attached");
            return;
        }
        match self.greet(&stream) {
            Ok(()) => self.readers.push(stream),
            // It looked whether a capture is here, as the next start on this path does.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {
                tracing::debug!("a reader hung up before it was greeted");
            }
            Err(error) => tracing::warn!("a reader was not attached: {error}"),
        }
    }

    fn greet(&self, stream: &UnixStream) -> io::Result<()> {
        stream.set_nonblocking(false)?;
        stream.set_write_timeout(Some(SEND_TIMEOUT))?;
        fdpass::send_line(stream, &self.hello, &[self.ring.fd().as_fd()])
    }
}
