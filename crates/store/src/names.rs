//! What branches, spaces and keys may be called.

use crate::error::StoreError;

/// The branch that every store has. It cannot be deleted.
pub const DEFAULT_BRANCH: &str = "main";

/// The space that is meant when none is named.
pub const DEFAULT_SPACE: &str = "default";

/// The longest key in bytes.
pub const KEY_BYTES_MAX: usize = 8192;

/// The longest name of a branch, in bytes.
pub const BRANCH_NAME_BYTES_MAX: usize = 128;

/// The longest tag, in bytes.
pub const TAG_BYTES_MAX: usize = 128;

/// The longest name of a space, in bytes.
pub const SPACE_NAME_BYTES_MAX: usize = 64;

/// The longest name of a collection or type of event, in bytes.
pub const LABEL_BYTES_MAX: usize = 256;

fn refuse(what: &'static str, name: &str, reason: &'static str) -> Result<(), StoreError> {
    let name = name.chars().take(64).collect();
    Err(StoreError::InvalidName { what, name, reason })
}

/// Letters, digits and `._/-`, beginning with a letter or digit.
pub(crate) fn check_branch(name: &str) -> Result<(), StoreError> {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || b"._/-".contains(&byte);
    if name.is_empty() || name.len() > BRANCH_NAME_BYTES_MAX {
        return refuse("branch", name, "it must have 1 to 128 bytes");
    }
    if !name.as_bytes()[0].is_ascii_alphanumeric() || !name.bytes().all(inner) {
        return refuse("branch", name, "use letters, digits and . _ / -, and begin with a letter or digit");
    }
    Ok(())
}

/// Letters, digits and `._/-`, beginning with a letter: so a tag is never taken for a version or a time.
pub(crate) fn check_tag(name: &str) -> Result<(), StoreError> {
    let inner = |byte: u8| byte.is_ascii_alphanumeric() || b"._/-".contains(&byte);
    if name.is_empty() || name.len() > TAG_BYTES_MAX {
        return refuse("tag", name, "it must have 1 to 128 bytes");
    }
    if !name.as_bytes()[0].is_ascii_alphabetic() || !name.bytes().all(inner) {
        return refuse("tag", name, "use letters, digits and . _ / -, and begin with a letter");
    }
    Ok(())
}

/// Lower-case letters, digits, `_` and `-`, beginning with a letter.
pub(crate) fn check_space(name: &str) -> Result<(), StoreError> {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-".contains(&byte);
    if name.is_empty() || name.len() > SPACE_NAME_BYTES_MAX {
        return refuse("space", name, "it must have 1 to 64 bytes");
    }
    if !name.as_bytes()[0].is_ascii_lowercase() || !name.bytes().all(inner) {
        return refuse("space", name, "use a-z, 0-9, _ and -, and begin with a letter");
    }
    Ok(())
}

/// Any 1 to 8192 bytes.
#[inline]
pub(crate) fn check_key_bytes(key: &[u8]) -> Result<(), StoreError> {
    if key.is_empty() {
        return refuse("key", "", "it is empty");
    }
    if key.len() > KEY_BYTES_MAX {
        return Err(StoreError::TooLarge { what: "key", len: key.len(), max: KEY_BYTES_MAX });
    }
    Ok(())
}

/// Any text of 1 to 8192 bytes without NUL.
pub(crate) fn check_key(key: &str) -> Result<(), StoreError> {
    check_key_bytes(key.as_bytes())?;
    if key.as_bytes().contains(&0) {
        return refuse("key", key, "it has a NUL in it");
    }
    Ok(())
}

/// The name of a collection or type of event: any text of 1 to 256 bytes without NUL.
pub(crate) fn check_label(what: &'static str, name: &str) -> Result<(), StoreError> {
    if name.is_empty() {
        return refuse(what, name, "it is empty");
    }
    if name.len() > LABEL_BYTES_MAX {
        return Err(StoreError::TooLarge { what, len: name.len(), max: LABEL_BYTES_MAX });
    }
    if name.as_bytes().contains(&0) {
        return refuse(what, name, "it has a NUL in it");
    }
    Ok(())
}
