//! How much memory and time a question may take, whatever the engine does.

use crate::question::Question;
use crate::{LATE, say};
use anyhow::Context;
use rustix::process::{Resource, Rlimit, Signal, getrlimit, setrlimit};
use std::time::Duration;

/// What the engine needs next to what it counts: code, plans, buffers of files that are read.
const UNCOUNTED_BYTES: u64 = 512 << 20;

/// A third of the claim to a CPU that others have: a capture comes first, an answer still comes.
const NICE: i32 = 5;

/// Sets both, and has this process end with who asks.
///
/// # Errors
/// The system refused.
pub(crate) fn set(question: &Question) -> anyhow::Result<()> {
    let Rlimit { maximum, .. } = getrlimit(Resource::Data);
    let most = question.memory_bytes.saturating_mul(2).saturating_add(UNCOUNTED_BYTES);
    let most = maximum.map_or(most, |maximum| maximum.min(most));
    let limit = Rlimit { current: Some(most), maximum: Some(most) };
    setrlimit(Resource::Data, limit).context("limiting memory")?;
    // Next to what captures: whatever else wants a CPU has it first.
    rustix::process::setpriority_process(None, NICE).context("giving way to others")?;
    // Who asked has gone.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).context("prctl")?;
    let time = Duration::from_millis(question.timeout_ms);
    // A thread, and not the engine's own clock: what does not look at that ends all the same.
    let watch = move || {
        std::thread::sleep(time);
        say(&format!(
            "no answer after {time:?}; ask about less (WHERE date = … AND hour = …), or give it \
             --timeout"
        ));
        std::process::exit(LATE);
    };
    std::thread::Builder::new().name("timeout".into()).spawn(watch).context("starting a thread")?;
    Ok(())
}
