//! How values on the command line are written.

use clap::ValueEnum;
use duramen_api::model::{Policy, Refill};
use std::{path::PathBuf, str::FromStr, time::Duration};

/// What a branch's holder may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PolicyName {
    /// Read only
    ReadOnly,
    /// Read and write rows, no DDL
    ReadWrite,
    /// Everything that needs no superuser
    Ddl,
}

impl From<PolicyName> for Policy {
    fn from(name: PolicyName) -> Policy {
        match name {
            PolicyName::ReadOnly => Policy::ReadOnly,
            PolicyName::ReadWrite => Policy::ReadWrite,
            PolicyName::Ddl => Policy::Ddl,
        }
    }
}

/// How the pool is refilled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum RefillName {
    /// All clones, then all starts, then all sessions
    Phased,
    /// Each branch from clone to session, several at a time
    Pipelined,
}

impl From<RefillName> for Refill {
    fn from(name: RefillName) -> Refill {
        match name {
            RefillName::Phased => Refill::Phased,
            RefillName::Pipelined => Refill::Pipelined,
        }
    }
}

/// A size of the hot pool: `100`, or `read-only=100` or `role:app=100` for one policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HotSize {
    pub(crate) policy: Option<Policy>,
    pub(crate) count: u32,
}

impl FromStr for HotSize {
    type Err = String;

    fn from_str(text: &str) -> Result<HotSize, String> {
        // The name of a role may hold an equals sign.
        let (policy, count) = match text.rsplit_once('=') {
            Some((policy, count)) => (Some(policy.parse()?), count),
            None => (None, text),
        };
        let count = count
            .parse()
            .map_err(|_| format!("{count:?} is not a number of branches; write 100, or read-write=100"))?;
        Ok(HotSize { policy, count })
    }
}

/// `name=value`; the value may be empty.
pub(crate) fn setting(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err(format!("{text:?} is not a setting; write it like shared_buffers=32MB")),
    }
}

/// A time span such as `5s`, `2m 30s`, `1h`; a bare number is seconds.
pub(crate) fn span(text: &str) -> Result<Duration, String> {
    if let Ok(seconds) = text.trim().parse::<u64>() {
        return Ok(Duration::from_secs(seconds));
    }
    humantime::parse_duration(text.trim())
        .map_err(|error| format!("{text:?} is not a time span ({error}); write it like 500ms, 30s or 1h"))
}

/// Seconds until a lease ends. Nothing and less than nothing are let through: the daemon says why it refuses them.
pub(crate) fn ttl(text: &str) -> Result<i64, String> {
    let (sign, digits) = match text.trim().strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.trim()),
    };
    let span = span(digits)?;
    let seconds = span.as_secs() + u64::from(span.subsec_nanos() > 0);
    i64::try_from(seconds).map(|seconds| sign * seconds).map_err(|_| format!("{text:?} is too long"))
}

/// A size in bytes such as `64G`, `512M` or `1048576`; the units are powers of 1,024.
pub(crate) fn size(text: &str) -> Result<u64, String> {
    let wrong = || format!("{text:?} is not a size; write it like 64G or 512M");
    let text = text.trim().trim_end_matches(['b', 'B']).trim_end_matches('i');
    let at = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (digits, unit) = text.split_at(at);
    let shift = match unit.to_ascii_lowercase().as_str() {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return Err(wrong()),
    };
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    number.checked_mul(1 << shift).ok_or_else(wrong)
}

/// A path that means the same in the daemon's working directory.
pub(crate) fn absolute(text: &str) -> Result<PathBuf, String> {
    std::path::absolute(text).map_err(|error| format!("{text:?} is not a path: {error}"))
}

#[cfg(test)]
#[path = "../tests/unit/written_values.rs"]
mod tests;
