//! Rows that are not grants, in memory, in the order in which files of version 3 have them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use duramen_access::graph::{Asset, Entitlement, EntitlementRef, Resource, ResourceId, ResourceType};

use crate::error::Error;

/// Where an entitlement stands among others: by its resource; then those whose id does not begin with that of the resource.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EntitlementKey {
    pub(crate) resource_type: String,
    pub(crate) resource: String,
    /// Whether the id begins with type and name of the resource.
    continues: bool,
    tail: String,
}

impl EntitlementKey {
    pub(crate) fn new(resource_type: &str, resource: &str, id: &str) -> Self {
        let tail = id.strip_prefix(resource_type).and_then(|rest| rest.strip_prefix(':'));
        let tail = tail.and_then(|rest| rest.strip_prefix(resource)).and_then(|rest| rest.strip_prefix(':'));
        EntitlementKey {
            resource_type: resource_type.to_owned(),
            resource: resource.to_owned(),
            continues: tail.is_some(),
            tail: tail.unwrap_or(id).to_owned(),
        }
    }

    /// Before all keys of a resource type, or of a resource.
    pub(crate) fn before(resource_type: &str, resource: &str) -> Self {
        EntitlementKey {
            resource_type: resource_type.to_owned(),
            resource: resource.to_owned(),
            continues: false,
            tail: String::new(),
        }
    }
}

/// All rows of a sync but its grants.
#[derive(Default)]
pub(crate) struct Records {
    pub(crate) resource_types: BTreeMap<String, ResourceType>,
    pub(crate) resources: BTreeMap<(String, String), Resource>,
    pub(crate) entitlements: BTreeMap<EntitlementKey, Entitlement>,
    pub(crate) assets: BTreeMap<String, Asset>,
    children: BTreeMap<ResourceId, BTreeSet<(String, String)>>,
    entitlement_keys: HashMap<String, EntitlementKey>,
}

/// Refuses a row with an empty id, which no file can hold.
fn named(what: &str, parts: &[&str]) -> Result<(), Error> {
    match parts.iter().any(|part| part.is_empty()) {
        true => Err(Error::Invalid(format!("a {what} with an empty id in it ({parts:?}) cannot be kept"))),
        false => Ok(()),
    }
}

impl Records {
    pub(crate) fn put_resource_type(&mut self, row: ResourceType) -> Result<(), Error> {
        named("resource type", &[&row.id])?;
        self.resource_types.insert(row.id.clone(), row);
        Ok(())
    }

    pub(crate) fn put_resource(&mut self, row: Resource) -> Result<(), Error> {
        named("resource", &[&row.id.resource_type, &row.id.resource])?;
        let key = (row.id.resource_type.clone(), row.id.resource.clone());
        self.delete_resource(&key);
        if let Some(parent) = &row.parent {
            self.children.entry(parent.clone()).or_default().insert(key.clone());
        }
        self.resources.insert(key, row);
        Ok(())
    }

    pub(crate) fn put_entitlement(&mut self, row: Entitlement) -> Result<(), Error> {
        let (resource_type, resource) = (&row.resource.resource_type, &row.resource.resource);
        named("entitlement", &[&row.id, resource_type, resource])?;
        let key = EntitlementKey::new(resource_type, resource, &row.id);
        if let Some(other) = self.entitlement_keys.get(&row.id).filter(|other| **other != key) {
            return Err(Error::Invalid(format!(
                "the entitlement {:?} of {resource_type}:{resource} has the id of one of {}:{}; ids of entitlements are \
                 unique in a sync",
                row.id, other.resource_type, other.resource
            )));
        }
        self.entitlement_keys.insert(row.id.clone(), key.clone());
        self.entitlements.insert(key, row);
        Ok(())
    }

    pub(crate) fn put_asset(&mut self, row: Asset) -> Result<(), Error> {
        named("asset", &[&row.id])?;
        self.assets.insert(row.id.clone(), row);
        Ok(())
    }

    pub(crate) fn delete_resource(&mut self, key: &(String, String)) {
        let Some(row) = self.resources.remove(key) else { return };
        if let Some(of) = row.parent.as_ref().and_then(|parent| self.children.get_mut(parent)) {
            of.remove(key);
        }
    }

    pub(crate) fn delete_entitlement(&mut self, of: &EntitlementRef) {
        let key = EntitlementKey::new(&of.resource.resource_type, &of.resource.resource, &of.id);
        if self.entitlements.remove(&key).is_some() {
            self.entitlement_keys.remove(&of.id);
        }
    }

    /// The entitlement of an id.
    pub(crate) fn entitlement(&self, id: &str) -> Option<&Entitlement> {
        self.entitlement_keys.get(id).and_then(|key| self.entitlements.get(key))
    }

    /// The resources that lie in another, by their keys.
    pub(crate) fn children(&self, parent: &ResourceId) -> impl Iterator<Item = &(String, String)> {
        self.children.get(parent).into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_resource_that_moves_has_one_parent() {
        let mut records = Records::default();
        let (staff, team) = (ResourceId::new("group", "staff"), ResourceId::new("group", "team"));
        for parent in [&staff, &team] {
            let id = ResourceId::new("user", "ada");
            records
                .put_resource(Resource { id, parent: Some(parent.clone()), ..Resource::default() })
                .unwrap();
        }
        assert_eq!(records.children(&staff).count(), 0);
        assert_eq!(records.children(&team).collect::<Vec<_>>(), [&("user".to_owned(), "ada".to_owned())]);
        assert!(records.put_resource(Resource::default()).is_err());
    }

    #[test]
    fn an_id_is_of_one_entitlement() {
        let mut records = Records::default();
        let of = |name: &str| Entitlement {
            id: "member".to_owned(),
            resource: ResourceId::new("group", name),
            ..Entitlement::default()
        };
        records.put_entitlement(of("staff")).unwrap();
        records.put_entitlement(of("staff")).unwrap();
        let refused = records.put_entitlement(of("team")).unwrap_err().to_string();
        assert!(refused.contains("group:team") && refused.contains("group:staff"), "{refused}");
        records.delete_entitlement(&EntitlementRef {
            resource: ResourceId::new("group", "staff"),
            id: "member".to_owned(),
        });
        records.put_entitlement(of("team")).unwrap();
        assert_eq!(records.entitlement("member").map(|row| row.resource.resource.as_str()), Some("team"));
    }

    #[test]
    fn keys_differ_as_ids_do_and_stand_behind_that_of_their_resource() {
        let ids = ["group", "group:staff", "group:staff:", "group:staff:member", "member"];
        let mut keys: Vec<_> = ids.iter().map(|id| EntitlementKey::new("group", "staff", id)).collect();
        keys.push(EntitlementKey::before("group", "staff"));
        keys.sort();
        keys.dedup();
        assert_eq!((keys.len(), &keys[0]), (ids.len() + 1, &EntitlementKey::before("group", "staff")));
        assert!(EntitlementKey::before("group", "staffs") > *keys.last().unwrap());
    }
}
