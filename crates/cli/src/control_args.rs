//! Options of a run that can be controlled.

use clap::Args;
use ringside_control::SocketPlace;
use std::path::PathBuf;

/// Options of a run that can be controlled.
#[derive(Args)]
pub struct ControlArgs {
    /// Control socket for `ringside status`, `control` and `rules` [default: in /run/ringside, with
    /// the process id in its name]
    #[arg(long, value_name = "SOCKET", conflicts_with = "no_control")]
    control: Option<PathBuf>,

    /// Make no control socket.
    #[arg(long)]
    no_control: bool,
}

impl ControlArgs {
    /// Where the socket is to be.
    pub fn place(&self) -> SocketPlace {
        match (&self.control, self.no_control) {
            (_, true) => SocketPlace::None,
            (Some(path), _) => SocketPlace::Path(path.clone()),
            (None, _) => SocketPlace::Default,
        }
    }
}
