//! Three-way merges of branches.
//!
//! What the source changed since both sides parted is applied to the target. A key that the target changed too, and
//! not to the same value, is a conflict: cells and pairs as a whole, documents by path, event logs when both sides
//! appended. A cell that both sides changed to the same value is one as well: [`Equal`] says why. So is a vector collection
//! whose dimensions or metric one side changed, and anything of it the other.

mod collections;
mod keep;
mod logs;
mod rules;

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use duramen_tree::{KeyRange, MergeItem, OursIs, Tree};
use serde::Serialize;

use crate::access::{Access, Edit, View};
use crate::blob;
use crate::branch_state::BranchState;
use crate::conflict;
use crate::diff::Part;
use crate::display::{display_key, display_value};
use crate::engine::Engine;
use crate::error::StoreError;
use crate::event;
use crate::expiry::{self, Now};
use crate::json::{three_way, Json, ThreeWay};
use crate::keys::{self, Primitive};
use crate::overlay::Draft;
use crate::record;
use crate::slot::Slot;
use crate::snapshot::Snapshot;
use crate::state;
use crate::store::Store;
use crate::value::{check_encoded, Encode, Value};
use crate::writer::Writer;
use collections::Collections;
use keep::Origin;
use rules::Versions;
pub use rules::{Decision, Rule};

/// How often a merge is computed anew because one of its branches was written meanwhile. The last time, writers wait,
/// unless a resolver is asked: that is the program's code, and may want to write.
const ATTEMPTS: u32 = 6;

/// Who wins where both sides changed the same thing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Strategy {
    /// Nobody: the merge fails with all conflicts, and nothing is written.
    #[default]
    Fail,
    /// The branch that is merged into.
    Ours,
    /// The branch that is merged.
    Theirs,
    /// Nobody yet: the branch that is merged into keeps what it has, and a record of what both have, from which the conflict is
    /// settled later: see [`conflict`](crate::conflict). For pairs, cells, documents and vectors; conflicts of blobs, event logs,
    /// indexes and whole collections are as with [`Fail`](Self::Fail), so decide those by a rule.
    Keep,
}

/// What it is when both sides changed something to the same value.
///
/// Both may have meant the same: then they agree. Or both computed it of what they had: the stock is 10, each side sells
/// one, and each writes 9. Nothing in the values tells the two apart, and 9 would be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Equal {
    /// Agreement: nothing is to be done.
    Agree,
    /// A conflict.
    Conflict,
}

/// What a resolver decides about one conflict.
#[derive(Clone, Debug, PartialEq)]
pub enum Resolution {
    /// What the branch that is merged into has.
    Ours,
    /// What the branch that is merged has.
    Theirs,
    /// The key is deleted.
    Delete,
    /// Another value: for pairs, cells and documents.
    Value(serde_json::Value),
    /// As the strategy says.
    Unresolved,
}

/// Something that both sides changed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Conflict {
    /// The kind of data.
    pub primitive: Primitive,
    /// The space.
    pub space: String,
    /// The key; of an event log, that of the first event that both sides have differently; of a vector collection whose
    /// dimensions or metric a side changed, its name.
    pub key: String,
    /// What both sides had when they parted.
    pub base: Option<serde_json::Value>,
    /// What the branch that is merged into has.
    pub ours: Option<serde_json::Value>,
    /// What the branch that is merged has.
    pub theirs: Option<serde_json::Value>,
    /// Of a document, the paths that both sides changed.
    pub paths: Vec<String>,
    /// Whether it does not stand in the way of the merge: it was decided, by the strategy or a resolver, or is kept.
    pub resolved: bool,
    /// Whether it is kept, to be settled later.
    pub kept: bool,
    /// Why it is not kept, where that was the strategy.
    pub reason: Option<&'static str>,
}

/// Decides conflicts one by one.
pub type Resolver<'r> = dyn FnMut(&Conflict) -> Resolution + 'r;

/// How branches are merged. The default merges everything and fails on a conflict.
#[derive(Default)]
pub struct MergeOptions<'r> {
    /// Only a part of the source.
    pub part: Part,
    /// Who wins where both sides changed the same thing.
    pub strategy: Strategy,
    /// What equal changes are: of pairs, cells, vectors, and documents that are the same as a whole. Without this they
    /// are a conflict of cells, which are there to be changed by what they hold, and agreement of all else. A part
    /// that was merged before is equal on both sides, too.
    pub equal: Option<Equal>,
    /// Say what would be done, and write nothing.
    pub dry_run: bool,
    /// Where both sides appended events, append the source's after the target's, with new numbers.
    pub resequence_events: bool,
    /// Decide conflicts by key, each key by the first rule that is about it: before the strategy, after the resolver.
    pub rules: Vec<Rule>,
    /// Asked about each conflict before the rules and the strategy.
    pub resolver: Option<&'r mut Resolver<'r>>,
}

impl MergeOptions<'_> {
    fn is_conflict_if_equal(
        &self,
        item: &MergeItem<'_>,
        primitive: Primitive,
        space: &str,
        rest: &[u8],
    ) -> bool {
        // Two counters that are the same were counted by both sides.
        let is_added = || {
            let rule = rules::find(&self.rules, primitive, space, rest);
            rule.is_some_and(|rule| rule.decision == Decision::Add)
        };
        let is_counter = || item.ours.is_some_and(|entry| rules::is_counter(primitive, entry.value));
        if !self.rules.is_empty() && is_added() && is_counter() {
            return true;
        }
        match (self.equal, primitive) {
            // Of logs, what both have alike is found by their numbers.
            (_, Primitive::Event) | (Some(Equal::Agree), _) => false,
            (Some(Equal::Conflict), _) | (None, Primitive::State) => true,
            (None, _) => false,
        }
    }
}

/// What a merge did, or would do.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct MergeReport {
    /// Keys written.
    pub written: u64,
    /// Keys deleted.
    pub deleted: u64,
    /// What both sides changed, decided or not.
    pub conflicts: Vec<Conflict>,
    /// Conflicts that are kept, and open in the target from now on.
    pub kept: u64,
    /// Conflicts that were opened or settled in the source before, and now are in the target too.
    pub carried: u64,
    /// Events that were appended with new numbers.
    pub events_resequenced: u64,
    /// The version of the merge; none if nothing was written.
    pub version: Option<u64>,
}

/// A key of the tree with its new value; none to delete it.
pub(crate) type RawWrite = (Vec<u8>, Option<Vec<u8>>);

/// Writes that a merge does, by key of the tree.
#[derive(Default)]
struct Plan {
    writes: Vec<RawWrite>,
    /// Events to append with new numbers: space, type, payload, time.
    events: Vec<(String, event::Event)>,
    /// Logs to trim, and before which event.
    trims: Vec<(String, u64)>,
    /// Records of conflicts to write, by their key in the tree.
    records: Vec<RawWrite>,
    /// Records that the source has changed, which may go over with their rows.
    carried: Vec<RawWrite>,
    /// Whether both sides changed something alike, about which nothing is to be done.
    agreed: bool,
    report: MergeReport,
}

/// The three trees of a merge.
struct Trees {
    base: Snapshot,
    ours: Snapshot,
    theirs: Snapshot,
}

impl Store {
    /// Merges what `source` changed into `target`, in one commit.
    ///
    /// ```
    /// use duramen_store::{MergeOptions, Scope, Store};
    /// let store = Store::memory();
    /// let main = store.branch("main")?;
    /// main.kv().put("a", 1)?;
    /// store.fork("main", "try")?.kv().put("a", 2)?;
    /// let report = store.merge("try", "main", MergeOptions::default())?;
    /// assert_eq!(report.written, 1);
    /// assert_eq!(main.kv().get("a")?, Some(2.into()));
    /// # Ok::<(), duramen_store::StoreError>(())
    /// ```
    ///
    /// # Errors
    /// [`StoreError::MergeConflict`] when a conflict was not decided: nothing is written. A dry run reports it
    /// instead.
    pub fn merge(
        &self,
        source: &str,
        target: &str,
        options: MergeOptions<'_>,
    ) -> Result<MergeReport, StoreError> {
        let (source, target) = (self.branch(source)?.state, self.branch(target)?.state);
        if source.id() == target.id() {
            let reason = "a branch cannot be merged into itself".to_owned();
            return Err(StoreError::InvalidInput { what: "a merge", reason });
        }
        self.merge_from(&Source::Branch(source), &target, options)
    }

    /// Does to a branch what made one state of another: what is different between `before` and `after`, snapshots of this
    /// store, is merged into `target` in one commit. So a change is picked from one branch for another, and a change is
    /// taken back by naming its states the other way round.
    ///
    /// ```
    /// use duramen_store::{Keep, MergeOptions, Moment, Scope, Store};
    /// let store = Store::memory();
    /// store.keep_history("main", Some(Keep::each_commit()))?;
    /// let main = store.branch("main")?;
    /// let before = main.kv().put("a", 1)?;
    /// let after = main.kv().put("a", 2)?;
    /// main.kv().put("b", 3)?;
    ///
    /// let (before, after) = (main.at(&Moment::Version(before))?, main.at(&Moment::Version(after))?);
    /// store.apply_change(&after, &before, "main", MergeOptions::default())?;
    /// assert_eq!(main.kv().get("a")?, Some(1.into()));
    /// assert_eq!(main.kv().get("b")?, Some(3.into()));
    /// # Ok::<(), duramen_store::StoreError>(())
    /// ```
    ///
    /// # Errors
    /// As [`merge`](Self::merge); when a snapshot is of another store, or a rule adds.
    pub fn apply_change(
        &self,
        before: &Snapshot,
        after: &Snapshot,
        target: &str,
        options: MergeOptions<'_>,
    ) -> Result<MergeReport, StoreError> {
        if [before, after].iter().any(|snapshot| !std::sync::Arc::ptr_eq(snapshot.engine(), self.engine())) {
            let reason = "its snapshots must be of this store".to_owned();
            return Err(StoreError::InvalidInput { what: "a change", reason });
        }
        let target = self.branch(target)?.state;
        self.merge_from(&Source::Change { before, after }, &target, options)
    }

    fn merge_from(
        &self,
        source: &Source<'_>,
        target: &BranchState,
        mut options: MergeOptions<'_>,
    ) -> Result<MergeReport, StoreError> {
        let engine = self.engine();
        for attempt in 1..=ATTEMPTS {
            let hold = attempt == ATTEMPTS && options.resolver.is_none() && !options.dry_run;
            let mut held = hold.then(|| engine.lock_writer());
            check_rules(source, target, &options)?;
            let trees = engine.merge_trees(source, target)?;
            let origin = Origin::of(source, &trees);
            let mut plan = plan(engine, &trees, &origin, &mut options)?;
            if options.dry_run {
                return Ok(plan.report);
            }
            let open = plan.report.conflicts.iter().filter(|conflict| !conflict.resolved);
            if let Some(first) = open.clone().next() {
                let reason = first.reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
                let first = format!("{} {}/{}{reason}", first.primitive, first.space, first.key);
                return Err(StoreError::MergeConflict { count: open.count(), first });
            }
            engine.check_writable()?;
            if held.is_none() {
                engine.throttle()?;
            }
            let mut writer = match held.take() {
                Some(writer) => writer,
                None => engine.lock_writer(),
            };
            target.check_alive()?;
            check_rules(source, target, &options)?;
            let unchanged = source.is_still(engine, &trees.theirs)?
                && target.tree(engine.forest())?.same(trees.ours.tree());
            if !unchanged {
                continue;
            }
            // What is remembered of a merge is about a whole branch.
            let merged = match source {
                Source::Branch(source) if options.part.is_all() => Some(source),
                Source::Branch(_) | Source::Change { .. } => None,
            };
            match merged {
                Some(source) => {
                    writer.batch_mut().begin(|header| record::merge_header(header, source.id(), target.id()));
                }
                None => writer.begin_writes(target.id()),
            }
            {
                let tree = target.tree(engine.forest())?;
                let floor = tree.floor();
                let (forest, batch) = (engine.forest(), writer.batch_mut());
                let now = Now::default();
                plan.writes.append(&mut plan.records);
                let mut draft = Draft { forest, tree: &tree, floor, now, batch };
                trees
                    .theirs
                    .read(|theirs| write(&mut draft, theirs, plan.writes, &plan.trims, &plan.events))?;
            }
            let mut report = plan.report;
            let noted = merged.is_some() && (!report.conflicts.is_empty() || plan.agreed);
            if writer.batch().is_empty() && !noted {
                return Ok(report);
            }
            let version = if writer.batch().is_empty() {
                // Conflicts that were decided for ours, and what both sides agree about, leave nothing to write, but are decided.
                engine.log_empty(&mut writer)?
            } else {
                engine.apply_batch(&mut writer, target)?
            };
            if let Some(source) = merged {
                engine.note_merge(&writer, source.id(), target.id())?;
            }
            let logged = writer.version();
            drop(writer);
            engine.wait_durable(logged, engine.options().durability)?;
            report.version = Some(version);
            return Ok(report);
        }
        Err(StoreError::RetriesExhausted { attempts: ATTEMPTS })
    }
}

/// What is merged.
enum Source<'s> {
    Branch(std::sync::Arc<BranchState>),
    Change { before: &'s Snapshot, after: &'s Snapshot },
}

impl Source<'_> {
    /// Whether what is merged is still what it was.
    fn is_still(&self, engine: &Engine, then: &Snapshot) -> Result<bool, StoreError> {
        match self {
            Self::Branch(branch) => {
                branch.check_alive()?;
                Ok(branch.tree(engine.forest())?.same(then.tree()))
            }
            Self::Change { .. } => Ok(true),
        }
    }
}

/// Refuses to add where it is not remembered what was added.
fn check_rules(
    source: &Source<'_>,
    target: &BranchState,
    options: &MergeOptions<'_>,
) -> Result<(), StoreError> {
    if !options.rules.iter().any(|rule| rule.decision == Decision::Add) {
        return Ok(());
    }
    // A branch whose parent is gone was handed over: what it has in common with its new parent is not what it was forked from.
    let is_child = |child: &BranchState, parent: &BranchState| {
        let meta = child.meta();
        let is_own = meta.merge_base.is_some() || meta.base_mark == meta.fork_mark;
        meta.parent == Some(parent.id()) && is_own
    };
    let is_related = match source {
        Source::Branch(source) => is_child(source, target) || is_child(target, source),
        Source::Change { .. } => false,
    };
    let reason = if !options.part.is_all() {
        "`add` needs a merge of everything: what a partial merge added is not remembered"
    } else if !is_related {
        "`add` only works between a branch and the one it was forked from: what other merges added is not remembered"
    } else {
        return Ok(());
    };
    Err(StoreError::InvalidInput { what: "a rule", reason: reason.to_owned() })
}

fn write(
    edit: &mut Draft<'_>,
    theirs: &dyn View,
    writes: Vec<RawWrite>,
    trims: &[(String, u64)],
    events: &[(String, event::Event)],
) -> Result<(), StoreError> {
    blob::copy(edit, theirs, &writes)?;
    for (key, value) in writes {
        match value {
            Some(value) => edit.put(&key, &mut |out| out.extend_from_slice(&value))?,
            None => edit.delete(&key)?,
        }
    }
    for (space, before) in trims {
        event::trim(edit, space, *before)?;
    }
    for (space, event) in events {
        event::append_resequenced(edit, space, event)?;
    }
    Ok(())
}

/// What has to be written.
fn plan(
    engine: &Engine,
    trees: &Trees,
    origin: &Origin,
    options: &mut MergeOptions<'_>,
) -> Result<Plan, StoreError> {
    let mut plan = Plan::default();
    let mut logs: BTreeMap<String, Vec<RawWrite>> = BTreeMap::new();
    let mut collections = Collections::default();
    let (ours, theirs, base) = (trees.ours.tree(), trees.theirs.tree(), trees.base.tree());
    let mut failed = None;
    let mut ranges = options.part.ranges()?;
    if !options.part.is_all() {
        let records = conflict::ranges(&options.part)?;
        ranges.extend(records.into_iter().map(|(start, end)| (start.to_vec(), Some(end.to_vec()))));
    }
    for (start, end) in ranges {
        let range = KeyRange::new(&start, end.as_deref());
        ours.merge_items(engine.forest(), base, theirs, &range, |item| {
            let of_row = keys::split_conflict(item.key);
            let Some((primitive, space, rest)) = keys::split(of_row.unwrap_or(item.key)) else {
                return ControlFlow::Continue(());
            };
            if !options.part.has(rest) {
                return ControlFlow::Continue(());
            }
            if of_row.is_some() {
                keep::note(&item, &mut plan);
                return ControlFlow::Continue(());
            }
            let Some(item) = without_ended(item, primitive, &trees.ours) else {
                return ControlFlow::Continue(());
            };
            let theirs = || item.theirs.map(|entry| entry.value.to_vec());
            if primitive == Primitive::Vector {
                match collections.merges_by_row(engine, trees, (space, rest), options, &mut plan) {
                    Ok(true) => {}
                    Ok(false) => return ControlFlow::Continue(()),
                    Err(error) => {
                        failed = Some(error);
                        return ControlFlow::Break(());
                    }
                }
            }
            // Of two blobs, the numbers are never alike.
            let is_same_blob = || primitive == Primitive::Blob && blob::are_alike(item.ours, item.theirs);
            let is_equal =
                item.ours_is == OursIs::Equal || item.ours_is == OursIs::Different && is_same_blob();
            if is_equal && !options.is_conflict_if_equal(&item, primitive, space, rest) {
                plan.agreed = true;
                return ControlFlow::Continue(());
            }
            // A part of the keys of a log is no log.
            if primitive == Primitive::Event && options.part.prefix.is_some() {
                return ControlFlow::Continue(());
            }
            if primitive == Primitive::Event {
                logs.entry(space.to_owned()).or_default().push((item.key.to_vec(), theirs()));
                return ControlFlow::Continue(());
            }
            if item.ours_is == OursIs::Unchanged {
                plan.write(item.key.to_vec(), theirs());
                return ControlFlow::Continue(());
            }
            let decided = decide(&item, (primitive, space, rest), (trees, origin), options, &mut plan);
            match decided {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    failed = Some(error);
                    ControlFlow::Break(())
                }
            }
        })?;
    }
    if let Some(error) = failed {
        return Err(error);
    }
    for (space, changes) in logs {
        logs::merge(trees, &space, changes, options, &mut plan)?;
    }
    keep::carry(trees, &mut plan)?;
    Ok(plan)
}

impl Plan {
    fn write(&mut self, key: Vec<u8>, value: Option<Vec<u8>>) {
        match value {
            Some(_) => self.report.written += 1,
            None => self.report.deleted += 1,
        }
        self.writes.push((key, value));
    }
}

/// A key that is to be decided about, as if pairs whose time has passed had been deleted everywhere: that they were is no change that
/// anybody made. None if the source has not changed it otherwise.
fn without_ended<'i>(mut item: MergeItem<'i>, primitive: Primitive, now: &Snapshot) -> Option<MergeItem<'i>> {
    let ends = |entry: &Option<duramen_tree::Entry<'_>>| entry.and_then(|it| expiry::split(it.value).0);
    if primitive != Primitive::Kv
        || [&item.base, &item.ours, &item.theirs].iter().all(|it| ends(it).is_none())
    {
        return Some(item);
    }
    let has_ended = |entry: &Option<_>| ends(entry).is_some_and(|end| end <= now.now_ms());
    item.ours = item.ours.filter(|_| !has_ended(&item.ours));
    item.theirs = item.theirs.filter(|_| !has_ended(&item.theirs));
    // Where both sides have made it stay, what they had is still what they began with.
    if item.ours.is_none() || item.theirs.is_none() {
        item.base = item.base.filter(|_| !has_ended(&item.base));
    }
    let [base, ours, theirs] = [item.base, item.ours, item.theirs].map(|entry| entry.map(|it| it.value));
    if base == theirs {
        return None;
    }
    item.ours_is = match ours {
        _ if ours == base => OursIs::Unchanged,
        _ if ours == theirs => OursIs::Equal,
        _ => OursIs::Different,
    };
    Some(item)
}

/// Decides about a key that both sides changed.
fn decide(
    item: &MergeItem<'_>,
    (primitive, space, rest): (Primitive, &str, &[u8]),
    (trees, origin): (&Trees, &Origin),
    options: &mut MergeOptions<'_>,
    plan: &mut Plan,
) -> Result<(), StoreError> {
    let bytes = |entry: Option<duramen_tree::Entry<'_>>| entry.map(|entry| entry.value.to_vec());
    let mut paths = Vec::new();
    let differ = item.ours_is == OursIs::Different;
    if let (true, Primitive::Json, Some(ours), Some(theirs)) = (differ, primitive, item.ours, item.theirs) {
        match three_way(item.base.map(|entry| entry.value), ours.value, theirs.value)? {
            ThreeWay::Merged(merged) => {
                plan.write(item.key.to_vec(), Some(merged));
                return Ok(());
            }
            ThreeWay::Conflicts(places) => paths = places,
        }
    }
    let display =
        |entry: Option<duramen_tree::Entry<'_>>| entry.map(|entry| display_value(primitive, entry.value));
    let mut conflict = Conflict {
        primitive,
        space: space.to_owned(),
        key: display_key(primitive, rest).unwrap_or_else(|| rest.escape_ascii().to_string()),
        base: display(item.base),
        ours: display(item.ours),
        theirs: display(item.theirs),
        paths,
        resolved: true,
        kept: false,
        reason: None,
    };
    let version = |entry: Option<duramen_tree::Entry<'_>>| entry.map(|entry| entry.version);
    let versions = Versions { ours: version(item.ours), theirs: version(item.theirs) };
    // Of a row, the name of its collection and its key: that is what a prefix is of.
    let ruled = if primitive == Primitive::Vector { rest.get(1..).unwrap_or_default() } else { rest };
    match resolution(&conflict, (ruled, versions), options)? {
        Resolution::Ours => {}
        Resolution::Theirs => plan.write(item.key.to_vec(), bytes(item.theirs)),
        Resolution::Delete => plan.write(item.key.to_vec(), None),
        Resolution::Value(value) => {
            let value = encode(primitive, item.ours.map(|entry| entry.value), &value)?;
            plan.write(item.key.to_vec(), Some(value));
        }
        Resolution::Unresolved if options.strategy == Strategy::Keep => {
            conflict.reason = keep::keep(trees, origin, item, primitive, plan)?;
            conflict.kept = conflict.reason.is_none();
            conflict.resolved = conflict.kept;
        }
        Resolution::Unresolved => conflict.resolved = false,
    }
    plan.report.conflicts.push(conflict);
    Ok(())
}

/// What is done about a conflict, by the resolver, the rules, and the strategy. `rest` is the key in its space.
fn resolution(
    conflict: &Conflict,
    (rest, versions): (&[u8], Versions),
    options: &mut MergeOptions<'_>,
) -> Result<Resolution, StoreError> {
    let asked = options.resolver.as_mut().map_or(Resolution::Unresolved, |resolver| resolver(conflict));
    if asked != Resolution::Unresolved {
        return Ok(asked);
    }
    if let Some(rule) = rules::find(&options.rules, conflict.primitive, &conflict.space, rest) {
        let ruled = rule.decide(conflict, versions)?;
        if ruled != Resolution::Unresolved {
            return Ok(ruled);
        }
    }
    Ok(match options.strategy {
        // Who can keep it does.
        Strategy::Fail | Strategy::Keep => Resolution::Unresolved,
        Strategy::Ours => Resolution::Ours,
        Strategy::Theirs => Resolution::Theirs,
    })
}

/// The bytes of a value that a resolver chose.
pub(crate) fn encode(
    primitive: Primitive,
    ours: Option<&[u8]>,
    value: &serde_json::Value,
) -> Result<Vec<u8>, StoreError> {
    let mut bytes = Vec::new();
    match primitive {
        Primitive::Kv => {
            let value = Value::from_json(value)?;
            check_encoded(&value)?;
            // It lives as long as what it takes the place of.
            expiry::begin(ours.and_then(|ours| expiry::split(ours).0), &mut bytes);
            value.encode(&mut bytes);
        }
        Primitive::State => state::encode_next(ours, value, &mut bytes)?,
        Primitive::Json => bytes = Json::from_value(value)?.as_str().as_bytes().to_vec(),
        Primitive::Blob | Primitive::Event | Primitive::Vector | Primitive::Index => {
            let reason =
                format!("a resolver can choose ours, theirs or deletion for {primitive}, not a value");
            return Err(StoreError::InvalidInput { what: "a resolution", reason });
        }
    }
    Ok(bytes)
}

impl Engine {
    fn merge_trees(
        self: &std::sync::Arc<Self>,
        source: &Source<'_>,
        target: &BranchState,
    ) -> Result<Trees, StoreError> {
        let source = match source {
            Source::Branch(source) => source,
            Source::Change { before, after } => {
                let ours = Snapshot::take(self, target)?;
                return Ok(Trees { base: before.share(), ours, theirs: after.share() });
            }
        };
        let pin = self.pin();
        let base = self.merge_base(source, target)?;
        Ok(Trees {
            base: Snapshot::of_tree(self, pin, base),
            ours: Snapshot::take(self, target)?,
            theirs: Snapshot::take(self, source)?,
        })
    }

    /// What both branches had alike, as late as is known.
    fn merge_base(&self, a: &BranchState, b: &BranchState) -> Result<Tree, StoreError> {
        let registry = self.registry();
        for (child, parent) in [(a, b), (b, a)] {
            let mut meta = child.meta();
            if meta.parent == Some(parent.id()) {
                let meta = &mut *meta;
                let slot = meta.merge_base.as_mut().or(meta.base.as_mut());
                return slot.map_or_else(
                    || Ok(Tree::new(self.forest())),
                    |slot| Ok(slot.tree(self.forest())?.clone()),
                );
            }
        }
        let (up_a, up_b) = (registry.ancestry(a.id()), registry.ancestry(b.id()));
        let Some(common) = up_a.iter().find(|id| up_b.contains(id)) else {
            return Ok(Tree::new(self.forest()));
        };
        // On each side, the branch that was forked from the common ancestor; the earlier of both forks counts.
        let fork = |up: &[u64]| {
            let at = up.iter().position(|id| id == common)?;
            let child = registry.find(*up.get(at.checked_sub(1)?)?)?;
            let mut meta = child.meta();
            let mark = meta.base_mark;
            let tree = meta.base.as_mut().map(|slot| slot.tree(self.forest()).map(|tree| tree.clone()));
            Some((mark, tree?))
        };
        let earliest = [fork(&up_a), fork(&up_b)].into_iter().flatten().min_by_key(|(mark, _)| *mark);
        earliest.map_or_else(|| Ok(Tree::new(self.forest())), |(_, tree)| tree)
    }

    /// Remembers what source and target have alike from now on.
    pub(crate) fn note_merge(&self, _writer: &Writer, source: u64, target: u64) -> Result<(), StoreError> {
        let registry = self.registry();
        let (source, target) = (registry.get(source)?, registry.get(target)?);
        let alike: Slot = source.share();
        let mark = self.node_mark();
        let mut meta = source.meta();
        if meta.parent == Some(target.id()) {
            meta.merge_base = Some(alike);
            meta.origin_mark = mark;
            return Ok(());
        }
        drop(meta);
        let mut meta = target.meta();
        if meta.parent == Some(source.id()) {
            meta.merge_base = Some(alike);
            meta.parent_mark = mark;
        }
        Ok(())
    }
}
