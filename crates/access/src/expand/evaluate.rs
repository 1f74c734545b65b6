//! What follows from what: node by node, sources first, with the holders of an entitlement in the order of principals.
//!
//! Of the entitlements that were done, only the holders are kept that a later one still follows from.

use std::collections::HashMap;
use std::ops::ControlFlow;

use super::edges::{Filter, Node};
use super::{Budget, Effective, EffectiveGrant, Origin, Row, Source, VisitGrant};

/// A principal in the upper bits, and in the lowest whether it holds by a grant of its own.
type Holder = u64;

/// Holders of the entitlements that others follow from.
type Held = HashMap<u32, Vec<Holder>>;

/// That somebody holds an entitlement by way of others: the principal, the place of the source in the list of sources,
/// whether it is direct there.
#[derive(Clone, Copy, Debug)]
struct Contribution(u64);

impl Contribution {
    fn new(principal: u32, source: usize, is_direct: bool) -> Contribution {
        Contribution(u64::from(principal) << 32 | (source as u64) << 1 | u64::from(is_direct))
    }

    fn principal(self) -> u32 {
        (self.0 >> 32) as u32
    }

    fn source(self) -> usize {
        (self.0 as u32 >> 1) as usize
    }

    fn is_direct(self) -> bool {
        self.0 & 1 == 1
    }
}

/// What is filled again for every grant.
#[derive(Default)]
struct Buffers<'a> {
    id: String,
    numbers: Vec<(u32, bool)>,
    sources: Vec<Source<'a>>,
}

impl Effective {
    /// Calls `visit` with the grants of the wanted entitlements, or of all; of one principal, or of all.
    pub(super) fn evaluate(
        &self,
        wanted: Option<&[u32]>,
        only: Option<u32>,
        budget: &Budget,
        visit: VisitGrant<'_>,
    ) {
        let _ = self.visit(wanted, only, budget, visit);
    }

    /// Calls `visit` with the grants of the nodes that grants lead into which have yet to be expanded, or that these or
    /// `changed` entitlements lead to. Of all others, the recorded grants are what the evaluation would give.
    pub(super) fn evaluate_pending(&self, changed: &[u32], visit: VisitGrant<'_>) {
        let nodes = self.edges.nodes();
        let nodes_of = |entitlements: &[u32]| {
            let mut are = vec![false; nodes.len()];
            let numbers = entitlements.iter().filter_map(|each| self.edges.node_of(*each));
            numbers.for_each(|node| are[node as usize] = true);
            are
        };
        let (mut affected, changed) = (nodes_of(&self.pending), nodes_of(changed));
        // Sources come first.
        for (number, node) in nodes.iter().enumerate() {
            let leads_on = |source: usize| affected[source] || changed[source];
            if node.incoming.iter().any(|each| leads_on(each.source as usize)) {
                affected[number] = true;
            }
        }
        let _ = self.visit_nodes((&affected, &|_| true), None, &Budget::unlimited(), visit);
    }

    fn visit(
        &self,
        wanted: Option<&[u32]>,
        only: Option<u32>,
        budget: &Budget,
        visit: VisitGrant<'_>,
    ) -> ControlFlow<()> {
        // Each entitlement is looked for among those that are wanted, twice.
        budget.spend(wanted.map_or(1, <[u32]>::len).saturating_mul(self.ends.len()).saturating_mul(2))?;
        let is_wanted = |entitlement: u32| wanted.is_none_or(|wanted| wanted.contains(&entitlement));
        let mut buffers = Buffers::default();
        let by_itself =
            |entitlement: &u32| is_wanted(*entitlement) && self.edges.node_of(*entitlement).is_none();
        for entitlement in (0..self.ends.len() as u32).filter(by_itself) {
            let rows = self.rows_of(entitlement, only);
            budget.spend(rows.len())?;
            self.merge((entitlement, rows), (&[], &[]), &mut buffers, None, &mut |grant| visit(grant))?;
        }
        let needed = self.needed(self.edges.nodes(), &is_wanted);
        self.visit_nodes((&needed, &is_wanted), only, budget, visit)
    }

    /// Calls `visit` with the wanted grants of nodes. What leads into them from others is taken as it is recorded.
    fn visit_nodes(
        &self,
        (needed, is_wanted): (&[bool], &dyn Fn(u32) -> bool),
        only: Option<u32>,
        budget: &Budget,
        visit: VisitGrant<'_>,
    ) -> ControlFlow<()> {
        let nodes = self.edges.nodes();
        let mut buffers = Buffers::default();
        let mut uses: Vec<u32> = nodes.iter().map(|_| 0).collect();
        for (node, _) in nodes.iter().zip(needed).filter(|(_, needed)| **needed) {
            node.incoming.iter().for_each(|each| uses[each.source as usize] += 1);
        }
        let mut held = Held::new();
        let (mut sources, mut contributions) = (Vec::new(), Vec::new());
        for (number, node) in nodes.iter().enumerate().filter(|(number, _)| needed[*number]) {
            sources.clear();
            for incoming in &node.incoming {
                let from = &nodes[incoming.source as usize].entitlements;
                budget.spend(from.len())?;
                sources.extend(
                    from.iter().map(|source| (self.id_of[*source as usize], *source, &incoming.filter)),
                );
            }
            sources.sort_by_key(|(id, source, _)| (*id, *source));
            contributions.clear();
            for (place, (_, source, filter)) in sources.iter().enumerate() {
                let holders = held.get(source).map_or_else(|| self.rows_of(*source, only).len(), Vec::len);
                budget.spend(holders)?;
                self.contribute((*source, place), filter, only, &held, &mut contributions);
            }
            // Each source is in order already: this merges them.
            contributions.sort_by_key(|each: &Contribution| each.0);
            let ids: Vec<u32> = sources.iter().map(|(id, _, _)| *id).collect();
            for entitlement in &node.entitlements {
                let rows = self.rows_of(*entitlement, only);
                budget.spend(rows.len() + contributions.len())?;
                // Without anything that leads into it, its holders are those of its grants.
                let is_source = uses[number] > 0 && !node.incoming.is_empty();
                let mut holders = is_source.then(Vec::new);
                let told = is_wanted(*entitlement);
                self.merge(
                    (*entitlement, rows),
                    (&ids, &contributions),
                    &mut buffers,
                    holders.as_mut(),
                    &mut |grant| {
                        if told {
                            visit(grant)
                        } else {
                            ControlFlow::Continue(())
                        }
                    },
                )?;
                held.extend(holders.map(|holders| (*entitlement, holders)));
            }
            for incoming in &node.incoming {
                let left = &mut uses[incoming.source as usize];
                *left -= 1;
                if *left == 0 {
                    nodes[incoming.source as usize]
                        .entitlements
                        .iter()
                        .for_each(|done| drop(held.remove(done)));
                }
            }
        }
        ControlFlow::Continue(())
    }

    /// Which nodes have to be looked at for what is wanted: theirs, and all that lead to them.
    fn needed(&self, nodes: &[Node], is_wanted: &impl Fn(u32) -> bool) -> Vec<bool> {
        let mut needed: Vec<bool> =
            nodes.iter().map(|node| node.entitlements.iter().any(|each| is_wanted(*each))).collect();
        for number in (0..nodes.len()).rev() {
            if needed[number] {
                nodes[number].incoming.iter().for_each(|each| needed[each.source as usize] = true);
            }
        }
        needed
    }

    /// The grants of an entitlement, or those of them that one principal has.
    pub(super) fn rows_of(&self, entitlement: u32, only: Option<u32>) -> &[Row] {
        let rows = &self.rows[self.places_of(entitlement)];
        match only {
            None => rows,
            Some(principal) => {
                let start = rows.partition_point(|row| row.principal < principal);
                let count = rows[start..].partition_point(|row| row.principal == principal);
                &rows[start..start + count]
            }
        }
    }

    /// Adds what the holders of a source contribute.
    fn contribute(
        &self,
        (source, place): (u32, usize),
        filter: &Filter,
        only: Option<u32>,
        held: &Held,
        contributions: &mut Vec<Contribution>,
    ) {
        let mut add = |principal: u32, is_direct: bool| {
            if filter.admits(self.principal_types[principal as usize], is_direct) {
                contributions.push(Contribution::new(principal, place, is_direct));
            }
        };
        match held.get(&source) {
            Some(holders) => {
                holders.iter().for_each(|holder| add((holder >> 1) as u32, holder & 1 == 1));
            }
            None => {
                for of_one in self.rows_of(source, only).chunk_by(|a, b| a.principal == b.principal) {
                    add(of_one[0].principal, of_one.iter().any(|row| self.is_direct(source, row)));
                }
            }
        }
    }

    /// Merges the grants of an entitlement with what sources contribute, principal by principal.
    fn merge<'a>(
        &'a self,
        (entitlement, rows): (u32, &[Row]),
        (ids, contributions): (&[u32], &[Contribution]),
        buffers: &mut Buffers<'a>,
        mut holders: Option<&mut Vec<Holder>>,
        visit: &mut dyn FnMut(&EffectiveGrant<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let (mut row, mut next) = (0, 0);
        loop {
            let principal = match (rows.get(row), contributions.get(next)) {
                (None, None) => return ControlFlow::Continue(()),
                (Some(row), None) => row.principal,
                (None, Some(next)) => next.principal(),
                (Some(row), Some(next)) => row.principal.min(next.principal()),
            };
            let own = rows[row..].iter().take_while(|row| row.principal == principal).count();
            let by_others =
                contributions[next..].iter().take_while(|each| each.principal() == principal).count();
            let (own, by_others) = (&rows[row..row + own], &contributions[next..next + by_others]);
            (row, next) = (row + own.len(), next + by_others.len());
            if let Some(holders) = &mut holders {
                let is_direct = own.iter().any(|row| self.is_direct(entitlement, row));
                holders.push(u64::from(principal) << 1 | u64::from(is_direct));
            }
            for row in own {
                let origin = self.put_sources(entitlement, row, ids, by_others, &mut buffers.numbers);
                self.put_id(entitlement, row, &mut buffers.id);
                let is_direct = self.is_direct(entitlement, row);
                self.tell((entitlement, principal), (origin, is_direct), buffers, visit)?;
            }
            if own.is_empty() {
                buffers.numbers.clear();
                add_all(&mut buffers.numbers, ids, by_others);
                buffers.id.clear();
                self.put_derived_id(entitlement, principal, &mut buffers.id);
                self.tell((entitlement, principal), (Origin::Derived, false), buffers, visit)?;
            }
        }
    }

    /// The sources of a grant of the sync, with those that others contribute.
    fn put_sources(
        &self,
        entitlement: u32,
        row: &Row,
        ids: &[u32],
        by_others: &[Contribution],
        sources: &mut Vec<(u32, bool)>,
    ) -> Origin {
        sources.clear();
        let said = self.rest(row).map_or(&[][..], |rest| &rest.sources);
        sources.extend_from_slice(said);
        if by_others.is_empty() {
            return Origin::Recorded;
        }
        if said.is_empty() {
            sources.push((self.id_of[entitlement as usize], true));
        }
        add_all(sources, ids, by_others);
        if sources == said {
            Origin::Recorded
        } else {
            Origin::Updated
        }
    }

    fn tell<'a>(
        &'a self,
        (entitlement, principal): (u32, u32),
        (origin, is_direct): (Origin, bool),
        buffers: &mut Buffers<'a>,
        visit: &mut dyn FnMut(&EffectiveGrant<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        buffers.sources.clear();
        buffers.sources.extend(buffers.numbers.iter().map(|(id, is_direct)| {
            let [entitlement] = self.ids.parts(*id);
            Source { entitlement, is_direct: *is_direct }
        }));
        visit(&EffectiveGrant {
            id: &buffers.id,
            entitlement: self.entitlement_name(entitlement),
            principal: self.principal_name(principal),
            is_direct,
            sources: &buffers.sources,
            origin,
        })
    }
}

/// Adds sources to others, in the order of ids: what is direct once is direct.
fn add_all(sources: &mut Vec<(u32, bool)>, ids: &[u32], contributions: &[Contribution]) {
    if sources.is_empty() {
        // They come in order.
        sources.extend(contributions.iter().map(|each| (ids[each.source()], each.is_direct())));
        sources.dedup_by(|later, first| {
            later.0 == first.0 && {
                first.1 |= later.1;
                true
            }
        });
        return;
    }
    for each in contributions {
        let id = ids[each.source()];
        match sources.binary_search_by_key(&id, |(known, _)| *known) {
            Ok(at) => sources[at].1 |= each.is_direct(),
            Err(at) => sources.insert(at, (id, each.is_direct())),
        }
    }
}
