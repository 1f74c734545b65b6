//! Random graphs, and signals for them.

use super::super::build::*;
use super::super::chance::Chance;
use super::Time;

/// What a node may be, depending on what is around it.
#[derive(Clone, Copy)]
struct Place {
    depth: u32,
    in_loop: bool,
    in_map: bool,
}

struct Generator<'a> {
    chance: &'a mut Chance,
    nodes: u32,
}

pub(in super::super) fn graph(chance: &mut Chance) -> N {
    let mut generator = Generator { chance, nodes: 0 };
    generator.node(Place { depth: 0, in_loop: false, in_map: false })
}

/// Signals for the waits of a graph, in the order of their times.
pub(in super::super) fn signals(graph: &N, chance: &mut Chance) -> Vec<(Time, String)> {
    let mut names = Vec::new();
    waits(graph, &mut names);
    let mut signals = Vec::new();
    for name in names {
        for _ in 0..chance.below(3) {
            signals.push((chance.between(1, 4_000_000) as Time * 1_000 + 7, name.clone()));
        }
    }
    signals.sort();
    signals
}

fn waits(node: &N, names: &mut Vec<String>) {
    if node.kind == "SIGNAL" {
        let query = node.query.clone().unwrap_or_default();
        names.extend(query.split('"').nth(3).map(str::to_owned));
    }
    let children = [&node.condition, &node.left, &node.right];
    for child in children.into_iter().flatten().map(|child| &**child).chain(&node.extra) {
        waits(child, names);
    }
}

impl Generator<'_> {
    fn node(&mut self, place: Place) -> N {
        let node = self.plain_node(place);
        if self.chance.one_in(3) {
            let name = self.chance.pick(&["a", "b", "c"]);
            return node.named(name);
        }
        node
    }

    fn plain_node(&mut self, place: Place) -> N {
        self.nodes += 1;
        let below = Place { depth: place.depth + 1, ..place };
        if place.depth >= 6 || self.nodes > 40 || self.chance.below(8) < place.depth as usize {
            return self.leaf(place);
        }
        match self.chance.below(18) {
            0..=3 => then(self.node(below), self.node(below)),
            4 => when(self.node(below), self.node(below), self.node(below)),
            5 => when_rows(self.chance.pick(&["a", "b"]), self.node(below), self.node(below)),
            6 | 7 => {
                let branches = (0..self.chance.between(2, 5)).map(|_| self.node(below)).collect();
                join(branches)
            }
            8 | 9 => race(self.node(below), self.node(below)),
            10 | 11 => {
                let inside = Place { in_loop: true, ..below };
                let node = repeat(self.node(inside), self.node(inside));
                if self.chance.one_in(2) {
                    lenient(node)
                } else {
                    node
                }
            }
            12 => {
                let inside = Place { in_loop: true, ..below };
                let exit = when(self.step(), leave_with("$a?"), self.node(inside));
                forever(then(self.node(inside), exit))
            }
            13 => {
                let policy = ["{\"jitter\":0}", r#"{"max_attempts":2,"initial_backoff_s":0.3,"jitter":0}"#];
                retry(self.node(below), self.chance.pick(&policy))
            }
            14 => catch(self.node(below), self.node(below)),
            15 => {
                let seconds = self.seconds(3_000_000);
                timeout(self.node(below), &seconds)
            }
            16 => {
                // A body of no time would make the order of items matter.
                let inside = Place { in_map: true, ..below };
                let body = then(self.step(), self.node(inside));
                let items = sql(&format!("items {}", self.nodes));
                map(items, body, self.chance.between(1, 4) as u32)
            }
            _ => call(sql("in the child"), "{\"await\":true}"),
        }
    }

    fn step(&mut self) -> N {
        self.nodes += 1;
        sql(&format!("s{} $a? $b? $c? $item? $error.message?", self.nodes))
    }

    fn seconds(&mut self, most_us: usize) -> String {
        let us = self.chance.between(1, most_us);
        format!("{}.{:06}", us / 1_000_000, us % 1_000_000)
    }

    fn leaf(&mut self, place: Place) -> N {
        match self.chance.below(12) {
            0 => sleep("0"),
            1 | 2 => sleep(&self.seconds(2_000_000)),
            3 if !place.in_map => {
                let seconds = self.seconds(3_000_000);
                let name = format!("w{}", self.nodes);
                signal(&name, (!self.chance.one_in(8)).then_some(&*seconds))
            }
            4 if place.in_loop || self.chance.one_in(8) => leave_with("left $b?"),
            _ => self.step(),
        }
    }
}
