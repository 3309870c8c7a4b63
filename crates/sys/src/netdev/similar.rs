//! Names that may have been meant.

/// How many names are suggested.
const SUGGESTIONS_MAX: usize = 3;

/// Interface names have at most 15 bytes (IFNAMSIZ); longer input is no typing mistake and would
/// make the comparison quadratic in it.
const NAME_BYTES_MAX: usize = 32;

/// Up to three of `names` that differ from `wrong` in at most half of its letters, best first.
pub fn similar_names<'n>(wrong: &str, names: impl Iterator<Item = &'n str>) -> Vec<String> {
    if wrong.len() > NAME_BYTES_MAX {
        return Vec::new();
    }
    let distance_max = wrong.chars().count().div_ceil(2);
    let mut found: Vec<(usize, &str)> = names
        .filter(|name| name.len() <= NAME_BYTES_MAX)
        .map(|name| (edit_distance(wrong, name), name))
        .filter(|&(distance, _)| distance <= distance_max)
        .collect();
    found.sort();
    found.into_iter().take(SUGGESTIONS_MAX).map(|(_, name)| name.to_owned()).collect()
}

/// Insertions, deletions and replacements between two texts (Levenshtein).
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        for (a, b, expected) in [
            ("", "", 0),
            ("eth0", "eth0", 0),
            ("eth0", "eth1", 1),
            ("eth", "ens3", 3),
            ("", "lo", 2),
        ] {
            assert_eq!(edit_distance(a, b), expected, "{a} {b}");
        }
    }

    #[test]
    fn the_nearest_comes_first_and_the_far_ones_do_not() {
        let names = ["lo", "wlan0", "eth10", "eth0", "enp3s0"];
        assert_eq!(similar_names("eth01", names.into_iter()), ["eth0", "eth10"]);
        assert!(similar_names("xyz", names.into_iter()).is_empty());
        assert!(similar_names(&"e".repeat(100), names.into_iter()).is_empty());
    }
}
