//! What DPDK logs: handed on as diagnostics, and the last lines kept for errors.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// Lines that an error quotes: DPDK says the reason, and then once more what did not work.
const KEPT_LINES: usize = 3;

static LAST: Mutex<VecDeque<String>> = Mutex::new(VecDeque::new());

/// Called by the plug-in with text of the log, line by line.
pub(crate) extern "C" fn write(text: *const u8, bytes: u64) {
    if text.is_null() || bytes == 0 {
        return;
    }
    // SAFETY: the plug-in's contract (`ringside_dpdk_log`): `bytes` bytes are there, and stay as
    // they are during the call.
    let text = unsafe { std::slice::from_raw_parts(text, bytes as usize) };
    let text = String::from_utf8_lossy(text);
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        tracing::debug!(target: "dpdk", "{line}");
        if last.len() == KEPT_LINES {
            last.pop_front();
        }
        last.push_back(line.to_owned());
    }
}

/// The last lines, which are forgotten.
pub(crate) fn take_last() -> Vec<String> {
    LAST.lock().unwrap_or_else(PoisonError::into_inner).drain(..).collect()
}
