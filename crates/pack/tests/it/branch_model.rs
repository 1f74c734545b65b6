//! Random writes, forks, checkpoints and restarts, and packs in between: full ones and ones against a base. Each pack
//! must be, for ever, what its branch was when it was written.

use std::collections::BTreeMap;
use std::path::Path;

use duramen_base::entropy;
use duramen_pack::branch::{diff, export, BranchPack, ExportOptions};
use duramen_store::kv::Key;
use duramen_store::{Durability, Options, Part, Scope, Store};

type Model = BTreeMap<Key, i64>;

fn open(path: &Path) -> Store {
    let options = Options {
        durability: Durability::Memory,
        checkpoint_log_bytes: 1 << 16,
        memory_bytes: 1 << 20,
        ..Options::default()
    };
    Store::open(path, options).unwrap()
}

fn content(store: &Store, branch: &str) -> Model {
    let rows = store.branch(branch).unwrap().kv().range(.., usize::MAX).unwrap();
    rows.into_iter().map(|(key, value)| (key, value.as_i64().unwrap())).collect()
}

/// How many keys differ.
fn distance(a: &Model, b: &Model) -> u64 {
    let gone = a.iter().filter(|(key, value)| b.get(*key) != Some(value)).count();
    (gone + b.keys().filter(|key| !a.contains_key(*key)).count()) as u64
}

#[test]
fn packs_are_what_their_branches_were() {
    let seed = entropy::seed();
    println!("DURAMEN_SEED={seed}");
    let mut rng = entropy::rng(seed);
    for round in 0..3 {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("store");
        let mut store = open(&folder);
        let mut branches: BTreeMap<String, Model> = BTreeMap::from([("main".to_owned(), Model::new())]);
        let mut packs: Vec<(BranchPack, Model)> = Vec::new();
        for step in 0..60 {
            let at = format!("seed {seed}, round {round}, step {step}");
            let name = branches.keys().nth(rng.usize(..branches.len())).unwrap().clone();
            match rng.u32(..10) {
                0..=4 => {
                    let branch = store.branch(&name).unwrap();
                    let model = branches.get_mut(&name).unwrap();
                    let count = rng.usize(1..800);
                    let near = rng.u32(..5000);
                    branch
                        .transact(|tx| {
                            for _ in 0..count {
                                // Clustered or anywhere.
                                let number = if rng.bool() { near + rng.u32(..50) } else { rng.u32(..5000) };
                                let text = format!("key {number:05} and a tail that makes it longer");
                                // Some are no text.
                                let key = match number % 7 {
                                    0 => Key::new([&[0, 0xff][..], &number.to_be_bytes()].concat()),
                                    _ => Key::new(text),
                                };
                                if rng.u32(..4) == 0 {
                                    tx.kv().delete(&key)?;
                                    model.remove(&key);
                                } else {
                                    let value = rng.i64(..);
                                    tx.kv().put(&key, value)?;
                                    model.insert(key, value);
                                }
                            }
                            Ok(())
                        })
                        .unwrap();
                }
                5 => {
                    let fork = format!("fork-{step}");
                    store.fork(&name, &fork).unwrap();
                    let model = branches[&name].clone();
                    branches.insert(fork, model);
                }
                6 => store.checkpoint().unwrap(),
                7 => {
                    store.close().unwrap();
                    drop(store);
                    store = open(&folder);
                }
                _ => {
                    let base = match packs.len() {
                        0 => None,
                        count => rng.bool().then(|| packs[rng.usize(..count)].0.clone()),
                    };
                    let path = dir.path().join(format!("{step}.dpack"));
                    let options = ExportOptions { base, ..ExportOptions::default() };
                    export(&store.branch(&name).unwrap(), &path, options, &mut |_, _| {}).unwrap();
                    let pack = BranchPack::open(&path).unwrap();
                    pack.verify(&mut |_, _| {}).unwrap();
                    packs.push((pack, branches[&name].clone()));
                }
            }
            if let Some((pack, model)) = packs.get(rng.usize(..packs.len().max(1))) {
                let packed = pack.store(Options { memory_bytes: 1 << 16, ..Options::default() }).unwrap();
                assert!(content(&packed, &pack.info().branch) == *model, "{at}: a pack is not its branch");
            }
        }
        let target = Store::memory();
        for (number, (pack, model)) in packs.iter().enumerate() {
            let name = format!("import-{number}");
            pack.import(&target, &name, &mut |_, _| {}).unwrap();
            assert!(content(&target, &name) == *model, "seed {seed}, round {round}: import {number}");
            let (other, other_model) = &packs[rng.usize(..packs.len())];
            let found = diff(pack, other, &Part::default(), 0).unwrap();
            let expected = distance(model, other_model);
            assert_eq!(found.added + found.removed + found.modified, expected, "seed {seed}, {round}");
        }
        // Imports from different stores must not be taken for one another.
        for (number, (_, model)) in packs.iter().enumerate().skip(1) {
            let found = target.diff("import-0", &format!("import-{number}"), &Part::default(), 0).unwrap();
            let expected = distance(&packs[0].1, model);
            assert_eq!(found.added + found.removed + found.modified, expected, "seed {seed}, {round}");
        }
        for (name, model) in &branches {
            assert!(content(&store, name) == *model, "seed {seed}, round {round}: branch {name}");
        }
    }
}
