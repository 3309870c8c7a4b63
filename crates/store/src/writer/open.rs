//! Opening what is to be written by its name, in directories where others may plant names.

use crate::links;
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Opens `path` as `options` say; through a symbolic link only if root or the user of this process
/// made it. So `/dev/stdout` and `/dev/fd/63` are what they lead to.
///
/// # Errors
/// Another user's link, one that was replaced meanwhile, or the system refused.
pub(super) fn open_to_write(options: &OpenOptions, path: &Path) -> io::Result<File> {
    match options.clone().custom_flags(OFlags::NOFOLLOW.bits() as i32).open(path) {
        // What O_NOFOLLOW says of a link.
        Err(error) if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => {
            let link = links::own_link(path)?;
            let file = options.open(path)?;
            links::still(path, &link)?;
            Ok(file)
        }
        opened => opened,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{lchown, symlink};

    #[test]
    fn own_links_are_followed_and_those_of_others_are_not() {
        let folder = tempfile::tempdir().unwrap();
        let (target, link) = (folder.path().join("target"), folder.path().join("link"));
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false);
        std::fs::write(&target, "precious").unwrap();
        symlink(&target, &link).unwrap();
        open_to_write(&options, &link).unwrap();
        open_to_write(&options, &target).unwrap();
        open_to_write(&options, &folder.path().join("new")).unwrap();
        if !ringside_testkit::need_root("own_links_are_followed") {
            return;
        }
        lchown(&link, Some(65534), None).unwrap();
        let error = open_to_write(&options, &link).unwrap_err().to_string();
        assert!(error.contains("another user made"), "{error}");
        assert_eq!(std::fs::read(&target).unwrap(), b"precious");
    }

    #[test]
    fn own_links_lead_to_names_that_are_to_be_made_and_to_pipes() {
        use std::io::{Read, Write};
        use std::os::fd::AsRawFd;
        let folder = tempfile::tempdir().unwrap();
        let (target, link) = (folder.path().join("new"), folder.path().join("link"));
        symlink(&target, &link).unwrap();
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false);
        open_to_write(&options, &link).unwrap();
        assert!(target.exists());
        let (mut reader, writer) = io::pipe().unwrap();
        let path = format!("/proc/self/fd/{}", writer.as_raw_fd());
        open_to_write(&options, Path::new(&path)).unwrap().write_all(b"frame").unwrap();
        drop(writer);
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "frame");
    }
}
