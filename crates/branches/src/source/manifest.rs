//! What is kept about a source and its generations, in `sources/<name>/`.

use super::{moment::MadeOf, own_role::OwnRoles};
use crate::{
    error::{EngineError, Kind, SourceError},
    files::{self, io_error},
    home::Home,
    model::{
        Finding, Masking, Origin, Policy, PromotedBranch, Sanitised, SourceFingerprint, SourceSettings,
        Upgraded,
    },
};
use duramen_postgres::{Secret, StoredText, Version};
use jiff::Timestamp;
use serde::{de::DeserializeOwned, Deserialize, Serialize};
use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

/// A source. The file is readable by its owner alone, because an origin's URL may hold a password.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct SourceRecord {
    pub(crate) name: String,
    pub(crate) origin: Origin,
    pub(crate) settings: SourceSettings,
    /// The generation that new branches are cloned from.
    pub(crate) generation: u32,
    /// What generations are called: each label means one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) labels: BTreeMap<String, u32>,
    /// Which source of the fleet it is; none if it is this node's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) fleet: Option<InFleet>,
}

/// Which source of a fleet a source is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InFleet {
    /// Drawn when it was added.
    pub id: String,
    /// The node that makes its generations.
    pub keeper: String,
    /// Whether that is this one.
    pub is_kept_here: bool,
}

/// That a generation was made on another node.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Brought {
    /// The node that sent it.
    pub(crate) from: String,
    /// The secret of its administrator, which followed from the key of the home in which it was made.
    pub(crate) administrator: String,
}

/// The system user that servers run as, and that owns their files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SystemUser {
    pub(crate) name: String,
    pub(crate) uid: u32,
}

/// One generation of a source: a snapshot and how it came about.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Manifest {
    /// How the snapshot was made, [`Manifest::FORMAT`] today. Version 0.1 wrote none.
    #[serde(default)]
    pub(crate) format: u32,
    pub(crate) generation: u32,
    pub(crate) database: String,
    pub(crate) imported_at: Timestamp,
    pub(crate) server_version: Version,
    pub(crate) bytes: u64,
    pub(crate) digest: String,
    /// The file system's own identity of the read-only volume, where it has one.
    pub(crate) identity: Option<String>,
    pub(crate) sanitised: Vec<Sanitised>,
    /// Object id of the database, and so the name of its folder.
    pub(crate) database_oid: u32,
    /// Warm-up statements for every session.
    pub(crate) warm: Vec<String>,
    /// Puts back the sequences that the warm-up moves.
    pub(crate) restore_sequences: Option<String>,
    pub(crate) source_at_import: SourceFingerprint,
    /// The databases of the origin that had login triggers; not known in manifests of 0.1.
    #[serde(default)]
    pub(crate) login_triggers: Option<Vec<String>>,
    /// Where a branch's own verifier replaces that of the holder's role, before its server starts for the first time.
    #[serde(default)]
    pub(crate) first_verifiers: BTreeMap<Policy, StoredText>,
    /// The user made for the servers of the source. Manifests of before there was one for each have none, nor have those
    /// of a daemon that is not root.
    #[serde(default)]
    pub(crate) user: Option<SystemUser>,
    /// The login roles that branches can be entered as; not known in manifests of earlier versions.
    #[serde(default)]
    pub(crate) own_roles: Option<OwnRoles>,
    /// The rules that were applied; none if the snapshot holds what the origin held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) masking: Option<Masking>,
    /// The branch that it was; none if it was imported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) promoted: Option<PromotedBranch>,
    /// What it was taken to its version from, if it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) upgraded: Option<Upgraded>,
    /// What looked personal and was not masked; not known in manifests of earlier versions.
    #[serde(default)]
    pub(crate) personal: Option<Vec<Finding>>,
    /// The moment of the origin that it is, if it was made for branches of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) moment: Option<MadeOf>,
    /// Where it came from, if it was not made here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) brought: Option<Brought>,
}

impl SourceRecord {
    /// Whether generations of it are made here.
    ///
    /// # Errors
    /// `source_is_a_copy`: they are made on another node of the fleet.
    pub(crate) fn is_made_here(&self) -> Result<(), EngineError> {
        match &self.fleet {
            Some(of) if !of.is_kept_here => {
                let (name, keeper) = (self.name.clone(), of.keeper.clone());
                Err(SourceError::IsACopy { name, keeper }.into())
            }
            _ if matches!(self.origin, Origin::Copy { .. }) => {
                Err(SourceError::OriginUnknown { name: self.name.clone() }.into())
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn save(&self, home: &Home) -> Result<(), EngineError> {
        write_json(&dir(home, &self.name).join("source.json"), self)
    }
}

impl Manifest {
    /// From 1 on: roles with secrets, and nothing of the source was run while it was made harmless. From 2 on: rules that
    /// admit to one database, and nothing is executed but what is known to stay inside.
    pub(crate) const FORMAT: u32 = 2;

    /// Of a generation of which nothing is known.
    pub(crate) fn unknown(generation: u32) -> Manifest {
        Manifest {
            format: Manifest::FORMAT,
            generation,
            database: String::new(),
            imported_at: Timestamp::UNIX_EPOCH,
            server_version: Version { major: 0, minor: 0 },
            bytes: 0,
            digest: String::new(),
            identity: None,
            sanitised: Vec::new(),
            database_oid: 0,
            warm: Vec::new(),
            restore_sequences: None,
            source_at_import: SourceFingerprint::unknown(),
            login_triggers: None,
            first_verifiers: BTreeMap::new(),
            user: None,
            own_roles: None,
            masking: None,
            promoted: None,
            upgraded: None,
            personal: None,
            moment: None,
            brought: None,
        }
    }

    /// The secret of the administrator that a snapshot of this generation has.
    pub(crate) fn administrator(&self, home: &Home, source: &str) -> Secret {
        match &self.brought {
            Some(brought) => Secret::from_text(&brought.administrator),
            None => home.admin_secret(source),
        }
    }

    /// The hash of all that it says of the generation itself, which is the same on every node; without what is of one home: whose the files
    /// are there, their volume, and where they came from. Fields that are added are to be left out of the text while they are empty.
    pub(crate) fn hash(&self) -> String {
        let shared = Manifest { user: None, identity: None, brought: None, ..self.clone() };
        let text = serde_json::to_vec(&shared).unwrap_or_default();
        blake3::hash(&text).to_hex().to_string()
    }

    /// What data the snapshot holds, in a word.
    pub(crate) fn data(&self) -> &'static str {
        match self.masking {
            Some(_) => "masked",
            None => "full",
        }
    }

    /// Whether branches may still be made of the snapshot.
    pub(crate) fn is_current(&self) -> bool {
        self.format >= Manifest::FORMAT
    }

    pub(crate) fn save(&self, home: &Home, source: &str) -> Result<(), EngineError> {
        write_json(&manifest_path(home, source, self.generation), self)
    }

    pub(crate) fn load(home: &Home, source: &str, generation: u32) -> Result<Manifest, EngineError> {
        read_json(&manifest_path(home, source, generation))
    }
}

pub(crate) fn dir(home: &Home, source: &str) -> PathBuf {
    home.sources().join(source)
}

pub(crate) fn manifest_path(home: &Home, source: &str, generation: u32) -> PathBuf {
    dir(home, source).join(format!("{generation:06}.json"))
}

/// The names of the sources that have a record, whether it can be read or not.
pub(crate) fn names(home: &Home) -> Vec<String> {
    let entries = fs::read_dir(home.sources()).into_iter().flatten().flatten();
    let recorded = entries.filter(|entry| entry.path().join("source.json").exists());
    recorded.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect()
}

/// Every source that is recorded in a home directory.
pub(crate) fn load_all(home: &Home) -> Result<Vec<SourceRecord>, EngineError> {
    let root = home.sources();
    let mut found = Vec::new();
    for entry in fs::read_dir(&root).map_err(|error| io_error("read", &root, &error))?.flatten() {
        let path = entry.path().join("source.json");
        if path.exists() {
            // One damaged record must not keep all others from being served.
            match read_json(&path) {
                Ok(record) => found.push(record),
                Err(error) => tracing::error!("{error}"),
            }
        }
    }
    Ok(found)
}

/// From this number on generations are of moments: they are made for branches at one, and never serve.
pub(crate) const MOMENTS_FROM: u32 = 1_000_000_000;

/// The generations of a source that have a manifest, without those of moments.
pub(crate) fn generations(home: &Home, source: &str) -> Vec<u32> {
    all(home, source).into_iter().filter(|number| *number < MOMENTS_FROM).collect()
}

/// Those of moments.
pub(crate) fn moments(home: &Home, source: &str) -> Vec<u32> {
    all(home, source).into_iter().filter(|number| *number >= MOMENTS_FROM).collect()
}

/// Both.
pub(crate) fn all(home: &Home, source: &str) -> Vec<u32> {
    let mut found: Vec<u32> = fs::read_dir(dir(home, source))
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.path().file_stem()?.to_str()?.parse().ok())
        .collect();
    found.sort_unstable();
    found
}

/// Forgets what a daemon that was killed had imported, and had not begun to serve (G1): no branch was ever made of it. The
/// sweep deletes its snapshot.
pub(crate) fn forget_unserved(home: &Home, source: &SourceRecord) {
    for number in generations(home, &source.name).into_iter().filter(|number| *number > source.generation) {
        let path = manifest_path(home, &source.name, number);
        match fs::remove_file(&path) {
            Ok(()) => tracing::info!(source = source.name, generation = number, "an import was cut short"),
            // It takes room, and is looked at again by the next opening.
            Err(error) => tracing::warn!(%error, "{} is left", path.display()),
        }
    }
}

pub(crate) fn write_json(path: &Path, value: &impl Serialize) -> Result<(), EngineError> {
    let parent = path.parent().unwrap_or(path);
    files::make_private_dir(parent)?;
    let text = serde_json::to_vec_pretty(value).map_err(|error| io_error("write", path, &error.into()))?;
    files::replace(path, &text).map_err(|error| io_error("write", path, &error))
}

pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, EngineError> {
    let bytes = fs::read(path).map_err(|error| io_error("read", path, &error))?;
    serde_json::from_slice(&bytes).map_err(|error| {
        EngineError::new(
            Kind::Failed,
            "damaged_record",
            format!("{} is damaged ({error}); remove the source and add it again", path.display()),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FL-17: what a branch of a copy runs is what one of its keeper's runs.
    #[test]
    fn a_manifest_is_the_same_wherever_its_generation_is() {
        let made = Manifest { warm: vec!["SELECT 1".to_owned()], ..Manifest::unknown(3) };
        let brought = Manifest {
            user: Some(SystemUser { name: "u".to_owned(), uid: 7 }),
            identity: Some("v".to_owned()),
            brought: Some(Brought { from: "a".to_owned(), administrator: "x".to_owned() }),
            ..made.clone()
        };
        assert_eq!(made.hash(), brought.hash());
        let text = serde_json::to_vec(&brought).expect("JSON");
        let read: Manifest = serde_json::from_slice(&text).expect("a manifest");
        assert_eq!(made.hash(), read.hash());
        let others = [
            Manifest { warm: vec!["DROP TABLE t".to_owned()], ..made.clone() },
            Manifest { restore_sequences: Some("DROP TABLE t".to_owned()), ..made.clone() },
            Manifest { format: 1, ..made.clone() },
        ];
        for other in others {
            assert_ne!(made.hash(), other.hash(), "{other:?}");
        }
    }
}
