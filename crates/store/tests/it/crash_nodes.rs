//! A node store on a machine that stops: for tests of what is left after a crash.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Error as IoError;
use std::sync::Arc;

use duramen_base::entropy;
use duramen_tree::{NodeId, NodeStore, NodeStoreError, NodeStoreStats};
use parking_lot::Mutex;

/// When the machine stops. Clones share one count, so that a log and a node store can stop at the same instant.
#[derive(Clone)]
pub(crate) struct CrashScript(Arc<Mutex<Script>>);

struct Script {
    rng: fastrand::Rng,
    steps: u64,
    stop_at: Option<u64>,
}

/// What a device does with one write or sync.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// It is done.
    Done,
    /// The machine stops in the middle of it: all, a part, or nothing of it is done, and the caller sees an error.
    Torn,
}

impl CrashScript {
    /// A machine that does not stop until it is told to. The seed decides what a crash leaves.
    pub(crate) fn new(seed: u64) -> Self {
        Self(Arc::new(Mutex::new(Script { rng: entropy::rng(seed), steps: 0, stop_at: None })))
    }

    /// A machine that stops in its write or sync number `step`, counted from 1.
    pub(crate) fn stopping_at(seed: u64, step: u64) -> Self {
        let script = Self::new(seed);
        script.0.lock().stop_at = Some(step);
        script
    }

    /// Stops the machine `steps` writes or syncs from now (1 is the next), or, with 0, now. One that has stopped stays
    /// so.
    pub(crate) fn stop_in(&self, steps: u64) {
        let mut script = self.0.lock();
        if script.stop_at.is_none_or(|stop_at| script.steps < stop_at) {
            script.stop_at = Some(script.steps + steps);
        }
    }

    /// Writes and syncs so far.
    pub(crate) fn steps(&self) -> u64 {
        self.0.lock().steps
    }

    pub(crate) fn is_stopped(&self) -> bool {
        let script = self.0.lock();
        script.stop_at.is_some_and(|stop_at| script.steps >= stop_at)
    }

    /// Counts one write or sync. Once the machine has stopped, nothing works.
    pub(crate) fn step(&self) -> std::io::Result<Step> {
        self.alive()?;
        let mut script = self.0.lock();
        script.steps += 1;
        Ok(if script.stop_at == Some(script.steps) { Step::Torn } else { Step::Done })
    }

    /// The error of anything that is asked of a machine that stopped.
    pub(crate) fn alive(&self) -> std::io::Result<()> {
        if self.is_stopped() {
            return Err(stopped());
        }
        Ok(())
    }

    /// A number below `bound`, from the script's seed.
    pub(crate) fn choose(&self, bound: u64) -> u64 {
        self.0.lock().rng.u64(0..bound)
    }
}

/// The error of the step in which the machine stops, and of all after it.
pub(crate) fn stopped() -> IoError {
    IoError::other("the machine stopped")
}

type Nodes = BTreeMap<NodeId, Arc<[u8]>>;

/// A node store in memory that knows what of it would be on disk. It also holds its users to the contract: ids that
/// do not grow within a put, or come twice, fail the test.
pub(crate) struct CrashNodeStore {
    script: CrashScript,
    state: Mutex<State>,
}

#[derive(Clone, Default)]
struct State {
    live: Nodes,
    manifest: Option<Vec<u8>>,
    durable: Nodes,
    durable_manifest: Option<Vec<u8>>,
}

impl CrashNodeStore {
    pub(crate) fn new(script: CrashScript) -> Self {
        Self { script, state: Mutex::default() }
    }

    /// The store as the machine finds it when it starts again, under a new script. What was committed is there; each
    /// change after it is there or not, as the old script's seed decides.
    pub(crate) fn durable_image(&self, script: CrashScript) -> Self {
        let state = self.state.lock();
        // Extremes are where bugs are, so all and nothing come as often as a mixture.
        let kept = self.script.choose(3);
        let ids: BTreeSet<NodeId> = state.live.keys().chain(state.durable.keys()).copied().collect();
        let mut nodes = Nodes::new();
        for id in ids {
            let is_kept = kept == 2 || (kept == 1 && self.script.choose(2) == 1);
            let from = if is_kept { &state.live } else { &state.durable };
            nodes.extend(from.get(&id).map(|node| (id, node.clone())));
        }
        let manifest = state.durable_manifest.clone();
        let state = State {
            live: nodes.clone(),
            manifest: manifest.clone(),
            durable: nodes,
            durable_manifest: manifest,
        };
        Self { script, state: Mutex::new(state) }
    }

    /// Ids of the nodes that can be read now.
    pub(crate) fn ids(&self) -> Vec<NodeId> {
        self.state.lock().live.keys().copied().collect()
    }
}

impl NodeStore for CrashNodeStore {
    fn get(&self, id: NodeId) -> Result<Option<Vec<u8>>, NodeStoreError> {
        self.script.alive()?;
        Ok(self.state.lock().live.get(&id).map(|node| node.to_vec()))
    }

    fn put(&self, nodes: &[(NodeId, Vec<u8>)]) -> Result<(), NodeStoreError> {
        let step = self.script.step()?;
        let mut state = self.state.lock();
        let done = match step {
            Step::Done => nodes.len(),
            Step::Torn => self.script.choose(nodes.len() as u64 + 1) as usize,
        };
        assert!(nodes.windows(2).all(|pair| pair[0].0 < pair[1].0), "ids must grow within a put");
        for (id, node) in &nodes[..done] {
            let before = state.live.insert(*id, node.as_slice().into());
            assert!(before.is_none(), "node {id} is put twice");
        }
        if step == Step::Torn {
            return Err(stopped().into());
        }
        Ok(())
    }

    fn commit(&self, manifest: &[u8], deleted: &[NodeId]) -> Result<(), NodeStoreError> {
        let step = self.script.step()?;
        // A commit is whole or it is not there, and its caller cannot know which when the machine stops in it.
        if step == Step::Done || self.script.choose(2) == 1 {
            let mut state = self.state.lock();
            for id in deleted {
                state.live.remove(id);
            }
            state.manifest = Some(manifest.to_vec());
            state.durable = state.live.clone();
            state.durable_manifest = state.manifest.clone();
        }
        if step == Step::Torn {
            return Err(stopped().into());
        }
        Ok(())
    }

    fn manifest(&self) -> Result<Option<Vec<u8>>, NodeStoreError> {
        self.script.alive()?;
        Ok(self.state.lock().manifest.clone())
    }

    fn delete_from(&self, first: NodeId) -> Result<u64, NodeStoreError> {
        let step = self.script.step()?;
        let mut state = self.state.lock();
        let mut gone = state.live.split_off(&first);
        if step == Step::Torn {
            gone.retain(|_, _| self.script.choose(2) == 1);
            state.live.append(&mut gone);
            return Err(stopped().into());
        }
        Ok(gone.len() as u64)
    }

    fn stats(&self) -> NodeStoreStats {
        NodeStoreStats { bytes: self.state.lock().live.values().map(|node| node.len() as u64).sum() }
    }
}
