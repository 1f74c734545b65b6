//! One model with everything in it: all kinds of data, in spaces, on branches that are forked, reset and merged, with conflicts that are kept and settled, with what is
//! retained of them, indexes, logs that are trimmed, transactions of both levels, a follower, and a store that is opened again.
//!
//! Every step is done to a store and to plain maps, and the two are compared. `model` has crashes and more of each kind
//! of access; this has what lies across the kinds. `DURAMEN_SEED` runs one seed, `DURAMEN_SOAK_STEPS` as many steps.

mod side;

use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use duramen_base::{clock, entropy};
use duramen_store::conflict::Settle;
use duramen_store::vector::Metric;
use duramen_store::{
    Branch, Decision, Durability, Follower, Keep, MergeOptions, Moment, Options, Part, Primitive, Rule,
    Scope, Snapshot, Store, StoreError, Strategy, Transaction,
};
use serde_json::{json, Value};

use side::{
    compare, document, id_of, index, shown_vector, EventLog, Kept, Place, Row, Side, COLLECTION, INDEX,
    SPACES,
};

const BRANCHES: [&str; 4] = ["main", "one", "two", "three"];
const TAGS: u64 = 4;
const STEPS_EACH: u64 = 1500;

/// A branch: what it holds, and what merges with the main branch compare with.
struct Twig {
    side: Side,
    base: Side,
    /// When each pair was written, by a count of all writes.
    stamps: BTreeMap<Place, u64>,
}

struct World {
    folder: tempfile::TempDir,
    options: Options,
    store: Option<Store>,
    follower: Follower,
    twigs: BTreeMap<&'static str, Twig>,
    writes: u64,
    /// What the main branch was after each of its commits, by the version of the store after that.
    past: BTreeMap<u64, Rc<Side>>,
    tags: BTreeMap<String, Rc<Side>>,
    keep: Option<u64>,
    snapshots: VecDeque<(Snapshot, Side)>,
    rng: fastrand::Rng,
    done: BTreeMap<&'static str, u64>,
}

type Outcome = Result<(), String>;

fn text(error: StoreError) -> String {
    error.to_string()
}

impl World {
    fn new(seed: u64) -> Result<Self, String> {
        let mut rng = entropy::rng(seed);
        let folder = tempfile::tempdir().unwrap();
        let options = Options {
            durability: [Durability::Memory, Durability::Buffered, Durability::Strict][rng.usize(..3)],
            memory_bytes: [1 << 15, 1 << 26][rng.usize(..2)],
            checkpoint_log_bytes: [1 << 14, 1 << 17, 1 << 30][rng.usize(..3)],
            segment_bytes: [1 << 12, 1 << 16][rng.usize(..2)],
            ..Options::default()
        };
        let store = Store::open(folder.path(), options.clone()).map_err(text)?;
        let main = store.branch("main").map_err(text)?;
        for space in SPACES {
            let space = main.space(space).map_err(text)?;
            space.vectors().create(COLLECTION, 2, Metric::Euclidean).map_err(text)?;
        }
        let follower = Follower::open(folder.path(), options.clone()).map_err(text)?;
        let twig = Twig { side: Side::default(), base: Side::default(), stamps: BTreeMap::new() };
        Ok(Self {
            folder,
            options,
            store: Some(store),
            follower,
            twigs: BTreeMap::from([("main", twig)]),
            writes: 0,
            past: BTreeMap::new(),
            tags: BTreeMap::new(),
            keep: None,
            snapshots: VecDeque::new(),
            rng,
            done: BTreeMap::new(),
        })
    }

    fn store(&self) -> &Store {
        self.store.as_ref().unwrap()
    }

    fn pick(&mut self) -> (&'static str, Branch) {
        let names: Vec<_> = self.twigs.keys().copied().collect();
        let name = if self.rng.bool() { "main" } else { names[self.rng.usize(..names.len())] };
        (name, self.store().branch(name).unwrap())
    }

    fn side(&mut self, name: &str) -> &mut Side {
        &mut self.twigs.get_mut(name).unwrap().side
    }

    /// Takes note of what the main branch has become.
    fn changed(&mut self, name: &str) {
        if name == "main" {
            let version = self.store().info().version;
            self.past.insert(version, Rc::new(self.twigs["main"].side.clone()));
        }
    }

    fn step(&mut self) -> Outcome {
        let (what, outcome) = match self.rng.u32(..210) {
            0..=89 => ("write", self.write()),
            90..=109 => ("transaction", self.transaction()),
            110..=117 => ("fork", self.fork()),
            118..=121 => ("delete", self.delete()),
            122..=124 => ("reset", self.reset()),
            125..=134 => ("merge of a part", self.merge_part()),
            135..=139 => ("merge of all", self.merge_all()),
            140..=144 => ("index", self.index()),
            145..=149 => ("trim", self.trim()),
            150..=152 => ("keep", self.keep()),
            153..=157 => ("tag", self.tag()),
            158..=160 => ("revert", self.revert()),
            161..=168 => ("look at the past", self.look_back()),
            169..=174 => ("snapshot", self.snapshot()),
            175..=180 => ("follow", self.follow()),
            181..=184 => ("checkpoint", self.store().checkpoint().map_err(text)),
            185..=186 => ("compact", self.store().compact().map_err(text)),
            187..=188 => ("open again", self.reopen()),
            189..=194 => ("settle", self.settle()),
            _ => ("compare", self.compare_one()),
        };
        *self.done.entry(what).or_default() += 1;
        outcome.map_err(|reason| format!("{what}: {reason}"))
    }

    fn write(&mut self) -> Outcome {
        let (name, branch) = self.pick();
        let twig = self.twigs.get_mut(name).unwrap();
        let written = change(&branch, &mut twig.side, &mut twig.stamps, &mut self.writes, &mut self.rng);
        written.map_err(text)?;
        self.changed(name);
        Ok(())
    }

    /// Several writes that are seen by itself, and then by all or by nobody.
    fn transaction(&mut self) -> Outcome {
        let (name, branch) = self.pick();
        let is_serialisable = self.rng.bool();
        let begun = if is_serialisable { branch.begin_serialisable() } else { branch.begin() };
        let tx: Transaction = begun.map_err(text)?;
        let twig = &self.twigs[name];
        let (mut side, mut stamps) = (twig.side.clone(), twig.stamps.clone());
        for _ in 0..self.rng.usize(1..8) {
            change(&tx, &mut side, &mut stamps, &mut self.writes, &mut self.rng).map_err(text)?;
        }
        compare(&tx, &side, &mut self.rng)?;
        compare(&branch, &twig.side, &mut self.rng)?;
        if self.rng.u32(..4) == 0 {
            return Ok(());
        }
        tx.commit().map_err(text)?;
        let twig = self.twigs.get_mut(name).unwrap();
        (twig.side, twig.stamps) = (side, stamps);
        self.changed(name);
        Ok(())
    }

    fn fork(&mut self) -> Outcome {
        let name = BRANCHES[self.rng.usize(1..BRANCHES.len())];
        let forked = self.store().fork("main", name);
        if self.twigs.contains_key(name) {
            return match forked {
                Err(StoreError::BranchExists { .. }) => Ok(()),
                other => Err(format!("{other:?}")),
            };
        }
        forked.map_err(text)?;
        let Twig { side, stamps, .. } = &self.twigs["main"];
        let twig = Twig { side: side.clone(), base: side.clone(), stamps: stamps.clone() };
        self.twigs.insert(name, twig);
        Ok(())
    }

    /// A branch that is not the main one, if there is any.
    fn other(&mut self) -> Option<&'static str> {
        let names: Vec<_> = self.twigs.keys().copied().filter(|name| *name != "main").collect();
        (!names.is_empty()).then(|| names[self.rng.usize(..names.len())])
    }

    fn delete(&mut self) -> Outcome {
        let Some(name) = self.other() else { return Ok(()) };
        self.twigs.remove(name);
        self.store().delete_branch(name).map_err(text)
    }

    fn reset(&mut self) -> Outcome {
        let Some(name) = self.other() else { return Ok(()) };
        self.store().reset_branch(name).map_err(text)?;
        let Twig { side, stamps, .. } = &self.twigs["main"];
        let twig = Twig { side: side.clone(), base: side.clone(), stamps: stamps.clone() };
        self.twigs.insert(name, twig);
        Ok(())
    }

    /// Pairs or vectors, of a space or of all, with rules.
    fn merge_part(&mut self) -> Outcome {
        let Some(other) = self.other() else { return Ok(()) };
        let (source, target) = if self.rng.bool() { (other, "main") } else { ("main", other) };
        let of_pairs = self.rng.u32(..3) > 0;
        let primitive = if of_pairs { Primitive::Kv } else { Primitive::Vector };
        let space = self.rng.bool().then(|| self.rng.usize(..SPACES.len()));
        let space_name = space.map(|space| SPACES[space].to_owned());
        let part = Part { primitive: Some(primitive), space: space_name, prefix: None };
        let strategies = [Strategy::Fail, Strategy::Ours, Strategy::Theirs, Strategy::Keep];
        let strategy = strategies[self.rng.usize(..4)];
        let rule = (of_pairs && self.rng.bool()).then(|| {
            let decision = [Decision::Ours, Decision::Theirs, Decision::Latest][self.rng.usize(..3)];
            ("k1", decision)
        });
        let rules = rule.map(|(prefix, decision)| Rule {
            part: Part { prefix: Some(prefix.to_owned()), ..Part::default() },
            decision,
        });
        let options =
            MergeOptions { part, strategy, rules: rules.into_iter().collect(), ..MergeOptions::default() };
        let merged = self.store().merge(source, target, options);
        let (base, stamp) = (&self.twigs[other].base, self.writes + 1);
        let (from, into) = (&self.twigs[source], &self.twigs[target]);
        let decide = |key: &Place| {
            let rule = rule.filter(|(prefix, _)| key.1.starts_with(prefix)).map(|(_, decision)| decision);
            match (rule, strategy) {
                (Some(Decision::Ours), _) => Some(false),
                (Some(Decision::Theirs), _) => Some(true),
                (Some(Decision::Latest), _) => Some(from.stamps.get(key) > into.stamps.get(key)),
                (_, Strategy::Ours) => Some(false),
                (_, Strategy::Theirs) => Some(true),
                _ => None,
            }
        };
        let mut side = into.side.clone();
        let mut keeper = Keeper::new(strategy, of_pairs, &into.side, stamp);
        let changed = if of_pairs {
            let keep = |key: &Place, sides: Sides<'_, i64>| {
                keeper.keep(key, sides.map(|side| side.map(|n| json!(n))))
            };
            three_ways(&base.pairs, &mut side.pairs, &from.side.pairs, space, (decide, keep))
        } else {
            let keep = |key: &Place, sides: Sides<'_, [f32; 2]>| {
                keeper.keep(key, sides.map(|side| side.map(shown_vector)))
            };
            three_ways(&base.vectors, &mut side.vectors, &from.side.vectors, space, (decide, keep))
        };
        let new = keeper.new;
        let changed = match (changed, merged) {
            (Err(right), Err(StoreError::MergeConflict { count, .. })) if right == count => return Ok(()),
            (Ok(changed), Ok(report)) => {
                let is_meant = |row: &Row| row.0 == of_pairs && space.is_none_or(|space| space == row.1 .0);
                let kept = new.len() as u64;
                let carried = carry(base, &mut side, &from.side, new, is_meant);
                let count = (report.written + report.deleted) as usize;
                if (count, report.kept, report.carried) != (changed.len(), kept, carried) {
                    return Err(format!("{source} into {target}: {report:?}, and should change {changed:?}"));
                }
                changed
            }
            (right, merged) => return Err(format!("{source} into {target}: {merged:?}, not {right:?}")),
        };
        self.writes += 1;
        let twig = self.twigs.get_mut(target).unwrap();
        twig.side = side;
        if of_pairs {
            restamp(&mut twig.stamps, &twig.side.pairs, &changed, self.writes);
        }
        self.changed(target);
        Ok(())
    }

    /// Everything, where only the source changed more than pairs and vectors.
    fn merge_all(&mut self) -> Outcome {
        let Some(other) = self.other() else { return Ok(()) };
        let (source, target) = if self.rng.bool() { (other, "main") } else { ("main", other) };
        let strategy = if self.rng.bool() { Strategy::Theirs } else { Strategy::Keep };
        let (base, from, into) = (&self.twigs[other].base, &self.twigs[source], &self.twigs[target]);
        let rest = |side: &Side| {
            let (pairs, vectors, kept) = Default::default();
            Side { pairs, vectors, kept, ..side.clone() }
        };
        if rest(base) != rest(&into.side) {
            return Ok(());
        }
        let Side { pairs, vectors, kept, .. } = into.side.clone();
        let mut side = Side { pairs, vectors, kept, ..rest(&from.side) };
        let decide = |_: &Place| (strategy == Strategy::Theirs).then_some(true);
        let mut pairs = Keeper::new(strategy, true, &into.side, self.writes + 1);
        let keep =
            |key: &Place, sides: Sides<'_, i64>| pairs.keep(key, sides.map(|side| side.map(|n| json!(n))));
        let changed = three_ways(&base.pairs, &mut side.pairs, &from.side.pairs, None, (decide, keep));
        let mut vectors = Keeper::new(strategy, false, &into.side, self.writes + 1);
        let keep = |key: &Place, sides: Sides<'_, [f32; 2]>| {
            vectors.keep(key, sides.map(|side| side.map(shown_vector)))
        };
        let others = three_ways(&base.vectors, &mut side.vectors, &from.side.vectors, None, (decide, keep));
        let mut new = pairs.new;
        new.extend(vectors.new);
        let options = MergeOptions { strategy, ..MergeOptions::default() };
        let merged = self.store().merge(source, target, options);
        let (changed, report) = match (changed, others, merged) {
            (Ok(changed), Ok(_), Ok(report)) => (changed, report),
            (changed, others, Err(StoreError::MergeConflict { count, .. }))
                if changed.as_ref().err().unwrap_or(&0) + others.as_ref().err().unwrap_or(&0) == count =>
            {
                return Ok(());
            }
            (.., merged) => return Err(format!("{source} into {target}: {merged:?}")),
        };
        let kept = new.len() as u64;
        let carried = carry(base, &mut side, &from.side, new, |_| true);
        if (report.kept, report.carried) != (kept, carried) {
            return Err(format!(
                "{source} into {target}: {report:?}, and should keep {kept}, carry {carried}"
            ));
        }
        let base = from.side.clone();
        self.writes += 1;
        let twig = self.twigs.get_mut(target).unwrap();
        twig.side = side;
        restamp(&mut twig.stamps, &twig.side.pairs, &changed, self.writes);
        self.twigs.get_mut(other).unwrap().base = base;
        self.changed(target);
        let branch = self.store().branch(target).map_err(text)?;
        compare(&branch, &self.twigs[target].side, &mut self.rng)
    }

    /// One conflict that was kept, or all of them.
    fn settle(&mut self) -> Outcome {
        let (name, branch) = self.pick();
        let side = self.twigs[name].side.clone();
        if self.rng.u32(..6) == 0 {
            let done = branch.conflicts().resolve_with(&Part::default(), &mut |_| Some(Settle::Theirs));
            let done = done.map_err(text)?;
            if (done.settled, done.open) != (side.kept.len() as u64, 0) {
                return Err(format!("{done:?}, not {}", side.kept.len()));
            }
            side.kept.into_iter().for_each(|(row, kept)| self.settled(name, &row, kept.sides[2].clone()));
            self.changed(name);
            return compare(&branch, &self.twigs[name].side, &mut self.rng);
        }
        let Some((row, kept)) = side.kept.iter().nth(self.rng.usize(..side.kept.len().max(1))) else {
            return Ok(());
        };
        let now = side.shown(row);
        let [base, ours, theirs] = kept.sides.clone();
        let is_changed = now != ours;
        let choices = [
            (Settle::Base, base),
            (Settle::Ours, ours),
            (Settle::Theirs, theirs),
            (Settle::Now, now),
            (Settle::Delete, None),
            (Settle::Value(json!(77)), Some(json!(77))),
        ];
        let (settle, value) = choices[self.rng.usize(..if row.0 { 6 } else { 5 })].clone();
        let is_refused = is_changed && settle != Settle::Now && self.rng.bool();
        let done = match is_refused {
            true => branch.conflicts().resolve(&id_of(row), settle),
            false => branch.conflicts().resolve_if_changed(&id_of(row), settle),
        };
        match (is_refused, done) {
            (true, Err(StoreError::ConflictChanged { .. })) => return Ok(()),
            (false, Ok(_)) => self.settled(name, row, value),
            (_, other) => return Err(format!("{row:?}: {other:?}")),
        }
        self.changed(name);
        compare(&branch, &self.twigs[name].side, &mut self.rng)
    }

    fn settled(&mut self, name: &str, row: &Row, value: Option<Value>) {
        self.writes += 1;
        let (now, writes) = (self.writes, self.twigs[name].side.shown(row));
        let twig = self.twigs.get_mut(name).unwrap();
        twig.side.kept.remove(row);
        if writes == value {
            return;
        }
        let (is_pair, place) = row;
        match (is_pair, value) {
            (true, Some(value)) => drop(twig.side.pairs.insert(place.clone(), value.as_i64().unwrap())),
            (true, None) => drop(twig.side.pairs.remove(place)),
            (false, Some(value)) => {
                let vector: [f32; 2] = serde_json::from_value(value["vector"].clone()).unwrap();
                twig.side.vectors.insert(place.clone(), vector);
            }
            (false, None) => drop(twig.side.vectors.remove(place)),
        }
        if *is_pair {
            restamp(&mut twig.stamps, &twig.side.pairs, std::slice::from_ref(place), now);
        }
    }

    fn index(&mut self) -> Outcome {
        let (name, branch) = self.pick();
        let number = self.rng.usize(..SPACES.len());
        let space = branch.space(SPACES[number]).map_err(text)?;
        let is_there = self.side(name).is_indexed[number];
        let done =
            if is_there { space.indexes().drop(INDEX) } else { space.indexes().create(INDEX, &index()) };
        if !done.map_err(text)? {
            return Err("nothing was done".to_owned());
        }
        self.side(name).is_indexed[number] = !is_there;
        self.changed(name);
        Ok(())
    }

    fn trim(&mut self) -> Outcome {
        let (name, branch) = self.pick();
        let number = self.rng.usize(..SPACES.len());
        let EventLog { first, items } = self.side(name).logs[number].clone();
        // The last one stays, whatever is asked for.
        let before = first + self.rng.u64(..=items.len() as u64);
        let gone = (before - first).min((items.len() as u64).saturating_sub(1));
        let space = branch.space(SPACES[number]).map_err(text)?;
        let told = space.events().trim(before).map_err(text)?;
        if told != gone {
            return Err(format!("{told} events were trimmed, not {gone}"));
        }
        let log = &mut self.side(name).logs[number];
        log.first += gone;
        log.items.drain(..gone as usize);
        self.changed(name);
        Ok(())
    }

    fn keep(&mut self) -> Outcome {
        self.keep = [None, Some(4), Some(12)][self.rng.usize(..3)];
        let keep = self.keep.map(|versions| Keep::each_commit().versions(versions));
        self.store().keep_history("main", keep).map_err(text)?;
        self.changed("main");
        Ok(())
    }

    fn tag(&mut self) -> Outcome {
        let tag = format!("tag-{}", self.rng.u64(..TAGS));
        if self.tags.remove(&tag).is_some() {
            return self.store().delete_tag("main", &tag).map_err(text);
        }
        self.store().tag("main", &tag).map_err(text)?;
        self.tags.insert(tag, Rc::new(self.twigs["main"].side.clone()));
        self.changed("main");
        Ok(())
    }

    fn any_tag(&mut self) -> Option<(Moment, Rc<Side>)> {
        let at = self.rng.usize(..self.tags.len().max(1));
        self.tags.iter().nth(at).map(|(tag, side)| (Moment::Tag(tag.clone()), side.clone()))
    }

    fn revert(&mut self) -> Outcome {
        let Some((moment, then)) = self.any_tag() else { return Ok(()) };
        let main = self.store().branch("main").map_err(text)?;
        main.revert_to(&moment).map_err(text)?;
        self.writes += 1;
        let twig = self.twigs.get_mut("main").unwrap();
        let keys = twig.side.pairs.keys().chain(then.pairs.keys());
        let changed: Vec<Place> =
            keys.filter(|key| twig.side.pairs.get(*key) != then.pairs.get(*key)).cloned().collect();
        twig.side = (*then).clone();
        restamp(&mut twig.stamps, &twig.side.pairs, &changed, self.writes);
        self.changed("main");
        compare(&main, &self.twigs["main"].side, &mut self.rng)
    }

    /// What is retained is what was.
    fn look_back(&mut self) -> Outcome {
        let main = self.store().branch("main").map_err(text)?;
        if let Some((moment, then)) = self.any_tag() {
            compare(&main.at(&moment).map_err(text)?, &then, &mut self.rng)?;
        }
        let states = main.history().map_err(text)?.states;
        let free = states.iter().filter(|state| state.tags.is_empty()).count() as u64;
        // One whose tag went counts, and goes, at the next commit.
        let most = self.keep.map_or(0, |versions| versions + versions / 8 + TAGS);
        if free > most {
            return Err(format!("{free} states are retained, and at most {most} should be"));
        }
        let tagged: usize = states.iter().map(|state| state.tags.len()).sum();
        if tagged != self.tags.len() {
            return Err(format!("{tagged} tags, not {}", self.tags.len()));
        }
        if states.is_empty() {
            return Ok(());
        }
        let state = &states[self.rng.usize(..states.len())];
        let (_, then) = self.past.range(state.version..).next().ok_or("a state of the future")?;
        let seen = main.at(&Moment::Version(state.version)).map_err(text)?;
        compare(&seen, then, &mut self.rng).map_err(|reason| format!("version {}: {reason}", state.version))
    }

    /// Takes one, or looks at the one that was taken first.
    fn snapshot(&mut self) -> Outcome {
        if self.snapshots.len() == 4 {
            let (snapshot, side) = self.snapshots.pop_front().unwrap();
            return compare(&snapshot, &side, &mut self.rng);
        }
        let (name, branch) = self.pick();
        let snapshot = branch.snapshot().map_err(text)?;
        let side = self.side(name).clone();
        self.snapshots.push_back((snapshot, side));
        Ok(())
    }

    /// A follower sees everything that the operating system has.
    fn follow(&mut self) -> Outcome {
        self.store().sync().map_err(text)?;
        let version = self.store().info().version;
        let seen = self.follower.wait(version - 1, Duration::from_secs(20)).map_err(text)?;
        let seen = seen.ok_or("it stays behind")?;
        let mut names: Vec<_> =
            seen.branches(false).map_err(text)?.into_iter().map(|info| info.name).collect();
        names.sort_unstable();
        let mut right: Vec<_> = self.twigs.keys().map(|name| (*name).to_owned()).collect();
        right.sort_unstable();
        if names != right {
            return Err(format!("it sees the branches {names:?}, not {right:?}"));
        }
        let (name, _) = self.pick();
        compare(&seen.branch(name).map_err(text)?, &self.twigs[name].side, &mut self.rng)
    }

    fn reopen(&mut self) -> Outcome {
        self.snapshots.clear();
        if self.rng.bool() {
            self.store().close().map_err(text)?;
        }
        let version = self.store().info().version;
        self.store = None;
        self.store = Some(Store::open(self.folder.path(), self.options.clone()).map_err(text)?);
        if self.store().info().version < version {
            return Err(format!("version {} of {version} is there", self.store().info().version));
        }
        self.compare_all()
    }

    fn compare_one(&mut self) -> Outcome {
        let (name, branch) = self.pick();
        compare(&branch, &self.twigs[name].side, &mut self.rng).map_err(|reason| format!("{name}: {reason}"))
    }

    fn compare_all(&mut self) -> Outcome {
        for (name, twig) in &self.twigs {
            let branch = self.store().branch(name).map_err(text)?;
            compare(&branch, &twig.side, &mut self.rng.clone())
                .map_err(|reason| format!("{name}: {reason}"))?;
        }
        Ok(())
    }

    fn end(mut self) -> Result<BTreeMap<&'static str, u64>, String> {
        self.compare_all()?;
        let verified = self.store().verify(&mut |_| {}).map_err(text)?;
        if !verified.is_whole() {
            return Err(format!("{verified:?}"));
        }
        self.reopen()?;
        Ok(self.done)
    }
}

fn restamp(stamps: &mut BTreeMap<Place, u64>, pairs: &BTreeMap<Place, i64>, changed: &[Place], now: u64) {
    for key in changed {
        if pairs.contains_key(key) {
            stamps.insert(key.clone(), now);
        } else {
            stamps.remove(key);
        }
    }
}

/// Base, ours and theirs of a key.
type Sides<'s, V> = [Option<&'s V>; 3];

/// Conflicts that a merge keeps, over those that are open.
struct Keeper<'s> {
    strategy: Strategy,
    is_pair: bool,
    open: &'s BTreeMap<Row, Kept>,
    stamp: u64,
    new: BTreeMap<Row, Kept>,
}

impl<'s> Keeper<'s> {
    fn new(strategy: Strategy, is_pair: bool, into: &'s Side, stamp: u64) -> Self {
        Self { strategy, is_pair, open: &into.kept, stamp, new: BTreeMap::new() }
    }

    /// Whether a conflict is kept: not over one with something else.
    fn keep(&mut self, key: &Place, mut sides: [Option<Value>; 3]) -> bool {
        if self.strategy != Strategy::Keep {
            return false;
        }
        let row = (self.is_pair, key.clone());
        if let Some(open) = self.open.get(&row) {
            if open.sides[2] != sides[2] && open.sides[2] != sides[0] {
                return false;
            }
            sides[0] = open.sides[0].clone();
        }
        self.new.insert(row, Kept { sides, stamp: self.stamp });
        true
    }
}

/// What a merge does to the open conflicts, of which `ours` still has those of before, and its rows as they became. Returns how many
/// went over.
fn carry(
    base: &Side,
    ours: &mut Side,
    theirs: &Side,
    new: BTreeMap<Row, Kept>,
    is_meant: impl Fn(&Row) -> bool,
) -> u64 {
    let rows: std::collections::BTreeSet<Row> =
        base.kept.keys().chain(theirs.kept.keys()).filter(|row| is_meant(row)).cloned().collect();
    let mut count = 0;
    for row in rows {
        let (was, mine, other) = (base.kept.get(&row), ours.kept.get(&row), theirs.kept.get(&row));
        if other == was || mine != was || new.contains_key(&row) {
            continue;
        }
        let is_settled = other.is_none() && base.shown(&row) == theirs.shown(&row);
        if ours.shown(&row) == theirs.shown(&row) || is_settled {
            count += 1;
            match other.cloned() {
                Some(other) => drop(ours.kept.insert(row, other)),
                None => drop(ours.kept.remove(&row)),
            }
        }
    }
    ours.kept.extend(new);
    count
}

/// What a merge does to `ours`: the keys that it changes, or how many conflicts there are. `decide` says of one whether
/// `theirs` wins, and `keep` of one that it does not decide whether it is kept.
fn three_ways<V: Clone + PartialEq>(
    base: &BTreeMap<Place, V>,
    ours: &mut BTreeMap<Place, V>,
    theirs: &BTreeMap<Place, V>,
    space: Option<usize>,
    (decide, mut keep): (impl Fn(&Place) -> Option<bool>, impl FnMut(&Place, Sides<'_, V>) -> bool),
) -> Result<Vec<Place>, usize> {
    let keys = base.keys().chain(theirs.keys()).filter(|key| space.is_none_or(|space| space == key.0));
    let keys: std::collections::BTreeSet<Place> = keys.cloned().collect();
    let (mut changes, mut conflicts) = (Vec::new(), 0);
    for key in keys {
        let (was, mine, other) = (base.get(&key), ours.get(&key), theirs.get(&key));
        if other == was || other == mine {
            continue;
        }
        match if mine == was { Some(true) } else { decide(&key) } {
            Some(true) => changes.push((key, other.cloned())),
            Some(false) => {}
            None if keep(&key, [was, mine, other]) => {}
            None => conflicts += 1,
        }
    }
    if conflicts > 0 {
        return Err(conflicts);
    }
    for (key, value) in &changes {
        match value {
            Some(value) => drop(ours.insert(key.clone(), value.clone())),
            None => drop(ours.remove(key)),
        }
    }
    Ok(changes.into_iter().map(|(key, _)| key).collect())
}

/// One write of any kind.
fn change<S: Scope>(
    scope: &S,
    side: &mut Side,
    stamps: &mut BTreeMap<Place, u64>,
    writes: &mut u64,
    rng: &mut fastrand::Rng,
) -> Result<(), StoreError> {
    let number = rng.usize(..SPACES.len());
    let space = scope.space(SPACES[number])?;
    let key = format!("k{}", rng.u32(..24));
    let place = (number, key.clone());
    *writes += 1;
    let value = rng.i64(0..6);
    match rng.u32(..20) {
        0..=4 => {
            space.kv().put(&key, value)?;
            side.pairs.insert(place.clone(), value);
            stamps.insert(place, *writes);
        }
        5..=6 => {
            assert_eq!(space.kv().delete(&key)?, side.pairs.remove(&place).is_some());
            stamps.remove(&place);
        }
        7 => {
            let now = side.pairs.entry(place.clone()).or_default();
            *now += value;
            assert_eq!(space.kv().add(&key, value)?, *now);
            stamps.insert(place, *writes);
        }
        8..=9 => {
            space.state().set(&key, value)?;
            side.cells.insert(place, value);
        }
        10 => assert_eq!(space.state().delete(&key)?, side.cells.remove(&place).is_some()),
        11..=12 => {
            let len = [3, 40, 900][rng.usize(..3)];
            space.json().set(&key, "", document(value, len))?;
            side.documents.insert(place, (value, len));
        }
        13 => {
            if let Some((n, _)) = side.documents.get_mut(&place) {
                space.json().set(&key, "n", json!(value))?;
                *n = value;
            }
        }
        14 => assert_eq!(space.json().delete(&key, "")?, side.documents.remove(&place).is_some()),
        15..=16 => {
            let log = &mut side.logs[number];
            let seq = space.events().append("made", json!({ "n": value }))?;
            assert_eq!(seq, log.first + log.items.len() as u64);
            log.items.push(value);
        }
        17..=18 => {
            let vector = [rng.f32(), rng.f32()];
            space.vectors().collection(COLLECTION).upsert(&key, &vector, None)?;
            side.vectors.insert(place, vector);
        }
        _ => {
            let points = space.vectors().collection(COLLECTION);
            assert_eq!(points.delete(&key)?, side.vectors.remove(&place).is_some());
        }
    }
    Ok(())
}

fn run(steps: u64, time: Duration) {
    let first = entropy::seed();
    println!("DURAMEN_SEED={first}");
    let begin = clock::now();
    let (mut all, mut count) = (BTreeMap::new(), 0);
    for seed in first.. {
        let fail = |step: u64, reason: String| -> ! { panic!("DURAMEN_SEED={seed}, step {step}: {reason}") };
        let mut world = World::new(seed).unwrap_or_else(|reason| fail(0, reason));
        for step in 1..=STEPS_EACH {
            world.step().unwrap_or_else(|reason| fail(step, reason));
        }
        count += STEPS_EACH;
        for (what, times) in world.end().unwrap_or_else(|reason| fail(STEPS_EACH, reason)) {
            *all.entry(what).or_insert(0) += times;
        }
        if count >= steps || begin.elapsed() > time {
            break;
        }
    }
    println!("{:?}: {count} steps, {all:?}", begin.elapsed());
    assert!(count >= 3000, "{count} steps");
    assert_eq!(all.len(), 20, "each kind of step was done: {all:?}");
}

#[test]
fn a_store_with_everything_is_what_its_maps_are() {
    run(30_000, Duration::from_secs(12));
}

/// `DURAMEN_SOAK_STEPS=1000000 cargo test --release -p duramen-store --test it -- --nocapture everything::soak`
#[test]
fn soak() {
    match std::env::var("DURAMEN_SOAK_STEPS") {
        Ok(steps) => run(steps.parse().expect("DURAMEN_SOAK_STEPS is a number"), Duration::MAX),
        Err(_) => println!("DURAMEN_SOAK_STEPS is not set: nothing to do"),
    }
}
