//! Reading a graph: packs, the queries of a sync, comparison, verification.

pub(crate) mod csv;
pub(crate) mod diff;
pub(crate) mod overlay;
pub(crate) mod pack;
pub(crate) mod page;
pub(crate) mod scan;
pub(crate) mod verify;
pub(crate) mod view;
