//! A fleet: daemons on several machines that agree by etcd on who is there and who has which name.
//!
//! | module | what it is for |
//! | --- | --- |
//! | `address` | where etcd is, as users write it |
//! | `etcd` | etcd, asked with deadlines |
//! | `record` | what is stored, under which key |
//! | `view` | what a node has seen of the fleet, and what follows from it |
//! | `member` | being a node: registered, fenced, drained |
//! | `names` | names: claimed, confirmed, freed, reconciled |
//! | `tokens` | tokens of the fleet |
//! | `sources` | definitions of sources, and the places of their copies |
//! | `health` | how etcd's members are |
//! | `agreed` | all that is agreed on, copied out of etcd at one revision |
//! | `restore` | and put back into an etcd that lost it |
//! | `figures` | what is counted of etcd |
//! | `authority` | the certificates by which nodes know one another |
//!
//! How it works, and what it promises, is in `docs/design/fleet.md`; the invariants FL-1 to FL-20 that comments and tests name are
//! there. Without the feature `etcd` this crate is empty.
#![cfg(feature = "etcd")]
#![deny(rustdoc::broken_intra_doc_links)]

pub mod address;
pub mod agreed;
pub mod authority;
pub mod etcd;
mod figures;
pub mod health;
pub mod member;
pub mod names;
pub mod record;
pub mod restore;
pub mod sources;
pub mod tokens;
pub mod view;
