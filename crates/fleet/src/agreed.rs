//! All that a fleet has agreed on, copied out of etcd at one revision: members, drains, names, sources, tokens, and whatever later versions keep
//! there. Registrations are not in it: they are of the moment, and nodes make them anew.

use crate::{
    address::{Access, Address},
    etcd::{Etcd, EtcdError},
    record::{Key, Keys, MemberRecord, NameRecord, SourceRecord},
};
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, sync::Arc};

/// All that a fleet has agreed on at one revision. It has the tokens' verifiers: it is secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Agreed {
    /// The fleet's name.
    pub fleet: String,
    /// The revision of etcd.
    pub revision: i64,
    /// What stands there, in the order of the keys.
    pub keys: Vec<AgreedKey>,
}

/// A key and what it stands for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgreedKey {
    /// The key, without what all keys of the fleet begin with: `names/try`.
    pub key: String,
    /// Its value; in JSON as Base64.
    #[serde(with = "base64")]
    pub value: Vec<u8>,
    /// The revision since which the key is there.
    pub created: i64,
    /// The revision since which it has this value.
    pub modified: i64,
}

/// How many of each kind there are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Tally {
    /// Nodes.
    pub members: usize,
    /// Drains.
    pub drains: usize,
    /// Names.
    pub names: usize,
    /// Definitions of sources.
    pub sources: usize,
    /// Tokens.
    pub tokens: usize,
    /// What this version does not know.
    pub others: usize,
}

/// etcd, asked by somebody who is not a node.
#[derive(Debug)]
pub struct Agreement {
    pub(crate) etcd: Arc<Etcd>,
}

impl Agreement {
    /// Nothing is connected to yet.
    ///
    /// # Errors
    /// When a file that is needed to ask etcd cannot be read.
    ///
    /// # Examples
    /// ```
    /// use duramen_fleet::{address::Access, agreed::Agreement};
    /// let etcd = "etcd://127.0.0.1/lab".parse()?;
    /// assert_eq!(Agreement::at(etcd, Access::default())?.fleet(), "lab");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn at(etcd: Address, access: Access) -> Result<Agreement, EtcdError> {
        Ok(Agreement { etcd: Etcd::new(etcd, access)? })
    }

    /// The fleet that is meant.
    #[must_use]
    pub fn fleet(&self) -> &str {
        self.etcd.fleet()
    }

    /// All that is agreed on now, at one revision, as a quorum has it.
    ///
    /// # Errors
    /// When etcd does not answer.
    pub async fn read(&self) -> Result<Agreed, EtcdError> {
        let all = self.etcd.all().await?;
        let prefix = self.etcd.keys.prefix();
        let kept = all.kvs().iter().filter(|kv| kv.lease() == 0).filter_map(|kv| {
            let key = kv.key_str().ok()?.strip_prefix(prefix)?;
            is_agreed(key).then(|| AgreedKey {
                key: key.to_owned(),
                value: kv.value().to_vec(),
                created: kv.create_revision(),
                modified: kv.mod_revision(),
            })
        });
        let mut keys: Vec<AgreedKey> = kept.collect();
        keys.sort_by(|a, b| a.key.cmp(&b.key));
        let revision = all.header().map_or(0, etcd_client::ResponseHeader::revision);
        Ok(Agreed { fleet: self.fleet().to_owned(), revision, keys })
    }
}

/// Whether a key, without the fleet's prefix, is of what is agreed on: of a kind, and not of the moment.
fn is_agreed(key: &str) -> bool {
    key.split_once('/').is_some_and(|(kind, name)| kind != "nodes" && !kind.is_empty() && !name.is_empty())
}

impl Agreed {
    /// How many of each kind there are.
    #[must_use]
    pub fn tally(&self) -> Tally {
        let mut tally = Tally::default();
        for key in &self.keys {
            *match Kind::of(&key.key) {
                Kind::Member => &mut tally.members,
                Kind::Drain => &mut tally.drains,
                Kind::Name => &mut tally.names,
                Kind::Source => &mut tally.sources,
                Kind::Token => &mut tally.tokens,
                Kind::Other => &mut tally.others,
            } += 1;
        }
        tally
    }

    /// The first key that cannot have been read out of a fleet, or that is not in order: such a copy is not put back.
    #[must_use]
    pub fn misplaced(&self) -> Option<&str> {
        let ordered = |pair: &&[AgreedKey]| pair[0].key >= pair[1].key;
        let unordered = self.keys.windows(2).find(ordered).map(|pair| pair[1].key.as_str());
        unordered.or_else(|| self.keys.iter().map(|it| it.key.as_str()).find(|key| !is_agreed(key)))
    }

    pub(crate) fn by_key(&self) -> BTreeMap<&str, &AgreedKey> {
        self.keys.iter().map(|it| (it.key.as_str(), it)).collect()
    }
}

/// Of which kind a key is, in the order in which they are put back: who is let in last of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Member,
    Drain,
    Name,
    Source,
    Other,
    Token,
}

impl Kind {
    pub(crate) fn of(key: &str) -> Kind {
        // The kind does not depend on the fleet.
        let keys = Keys::of("x");
        match keys.read(&format!("{}{key}", keys.prefix())) {
            Some(Key::Member(_)) => Kind::Member,
            Some(Key::Drain(_)) => Kind::Drain,
            Some(Key::Name(_)) => Kind::Name,
            Some(Key::Source(_)) => Kind::Source,
            Some(Key::Token(_)) => Kind::Token,
            Some(Key::Node(_)) | None => Kind::Other,
        }
    }
}

impl AgreedKey {
    /// Whether both stand for the same node, branch, source or token: a node that registered again is the same, a branch whose name was
    /// claimed again, and a source that its keeper defined again.
    pub(crate) fn is_same_as(&self, other: &AgreedKey) -> bool {
        fn read<T: serde::de::DeserializeOwned>(key: &AgreedKey) -> Option<T> {
            serde_json::from_slice(&key.value).ok()
        }
        if self.value == other.value {
            return true;
        }
        match Kind::of(&self.key) {
            Kind::Member => match (read::<MemberRecord>(self), read::<MemberRecord>(other)) {
                (Some(one), Some(two)) => one.home == two.home,
                _ => false,
            },
            Kind::Name => match (read::<NameRecord>(self), read::<NameRecord>(other)) {
                (Some(one), Some(two)) => (one.node, one.id) == (two.node, two.id),
                _ => false,
            },
            Kind::Source => match (read::<SourceRecord>(self), read::<SourceRecord>(other)) {
                (Some(one), Some(two)) => one.id == two.id,
                _ => false,
            },
            Kind::Drain => true,
            Kind::Token | Kind::Other => false,
        }
    }
}

/// Bytes as Base64.
mod base64 {
    use ::base64::{engine::general_purpose::STANDARD, Engine as _};
    use serde::{de::Error, Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&STANDARD.encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(from)?;
        STANDARD.decode(&text).map_err(|error| D::Error::custom(format_args!("not Base64: {error}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(key: &str, value: &str) -> AgreedKey {
        AgreedKey { key: key.to_owned(), value: value.as_bytes().to_vec(), created: 1, modified: 2 }
    }

    #[test]
    fn what_is_of_the_moment_is_not_agreed_on() {
        for (text, agreed) in [
            ("names/try", true),
            ("sources/flights", true),
            ("nodes/a", false),
            ("restore", false),
            ("/x", false),
            ("names/", false),
        ] {
            assert_eq!(is_agreed(text), agreed, "{text}");
        }
        let agreed = |keys: &[&str]| Agreed {
            fleet: "x".to_owned(),
            revision: 3,
            keys: keys.iter().map(|it| key(it, "{}")).collect(),
        };
        let all =
            agreed(&["drains/a", "later/x", "members/a", "names/x", "names/y", "sources/s", "tokens/t"]);
        let tally = all.tally();
        assert_eq!((tally.members, tally.drains, tally.names), (1, 1, 2));
        assert_eq!((tally.sources, tally.tokens, tally.others), (1, 1, 1));
        assert_eq!(all.misplaced(), None);
        assert_eq!(agreed(&["names/x", "names/x"]).misplaced(), Some("names/x"));
        assert_eq!(agreed(&["names/y", "names/x"]).misplaced(), Some("names/x"));
        assert_eq!(agreed(&["nodes/a"]).misplaced(), Some("nodes/a"));
    }

    #[test]
    fn who_registered_or_claimed_again_is_the_same() {
        let member = |home: &str, at: &str| {
            key(
                "members/a",
                &format!(r#"{{"home":"{home}","registered_at":"{at}","start":"s","place":"p"}}"#),
            )
        };
        let (day, next) = ("2026-01-02T03:04:05Z", "2026-01-03T03:04:05Z");
        assert!(member("h-1", day).is_same_as(&member("h-1", next)));
        assert!(!member("h-1", day).is_same_as(&member("h-2", day)));
        let name = |node: &str, id: &str, at: &str| {
            key("names/x", &format!(r#"{{"node":"{node}","id":"{id}","claimed_at":"{at}"}}"#))
        };
        assert!(name("a", "b-1", day).is_same_as(&name("a", "b-1", next)));
        assert!(!name("a", "b-1", day).is_same_as(&name("a", "b-2", day)));
        assert!(!name("a", "b-1", day).is_same_as(&key("names/x", "?")));
        let source = |id: &str, replicas: u32| {
            key(
                "sources/s",
                &format!(
                    r#"{{"id":"{id}","keeper":"a","origin":"script","settings":{{}},"replicas":{replicas},"places":["a"],"defined_at":"{day}"}}"#
                ),
            )
        };
        assert!(source("s-1", 1).is_same_as(&source("s-1", 2)), "its keeper defined it again");
        assert!(!source("s-1", 1).is_same_as(&source("s-2", 1)));
        assert!(!key("tokens/t", "1").is_same_as(&key("tokens/t", "2")));
    }
}
