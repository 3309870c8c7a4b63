//! Text that a terminal may be shown.

use std::borrow::Cow;

/// Text with its control characters, which a terminal obeys, as `written` has them.
pub(crate) fn plain(text: &str, written: impl Fn(char) -> String) -> Cow<'_, str> {
    if !text.contains(char::is_control) {
        return text.into();
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c.is_control() {
            true => out.push_str(&written(c)),
            false => out.push(c),
        }
    }
    out.into()
}
