//! Why somebody holds an entitlement: every path, shortest first.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::ops::ControlFlow;

use super::{Budget, Effective, OverBudget, Row};
use crate::graph::ResourceId;

/// Where a path begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Start {
    /// With a grant of the principal's own.
    Direct,
    /// With a grant that says that it follows from others, while no other grant of the sync says how.
    Recorded,
}

/// One step: whoever holds what came before holds this too, because a grant says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The id of the entitlement that follows.
    pub entitlement: String,
    /// The id of the grant that says so.
    pub grant: String,
    /// The resource that has the grant: what came before is an entitlement of it, or of one in a cycle with it.
    pub by: ResourceId,
    /// Whether the grant means only those who hold what came before by a grant of their own.
    pub shallow: bool,
}

/// How somebody comes to an entitlement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// Where it begins.
    pub kind: Start,
    /// The id of the entitlement that it begins with.
    pub start: String,
    /// The id of the grant that it begins with.
    pub grant: String,
    /// The sources that the grant names, if it is [`Start::Recorded`].
    pub sources: Vec<String>,
    /// What follows, up to the entitlement that was asked for; none if that is what it begins with.
    pub steps: Vec<Step>,
}

/// Why somebody holds an entitlement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Why {
    /// Paths, the shortest first: as many as were asked for.
    pub paths: Vec<Path>,
    /// How many there are; [`u64::MAX`] stands for that or more.
    pub all: u64,
}

/// What one principal's holding an entitlement comes from.
#[derive(Default)]
struct Holding {
    /// A grant with which paths begin, and how.
    start: Option<(Start, Row)>,
    /// The entitlements that it follows from, and whether only a direct holding of them counts.
    from: Vec<(u32, bool)>,
    /// How many steps the shortest path has.
    shortest: u32,
    /// How many paths there are.
    paths: u64,
}

/// A path from its end back to some entitlement.
#[derive(Clone, Copy)]
struct Partial {
    entitlement: u32,
    steps: u32,
    /// The path to here from the end.
    rest: Option<u32>,
    /// It has to begin here.
    ends_here: bool,
}

impl Effective {
    /// Why a principal holds the entitlements of an id: the `limit` shortest paths. None if it does not.
    pub fn why(&self, principal: &ResourceId, entitlement: &str, limit: usize) -> Why {
        let mut why = Why::default();
        let _ = self.find_paths(principal, entitlement, limit, &Budget::unlimited(), &mut why);
        why
    }

    /// As [`why`](Self::why), if it costs no more than it may.
    ///
    /// # Errors
    /// [`OverBudget`] when the budget is spent before all paths are found.
    pub fn why_within(
        &self,
        principal: &ResourceId,
        entitlement: &str,
        limit: usize,
        budget: &Budget,
    ) -> Result<Why, OverBudget> {
        let mut why = Why::default();
        let _ = self.find_paths(principal, entitlement, limit, budget, &mut why);
        budget.check().map(|()| why)
    }

    fn find_paths(
        &self,
        principal: &ResourceId,
        entitlement: &str,
        limit: usize,
        budget: &Budget,
        why: &mut Why,
    ) -> ControlFlow<()> {
        let Some(number) = self.principal(principal) else { return ControlFlow::Break(()) };
        budget.spend(self.ends.len())?;
        let mut holdings = HashMap::new();
        self.find_holdings(number, budget, &mut holdings)?;
        let mut partials: Vec<Partial> = Vec::new();
        // The least first: shortest in all, then longest so far, so that paths come to their end; then as they came.
        let mut open = BinaryHeap::new();
        for end in self.of_id(entitlement) {
            let Some(holding) = holdings.get(&end) else { continue };
            why.all = why.all.saturating_add(holding.paths);
            open.push((Reverse(holding.shortest), 0, Reverse(partials.len())));
            partials.push(Partial { entitlement: end, steps: 0, rest: None, ends_here: false });
        }
        while let Some((_, _, Reverse(at))) = open.pop() {
            if why.paths.len() == limit {
                break;
            }
            let partial = partials[at];
            let Some(holding) = holdings.get(&partial.entitlement) else { continue };
            if partial.ends_here {
                budget.spend(partial.steps as usize)?;
                why.paths.extend(self.path(&partials, at, holding));
                continue;
            }
            budget.spend(holding.from.len() + 1)?;
            let mut push = |entitlement: u32, steps: u32, rest: Option<u32>, ends_here: bool, to_go: u32| {
                open.push((Reverse(steps + to_go), steps, Reverse(partials.len())));
                partials.push(Partial { entitlement, steps, rest, ends_here });
            };
            if holding.start.is_some() {
                push(partial.entitlement, partial.steps, partial.rest, true, 0);
            }
            for (source, is_shallow) in &holding.from {
                let to_go = match is_shallow {
                    true => 0,
                    false => holdings.get(source).map_or(0, |holding| holding.shortest),
                };
                push(*source, partial.steps + 1, Some(at as u32), *is_shallow, to_go);
            }
        }
        ControlFlow::Continue(())
    }

    /// What a principal holds, and from what each of it follows.
    fn find_holdings(
        &self,
        principal: u32,
        budget: &Budget,
        holdings: &mut HashMap<u32, Holding>,
    ) -> ControlFlow<()> {
        for entitlement in 0..self.ends.len() as u32 {
            let own = self.rows_of(entitlement, Some(principal));
            let direct = own.iter().find(|row| self.is_direct(entitlement, row));
            let start =
                direct.map(|row| (Start::Direct, *row)).or(own.first().map(|row| (Start::Recorded, *row)));
            if let Some(start) = start {
                holdings.insert(entitlement, Holding { start: Some(start), paths: 1, ..Holding::default() });
            }
        }
        let kind = self.principal_types[principal as usize];
        for node in self.edges.nodes() {
            let mut from = Vec::new();
            for incoming in &node.incoming {
                budget.spend(self.edges.nodes()[incoming.source as usize].entitlements.len())?;
                for source in &self.edges.nodes()[incoming.source as usize].entitlements {
                    let Some(holding) = holdings.get(source) else { continue };
                    let is_direct = matches!(holding.start, Some((Start::Direct, _)));
                    if incoming.filter.admits(kind, is_direct) {
                        from.push((*source, incoming.filter.shallow));
                    }
                }
            }
            if from.is_empty() {
                continue;
            }
            from.sort_unstable();
            let (mut shortest, mut paths) = (u32::MAX, 0_u64);
            for (source, is_shallow) in &from {
                let (steps, ways) = match (is_shallow, holdings.get(source)) {
                    (false, Some(holding)) => (holding.shortest, holding.paths),
                    _ => (0, 1),
                };
                shortest = shortest.min(steps + 1);
                paths = paths.saturating_add(ways);
            }
            for entitlement in &node.entitlements {
                budget.spend(from.len())?;
                let holding = holdings.entry(*entitlement).or_default();
                holding.from.clone_from(&from);
                // One that only names its sources begins no path where others say how it follows.
                holding.start = holding.start.filter(|(start, _)| *start == Start::Direct);
                holding.shortest = if holding.start.is_some() { 0 } else { shortest };
                holding.paths = paths.saturating_add(u64::from(holding.start.is_some()));
            }
        }
        ControlFlow::Continue(())
    }

    /// The path whose beginning was found.
    fn path(&self, partials: &[Partial], at: usize, holding: &Holding) -> Option<Path> {
        let (kind, row) = holding.start?;
        let partial = partials[at];
        let mut grant = String::new();
        self.put_id(partial.entitlement, &row, &mut grant);
        let sources = match kind {
            Start::Direct => Vec::new(),
            Start::Recorded => {
                let said = self.rest(&row).map_or(&[][..], |rest| &rest.sources);
                said.iter().map(|(id, _)| self.ids.parts::<1>(*id)[0].to_owned()).collect()
            }
        };
        let mut steps = Vec::new();
        let (mut from, mut next) = (partial.entitlement, partial.rest);
        while let Some(at) = next {
            let to = partials[at as usize];
            let (cause, filter) = self.edges.cause(from, to.entitlement)?;
            let row = self.rows[cause.place as usize];
            let mut grant = String::new();
            self.put_id(cause.destination, &row, &mut grant);
            let by = self.principal_name(row.principal);
            steps.push(Step {
                entitlement: self.entitlement_name(to.entitlement).id.to_owned(),
                grant,
                by: ResourceId::new(by.resource_type, by.resource),
                shallow: filter.shallow,
            });
            (from, next) = (to.entitlement, to.rest);
        }
        Some(Path {
            kind,
            start: self.entitlement_name(partial.entitlement).id.to_owned(),
            grant,
            sources,
            steps,
        })
    }
}
