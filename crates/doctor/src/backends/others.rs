//! Systems that Ringside does not receive with, as far as they are installed here: the other
//! columns of the comparison.

use serde::Serialize;
use std::path::Path;

/// One of them.
#[derive(Serialize)]
pub struct Other {
    /// Its name.
    pub name: &'static str,
    /// What was found of it; none if it is not installed.
    pub found: Option<String>,
    /// Where it was looked for.
    pub probe: &'static str,
}

/// All of them.
pub fn all() -> Vec<Other> {
    let exists = |path: &'static str| Path::new(path).exists().then(|| path.to_owned());
    vec![Other { name: "netmap", found: exists("/dev/netmap"), probe: "/dev/netmap" }]
}
