//! Who may pass through a directory, beyond what its mode can say: a mode knows one group, and two have to pass where both
//! servers and the holders of branches find their sockets. The second one is an entry of an access control list.

use rustix::{
    fs::{getxattr, removexattr, setxattr, XattrFlags},
    io::Errno,
};
use std::{fs, io, os::unix::fs::PermissionsExt, path::Path};

/// The extended attributes that hold such lists: what holds for a directory, and what files made in it begin with.
const ACCESS: &str = "system.posix_acl_access";
const DEFAULT: &str = "system.posix_acl_default";
/// The only version of their format.
const VERSION: u32 = 2;
/// Of an entry that names nobody.
const NO_ID: u32 = u32::MAX;
/// Kinds of entries.
const USER_OBJ: u16 = 0x01;
const GROUP_OBJ: u16 = 0x04;
const GROUP: u16 = 0x08;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;
const ENTRY_BYTES: usize = 8;
/// Far more than a list of ours needs.
const LIST_MAX: usize = 1024;

/// Gives a directory a mode, and lets in nobody whom the mode does not.
pub(crate) fn close(dir: &Path, mode: u32) -> io::Result<()> {
    for list in [ACCESS, DEFAULT] {
        match removexattr(dir, list) {
            Ok(()) | Err(Errno::NODATA | Errno::OPNOTSUPP) => {}
            Err(error) => return Err(error.into()),
        }
    }
    fs::set_permissions(dir, fs::Permissions::from_mode(mode))
}

/// Lets a second group pass through a directory of mode 0710. Where the file system keeps no lists, everybody may pass
/// instead, and still lists nothing.
pub(crate) fn admit(dir: &Path, gid: u32) -> io::Result<()> {
    match setxattr(dir, ACCESS, &list(gid), XattrFlags::empty()) {
        Err(Errno::OPNOTSUPP) => {
            tracing::warn!(dir = %dir.display(), "the file system keeps no access control lists, so everybody may pass");
            fs::set_permissions(dir, fs::Permissions::from_mode(0o711))
        }
        set => Ok(set?),
    }
}

/// Whether the list of a directory lets a group pass.
pub(crate) fn admits(dir: &Path, gid: u32) -> bool {
    let mut found = [0_u8; LIST_MAX];
    let Ok(length) = getxattr(dir, ACCESS, &mut found) else { return false };
    found.get(4..length).unwrap_or_default().chunks_exact(ENTRY_BYTES).any(|entry| {
        let (kind, rights) =
            (u16::from_le_bytes([entry[0], entry[1]]), u16::from_le_bytes([entry[2], entry[3]]));
        let id = u32::from_le_bytes([entry[4], entry[5], entry[6], entry[7]]);
        kind == GROUP && id == gid && rights & 1 != 0
    })
}

/// All for the owner; passing for its group and for another one.
fn list(gid: u32) -> Vec<u8> {
    let mut list = VERSION.to_le_bytes().to_vec();
    for (kind, rights, id) in [
        (USER_OBJ, 7_u16, NO_ID),
        (GROUP_OBJ, 1, NO_ID),
        (GROUP, 1, gid),
        (MASK, 1, NO_ID),
        (OTHER, 0, NO_ID),
    ] {
        list.extend(kind.to_le_bytes());
        list.extend(rights.to_le_bytes());
        list.extend(id.to_le_bytes());
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_group_passes_until_the_directory_is_closed_again() {
        let dir = tempfile::tempdir().unwrap();
        close(dir.path(), 0o710).unwrap();
        assert!(!admits(dir.path(), 4711));
        admit(dir.path(), 4711).unwrap();
        let mode = fs::metadata(dir.path()).unwrap().permissions().mode() & 0o777;
        if mode == 0o711 {
            // No lists on this file system.
            return;
        }
        assert_eq!(mode, 0o710, "the mode says nothing new");
        assert!(admits(dir.path(), 4711) && !admits(dir.path(), 4712));
        close(dir.path(), 0o700).unwrap();
        assert!(!admits(dir.path(), 4711));
    }
}
