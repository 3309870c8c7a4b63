//! Names from outside, shown to people: of files, programs, interfaces.

use std::ffi::OsStr;
use std::fmt::{self, Write};

/// A name as it is shown in a message. Characters that would end the line, move the cursor, control
/// the terminal or change the order of the text are escaped (`\n`, `\u{1b}`); bytes that are no
/// text become a mark. Otherwise a user who can make a file could forge a message.
pub trait Shown {
    /// To be written into a text.
    fn shown(&self) -> ShownName<'_>;
}

impl<T: AsRef<OsStr> + ?Sized> Shown for T {
    fn shown(&self) -> ShownName<'_> {
        ShownName(self.as_ref())
    }
}

/// A name that is written escaped.
#[derive(Clone, Copy, Debug)]
pub struct ShownName<'n>(&'n OsStr);

impl fmt::Display for ShownName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.to_string_lossy();
        if !text.contains(is_hidden) {
            return f.pad(&text);
        }
        text.chars().try_for_each(|c| match is_hidden(c) {
            true => write!(f, "{}", c.escape_debug()),
            false => f.write_char(c),
        })
    }
}

/// Characters that are not seen where they stand.
fn is_hidden(c: char) -> bool {
    c.is_control() || is_direction(c)
}

/// Characters that change the order in which others are shown.
pub fn is_direction(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}')
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;

    #[test]
    fn a_name_says_nothing_to_a_terminal() {
        let name = Path::new("a b\n\u{1b}[2J\t\u{202e}\u{9b}é.pcapng");
        assert_eq!(name.shown().to_string(), "a b\\n\\u{1b}[2J\\t\\u{202e}\\u{9b}é.pcapng");
        assert_eq!(format!("{:>4}|", "x".shown()), "   x|");
        assert_eq!(OsStr::from_bytes(b"a\xff").shown().to_string(), "a\u{fffd}");
    }
}
