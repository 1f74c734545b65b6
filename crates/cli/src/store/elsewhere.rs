//! Stores that are not in a folder: in object storage, by a URL.

use crate::failure::Failure;
use clap::Args;
use duramen_store::{Follower, Options, Store};
use std::path::{Path, PathBuf};

/// How a store in object storage is opened.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Options of stores at URLs")]
#[cfg_attr(
    not(feature = "s3"),
    allow(dead_code, reason = "they are read where stores at URLs can be opened")
)]
pub(crate) struct Remote {
    /// Keep the commit log in a folder on this host instead of in the bucket: fast, and lost with the host
    #[arg(long, global = true, value_name = "DIR")]
    log_at: Option<PathBuf>,
    /// Begin a new log where --log-at says, and lose what was committed since the last checkpoint
    #[arg(long, global = true, requires = "log_at")]
    give_up_log: bool,
    /// Take the store over from a process that has not closed it, which then writes no more
    #[arg(long, global = true)]
    take_over: bool,
    /// A folder on this host for what is read from the bucket
    #[arg(long, global = true, value_name = "DIR")]
    cache: Option<PathBuf>,
    /// How large that folder may become
    #[arg(long, global = true, value_name = "SIZE", value_parser = crate::parse::size, default_value = "4GiB")]
    cache_size: u64,
}

/// Whether a place is that of a store in object storage.
pub(crate) fn is_url(path: &Path) -> bool {
    path.to_str().is_some_and(duramen_store_s3::is_url)
}

/// Refuses what is only done to a folder.
pub(crate) fn refuse(path: &Path, what: &str) -> Result<(), Failure> {
    if !is_url(path) {
        return Ok(());
    }
    Err(Failure::Usage(format!(
        "{what} is for a store in a folder, and {} is in object storage; see `docs/store.md`",
        path.display()
    )))
}

#[cfg(feature = "s3")]
mod built {
    use super::{Failure, Follower, Options, Path, Remote, Store};
    use duramen_store_s3::{Cache, LogPlace, RemoteError, RemoteOptions, TakeOver};

    impl Remote {
        fn options(&self) -> RemoteOptions {
            let log = match &self.log_at {
                None => LogPlace::Bucket,
                Some(folder) => LogPlace::Local { folder: folder.clone(), gives_up: self.give_up_log },
            };
            let take_over = if self.take_over { TakeOver::Always } else { TakeOver::IfEnded };
            let cache = self.cache.clone().map(|folder| Cache { folder, bytes: self.cache_size });
            RemoteOptions { log, take_over, cache, ..RemoteOptions::default() }
        }
    }

    fn url(path: &Path) -> &str {
        path.to_str().unwrap_or_default()
    }

    /// Says what a store in object storage warns of: that its cache cannot be used.
    struct Warnings;

    impl log::Log for Warnings {
        fn enabled(&self, about: &log::Metadata<'_>) -> bool {
            about.level() <= log::Level::Warn && about.target().starts_with("duramen_store_s3")
        }

        fn log(&self, record: &log::Record<'_>) {
            if self.enabled(record.metadata()) {
                crate::output::told(format_args!("warning: {}\n", record.args()));
            }
        }

        fn flush(&self) {}
    }

    fn say_warnings() {
        // Whoever was first writes what is said.
        if log::set_logger(&Warnings).is_ok() {
            log::set_max_level(log::LevelFilter::Warn);
        }
    }

    pub(crate) fn open(path: &Path, options: Options, remote: &Remote) -> Result<Store, Failure> {
        say_warnings();
        Ok(duramen_store_s3::open(url(path), options, remote.options())?)
    }

    pub(crate) fn follow(path: &Path, options: Options, remote: &Remote) -> Result<Follower, Failure> {
        say_warnings();
        Ok(duramen_store_s3::follow(url(path), options, remote.options())?)
    }

    pub(crate) fn exists(path: &Path, remote: &Remote) -> Result<bool, Failure> {
        Ok(duramen_store_s3::exists(url(path), &remote.options())?)
    }

    impl From<RemoteError> for Failure {
        fn from(error: RemoteError) -> Failure {
            match error {
                RemoteError::Store(error) => error.into(),
                RemoteError::LogElsewhere { .. } => {
                    Failure::Other(format!("{error} (`--log-at DIR`, and `--give-up-log`)"))
                }
                error => Failure::Other(error.to_string()),
            }
        }
    }
}

#[cfg(not(feature = "s3"))]
mod built {
    use super::{Failure, Follower, Options, Path, Remote, Store};

    fn missing(path: &Path) -> Failure {
        Failure::Usage(format!(
            "{} is in object storage, which this build cannot reach: the packages can, and so can one with \
             `cargo build -p duramen-cli --features s3`",
            path.display()
        ))
    }

    pub(crate) fn open(path: &Path, _options: Options, _remote: &Remote) -> Result<Store, Failure> {
        Err(missing(path))
    }

    pub(crate) fn follow(path: &Path, _options: Options, _remote: &Remote) -> Result<Follower, Failure> {
        Err(missing(path))
    }

    pub(crate) fn exists(path: &Path, _remote: &Remote) -> Result<bool, Failure> {
        Err(missing(path))
    }
}

pub(crate) use built::{exists, follow, open};
