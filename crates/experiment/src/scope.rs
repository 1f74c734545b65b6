//! Which files a try may change.
//!
//! How globs are written is in `glob.rs`. What puts a folder off limits does so with all that is in it. What
//! allows a folder does so too if the last part of the glob has no wildcard: `src` allows everything below,
//! and `src/*` only the files of `src` itself.

use crate::glob::{self, Use};
use crate::spec::{Spec, SpecError, FILE};
use globset::{GlobSet, GlobSetBuilder};
use std::fmt;

/// The names of a series' own files where its folder is the root of the repository: beside the spec, all that
/// begin with this.
const OWN_PREFIX: &str = "experiments.";

/// What a try may change.
#[derive(Debug, Clone)]
pub struct Rules {
    /// `None` for everything.
    allow: Option<GlobSet>,
    off_limits: GlobSet,
    /// The glob of the spec that each glob of `off_limits` is from.
    origin: Vec<String>,
    series: Series,
    /// The file that figures are read from.
    figures: Option<String>,
}

/// Where the series' own files are.
#[derive(Debug, Clone)]
enum Series {
    Outside,
    Root,
    Folder(String),
}

/// A file that a try may not change, and does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// The file, relative to the root of the repository.
    pub file: String,
    /// Why it may not be changed.
    pub why: Why,
}

/// Why a file may not be changed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Why {
    /// It is the series' own: changing it would change what is measured.
    Series,
    /// Figures are read from it: a commit that has it could bring its own figures.
    Figures,
    /// This glob of the spec puts it off limits.
    OffLimits(String),
    /// No glob of the spec allows it.
    NotAllowed,
    /// It is not a path within a repository.
    NoPath,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Series => f.write_str("it belongs to the series itself, which no try may change"),
            Self::Figures => f.write_str("figures are read from it, so no try may bring it along"),
            Self::OffLimits(glob) => write!(f, "it is off limits by `{glob}` of `scope.off_limits`"),
            Self::NotAllowed => f.write_str("no glob of `scope.allow` matches it"),
            Self::NoPath => f.write_str("it is not a path within the repository"),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}` may not be changed: {}", self.file, self.why)
    }
}

impl Rules {
    /// The rules of a spec for a series whose folder is `series_dir_in_repo`, relative to the repository's
    /// root: empty or `.` for the root itself, and a path that is absolute or begins with `..` for one
    /// outside of the repository.
    ///
    /// # Errors
    /// When a glob does not parse, which [`Spec::parse`] finds too.
    pub fn new(spec: &Spec, series_dir_in_repo: &str) -> Result<Self, SpecError> {
        let (allow, _) = set(&spec.scope.allow, Use::Allow)?;
        let (off_limits, origin) = set(&spec.scope.off_limits, Use::Forbid)?;
        let folder = series_dir_in_repo.trim_end_matches('/');
        let folder = folder.strip_prefix("./").unwrap_or(folder);
        let series = match folder {
            _ if series_dir_in_repo.starts_with('/') => Series::Outside,
            "" | "." => Series::Root,
            _ if folder == ".." || folder.starts_with("../") => Series::Outside,
            _ => Series::Folder(folder.to_owned()),
        };
        let allow = (!spec.scope.allow.is_empty()).then_some(allow);
        Ok(Self { allow, off_limits, origin, series, figures: spec.measure.file.clone() })
    }

    /// Those of the files that may not be changed, in the same order. Files are relative to the repository's
    /// root.
    pub fn violations(&self, files: &[String]) -> Vec<Violation> {
        let violation = |file: &String| Some(Violation { file: file.clone(), why: self.why_not(file)? });
        files.iter().filter_map(violation).collect()
    }

    fn why_not(&self, file: &str) -> Option<Why> {
        if file.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return Some(Why::NoPath);
        }
        let own = match &self.series {
            Series::Outside => false,
            Series::Root => file == FILE || (file.starts_with(OWN_PREFIX) && !file.contains('/')),
            // The folder itself too: it could be replaced by a file or a link.
            Series::Folder(folder) => {
                file.strip_prefix(folder.as_str())
                    .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
                    || folder.strip_prefix(file).is_some_and(|rest| rest.starts_with('/'))
            }
        };
        if own {
            return Some(Why::Series);
        }
        if self.figures.as_deref().is_some_and(|figures| {
            figures == file || figures.strip_prefix(file).is_some_and(|rest| rest.starts_with('/'))
        }) {
            return Some(Why::Figures);
        }
        if let Some(first) = self.off_limits.matches(file).first() {
            return Some(Why::OffLimits(self.origin[*first].clone()));
        }
        match &self.allow {
            Some(allow) if !allow.is_match(file) => Some(Why::NotAllowed),
            _ => None,
        }
    }
}

/// The set of some globs, and for each glob of the set, which one it is from.
fn set(globs: &[String], what_for: Use) -> Result<(GlobSet, Vec<String>), SpecError> {
    let mut builder = GlobSetBuilder::new();
    let mut origin = Vec::new();
    for glob in globs {
        let compiled =
            glob::compile(glob, what_for).map_err(|why| SpecError::Glob { glob: glob.clone(), why })?;
        for one in compiled {
            builder.add(one);
            origin.push(glob.clone());
        }
    }
    let all = || globs.join("`, `");
    let set = builder.build().map_err(|error| SpecError::Glob { glob: all(), why: error.to_string() })?;
    Ok((set, origin))
}
