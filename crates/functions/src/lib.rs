//! Durable functions in SQL, on any PostgreSQL.
//!
//! A function is a graph of steps that people write with the constructors and operators of the schema `df`.
//! `df.start` stores an instance of it; a [`worker`] runs it, step by step, and survives whatever kills it: a SQL step
//! and the record that it has run commit together.
//!
//! - [`schema`] puts `df` into a database.
//! - [`worker`] runs what is started there.
//! - [`client`] starts instances and waits for them.
//! - [`cluster`] is several databases that run functions together: shards, and a worker for all of them.
//! - [`inspect`] shows them to people, and steers one of them.
//! - [`graph`] and [`interpret`] are what an instance is, without a database, a clock or a network.

pub mod client;
pub mod cluster;
pub mod graph;
pub mod http;
pub mod inspect;
pub mod interpret;
pub mod json;
pub mod nontransactional;
pub mod rehearsal;
pub mod result;
pub mod schedule;
pub mod schema;
pub mod substitute;
pub mod truth;
pub mod worker;
