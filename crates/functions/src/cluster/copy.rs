//! A copy of the list of shards, for the day on which all of them were put back to an earlier one.

use serde::{Deserialize, Serialize};

use super::list::{take, Cluster, Shard};
use super::member::Member;
use super::ClusterError;

/// The list of the shards of a cluster. It has neither roles nor passwords.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ShardList {
    /// The cluster's id.
    pub cluster: String,
    /// The version of the list.
    pub version: i64,
    /// The shards, in the order of their numbers.
    pub shards: Vec<Shard>,
}

/// What became of a list that was to be put in force again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ListRestored {
    /// The shards know this list.
    Same,
    /// They know a newer one, which stays.
    Newer,
    /// They knew an older one, and know it again.
    Restored,
}

impl Cluster {
    /// The newest list that any shard knows which can be reached, to be kept elsewhere.
    pub async fn copied(&self) -> ShardList {
        let newest = self.newest().await;
        let (version, shards) = newest.map_or_else(
            || (self.version(), self.shards().to_vec()),
            |newest| (newest.version(), newest.shards().to_vec()),
        );
        ShardList { cluster: self.id().to_owned(), version, shards }
    }

    /// Puts a list that was kept in force, if every shard that can be reached knows an older one. Nobody goes back by it (SH-3).
    ///
    /// # Errors
    /// [`ClusterError::Foreign`]: it is of another cluster. [`ClusterError::Split`]: the shards have another list of this version.
    /// What a shard refuses.
    pub async fn put_back(&self, list: &ShardList) -> Result<ListRestored, ClusterError> {
        if list.cluster != self.id() {
            return Err(ClusterError::Foreign { of: list.cluster.clone(), cluster: self.id().to_owned() });
        }
        let newest = self.newest().await;
        let (version, shards, number) = match &newest {
            Some(newest) => (newest.version(), newest.shards(), newest.here()),
            None => (self.version(), self.shards(), self.here()),
        };
        if version > list.version {
            return Ok(ListRestored::Newer);
        }
        if version == list.version {
            return match shards == list.shards {
                true => Ok(ListRestored::Same),
                false => Err(ClusterError::Split { number, version }),
            };
        }
        let here = list.shards.iter().find(|shard| shard.number == self.here());
        let here = here.ok_or(ClusterError::NoShard { number: self.here(), version: list.version })?;
        let member = Member::own(&self.target_of(here)?).await?;
        take(&member, self.id(), self.here(), list.version, &list.shards, false).await?;
        let restored = self.clone().with_list(list.version, list.shards.clone());
        restored.spread().await;
        Ok(ListRestored::Restored)
    }

    /// The newest list of the other shards, if it is newer than this one.
    async fn newest(&self) -> Option<Cluster> {
        let newest = self.elsewhere().await.into_iter().next_back()?;
        (newest.version() > self.version()).then_some(newest)
    }
}
