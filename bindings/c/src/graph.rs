//! A graph that is open: its rows in memory, or still in the file that it was opened from.
//!
//! Opening reads little. Rows are taken into memory when something is asked or put that needs them there; grants of a file of
//! version 3 are listed from the file as long as nothing else is asked of them.

use std::ops::ControlFlow;
use std::path::Path;

use duramen_access::c1z::{C1z3, C1z3Writer, ReadOptions, WriteOptions};
use duramen_access::file::{FileError, GraphFile};
use duramen_access::graph::{
    Asset, EntitlementRef, GrantRef, GrantScope, GraphSink as _, GraphSource as _, ResourceId, Sync,
    SyncKind, Timestamp,
};
use duramen_access::messages;
use duramen_base::clock;

use crate::error::Error;
use crate::flat::{self, Reader};
use crate::grants::{Flat, Grants, Put};
use crate::list::{more_behind, put_grant};
use crate::query::{Kind, Page, Question, Scope};
use crate::records::{EntitlementKey, Records};

/// Where rows are.
enum Place<T> {
    /// In the file of the graph.
    File,
    Memory(T),
}

/// A graph with one sync, or none yet.
pub(crate) struct Graph {
    file: Option<GraphFile>,
    sync: Option<Sync>,
    records: Place<Records>,
    grants: Place<Grants>,
}

/// The time of the wall clock.
fn now() -> Timestamp {
    let now = clock::utc_now();
    Timestamp { seconds: now.as_second(), nanos: now.subsec_nanosecond() }
}

impl Graph {
    /// A graph without a sync.
    pub(crate) fn empty() -> Graph {
        Graph {
            file: None,
            sync: None,
            records: Place::Memory(Records::default()),
            grants: Place::Memory(Grants::default()),
        }
    }

    /// The graph of a file: of several syncs the one that is read by default.
    pub(crate) fn open(path: &Path, options: &ReadOptions) -> Result<Graph, Error> {
        let file = GraphFile::open(path, options)?;
        let sync = match file.sync(None) {
            Err(FileError::NoSync { .. }) => return Ok(Graph::empty()),
            found => found?,
        };
        Ok(Graph { file: Some(file), sync: Some(sync), records: Place::File, grants: Place::File })
    }

    fn source(file: Option<&GraphFile>) -> Result<&GraphFile, Error> {
        file.ok_or_else(|| Error::NotFound("file that the rows could be read from".to_owned()))
    }

    fn sync(&self) -> Result<&Sync, Error> {
        self.sync.as_ref().ok_or_else(|| Error::NotFound("sync yet: start one".to_owned()))
    }

    fn records(&mut self) -> Result<&mut Records, Error> {
        if let Place::File = self.records {
            let (file, sync) = (Self::source(self.file.as_ref())?, &self.sync()?.id);
            let mut records = Records::default();
            let mut failed = Ok(());
            let mut note = |result: Result<(), Error>| match result {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    failed = Err(error);
                    ControlFlow::Break(())
                }
            };
            file.for_each_resource_type(sync, &mut |row| note(records.put_resource_type(row)))?;
            file.for_each_resource(sync, &mut |row| note(records.put_resource(row)))?;
            file.for_each_entitlement(sync, &mut |row| note(records.put_entitlement(row)))?;
            file.for_each_asset(sync, &mut |row| note(records.put_asset(row)))?;
            failed?;
            self.records = Place::Memory(records);
        }
        match &mut self.records {
            Place::Memory(records) => Ok(records),
            Place::File => Err(Error::Panic("rows were read and are not there".to_owned())),
        }
    }

    /// Grants, and the other rows, in memory.
    fn grants(&mut self) -> Result<(&mut Grants, &mut Records), Error> {
        self.records()?;
        if let Place::File = self.grants {
            let (file, sync) = (Self::source(self.file.as_ref())?, &self.sync()?.id);
            let mut grants = Grants::default();
            let mut failed = Ok(());
            file.for_each_grant_ref(sync, &mut |row| match grants.put_row(&row) {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => {
                    failed = Err(error);
                    ControlFlow::Break(())
                }
            })?;
            failed?;
            self.grants = Place::Memory(grants);
        }
        match (&mut self.grants, &mut self.records) {
            (Place::Memory(grants), Place::Memory(records)) => Ok((grants, records)),
            _ => Err(Error::Panic("rows were read and are not there".to_owned())),
        }
    }

    /// Puts rows, in the order in which they are given. Those before one that is refused are there.
    pub(crate) fn put(&mut self, kind: Kind, rows: &[u8]) -> Result<(), Error> {
        self.sync()?;
        let time = Some(now());
        let mut reader = Reader::new(rows);
        match kind {
            Kind::Grants | Kind::ExpandedGrants => {
                let how = if kind == Kind::Grants { Put::Replace } else { Put::KeepExpansion };
                let (grants, _) = self.grants()?;
                while !reader.is_at_end() {
                    let [_flags, id, entitlement, resource_type, resource, principal_type, principal, details] =
                        reader.numbers()?;
                    let flat = Flat {
                        id: reader.text_of(id)?,
                        entitlement: reader.text_of(entitlement)?,
                        resource_type: reader.text_of(resource_type)?,
                        resource: reader.text_of(resource)?,
                        principal_type: reader.text_of(principal_type)?,
                        principal: reader.text_of(principal)?,
                        details: reader.bytes(details)?,
                        needs_expansion: false,
                        is_of_same: false,
                    };
                    grants.put(&flat, time, how)?;
                }
            }
            Kind::Assets => {
                let records = self.records()?;
                while !reader.is_at_end() {
                    let (id, content_type) = (reader.text()?.to_owned(), reader.text()?.to_owned());
                    let data = reader.blob()?.to_vec();
                    records.put_asset(Asset { id, content_type, data, discovered_at: time })?;
                }
            }
            Kind::ResourceTypes | Kind::Resources | Kind::Entitlements => {
                let records = self.records()?;
                while !reader.is_at_end() {
                    let message = reader.blob()?;
                    match kind {
                        Kind::ResourceTypes => {
                            let mut row = messages::resource_type(message)?;
                            row.discovered_at = time;
                            records.put_resource_type(row)?;
                        }
                        Kind::Resources => {
                            let mut row = messages::resource(message)?;
                            row.discovered_at = time;
                            records.put_resource(row)?;
                        }
                        _ => {
                            let mut row = messages::entitlement(message)?;
                            row.discovered_at = time;
                            records.put_entitlement(row)?;
                        }
                    }
                }
            }
            Kind::Edges => return Err(Error::Invalid("edges can be deleted only; put grants".to_owned())),
        }
        Ok(())
    }

    /// Deletes rows by their names. Those that are not there are no error.
    pub(crate) fn delete(&mut self, kind: Kind, names: &[u8]) -> Result<(), Error> {
        self.sync()?;
        let names = Reader::new(names).texts()?;
        let of = |count: usize| {
            let what = match names.len() % count {
                0 => return Ok(names.chunks_exact(count)),
                _ => format!("{kind:?} are named by {count} texts each, and {} came", names.len()),
            };
            Err(Error::Invalid(what))
        };
        match kind {
            Kind::Grants => {
                let (grants, _) = self.grants()?;
                names.iter().for_each(|id| grants.delete_id(id));
            }
            Kind::Edges => {
                let (grants, _) = self.grants()?;
                for name in of(5)? {
                    let [resource_type, resource, entitlement, principal_type, principal] = name else {
                        continue;
                    };
                    grants.delete_edge(&Flat {
                        entitlement,
                        resource_type,
                        resource,
                        principal_type,
                        principal,
                        ..Flat::default()
                    });
                }
            }
            Kind::Resources => {
                let records = self.records()?;
                of(2)?.for_each(|name| records.delete_resource(&(name[0].to_owned(), name[1].to_owned())));
            }
            Kind::Entitlements => {
                let records = self.records()?;
                for name in of(3)? {
                    let resource = ResourceId::new(name[0], name[1]);
                    records.delete_entitlement(&EntitlementRef { resource, id: name[2].to_owned() });
                }
            }
            kind => return Err(Error::Invalid(format!("{kind:?} cannot be deleted"))),
        }
        Ok(())
    }

    /// A page of rows.
    pub(crate) fn list(&mut self, kind: Kind, question: &[u8]) -> Result<Vec<u8>, Error> {
        self.sync()?;
        let question = Question::read(question)?;
        if kind != Kind::Grants {
            return Ok(self.records()?.list(kind, &question)?.finish());
        }
        if let Place::File = self.grants {
            if let Some(page) = self.list_from_file(&question)? {
                return Ok(page.finish());
            }
        }
        let (grants, records) = self.grants()?;
        Ok(grants.list(&question, records)?.finish())
    }

    /// A page of grants from the file; none if they have to be in memory for that.
    fn list_from_file(&self, question: &Question<'_>) -> Result<Option<Page>, Error> {
        let Some(file) = self.file.as_ref().and_then(GraphFile::c1z3).filter(|file| file.is_sorted()) else {
            return Ok(None);
        };
        let resource_of = |kind: &str, name: &str| ResourceId::new(kind, name);
        let (resource, entitlements);
        let scope = match question.scope()? {
            Scope::All => GrantScope::All,
            Scope::ResourceType(kind) => GrantScope::ResourceType(kind),
            Scope::Resource(kind, name) => {
                resource = resource_of(kind, name);
                GrantScope::Resource(&resource)
            }
            Scope::Principal(kind, name) => {
                resource = resource_of(kind, name);
                GrantScope::Principal(&resource)
            }
            Scope::Entitlement(kind, name, id, []) if !kind.is_empty() && !name.is_empty() => {
                entitlements = [EntitlementRef { resource: resource_of(kind, name), id: id.to_owned() }];
                GrantScope::Entitlements(&entitlements)
            }
            _ => return Ok(None),
        };
        Ok(Some(self.page_of(file, scope, question)?))
    }

    fn page_of(&self, file: &C1z3, scope: GrantScope<'_>, question: &Question<'_>) -> Result<Page, Error> {
        let mut page = question.page(Kind::Grants);
        let after = question.after::<5>(Kind::Grants)?;
        let behind = after.map(|[kind, name, id, principal_type, principal]| {
            let of = EntitlementRef { resource: ResourceId::new(kind, name), id: id.to_owned() };
            (of, ResourceId::new(principal_type, principal))
        });
        let mut details = Vec::new();
        let mut of: Option<[String; 3]> = None;
        // The last row of the page, by whose names the next page is found.
        let mut last: Option<[String; 5]> = None;
        let mut is_last = false;
        let mut has_more = false;
        let after_row = behind.as_ref().map(|(of, principal)| (of, principal));
        file.for_each_grant_after(&self.sync()?.id, scope, after_row, &mut |row: GrantRef<'_>| {
            if is_last {
                has_more = true;
                return ControlFlow::Break(());
            }
            details.clear();
            if let Some(rest) = row.rest {
                messages::put_grant_details(&mut details, rest);
            }
            let entitlement = [row.resource_type, row.resource, row.entitlement];
            let is_of_same = of.as_ref().is_some_and(|of| of.each_ref().map(String::as_str) == entitlement);
            if !is_of_same {
                of = Some(entitlement.map(str::to_owned));
            }
            put_grant(
                &mut page,
                &Flat {
                    is_of_same,
                    id: row.id,
                    entitlement: row.entitlement,
                    resource_type: row.resource_type,
                    resource: row.resource,
                    principal_type: row.principal_type,
                    principal: row.principal,
                    details: &details,
                    needs_expansion: row.rest.is_some_and(|rest| rest.needs_expansion),
                },
            );
            if page.is_full() {
                is_last = true;
                let names =
                    [row.resource_type, row.resource, row.entitlement, row.principal_type, row.principal];
                last = Some(names.map(str::to_owned));
            }
            ControlFlow::Continue(())
        })?;
        if let Some(last) = last.filter(|_| has_more) {
            let [resource_type, resource, entitlement, principal_type, principal] = &last;
            let place = |[kind, name, id, principal_type, principal]: [&str; 5]| {
                (EntitlementKey::new(kind, name, id), [principal_type, principal].map(str::to_owned))
            };
            let is_behind = |after| place(after) < place(last.each_ref().map(String::as_str));
            if after.is_some_and(|after| !is_behind(after)) {
                return Err(Error::Damaged("grants stand where others belong"));
            }
            let last =
                Flat { entitlement, resource_type, resource, principal_type, principal, ..Flat::default() };
            more_behind(&mut page, &last);
        }
        Ok(page)
    }

    /// Begins a sync. All rows that were there are gone.
    pub(crate) fn start(&mut self, id: &str, kind: &str, parent: &str) -> Result<(), Error> {
        if id.is_empty() {
            return Err(Error::Invalid("a sync without an id cannot be started".to_owned()));
        }
        let kind = SyncKind::from_name(kind).ok_or_else(|| {
            Error::Invalid(format!("there is no kind {kind:?} of syncs that could be started"))
        })?;
        let parent = (!parent.is_empty()).then(|| parent.to_owned());
        *self = Graph::empty();
        self.sync = Some(Sync { id: id.to_owned(), kind, parent, started_at: now(), ..Sync::default() });
        Ok(())
    }

    /// Changes what is known of the sync.
    pub(crate) fn change(&mut self, change: impl FnOnce(&mut Sync)) -> Result<(), Error> {
        self.sync()?;
        if let Some(sync) = &mut self.sync {
            change(sync);
        }
        Ok(())
    }

    /// Ends the sync now.
    pub(crate) fn end(&mut self) -> Result<(), Error> {
        self.change(|sync| sync.ended_at = Some(now()))
    }

    /// What is known of the sync: nothing if there is none; else id, kind, parent and token, when it was started and ended, and
    /// whether diffs can be made against it.
    pub(crate) fn describe(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let Some(sync) = &self.sync else { return out };
        for text in [&*sync.id, sync.kind_name(), sync.parent.as_deref().unwrap_or_default(), &sync.token] {
            flat::put_blob(&mut out, text.as_bytes());
        }
        for time in [Some(sync.started_at), sync.ended_at] {
            flat::put_number(&mut out, usize::from(time.is_some()));
            let time = time.unwrap_or_default();
            flat::put_signed(&mut out, time.seconds);
            flat::put_number(&mut out, time.nanos.max(0) as usize);
        }
        flat::put_number(&mut out, usize::from(sync.supports_diff));
        out
    }

    /// How many rows there are: resource types, resources, entitlements, grants and assets; then, as often as there are types,
    /// a type with its resources, entitlements and grants.
    pub(crate) fn count(&mut self) -> Result<Vec<u8>, Error> {
        self.sync()?;
        let (grants, records) = self.grants()?;
        let mut types: std::collections::BTreeMap<&str, [usize; 3]> = std::collections::BTreeMap::new();
        for (kind, _) in records.resources.keys() {
            types.entry(kind).or_default()[0] += 1;
        }
        for key in records.entitlements.keys() {
            types.entry(&key.resource_type).or_default()[1] += 1;
        }
        for (kind, count) in grants.counts() {
            types.entry(kind).or_default()[2] += count;
        }
        let mut out = Vec::new();
        for count in [
            records.resource_types.len(),
            records.resources.len(),
            records.entitlements.len(),
            grants.len(),
            records.assets.len(),
        ] {
            flat::put_number(&mut out, count);
        }
        for (kind, counts) in types {
            flat::put_blob(&mut out, kind.as_bytes());
            counts.into_iter().for_each(|count| flat::put_number(&mut out, count));
        }
        Ok(out)
    }

    /// Writes the sync into a file of version 3, which takes the place of one that is there when it is complete and durable.
    /// Returns what the file could not hold, in words; nothing as a rule.
    pub(crate) fn save(&mut self, path: &Path) -> Result<String, Error> {
        let sync = self.sync()?.clone();
        let (grants, records) = self.grants()?;
        let mut writer = C1z3Writer::create(path, &WriteOptions::default())?;
        writer.begin_sync(&sync)?;
        records.resource_types.values().try_for_each(|row| writer.put_resource_type(row))?;
        records.resources.values().try_for_each(|row| writer.put_resource(row))?;
        records.entitlements.values().try_for_each(|row| writer.put_entitlement(row))?;
        grants.each(|row| Ok(writer.put_grant(&row)?))?;
        records.assets.values().try_for_each(|row| writer.put_asset(row))?;
        writer.end_sync()?;
        let losses = writer.losses().iter();
        let losses: Vec<String> = losses
            .map(|loss| {
                format!(
                    "{} of {} rows of the kind {}, such as {:?}",
                    loss.what, loss.rows, loss.row, loss.example
                )
            })
            .collect();
        writer.finish()?;
        Ok(losses.join("; "))
    }
}
