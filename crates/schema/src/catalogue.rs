//! What a database defines, by name.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

/// Kinds of objects, in the order in which they are made where nothing else decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// A schema.
    Schema,
    /// An extension; what belongs to it is not looked at.
    Extension,
    /// An enumeration.
    Enum,
    /// A composite type.
    Composite,
    /// A domain.
    Domain,
    /// A range type.
    Range,
    /// A function, procedure or window function.
    Function,
    /// A sequence, except those of identity columns.
    Sequence,
    /// A table, partitioned or not.
    Table,
    /// A column of a table.
    Column,
    /// The default of a column.
    Default,
    /// The column that a sequence is owned by.
    Ownership,
    /// A primary key, or a unique, check or exclusion constraint.
    Constraint,
    /// An index that no constraint stands for.
    Index,
    /// A foreign key.
    ForeignKey,
    /// Extended statistics.
    Statistics,
    /// A view.
    View,
    /// A materialized view.
    MaterializedView,
    /// A column of a view, if it has a comment or grants.
    ViewColumn,
    /// A rule, except those that make views.
    Rule,
    /// A trigger.
    Trigger,
    /// A policy of row-level security.
    Policy,
    /// Default privileges of a role.
    DefaultPrivileges,
    /// What is compared by its name alone: aggregates, operators, casts, collations, text search, event triggers,
    /// publications, foreign tables and servers.
    Other,
}

impl Kind {
    /// What it is called.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::Schema => "schema",
            Kind::Extension => "extension",
            Kind::Enum => "enum",
            Kind::Composite => "composite type",
            Kind::Domain => "domain",
            Kind::Range => "range type",
            Kind::Function => "function",
            Kind::Sequence => "sequence",
            Kind::Table => "table",
            Kind::Column => "column",
            Kind::Default => "default",
            Kind::Ownership => "owner of sequence",
            Kind::Constraint => "constraint",
            Kind::Index => "index",
            Kind::ForeignKey => "foreign key",
            Kind::Statistics => "statistics",
            Kind::View => "view",
            Kind::MaterializedView => "materialized view",
            Kind::ViewColumn => "column of view",
            Kind::Rule => "rule",
            Kind::Trigger => "trigger",
            Kind::Policy => "policy",
            Kind::DefaultPrivileges => "default privileges",
            Kind::Other => "other",
        }
    }

    /// Whether it is a type of its own.
    pub(crate) fn is_type(self) -> bool {
        matches!(self, Kind::Enum | Kind::Composite | Kind::Domain | Kind::Range)
    }
}

/// What identifies an object: its kind and its name, quoted and qualified, with the signature of a function, and the
/// table of what belongs to one (`public.orders.total`, `orders_pkey on public.orders`).
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    /// The kind.
    pub kind: Kind,
    /// The name.
    pub name: String,
}

impl Key {
    pub(crate) fn new(kind: Kind, name: impl Into<String>) -> Key {
        Key { kind, name: name.into() }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.kind == Kind::Other {
            return f.write_str(&self.name);
        }
        write!(f, "{} {}", self.kind.name(), self.name)
    }
}

/// Who has which privilege, and whether he may pass it on. The public is the empty name; other names are quoted.
pub(crate) type Grants = BTreeMap<(String, String), bool>;

/// One object and what defines it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// The object that it is a part of: it goes when that is dropped.
    pub(crate) parent: Option<Key>,
    /// Its name in statements: qualified for what lives in a schema, else bare; quoted.
    pub(crate) ident: String,
    /// What defines it, by property.
    pub(crate) properties: BTreeMap<String, String>,
    /// Whether it is there only because a partitioned table, or a table that it inherits from, has the like.
    pub(crate) derived: bool,
    pub(crate) comment: Option<String>,
    pub(crate) grants: Grants,
    /// What has to be there before it.
    pub(crate) needs: BTreeSet<Key>,
}

impl Object {
    pub(crate) fn get(&self, property: &str) -> Option<&str> {
        self.properties.get(property).map(String::as_str)
    }

    /// The same, or nothing.
    pub(crate) fn text(&self, property: &str) -> &str {
        self.get(property).unwrap_or_default()
    }

    pub(crate) fn has(&self, property: &str) -> bool {
        self.properties.contains_key(property)
    }

    /// What defines it, by property, as the server writes it.
    pub fn properties(&self) -> impl Iterator<Item = (&str, &str)> {
        self.properties.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

/// What a database defines.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Catalogue {
    pub(crate) objects: BTreeMap<Key, Object>,
    /// Pairs of types with a cast from the first to the second.
    pub(crate) casts: BTreeSet<(String, String)>,
}

impl Catalogue {
    /// Its objects, by their names.
    pub fn objects(&self) -> impl Iterator<Item = (&Key, &Object)> {
        self.objects.iter()
    }

    pub(crate) fn get(&self, key: &Key) -> Option<&Object> {
        self.objects.get(key)
    }

    /// Its objects in an order in which each stands after those that it needs; among those that could be next, the kind
    /// decides, then the name. What needs each other in a circle stands by its kind. `needs` adds to what objects need.
    pub(crate) fn in_order(&self, needs: &BTreeMap<Key, BTreeSet<Key>>) -> Vec<Key> {
        let mut waits: BTreeMap<&Key, BTreeSet<&Key>> = BTreeMap::new();
        let mut wanted_by: BTreeMap<&Key, Vec<&Key>> = BTreeMap::new();
        for (key, object) in &self.objects {
            let more = needs.get(key).into_iter().flatten();
            let needs: BTreeSet<&Key> = object
                .needs
                .iter()
                .chain(more)
                .filter(|it| *it != key && self.objects.contains_key(*it))
                .collect();
            for need in &needs {
                wanted_by.entry(need).or_default().push(key);
            }
            waits.insert(key, needs);
        }
        let mut ready: BTreeSet<&Key> =
            waits.iter().filter(|(_, needs)| needs.is_empty()).map(|(key, _)| *key).collect();
        let mut order = Vec::with_capacity(self.objects.len());
        while !waits.is_empty() {
            let next = ready.pop_first().or_else(|| waits.keys().next().copied());
            let Some(next) = next else { break };
            waits.remove(next);
            order.push(next.clone());
            for other in wanted_by.get(next).into_iter().flatten() {
                if let Some(needs) = waits.get_mut(other) {
                    needs.remove(next);
                    if needs.is_empty() {
                        ready.insert(other);
                    }
                }
            }
        }
        order
    }
}
