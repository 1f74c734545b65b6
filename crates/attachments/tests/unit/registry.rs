//! A name that is acknowledged is kept, a password is shown to nobody, and nothing is attached that is not there.

use super::{Registry, RegistryError, ATTACHMENTS_MAX, AT_MAX, FILE};
use duramen_api::attachments::{AddAttachment, AttachmentKind};
use std::{fs, os::unix::fs::PermissionsExt, path::Path};

const URL: &str = "postgresql://ops:secret@db/shop";

fn functions(name: &str) -> AddAttachment {
    AddAttachment { name: name.to_owned(), kind: AttachmentKind::Functions, at: URL.to_owned() }
}

fn path_of(name: &str, kind: AttachmentKind, path: &Path) -> AddAttachment {
    AddAttachment { name: name.to_owned(), kind, at: path.to_str().unwrap().to_owned() }
}

#[test]
fn what_is_attached_is_there_for_the_next_daemon_and_its_password_for_nobody() {
    let home = tempfile::tempdir().unwrap();
    let registry = Registry::open(home.path()).unwrap();
    let added = registry.add(functions("shop")).unwrap();
    assert_eq!(added.at, "postgresql://ops@db/shop");
    assert!(!format!("{registry:?} {:?}", functions("shop")).contains("secret"));
    let mode = fs::metadata(home.path().join(FILE)).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);

    let next = Registry::open(home.path()).unwrap();
    assert_eq!(next.list(), std::slice::from_ref(&added));
    assert_eq!(next.find("shop", AttachmentKind::Functions).unwrap(), URL);
    assert_eq!(next.remove("shop").unwrap(), added);
    assert!(Registry::open(home.path()).unwrap().list().is_empty());
}

#[test]
fn what_is_not_there_or_another_thing_is_not_attached() {
    let home = tempfile::tempdir().unwrap();
    let registry = Registry::open(home.path()).unwrap();
    let file = home.path().join("a.c1z");
    fs::write(&file, "").unwrap();
    for (kind, at) in [
        (AttachmentKind::Store, "relative".to_owned()),
        (AttachmentKind::Store, file.to_str().unwrap().to_owned()),
        (AttachmentKind::Lab, file.to_str().unwrap().to_owned()),
        (AttachmentKind::Pack, home.path().to_str().unwrap().to_owned()),
        (AttachmentKind::Pack, home.path().join("none").to_str().unwrap().to_owned()),
        (AttachmentKind::Pack, format!("/{}", "a".repeat(AT_MAX))),
        (AttachmentKind::Functions, "no url:secret@".to_owned()),
    ] {
        let refused = registry.add(AddAttachment { name: "x".to_owned(), kind, at: at.clone() }).unwrap_err();
        assert!(matches!(refused, RegistryError::Unfit { .. }), "{kind} {at}: {refused}");
    }
    for name in ["", "../x", "A", "a/b"] {
        assert!(matches!(registry.add(functions(name)), Err(RegistryError::Name(_))), "{name}");
    }
    registry.add(path_of("x", AttachmentKind::Pack, &file)).unwrap();
    assert!(matches!(registry.add(functions("x")), Err(RegistryError::Exists(_))));
    let other = registry.find("x", AttachmentKind::Store).unwrap_err();
    assert_eq!(other.to_string(), "x is a pack, and this is asked of a store");
    assert!(matches!(registry.find("y", AttachmentKind::Pack), Err(RegistryError::Unknown(_))));
    assert!(matches!(registry.remove("y"), Err(RegistryError::Unknown(_))));
}

#[test]
fn there_are_so_many_at_most() {
    let home = tempfile::tempdir().unwrap();
    let registry = Registry::open(home.path()).unwrap();
    for number in 0..ATTACHMENTS_MAX {
        registry.add(functions(&format!("f{number}"))).unwrap();
    }
    assert!(matches!(registry.add(functions("more")), Err(RegistryError::Full)));
}

#[test]
fn a_damaged_file_is_told_and_left_as_it_is() {
    let home = tempfile::tempdir().unwrap();
    let path = home.path().join(FILE);
    fs::write(&path, "{").unwrap();
    assert!(matches!(Registry::open(home.path()), Err(RegistryError::File { .. })));
    assert_eq!(fs::read(&path).unwrap(), b"{");
}

/// What cannot be written down is not attached.
#[test]
fn a_change_that_cannot_be_kept_is_none() {
    let home = tempfile::tempdir().unwrap();
    let registry = Registry::open(home.path()).unwrap();
    registry.add(functions("kept")).unwrap();
    fs::remove_file(home.path().join(FILE)).unwrap();
    // A directory in its place cannot be replaced by a file, whoever tries it.
    fs::create_dir(home.path().join(FILE)).unwrap();
    assert!(matches!(registry.add(functions("lost")), Err(RegistryError::File { .. })));
    assert!(matches!(registry.remove("kept"), Err(RegistryError::File { .. })));
    assert_eq!(registry.list().iter().map(|shown| &shown.name).collect::<Vec<_>>(), ["kept"]);
}
