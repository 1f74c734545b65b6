//! What machines agree on, as one file: all that a fleet has agreed on in etcd, and the list of the functions' shards. It is JSON, with
//! the number of its format and a digest. It has the verifiers of tokens, so that it is for its owner alone.
//!
//! What branches and shards hold is not in it.

use duramen_base::{clock, file};
use duramen_fleet::agreed::Agreed;
use duramen_functions::cluster::ShardList;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::{
    io,
    path::{Path, PathBuf},
};

/// What the format is called, without its number.
const FORMAT: &str = "duramen.cluster/";
/// The number of the format that is written, and the newest that is read.
const NUMBER: u32 = 1;
/// Whoever may read it can try secrets of tokens.
const MODE: u32 = 0o600;
/// The largest file that is read.
const SIZE_MAX: u64 = 512 << 20;

/// What machines agree on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Backup {
    /// When it was made.
    pub made_at: Timestamp,
    /// By which version.
    pub by: String,
    /// What the fleet has agreed on.
    pub fleet: Option<Agreed>,
    /// The list of shards.
    pub functions: Option<ShardList>,
    digest: String,
}

/// The file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    format: String,
    digest: String,
    made_at: Timestamp,
    by: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fleet: Option<Agreed>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    functions: Option<ShardList>,
}

/// Why a file is not written, or not read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// The operating system.
    #[error("cannot {doing} {path}: {source}")]
    File {
        /// What was tried.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The answer.
        source: io::Error,
    },
    /// It is something else.
    #[error("{path} is not a backup of a cluster: {what}; take one that `duramen cluster backup` wrote")]
    Other {
        /// The file.
        path: PathBuf,
        /// What it is instead.
        what: String,
    },
    /// It is of a later version.
    #[error(
        "{path} has the format {format}, and this program reads up to {FORMAT}{NUMBER}: use a newer duramen"
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        format: String,
    },
    /// It is not as it was written.
    #[error("{path} is damaged: {what}; nothing of it was used. Take another backup")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
}

impl Backup {
    /// A backup of now.
    #[must_use]
    pub fn new(fleet: Option<Agreed>, functions: Option<ShardList>) -> Backup {
        let (made_at, by) = (clock::utc_now(), env!("CARGO_PKG_VERSION").to_owned());
        let mut backup = Backup { made_at, by, fleet, functions, digest: String::new() };
        backup.digest = backup.digested();
        backup
    }

    /// Its digest, by which a restore of it is known again.
    #[must_use]
    pub fn digest(&self) -> &str {
        &self.digest
    }

    /// Writes it, in the place of what was there, for its owner alone.
    ///
    /// # Errors
    /// [`BackupError::File`]; what was there is there still.
    ///
    /// # Examples
    /// ```
    /// use duramen_operate::backup::Backup;
    /// let dir = tempfile::tempdir()?;
    /// let path = dir.path().join("cluster.json");
    /// let backup = Backup::new(None, None);
    /// backup.write(&path)?;
    /// assert_eq!(Backup::read(&path)?, backup);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn write(&self, path: &Path) -> Result<(), BackupError> {
        let written = Written {
            format: format!("{FORMAT}{NUMBER}"),
            digest: self.digest.clone(),
            made_at: self.made_at,
            by: self.by.clone(),
            fleet: self.fleet.clone(),
            functions: self.functions.clone(),
        };
        let mut text = json(&written);
        text.push(b'\n');
        file::replace(path, &text, MODE).map_err(|source| BackupError::File {
            doing: "write",
            path: path.to_owned(),
            source,
        })
    }

    /// Reads and verifies one.
    ///
    /// # Errors
    /// [`BackupError`].
    pub fn read(path: &Path) -> Result<Backup, BackupError> {
        let text = file::read_plain(path, SIZE_MAX).map_err(|source| BackupError::File {
            doing: "read",
            path: path.to_owned(),
            source,
        })?;
        #[derive(Deserialize)]
        struct Head {
            format: String,
        }
        let path = || path.to_owned();
        let head: Head = serde_json::from_str(&text)
            .map_err(|error| BackupError::Other { path: path(), what: error.to_string() })?;
        let number = head.format.strip_prefix(FORMAT).and_then(|number| number.parse::<u32>().ok());
        match number {
            Some(NUMBER) => {}
            Some(number) if number > NUMBER => {
                return Err(BackupError::Newer { path: path(), format: head.format });
            }
            _ => {
                let what = format!("its format is {:?}", head.format);
                return Err(BackupError::Other { path: path(), what });
            }
        }
        let damaged = |what: String| BackupError::Damaged { path: path(), what };
        let written: Written = serde_json::from_str(&text).map_err(|error| damaged(error.to_string()))?;
        let Written { made_at, by, fleet, functions, digest, .. } = written;
        let backup = Backup { made_at, by, fleet, functions, digest };
        match backup.digested() == backup.digest {
            true => Ok(backup),
            false => Err(damaged("its digest is not that of what it holds".to_owned())),
        }
    }

    /// BLAKE3 over all of it but the digest, in the form in which it is written: blanks in the file do not matter, and nothing else
    /// differs.
    fn digested(&self) -> String {
        #[derive(Serialize)]
        struct Body<'a>(&'a str, u32, Timestamp, &'a str, &'a Option<Agreed>, &'a Option<ShardList>);
        let body = Body(FORMAT, NUMBER, self.made_at, &self.by, &self.fleet, &self.functions);
        format!("blake3:{}", blake3::hash(&json(&body)).to_hex())
    }
}

fn json<T: Serialize>(value: &T) -> Vec<u8> {
    serde_json::to_vec(value).expect("texts, numbers and times are always JSON")
}

#[cfg(test)]
mod tests {
    use super::*;
    use duramen_fleet::agreed::AgreedKey;
    use std::os::unix::fs::PermissionsExt;

    fn backup() -> Backup {
        let key = |key: &str, value: &str| AgreedKey {
            key: key.to_owned(),
            value: value.as_bytes().to_vec(),
            created: 3,
            modified: 4,
        };
        let keys = vec![key("members/a", "{\"home\":\"h\"}"), key("tokens/ci", "\u{0}\u{e9}")];
        let shards = serde_json::from_str(r#"[{"shard":0,"place":"host='a'","state":"open","keyed":true}]"#);
        Backup::new(
            Some(Agreed { fleet: "lab".to_owned(), revision: 12, keys }),
            Some(ShardList { cluster: "c".to_owned(), version: 7, shards: shards.unwrap() }),
        )
    }

    /// OP-3: whatever is changed in a file is noticed.
    #[test]
    fn a_file_of_which_anything_was_changed_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("b");
        // What was there may have been for everybody.
        std::fs::write(&path, "x").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        let backup = backup();
        backup.write(&path).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(Backup::read(&path).unwrap(), backup);
        let text = std::fs::read(&path).unwrap();
        for place in 0..text.len() - 1 {
            for to in [b'0', b'9', b'"', b' ', b'x', text[place] ^ 1, text[place] ^ 0x20] {
                let mut changed = text.clone();
                changed[place] = to;
                std::fs::write(&path, &changed).unwrap();
                let read = Backup::read(&path);
                let same = read.as_ref().is_ok_and(|read| *read == backup);
                assert!(read.is_err() || same, "{place}: {:?}", String::from_utf8_lossy(&changed));
            }
        }
        for length in 0..text.len() - 2 {
            std::fs::write(&path, &text[..length]).unwrap();
            assert!(Backup::read(&path).is_err(), "{length}");
        }
        let more = String::from_utf8(text).unwrap().replacen("{\"format", "{\"more\":1,\"format", 1);
        std::fs::write(&path, more).unwrap();
        assert!(matches!(Backup::read(&path), Err(BackupError::Damaged { .. })));
    }

    #[test]
    fn other_files_and_later_formats_are_refused_by_name() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("b");
        for (text, later) in [
            ("", false),
            ("{}", false),
            ("[1]", false),
            (r#"{"format":"duramen.evidence/1"}"#, false),
            (r#"{"format":"duramen.cluster/0"}"#, false),
            (r#"{"format":"duramen.cluster/2","else":[]}"#, true),
        ] {
            std::fs::write(&path, text).unwrap();
            let error = Backup::read(&path).unwrap_err();
            assert_eq!(matches!(error, BackupError::Newer { .. }), later, "{error}");
            assert!(later || matches!(error, BackupError::Other { .. }), "{error}");
        }
        assert!(matches!(Backup::read(dir.path()), Err(BackupError::File { .. })));
    }
}
