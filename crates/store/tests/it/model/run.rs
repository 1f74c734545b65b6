//! Does a plan to a store and to the model of one, and compares them.

use std::collections::VecDeque;
use std::rc::Rc;

use duramen_store::{Branch, Durability, Scope, Snapshot, Store, StoreError, Transaction};

use super::check;
use super::device::{level, Crash, Ground};
use super::plan::{self, document, event, value, Kind, Plan, Step, BRANCHES, SLOTS, SPACES};
use super::shadow::{next_event, writes_of, Data, Effect, Entry, Place, Shadow, NO_LARGE};
use crate::crash_nodes::CrashScript;

/// Why a step was not done.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The store is not what it should be.
    Wrong(String),
    /// The machine stopped.
    Stopped,
}

pub(crate) fn wrong<T>(text: impl Into<String>) -> Result<T, Failure> {
    Err(Failure::Wrong(text.into()))
}

/// A transaction, what its branch held when it began, and what it wrote.
struct Work {
    transaction: Transaction,
    branch: u64,
    level: Durability,
    then: Rc<Data>,
    writes: Vec<(Place, Option<Entry>)>,
}

impl Work {
    fn get(&self, place: Place) -> Option<Entry> {
        let written = self.writes.iter().rev().find(|(at, _)| *at == place);
        written.map_or_else(|| self.then.get(&place).copied(), |(_, entry)| *entry)
    }

    /// What the transaction sees.
    fn view(&self) -> Data {
        let mut view = (*self.then).clone();
        for (place, entry) in &self.writes {
            match entry {
                Some(entry) => drop(view.insert(*place, *entry)),
                None => drop(view.remove(place)),
            }
        }
        view
    }
}

/// What a run did.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) steps: u64,
    pub(crate) commits: u64,
    pub(crate) conflicts: u64,
    pub(crate) crashes: u64,
    pub(crate) lost: u64,
    pub(crate) checkpoints: u64,
    /// Writes and syncs of the machine until its first crash.
    pub(crate) device_steps: u64,
}

pub(crate) struct Runner {
    plan: Plan,
    keys: Vec<String>,
    ground: Ground,
    store: Option<Store>,
    /// What the store holds.
    shadow: Shadow,
    /// What it held at a moment that cannot be lost any more.
    base: Shadow,
    base_version: u64,
    /// What came after that moment: the version of each commit, and what it did.
    commits: VecDeque<(u64, Vec<Effect>)>,
    version: u64,
    /// Versions up to these are not lost in a power cut, and when the process is killed.
    strict: u64,
    buffered: u64,
    works: [Option<Work>; SLOTS],
    snapshots: [Option<(Snapshot, Rc<Data>)>; SLOTS],
    crash: Crash,
    seed: u64,
    pub(crate) tally: Tally,
}

/// Does a whole plan.
pub(crate) fn run(plan: &Plan, stop_at: Option<(u64, Crash)>) -> Result<Tally, String> {
    let mut runner = Runner::start(plan, stop_at)?;
    for (index, step) in plan.steps.iter().enumerate() {
        runner.step(step).map_err(|text| format!("step {index} ({}): {text}", step.name()))?;
    }
    runner.finish()
}

impl Runner {
    pub(crate) fn start(plan: &Plan, stop_at: Option<(u64, Crash)>) -> Result<Self, String> {
        let script = match stop_at {
            Some((step, _)) => CrashScript::stopping_at(plan.seed, step),
            None => CrashScript::new(plan.seed),
        };
        let mut runner = Self {
            keys: plan::keys(plan.keys),
            ground: Ground::new(plan, script),
            store: None,
            shadow: Shadow::default(),
            base: Shadow::default(),
            base_version: 0,
            commits: VecDeque::new(),
            version: 0,
            strict: 0,
            buffered: 0,
            works: Default::default(),
            snapshots: Default::default(),
            crash: stop_at.map_or(Crash::PowerCut, |(_, crash)| crash),
            seed: plan.seed,
            tally: Tally::default(),
            plan: Plan { steps: Vec::new(), ..plan.clone() },
        };
        match runner.ground.open(&runner.plan) {
            Ok(store) => runner.store = Some(store),
            Err(_) if runner.ground.is_stopped() => runner.recover(0)?,
            Err(error) => return Err(format!("a new store cannot be made: {error}")),
        }
        Ok(runner)
    }

    /// Does one step. A machine that stops in it is started again.
    pub(crate) fn step(&mut self, step: &Step) -> Result<(), String> {
        self.tally.steps += 1;
        match self.try_step(step) {
            Ok(()) => Ok(()),
            Err(Failure::Wrong(text)) => Err(text),
            Err(Failure::Stopped) => self.recover(0),
        }
    }

    pub(crate) fn finish(mut self) -> Result<Tally, String> {
        for kind in [Kind::Verify, Kind::Compact, Kind::Reopen, Kind::Verify] {
            self.step(&Step { kind, n: [0; 6] }).map_err(|text| format!("at the end: {text}"))?;
        }
        Ok(self.tally)
    }

    fn store(&self) -> &Store {
        self.store.as_ref().expect("a store is open between steps")
    }

    /// What an error means that should not be.
    fn failure(&self, error: &StoreError) -> Failure {
        if self.ground.is_stopped() {
            return Failure::Stopped;
        }
        Failure::Wrong(format!("unexpected error: {error}"))
    }

    fn ok<T>(&self, result: Result<T, StoreError>) -> Result<T, Failure> {
        result.map_err(|error| self.failure(&error))
    }

    /// A result that must be an error of the kind that `is_right` knows.
    fn refused<T>(
        &self,
        result: Result<T, StoreError>,
        is_right: impl FnOnce(&StoreError) -> bool,
    ) -> Result<(), Failure> {
        match result {
            Ok(_) => wrong("it was done and should have been refused"),
            Err(error) if is_right(&error) => Ok(()),
            Err(error) => Err(self.failure(&error)),
        }
    }

    /// The branch of a name: its number in the model and its handle. None if neither has it.
    fn branch(&self, name: u32) -> Result<Option<(u64, Branch)>, Failure> {
        let name = name as usize % BRANCHES.len();
        let found = self.store().branch(BRANCHES[name]);
        match self.shadow.find(name) {
            Some(id) => Ok(Some((id, self.ok(found)?))),
            None => {
                self.refused(found, |error| matches!(error, StoreError::BranchNotFound { .. }))?;
                Ok(None)
            }
        }
    }

    fn place(&self, kind: u8, space: u32, key: u32) -> Place {
        (kind, (space as usize % SPACES.len()) as u8, (key as usize % self.keys.len()) as u32)
    }

    fn key(&self, place: Place) -> &str {
        &self.keys[place.2 as usize]
    }

    /// Takes note of a commit of `ops` operations. `result` gives its version, if it is told.
    fn committed(
        &mut self,
        level: Durability,
        ops: u64,
        effects: Vec<Effect>,
        result: Result<Option<u64>, StoreError>,
    ) -> Result<(), Failure> {
        let version = self.version + ops;
        match result {
            Ok(told) => {
                let now = self.store().info().version;
                if now != version || told.is_some_and(|told| told != version) {
                    return wrong(format!(
                        "the commit has version {told:?}, the store {now}: not {version}, as it should be"
                    ));
                }
                for effect in &effects {
                    self.shadow.apply(*effect);
                }
                self.version = version;
                if ops > 0 {
                    self.tally.commits += 1;
                    self.commits.push_back((version, effects));
                }
                self.promised(level);
                Ok(())
            }
            Err(error) => {
                let failure = self.failure(&error);
                if matches!(failure, Failure::Stopped) && ops > 0 {
                    // Nobody was told that it is there, and nobody that it is not.
                    self.commits.push_back((version, effects));
                }
                Err(failure)
            }
        }
    }

    /// Everything up to now was acknowledged at a level.
    fn promised(&mut self, level: Durability) {
        if level >= Durability::Buffered {
            self.buffered = self.version;
        }
        if level == Durability::Strict {
            self.strict = self.version;
            while self.commits.front().is_some_and(|(version, _)| *version <= self.strict) {
                self.keep_first();
            }
        }
    }

    fn keep_first(&mut self) {
        if let Some((version, effects)) = self.commits.pop_front() {
            effects.into_iter().for_each(|effect| self.base.apply(effect));
            self.base_version = version;
        }
    }

    /// One more operation of a commit, which is number `index` in it.
    fn set(&self, branch: u64, place: Place, index: u64, cell: u64, value: u32) -> Effect {
        let version = self.version + 1 + index;
        // The version of a cell is that of its write.
        let cell = if place.0 == 1 { version } else { cell };
        Effect::Set { branch, place, entry: Entry { version, cell, value } }
    }

    fn try_step(&mut self, step: &Step) -> Result<(), Failure> {
        let n = step.n;
        match step.kind {
            Kind::Put | Kind::Delete | Kind::PutMany | Kind::DeleteMany => self.write_pairs(step),
            Kind::CellInit | Kind::CellSet | Kind::CellCas | Kind::CellDelete => self.write_cell(step),
            Kind::EventAppend => self.append_events(step),
            Kind::DocSet | Kind::DocChange | Kind::DocDelete => self.write_document(step),
            Kind::Get | Kind::Range | Kind::List | Kind::Count | Kind::CellRead => self.read(step),
            Kind::Create | Kind::Fork | Kind::DeleteBranch | Kind::Reset | Kind::Protect => {
                self.change_branch(step)
            }
            Kind::Begin => self.begin(n[0], n[1], n[2]),
            Kind::TxPut | Kind::TxDelete | Kind::TxCellSet | Kind::TxEvent | Kind::TxDocChange => {
                self.write_in_work(step)
            }
            Kind::TxGet | Kind::TxRange | Kind::TxCount => self.read_in_work(step),
            Kind::Commit => self.commit(n[0]),
            Kind::GiveUp => {
                self.works[n[0] as usize % SLOTS] = None;
                Ok(())
            }
            Kind::Snapshot => {
                if let Some((id, branch)) = self.branch(n[1])? {
                    let snapshot = self.ok(branch.snapshot())?;
                    self.snapshots[n[0] as usize % SLOTS] = Some((snapshot, self.shadow.data(id).clone()));
                }
                Ok(())
            }
            Kind::CheckSnapshot => match &self.snapshots[n[0] as usize % SLOTS] {
                Some((snapshot, data)) => self.told(check::all(snapshot, data, &self.keys)),
                None => Ok(()),
            },
            Kind::DropSnapshot => {
                self.snapshots[n[0] as usize % SLOTS] = None;
                Ok(())
            }
            Kind::Sync => self.make_durable(Store::sync),
            Kind::Checkpoint => self.make_durable(Store::checkpoint),
            Kind::Compact => self.make_durable(Store::compact),
            Kind::Reopen => self.reopen(n[0] == 1),
            Kind::PowerCut | Kind::Kill => {
                self.crash = if step.kind == Kind::Kill { Crash::Kill } else { Crash::PowerCut };
                self.recover(u64::from(n[0])).map_err(Failure::Wrong)
            }
            Kind::StopIn => {
                self.crash = if n[1] == 1 { Crash::Kill } else { Crash::PowerCut };
                self.ground.stop_in(u64::from(n[0]));
                Ok(())
            }
            Kind::Verify => self.verify(),
        }
    }

    fn write_pairs(&mut self, step: &Step) -> Result<(), Failure> {
        let n = step.n;
        let Some((id, branch)) = self.branch(n[0])? else { return Ok(()) };
        let place = self.place(0, n[1], n[2]);
        let is_many = matches!(step.kind, Kind::PutMany | Kind::DeleteMany);
        let places: Vec<Place> = if is_many {
            // Some come twice when there are few keys.
            (0..n[3]).map(|i| self.place(0, n[1], n[2] + i * 5)).collect()
        } else {
            vec![place]
        };
        let level = level(match step.kind {
            Kind::Put => n[4],
            Kind::PutMany => n[5],
            Kind::Delete => n[3],
            _ => n[4],
        });
        let branch = branch.with_durability(level);
        let space = self.ok(branch.space(SPACES[place.1 as usize]))?;
        let kv = space.kv();
        let (result, effects) = match step.kind {
            Kind::Put => {
                (kv.put(self.key(place), value(n[3])).map(Some), { vec![self.set(id, place, 0, 0, n[3])] })
            }
            Kind::PutMany => {
                let pairs = places.iter().enumerate().map(|(i, at)| (self.key(*at), value(n[4] + i as u32)));
                let effects = places.iter().enumerate();
                let effects = effects.map(|(i, at)| self.set(id, *at, i as u64, 0, n[4] + i as u32));
                (kv.put_many(pairs).map(Some), effects.collect())
            }
            _ => {
                let mut gone: Vec<Place> = Vec::new();
                for at in &places {
                    if self.shadow.data(id).contains_key(at) && !gone.contains(at) {
                        gone.push(*at);
                    }
                }
                let result = kv.delete_many(places.iter().map(|at| self.key(*at)));
                if let Ok(count) = result {
                    if count != gone.len() as u64 {
                        return wrong(format!("{count} keys were deleted, not {}", gone.len()));
                    }
                }
                let effects = gone.into_iter().map(|place| Effect::Remove { branch: id, place });
                (result.map(|_| None), effects.collect())
            }
        };
        self.committed(level, effects.len() as u64, effects, result)
    }

    fn write_cell(&mut self, step: &Step) -> Result<(), Failure> {
        let n = step.n;
        let Some((id, branch)) = self.branch(n[0])? else { return Ok(()) };
        let place = self.place(1, n[1], n[2]);
        let level = level(if step.kind == Kind::CellDelete { n[3] } else { n[4] });
        let branch = branch.with_durability(level);
        let space = self.ok(branch.space(SPACES[place.1 as usize]))?;
        let (cells, key) = (space.state(), self.key(place));
        let now = self.shadow.data(id).get(&place).map(|entry| entry.cell);
        let next = self.version + 1;
        let (result, right, effects) = match step.kind {
            Kind::CellInit => {
                let effects = if now.is_none() { vec![self.set(id, place, 0, 0, n[3])] } else { vec![] };
                (cells.init(key, value(n[3])), now.unwrap_or(next), effects)
            }
            Kind::CellSet => (cells.set(key, value(n[3])), next, vec![self.set(id, place, 0, 0, n[3])]),
            Kind::CellCas => {
                // Mostly what is there, sometimes what was there, or nothing.
                let expected = match n[5] {
                    0 => None,
                    1 => now.map(|now| now - 1),
                    2 => Some(next),
                    _ => now,
                };
                let result = cells.cas(key, expected, value(n[3]));
                if expected != now {
                    return self.refused(
                        result,
                        |error| matches!(error, StoreError::VersionConflict { actual, .. } if *actual == now),
                    );
                }
                (result, next, vec![self.set(id, place, 0, 0, n[3])])
            }
            _ => {
                let effects: Vec<_> = now.iter().map(|_| Effect::Remove { branch: id, place }).collect();
                (cells.delete(key).map(u64::from), u64::from(now.is_some()), effects)
            }
        };
        if let Ok(told) = result {
            if told != right {
                return wrong(format!("the cell is told to be {told}, not {right}"));
            }
        }
        self.committed(level, effects.len() as u64, effects, result.map(|_| None))
    }

    fn append_events(&mut self, step: &Step) -> Result<(), Failure> {
        let n = step.n;
        let Some((id, branch)) = self.branch(n[0])? else { return Ok(()) };
        let space = (n[1] as usize % SPACES.len()) as u8;
        let first = next_event(self.shadow.data(id), space);
        let level = level(n[4]);
        let branch = branch.with_durability(level);
        let numbers: Vec<u32> = (0..n[2]).map(|i| n[3] + i).collect();
        let result =
            self.ok(branch.space(SPACES[space as usize]))?.events().append_batch(numbers.iter().map(|n| {
                let (event_type, payload) = event(*n);
                (event_type, payload)
            }));
        if let Ok(range) = &result {
            if *range != (u64::from(first)..u64::from(first) + numbers.len() as u64) {
                return wrong(format!("the events got {range:?}, not {first} and so on"));
            }
        }
        let effects = numbers.iter().enumerate().map(|(i, n)| {
            let place = (2, space, first + i as u32);
            self.set(id, place, 2 * i as u64, 0, *n)
        });
        let effects: Vec<Effect> = effects.collect();
        self.committed(level, 2 * effects.len() as u64, effects, result.map(|_| None))
    }

    fn write_document(&mut self, step: &Step) -> Result<(), Failure> {
        let n = step.n;
        let Some((id, branch)) = self.branch(n[0])? else { return Ok(()) };
        let place = self.place(3, n[1], n[2]);
        let level = level(if step.kind == Kind::DocDelete { n[3] } else { n[4] });
        let branch = branch.with_durability(level);
        let space = self.ok(branch.space(SPACES[place.1 as usize]))?;
        let (documents, key) = (space.json(), self.key(place));
        let now = self.shadow.data(id).get(&place).copied();
        let (result, effects) = match step.kind {
            Kind::DocSet => {
                let result = documents.set(key, "", document(Some(n[3]), None)).map(Some);
                (result, vec![self.set(id, place, 0, 0, n[3])])
            }
            Kind::DocChange => {
                let small = document(None, Some(u64::from(n[3])))["small"].take();
                let result = documents.set(key, "small", &small).map(Some);
                let large = now.map_or(NO_LARGE, |now| now.value);
                (result, vec![self.set(id, place, 0, u64::from(n[3]) + 1, large)])
            }
            _ => {
                let result = documents.delete(key, "");
                if result.as_ref().is_ok_and(|existed| *existed != now.is_some()) {
                    return wrong("the document was there or not, and the opposite is told");
                }
                let effects = now.iter().map(|_| Effect::Remove { branch: id, place }).collect();
                (result.map(|_| None), effects)
            }
        };
        self.committed(level, effects.len() as u64, effects, result)
    }

    fn read(&mut self, step: &Step) -> Result<(), Failure> {
        let Some((id, branch)) = self.branch(step.n[0])? else { return Ok(()) };
        self.told(check::step(step, &branch, self.shadow.data(id), &self.keys))
    }

    /// What a check found; a machine that stopped is not a finding.
    fn told(&self, result: Result<(), check::Finding>) -> Result<(), Failure> {
        match result {
            Ok(()) => Ok(()),
            Err(check::Finding::Error(error)) => Err(self.failure(&error)),
            Err(check::Finding::Other(text)) => wrong(text),
        }
    }

    fn change_branch(&mut self, step: &Step) -> Result<(), Failure> {
        let n = step.n;
        let name = n[0] as usize % BRANCHES.len();
        let text = BRANCHES[name];
        let id = self.shadow.find(name);
        let twig = id.map(|id| self.shadow.twigs[&id].clone());
        let store = self.store().clone();
        let not_found = |error: &StoreError| matches!(error, StoreError::BranchNotFound { .. });
        let exists = |error: &StoreError| matches!(error, StoreError::BranchExists { .. });
        let is_protected = |error: &StoreError| matches!(error, StoreError::BranchProtected { .. });
        let guarded = twig.as_ref().is_some_and(|twig| twig.protected || twig.name == 0);
        let (result, effect) = match (step.kind, id) {
            (Kind::Create, Some(_)) => return self.refused(store.create_branch(text), exists),
            (Kind::Create, None) => (store.create_branch(text).map(drop), Effect::Create { name }),
            (Kind::Fork, _) => {
                let (new, new_text) =
                    (n[1] as usize % BRANCHES.len(), BRANCHES[n[1] as usize % BRANCHES.len()]);
                let handle = if n[2] == 1 { self.branch(n[0])? } else { None };
                let result = match &handle {
                    Some((_, branch)) => branch.with_durability(level(self.plan.level)).fork(new_text),
                    None => store.fork(text, new_text),
                };
                if self.shadow.find(new).is_some() {
                    return self.refused(result, exists);
                }
                let Some(source) = id else { return self.refused(result, not_found) };
                (result.map(drop), Effect::Fork { source, name: new })
            }
            (Kind::DeleteBranch, None) => return self.refused(store.delete_branch(text), not_found),
            (Kind::DeleteBranch, Some(_)) if guarded => {
                return self.refused(store.delete_branch(text), is_protected)
            }
            (Kind::DeleteBranch, Some(branch)) => (store.delete_branch(text), Effect::Delete { branch }),
            (Kind::Reset, None) => return self.refused(store.reset_branch(text), not_found),
            (Kind::Reset, Some(_)) if guarded => return self.refused(store.reset_branch(text), is_protected),
            (Kind::Reset, Some(branch)) => {
                let result = store.reset_branch(text);
                if twig.is_some_and(|twig| twig.parent.is_none()) {
                    return self.refused(result, |error| matches!(error, StoreError::NoParent { .. }));
                }
                (result, Effect::Reset { branch, version: self.version + 1 })
            }
            (_, None) => return self.refused(store.protect_branch(text, true), not_found),
            (_, Some(branch)) => {
                let protected = n[1] == 0;
                (store.protect_branch(text, protected), Effect::Protect { branch, protected })
            }
        };
        self.committed(level(self.plan.level), 1, vec![effect], result.map(|()| None))
    }

    fn begin(&mut self, slot: u32, name: u32, at: u32) -> Result<(), Failure> {
        if let Some((id, branch)) = self.branch(name)? {
            let level = level(at);
            let transaction = self.ok(branch.with_durability(level).begin())?;
            let then = self.shadow.data(id).clone();
            let work = Work { transaction, branch: id, level, then, writes: Vec::new() };
            self.works[slot as usize % SLOTS] = Some(work);
        }
        Ok(())
    }

    fn write_in_work(&mut self, step: &Step) -> Result<(), Failure> {
        let n = step.n;
        let slot = n[0] as usize % SLOTS;
        let Some(mut work) = self.works[slot].take() else { return Ok(()) };
        let place = match step.kind {
            Kind::TxEvent => {
                let space = (n[1] as usize % SPACES.len()) as u8;
                (2, space, next_event(&work.view(), space))
            }
            Kind::TxCellSet => self.place(1, n[1], n[2]),
            Kind::TxDocChange => self.place(3, n[1], n[2]),
            _ => self.place(0, n[1], n[2]),
        };
        let now = work.get(place);
        let done = {
            let space = self.ok(work.transaction.space(SPACES[place.1 as usize]))?;
            let key = if place.0 == 2 { "" } else { self.key(place) };
            match step.kind {
                Kind::TxEvent => {
                    let (event_type, payload) = event(n[2]);
                    space.events().append(event_type, payload).map(|seq| {
                        work.writes.push((place, Some(Entry { version: 0, cell: 0, value: n[2] })));
                        seq == u64::from(place.2)
                    })
                }
                Kind::TxDocChange => {
                    let small = document(None, Some(u64::from(n[3])))["small"].take();
                    space.json().set(key, "small", &small).map(|()| {
                        let large = now.map_or(NO_LARGE, |now| now.value);
                        let cell = u64::from(n[3]) + 1;
                        work.writes.push((place, Some(Entry { version: 0, cell, value: large })));
                        true
                    })
                }
                Kind::TxPut => space.kv().put(key, value(n[3])).map(|()| {
                    work.writes.push((place, Some(Entry { version: 0, cell: 0, value: n[3] })));
                    true
                }),
                Kind::TxCellSet => {
                    // Its version is known after the commit.
                    space.state().set(key, value(n[3])).map(|()| {
                        work.writes.push((place, Some(Entry { version: 0, cell: 0, value: n[3] })));
                        true
                    })
                }
                _ => space.kv().delete(key).map(|existed| {
                    if now.is_some() {
                        work.writes.push((place, None));
                    }
                    existed == now.is_some()
                }),
            }
        };
        let is_right = self.ok(done)?;
        self.works[slot] = Some(work);
        if is_right {
            Ok(())
        } else {
            wrong("the transaction tells what is not so")
        }
    }

    fn read_in_work(&mut self, step: &Step) -> Result<(), Failure> {
        match &self.works[step.n[0] as usize % SLOTS] {
            Some(work) => self.told(check::step(step, &work.transaction, &work.view(), &self.keys)),
            None => Ok(()),
        }
    }

    fn commit(&mut self, slot: u32) -> Result<(), Failure> {
        let Some(work) = self.works[slot as usize % SLOTS].take() else { return Ok(()) };
        let result = work.transaction.commit();
        let Some(twig) = self.shadow.twigs.get(&work.branch) else {
            return self.refused(result, |error| matches!(error, StoreError::BranchNotFound { .. }));
        };
        let version = |data: &Data, place: Place| {
            data.get(&place).map(|entry| if place.0 == 1 { entry.cell } else { entry.version })
        };
        let has_changed = |at: Place| version(&twig.data, at) != version(&work.then, at);
        let is_late = work.writes.iter().any(|&(at, _)| {
            // An event that others had appended before must still be there.
            let last = (at.0 == 2).then(|| at.2.checked_sub(1)).flatten().map(|seq| (2, at.1, seq));
            has_changed(at) || last.is_some_and(|last| work.then.contains_key(&last) && has_changed(last))
        });
        if is_late {
            self.tally.conflicts += 1;
            return self.refused(result, |error| matches!(error, StoreError::TransactionConflict { .. }));
        }
        let mut ops = 0;
        let mut effects = Vec::new();
        for (place, entry) in &work.writes {
            effects.push(match entry {
                Some(entry) => self.set(work.branch, *place, ops, entry.cell, entry.value),
                None => Effect::Remove { branch: work.branch, place: *place },
            });
            ops += writes_of(place.0);
        }
        self.committed(work.level, ops, effects, result.map(Some))
    }

    /// Something after which nothing of what was done before can be lost.
    fn make_durable(&mut self, sync: impl FnOnce(&Store) -> Result<(), StoreError>) -> Result<(), Failure> {
        self.ok(sync(self.store()))?;
        self.promised(Durability::Strict);
        Ok(())
    }

    fn reopen(&mut self, close: bool) -> Result<(), Failure> {
        self.works = Default::default();
        self.snapshots = Default::default();
        if close {
            self.make_durable(Store::close)?;
        }
        self.tally.checkpoints += self.store().counters().checkpoints;
        self.store = None;
        if self.ground.is_stopped() {
            return Err(Failure::Stopped);
        }
        self.promised(Durability::Strict);
        self.store = Some(self.ok(self.ground.open(&self.plan))?);
        let found = self.store().info().version;
        if found != self.version {
            return wrong(format!("version {found} was found in an orderly store, not {}", self.version));
        }
        self.verify()
    }

    /// Stops the machine, if it has not stopped, and starts it again; with `fuse`, it stops once more while the store
    /// is opened, if that takes so many steps.
    fn recover(&mut self, mut fuse: u64) -> Result<(), String> {
        if matches!(self.ground, Ground::Folder(_)) {
            return match self.reopen(false) {
                Err(Failure::Wrong(text)) => Err(text),
                _ => Ok(()),
            };
        }
        self.tally.crashes += 1;
        if self.tally.crashes == 1 {
            self.tally.device_steps = self.ground.steps();
        }
        let crash = self.crash;
        if !self.ground.is_stopped() {
            self.ground.stop_in(0);
        }
        self.tally.checkpoints += self.store.as_ref().map_or(0, |store| store.counters().checkpoints);
        self.works = Default::default();
        self.snapshots = Default::default();
        self.store = None;
        let store = loop {
            self.seed = self.seed.wrapping_add(1);
            let script = match fuse {
                0 => CrashScript::new(self.seed),
                _ => CrashScript::stopping_at(self.seed, fuse),
            };
            fuse = 0;
            self.ground.after(crash, script);
            match self.ground.open(&self.plan) {
                Ok(store) => break store,
                Err(_) if self.ground.is_stopped() => {}
                Err(error) => {
                    return Err(format!("after {crash:?}, the store cannot be opened: {error}"));
                }
            }
        };
        let found = store.info().version;
        self.store = Some(store);
        let floor = if crash == Crash::Kill { self.buffered.max(self.strict) } else { self.strict };
        if found < floor {
            return Err(format!("after {crash:?}, version {found} was found, and {floor} was promised"));
        }
        while self.commits.front().is_some_and(|(version, _)| *version <= found) {
            self.keep_first();
        }
        if self.base_version != found {
            let near = self.base_version;
            return Err(format!(
                "after {crash:?}, version {found} is within the commit after version {near}"
            ));
        }
        self.tally.lost += self.commits.len() as u64;
        self.commits.clear();
        self.shadow = self.base.clone();
        (self.version, self.strict, self.buffered) = (found, found, found);
        match self.verify() {
            Ok(()) => Ok(()),
            Err(Failure::Wrong(text)) => Err(format!("after {crash:?}: {text}")),
            Err(Failure::Stopped) => self.recover(0),
        }
    }

    /// Compares everything.
    fn verify(&self) -> Result<(), Failure> {
        let mut infos = self.ok(self.store().branches(true))?;
        let mut names: Vec<(&str, u64)> =
            self.shadow.twigs.iter().map(|(id, twig)| (BRANCHES[twig.name], *id)).collect();
        names.sort_unstable();
        infos.sort_by(|a, b| a.name.cmp(&b.name));
        if !infos.iter().map(|info| info.name.as_str()).eq(names.iter().map(|(name, _)| *name)) {
            let found: Vec<_> = infos.iter().map(|info| &info.name).collect();
            return wrong(format!("there are branches {found:?}, not {names:?}"));
        }
        for (info, (name, id)) in infos.iter().zip(&names) {
            let twig = &self.shadow.twigs[id];
            let parent = twig.parent.map(|parent| BRANCHES[self.shadow.twigs[&parent].name]);
            let entries = twig.data.keys().map(|place| writes_of(place.0)).sum();
            let right = (parent, twig.protected || twig.name == 0, entries);
            let told = (info.parent.as_deref(), info.protected, info.entries);
            if told != right {
                return wrong(format!(
                    "branch {name}: parent, protection, entries are {told:?}, not {right:?}"
                ));
            }
            let branch = self.ok(self.store().branch(name))?;
            match check::all(&branch, &twig.data, &self.keys) {
                Err(check::Finding::Other(text)) => return wrong(format!("branch {name}: {text}")),
                other => self.told(other)?,
            }
        }
        Ok(())
    }
}
