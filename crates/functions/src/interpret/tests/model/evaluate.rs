//! What an instance does, computed the simple way.
//!
//! A node is a function of the moment at which it begins and the moment at which something around it cuts it off. A
//! RACE evaluates both branches, sees who is first, and evaluates the loser again up to that moment.

use std::collections::BTreeMap;

use super::super::build::N;
use super::super::chance::Chance;
use super::super::world::{json, one, rows};
use super::{Story, Time};
use crate::json::Json;
use crate::substitute::{self, Environment};
use crate::truth::is_true;

/// A step that was asked for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Step {
    pub(super) at: Time,
    pub(super) cell: String,
    pub(super) text: String,
}

/// How long a step takes, and what comes of it.
pub(in super::super) fn behaviour(
    seed: u64,
    cell: &str,
    count: u32,
    text: &str,
) -> (Time, Result<Json, String>) {
    let place = format!("{cell} {count}");
    let hash = place.bytes().fold(seed, |hash, byte| hash.wrapping_mul(31).wrapping_add(u64::from(byte)));
    let mut chance = Chance::new(hash);
    let takes = chance.between(1, 2_000_000) as Time * 1_000;
    let result = if chance.one_in(8) {
        Err(format!("failure of {place}"))
    } else if text.starts_with("items") {
        let items: Vec<&str> =
            (0..chance.below(6)).map(|item| ["10", "11", "12", "13", "14", "15"][item]).collect();
        Ok(rows(&items))
    } else {
        Ok(one(chance.pick(&["0", "0", "1", "2"])))
    };
    (takes, result)
}

/// A moment at which a node is cut off. Whether it matters if something happens at that very moment.
#[derive(Clone, Copy)]
struct Until {
    time: Time,
    tie: bool,
}

/// How a node ends.
enum End {
    Done(Time, Result<Json, String>),
    /// By a BREAK.
    Left(Time, Json),
    Cut,
}

impl End {
    fn time(&self) -> Time {
        match self {
            End::Done(time, _) | End::Left(time, _) => *time,
            End::Cut => Time::MAX,
        }
    }
}

/// The names that a step sees, and those set since the branch began.
#[derive(Clone, Default)]
struct Names {
    seen: BTreeMap<String, Json>,
    own: BTreeMap<String, Json>,
}

impl Names {
    fn branch(&self) -> Names {
        Names { seen: self.seen.clone(), own: BTreeMap::new() }
    }

    fn set(&mut self, name: &str, value: Json) {
        self.seen.insert(name.to_owned(), value.clone());
        self.own.insert(name.to_owned(), value);
    }

    fn merge(&mut self, branch: Names) {
        for (name, value) in branch.own {
            self.set(&name, value);
        }
    }
}

struct Node {
    kind: &'static str,
    query: String,
    name: Option<String>,
    condition: Option<usize>,
    left: usize,
    right: usize,
    branches: Vec<usize>,
    waits: bool,
    in_loop: bool,
}

/// What has happened; goes back when a branch is evaluated again.
#[derive(Clone, Default)]
struct Past {
    steps: Vec<Step>,
    counts: BTreeMap<String, u32>,
    taken: BTreeMap<String, usize>,
}

pub(super) struct Evaluator<'a> {
    nodes: Vec<Node>,
    seed: u64,
    signals: &'a [(Time, String)],
    past: Past,
    executions: u64,
    budget: u32,
    /// The order of simultaneous things matters, or it takes too long.
    unclear: bool,
}

impl<'a> Evaluator<'a> {
    pub(super) fn new(graph: &N, seed: u64, signals: &'a [(Time, String)]) -> Evaluator<'a> {
        let mut nodes = Vec::new();
        number(graph, false, &mut nodes);
        let past = Past::default();
        Evaluator { nodes, seed, signals, past, executions: 1, budget: 1_500, unclear: false }
    }

    pub(super) fn story(mut self) -> Option<Story> {
        let until = Until { time: Time::MAX, tie: false };
        let end = match self.node(0, &[], 0, until, &mut Names::default()) {
            End::Done(time, result) => Some((time, result)),
            End::Left(..) => unreachable!("a BREAK without LOOP fails"),
            End::Cut => None,
        };
        let mut steps = self.past.steps;
        steps.sort();
        (!self.unclear).then_some(Story { steps, end, executions: self.executions })
    }

    fn node(&mut self, index: usize, items: &[u32], start: Time, until: Until, names: &mut Names) -> End {
        self.budget = self.budget.saturating_sub(1);
        self.unclear |= self.budget == 0;
        if self.is_cut(start, until) || self.unclear {
            return End::Cut;
        }
        let end = self.kind(index, items, start, until, names);
        if let (End::Done(_, Ok(value)), Some(name)) = (&end, &self.nodes[index].name) {
            names.set(name, value.clone());
        }
        end
    }

    fn is_cut(&mut self, time: Time, until: Until) -> bool {
        self.unclear |= time == until.time && until.tie;
        time >= until.time
    }

    fn kind(&mut self, index: usize, items: &[u32], start: Time, until: Until, names: &mut Names) -> End {
        let Node { kind, left, right, condition, .. } = self.nodes[index];
        let query = self.nodes[index].query.clone();
        match kind {
            "SQL" | "CALL" => self.step(index, items, start, until, names),
            "SLEEP" => {
                let end = start + nanoseconds(&query);
                if end > start && self.is_cut(end, until) {
                    return End::Cut;
                }
                End::Done(end, Ok(json(&format!(r#"{{"slept": true, "seconds": {query}}}"#))))
            }
            "SIGNAL" => self.wait(&query, start, until),
            "BREAK" => {
                if !self.nodes[index].in_loop {
                    return End::Done(start, Err("df.break() was called outside of a loop".to_owned()));
                }
                let value = substitute::value(&query, &environment(names)).unwrap();
                if let Some(name) = self.nodes[index].name.clone() {
                    names.set(&name, value.clone());
                }
                End::Left(start, value)
            }
            "THEN" => match self.node(left, items, start, until, names) {
                End::Done(time, Ok(_)) => self.node(right, items, time, until, names),
                other => other,
            },
            "IF" => {
                let (time, chosen) = match condition {
                    Some(condition) => match self.node(condition, items, start, until, names) {
                        End::Done(time, Ok(value)) => (time, is_true(&value)),
                        other => return other,
                    },
                    None => match names.seen.get(query.split('"').nth(7).unwrap()) {
                        Some(result) => (start, result.rows().is_some_and(|rows| !rows.is_empty())),
                        None => {
                            let name = query.split('"').nth(7).unwrap();
                            let text = format!(
                                "df.if_rows: no result is named {name:?} here: name one with |=> before"
                            );
                            return End::Done(start, Err(text));
                        }
                    },
                };
                self.node(if chosen { left } else { right }, items, time, until, names)
            }
            "JOIN" => self.join(index, items, start, until, names),
            "RACE" => self.race(index, items, start, until, names),
            "LOOP" => self.repeat(index, items, start, until, names),
            "RETRY" => {
                let (attempts, first) =
                    if query.contains("0.3") { (2, 300_000_000) } else { (3, 1_000_000_000) };
                let (mut time, mut backoff) = (start, first);
                for attempt in 1.. {
                    match self.node(left, items, time, until, names) {
                        End::Done(end, Err(_)) if attempt < attempts => time = end + backoff,
                        other => return other,
                    }
                    backoff *= 2;
                }
                unreachable!()
            }
            "CATCH" => match self.node(left, items, start, until, names) {
                End::Done(time, Err(message)) => {
                    let before = (names.own.get("error").cloned(), names.seen.get("error").cloned());
                    names.set("error", json(&format!("{{\"message\":{}}}", Json::string(&message))));
                    let end = self.node(right, items, time, until, names);
                    restore(&mut names.own, before.0);
                    restore(&mut names.seen, before.1);
                    end
                }
                other => other,
            },
            "TIMEOUT" => {
                let seconds = query.split(':').nth(1).unwrap().trim_end_matches('}').to_owned();
                let limit = start + nanoseconds(&seconds);
                let sooner = if limit < until.time { Until { time: limit, tie: true } } else { until };
                match self.node(left, items, start, sooner, names) {
                    End::Cut if !self.is_cut(limit, until) => {
                        End::Done(limit, Err(format!("df.timeout: not finished within {seconds} s")))
                    }
                    other => other,
                }
            }
            "MAP" => self.map(index, items, start, until, names),
            other => unreachable!("{other}"),
        }
    }

    fn step(&mut self, index: usize, items: &[u32], start: Time, until: Until, names: &Names) -> End {
        let cell = cell(index, items);
        let text = match self.nodes[index].kind {
            "CALL" => format!("child {cell}"),
            _ => match substitute::sql(&self.nodes[index].query, None, &environment(names)) {
                Ok(text) => text,
                Err(error) => panic!("{error}"),
            },
        };
        // Names that hold each other double with every round.
        self.unclear |= text.len() > 100_000;
        let count = self.past.counts.entry(cell.clone()).or_default();
        *count += 1;
        let (takes, result) = behaviour(self.seed, &cell, *count, &text);
        self.past.steps.push(Step { at: start, cell, text });
        match self.is_cut(start + takes, until) {
            true => End::Cut,
            false => End::Done(start + takes, result),
        }
    }

    fn wait(&mut self, query: &str, start: Time, until: Until) -> End {
        let name = query.split('"').nth(3).unwrap().to_owned();
        let timeout = query.split("seconds\":").nth(1).map(|text| nanoseconds(text.trim_end_matches('}')));
        let taken = self.past.taken.get(&name).copied().unwrap_or(0);
        let arrival =
            self.signals.iter().filter(|(_, other)| *other == name).nth(taken).map(|(time, _)| *time);
        let limit = timeout.map_or(Time::MAX, |timeout| start + timeout);
        let end = arrival.map_or(Time::MAX, |arrival| arrival.max(start)).min(limit);
        self.unclear |= arrival == Some(limit) || arrival == Some(start);
        if end == Time::MAX || (end > start && self.is_cut(end, until)) {
            return End::Cut;
        }
        let timed_out = arrival.is_none_or(|arrival| arrival > end);
        if !timed_out {
            *self.past.taken.entry(name.clone()).or_default() += 1;
        }
        let data = if timed_out { "null" } else { "1" };
        End::Done(
            end,
            Ok(json(&format!(r#"{{"signal_name": "{name}", "timed_out": {timed_out}, "data": {data}}}"#))),
        )
    }

    fn race(&mut self, index: usize, items: &[u32], start: Time, until: Until, names: &mut Names) -> End {
        let Node { left, right, .. } = self.nodes[index];
        let before = self.past.clone();
        let mut ends = Vec::new();
        for branch in [left, right] {
            self.past = before.clone();
            ends.push(self.node(branch, items, start, until, &mut names.branch()).time());
        }
        self.unclear |= ends[0] == ends[1] && ends[0] > start && ends[0] < Time::MAX;
        let (winner, loser) = if ends[0] <= ends[1] { (left, right) } else { (right, left) };
        let first = ends[0].min(ends[1]);
        self.past = before;
        if first == Time::MAX {
            self.node(left, items, start, until, &mut names.branch());
            self.node(right, items, start, until, &mut names.branch());
            return End::Cut;
        }
        // A wait on the left takes its signal before the right wins in no time.
        self.unclear |= first == start && winner == right && self.nodes[left].waits;
        self.node(loser, items, start, Until { time: first, tie: first > start }, &mut names.branch());
        let mut branch = names.branch();
        let end = self.node(winner, items, start, until, &mut branch);
        if !matches!(end, End::Done(_, Err(_))) {
            names.merge(branch);
        }
        end
    }

    fn join(&mut self, index: usize, items: &[u32], start: Time, until: Until, names: &mut Names) -> End {
        let branches = self.nodes[index].branches.clone();
        let before = self.past.clone();
        let mut done = Vec::new();
        let mut left: Option<(Time, usize)> = None;
        for (place, branch) in branches.iter().enumerate() {
            let mut own = names.branch();
            let end = self.node(*branch, items, start, until, &mut own);
            if let End::Left(time, _) = end {
                self.unclear |= left.is_some_and(|(other, _)| other == time && time > start);
                if left.is_none_or(|(other, _)| time < other) {
                    left = Some((time, place));
                }
            }
            done.push((end, own));
        }
        if let Some((time, place)) = left {
            self.past = before;
            for (other, branch) in branches.iter().enumerate().filter(|(other, _)| *other != place) {
                self.unclear |= time == start && other < place && self.nodes[*branch].waits;
                self.node(*branch, items, start, Until { time, tie: time > start }, &mut names.branch());
            }
            let mut own = names.branch();
            let end = self.node(branches[place], items, start, until, &mut own);
            names.merge(own);
            return end;
        }
        let last = done.iter().map(|(end, _)| end.time()).max().unwrap();
        if last == Time::MAX {
            return End::Cut;
        }
        let mut results = Vec::new();
        for (end, _) in &done {
            match end {
                End::Done(_, Ok(result)) => results.push(result.text()),
                End::Done(_, Err(message)) => return End::Done(last, Err(message.clone())),
                End::Left(..) | End::Cut => unreachable!(),
            }
        }
        let result = json(&format!("[{}]", results.join(",")));
        self.unclear |= result.text().len() > 100_000;
        for (_, own) in done {
            names.merge(own);
        }
        End::Done(last, Ok(result))
    }

    fn repeat(&mut self, index: usize, items: &[u32], start: Time, until: Until, names: &mut Names) -> End {
        let Node { left: body, condition, .. } = self.nodes[index];
        let lenient = self.nodes[index].query.contains("continue_on_failure");
        let mut began = start;
        for iteration in 1.. {
            if index == 0 {
                self.executions = iteration;
            }
            let (mut time, result) = match self.node(body, items, began, until, names) {
                End::Done(time, Err(message)) if !lenient => return End::Done(time, Err(message)),
                End::Done(time, result) => (time, result),
                End::Left(time, value) => return End::Done(time, Ok(value)),
                End::Cut => return End::Cut,
            };
            if let Some(condition) = condition {
                match self.node(condition, items, time, until, names) {
                    End::Done(end, Ok(value)) if is_true(&value) => time = end,
                    End::Done(end, Ok(_)) => {
                        return End::Done(end, Ok(result.unwrap_or_else(|_| Json::null())))
                    }
                    End::Left(end, value) => return End::Done(end, Ok(value)),
                    other => return other,
                }
            }
            began = time.max(began + 1_000_000_000);
        }
        unreachable!()
    }

    fn map(&mut self, index: usize, items: &[u32], start: Time, until: Until, names: &mut Names) -> End {
        let condition = self.nodes[index].condition.unwrap();
        let (start, rows) = match self.node(condition, items, start, until, names) {
            End::Done(time, Ok(result)) => (time, result.rows().unwrap()),
            other => return other,
        };
        let rows: Vec<Json> = rows.iter().map(|row| one(row.values().next().unwrap().text())).collect();
        let before = self.past.clone();
        let (end, leaver) = self.items(index, items, start, until, names, &rows, None);
        match (end.time(), leaver) {
            // Once more, with the others cut off at the moment when this one leaves.
            (time, Some(leaver)) => {
                self.past = before;
                self.items(index, items, start, until, names, &rows, Some((time, leaver))).0
            }
            _ => end,
        }
    }

    /// The items of a MAP, of which one leaves at a known moment; and which one does leave.
    #[allow(clippy::too_many_arguments, reason = "it is the inner half of `map`")]
    fn items(
        &mut self,
        index: usize,
        items: &[u32],
        start: Time,
        until: Until,
        names: &Names,
        rows: &[Json],
        leaving: Option<(Time, usize)>,
    ) -> (End, Option<usize>) {
        let parallelism = self.nodes[index].query.split("parallelism\":").nth(1).unwrap();
        let parallelism: usize = parallelism.trim_end_matches('}').parse().unwrap();
        let body = self.nodes[index].left;
        let mut running: Vec<(usize, End)> = Vec::new();
        let mut results: BTreeMap<usize, Result<Json, String>> = BTreeMap::new();
        let (mut next, mut now) = (0, start);
        loop {
            let failed = results.values().any(Result::is_err);
            while running.len() < parallelism && next < rows.len() && !failed {
                let mut own = names.branch();
                own.set("item", rows[next].clone());
                let inside = [items, &[next as u32]].concat();
                let cut = match leaving {
                    Some((time, leaver)) if leaver != next => Until { time, tie: true },
                    _ => until,
                };
                running.push((next, self.node(body, &inside, now, cut, &mut own)));
                next += 1;
            }
            let Some(first) = (0..running.len()).min_by_key(|&place| running[place].1.time()) else { break };
            let (item, end) = running.remove(first);
            self.unclear |=
                end.time() < Time::MAX && running.iter().any(|(_, other)| other.time() == end.time());
            match end {
                End::Done(time, result) => {
                    now = time;
                    results.insert(item, result);
                }
                End::Left(..) => return (end, Some(item)),
                End::Cut => return (End::Cut, None),
            }
        }
        let mut texts = Vec::new();
        for result in results.into_values() {
            match result {
                Ok(result) => texts.push(result.text().to_owned()),
                Err(message) => return (End::Done(now, Err(message)), None),
            }
        }
        (End::Done(now, Ok(json(&format!("[{}]", texts.join(","))))), None)
    }
}

/// Numbers the nodes as the flattened graph does.
fn number(node: &N, inside: bool, nodes: &mut Vec<Node>) -> usize {
    let index = nodes.len();
    let query = node.query.clone().unwrap_or_default();
    nodes.push(Node {
        kind: node.kind,
        query,
        name: node.name.clone(),
        condition: None,
        left: 0,
        right: 0,
        branches: Vec::new(),
        waits: node.kind == "SIGNAL",
        in_loop: inside,
    });
    let inside = node.kind == "LOOP" || (inside && node.kind != "CALL");
    let mut child = |node: &N| {
        let child = number(node, inside, nodes);
        nodes[index].waits |= nodes[child].waits;
        child
    };
    let condition = node.condition.as_deref().map(&mut child);
    let left = node.left.as_deref().map(&mut child);
    let right = node.right.as_deref().map(&mut child);
    let extra: Vec<usize> = node.extra.iter().map(&mut child).collect();
    nodes[index].condition = condition;
    nodes[index].left = left.unwrap_or(0);
    nodes[index].right = right.unwrap_or(0);
    nodes[index].branches = left.into_iter().chain(right).chain(extra).collect();
    index
}

fn cell(index: usize, items: &[u32]) -> String {
    let items: Vec<String> = items.iter().map(ToString::to_string).collect();
    match items.is_empty() {
        true => index.to_string(),
        false => format!("{index}@{}", items.join(".")),
    }
}

fn environment(names: &Names) -> Environment {
    Environment { results: names.seen.clone(), ..Environment::default() }
}

fn restore(names: &mut BTreeMap<String, Json>, before: Option<Json>) {
    match before {
        Some(before) => names.insert("error".to_owned(), before),
        None => names.remove("error"),
    };
}

fn nanoseconds(text: &str) -> Time {
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, "0"));
    seconds.parse::<Time>().unwrap() * 1_000_000_000 + format!("{fraction:0<9}").parse::<Time>().unwrap()
}
