//! The kernel's module.

/// What is there if the module is.
const INFO: &str = "/proc/net/pf_ring/info";

/// The release of the module that the kernel has; `None` if it has none.
pub fn module() -> Option<String> {
    Some(release_in(&std::fs::read_to_string(INFO).ok()?))
}

/// The release in what the module says of itself.
fn release_in(text: &str) -> String {
    let line = text.lines().find_map(|line| line.strip_prefix("PF_RING Version"));
    line.map_or("of unknown release", |rest| rest.trim_start_matches([' ', ':']).trim()).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_release_stands_in_a_line_of_its_own() {
        let text = "PF_RING Version          : 8.9.0 (unknown)\nTotal rings              : 0\n";
        assert_eq!(release_in(text), "8.9.0 (unknown)");
        assert_eq!(release_in(""), "of unknown release");
    }
}
