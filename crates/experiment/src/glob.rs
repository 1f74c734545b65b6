//! Globs of a spec, for files that may be changed and for files that may not.
//!
//! They are relative to the repository's root, with `/` between folders. `*`, `?` and `[a-z]` stay within a
//! folder, `**` goes through folders, `{a,b}` is either.

use globset::{Glob, GlobBuilder};

/// The longest glob, in bytes.
pub(crate) const GLOB_BYTES_MAX: usize = 1_000;

/// What a glob is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// It says what may be changed.
    Allow,
    /// It says what may not.
    Forbid,
}

/// The globs that one glob of a spec stands for.
pub(crate) fn compile(glob: &str, what_for: Use) -> Result<Vec<Glob>, String> {
    if glob.len() > GLOB_BYTES_MAX {
        return Err(format!("it is longer than {GLOB_BYTES_MAX} bytes"));
    }
    if glob.starts_with('!') {
        return Err("there is no `!`: `off_limits` is what is taken from `allow`".to_owned());
    }
    let path = glob.trim_end_matches('/');
    if path.is_empty() {
        return Err("it is empty; `**` is every file".to_owned());
    }
    if path.starts_with('/') || path.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return Err("write it relative to the root of the repository, without `.` and `..`".to_owned());
    }
    let build = |pattern: &str| {
        GlobBuilder::new(pattern)
            .literal_separator(true)
            .backslash_escape(true)
            .build()
            .map_err(|error| error.kind().to_string())
    };
    let last = path.rsplit('/').next().unwrap_or(path);
    let below = format!("{path}/**");
    if glob.ends_with('/') {
        Ok(vec![build(&below)?])
    } else if what_for == Use::Allow && last.contains(['*', '?', '[']) {
        Ok(vec![build(path)?])
    } else {
        Ok(vec![build(path)?, build(&below)?])
    }
}
