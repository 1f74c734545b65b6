//! The rows of several syncs as those of one: a source to copy from.

use std::collections::hash_map::Entry;
use std::collections::HashMap;
use std::ops::ControlFlow;

use xxhash_rust::xxh3::Xxh3;

use crate::convert::Format;
use crate::file::{FileError, GraphFile};
use crate::graph::{
    Asset, Entitlement, Grant, GrantRef, GraphSource, Loss, Resource, ResourceType, Sync, Timestamp, Visit,
};

/// What makes two rows the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Identity {
    /// As in version 1: entitlements and grants by their ids.
    IdAlone,
    /// As in packs: entitlements by resource and id, grants by their ids.
    Id,
    /// As in version 3: entitlements by resource and id, grants by entitlement and principal.
    Edge,
}

/// A file, and the sync of it that takes part.
pub(super) struct Part {
    pub(super) file: GraphFile,
    pub(super) sync: Sync,
}

/// Several syncs as one. The first of them is the base, which is large; of the others, the keys of one table at a time are
/// in memory.
pub(super) struct Merge {
    parts: Vec<Part>,
    sync: Sync,
    identity: Identity,
}

/// Which part has the last word on a key.
#[derive(Clone, Copy)]
struct Last {
    time: Timestamp,
    part: u32,
}

type Keys = HashMap<u128, Last>;

/// A key of a row, and when the row was discovered.
type Keyed = (u128, Timestamp);

fn key(parts: &[&str]) -> u128 {
    let mut hash = Xxh3::new();
    for part in parts {
        // With their lengths, so that what ends one cannot begin the next.
        hash.update(&(part.len() as u64).to_le_bytes());
        hash.update(part.as_bytes());
    }
    hash.digest128()
}

/// What is not dated is older than all else.
fn time(time: Option<Timestamp>) -> Timestamp {
    time.unwrap_or(Timestamp { seconds: 0, nanos: 0 })
}

/// A visitor of the rows of one table, as keys and times.
type VisitKeys<'a> = &'a mut dyn FnMut(Keyed);

impl Merge {
    pub(super) fn new(parts: Vec<Part>, sync: Sync, identity: Identity) -> Merge {
        Merge { parts, sync, identity }
    }

    fn of_type(row: &ResourceType) -> Keyed {
        (key(&[&row.id]), time(row.discovered_at))
    }

    fn of_resource(row: &Resource) -> Keyed {
        (key(&[&row.id.resource_type, &row.id.resource]), time(row.discovered_at))
    }

    fn of_entitlement(&self, row: &Entitlement) -> Keyed {
        let key = match self.identity {
            Identity::IdAlone => key(&[&row.id]),
            Identity::Id | Identity::Edge => {
                key(&[&row.resource.resource_type, &row.resource.resource, &row.id])
            }
        };
        (key, time(row.discovered_at))
    }

    fn of_grant(&self, row: &GrantRef<'_>) -> Keyed {
        let key = match self.identity {
            Identity::IdAlone | Identity::Id => key(&[row.id]),
            Identity::Edge => {
                key(&[row.resource_type, row.resource, row.entitlement, row.principal_type, row.principal])
            }
        };
        (key, time(row.discovered_at))
    }

    /// The keys of all parts but the base, with who has the last word on them. `read` visits the table of a part.
    fn keys(&self, read: impl Fn(&Part, VisitKeys<'_>) -> Result<(), FileError>) -> Result<Keys, FileError> {
        let mut keys = Keys::new();
        for (number, part) in self.parts.iter().enumerate().skip(1) {
            let number = number as u32;
            let mut put = |(key, time): Keyed| match keys.entry(key) {
                Entry::Vacant(free) => {
                    free.insert(Last { time, part: number });
                }
                // Of the same moment, the one that is named last.
                Entry::Occupied(mut last) if last.get().time <= time => {
                    last.insert(Last { time, part: number });
                }
                Entry::Occupied(_) => {}
            };
            self.dated(part, &read, &mut put)?;
        }
        // What the base knows better.
        if let Some(base) = self.parts.first().filter(|base| self.has_several(base)) {
            let mut oldest: HashMap<u128, Timestamp> = HashMap::new();
            read(base, &mut |(key, time)| {
                if keys.contains_key(&key) {
                    oldest.entry(key).and_modify(|known| *known = time.min(*known)).or_insert(time);
                }
            })?;
            for (key, time) in oldest {
                if let Some(last) = keys.get_mut(&key).filter(|last| last.time < time) {
                    *last = Last { time, part: 0 };
                }
            }
        }
        Ok(keys)
    }

    /// Whether several grants of a part can be one: their edge is then as old as the oldest of them, as the ecosystem
    /// converts them.
    fn has_several(&self, part: &Part) -> bool {
        self.identity == Identity::Edge && Format::of_file(&part.file) != Format::C1z3
    }

    /// Visits the keys of a part, each with the time that counts.
    fn dated(
        &self,
        part: &Part,
        read: &impl Fn(&Part, VisitKeys<'_>) -> Result<(), FileError>,
        put: VisitKeys<'_>,
    ) -> Result<(), FileError> {
        if !self.has_several(part) {
            return read(part, put);
        }
        let mut oldest: HashMap<u128, Timestamp> = HashMap::new();
        read(part, &mut |(key, time)| {
            oldest.entry(key).and_modify(|known| *known = time.min(*known)).or_insert(time);
        })?;
        oldest.into_iter().for_each(put);
        Ok(())
    }

    /// Whether a row stays. A row of the base that is newer than all others takes its key from them.
    fn stays(&self, keys: &mut Keys, number: usize, (key, time): Keyed) -> bool {
        let Some(last) = keys.get_mut(&key) else { return true };
        if number == 0 && last.time < time && !self.has_several(&self.parts[0]) {
            *last = Last { time, part: 0 };
        }
        last.part == number as u32
    }

    /// Visits what stays of a table.
    fn rows<Row>(
        &self,
        visit: Visit<'_, Row>,
        read: impl Fn(&Part, Visit<'_, Row>) -> Result<(), FileError>,
        keyed: impl Fn(&Row) -> Keyed,
    ) -> Result<(), FileError> {
        let mut keys = self.keys(|part, put| {
            read(part, &mut |row| {
                put(keyed(&row));
                ControlFlow::Continue(())
            })
        })?;
        let mut stopped = false;
        for (number, part) in self.parts.iter().enumerate() {
            read(part, &mut |row| {
                if !self.stays(&mut keys, number, keyed(&row)) {
                    return ControlFlow::Continue(());
                }
                let flow = visit(row);
                stopped = flow.is_break();
                flow
            })?;
            if stopped {
                break;
            }
        }
        Ok(())
    }

    /// Assets of parts that are not in the base: they do not take part.
    pub(super) fn assets_left(&self) -> Result<Option<Loss>, FileError> {
        let (mut rows, mut example) = (0, String::new());
        for part in self.parts.iter().skip(1) {
            part.file.for_each_asset(&part.sync.id, &mut |asset| {
                if rows == 0 {
                    example = asset.id;
                }
                rows += 1;
                ControlFlow::Continue(())
            })?;
        }
        let what = "assets of other files than the base, which a compaction leaves out".to_owned();
        Ok((rows > 0).then_some(Loss { row: "asset", what, rows, example }))
    }
}

impl GraphSource for Merge {
    type Error = FileError;

    fn syncs(&self) -> Result<Vec<Sync>, FileError> {
        Ok(vec![self.sync.clone()])
    }

    fn for_each_resource_type(&self, _: &str, visit: Visit<'_, ResourceType>) -> Result<(), FileError> {
        let read = |part: &Part, visit: Visit<'_, _>| part.file.for_each_resource_type(&part.sync.id, visit);
        self.rows(visit, read, Merge::of_type)
    }

    fn for_each_resource(&self, _: &str, visit: Visit<'_, Resource>) -> Result<(), FileError> {
        let read = |part: &Part, visit: Visit<'_, _>| part.file.for_each_resource(&part.sync.id, visit);
        self.rows(visit, read, Merge::of_resource)
    }

    fn for_each_entitlement(&self, _: &str, visit: Visit<'_, Entitlement>) -> Result<(), FileError> {
        let read = |part: &Part, visit: Visit<'_, _>| part.file.for_each_entitlement(&part.sync.id, visit);
        self.rows(visit, read, |row| self.of_entitlement(row))
    }

    fn for_each_grant(&self, _: &str, visit: Visit<'_, Grant>) -> Result<(), FileError> {
        let read = |part: &Part, visit: Visit<'_, _>| part.file.for_each_grant(&part.sync.id, visit);
        self.rows(visit, read, |row| self.of_grant(&GrantRef::from(row)))
    }

    fn for_each_grant_ref(
        &self,
        _: &str,
        visit: &mut dyn FnMut(GrantRef<'_>) -> ControlFlow<()>,
    ) -> Result<(), FileError> {
        let mut keys = self.keys(|part, put| {
            part.file.for_each_grant_ref(&part.sync.id, &mut |row| {
                put(self.of_grant(&row));
                ControlFlow::Continue(())
            })
        })?;
        let mut stopped = false;
        for (number, part) in self.parts.iter().enumerate() {
            part.file.for_each_grant_ref(&part.sync.id, &mut |row| {
                if !self.stays(&mut keys, number, self.of_grant(&row)) {
                    return ControlFlow::Continue(());
                }
                let flow = visit(row);
                stopped = flow.is_break();
                flow
            })?;
            if stopped {
                break;
            }
        }
        Ok(())
    }

    fn for_each_asset(&self, _: &str, visit: Visit<'_, Asset>) -> Result<(), FileError> {
        match self.parts.first() {
            Some(base) => base.file.for_each_asset(&base.sync.id, visit),
            None => Ok(()),
        }
    }
}
