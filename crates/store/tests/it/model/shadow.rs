//! What a store should hold: plain sorted maps.

use std::collections::BTreeMap;
use std::rc::Rc;

/// Kind of data (0 pairs, 1 cells, 2 events, 3 documents), space, key (of an event, its number): all as numbers that
/// sort like what they stand for.
pub(crate) type Place = (u8, u8, u32);

/// What is at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The version of the write.
    pub(crate) version: u64,
    /// The version of a cell, 0 where it is not known yet; the small part of a document, and one more; 0 for others.
    pub(crate) cell: u64,
    /// The number of the value, of the event, or of the large part of a document.
    pub(crate) value: u32,
}

/// A document without a large part.
pub(crate) const NO_LARGE: u32 = u32::MAX;

impl Entry {
    /// The document that the entry stands for.
    pub(crate) fn document(&self) -> serde_json::Value {
        super::plan::document((self.value != NO_LARGE).then_some(self.value), self.cell.checked_sub(1))
    }
}

/// Writes that one entry of a kind takes: an event is indexed by its type as well.
pub(crate) fn writes_of(kind: u8) -> u64 {
    if kind == 2 {
        2
    } else {
        1
    }
}

/// The number of the next event of a space.
pub(crate) fn next_event(data: &Data, space: u8) -> u32 {
    let last = data.range((2, space, 0)..=(2, space, u32::MAX)).next_back();
    last.map_or(0, |(place, _)| place.2 + 1)
}

pub(crate) type Data = BTreeMap<Place, Entry>;

/// A branch.
#[derive(Clone, Debug)]
pub(crate) struct Twig {
    pub(crate) name: usize,
    pub(crate) parent: Option<u64>,
    pub(crate) protected: bool,
    pub(crate) data: Rc<Data>,
}

/// What a commit does, when all is decided.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Effect {
    Set { branch: u64, place: Place, entry: Entry },
    Remove { branch: u64, place: Place },
    Create { name: usize },
    Fork { source: u64, name: usize },
    Delete { branch: u64 },
    Reset { branch: u64, version: u64 },
    Protect { branch: u64, protected: bool },
}

/// All branches, by a number that is never used again.
#[derive(Clone, Debug)]
pub(crate) struct Shadow {
    pub(crate) twigs: BTreeMap<u64, Twig>,
    next: u64,
    /// The highest version that each cell of each branch ever had: none comes again (S14).
    highest: BTreeMap<(u64, Place), u64>,
}

impl Default for Shadow {
    fn default() -> Self {
        let main = Twig { name: 0, parent: None, protected: false, data: Rc::default() };
        Self { twigs: BTreeMap::from([(0, main)]), next: 1, highest: BTreeMap::new() }
    }
}

impl Shadow {
    /// The number of a branch by its name.
    pub(crate) fn find(&self, name: usize) -> Option<u64> {
        self.twigs.iter().find(|(_, twig)| twig.name == name).map(|(id, _)| *id)
    }

    pub(crate) fn data(&self, branch: u64) -> &Rc<Data> {
        &self.twigs[&branch].data
    }

    fn twig(&mut self, branch: u64) -> &mut Twig {
        self.twigs.get_mut(&branch).expect("effects are made for branches that are there")
    }

    fn add(&mut self, name: usize, parent: Option<u64>, data: Rc<Data>) {
        self.twigs.insert(self.next, Twig { name, parent, protected: false, data });
        self.next += 1;
    }

    fn hand_over_children(&mut self, branch: u64, parent: Option<u64>) {
        for twig in self.twigs.values_mut().filter(|twig| twig.parent == Some(branch)) {
            twig.parent = parent;
        }
    }

    fn note_cell(&mut self, branch: u64, place: Place, entry: Entry) {
        if place.0 == 1 {
            let before = self.highest.insert((branch, place), entry.cell);
            assert!(before.is_none_or(|before| before < entry.cell), "{place:?}: {before:?} comes again");
        }
    }

    pub(crate) fn apply(&mut self, effect: Effect) {
        match effect {
            Effect::Set { branch, place, entry } => {
                self.note_cell(branch, place, entry);
                Rc::make_mut(&mut self.twig(branch).data).insert(place, entry);
            }
            Effect::Remove { branch, place } => {
                Rc::make_mut(&mut self.twig(branch).data).remove(&place);
            }
            Effect::Create { name } => self.add(name, None, Rc::default()),
            Effect::Fork { source, name } => {
                let data = self.data(source).clone();
                self.add(name, Some(source), data);
            }
            Effect::Delete { branch } => {
                let dead = self.twigs.remove(&branch).expect("a branch that is deleted is there");
                self.hand_over_children(branch, dead.parent);
            }
            Effect::Reset { branch, version } => {
                let parent = self.twig(branch).parent.expect("a branch that is reset has a parent");
                let mut data = (**self.data(parent)).clone();
                for (place, entry) in data.iter_mut().filter(|(place, _)| place.0 == 1) {
                    entry.cell = version;
                    self.note_cell(branch, *place, *entry);
                }
                self.twig(branch).data = Rc::new(data);
                self.hand_over_children(branch, Some(parent));
            }
            Effect::Protect { branch, protected } => self.twig(branch).protected = protected,
        }
    }
}
