//! What is made at origins that are followed by logical replication: written down before it is made, and forgotten after it is
//! gone (F16 in `docs/design/following.md`).

use super::{
    address::Address,
    manifest::{read_json, write_json},
    publisher::Publisher,
};
use crate::{error::EngineError, files::io_error, home::Home};
use duramen_base::{clock, entropy};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::{fs, io, path::PathBuf};

/// How many letters tell one from others.
const LETTERS: usize = 20;
/// For how long it is tried to drop what nobody uses, in seconds.
const FORGOTTEN_AFTER_S: i64 = 7 * 24 * 3600;

/// A replication slot, and a publication of the same name if the user named none.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct AtOrigin {
    pub(crate) name: String,
    pub(crate) source: String,
    /// Of the server, with its password: the file is its owner's alone, as that of the source is.
    url: String,
    database: String,
    has_publication: bool,
    /// Since when nobody uses it, and it could not be dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unused_since: Option<Timestamp>,
}

fn dir(home: &Home) -> PathBuf {
    home.root().join("at-origins")
}

fn path(home: &Home, name: &str) -> PathBuf {
    dir(home).join(format!("{name}.json"))
}

impl AtOrigin {
    /// Draws a name, and writes down what is about to be made under it.
    pub(super) fn begin(
        home: &Home,
        source: &str,
        (url, database): (&str, &str),
        has_publication: bool,
    ) -> Result<AtOrigin, EngineError> {
        let made = AtOrigin {
            name: format!("duramen_{}", entropy::token(LETTERS)),
            source: source.to_owned(),
            url: url.to_owned(),
            database: database.to_owned(),
            has_publication,
            unused_since: None,
        };
        write_json(&path(home, &made.name), &made)?;
        Ok(made)
    }

    /// Drops it, and forgets it then.
    pub(crate) async fn drop_it(&self, home: &Home) -> Result<(), EngineError> {
        let origin = Address::parse(&self.url)?.database(&self.database);
        let dropped = async {
            let publisher = Publisher::open(&origin).await?;
            publisher.drop_slot(&self.name).await?;
            match self.has_publication {
                true => publisher.drop_publication(&self.name).await,
                false => Ok(()),
            }
        };
        match dropped.await {
            Ok(()) => self.forget(home),
            Err(error) => self.note_unused(home).and(Err(error)),
        }
    }

    fn forget(&self, home: &Home) -> Result<(), EngineError> {
        let path = path(home, &self.name);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(io_error("remove", &path, &error)),
            _ => Ok(()),
        }
    }

    /// Nobody waits for ever for an origin that is gone.
    fn note_unused(&self, home: &Home) -> Result<(), EngineError> {
        let now = clock::utc_now();
        match self.unused_since {
            Some(since) if now.as_second() - since.as_second() > FORGOTTEN_AFTER_S => {
                tracing::error!(
                    slot = self.name,
                    source = self.source,
                    "given up: it may still be at the origin"
                );
                self.forget(home)
            }
            Some(_) => Ok(()),
            None => {
                let noted = AtOrigin { unused_since: Some(now), ..self.clone() };
                write_json(&path(home, &self.name), &noted)
            }
        }
    }
}

/// All of them. One that cannot be read is told, and left.
pub(crate) fn all(home: &Home) -> Vec<AtOrigin> {
    let entries = fs::read_dir(dir(home)).into_iter().flatten().flatten();
    let files =
        entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|it| it == "json"));
    files.filter_map(|path| read_json(&path).inspect_err(|error| tracing::error!("{error}")).ok()).collect()
}
