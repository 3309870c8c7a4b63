//! A lane's socket and ring, to be waited for.

use crate::backend::wait::Port;
use ringside_sys::SysError;
use ringside_sys::xsk::{RxRing, XskSocket};
use std::time::Duration;

pub(super) struct SocketPort<'l> {
    pub socket: &'l XskSocket,
    pub rx: &'l mut RxRing,
}

impl Port for SocketPort<'_> {
    fn is_empty(&mut self) -> bool {
        self.rx.is_empty()
    }

    fn wait(&self, left: Duration) -> Result<(), SysError> {
        self.socket.wait(left).map(|_| ())
    }

    fn kick(&self) {
        self.socket.kick();
    }

    fn stop_busy_poll(&self) -> Result<(), SysError> {
        self.socket.stop_busy_poll()
    }
}
