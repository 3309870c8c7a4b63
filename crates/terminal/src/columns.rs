//! Tables for people: the first columns to the left, numbers to the right.

use ringside_core::Shown;

/// The head, a rule, and a line for each row; columns are as wide as their widest cell. A column is
/// set to the right if all its cells are numbers or empty.
pub fn text(head: &[&str], rows: &[Vec<String>]) -> String {
    let cell = |row: &[String], column: usize| {
        row.get(column).map(|text| text.shown().to_string()).unwrap_or_default()
    };
    let widths: Vec<usize> = (0..head.len())
        .map(|column| {
            let cells = rows.iter().map(|row| cell(row, column).chars().count());
            cells.chain([head[column].chars().count()]).max().unwrap_or(0)
        })
        .collect();
    let is_number: Vec<bool> = (0..head.len())
        .map(|column| rows.iter().all(|row| looks_like_a_number(&cell(row, column))))
        .collect();
    let line = |cells: &[String]| {
        let mut line = String::new();
        for (column, &width) in widths.iter().enumerate() {
            let text = cell(cells, column);
            let padding = " ".repeat(width - text.chars().count());
            let padded = if is_number[column] { padding + &text } else { text + &padding };
            line.push_str(&padded);
            line.push_str("  ");
        }
        format!("{}\n", line.trim_end())
    };
    let head: Vec<String> = head.iter().map(|&text| text.to_owned()).collect();
    let rule: Vec<String> = widths.iter().map(|&width| "-".repeat(width)).collect();
    let body: String = rows.iter().map(|row| line(row)).collect();
    line(&head) + &line(&rule) + &body
}

fn looks_like_a_number(text: &str) -> bool {
    let digits = text.trim_start_matches(['≥', ' ', '-']);
    text.is_empty() || digits.starts_with(|c: char| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_stand_left_and_numbers_right() {
        let row = |cells: [&str; 3]| cells.map(String::from).to_vec();
        let rows = [row(["tcpdump", "1.5", "≥ 2"]), row(["a", "10.25", ""])];
        let expected = "tool       M/s  limit\n\
                        -------  -----  -----\n\
                        tcpdump    1.5    ≥ 2\n\
                        a        10.25\n";
        assert_eq!(text(&["tool", "M/s", "limit"], &rows), expected);
    }

    #[test]
    fn no_cell_leaves_its_line() {
        let table = text(&["rule"], &[vec!["a\nb\u{1b}[2J".into()]]);
        assert_eq!(table.lines().last(), Some("a\\nb\\u{1b}[2J"));
    }
}
