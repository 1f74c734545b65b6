//! The list of shards: read from one of them, decided on shard 0, and put in force on the others.

use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use tokio::task::JoinSet;
use tokio_postgres::types::Type;

use super::member::Member;
use super::{ClusterError, SHARDS_MAX};
use crate::worker::new_epoch;
use duramen_base::entropy;
use duramen_postgres::connection::Target;

/// How often a change is decided anew that another one has overtaken.
const DECISIONS_MAX: usize = 5;

/// A list that is newer by more changes than this was not made by changing it, and is not heeded.
const CHANGES_MAX: i64 = 1_000;

/// Whether a shard takes new instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ShardState {
    /// It takes new instances.
    Open,
    /// It takes none, and ends what it has.
    Draining,
    /// It is not served any more. Its number is not given again.
    Removed,
}

impl ShardState {
    fn as_str(self) -> &'static str {
        match self {
            ShardState::Open => "open",
            ShardState::Draining => "draining",
            ShardState::Removed => "removed",
        }
    }

    fn read(word: &str) -> ShardState {
        match word {
            "open" => ShardState::Open,
            "removed" => ShardState::Removed,
            // What a later version may say is not taken for open.
            _ => ShardState::Draining,
        }
    }
}

impl fmt::Display for ShardState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// One database of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shard {
    /// Its number, which the ids of its instances have.
    #[serde(rename = "shard")]
    pub number: u16,
    /// Where it is, as `key=value`: hosts, ports and a database, without role and password.
    pub place: String,
    /// Whether it takes new instances.
    pub state: ShardState,
    /// Whether starts with an idempotency key are placed on it.
    pub keyed: bool,
}

/// What a shard says of itself when it is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Its number.
    pub number: u16,
    /// What it has, or why it cannot be asked.
    pub counts: Result<Counts, String>,
}

/// What a shard has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// The version of the list that it knows.
    pub version: i64,
    /// Instances that have not begun: they wait for a worker, or in a queue.
    pub pending: i64,
    /// Instances that have begun and not ended.
    pub running: i64,
    /// Workers that have been heard of within 20 seconds.
    pub workers: i64,
}

/// A cluster as one of its shards knows it.
///
/// ```no_run
/// # async fn example() -> Result<(), duramen_functions::cluster::ClusterError> {
/// use duramen_functions::cluster::Cluster;
/// let cluster = Cluster::create(&["postgres://df_worker@a/jobs", "postgres://df_worker@b,c/jobs"]).await?;
/// for shard in cluster.shards() {
///     println!("{} {} {}", shard.number, shard.state, shard.place);
/// }
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Cluster {
    id: String,
    version: i64,
    here: u16,
    shards: Vec<Shard>,
    /// The database that was asked; its role and password are those for all shards.
    login: Target,
}

impl Cluster {
    /// Reads the list that a database knows.
    ///
    /// # Errors
    /// [`ClusterError`]; [`ClusterError::None`] if it belongs to no cluster.
    pub async fn read(url: &str) -> Result<Cluster, ClusterError> {
        let target = Target::parse(url)?;
        Cluster::known_to(&Member::open(&target).await?, &target).await
    }

    /// The same for the schema's owner, who runs nothing there that is not his own.
    pub(super) async fn owned(target: &Target) -> Result<Cluster, ClusterError> {
        Cluster::known_to(&Member::own(target).await?, target).await
    }

    pub(super) async fn known_to(member: &Member, login: &Target) -> Result<Cluster, ClusterError> {
        let none = || ClusterError::None { target: login.describe() };
        // By one statement, or a list could be read under the version of the one before it.
        let rows = member
            .rows(
                "SELECT m.cluster::text, m.cluster_version, m.shard, s.shard, s.place, s.state, s.keyed \
                 FROM df._meta m LEFT JOIN df._shard s ON true ORDER BY s.shard",
                &[],
            )
            .await?;
        let row = rows.first().ok_or_else(none)?;
        let id: String = row.get::<_, Option<String>>(0).ok_or_else(none)?;
        let version: i64 = row.get(1);
        let here = number(row.get(2));
        if version == 0 {
            return Err(ClusterError::Unlisted { target: login.describe(), number: here });
        }
        let listed = rows.iter().filter(|row| row.get::<_, Option<i32>>(3).is_some());
        let shards = listed
            .map(|row| Shard {
                number: number(row.get(3)),
                place: row.get(4),
                state: ShardState::read(row.get(5)),
                keyed: row.get(6),
            })
            .collect();
        Ok(Cluster { id, version, here, shards, login: login.clone() })
    }

    /// Makes a cluster of databases that have durable functions already, in this order. All but the first must never have had an
    /// instance. Done again after it was interrupted, it goes on.
    ///
    /// # Errors
    /// [`ClusterError`]; a database that was made ready belongs to no cluster until the list is there.
    pub async fn create(urls: &[&str]) -> Result<Cluster, ClusterError> {
        if urls.len() > SHARDS_MAX {
            return Err(ClusterError::Full);
        }
        let mut members = Vec::new();
        let mut identities: Vec<(String, String)> = Vec::new();
        for url in urls {
            let member = Member::own(&of_several(Target::parse(url)?)).await?;
            let identity: String = member.row("SELECT df._identity()", &[]).await?.get(0);
            let second = member.target().describe();
            if let Some((_, first)) = identities.iter().find(|(known, _)| *known == identity) {
                return Err(ClusterError::Same { first: first.clone(), second });
            }
            identities.push((identity, second));
            members.push(member);
        }
        let Some(first) = members.first() else { return Err(ClusterError::NoneOpen) };
        let login = Target::parse(urls[0])?;
        let places: Vec<String> = urls
            .iter()
            .map(|url| Ok(of_several(Target::parse(url)?).place()))
            .collect::<Result<_, ClusterError>>()?;
        match Cluster::known_to(first, &login).await {
            // It had been decided, and not everybody was told.
            Ok(known) if known.here == 0 && known.shards.iter().map(|shard| &shard.place).eq(&places) => {
                known.spread_strictly().await?;
                return Ok(known);
            }
            Ok(_) => return Err(ClusterError::Already { target: login.describe() }),
            Err(ClusterError::None { .. } | ClusterError::Unlisted { .. }) => {}
            Err(error) => return Err(error),
        }
        let known: Option<String> = first.row("SELECT m.cluster::text FROM df._meta m", &[]).await?.get(0);
        let id = known.unwrap_or_else(new_epoch);
        let mut shards = Vec::new();
        for (position, (member, place)) in members.iter().zip(places).enumerate() {
            let number = u16::try_from(position).unwrap_or(u16::MAX);
            join(member, &id, number).await?;
            shards.push(Shard { number, place, state: ShardState::Open, keyed: true });
        }
        take(first, &id, 0, 1, &shards, true).await?;
        let cluster = Cluster { id, version: 1, here: 0, shards, login };
        cluster.spread_strictly().await?;
        Ok(cluster)
    }

    /// Takes back that a database was made ready for a list, as long as that has not come.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub async fn leave(url: &str) -> Result<(), ClusterError> {
        Member::own(&of_several(Target::parse(url)?)).await?.row("SELECT df._leave()", &[]).await?;
        Ok(())
    }

    /// Adds a database, which must never have had an instance. New instances go there at once.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub async fn add(&self, url: &str) -> Result<Cluster, ClusterError> {
        let target = of_several(Target::parse(url)?);
        let member = Member::own(&target).await?;
        let place = target.place();
        self.decide(async |known| {
            if let Some(shard) = known.shards.iter().find(|shard| shard.place == place) {
                if shard.state != ShardState::Removed {
                    // It was decided, and it was not told.
                    if matches!(Cluster::known_to(&member, &target).await, Err(ClusterError::Unlisted { .. }))
                    {
                        return Ok(known.shards.clone());
                    }
                    let there = known.target_of(shard)?.describe();
                    return Err(ClusterError::Same { first: there, second: target.describe() });
                }
            }
            let number = known.shards.iter().map(|shard| shard.number + 1).max().unwrap_or(0);
            if usize::from(number) >= SHARDS_MAX {
                return Err(ClusterError::Full);
            }
            // Before the list, so that nothing is started there under another shard's numbers.
            join(&member, &known.id, number).await?;
            let mut shards = known.shards.clone();
            shards.push(Shard { number, place: place.clone(), state: ShardState::Open, keyed: false });
            Ok(shards)
        })
        .await
    }

    /// Opens a shard for new instances, drains it, or removes it when it has ended what it had. What has ended there stays in its
    /// database. With `force` one is removed that has not, or cannot be asked: its instances are given up.
    ///
    /// # Errors
    /// [`ClusterError`].
    pub async fn set(&self, number: u16, state: ShardState, force: bool) -> Result<Cluster, ClusterError> {
        self.decide(async |known| {
            let mut shards = known.shards.clone();
            let missing = || ClusterError::NoShard { number, version: known.version };
            let shard = shards.iter_mut().find(|shard| shard.number == number).ok_or_else(missing)?;
            if shard.state == ShardState::Removed {
                return Err(ClusterError::Removed { number });
            }
            if state == ShardState::Removed {
                if number == 0 {
                    return Err(ClusterError::Decider);
                }
                if !force {
                    known.must_be_empty(shard).await?;
                }
                // The keys that were placed here are placed on those that are left.
                shard.keyed = false;
            }
            shard.state = state;
            Ok(shards)
        })
        .await
    }

    /// Refuses to remove a shard that may still begin something, or has something that has not ended.
    async fn must_be_empty(&self, shard: &Shard) -> Result<(), ClusterError> {
        let (number, state) = (shard.number, shard.state);
        let member = Member::own(&self.target_of(shard)?).await?;
        let there = Cluster::known_to(&member, &self.login).await?;
        if (there.id.as_str(), there.here) != (self.id.as_str(), number) {
            return Err(ClusterError::Elsewhere { number, target: member.target().describe() });
        }
        if there.version < self.version {
            // It would go on to take starts.
            take(&member, &self.id, number, self.version, &self.shards, false).await?;
        }
        let left: i64 = member.row("SELECT df._unended()", &[]).await?.get(0);
        if state != ShardState::Draining || left > 0 {
            return Err(ClusterError::NotEmpty { number, state, left });
        }
        Ok(())
    }

    /// Puts a list in force everywhere although shard 0 has an older one, or another: what the shard `number` has, if shard 0 has gone back
    /// (it was restored, or its standby had not been sent all); with 0, what shard 0 has, whatever others say.
    ///
    /// # Errors
    /// [`ClusterError`]; [`ClusterError::NotAhead`].
    pub async fn believe(&self, number: u16) -> Result<Cluster, ClusterError> {
        let (member, known) = self.decider().await?;
        let others = known.elsewhere().await;
        let (version, shards) = if number == 0 {
            let heeded = others.iter().filter(|other| other.version <= known.version + CHANGES_MAX);
            let newest = heeded.map(|other| other.version).max().unwrap_or(0);
            (newest.max(known.version) + 1, known.shards.clone())
        } else {
            let other = others.into_iter().find(|other| other.here == number);
            let other = other.ok_or(ClusterError::NoShard { number, version: known.version })?;
            if other.version <= known.version || other.version > known.version + CHANGES_MAX {
                return Err(ClusterError::NotAhead { number, version: other.version });
            }
            (other.version, other.shards)
        };
        let version = take(&member, &known.id, 0, version, &shards, false).await?;
        let believed = Cluster { version, shards, ..known };
        believed.spread().await;
        Ok(Cluster { here: self.here, login: self.login.clone(), ..believed })
    }

    /// A session with shard 0, which decides on the list, and what it knows.
    async fn decider(&self) -> Result<(Member, Cluster), ClusterError> {
        let zero = self.shard(0).ok_or(ClusterError::NoShard { number: 0, version: self.version })?;
        let target = self.target_of(zero)?;
        let member = Member::own(&target).await?;
        let known = Cluster::known_to(&member, &target).await?;
        if (known.id.as_str(), known.here) != (self.id.as_str(), 0) {
            return Err(ClusterError::Elsewhere { number: 0, target: target.describe() });
        }
        Ok((member, known))
    }

    /// Whether another list leads nowhere that this one does not lead to.
    pub(super) fn has_places_of(&self, other: &Cluster) -> bool {
        let known = |shard: &Shard| self.shard(shard.number).is_some_and(|known| known.place == shard.place);
        other.id == self.id && other.served().all(known)
    }

    /// Decides on the next version of the list: from the one that shard 0 has, as often as another change overtakes it. What another
    /// shard says is never put in force by itself: who owns that one could lead everybody anywhere.
    async fn decide(
        &self,
        change: impl AsyncFn(&Cluster) -> Result<Vec<Shard>, ClusterError>,
    ) -> Result<Cluster, ClusterError> {
        let mut tries = 0;
        'again: loop {
            let (member, known) = self.decider().await?;
            for other in known.elsewhere().await {
                let (number, version) = (other.here, other.version);
                if version > known.version + CHANGES_MAX {
                    tracing::error!(
                        shard = number,
                        version,
                        "a shard has a list that cannot be: it is not heeded"
                    );
                } else if version > known.version {
                    // Shard 0 was asked first: another change may have been decided on since, and be in force there already.
                    if tries < DECISIONS_MAX && self.decider().await?.1.version > known.version {
                        tries += 1;
                        continue 'again;
                    }
                    return Err(ClusterError::Ahead { number, version, known: known.version });
                } else if version == known.version && other.shards != known.shards {
                    return Err(ClusterError::Split { number, version });
                }
            }
            let shards = change(&known).await?;
            let (here, login) = (self.here, self.login.clone());
            if shards == known.shards {
                known.spread().await;
                return Ok(Cluster { here, login, ..known });
            }
            tries += 1;
            match take(&member, &known.id, 0, known.version + 1, &shards, true).await {
                Ok(version) => {
                    let decided = Cluster { version, shards, ..known };
                    // Whoever cannot be told is told by the next worker that looks.
                    decided.spread().await;
                    return Ok(Cluster { here, login, ..decided });
                }
                Err(ClusterError::Server { cause, .. })
                    if tries < DECISIONS_MAX && cause.contains("Do it again") => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// What the other shards know that can be reached.
    pub(super) async fn elsewhere(&self) -> Vec<Cluster> {
        let mut asked = JoinSet::new();
        for shard in self.served().filter(|shard| shard.number != self.here) {
            let (target, number) = (self.target_of(shard), shard.number);
            asked.spawn(async move { (number, async { Cluster::owned(&target?).await }.await) });
        }
        let mut found = Vec::new();
        for (number, known) in asked.join_all().await {
            match known {
                Ok(known) if known.id == self.id && known.here == number => found.push(known),
                Ok(_) => {
                    tracing::warn!(shard = number, "what answers where a shard is belongs to another one")
                }
                // It is told when it can be.
                Err(error) => tracing::debug!(shard = number, %error, "a shard cannot say which list it has"),
            }
        }
        found.sort_by_key(|known| known.version);
        found
    }

    /// Puts this list in force on every shard that can be reached. Returns those that cannot, and why; of those that were removed
    /// it does not matter.
    pub async fn spread(&self) -> Vec<(u16, ClusterError)> {
        let mut told = JoinSet::new();
        for shard in &self.shards {
            let (id, version, shards, number) =
                (self.id.clone(), self.version, self.shards.clone(), shard.number);
            let target = self.target_of(shard);
            told.spawn(async move {
                let result =
                    async { take(&Member::own(&target?).await?, &id, number, version, &shards, false).await };
                (number, result.await)
            });
        }
        let mut failed = Vec::new();
        while let Some(outcome) = told.join_next().await {
            let Ok((number, Err(error))) = outcome else { continue };
            if self.served().any(|shard| shard.number == number) {
                tracing::warn!(shard = number, %error, "a shard does not have the newest list yet");
                failed.push((number, error));
            }
        }
        failed.sort_by_key(|(number, _)| *number);
        failed
    }

    async fn spread_strictly(&self) -> Result<(), ClusterError> {
        self.spread().await.into_iter().next().map_or(Ok(()), |(_, error)| Err(error))
    }

    /// What each shard that is served says of itself, asked at once.
    pub async fn standing(&self) -> Vec<Standing> {
        let mut asked = JoinSet::new();
        for shard in self.served() {
            let (number, target) = (shard.number, self.target_of(shard));
            asked.spawn(async move {
                let counts = async { counts(&target?, number).await };
                Standing { number, counts: counts.await.map_err(|error: ClusterError| error.to_string()) }
            });
        }
        let mut standing: Vec<Standing> = asked.join_all().await;
        standing.sort_by_key(|standing| standing.number);
        standing
    }

    /// The cluster's own id, a UUID.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The version of the list.
    #[must_use]
    pub fn version(&self) -> i64 {
        self.version
    }

    /// The shard that was asked.
    #[must_use]
    pub fn here(&self) -> u16 {
        self.here
    }

    /// All shards, those that were removed too, in the order of their numbers.
    #[must_use]
    pub fn shards(&self) -> &[Shard] {
        &self.shards
    }

    /// The shard with a number.
    #[must_use]
    pub fn shard(&self, number: u16) -> Option<&Shard> {
        self.shards.iter().find(|shard| shard.number == number)
    }

    /// Those that workers serve.
    pub fn served(&self) -> impl Iterator<Item = &Shard> {
        self.shards.iter().filter(|shard| shard.state != ShardState::Removed)
    }

    /// A shard that takes new instances, by chance.
    ///
    /// # Errors
    /// [`ClusterError::NoneOpen`].
    pub fn any_open(&self) -> Result<&Shard, ClusterError> {
        let open: Vec<&Shard> = self.shards.iter().filter(|shard| shard.state == ShardState::Open).collect();
        let draw = u64::from_le_bytes(entropy::random_bytes());
        let place = usize::try_from(draw % open.len().max(1) as u64).unwrap_or(0);
        open.get(place).copied().ok_or(ClusterError::NoneOpen)
    }

    /// The shard on which a start with this idempotency key is placed: always the same, whatever shards come (`df.home`).
    ///
    /// # Errors
    /// [`ClusterError::NoneOpen`].
    pub fn home(&self, key: &str) -> Result<u16, ClusterError> {
        let weight = |shard: &&Shard| Sha256::digest(format!("{}:{key}", shard.number));
        let home = self.shards.iter().filter(|shard| shard.keyed).max_by_key(weight);
        home.map(|shard| shard.number).ok_or(ClusterError::NoneOpen)
    }

    /// The same cluster, as another list of it has it; it is reached as before.
    #[must_use]
    pub(super) fn with_list_of(self, read: Cluster) -> Cluster {
        self.with_list(read.version, read.shards)
    }

    /// The same, with a list of this version.
    #[must_use]
    pub(super) fn with_list(self, version: i64, shards: Vec<Shard>) -> Cluster {
        Cluster { version, shards, ..self }
    }

    /// Where a shard is, with the role and the password of this cluster's reader.
    ///
    /// # Errors
    /// [`ClusterError::Connect`]: the list does not say.
    pub fn target_of(&self, shard: &Shard) -> Result<Target, ClusterError> {
        // Through the database that was asked, its own way: it may be reached by a name that only its reader has.
        if shard.number == self.here {
            return Ok(of_several(self.login.clone()));
        }
        Ok(of_several(Target::parse(&shard.place)?.login_of(&self.login)))
    }
}

/// Of several hosts the primary is meant.
fn of_several(target: Target) -> Target {
    if target.hosts() > 1 {
        target.primary()
    } else {
        target
    }
}

fn number(of: i32) -> u16 {
    u16::try_from(of).unwrap_or(u16::MAX)
}

async fn join(member: &Member, id: &str, number: u16) -> Result<(), ClusterError> {
    let sql = "SELECT df._join($1::text::uuid, $2)";
    member.row(sql, &[(&id, Type::TEXT), (&i32::from(number), Type::INT4)]).await?;
    Ok(())
}

/// Puts a list in force at one shard; `decides`: it must be the next one there. Returns the version that is in force.
pub(super) async fn take(
    member: &Member,
    id: &str,
    number: u16,
    version: i64,
    shards: &[Shard],
    decides: bool,
) -> Result<i64, ClusterError> {
    let rows = serde_json::to_string(shards).map_err(|error| ClusterError::Server {
        target: member.target().describe(),
        cause: error.to_string(),
    })?;
    let sql = "SELECT df._take_list($1::text::uuid, $2, $3, $4::text::json, $5)";
    let number = i32::from(number);
    let parameters: [(&(dyn tokio_postgres::types::ToSql + Sync), Type); 5] = [
        (&id, Type::TEXT),
        (&number, Type::INT4),
        (&version, Type::INT8),
        (&rows, Type::TEXT),
        (&decides, Type::BOOL),
    ];
    Ok(member.row(sql, &parameters).await?.get(0))
}

async fn counts(target: &Target, number: u16) -> Result<Counts, ClusterError> {
    let sql = "SELECT coalesce(m.cluster_version, 0), (SELECT count(*) FROM df._ready) + (SELECT count(*) FROM df._queued),
            (SELECT count(*) FROM df._work),
            (SELECT count(*) FROM df._worker_epoch e WHERE e.last_seen_at > clock_timestamp() - interval '20 seconds'),
            m.shard
        FROM df._meta m";
    let row = Member::own(target).await?.row(sql, &[]).await?;
    if row.get::<_, Option<i32>>(4) != Some(i32::from(number)) {
        return Err(ClusterError::Elsewhere { number, target: target.describe() });
    }
    Ok(Counts { version: row.get(0), pending: row.get(1), running: row.get(2), workers: row.get(3) })
}
