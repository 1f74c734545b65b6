//! What held-out scales stand for, in files outside of the repository: they are read when a try is judged, and by nobody
//! else.

use super::{Scale, Spec};
use crate::invariant::Condition;
use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
};

/// The greatest size of such a file, in bytes.
const BYTES_MAX: u64 = 1 << 20;
/// The longest value, in bytes.
const VALUE_MAX: usize = 32 * 1024;

/// Why the values of a scale are not there.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ValuesError {
    /// The file cannot be read.
    #[error("the values of the scale {scale} cannot be read from {}: {source}; make the file, with a value a line", path.display())]
    Io {
        /// The scale.
        scale: String,
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file lies where whoever proposes, or what is measured, could read it.
    #[error(
        "the values of the scale {scale} lie in {}, which tries can see; move them out of the repository {} and of the \
         worktrees, and name that in the spec",
        path.display(),
        root.display()
    )]
    Inside {
        /// The scale.
        scale: String,
        /// The file.
        path: PathBuf,
        /// The repository.
        root: PathBuf,
    },
    /// Nothing can be drawn from it.
    #[error("the values of the scale {scale} in {} are wrong: {why}", path.display())]
    Wrong {
        /// The scale.
        scale: String,
        /// The file.
        path: PathBuf,
        /// What is wrong, and what is right.
        why: &'static str,
    },
}

/// The values of a file.
pub(crate) struct Values {
    /// One a line.
    pub(crate) list: Vec<String>,
    /// BLAKE3 of the file, in hex.
    pub(crate) digest: String,
}

/// A path of a spec, in which `~/` is the home.
pub(crate) fn expanded(path: &str, home: Option<&Path>) -> PathBuf {
    match (path.strip_prefix("~/"), home) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => PathBuf::from(path),
    }
}

/// The file of a scale, if it has one and it lies below none of these.
pub(crate) fn place(
    scale: &Scale,
    home: Option<&Path>,
    below: &[&Path],
) -> Option<Result<PathBuf, ValuesError>> {
    let path = expanded(scale.values.as_ref()?, home);
    let scale = scale.name.clone();
    Some(match path.canonicalize() {
        Err(source) => Err(ValuesError::Io { scale, path, source }),
        Ok(path) if below.iter().any(|top| path.starts_with(top)) => {
            let root = below.first().map(|top| top.to_path_buf()).unwrap_or_default();
            Err(ValuesError::Inside { scale, path, root })
        }
        Ok(path) if !path.is_file() => Err(ValuesError::Wrong {
            scale,
            path,
            why: "it is not a regular file; give a file with one value per line",
        }),
        Ok(path) => Ok(path),
    })
}

/// Reads the values of a scale.
pub(crate) fn read(spec: &Spec, scale: &Scale, path: &Path) -> Result<Values, ValuesError> {
    let name = || scale.name.clone();
    let io = |source| ValuesError::Io { scale: name(), path: path.to_owned(), source };
    let wrong = |why| ValuesError::Wrong { scale: name(), path: path.to_owned(), why };
    let mut bytes = Vec::new();
    File::open(path).map_err(io)?.take(BYTES_MAX + 1).read_to_end(&mut bytes).map_err(io)?;
    if bytes.len() as u64 > BYTES_MAX {
        return Err(wrong("it is larger than 1 MiB"));
    }
    let digest = blake3::hash(&bytes).to_hex().to_string();
    let text = String::from_utf8(bytes).map_err(|_| wrong("it is not valid UTF-8"))?;
    let mut list: Vec<String> =
        text.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned).collect();
    list.sort_unstable();
    list.dedup();
    if list.len() < 2 {
        return Err(wrong(
            "give at least two values, one per line: a single value is known once it has been drawn",
        ));
    }
    if list.iter().any(|value| value.len() > VALUE_MAX || value.chars().any(char::is_control)) {
        return Err(wrong("a value is one line of text without control characters, of 32 KiB at most"));
    }
    if list.iter().any(|value| spec.scales.iter().any(|other| !other.is_drawn() && other.value == *value)) {
        return Err(wrong("one of the values is already used by another scale, so it would not be new"));
    }
    let needs_number = spec
        .invariants
        .iter()
        .filter_map(|invariant| Condition::parse(&invariant.holds).ok())
        .any(|condition| condition.names_scale());
    if needs_number && list.iter().any(|value| Condition::scale_number(value).is_none()) {
        return Err(wrong("an invariant compares `scale`, but one of the values is not a number"));
    }
    Ok(Values { list, digest })
}

/// The values of all scales that have a file.
pub(crate) fn all(
    spec: &Spec,
    home: Option<&Path>,
    below: &[&Path],
) -> Result<BTreeMap<String, Values>, ValuesError> {
    let mut found = BTreeMap::new();
    for scale in &spec.scales {
        if let Some(path) = place(scale, home, below) {
            found.insert(scale.name.clone(), read(spec, scale, &path?)?);
        }
    }
    Ok(found)
}
