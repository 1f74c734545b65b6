//! Conflicts that are decided by rules: for which keys, and how.

use std::collections::HashSet;

use serde_json::Value as JsonValue;

use super::{Conflict, Resolution};
use crate::diff::Part;
use crate::display::display_value;
use crate::error::StoreError;
use crate::keys::Primitive;

/// How a rule decides about what both sides changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// What the branch that is merged into has.
    Ours,
    /// What the branch that is merged has.
    Theirs,
    /// What was written last, by the versions of the store.
    Latest,
    /// Integers are counters: what each side added is added, also if both have the same now. Where one side has deleted a counter, or
    /// has something else than an integer, the conflict stays. For pairs and cells, in merges of everything between a branch and the
    /// one that it was forked from: of others it is not remembered what was added, and it would be added again. For the same reason,
    /// do not merge a part of what holds counters, or between other branches, without this rule.
    Add,
    /// Arrays are sets: what a side put in is in, what a side took out is not. In the order of the target, then of the source. Where
    /// one side has something else than an array, the conflict stays. For pairs, cells and whole documents.
    Union,
}

impl std::str::FromStr for Decision {
    type Err = StoreError;

    fn from_str(text: &str) -> Result<Self, StoreError> {
        match text {
            "ours" => Ok(Self::Ours),
            "theirs" => Ok(Self::Theirs),
            "latest" => Ok(Self::Latest),
            "add" => Ok(Self::Add),
            "union" => Ok(Self::Union),
            _ => {
                let reason = format!("unknown decision {text:?}: use ours, theirs, latest, add or union");
                Err(StoreError::InvalidInput { what: "a rule", reason })
            }
        }
    }
}

/// A rule of a merge: what it is about, and how it decides.
///
/// As text, `KIND:SPACE:PREFIX=DECISION`, of which SPACE and PREFIX may be left out from the end, and KIND may be empty for all kinds.
///
/// ```
/// use duramen_store::{Decision, MergeOptions, Rule, Scope, Store};
/// let store = Store::memory();
/// let main = store.branch("main")?;
/// main.kv().put("stock/apples", 10)?;
/// let other = main.fork("other")?;
/// main.kv().add("stock/apples", -1)?;
/// other.kv().add("stock/apples", -1)?;
/// let rules = vec!["kv:default:stock/=add".parse::<Rule>()?];
/// store.merge("other", "main", MergeOptions { rules, ..MergeOptions::default() })?;
/// assert_eq!(main.kv().get("stock/apples")?, Some(8.into()));
/// # Ok::<(), duramen_store::StoreError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The keys that it decides about; all of them by default.
    pub part: Part,
    /// How it decides.
    pub decision: Decision,
}

impl std::str::FromStr for Rule {
    type Err = StoreError;

    fn from_str(text: &str) -> Result<Self, StoreError> {
        let refused = |reason: String| StoreError::InvalidInput { what: "a rule", reason };
        let (about, decision) = text
            .rsplit_once('=')
            .ok_or_else(|| refused(format!("{text} is not KIND:SPACE:PREFIX=DECISION")))?;
        let mut parts = about.splitn(3, ':');
        let mut next = || parts.next().filter(|part| !part.is_empty()).map(str::to_owned);
        let primitive = next().map(|kind| kind.parse::<Primitive>());
        let primitive = primitive.transpose().map_err(|error| refused(error.to_string()))?;
        let part = Part { primitive, space: next(), prefix: next() };
        Ok(Self { part, decision: decision.parse()? })
    }
}

/// Versions of the two sides; none of what is not there.
#[derive(Clone, Copy)]
pub(super) struct Versions {
    pub(super) ours: Option<u64>,
    pub(super) theirs: Option<u64>,
}

/// The first rule that is about a key.
pub(super) fn find<'r>(
    rules: &'r [Rule],
    primitive: Primitive,
    space: &str,
    rest: &[u8],
) -> Option<&'r Rule> {
    rules.iter().find(|rule| {
        let part = &rule.part;
        part.primitive.is_none_or(|it| it == primitive)
            && part.space.as_ref().is_none_or(|it| it == space)
            && part.has(rest)
    })
}

impl Rule {
    /// What it decides.
    pub(super) fn decide(&self, conflict: &Conflict, versions: Versions) -> Result<Resolution, StoreError> {
        let (base, ours, theirs) = (&conflict.base, &conflict.ours, &conflict.theirs);
        let [base, ours, theirs] = [base, ours, theirs]
            .map(|side| side.as_ref().map(|shown| shown_value(conflict.primitive, shown)));
        let sides = (ours, theirs);
        let is_value = matches!(conflict.primitive, Primitive::Kv | Primitive::State);
        Ok(match self.decision {
            Decision::Ours => Resolution::Ours,
            Decision::Theirs => Resolution::Theirs,
            // A deletion has no version: what is there is later as far as anybody can tell.
            Decision::Latest if versions.ours >= versions.theirs => Resolution::Ours,
            Decision::Latest => Resolution::Theirs,
            Decision::Add if is_value => match sides {
                (Some(ours), Some(theirs)) => sum(conflict, base, ours, theirs)?,
                _ => Resolution::Unresolved,
            },
            Decision::Union if is_value || conflict.primitive == Primitive::Json => match sides {
                (Some(JsonValue::Array(ours)), Some(JsonValue::Array(theirs))) => union(base, ours, theirs),
                _ => Resolution::Unresolved,
            },
            Decision::Add | Decision::Union => Resolution::Unresolved,
        })
    }
}

fn sum(
    conflict: &Conflict,
    base: Option<&JsonValue>,
    ours: &JsonValue,
    theirs: &JsonValue,
) -> Result<Resolution, StoreError> {
    let base = base.map_or(Some(0), JsonValue::as_i64);
    let (Some(base), Some(ours), Some(theirs)) = (base, ours.as_i64(), theirs.as_i64()) else {
        return Ok(Resolution::Unresolved);
    };
    let sum = i128::from(ours) + i128::from(theirs) - i128::from(base);
    let sum = i64::try_from(sum).map_err(|_| StoreError::InvalidInput {
        what: "a merge of counters",
        reason: format!("{sum} for {}/{} does not fit in 64 bits", conflict.space, conflict.key),
    })?;
    Ok(Resolution::Value(sum.into()))
}

fn union(base: Option<&JsonValue>, ours: &[JsonValue], theirs: &[JsonValue]) -> Resolution {
    // By their text, which is one for one value: arrays may have a million elements.
    let set = |elements: &[JsonValue]| elements.iter().map(JsonValue::to_string).collect::<HashSet<_>>();
    let base = set(base.and_then(JsonValue::as_array).map_or(&[], Vec::as_slice));
    let (in_ours, in_theirs) = (set(ours), set(theirs));
    let mut seen = HashSet::new();
    let mut stays = |element: &&JsonValue| {
        let text = element.to_string();
        let is_wanted = !base.contains(&text) || in_ours.contains(&text) && in_theirs.contains(&text);
        is_wanted && seen.insert(text)
    };
    let all: Vec<JsonValue> = ours.iter().chain(theirs).filter(|element| stays(element)).cloned().collect();
    Resolution::Value(all.into())
}

/// The value of what a conflict shows: a cell is shown with how often it was written. Null, which is no counter and no set, for what
/// cannot be shown.
fn shown_value(primitive: Primitive, shown: &JsonValue) -> &JsonValue {
    match primitive {
        Primitive::State => shown.get("value").unwrap_or(&JsonValue::Null),
        _ => shown,
    }
}

/// Whether the value of an entry is one that [`Decision::Add`] adds to.
pub(super) fn is_counter(primitive: Primitive, bytes: &[u8]) -> bool {
    let is_value = matches!(primitive, Primitive::Kv | Primitive::State);
    is_value && shown_value(primitive, &display_value(primitive, bytes)).is_i64()
}
