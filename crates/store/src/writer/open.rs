//! Opening what is to be written by its name, in directories where others may plant names.

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::geteuid;
use std::fs::{File, OpenOptions, canonicalize, symlink_metadata};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Opens `path` as `options` say. A symbolic link is followed if root or the user of this process
/// made it: else whoever can make a name where we write would choose what is written over.
///
/// # Errors
/// Another user's link, or the system refused.
pub(super) fn open_to_write(options: &OpenOptions, path: &Path) -> io::Result<File> {
    let mut options = options.clone();
    options.custom_flags(OFlags::NOFOLLOW.bits() as i32);
    match options.open(path) {
        // What O_NOFOLLOW says of a link.
        Err(error) if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => {
            let link = symlink_metadata(path)?;
            if link.uid() != 0 && link.uid() != geteuid().as_raw() {
                let text = "it is a symbolic link that another user made: name the file itself";
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, text));
            }
            // Where it leads is asked once: the link may be another by now, what is opened is not.
            options.open(canonicalize(path)?)
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
    fn a_link_to_nothing_makes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("link");
        symlink(folder.path().join("none"), &link).unwrap();
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false);
        assert!(open_to_write(&options, &link).is_err());
        assert!(!folder.path().join("none").exists());
    }
}
