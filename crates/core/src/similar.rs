//! Names that may have been meant.

/// How many names are suggested.
const SUGGESTIONS_MAX: usize = 3;

/// Interface names have at most 15 bytes (IFNAMSIZ), words of the rule language fewer; longer input
/// is no typing mistake and would make the comparison quadratic in it.
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

/// Insertions, deletions, replacements and exchanges of neighbours between two texts (Levenshtein,
/// with Damerau's exchanges: `tpc` is one slip away from `tcp`).
fn edit_distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before = Vec::new();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for i in 0..a.len() {
        let mut next = vec![i + 1];
        for j in 0..b.len() {
            let replaced = row[j] + usize::from(a[i] != b[j]);
            let mut least = replaced.min(row[j + 1] + 1).min(next[j] + 1);
            if i > 0 && j > 0 && a[i] == b[j - 1] && a[i - 1] == b[j] {
                least = least.min(before[j - 1] + 1);
            }
            next.push(least);
        }
        before = std::mem::replace(&mut row, next);
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
            ("tpc", "tcp", 1),
            ("ca", "abc", 3),
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
