//! How a state of a branch is written: `main`, `main@v1`, `main@1234`, `main@-5m`, `main@2026-11-27T10:00:00Z`.

use crate::{failure::Failure, output, parse};
use duramen_base::clock;
use duramen_store::{Moment, Snapshot, Store};
use jiff::Timestamp;

/// The name of a branch, and which of its states is meant; none for the present.
pub(crate) fn split(text: &str) -> Result<(&str, Option<Moment>), Failure> {
    match text.split_once('@') {
        None => Ok((text, None)),
        Some((name, moment)) => Ok((name, Some(read(moment)?))),
    }
}

/// A tag, a version, a time, or how long ago.
pub(crate) fn read(text: &str) -> Result<Moment, Failure> {
    let refuse = |why: String| {
        Failure::Usage(format!("{text:?} is no state of a branch: {why}; write a tag, a version like 1234, a time like 2026-11-27T10:00:00Z, or -5m"))
    };
    if text.is_empty() {
        return Err(refuse("it is empty".to_owned()));
    }
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        return text.parse().map(Moment::Version).map_err(|error| refuse(format!("{error}")));
    }
    if let Some(ago) = text.strip_prefix('-') {
        let ago = parse::span(ago).map_err(refuse)?;
        let ago = i64::try_from(ago.as_millis()).unwrap_or(i64::MAX);
        return Ok(Moment::Time(clock::unix_ms().saturating_sub(ago)));
    }
    if text.starts_with(|first: char| first.is_ascii_digit()) {
        let time: Timestamp = text.parse().map_err(|error| refuse(format!("{error}")))?;
        return Ok(Moment::Time(time.as_millisecond()));
    }
    Ok(Moment::Tag(text.to_owned()))
}

/// A state, as it is told.
pub(crate) fn said(moment: &Moment) -> String {
    match moment {
        Moment::Time(ms) => {
            Timestamp::from_millisecond(*ms).map_or_else(|_| moment.to_string(), output::time)
        }
        Moment::Tag(_) | Moment::Version(_) => moment.to_string(),
    }
}

/// What is written, as it is in a store.
pub(crate) fn snapshot(store: &Store, text: &str) -> Result<Snapshot, Failure> {
    let (name, moment) = split(text)?;
    let branch = store.branch(name)?;
    Ok(match moment {
        None => branch.snapshot()?,
        Some(moment) => branch.at(&moment)?,
    })
}
