//! Names of operations: globs that choose among them.

/// Whether a name fits one of the globs, which commas separate. `*` stands for any text, `?` for one character.
///
/// ```
/// use duramen_lab::store::matches;
/// assert!(matches("kv.*,event.append", "kv.put.100B"));
/// assert!(!matches("kv.put.?KB", "kv.put.100B"));
/// ```
#[must_use]
pub fn matches(globs: &str, name: &str) -> bool {
    globs.split(',').any(|glob| fits(glob.trim().as_bytes(), name.as_bytes()))
}

fn fits(glob: &[u8], name: &[u8]) -> bool {
    match (glob.split_first(), name.split_first()) {
        (None, None) => true,
        (Some((b'*', rest)), _) => fits(rest, name) || (!name.is_empty() && fits(glob, &name[1..])),
        (Some((b'?', glob)), Some((_, name))) => fits(glob, name),
        (Some((a, glob)), Some((b, name))) if a == b => fits(glob, name),
        _ => false,
    }
}
