//! What the process may reach: the store, to read it.

use anyhow::Context;
use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr,
    RulesetCreatedAttr, path_beneath_rules,
};
use std::path::Path;

/// What the rules are written in; older kernels do as much of it as they know.
const KNOWN: ABI = ABI::V5;
/// What tells of processors and time zones.
const SYSTEM: [&str; 4] = ["/proc", "/sys/fs/cgroup", "/sys/devices/system", "/usr/share/zoneinfo"];

/// Leaves this process, and the threads that it starts, files below `store` to read, and no
/// network.
///
/// # Errors
/// The store cannot be opened, or the system refused.
pub(crate) fn to(store: &Path) -> anyhow::Result<()> {
    std::fs::read_dir(store).with_context(|| format!("--store {}", store.display()))?;
    let read = AccessFs::from_read(KNOWN) & !AccessFs::Execute;
    Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(KNOWN))?
        .handle_access(AccessNet::from_all(KNOWN))?
        .create()?
        .add_rules(path_beneath_rules(SYSTEM, read))?
        .add_rules(path_beneath_rules([store], read))?
        .restrict_self()
        .context("giving up other files")?;
    Ok(())
}
