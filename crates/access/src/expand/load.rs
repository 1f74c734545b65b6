//! Reads a sync, once: its entitlements and its grants.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use super::edges::{Cause, Edges, Filter};
use super::names::{Gathered, Names};
use super::{Effective, Rest, Row};
use crate::c1z::losses::Losses;
use crate::graph::format::payload::is_derived;
use crate::graph::tail::radix::{self, Keyed};
use crate::graph::{Expansion, GrantRef, GraphSource};

/// The most grants of one sync, and the most names of a kind: they are counted in 32 bits.
const COUNT_MAX: usize = u32::MAX as usize - 1;

/// Why a sync was not read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExpandError<E: std::error::Error + 'static> {
    /// Its file cannot be read.
    #[error(transparent)]
    Read(E),
    /// There is more than can be counted.
    #[error("a sync of more than {COUNT_MAX} grants cannot be expanded")]
    TooLarge,
}

/// A grant before all names are known.
struct Loaded {
    entitlement: u32,
    principal: u32,
    rest: u32,
}

#[derive(Default)]
struct Loader {
    entitlements: Gathered,
    principals: Gathered,
    ids: Gathered,
    types: Gathered,
    /// The numbers of the id of each entitlement, and of the type of each principal.
    id_of: Vec<u32>,
    type_of: Vec<u32>,
    /// Whether there is a row of an entitlement, and not only grants of it.
    has_row: Vec<bool>,
    rows: Vec<Loaded>,
    rests: Vec<Rest>,
    /// The places of grants that expand, before they are sorted.
    expanding: Vec<(u32, Expansion)>,
    /// The entitlements of grants that have yet to be expanded.
    pending: BTreeSet<u32>,
}

impl Loader {
    fn entitlement(&mut self, resource_type: &str, resource: &str, id: &str) -> u32 {
        let number = self.entitlements.number(&[resource_type, resource, id]);
        if number as usize == self.id_of.len() {
            self.id_of.push(self.ids.number(&[id]));
            self.has_row.push(false);
        }
        number
    }

    fn principal(&mut self, resource_type: &str, resource: &str) -> u32 {
        let number = self.principals.number(&[resource_type, resource]);
        if number as usize == self.type_of.len() {
            self.type_of.push(self.types.number(&[resource_type]));
        }
        number
    }

    fn grant(&mut self, grant: &GrantRef<'_>) -> bool {
        if self.rows.len() >= COUNT_MAX || self.ids.len() >= COUNT_MAX || self.principals.len() >= COUNT_MAX {
            return false;
        }
        let entitlement = self.entitlement(grant.resource_type, grant.resource, grant.entitlement);
        let principal = self.principal(grant.principal_type, grant.principal);
        let id = (!is_derived(grant)).then(|| Box::from(grant.id));
        let sources = grant.rest.map_or(&[][..], |rest| &rest.sources);
        let sources: Vec<(u32, bool)> =
            sources.iter().map(|(id, is_direct)| (self.ids.number(&[id]), *is_direct)).collect();
        let mut rest = 0;
        if id.is_some() || !sources.is_empty() {
            self.rests.push(Rest { id, sources });
            rest = self.rests.len() as u32;
        }
        if let Some(expansion) = grant.rest.and_then(|rest| rest.expansion.as_ref()) {
            self.expanding.push((self.rows.len() as u32, expansion.clone()));
        }
        if grant.rest.is_some_and(|rest| rest.needs_expansion) {
            self.pending.insert(entitlement);
        }
        self.rows.push(Loaded { entitlement, principal, rest });
        true
    }
}

impl Effective {
    /// Reads the entitlements and grants of a sync.
    ///
    /// # Errors
    /// When the source cannot be read or has no such sync.
    pub fn load<S: GraphSource>(source: &S, sync: &str) -> Result<Effective, ExpandError<S::Error>> {
        let mut loader = Loader::default();
        source
            .for_each_entitlement(sync, &mut |row| {
                let resource = &row.resource;
                let number = loader.entitlement(&resource.resource_type, &resource.resource, &row.id);
                loader.has_row[number as usize] = true;
                ControlFlow::Continue(())
            })
            .map_err(ExpandError::Read)?;
        let mut is_too_large = false;
        source
            .for_each_grant_ref(sync, &mut |grant| match loader.grant(&grant) {
                true => ControlFlow::Continue(()),
                false => {
                    is_too_large = true;
                    ControlFlow::Break(())
                }
            })
            .map_err(ExpandError::Read)?;
        if is_too_large {
            return Err(ExpandError::TooLarge);
        }
        Ok(loader.finished())
    }
}

/// Puts what was kept by one numbering under another.
fn renumbered(values: &[u32], keys: &[u32], mapped: &[u32]) -> Vec<u32> {
    let mut all = vec![0; values.len()];
    for (value, key) in values.iter().zip(keys) {
        all[*key as usize] = mapped[*value as usize];
    }
    all
}

impl Loader {
    fn finished(self) -> Effective {
        let (entitlements, entitlement_ranks) = self.entitlements.sorted(3);
        let (principals, principal_ranks) = self.principals.sorted(2);
        let (ids, id_ranks) = self.ids.sorted(1);
        let (types, type_ranks) = self.types.sorted(1);
        let id_of = renumbered(&self.id_of, &entitlement_ranks, &id_ranks);
        let principal_types = renumbered(&self.type_of, &principal_ranks, &type_ranks);
        let mut has_row = vec![false; self.has_row.len()];
        entitlement_ranks.iter().zip(&self.has_row).for_each(|(rank, has)| has_row[*rank as usize] = *has);
        let mut rests = self.rests;
        for rest in &mut rests {
            rest.sources.iter_mut().for_each(|(id, _)| *id = id_ranks[*id as usize]);
            rest.sources.sort_unstable();
        }
        let bits = radix::bits_below(principals.len());
        let mut order: Vec<Keyed> = (0..)
            .zip(&self.rows)
            .map(|(item, row)| {
                let entitlement = u64::from(entitlement_ranks[row.entitlement as usize]);
                let principal = u64::from(principal_ranks[row.principal as usize]);
                Keyed { key: entitlement << bits | principal, item }
            })
            .collect();
        radix::sort(&mut order, &mut Vec::new(), bits + radix::bits_below(entitlements.len()));
        let mut ends = vec![0; entitlements.len()];
        let mut rows = Vec::with_capacity(order.len());
        for each in &order {
            ends[(each.key >> bits) as usize] += 1;
            let row = &self.rows[each.item as usize];
            rows.push(Row { principal: principal_ranks[row.principal as usize], rest: row.rest });
        }
        let mut sum = 0;
        for end in &mut ends {
            sum += *end;
            *end = sum;
        }
        let pending = self.pending.iter().map(|number| entitlement_ranks[*number as usize]).collect();
        let mut effective = Effective {
            entitlements,
            principals,
            principal_types,
            ids,
            id_of,
            rows,
            ends,
            rests,
            edges: Edges::default(),
            pending,
            left_out: Vec::new(),
        };
        if !self.expanding.is_empty() {
            let mut place_of = vec![0_u32; order.len()];
            (0..).zip(&order).for_each(|(place, each)| place_of[each.item as usize] = place);
            let mut expanding: Vec<(u32, Expansion)> = self.expanding;
            expanding.iter_mut().for_each(|(place, _)| *place = place_of[*place as usize]);
            expanding.sort_by_key(|(place, _)| *place);
            effective.expand(&expanding, &has_row, &types);
        }
        effective
    }
}

impl Effective {
    /// Draws the graph of what grants say.
    fn expand(&mut self, expanding: &[(u32, Expansion)], has_row: &[bool], types: &Names) {
        let mut losses = Losses::default();
        let mut said = Vec::new();
        // Of several resources that share an id, the first one is meant, as when an entitlement is asked for by its id.
        let mut with_id: Vec<Option<u32>> = vec![None; self.ids.len()];
        for (number, id) in (0_u32..).zip(&self.id_of).filter(|(number, _)| has_row[*number as usize]) {
            with_id[*id as usize].get_or_insert(number);
        }
        let mut grant_id = String::new();
        for (place, expansion) in expanding {
            let destination = self.ends.partition_point(|end| end <= place) as u32;
            let row = self.rows[*place as usize];
            self.put_id(destination, &row, &mut grant_id);
            // A type that nobody here has admits nobody.
            let known = |id: &String| types.find(&[id]).unwrap_or(u32::MAX);
            let filter =
                Filter::new(expansion.shallow, expansion.resource_type_ids.iter().map(known).collect());
            for id in expansion.entitlement_ids.iter().filter(|id| !id.is_empty()) {
                let Some(source) = self.ids.find(&[id]).and_then(|id| with_id[id as usize]) else {
                    losses.note("grant", "an expansion of an entitlement that is not there", &grant_id);
                    continue;
                };
                if !has_row[destination as usize] {
                    losses.note("grant", "an expansion into an entitlement that is not there", &grant_id);
                    continue;
                }
                let (about, holder) = (self.entitlement_name(source), self.principal_name(row.principal));
                if (about.resource_type, about.resource) != (holder.resource_type, holder.resource) {
                    losses.note(
                        "grant",
                        "an expansion of an entitlement of another resource than its principal",
                        &grant_id,
                    );
                    continue;
                }
                said.push((Cause { source, destination, place: *place }, filter.clone()));
            }
        }
        self.edges = Edges::new(&said);
        self.left_out = losses.all().to_vec();
    }
}
