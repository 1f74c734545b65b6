//! Which state of a branch is meant: `main`, `main@v1`, `main@1234`, `main@2026-11-27T10:00:00Z`.

use crate::error::ReadError;
use duramen_store::{Moment, Snapshot, Store, DEFAULT_BRANCH};
use jiff::Timestamp;

/// The longest text for a branch or a state that is looked at, in bytes: a name and a tag have 128 each.
const TEXT_BYTES_MAX: usize = 512;

/// The branch of a text, as it was.
pub(super) fn snapshot(store: &Store, text: &str) -> Result<Snapshot, ReadError> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(ReadError::Invalid(format!(
            "a branch of {} bytes is too long: {TEXT_BYTES_MAX} are read",
            text.len()
        )));
    }
    let (name, moment) = split(text)?;
    let branch = store.branch(name)?;
    Ok(match moment {
        None => branch.snapshot()?,
        Some(moment) => branch.at(&moment)?,
    })
}

/// The branch that is meant if none is named: `main`, or the only one.
pub(super) fn main_one(store: &Store) -> Result<String, ReadError> {
    if store.branch(DEFAULT_BRANCH).is_ok() {
        return Ok(DEFAULT_BRANCH.to_owned());
    }
    let first = store.branches(false)?.into_iter().next();
    first.map(|branch| branch.name).ok_or_else(|| ReadError::Unknown("it has no branch".to_owned()))
}

fn split(text: &str) -> Result<(&str, Option<Moment>), ReadError> {
    let Some((name, state)) = text.split_once('@') else { return Ok((text, None)) };
    let refuse = |why: String| {
        ReadError::Invalid(format!(
            "{text:?} is no state of a branch: {why}; write a tag, a version like 1234, or a time like 2026-11-27T10:00:00Z"
        ))
    };
    if state.is_empty() {
        return Err(refuse("it is empty".to_owned()));
    }
    if state.bytes().all(|byte| byte.is_ascii_digit()) {
        let version = state.parse().map_err(|error| refuse(format!("{error}")))?;
        return Ok((name, Some(Moment::Version(version))));
    }
    if state.starts_with(|first: char| first.is_ascii_digit()) {
        let time: Timestamp = state.parse().map_err(|error| refuse(format!("{error}")))?;
        return Ok((name, Some(Moment::Time(time.as_millisecond()))));
    }
    Ok((name, Some(Moment::Tag(state.to_owned()))))
}

#[cfg(test)]
#[path = "../../tests/unit/moment.rs"]
mod tests;
