//! Finds what a history of transactions shows that an isolation level forbids, from what they read (Kingsbury and Alvaro
//! 2020, Elle: Inferring Isolation Anomalies from Experimental Observations).
//!
//! Whoever reads a list that is only appended to sees the order of all appends before. Registers have versions, which the
//! store tells. So the order of the writes of each key is known, and with it who must have come before whom. A cycle of
//! such edges is an anomaly, and its edges say which.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};

pub(crate) type Key = String;

/// What a transaction did with a key. No element and no value is ever written twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Op {
    Append {
        key: Key,
        element: u64,
    },
    /// The whole list; one that is not there is empty.
    List {
        key: Key,
        found: Vec<u64>,
    },
    Write {
        key: Key,
        value: u64,
    },
    /// The value, and the version that the store says it has; one that the transaction wrote itself has none.
    Register {
        key: Key,
        found: Option<(u64, u64)>,
    },
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Txn {
    /// Moments on one clock, before the first thing that it did and after the last.
    pub(crate) begin: u64,
    pub(crate) end: u64,
    /// Whether it said that it was committed; the others were not.
    pub(crate) committed: bool,
    pub(crate) ops: Vec<Op>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Anomaly {
    /// What nobody wrote was read.
    Garbage,
    /// An element is twice in a list.
    Duplicate,
    /// A transaction does not see what it wrote, or sees others' writes while it runs.
    Internal,
    /// Two reads show orders of writes that exclude each other.
    Incompatible,
    /// A write that was committed is not there later.
    Lost,
    /// A read of what was not committed.
    G1a,
    /// A read of what its writer overwrote itself.
    G1b,
    /// A cycle of writes over writes.
    G0,
    /// A cycle of these and of reads of what was written.
    G1c,
    /// A cycle with a read of what another one overwrites; with several, of which no two follow each other. Snapshot
    /// isolation forbids it, and lost updates with it.
    GSingle,
    /// Any other cycle: write skew.
    G2,
}

impl Anomaly {
    /// Whether snapshot isolation forbids it.
    pub(crate) fn is_below_snapshot(self) -> bool {
        self != Self::G2
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Edge {
    WriteWrite,
    WriteRead,
    ReadWrite,
    /// One had ended before the other began.
    Time,
}

type Found = BTreeMap<Anomaly, String>;

struct Writer {
    txn: usize,
    /// Whether the transaction writes the key again.
    is_last: bool,
}

struct Checker<'h> {
    history: &'h [Txn],
    writers: HashMap<(&'h str, u64), Writer>,
    found: Found,
    edges: Vec<Vec<(usize, Edge)>>,
}

/// What is wrong with a history: an example of each anomaly. Who had ended before another began comes before that one.
pub(crate) fn check(history: &[Txn]) -> Found {
    let mut checker = Checker { history, writers: HashMap::new(), found: Found::new(), edges: Vec::new() };
    checker.edges.resize(history.len(), Vec::new());
    checker.note_writers();
    checker.lists();
    checker.registers();
    checker.time();
    checker.cycles();
    checker.found
}

impl<'h> Checker<'h> {
    fn report(&mut self, anomaly: Anomaly, text: impl FnOnce() -> String) {
        self.found.entry(anomaly).or_insert_with(text);
    }

    fn edge(&mut self, from: usize, to: usize, edge: Edge) {
        if from != to && !self.edges[from].contains(&(to, edge)) {
            self.edges[from].push((to, edge));
        }
    }

    fn committed(&self) -> impl Iterator<Item = (usize, &'h Txn)> + use<'h> {
        self.history.iter().enumerate().filter(|(_, txn)| txn.committed)
    }

    fn note_writers(&mut self) {
        for (txn, work) in self.history.iter().enumerate() {
            let mut last: HashMap<&str, u64> = HashMap::new();
            for op in &work.ops {
                let (Op::Append { key, element: value } | Op::Write { key, value }) = op else { continue };
                if let Some(before) = last.insert(key, *value) {
                    if let Some(writer) = self.writers.get_mut(&(&**key, before)) {
                        writer.is_last = false;
                    }
                }
                let twice = self.writers.insert((key, *value), Writer { txn, is_last: true });
                assert!(twice.is_none(), "{value} is written twice to {key}");
            }
        }
    }

    /// The one who wrote what was read, if it may be read.
    fn writer_of(&mut self, key: &'h str, value: u64, reader: usize, is_newest: bool) -> Option<usize> {
        let Some(&Writer { txn, is_last }) = self.writers.get(&(key, value)) else {
            self.report(Anomaly::Garbage, || format!("{reader} read {value} of {key}"));
            return None;
        };
        if !self.history[txn].committed {
            self.report(Anomaly::G1a, || {
                format!("{reader} read {value} of {key}, which {txn} did not commit")
            });
            return None;
        }
        if is_newest && !is_last {
            self.report(Anomaly::G1b, || {
                format!("{reader} read {value} of {key}, which {txn} overwrote itself")
            });
        }
        Some(txn)
    }

    /// What each read found of others, without what its own transaction had appended.
    fn lists_read(&mut self) -> Vec<(usize, &'h str, &'h [u64])> {
        let mut reads = Vec::new();
        for (number, txn) in self.committed() {
            let mut own: HashMap<&str, Vec<u64>> = HashMap::new();
            let mut seen: HashMap<&str, &[u64]> = HashMap::new();
            for op in &txn.ops {
                match op {
                    Op::Append { key, element } => own.entry(key).or_default().push(*element),
                    Op::List { key, found } => {
                        let own = own.get(&**key).map_or(&[][..], Vec::as_slice);
                        let Some(others) = found.strip_suffix(own) else {
                            self.report(Anomaly::Internal, || {
                                format!("{number} wrote {own:?}, read {found:?}")
                            });
                            continue;
                        };
                        if seen.insert(key, others).is_some_and(|before| before != others) {
                            self.report(Anomaly::Internal, || format!("{number} read {key} twice"));
                        }
                        reads.push((number, &**key, others));
                    }
                    _ => {}
                }
            }
        }
        reads
    }

    fn lists(&mut self) {
        let reads = self.lists_read();
        let mut orders: BTreeMap<&str, &[u64]> = BTreeMap::new();
        for (reader, key, found) in &reads {
            if found.iter().collect::<HashSet<_>>().len() < found.len() {
                self.report(Anomaly::Duplicate, || format!("{reader} read {found:?} of {key}"));
            }
            let order = orders.entry(key).or_default();
            if found.len() > order.len() {
                *order = found;
            }
        }
        let mut writers: HashMap<(&str, u64), Option<usize>> = HashMap::new();
        for (reader, key, found) in &reads {
            for (at, element) in found.iter().enumerate() {
                let writer = self.writer_of(key, *element, *reader, at + 1 == found.len());
                writers.insert((key, *element), writer);
            }
            let order = orders[key];
            if !order.starts_with(found) {
                self.report(Anomaly::Incompatible, || format!("{reader}: {key} is {found:?}, and {order:?}"));
                continue;
            }
            let writer_at = |at: usize| writers_at(&self.writers, self.history, key, order, at);
            let (before, after) = (found.len().checked_sub(1).and_then(writer_at), writer_at(found.len()));
            if let Some(before) = before {
                self.edge(before, *reader, Edge::WriteRead);
            }
            if let Some(after) = after {
                self.edge(*reader, after, Edge::ReadWrite);
            }
        }
        for (key, order) in &orders {
            let known: Vec<usize> = order
                .iter()
                .filter_map(|element| writers.get(&(*key, *element)).copied().flatten())
                .collect();
            for pair in known.windows(2) {
                self.edge(pair[0], pair[1], Edge::WriteWrite);
            }
        }
        self.lost(&reads, &orders);
    }

    fn lost(&mut self, reads: &[(usize, &'h str, &'h [u64])], orders: &BTreeMap<&str, &[u64]>) {
        let in_order: HashSet<(&str, u64)> =
            orders.iter().flat_map(|(key, order)| order.iter().map(|element| (*key, *element))).collect();
        for (number, txn) in self.committed() {
            for op in &txn.ops {
                let Op::Append { key, element } = op else { continue };
                let is_later = |reader: usize| self.history[reader].begin > txn.end;
                if !in_order.contains(&(&**key, *element))
                    && reads.iter().any(|(reader, of, _)| of == key && is_later(*reader))
                {
                    self.report(Anomaly::Lost, || format!("{element} of {number} is not in {key}"));
                }
            }
        }
    }

    fn registers(&mut self) {
        let mut orders: BTreeMap<&str, BTreeMap<u64, u64>> = BTreeMap::new();
        let mut reads = Vec::new();
        for (number, txn) in self.committed() {
            let mut own: HashMap<&str, u64> = HashMap::new();
            let mut seen: HashMap<&str, Option<(u64, u64)>> = HashMap::new();
            for op in &txn.ops {
                match op {
                    Op::Write { key, value } => drop(own.insert(key, *value)),
                    Op::Register { key, found } => {
                        if let Some(own) = own.get(&**key) {
                            if found.map(|(value, _)| value) != Some(*own) {
                                self.report(Anomaly::Internal, || {
                                    format!("{number} wrote {own}, read {found:?}")
                                });
                            }
                            continue;
                        }
                        if seen.insert(key, *found).is_some_and(|before| before != *found) {
                            self.report(Anomaly::Internal, || format!("{number} read {key} twice"));
                        }
                        if let Some((value, version)) = found {
                            let order = orders.entry(key).or_default();
                            if order.insert(*version, *value).is_some_and(|other| other != *value) {
                                self.report(Anomaly::Incompatible, || format!("{key} at version {version}"));
                            }
                        }
                        reads.push((number, &**key, *found));
                    }
                    _ => {}
                }
            }
        }
        for (key, order) in &orders {
            if order.values().collect::<BTreeSet<_>>().len() < order.len() {
                self.report(Anomaly::Incompatible, || format!("{key} has a value at two versions"));
            }
        }
        for (reader, key, found) in reads {
            let before = found.and_then(|(value, _)| self.writer_of(key, value, reader, true));
            let version = found.map_or(0, |(_, version)| version);
            let order = orders.get(key);
            let after = order.and_then(|order| order.range(version + 1..).next()).map(|(_, value)| *value);
            if let Some(before) = before {
                self.edge(before, reader, Edge::WriteRead);
            }
            if let Some(after) = after.and_then(|value| self.writer_of(key, value, reader, false)) {
                self.edge(reader, after, Edge::ReadWrite);
            }
        }
        for (key, order) in orders {
            let values: Vec<u64> = order.into_values().collect();
            for pair in values.windows(2) {
                let writer = |value: u64| self.writers.get(&(key, value)).map(|writer| writer.txn);
                if let (Some(from), Some(to)) = (writer(pair[0]), writer(pair[1])) {
                    self.edge(from, to, Edge::WriteWrite);
                }
            }
        }
    }

    /// A chain of moments, one for each end, so that not every pair needs an edge.
    fn time(&mut self) {
        let mut ends: Vec<(u64, usize)> = self.committed().map(|(number, txn)| (txn.end, number)).collect();
        ends.sort_unstable();
        let first = self.edges.len();
        self.edges.resize(first + ends.len(), Vec::new());
        for (at, (_, number)) in ends.iter().enumerate() {
            self.edges[*number].push((first + at, Edge::Time));
            if at + 1 < ends.len() {
                self.edges[first + at].push((first + at + 1, Edge::Time));
            }
        }
        for (number, txn) in self.committed() {
            if let Some(at) = ends.partition_point(|(end, _)| *end < txn.begin).checked_sub(1) {
                self.edges[first + at].push((number, Edge::Time));
            }
        }
    }

    /// Which nodes may lie on a cycle: not those to which nothing leads, nor, without them, the next.
    fn core(&self) -> Vec<bool> {
        let mut counts = vec![0_usize; self.edges.len()];
        self.edges.iter().flatten().for_each(|(to, _)| counts[*to] += 1);
        let mut free: Vec<usize> = (0..counts.len()).filter(|node| counts[*node] == 0).collect();
        while let Some(node) = free.pop() {
            for (to, _) in &self.edges[node] {
                counts[*to] -= 1;
                if counts[*to] == 0 {
                    free.push(*to);
                }
            }
        }
        counts.into_iter().map(|count| count > 0).collect()
    }

    fn cycles(&mut self) {
        let core = self.core();
        let all = [
            (Anomaly::G0, Edge::WriteWrite),
            (Anomaly::G1c, Edge::WriteRead),
            (Anomaly::GSingle, Edge::ReadWrite),
            (Anomaly::G2, Edge::ReadWrite),
        ];
        for (anomaly, last) in all {
            let cycle = (0..self.history.len()).filter(|from| core[*from]).find_map(|from| {
                let begins = self.edges[from].iter().filter(|(_, edge)| *edge == last);
                begins.clone().find_map(|(to, _)| self.path(*to, from, anomaly, &core))
            });
            if let Some(cycle) = cycle {
                self.report(anomaly, || cycle);
                // What is worse explains the rest.
                return;
            }
        }
    }

    /// A way by edges that the anomaly may have, behind one of its kind.
    fn path(&self, from: usize, to: usize, anomaly: Anomaly, core: &[bool]) -> Option<String> {
        let allows = |edge: Edge, after_read_write: bool| match (anomaly, edge) {
            (_, Edge::Time | Edge::WriteWrite) => true,
            (Anomaly::G0, _) => false,
            (_, Edge::WriteRead) => true,
            (Anomaly::G1c, _) => false,
            (Anomaly::GSingle, _) => !after_read_write,
            _ => true,
        };
        // A place is a node, and whether the last edge was of a read that another one overwrote.
        let place = |node: usize, after_read_write: bool| node * 2 + usize::from(after_read_write);
        let start = place(from, matches!(anomaly, Anomaly::GSingle | Anomaly::G2));
        let mut came: Vec<Option<(usize, Edge)>> = vec![None; core.len() * 2];
        let mut queue = VecDeque::from([start]);
        while let Some(at) = queue.pop_front() {
            let (node, after_read_write) = (at / 2, at % 2 == 1);
            // The first edge, of a read and a write, follows on the last one.
            if node == to && (anomaly != Anomaly::GSingle || !after_read_write) {
                let mut text = to.to_string();
                let mut back = at;
                while let Some((before, edge)) = came[back] {
                    if before / 2 < self.history.len() {
                        text = format!("{} -{edge:?}-> {text}", before / 2);
                    }
                    back = before;
                }
                return Some(format!("{to} -> {text}"));
            }
            for (next, edge) in &self.edges[node] {
                let next = place(*next, *edge == Edge::ReadWrite);
                if core[next / 2] && allows(*edge, after_read_write) && next != start && came[next].is_none()
                {
                    came[next] = Some((at, *edge));
                    queue.push_back(next);
                }
            }
        }
        None
    }
}

/// Who wrote what is at a place of a list, if that was committed.
fn writers_at(
    writers: &HashMap<(&str, u64), Writer>,
    history: &[Txn],
    key: &str,
    order: &[u64],
    at: usize,
) -> Option<usize> {
    let writer = writers.get(&(key, *order.get(at)?))?;
    history[writer.txn].committed.then_some(writer.txn)
}
