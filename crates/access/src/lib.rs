//! Access graphs: who may do what, where from, as packs and as the `.c1z` files of the access-governance world.
//!
//! A graph holds syncs of resources, entitlements and grants. It is kept in a [pack](duramen_pack) with the indexes that
//! its queries need, and travels as `.c1z` to and from the tools of others.
//!
//! | module | what it is for |
//! | --- | --- |
//! | [`graph`] | graphs in packs: writing, querying, comparing them; the rows and traits that all formats share |
//! | [`c1z`] | `.c1z` files, versions 1 and 3: reading and writing them |
//! | [`expand`] | who effectively has what, and why |
//! | [`expansion`] | the same, written into the file |
//! | [`file`](mod@file) | a graph in a file of any format |
//! | [`check`] | whether the rows of a sync fit together |
//! | [`rows`] | rows as CSV or JSON, all or those that a filter means |
//! | [`convert`] | from one format into another, and what did not fit |
//! | [`messages`] | rows as messages of connectors, for programs that speak the ecosystem's SDK |
//! | [`prune`] | old syncs taken out of a file |
//! | [`compact`] | partial syncs and the full one before them, made into one |
//!
//! The formats and their invariants are in `docs/design/access-graph.md` and `docs/design/c1z.md`.
//!
//! ```
//! use duramen_access::graph::{Grant, GrantScope, GraphPack, GraphStore, PageRequest, ResourceId, SyncKind};
//!
//! # let dir = tempfile::tempdir()?;
//! let path = dir.path().join("access.dpack");
//! let mut store = GraphStore::open(&path)?;
//! store.start_sync(SyncKind::Full, None)?;
//! let mut grant = Grant { id: "repository:duramen:push:user:ada".to_owned(), ..Grant::default() };
//! grant.entitlement.resource = ResourceId::new("repository", "duramen");
//! grant.entitlement.id = "repository:duramen:push".to_owned();
//! grant.principal.id = ResourceId::new("user", "ada");
//! store.put_grants([&grant])?;
//! store.end_sync()?;
//! store.close()?;
//!
//! let sync = GraphPack::open(&path)?.view(None)?;
//! let of_ada = sync.grants(GrantScope::Principal(&grant.principal.id), PageRequest::default())?;
//! assert_eq!(of_ada.to_grants()?, [grant]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod c1z;
pub mod check;
pub mod compact;
pub mod convert;
pub mod expand;
pub mod expansion;
pub mod file;
pub mod graph;
#[doc(hidden)]
pub mod hostile;
pub mod messages;
pub mod prune;
pub mod rows;
