//! What stores and packs hold, for requests. How they are read is in `crates/attachments`.

use crate::{
    api::{Answer, Api, Call},
    page,
    reply::{json, Refusal},
};
use duramen_api::{
    attachments::{
        pack::{AccessPage, AccessWhy},
        store::{StoreDifference, StoreEntries, StoreEntry},
        AttachmentKind,
    },
    route::Op,
};
use duramen_attachments::{
    error::ReadError,
    graph::{AccessAsked, Graph, WhyAsked},
    limits::PAGE,
    shelf::Shelf,
    store::{self, DifferenceAsked, EntriesAsked, EntryAsked, Store},
};
use serde::Serialize;
use std::sync::Arc;

/// The parameters of a request, which its reading takes along.
#[derive(Debug)]
struct Given(Vec<(&'static str, String)>);

impl Given {
    fn of(call: &Call<'_>) -> Result<Given, Refusal> {
        let names = call.endpoint.parameters.iter().map(|parameter| parameter.name);
        let given = names.filter_map(|name| match call.parameter(name) {
            Ok(value) => value.map(|value| Ok((name, value.into_owned()))),
            Err(refusal) => Some(Err(refusal)),
        });
        Ok(Given(given.collect::<Result<_, _>>()?))
    }

    /// The value of one; one that is empty is none.
    fn get(&self, name: &str) -> Option<&str> {
        self.all(name).filter(|value| !value.is_empty())
    }

    /// The value of one that has to be there, and may be empty.
    fn needed(&self, name: &str) -> Result<&str, ReadError> {
        self.all(name)
            .ok_or_else(|| ReadError::Invalid(format!("the parameter {name} is missing; give ?{name}=...")))
    }

    fn all(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_str())
    }
}

impl Api {
    /// What is asked of an attached store, pack or access graph.
    pub(crate) async fn stored(&self, call: &Call<'_>) -> Answer {
        let registry = self.attachments.registry()?;
        let given = Given::of(call)?;
        let limit = match call.endpoint.parameters.iter().any(|parameter| parameter.name == "limit") {
            true => page::limit(call)?.unwrap_or(PAGE),
            false => PAGE,
        };
        let is_graph = matches!(call.endpoint.op, Op::Pack | Op::AccessSearch | Op::Access | Op::AccessWhy);
        let (kind, at) = match is_graph {
            true => (AttachmentKind::Pack, registry.find(call.name, AttachmentKind::Pack)?),
            false => registry.find_store(call.name)?,
        };
        match call.endpoint.op {
            Op::StoreBranches => self.of_store(kind, at, store::branches).await,
            Op::StoreContents => {
                self.of_store(kind, at, move |store| store::contents(store, given.get("branch"))).await
            }
            Op::StoreHistory => {
                self.of_store(kind, at, move |store| store::history(store, given.get("branch"))).await
            }
            Op::StoreEntries => self.of_store(kind, at, move |store| entries(store, &given, limit)).await,
            Op::StoreEntry => self.of_store(kind, at, move |store| entry(store, &given)).await,
            Op::StoreDifference => {
                self.of_store(kind, at, move |store| difference(store, &given, limit)).await
            }
            Op::Pack => json(&self.attachments.reading.read(move |shelf| shelf.pack(&at)).await?),
            Op::AccessSearch => {
                self.of_graph(at, move |graph| Ok(graph.search(given.needed("search")?, limit))).await
            }
            Op::Access => self.of_graph(at, move |graph| access(graph, &given, limit)).await,
            Op::AccessWhy => self.of_graph(at, move |graph| why(graph, &given)).await,
            _ => Err(call.not_here()),
        }
    }

    async fn of_store<T: Serialize + Send + 'static>(
        &self,
        kind: AttachmentKind,
        at: String,
        work: impl FnOnce(&Store) -> Result<T, ReadError> + Send + 'static,
    ) -> Answer {
        json(&self.attachments.reading.read(move |shelf: &Shelf| work(&shelf.store(kind, &at)?)).await?)
    }

    async fn of_graph<T: Serialize + Send + 'static>(
        &self,
        at: String,
        work: impl FnOnce(&Arc<Graph>) -> Result<T, ReadError> + Send + 'static,
    ) -> Answer {
        json(&self.attachments.reading.read(move |shelf: &Shelf| work(&shelf.graph(&at)?)).await?)
    }
}

fn entries(store: &Store, given: &Given, limit: usize) -> Result<StoreEntries, ReadError> {
    store::entries(
        store,
        &EntriesAsked {
            branch: given.get("branch"),
            kind: store::kind(given.needed("kind")?)?,
            space: given.get("space"),
            collection: given.get("collection"),
            prefix: given.get("prefix").unwrap_or_default(),
            cursor: given.get("cursor"),
            limit,
        },
    )
}

fn entry(store: &Store, given: &Given) -> Result<StoreEntry, ReadError> {
    store::entry(
        store,
        &EntryAsked {
            branch: given.get("branch"),
            kind: store::kind(given.needed("kind")?)?,
            space: given.get("space"),
            collection: given.get("collection"),
            key: given.needed("key")?,
        },
    )
}

fn difference(store: &Store, given: &Given, limit: usize) -> Result<StoreDifference, ReadError> {
    store::difference(
        store,
        &DifferenceAsked {
            from: given.needed("from")?,
            to: given.needed("to")?,
            kind: given.get("kind").map(store::kind).transpose()?,
            space: given.get("space"),
            prefix: given.get("prefix").unwrap_or_default(),
            cursor: given.get("cursor"),
            limit,
        },
    )
}

fn access(graph: &Graph, given: &Given, limit: usize) -> Result<AccessPage, ReadError> {
    graph.access(&AccessAsked {
        resource_type: given.all("type"),
        principal: given.all("principal"),
        resource: given.all("resource"),
        entitlement: given.all("entitlement"),
        cursor: given.get("cursor"),
        limit,
    })
}

fn why(graph: &Graph, given: &Given) -> Result<AccessWhy, ReadError> {
    graph.why(&WhyAsked {
        resource_type: given.needed("type")?,
        principal: given.needed("principal")?,
        entitlement: given.needed("entitlement")?,
    })
}
