//! Which objects are dropped, made and altered, and in which order.

use super::{differing, is_described, risks, Step, Warning};
use crate::{
    catalogue::{Catalogue, Key, Kind, Object},
    statements::{self, alterable, grants},
};
use std::collections::{BTreeMap, BTreeSet};

/// What becomes of the objects of two catalogues. An object that is in `gone` and in `made` is dropped and made again.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) from: Catalogue,
    pub(crate) to: Catalogue,
    /// Objects of the first side that end.
    pub(crate) gone: BTreeSet<Key>,
    /// Objects of the second side that begin.
    pub(crate) made: BTreeSet<Key>,
    /// Objects of both that are altered in place.
    pub(crate) altered: BTreeSet<Key>,
    /// Columns that get another type, or their type anew.
    pub(crate) retyped: BTreeSet<Key>,
    /// Tables that get another place below a parent, or none.
    pub(crate) moved: BTreeSet<Key>,
}

impl Plan {
    pub(crate) fn new(from: &Catalogue, to: &Catalogue) -> Plan {
        let mut plan = Plan {
            from: from.clone(),
            to: to.clone(),
            gone: BTreeSet::new(),
            made: BTreeSet::new(),
            altered: BTreeSet::new(),
            retyped: BTreeSet::new(),
            moved: BTreeSet::new(),
        };
        plan.note_moves();
        plan.compare();
        plan.close();
        plan
    }

    /// Tables that change parents. What they have because of their parents becomes their own when they leave; what their
    /// new parents demand they must have before.
    fn note_moves(&mut self) {
        let mut left = BTreeSet::new();
        let mut entered = BTreeSet::new();
        for (key, after) in self.to.objects.iter().filter(|(key, _)| key.kind == Kind::Table) {
            let Some(before) = self.from.get(key) else { continue };
            let parents_differ = before.get("parents") != after.get("parents");
            if !parents_differ && before.get("bound") == after.get("bound") {
                continue;
            }
            self.moved.insert(key.clone());
            if parents_differ && before.has("parents") {
                left.insert(key.clone());
            }
            if parents_differ && after.has("parents") {
                entered.insert(key.clone());
            }
        }
        let is_of = |object: &Object, tables: &BTreeSet<Key>| {
            object.derived && object.parent.as_ref().is_some_and(|parent| tables.contains(parent))
        };
        // The server drops the triggers that a partition has of its parent when it leaves.
        self.from.objects.retain(|key, object| key.kind != Kind::Trigger || !is_of(object, &left));
        for (key, object) in &mut self.from.objects {
            if is_of(object, &left) {
                object.derived = false;
                object.needs.retain(|need| need.kind != key.kind);
                if key.kind == Kind::Column {
                    object.properties.remove("identity");
                    object.properties.remove("identity sequence");
                }
            }
        }
        for (key, object) in &mut self.to.objects {
            let demanded = key.kind == Kind::Column || object.get("is") == Some("check");
            if demanded && is_of(object, &entered) {
                object.derived = false;
                if key.kind == Kind::Column {
                    object.properties.remove("identity");
                    object.properties.remove("identity sequence");
                }
            }
        }
    }

    fn compare(&mut self) {
        let keys: BTreeSet<&Key> = self.from.objects.keys().chain(self.to.objects.keys()).collect();
        for key in keys {
            match (self.from.get(key), self.to.get(key)) {
                (Some(before), None) if !before.derived => drop(self.gone.insert(key.clone())),
                (None, Some(after)) if !after.derived => drop(self.made.insert(key.clone())),
                (Some(before), Some(after)) => {
                    if key.kind == Kind::Column && retypes(before, after) {
                        self.retyped.insert(key.clone());
                    }
                    match (before.derived, after.derived) {
                        (false, true) if key.kind != Kind::Column => {
                            // A parent's takes its place. An equal one is adopted, except for triggers.
                            if key.kind == Kind::Trigger || before.properties != after.properties {
                                self.gone.insert(key.clone());
                            }
                        }
                        (true, false) if key.kind != Kind::Column => {
                            self.gone.insert(key.clone());
                            self.made.insert(key.clone());
                        }
                        _ => {
                            let differing = differing(key, before, after);
                            if differing.is_empty() {
                                continue;
                            }
                            if alterable(key, before, after, &differing) {
                                self.altered.insert(key.clone());
                            } else {
                                self.gone.insert(key.clone());
                                self.made.insert(key.clone());
                            }
                        }
                    }
                }
                _ => {}
            }
        }
    }

    /// Adds what depends on what is gone, or on columns that get another type.
    fn close(&mut self) {
        let mut dependents: BTreeMap<Key, Vec<Key>> = BTreeMap::new();
        for (key, object) in &self.from.objects {
            for need in &object.needs {
                dependents.entry(need.clone()).or_default().push(key.clone());
            }
        }
        let mut work: Vec<Key> = self.gone.iter().chain(&self.retyped).cloned().collect();
        while let Some(key) = work.pop() {
            let is_gone = self.gone.contains(&key);
            for other in dependents.get(&key).into_iter().flatten() {
                if self.gone.contains(other) {
                    continue;
                }
                if is_gone {
                    if key.kind.is_type() && other.kind == Kind::Column && self.keeps_column(&key, other) {
                        // Its rows are kept: it moves to the type that takes the place of this one.
                        if self.retyped.insert(other.clone()) {
                            work.push(other.clone());
                        }
                        continue;
                    }
                    if key.kind == Kind::Table && other.kind == Kind::Table && self.moved.contains(other) {
                        // It leaves before.
                        continue;
                    }
                    // Whatever an extension's end takes with it, what is in its schema stays.
                    if key.kind == Kind::Schema
                        && other.kind == Kind::Extension
                        && self.to.get(other).is_some()
                    {
                        continue;
                    }
                } else if key.kind == Kind::Column {
                    let is_derived = other.kind == Kind::Column
                        && self
                            .from
                            .get(other)
                            .is_some_and(|it| it.derived && it.text("generated").is_empty());
                    if is_derived {
                        if self.retyped.insert(other.clone()) {
                            work.push(other.clone());
                        }
                        continue;
                    }
                    let rebuilt_by_itself = matches!(
                        other.kind,
                        Kind::Constraint | Kind::Index | Kind::Statistics | Kind::Ownership | Kind::Table
                    );
                    if rebuilt_by_itself {
                        continue;
                    }
                }
                self.gone.insert(other.clone());
                self.altered.remove(other);
                self.retyped.remove(other);
                if self.to.get(other).is_some_and(|it| !it.derived) {
                    self.made.insert(other.clone());
                }
                work.push(other.clone());
            }
        }
        let derived = |key: &Key| self.to.get(key).is_some_and(|it| it.derived);
        self.altered.extend(self.retyped.iter().filter(|key| !derived(key)).cloned());
    }

    /// Whether a column whose type ends goes on with another.
    fn keeps_column(&self, of_type: &Key, column: &Key) -> bool {
        let Some(after) = self.to.get(column) else { return false };
        !after.has("generated") && (self.made.contains(of_type) || self.retyped.contains(column))
    }

    /// Whether columns move from a type to the one that takes its place.
    fn has_columns(&self, key: &Key) -> bool {
        self.retyped.iter().any(|it| self.from.get(it).is_some_and(|column| column.needs.contains(key)))
    }

    /// Whether an object of the first side ends with what it is a part of.
    fn goes_with_parent(&self, key: &Key) -> bool {
        let Some(object) = self.from.get(key) else { return false };
        if object.derived {
            return true;
        }
        let Some(parent) = &object.parent else { return self.goes_with_owner(key) };
        if key.kind == Kind::Ownership && self.goes_with_owner(parent) {
            return true;
        }
        if !self.gone.contains(parent) {
            return parent.kind == Kind::Column
                && self.from.get(parent).is_none()
                && self.view_is_gone(object);
        }
        let root = self.root(key);
        // What is wanted gone besides must be free of it first.
        let stands_in_way = |need: &Key| {
            self.gone.contains(need)
                && self.root(need) != root
                && !self.is_around(need)
                && !self.goes_with_owner(need)
        };
        !object.needs.iter().any(stands_in_way)
    }

    /// Schemas, types and extensions go last.
    fn is_around(&self, key: &Key) -> bool {
        matches!(key.kind, Kind::Schema | Kind::Extension) || key.kind.is_type()
    }

    fn view_is_gone(&self, default: &Object) -> bool {
        default.needs.iter().any(|need| need.kind == Kind::View && self.gone.contains(need))
    }

    /// A sequence goes with the column that owns it if nothing else uses it.
    fn goes_with_owner(&self, key: &Key) -> bool {
        if key.kind != Kind::Sequence {
            return false;
        }
        let owner = Key::new(Kind::Ownership, key.name.clone());
        let Some(column) = self.from.get(&owner).map(|it| Key::new(Kind::Column, it.text("column"))) else {
            return false;
        };
        let root = self.root(&column);
        root != column
            && self.gone.contains(&root)
            && self.from.objects.iter().all(|(other, object)| {
                *other == owner || !object.needs.contains(key) || self.root(other) == root
            })
    }

    /// The outermost object that an object of the first side is a part of.
    fn root(&self, key: &Key) -> Key {
        let mut key = key;
        while let Some(parent) = self.from.get(key).and_then(|it| it.parent.as_ref()) {
            key = parent;
        }
        key.clone()
    }

    /// Whether a default is written with its column.
    pub(crate) fn is_inline(&self, default: &Key) -> bool {
        let column = Key::new(Kind::Column, default.name.clone());
        let Some(object) = self.to.get(&column) else { return false };
        if !self.made.contains(&column) || object.derived {
            return false;
        }
        let table_is_new = object.parent.as_ref().is_some_and(|table| self.made.contains(table));
        let simple = |need: &Key| need.kind != Kind::Function;
        !table_is_new || self.to.get(default).is_some_and(|it| it.needs.iter().all(simple))
    }

    /// The statements, and what to know of them.
    pub(crate) fn write(&self) -> (Vec<Step>, Vec<Warning>) {
        let mut ahead = Vec::new();
        let mut steps = Vec::new();
        let drops: Vec<Key> = self.from.in_order(&BTreeMap::new()).into_iter().rev().collect();
        let explicit: Vec<&Key> =
            drops.iter().filter(|key| self.gone.contains(*key) && !self.goes_with_parent(key)).collect();
        // Schemas, types and extensions that end, with what they need, end last: columns leave them first.
        let mut late: BTreeSet<&Key> = BTreeSet::new();
        for key in &explicit {
            let is_replaced = self.made.contains(*key);
            let needed =
                late.iter().any(|other| self.from.get(other).is_some_and(|it| it.needs.contains(*key)));
            if !is_replaced && (self.is_around(key) || needed)
                || is_replaced && key.kind.is_type() && self.has_columns(key)
            {
                late.insert(key);
            }
        }
        for key in &self.moved {
            steps.extend(statements::leave(self, key));
        }
        for key in explicit.iter().filter(|key| !late.contains(**key)) {
            steps.extend(self.from.get(key).map(|object| statements::drop(key, object)).unwrap_or_default());
        }
        steps.extend(self.altered.iter().filter_map(|key| statements::drop_identity(self, key)));
        for key in late.iter().filter(|key| self.made.contains(**key)) {
            steps.extend(
                self.from.get(key).map(|object| statements::set_aside(key, object)).unwrap_or_default(),
            );
        }
        for key in self.to.in_order(&self.folded()) {
            if self.made.contains(&key) {
                steps.extend(statements::make(self, &key));
            } else if self.altered.contains(&key) {
                statements::alter(self, &key, &mut ahead, &mut steps);
            }
        }
        for key in &self.moved {
            steps.extend(statements::enter(self, key));
        }
        steps.extend(self.to.objects.keys().filter_map(|key| statements::replica_identity(self, key)));
        for key in explicit.iter().filter(|key| late.contains(**key)) {
            let Some(object) = self.from.get(key) else { continue };
            let replaced = self.made.contains(*key);
            steps.extend(if replaced {
                statements::drop_aside(key, object)
            } else {
                statements::drop(key, object)
            });
        }
        steps.extend(grants::of_everything(self));
        for (key, after) in &self.to.objects {
            let before = self.from.get(key).filter(|_| !self.gone.contains(key));
            let before = before.and_then(|it| it.comment.as_ref());
            if is_described(key, after) && before != after.comment.as_ref() {
                steps.extend(statements::comment(self, key, after));
            }
        }
        let step = |in_transaction| move |sql| Step { sql, in_transaction };
        let steps = ahead.into_iter().map(step(false)).chain(steps.into_iter().map(step(true))).collect();
        (steps, risks::of(self))
    }

    /// What tables that are made need for the columns that they are made with.
    fn folded(&self) -> BTreeMap<Key, BTreeSet<Key>> {
        let mut needs: BTreeMap<Key, BTreeSet<Key>> = BTreeMap::new();
        for (key, object) in &self.to.objects {
            let carrier = match key.kind {
                Kind::Column => object.parent.clone().filter(|table| self.made.contains(table)),
                Kind::Default if self.is_inline(key) => {
                    let column = Key::new(Kind::Column, key.name.clone());
                    let table = self.to.get(&column).and_then(|it| it.parent.clone());
                    Some(table.filter(|table| self.made.contains(table)).unwrap_or(column))
                }
                _ => None,
            };
            if let Some(carrier) = carrier {
                let own = object.needs.iter().filter(|need| need.kind != Kind::Column).cloned();
                needs.entry(carrier.clone()).or_default().extend(own.filter(|need| *need != carrier));
            }
        }
        needs
    }
}

/// Whether a column gets another type or collation.
fn retypes(before: &Object, after: &Object) -> bool {
    !after.has("generated")
        && (before.get("type") != after.get("type") || before.get("collation") != after.get("collation"))
}
