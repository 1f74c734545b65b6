//! The levels of `synchronous_commit`.

use std::fmt;
use std::str::FromStr;

/// What a commit waits for. Set per session, never for the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Level {
    /// Nothing.
    Off,
    /// The flush on the primary.
    Local,
    /// And that the standby has received it and written it to its operating system.
    RemoteWrite,
    /// And that the standby has flushed it. (`on`; also called `remote_flush`.)
    On,
    /// And that the standby has replayed it, so that its readers see it.
    RemoteApply,
}

impl Level {
    /// All, from the weakest to the strongest.
    pub const ALL: [Level; 5] = [Level::Off, Level::Local, Level::RemoteWrite, Level::On, Level::RemoteApply];

    /// The value of `synchronous_commit`, and the name in figures.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Level::Off => "off",
            Level::Local => "local",
            Level::RemoteWrite => "remote_write",
            Level::On => "on",
            Level::RemoteApply => "remote_apply",
        }
    }

    /// Whether a commit at this level waits for the standby.
    #[must_use]
    pub fn waits_for_standby(self) -> bool {
        self >= Level::RemoteWrite
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Level {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "rw" => Ok(Level::RemoteWrite),
            "remote_flush" => Ok(Level::On),
            "ra" => Ok(Level::RemoteApply),
            _ => Level::ALL.into_iter().find(|level| level.name() == text).ok_or_else(|| {
                format!(
                    "there is no level {text:?}; there are {} (remote_flush is on)",
                    Level::ALL.map(Level::name).join(", ")
                )
            }),
        }
    }
}
