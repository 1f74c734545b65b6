//! In which order tables are written, so that what a row refers to is there.

use super::target::Catalogue;
use std::collections::{BTreeMap, BTreeSet};

/// The places of tables, those that others refer to first. Tables that refer to each other in a circle come as they stand.
pub(crate) fn parents_first(catalogue: &Catalogue) -> Vec<usize> {
    let count = catalogue.tables.len();
    let mut places: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (place, table) in catalogue.tables.iter().enumerate() {
        for id in table.iter().flat_map(|table| &table.lineage) {
            places.entry(*id).or_default().push(place);
        }
    }
    let of = |id: u32| places.get(&id).map_or(&[][..], Vec::as_slice);
    // For each table those that it refers to.
    let mut refers: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); count];
    for key in &catalogue.foreign_keys {
        for child in of(key.child) {
            refers[*child].extend(of(key.parent).iter().filter(|parent| *parent != child));
        }
    }
    let mut order = Vec::with_capacity(count);
    let mut is_placed = vec![false; count];
    while order.len() < count {
        let ready = (0..count)
            .find(|place| !is_placed[*place] && refers[*place].iter().all(|parent| is_placed[*parent]))
            .or_else(|| (0..count).find(|place| !is_placed[*place]));
        let Some(place) = ready else { break };
        is_placed[place] = true;
        order.push(place);
    }
    order
}

#[cfg(test)]
mod tests {
    use super::{
        super::target::{Catalogue, ForeignKey, TargetTable},
        parents_first,
    };

    #[test]
    fn what_is_referred_to_comes_first_and_circles_end() {
        let table = |id| {
            let (columns, keys, triggers) = (Default::default(), Vec::new(), Vec::new());
            Some(TargetTable { id, lineage: vec![id], columns, keys, triggers })
        };
        let key = |child, parent| ForeignKey {
            child,
            is_partitioned: false,
            child_name: Default::default(),
            parent,
            columns: Vec::new(),
            cascades: false,
        };
        let tables = vec![table(10), table(11), table(12), table(13), None];
        let foreign_keys = vec![key(10, 11), key(11, 12), key(11, 11)];
        assert_eq!(parents_first(&Catalogue { tables: tables.clone(), foreign_keys }), [2, 1, 0, 3, 4]);
        let circle = Catalogue { tables, foreign_keys: vec![key(10, 11), key(11, 10)] };
        assert_eq!(parents_first(&circle).len(), 5);
    }
}
