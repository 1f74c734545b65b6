//! Where a store says that its log is: in an object of its own.
//!
//! So nobody opens a store without the log that it has: what was committed since the last checkpoint would be missing, and
//! nobody would be told.

use std::io::ErrorKind;
use std::path::Path;

use duramen_base::{entropy, file};

use crate::bucket::{Bucket, Put};
use crate::error::RemoteError;

/// The name of the object in a store's place in the bucket.
const OBJECT: &str = "store";
/// What it begins with.
const MARK: &str = "duramen store";
/// The format of a store in object storage: what is where in it.
const FORMAT: &str = "1";
/// The file by which the folder of a local log is known.
const ID_FILE: &str = "log-of";
/// Characters of such an id.
const ID_CHARS: usize = 32;

/// Where a log is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    Bucket,
    /// In a folder with this id, which is called so on its host.
    Local {
        id: String,
        called: String,
    },
}

impl Owner {
    fn encode(&self) -> Vec<u8> {
        let log = match self {
            Self::Bucket => "bucket".to_owned(),
            Self::Local { id, called } => format!("local {id} {called}"),
        };
        format!("{MARK}\nformat {FORMAT}\nlog {log}\n").into_bytes()
    }

    fn decode(bytes: &[u8]) -> Result<Self, RemoteError> {
        let damaged =
            |reason: &str| RemoteError::Damaged(format!("the object {OBJECT:?}"), reason.to_owned());
        let text = std::str::from_utf8(bytes).map_err(|_| damaged("it is no text"))?;
        let mut lines = text.lines();
        if lines.next() != Some(MARK) {
            return Err(damaged("it is not that of a store"));
        }
        match lines.next().and_then(|line| line.strip_prefix("format ")) {
            Some(FORMAT) => {}
            Some(other) => {
                let reason = format!("it has format {other}, and this version knows {FORMAT}");
                return Err(damaged(&reason));
            }
            None => return Err(damaged("it does not say its format")),
        }
        let log = lines.next().and_then(|line| line.strip_prefix("log "));
        let mut words = log.unwrap_or_default().splitn(3, ' ');
        match (words.next(), words.next(), words.next()) {
            (Some("bucket"), None, None) => Ok(Self::Bucket),
            (Some("local"), Some(id), Some(called)) => {
                Ok(Self::Local { id: id.to_owned(), called: called.to_owned() })
            }
            _ => Err(damaged("it does not say where the log is")),
        }
    }

    /// As messages say it.
    pub(crate) fn said(&self) -> String {
        match self {
            Self::Bucket => "in the bucket".to_owned(),
            Self::Local { called, .. } => format!("in {called}"),
        }
    }

    /// Reads where the store says its log is; `None` if the bucket does not hold a store.
    pub(crate) fn read(bucket: &Bucket) -> Result<Option<Self>, RemoteError> {
        bucket.get(OBJECT)?.map(|bytes| Self::decode(&bytes)).transpose()
    }

    /// Says it of a store that is made now. Returns what is said, which somebody else may have said first.
    pub(crate) fn write_new(self, bucket: &Bucket) -> Result<Self, RemoteError> {
        match bucket.put_new(OBJECT, self.encode().into())? {
            Put::Done => Ok(self),
            Put::Taken(bytes) => Self::decode(&bytes),
        }
    }

    /// Says it of a store whose log was given up.
    pub(crate) fn write_over(&self, bucket: &Bucket) -> Result<(), RemoteError> {
        bucket.put(OBJECT, self.encode().into())
    }
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> RemoteError {
    let path = path.display().to_string();
    move |error| RemoteError::Io { action, path, error }
}

/// The id of a folder for a local log, which gets one if it has none.
pub(crate) fn id_of(folder: &Path) -> Result<String, RemoteError> {
    if let Some(id) = known_id_of(folder)? {
        return Ok(id);
    }
    let path = folder.join(ID_FILE);
    let id = entropy::token(ID_CHARS);
    file::replace(&path, id.as_bytes(), 0o644).map_err(failed("write", &path))?;
    Ok(id)
}

/// The id of a folder for a local log, if it has one.
pub(crate) fn known_id_of(folder: &Path) -> Result<Option<String>, RemoteError> {
    let path = folder.join(ID_FILE);
    match file::read_plain(&path, ID_CHARS as u64) {
        Ok(id) if id.len() == ID_CHARS => Ok(Some(id)),
        // A power cut may have left it empty, and then nothing was ever acknowledged there.
        Ok(_) => Ok(None),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed("read", &path)(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_read() {
        let local = Owner::Local { id: "x1".to_owned(), called: "/data/my log on h".to_owned() };
        for owner in [Owner::Bucket, local] {
            assert_eq!(Owner::decode(&owner.encode()).unwrap(), owner);
        }
        let head = "duramen store\nformat 1\n";
        for wrong in ["", "log local", "log bucket x", "log local x", "log"] {
            assert!(Owner::decode(format!("{head}{wrong}").as_bytes()).is_err(), "{wrong}");
        }
        for wrong in ["", "duramen", "duramen store", "duramen store\nformat 2\nlog bucket"] {
            assert!(Owner::decode(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_folder_keeps_its_id() {
        let folder = tempfile::tempdir().unwrap();
        let id = id_of(folder.path()).unwrap();
        assert_eq!(id.len(), ID_CHARS);
        assert_eq!(id_of(folder.path()).unwrap(), id);
    }
}
