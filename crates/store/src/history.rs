//! History: states of a branch that are retained, named, read, forked and forgotten.
//!
//! A retained state is a tree that the branch had, which costs what the branch has changed since. The design, with its
//! invariants, is in `docs/design/store-history.md`.

mod keep;
mod points;
mod retain;

use std::collections::BTreeMap;

use duramen_base::clock;
use serde::Serialize;

use crate::access::View as _;
use crate::branch::Branch;
use crate::branch_state::BranchState;
use crate::branches::BranchOp;
use crate::display::display_value;
use crate::engine::Engine;
use crate::error::StoreError;
use crate::expiry::Now;
use crate::keys::{self, Primitive};
use crate::merge::{MergeOptions, MergeReport};
use crate::names::{check_space, check_tag};
use crate::overlay::Reader;
use crate::slot::Slot;
use crate::snapshot::Snapshot;
use crate::store::{expiry, Store};

pub use self::keep::{Every, Keep};
pub(crate) use self::points::{PointRecord, Points};
pub(crate) use self::retain::note_dropped;

/// The tags of a branch, at most.
pub const TAGS_MAX: usize = 1024;

/// Which state of a branch is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Moment {
    /// The state that a tag names.
    Tag(String),
    /// The state at a version of the store: the newest one that is retained and has nothing later. The version of the last
    /// write means the present.
    Version(u64),
    /// The newest state that is retained and is not later than this, in milliseconds since 1970 (UTC).
    Time(i64),
}

impl std::fmt::Display for Moment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tag(tag) => write!(f, "tag {tag:?}"),
            Self::Version(version) => write!(f, "version {version}"),
            Self::Time(unix_ms) => write!(f, "time {unix_ms} ms"),
        }
    }
}

/// A state that is retained.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RetainedState {
    /// Its version: that of the last write to the store before it was retained.
    pub version: u64,
    /// When it was retained, in milliseconds since 1970 (UTC).
    pub time_ms: i64,
    /// The tags that name it.
    pub tags: Vec<String>,
    /// Its entries, with those of indexes.
    pub entries: u64,
    /// Bytes on disk that nothing needs but this state and those before it; 0 for what no checkpoint has stored yet. None: the store
    /// does not know what its nodes take, because it is in object storage.
    pub bytes: Option<u64>,
}

/// What is retained of a branch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct History {
    /// What is retained from now on, beside what has a tag.
    pub keep: Option<Keep>,
    /// What there is, the oldest first.
    pub states: Vec<RetainedState>,
}

/// A key as it was for some time.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KeyState {
    /// The oldest retained state that has the key so; none if that is the present only.
    pub version: Option<u64>,
    /// When that was retained, in milliseconds since 1970 (UTC).
    pub time_ms: Option<i64>,
    /// The value; none where the key is not there.
    pub value: Option<serde_json::Value>,
}

pub(crate) fn not_retained(branch: &str, points: &Points, version: u64) -> StoreError {
    let (name, asked) = (branch.to_owned(), Moment::Version(version));
    StoreError::NotRetained { name, asked, oldest: points.iter().next().map(|point| point.version) }
}

impl Store {
    /// Says which states of a branch are retained from now on; none: only those that have a tag, and all others are
    /// forgotten.
    ///
    /// ```
    /// use duramen_store::{Keep, Moment, Scope, Store};
    /// let store = Store::memory();
    /// store.keep_history("main", Some(Keep::each_commit().versions(1000)))?;
    /// let main = store.branch("main")?;
    /// let first = main.kv().put("colour", "green")?;
    /// main.kv().put("colour", "red")?;
    ///
    /// let then = main.at(&Moment::Version(first))?;
    /// assert_eq!(then.kv().get("colour")?, Some("green".into()));
    /// # Ok::<(), duramen_store::StoreError>(())
    /// ```
    ///
    /// # Errors
    /// When there is no such branch, a limit is 0 or too short, bytes are to be limited where nodes have no size of their own
    /// (object storage), or nothing can be written.
    pub fn keep_history(&self, branch: &str, keep: Option<Keep>) -> Result<(), StoreError> {
        if let Some(keep) = &keep {
            keep.check(self.engine().forest().store().tells_sizes())?;
        }
        self.engine().change_branches(self.durability(), |registry| {
            let id = registry.named(branch)?.id();
            Ok((BranchOp::Keep { id, keep }, ()))
        })
    }

    /// Names the present state of a branch, which is retained as long as it has the tag. Returns its version.
    ///
    /// # Errors
    /// When there is no such branch, it has that tag already, or 1,024 of them; when nothing can be written.
    pub fn tag(&self, branch: &str, tag: &str) -> Result<u64, StoreError> {
        let branch = self.branch(branch)?;
        self.engine().change_branches(self.durability(), |_| {
            branch.state.check_alive()?;
            check_new_tag(&branch.state, tag)?;
            Ok((Engine::retain_op(&branch.state, clock::steady_unix_ms(), Some(tag.to_owned())), ()))
        })?;
        self.version_of(branch.name(), tag)
    }

    fn version_of(&self, branch: &str, tag: &str) -> Result<u64, StoreError> {
        let version = self.branch(branch)?.state.meta().points.tags().get(tag).copied();
        version.ok_or_else(|| StoreError::TagNotFound { branch: branch.to_owned(), tag: tag.to_owned() })
    }

    /// Names a state that is retained already. Returns its version.
    ///
    /// # Errors
    /// As [`tag`](Self::tag); [`StoreError::NotRetained`].
    pub fn tag_at(&self, branch: &str, moment: &Moment, tag: &str) -> Result<u64, StoreError> {
        let name = branch;
        self.engine().change_branches(self.durability(), |registry| {
            let branch = registry.named(branch)?;
            check_new_tag(&branch, tag)?;
            if self.is_now(moment)? {
                let tag = Some(tag.to_owned());
                return Ok((Engine::retain_op(&branch, clock::steady_unix_ms(), tag), ()));
            }
            let version = find_point(&branch, moment)?;
            Ok((BranchOp::Tag { id: branch.id(), version, tag: tag.to_owned() }, ()))
        })?;
        self.version_of(name, tag)
    }

    /// Takes a tag away. The state goes, too, unless another tag names it or it would be retained anyhow.
    ///
    /// # Errors
    /// When there is no such branch or tag, or nothing can be written.
    pub fn delete_tag(&self, branch: &str, tag: &str) -> Result<(), StoreError> {
        self.engine().change_branches(self.durability(), |registry| {
            let branch = registry.named(branch)?;
            if !branch.meta().points.tags().contains_key(tag) {
                return Err(StoreError::TagNotFound {
                    branch: branch.name().to_owned(),
                    tag: tag.to_owned(),
                });
            }
            Ok((BranchOp::Untag { id: branch.id(), tag: tag.to_owned() }, ()))
        })
    }

    /// Forks a branch as it was: see [`fork`](Self::fork). A merge compares with that state.
    ///
    /// # Errors
    /// As [`fork`](Self::fork); [`StoreError::NotRetained`] and [`StoreError::TagNotFound`].
    pub fn fork_at(&self, source: &str, moment: &Moment, name: &str) -> Result<Branch, StoreError> {
        self.fork_at_with(source, moment, name, None)
    }

    /// Forks a branch as it was, for a time: see [`fork_for`](Self::fork_for).
    ///
    /// # Errors
    /// As [`fork_at`](Self::fork_at); also when the time is longer than ten years.
    pub fn fork_at_for(
        &self,
        source: &str,
        moment: &Moment,
        name: &str,
        ttl: std::time::Duration,
    ) -> Result<Branch, StoreError> {
        self.fork_at_with(source, moment, name, Some(expiry(ttl)?))
    }

    fn fork_at_with(
        &self,
        source: &str,
        moment: &Moment,
        name: &str,
        expires_ms: Option<i64>,
    ) -> Result<Branch, StoreError> {
        let created_ms = clock::unix_ms();
        self.engine().change_branches(self.durability(), |registry| {
            registry.check_free(name)?;
            let (id, source) = (registry.next_id(), registry.named(source)?);
            let name = name.to_owned();
            // The version of the last write is the present, whatever was retained last.
            if self.is_now(moment)? {
                let source = source.id();
                return Ok((BranchOp::Fork { id, source, name, created_ms, expires_ms }, ()));
            }
            let version = find_point(&source, moment)?;
            Ok((BranchOp::ForkAt { id, source: source.id(), version, name, created_ms, expires_ms }, ()))
        })?;
        self.branch(name)
    }

    fn is_now(&self, moment: &Moment) -> Result<bool, StoreError> {
        let Moment::Version(version) = moment else { return Ok(false) };
        let last = self.engine().last_version();
        if *version > last {
            return Err(in_the_future(last));
        }
        Ok(*version == last)
    }
}

fn in_the_future(last: u64) -> StoreError {
    let reason = format!("the last one is {last}");
    StoreError::InvalidInput { what: "a version of the future", reason }
}

fn check_new_tag(branch: &BranchState, tag: &str) -> Result<(), StoreError> {
    check_tag(tag)?;
    let meta = branch.meta();
    let tags = meta.points.tags();
    if tags.contains_key(tag) {
        return Err(StoreError::TagExists { branch: branch.name().to_owned(), tag: tag.to_owned() });
    }
    if tags.len() >= TAGS_MAX {
        let reason = format!("branch {:?} has {TAGS_MAX} of them; delete one first", branch.name());
        return Err(StoreError::InvalidInput { what: "one more tag", reason });
    }
    Ok(())
}

/// The version of the point that is meant.
fn find_point(branch: &BranchState, moment: &Moment) -> Result<u64, StoreError> {
    let meta = branch.meta();
    let points = &meta.points;
    let found = match moment {
        Moment::Tag(tag) => {
            let missing = || StoreError::TagNotFound { branch: branch.name().to_owned(), tag: tag.clone() };
            return points.tags().get(tag).copied().ok_or_else(missing);
        }
        Moment::Version(version) => points.up_to(*version),
        Moment::Time(unix_ms) => points.until(*unix_ms),
    };
    let oldest = points.iter().next().map(|point| point.version);
    let missing =
        || StoreError::NotRetained { name: branch.name().to_owned(), asked: moment.clone(), oldest };
    found.map(|point| point.version).ok_or_else(missing)
}

impl Branch {
    /// The branch as it was, for reading. Its [version](Snapshot::version) says which state that is.
    ///
    /// # Errors
    /// [`StoreError::NotRetained`] when nothing as old is retained, [`StoreError::TagNotFound`]; when the version is later
    /// than the last write, or the branch was deleted.
    pub fn at(&self, moment: &Moment) -> Result<Snapshot, StoreError> {
        if let Moment::Version(version) = moment {
            let now = self.snapshot()?;
            if *version > now.version() {
                return Err(in_the_future(now.version()));
            }
            if *version == now.version() {
                return Ok(now);
            }
        }
        let pin = self.engine().pin();
        self.state.check_alive()?;
        let version = find_point(&self.state, moment)?;
        let (mut slot, floor, time_ms) = {
            let meta = self.state.meta();
            let point = meta.points.at(version);
            let found = point.map(|point| (point.slot.share(), point.floor, point.time_ms));
            found.ok_or_else(|| not_retained(self.name(), &meta.points, version))?
        };
        let tree = slot.tree(self.engine().forest())?.clone();
        Ok(Snapshot::hold(self.engine(), pin, tree, floor, version).with_time(Now::at(time_ms)))
    }

    /// Makes the branch what it was, in one commit: what changed since is written back, so that its history goes on, and
    /// what others write meanwhile is kept or refused as by a merge.
    ///
    /// # Errors
    /// As [`at`](Self::at) and [`Store::apply_change`].
    pub fn revert_to(&self, moment: &Moment) -> Result<MergeReport, StoreError> {
        let (now, then) = (self.snapshot()?, self.at(moment)?);
        let store = Store::of(self.open.clone());
        store.apply_change(&now, &then, self.name(), MergeOptions::default())
    }

    /// What is retained of it.
    ///
    /// # Errors
    /// When the branch was deleted, or a state cannot be read.
    pub fn history(&self) -> Result<History, StoreError> {
        let _pin = self.engine().pin();
        self.state.check_alive()?;
        let (keep, mut states, dead) = {
            let meta = self.state.meta();
            let mut tags: BTreeMap<u64, Vec<String>> = BTreeMap::new();
            for (tag, version) in meta.points.tags() {
                tags.entry(*version).or_default().push(tag.clone());
            }
            let states = meta.points.iter().map(|point| RetainedState {
                version: point.version,
                time_ms: point.time_ms,
                tags: tags.remove(&point.version).unwrap_or_default(),
                entries: match &point.slot {
                    Slot::Open(tree) => tree.len(),
                    Slot::Stored(root) => root.count,
                },
                bytes: None,
            });
            let states: Vec<_> = states.collect();
            let dead: Vec<Vec<_>> = meta.points.iter().map(|point| Points::dead_of(point).to_vec()).collect();
            (meta.points.keep().copied(), states, dead)
        };
        // Nobody else has to wait while the sizes are looked up.
        let nodes = self.engine().forest().store();
        if nodes.tells_sizes() {
            for (state, dead) in states.iter_mut().zip(dead) {
                state.bytes = Some(nodes.bytes_of(&dead));
            }
        }
        Ok(History { keep, states })
    }

    /// How a key has changed, the present first: of pairs, cells and documents, as far as states are retained. At most
    /// `limit` changes.
    ///
    /// # Errors
    /// When the kind of data has no keys of its own, a name is not allowed, or a state cannot be read.
    pub fn key_history(
        &self,
        primitive: Primitive,
        space: &str,
        key: impl crate::kv::AsKey,
        limit: usize,
    ) -> Result<Vec<KeyState>, StoreError> {
        if matches!(primitive, Primitive::Event | Primitive::Vector | Primitive::Index) {
            let reason = format!("{primitive} has none; pairs, cells and documents have");
            return Err(StoreError::InvalidInput { what: "the history of a key", reason });
        }
        check_space(space)?;
        let mut full = keys::prefix(primitive, space);
        full.extend_from_slice(key.as_key().as_ref());
        let _pin = self.engine().pin();
        let mut points: Vec<_> = {
            let meta = self.state.meta();
            let points = meta.points.iter();
            points.map(|point| (point.version, point.time_ms, point.slot.share(), point.floor)).collect()
        };
        let look = |slot: &mut Slot, floor: u64| -> Result<Option<(u64, serde_json::Value)>, StoreError> {
            let forest = self.engine().forest();
            let reader = Reader { forest, tree: slot.tree(forest)?, floor: 0, now: &Now::default() };
            let mut found = None;
            // What a reset brought is not older than that.
            let mut show = |version: u64, bytes: &[u8]| {
                found = Some((version.max(floor), display_value(primitive, bytes)));
            };
            reader.get(&full, &mut show)?;
            Ok(found)
        };
        let mut value = look(&mut self.state.share(), self.state.floor())?;
        self.state.check_alive()?;
        let mut states = Vec::new();
        let mut end = points.len();
        while states.len() < limit {
            // In all points before `end` and from `start` on the key is as it is now.
            let mut start = end;
            let mut older = None;
            match &value {
                Some((version, _)) => {
                    start = points[..end].partition_point(|point| point.0 < *version);
                    // What was loaded in bulk has versions that were taken before it was there.
                    while let Some((_, _, slot, floor)) = points[..end].get_mut(start) {
                        let then = look(slot, *floor)?;
                        if then.as_ref().map(|(version, _)| *version) == Some(*version) {
                            break;
                        }
                        start += 1;
                    }
                }
                None => {
                    while start > 0 {
                        let (_, _, slot, floor) = &mut points[start - 1];
                        older = look(slot, *floor)?;
                        if older.is_some() {
                            break;
                        }
                        start -= 1;
                    }
                }
            }
            if value.is_some() || start > 0 {
                let since = points.get(start).filter(|_| start < end);
                states.push(KeyState {
                    version: since.map(|since| since.0),
                    time_ms: since.map(|since| since.1),
                    value: value.take().map(|(_, value)| value),
                });
            }
            if start == 0 {
                break;
            }
            if older.is_none() {
                let (_, _, slot, floor) = &mut points[start - 1];
                older = look(slot, *floor)?;
            }
            (value, end) = (older, start);
        }
        Ok(states)
    }
}
