//! How a query is done: by which index, between which entries.

use std::fmt;

use serde_json::Value;

use super::declared::Declared;
use super::encoding::{encode, NUMBER, TEXT};
use super::query::Query;
use crate::filter::{Condition, Filter, FilterOp};
use crate::kv::end_of;

/// How a query is done.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The index that is read; none if all rows are.
    pub index: Option<String>,
    /// The conditions that the index decides.
    pub decided: Filter,
    /// The conditions that each row is held against.
    pub tested: Filter,
    /// Whether the rows have to be sorted: all that fulfil the conditions are read before the first is known.
    pub is_sorted: bool,
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.index {
            Some(index) => write!(f, "index {index}")?,
            None => f.write_str("all rows")?,
        }
        if !self.decided.is_empty() {
            write!(f, " for {}", self.decided)?;
        }
        if !self.tested.is_empty() {
            write!(f, ", each held against {}", self.tested)?;
        }
        f.write_str(if self.is_sorted { ", then sorted" } else { ", in its order" })
    }
}

/// Entries of an index, behind the values that are equal: from the first on, until the first that is too much.
pub(super) type Stretch = (Vec<u8>, Vec<u8>);

/// An index, and the part of it that a query needs.
pub(super) struct Way<'d> {
    pub(super) declared: &'d Declared,
    /// In the order of the index. They do not overlap.
    pub(super) stretches: Vec<Stretch>,
    pub(super) plan: Plan,
    /// Of an index that has the order of the query: what the keys of its entries begin with before that.
    pub(super) ordered_behind: Option<Vec<u8>>,
    /// Fields that are equal, whether a further one is bounded, and whether the order is the query's.
    worth: (usize, bool, bool),
}

/// The best way of a query through one of the indexes; none if no index helps.
pub(super) fn choose<'d>(query: &Query, all: &'d [Declared]) -> Option<Way<'d>> {
    let ways = all.iter().filter_map(|declared| way(query, declared));
    // Of two that are worth the same, the one with fewer fields has the shorter entries; then the name decides.
    ways.max_by(|a, b| {
        let fields = |way: &Way<'_>| way.declared.index.fields.len();
        let name = |way: &Way<'_>| way.declared.name.clone();
        a.worth.cmp(&b.worth).then_with(|| fields(b).cmp(&fields(a))).then_with(|| name(b).cmp(&name(a)))
    })
}

/// The plan of a query that reads all rows.
pub(super) fn without_index(query: &Query) -> Plan {
    let (tested, is_sorted) = (query.filter.clone(), !query.order.is_empty());
    Plan { index: None, decided: Filter::default(), tested, is_sorted }
}

fn way<'d>(query: &Query, declared: &'d Declared) -> Option<Way<'d>> {
    let index = &declared.index;
    let conditions = &query.filter.conditions;
    if !index.only.conditions.iter().all(|condition| conditions.contains(condition)) {
        return None;
    }
    let mut decided: Vec<&Condition> = index.only.conditions.iter().collect();
    let mut start = declared.entries().to_vec();
    let mut equal = 0;
    // Fields that are equal may stand in the order as well, and say nothing there.
    let in_order = |at: usize| index.fields[at..] == query.order[..];
    let mut ordered_behind = in_order(0).then(|| start.clone());
    for field in &index.fields {
        let is_equal = |it: &&Condition| it.field == *field && it.op == FilterOp::Eq;
        let Some(condition) = conditions.iter().find(is_equal) else { break };
        encode(Some(&condition.value), &mut start);
        decided.push(condition);
        equal += 1;
        if in_order(equal) {
            ordered_behind = Some(start.clone());
        }
    }
    let rest = &index.fields[equal..];
    let bounds = rest.first().map_or(Bounds::default(), |field| bounds(field, conditions, &start));
    let has_order = ordered_behind.is_some();
    let saves_sorting = has_order && !query.order.is_empty();
    if equal == 0 && bounds.stretches.is_none() && !saves_sorting {
        return None;
    }
    decided.extend(bounds.decided);
    let worth = (equal, bounds.stretches.is_some(), has_order);
    // Behind the values come the keys.
    let all = if rest.is_empty() { [&start[..], &query.prefix].concat() } else { start };
    let stretches = bounds.stretches.unwrap_or_else(|| vec![(all.clone(), end_of(&all))]);
    let (decided, tested): (Vec<_>, Vec<_>) =
        conditions.iter().cloned().partition(|condition| decided.contains(&condition));
    let plan = Plan {
        index: Some(declared.name.clone()),
        decided: Filter { conditions: decided },
        tested: Filter { conditions: tested },
        is_sorted: !has_order,
    };
    Some(Way { declared, stretches, plan, ordered_behind, worth })
}

/// What bounds a field that is not equal to a value.
#[derive(Default)]
struct Bounds<'q> {
    stretches: Option<Vec<Stretch>>,
    decided: Vec<&'q Condition>,
}

/// `before` is what the keys of the entries begin with before the field.
fn bounds<'q>(field: &str, conditions: &'q [Condition], before: &[u8]) -> Bounds<'q> {
    let of_field = || conditions.iter().filter(|condition| condition.field == field);
    let with = |value: &Value| {
        let mut key = before.to_vec();
        encode(Some(value), &mut key);
        key
    };
    if let Some(condition) = of_field().find(|condition| condition.op == FilterOp::In) {
        let list = condition.value.as_array().map_or(&[][..], Vec::as_slice);
        let mut starts: Vec<Vec<u8>> = list.iter().map(with).collect();
        starts.sort();
        starts.dedup();
        let stretches = starts.into_iter().map(|start| (start.clone(), end_of(&start))).collect();
        return Bounds { stretches: Some(stretches), decided: vec![condition] };
    }
    let (mut found, mut decided): (Option<Stretch>, Vec<&Condition>) = (None, Vec::new());
    for condition in of_field() {
        let kind = match condition.value {
            Value::Number(_) => NUMBER,
            Value::String(_) => TEXT,
            // Nothing else is above or below anything.
            _ => 0,
        };
        let (low, high) = ([before, &[kind]].concat(), [before, &[kind + 1]].concat());
        let at = with(&condition.value);
        let (start, end) = match condition.op {
            FilterOp::Gt | FilterOp::Gte | FilterOp::Lt | FilterOp::Lte if kind == 0 => {
                (before.to_vec(), before.to_vec())
            }
            FilterOp::Gt => (end_of(&at), high),
            FilterOp::Gte => (at, high),
            FilterOp::Lt => (low, at),
            FilterOp::Lte => (low, end_of(&at)),
            FilterOp::Eq | FilterOp::Ne | FilterOp::In | FilterOp::Contains => continue,
        };
        decided.push(condition);
        found = Some(match found {
            None => (start, end),
            Some((other_start, other_end)) => (start.max(other_start), end.min(other_end)),
        });
    }
    Bounds { stretches: found.map(|stretch| vec![stretch]), decided }
}
