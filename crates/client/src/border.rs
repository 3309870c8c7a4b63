//! What libraries in Rust do at their border to C.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Does `work`; `failed` if it panics, which was printed by then. A panic that came to the border
/// of C would end its process.
pub fn guarded<T>(failed: T, work: impl FnOnce() -> T) -> T {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(done) => done,
        Err(panic) => {
            // To drop what it carries may panic again.
            std::mem::forget(panic);
            failed
        }
    }
}
