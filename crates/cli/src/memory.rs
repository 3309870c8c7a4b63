//! How much memory there is for us.

/// Bytes that programs can have without ending others (MemAvailable of proc(5)); `None` if /proc
/// does not say.
pub fn available_bytes() -> Option<u64> {
    available(&std::fs::read_to_string("/proc/meminfo").ok()?)
}

fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_right_line_counts() {
        let meminfo = "MemTotal:       24000 kB\nMemFree: 5 kB\nMemAvailable:   23000 kB\n";
        assert_eq!(available(meminfo), Some(23_000 * 1024));
        for wrong in ["", "MemAvailable: many kB\n", "MemAvailable: 18446744073709551615 kB\n"] {
            assert_eq!(available(wrong), None, "{wrong}");
        }
    }
}
