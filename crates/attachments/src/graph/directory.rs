//! What the resources and entitlements of a graph are called, to be searched.

use super::bounded::Bounded;
use crate::{
    error::ReadError,
    limits::{LIST_MAX, NAME_BYTES_MAX},
    look::Look,
    text::named,
};
use duramen_access::graph::{GraphSource, ResourceId};
use duramen_api::attachments::pack::{AccessEntity, AccessResource, ResourceCount};
use std::{
    collections::HashMap,
    ops::{ControlFlow, Range},
};

/// A resource.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Row {
    /// The number of its type.
    kind: u32,
    id: Box<str>,
    name: Box<str>,
}

/// An entitlement.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Right {
    kind: u32,
    resource: Box<str>,
    id: Box<str>,
    name: Box<str>,
}

/// A type of resources.
#[derive(Debug)]
struct Type {
    id: String,
    name: String,
    count: u64,
}

/// All that has a name. Resources and entitlements are in the order of their types' numbers and ids.
#[derive(Debug, Default)]
pub(super) struct Directory {
    types: Vec<Type>,
    numbers: HashMap<String, u32>,
    resources: Vec<Row>,
    rights: Vec<Right>,
    /// Places of entitlements, in the order of their ids.
    by_id: Vec<u32>,
}

impl Directory {
    /// Reads them.
    pub(super) fn read(source: &Bounded<'_>, sync: &str) -> Result<Directory, ReadError> {
        let mut all = Directory::default();
        source.for_each_resource_type(sync, &mut |row| {
            let number = all.number(&row.id);
            all.types[number as usize].name = named(&row.display_name, NAME_BYTES_MAX);
            ControlFlow::Continue(())
        })?;
        source.for_each_resource(sync, &mut |row| {
            let kind = all.number(&row.id.resource_type);
            all.types[kind as usize].count += 1;
            let name = named(&row.display_name, NAME_BYTES_MAX).into();
            all.resources.push(Row { kind, id: row.id.resource.into(), name });
            ControlFlow::Continue(())
        })?;
        source.for_each_entitlement(sync, &mut |row| {
            let kind = all.number(&row.resource.resource_type);
            let name = if row.display_name.is_empty() { &row.slug } else { &row.display_name };
            let name = named(name, NAME_BYTES_MAX).into();
            all.rights.push(Right { kind, resource: row.resource.resource.into(), id: row.id.into(), name });
            ControlFlow::Continue(())
        })?;
        all.resources.sort_unstable();
        all.rights.sort_unstable();
        all.by_id = (0..all.rights.len() as u32).collect();
        let rights = &all.rights;
        all.by_id.sort_by(|a, b| rights[*a as usize].id.cmp(&rights[*b as usize].id));
        Ok(all)
    }

    fn number(&mut self, id: &str) -> u32 {
        if let Some(number) = self.numbers.get(id) {
            return *number;
        }
        let number = self.types.len() as u32;
        self.types.push(Type { id: id.to_owned(), name: String::new(), count: 0 });
        self.numbers.insert(id.to_owned(), number);
        number
    }

    pub(super) fn resources(&self) -> usize {
        self.resources.len()
    }

    pub(super) fn entitlements(&self) -> usize {
        self.rights.len()
    }

    /// The types of which there are most.
    pub(super) fn types(&self) -> Vec<ResourceCount> {
        let mut types: Vec<&Type> = self.types.iter().collect();
        types.sort_by(|a, b| (b.count, &a.id).cmp(&(a.count, &b.id)));
        let shown = types.into_iter().take(LIST_MAX).map(|each| ResourceCount {
            resource_type: each.id.clone(),
            name: each.name.clone(),
            count: each.count,
        });
        shown.collect()
    }

    fn find(&self, resource_type: &str, resource: &str) -> Option<&Row> {
        let kind = *self.numbers.get(resource_type)?;
        let at = self.resources.partition_point(|row| (row.kind, &*row.id) < (kind, resource));
        self.resources.get(at).filter(|row| row.kind == kind && *row.id == *resource)
    }

    /// Whether a resource has a row.
    pub(super) fn has(&self, resource_type: &str, resource: &str) -> bool {
        self.find(resource_type, resource).is_some()
    }

    /// Whether an entitlement of a resource has a row.
    pub(super) fn has_right(&self, resource_type: &str, resource: &str, id: &str) -> bool {
        self.find_right(resource_type, resource, id).is_some()
    }

    fn find_right(&self, resource_type: &str, resource: &str, id: &str) -> Option<&Right> {
        let kind = *self.numbers.get(resource_type)?;
        let wanted = (kind, resource, id);
        let at = self.rights.partition_point(|right| (right.kind, &*right.resource, &*right.id) < wanted);
        self.rights.get(at).filter(|right| (right.kind, &*right.resource, &*right.id) == wanted)
    }

    /// A resource with its name.
    pub(super) fn resource(&self, resource_type: &str, resource: &str) -> AccessResource {
        AccessResource {
            resource_type: resource_type.to_owned(),
            resource: resource.to_owned(),
            name: self.find(resource_type, resource).map_or_else(String::new, |row| row.name.to_string()),
        }
    }

    /// The places of the entitlements of a resource.
    pub(super) fn rights_of(&self, resource_type: &str, resource: &str) -> Range<usize> {
        let Some(kind) = self.numbers.get(resource_type).copied() else { return 0..0 };
        let start = self.rights.partition_point(|right| (right.kind, &*right.resource) < (kind, resource));
        let count =
            self.rights[start..].partition_point(|right| (right.kind, &*right.resource) == (kind, resource));
        start..start + count
    }

    /// The id of an entitlement.
    pub(super) fn right(&self, at: usize) -> &str {
        &self.rights[at].id
    }

    /// What an entitlement of a resource is called.
    pub(super) fn right_name(&self, resource_type: &str, resource: &str, id: &str) -> String {
        let found = self.find_right(resource_type, resource, id);
        found.map_or_else(String::new, |right| right.name.to_string())
    }

    /// The name of the first entitlement of an id, and the resource that it is about.
    pub(super) fn first_right(&self, id: &str) -> Option<(String, AccessResource)> {
        let at = self.by_id.partition_point(|at| *self.rights[*at as usize].id < *id);
        let right = &self.rights[*self.by_id.get(at)? as usize];
        (*right.id == *id).then(|| {
            let kind = &self.types[right.kind as usize].id;
            (right.name.to_string(), self.resource(kind, &right.resource))
        })
    }

    /// Resources, and then entitlements, whose names, ids or types have a text in them, whatever the case; and whether there are more.
    pub(super) fn search(
        &self,
        text: &str,
        limit: usize,
        holds: &dyn Fn(&ResourceId) -> bool,
    ) -> (Vec<AccessEntity>, bool) {
        let wanted = text.to_lowercase();
        let has = |parts: [&str; 3]| parts.iter().any(|part| part.to_lowercase().contains(&wanted));
        let (mut found, mut look) = (Vec::new(), Look::begin());
        for row in &self.resources {
            let kind = &self.types[row.kind as usize].id;
            if !has([&row.name, &row.id, kind]) {
                continue;
            }
            if found.len() >= limit || look.on().is_break() {
                return (found, true);
            }
            found.push(AccessEntity {
                resource_type: kind.clone(),
                resource: row.id.to_string(),
                entitlement: None,
                name: row.name.to_string(),
                holds: holds(&ResourceId::new(kind.as_str(), &*row.id)),
                entitlements: self.rights_of(kind, &row.id).len() as u64,
            });
        }
        for right in &self.rights {
            if !has([&right.name, &right.id, &right.resource]) {
                continue;
            }
            if found.len() >= limit || look.on().is_break() {
                return (found, true);
            }
            found.push(AccessEntity {
                resource_type: self.types[right.kind as usize].id.clone(),
                resource: right.resource.to_string(),
                entitlement: Some(right.id.to_string()),
                name: right.name.to_string(),
                holds: false,
                entitlements: 0,
            });
        }
        (found, false)
    }
}
