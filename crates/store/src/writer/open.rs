//! Opening what is to be written by its name, in directories where others may plant names.

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::geteuid;
use std::fs::{File, Metadata, OpenOptions, symlink_metadata};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Opens `path` as `options` say. A symbolic link is followed if root or the user of this process
/// made it: else whoever can make a name where we write would choose what is written over. So
/// `/dev/stdout` and `/dev/fd/63` are what they lead to.
///
/// # Errors
/// Another user's link, one that was replaced meanwhile, or the system refused.
pub(super) fn open_to_write(options: &OpenOptions, path: &Path) -> io::Result<File> {
    let refused = |text| Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
    match options.clone().custom_flags(OFlags::NOFOLLOW.bits() as i32).open(path) {
        // What O_NOFOLLOW says of a link.
        Err(error) if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => {
            let link = symlink_metadata(path)?;
            if link.uid() != 0 && link.uid() != geteuid().as_raw() {
                return refused(
                    "it is a symbolic link that another user made: name the file itself",
                );
            }
            let file = options.open(path)?;
            // Nothing was written yet, so a link that was put there in between did no harm.
            match identity(&symlink_metadata(path)?) == identity(&link) {
                true => Ok(file),
                false => refused("the symbolic link was replaced while it was opened"),
            }
        }
        opened => opened,
    }
}

/// Tells a link from any that has its name later: renaming changes the time.
fn identity(link: &Metadata) -> (u64, u64, i64, i64) {
    (link.dev(), link.ino(), link.ctime(), link.ctime_nsec())
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
