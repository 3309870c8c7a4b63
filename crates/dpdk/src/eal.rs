//! DPDK's environment (EAL), which a process starts once and which stays to its end.

use crate::device::Device;
use crate::error::DpdkError;
use crate::log;
use crate::plugin::table;
use ringside_sys::thread;
use std::ffi::{CString, c_char, c_int};
use std::sync::{Mutex, PoisonError};

/// Where memory for frames comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Memory {
    /// Huge pages, for cards that read and write it themselves: this one first, by its PCI address.
    Huge {
        /// As `0000:03:00.0`.
        card: String,
    },
    /// Ordinary pages, for devices that are drivers alone; taken as they are used.
    Ordinary {
        /// Most of it.
        megabytes: u32,
    },
}

/// Most memory of devices that need no huge pages.
const ORDINARY_MEGABYTES: u32 = 1024;

impl Memory {
    /// What a device needs.
    pub fn of(device: &Device) -> Memory {
        match device.is_card {
            true => Memory::Huge { card: device.name.clone() },
            false => Memory::Ordinary { megabytes: ORDINARY_MEGABYTES },
        }
    }
}

/// With which memory it was started, if it was.
static STARTED: Mutex<Option<Memory>> = Mutex::new(None);

/// True once it runs.
pub(crate) fn is_started() -> bool {
    STARTED.lock().unwrap_or_else(PoisonError::into_inner).is_some()
}

/// Starts it unless it runs. What it logs goes to the diagnostics.
///
/// # Errors
/// There is no plug-in, memory is missing, or it runs without huge pages.
pub fn start(memory: &Memory) -> Result<(), DpdkError> {
    let mut started = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    match (&*started, memory) {
        (Some(Memory::Ordinary { .. }), Memory::Huge { .. }) => Err(DpdkError::StartedWithout),
        (Some(_), _) => Ok(()),
        (None, _) => {
            let words = words(memory);
            // It pins the thread that starts it to a CPU, and takes it for its own: one that ends.
            let run = std::thread::Builder::new().name("dpdk".into()).spawn(move || run(words));
            let ended = run.map(std::thread::JoinHandle::join);
            ended.unwrap_or_else(|error| Ok(Err(no_thread(&error)))).unwrap_or_else(|panic| {
                std::panic::resume_unwind(panic);
            })?;
            *started = Some(memory.clone());
            Ok(())
        }
    }
}

fn no_thread(error: &std::io::Error) -> DpdkError {
    let what = "starting DPDK's thread".to_owned();
    DpdkError::Refused { what, reason: error.to_string(), log: Vec::new() }
}

fn run(words: Vec<CString>) -> Result<(), DpdkError> {
    let table = table()?;
    // It may reorder the pointers; the texts stay for good, since it keeps some.
    let mut pointers: Vec<*mut c_char> = words.into_iter().map(CString::into_raw).collect();
    let count = pointers.len() as c_int;
    pointers.push(std::ptr::null_mut());
    // SAFETY: `count` pointers to texts that are never freed, and one of null behind them; the
    // function for the log may be called from any thread.
    let done = unsafe { (table.start)(count, pointers.as_mut_ptr(), log::write) };
    table.check("starting DPDK", done).map(|_| ())
}

/// The command line of EAL.
fn words(memory: &Memory) -> Vec<CString> {
    let cpus = thread::allowed_cpus().unwrap_or_else(|_| vec![0]);
    let cpus: Vec<String> = cpus.iter().map(ToString::to_string).collect();
    // One thread, which may run wherever this process may; nothing that others could talk to.
    let mut words: Vec<String> = vec!["ringside".into(), "--no-telemetry".into()];
    words.extend(["--lcores".into(), format!("0@({})", cpus.join(","))]);
    match memory {
        Memory::Huge { card } => {
            let prefix = format!("ringside-{}", std::process::id());
            words.extend(["--in-memory", "--iova-mode", "va", "-a", card].map(Into::into));
            words.extend(["--file-prefix".into(), prefix]);
        }
        Memory::Ordinary { megabytes } => {
            words.extend(["--no-huge", "--no-shconf", "--no-pci", "-m"].map(Into::into));
            words.push(megabytes.to_string());
        }
    }
    words.into_iter().filter_map(|word| CString::new(word).ok()).collect()
}

/// Takes from EAL's own thread, which goes on to the process's end, all capabilities and the right
/// to gain any. Whatever needs one is opened before.
///
/// # Errors
/// It does not answer.
pub fn limit_threads() -> Result<(), DpdkError> {
    if !is_started() {
        return Ok(());
    }
    let table = table()?;
    // SAFETY: EAL runs, as was seen.
    let done = unsafe { (table.limit_threads)() };
    table.check("taking privileges from DPDK's thread", done).map(|_| ())
}
