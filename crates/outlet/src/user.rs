//! A user's name and password, in a file of their own: what stands on a command line every user of
//! the machine can read.

use crate::error::OutletError;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Longest file: a line.
const FILE_BYTES_MAX: u64 = 4096;
/// Bits of its mode that let others read or change it; the group may read it.
const OPEN_MODE: u32 = 0o027;

/// Reads a file with a line `USER:PASSWORD`.
///
/// # Errors
/// It cannot be read, others may read it, or it holds something else.
pub fn read_user(path: &Path) -> Result<(String, String), OutletError> {
    let wrong = |reason| OutletError::User { path: path.to_owned(), reason };
    let failed =
        |source: io::Error| OutletError::File { action: "reading", path: path.to_owned(), source };
    let file = File::open(path).map_err(failed)?;
    if file.metadata().map_err(failed)?.mode() & OPEN_MODE != 0 {
        return Err(wrong("others can read it, or change it: chmod 600 (or 640)"));
    }
    let mut text = String::new();
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(failed)?;
    let line = text.strip_suffix('\n').unwrap_or(&text);
    let line = line.strip_suffix('\r').unwrap_or(line);
    match line.split_once(':') {
        _ if text.len() as u64 > FILE_BYTES_MAX || line.contains('\n') => {
            Err(wrong("it has more than one line"))
        }
        Some((name, password)) if is_name(name) => Ok((name.to_owned(), password.to_owned())),
        _ => Err(wrong("write one line, USER:PASSWORD")),
    }
}

/// Names that can be shown as a part of an address.
fn is_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(|c: char| c.is_control() || "/@".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{Permissions, set_permissions, write};
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_file_of_one_line_that_others_cannot_read_names_a_user() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("user");
        let read = |text: &[u8], mode: u32| {
            write(&path, text).unwrap();
            set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            read_user(&path).map_err(|error| error.to_string())
        };
        let user = Ok(("me".to_owned(), "a:b c".to_owned()));
        for text in ["me:a:b c", "me:a:b c\n", "me:a:b c\r\n"] {
            assert_eq!(read(text.as_bytes(), 0o600), user);
        }
        assert_eq!(read(b"me:a:b c", 0o640), user);
        assert_eq!(read(b"me:", 0o400), Ok(("me".to_owned(), String::new())));
        for (text, mode, words) in [
            ("me:secret", 0o644, "chmod 600"),
            ("me:secret", 0o660, "chmod 600"),
            ("secret", 0o600, "USER:PASSWORD"),
            (":secret", 0o600, "USER:PASSWORD"),
            ("me@x:secret", 0o600, "USER:PASSWORD"),
            ("", 0o600, "USER:PASSWORD"),
            ("me:secret\nyou:secret\n", 0o600, "more than one line"),
            (&format!("me:{}", "secret".repeat(1000)), 0o600, "more than one line"),
        ] {
            let error = read(text.as_bytes(), mode).unwrap_err();
            assert!(error.contains(words) && !error.contains("secret"), "{text}: {error}");
        }
        assert!(read(b"me:\xff", 0o600).unwrap_err().contains("UTF-8"));
        let error = read_user(&folder.path().join("none")).unwrap_err().to_string();
        assert!(error.contains("No such file"), "{error}");
    }
}
