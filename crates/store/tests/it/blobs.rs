//! Blobs: invariants B1 to B4 of `docs/design/store.md`.

use std::collections::BTreeMap;
use std::io::{self, Read, Seek, SeekFrom};
use std::time::Duration;

use duramen_base::{clock, entropy};
use duramen_store::{
    Branch, Durability, Keep, MergeOptions, Moment, Options, Part, Primitive, Resolution, Scope, Store,
    StoreError, Strategy,
};

const CHUNK: usize = 128 << 10;

fn bytes(random: &mut fastrand::Rng, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    random.fill(&mut bytes);
    bytes
}

fn read<S: Scope>(scope: &S, key: &str) -> Option<Vec<u8>> {
    let mut reader = scope.blobs().open(key).unwrap()?;
    let mut bytes = Vec::new();
    reader.read_to_end(&mut bytes).unwrap();
    assert_eq!(blake3::hash(&bytes).as_bytes(), &reader.info().hash);
    assert_eq!(scope.blobs().info(key).unwrap().as_ref(), Some(reader.info()));
    Some(bytes)
}

fn entries(branch: &Branch) -> u64 {
    branch.snapshot().unwrap().entries()
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let begin = clock::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(30), "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn is_whole(store: &Store, context: &str) {
    let verified = store.verify(&mut |_| {}).unwrap();
    assert!(verified.is_whole(), "{context}: {verified:?}");
}

/// Does something when so many bytes were read.
struct Midway<'m, F> {
    bytes: &'m [u8],
    at: usize,
    when: usize,
    what: Option<F>,
}

impl<'m, F: FnOnce() -> io::Result<()>> Midway<'m, F> {
    fn new(bytes: &'m [u8], when: usize, what: F) -> Self {
        Self { bytes, at: 0, when, what: Some(what) }
    }
}

impl<F: FnOnce() -> io::Result<()>> Read for Midway<'_, F> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if self.at >= self.when {
            if let Some(what) = self.what.take() {
                what()?;
            }
        }
        let len = out.len().min(10_000).min(self.bytes.len() - self.at);
        out[..len].copy_from_slice(&self.bytes[self.at..self.at + len]);
        self.at += len;
        Ok(len)
    }
}

#[test]
fn what_is_put_is_read_from_any_place_on() {
    let seed = entropy::seed();
    let mut random = entropy::rng(seed);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let sizes =
        [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 8 * CHUNK, 8 * CHUNK + 1, 3_000_000, random.usize(..2_000_000)];
    let blobs: Vec<Vec<u8>> = sizes.iter().map(|len| bytes(&mut random, *len)).collect();
    {
        let store = Store::open(&path, Options::default()).unwrap();
        let main = store.branch("main").unwrap();
        for (number, blob) in blobs.iter().enumerate() {
            let level = [Durability::Memory, Durability::Buffered, Durability::Strict][number % 3];
            let put = main.with_durability(level).blobs().put(&number.to_string(), &blob[..]).unwrap();
            assert_eq!(put.bytes, blob.len() as u64);
        }
        assert_eq!(main.blobs().count("").unwrap(), blobs.len() as u64);
        assert_eq!(main.blobs().list("", None, 3).unwrap().items, ["0", "1", "2"]);
        main.transact(|tx| {
            assert_eq!(read(tx, "5").as_ref(), Some(&blobs[5]));
            Ok(())
        })
        .unwrap();
    }
    let store = Store::open(&path, Options::default()).unwrap();
    let main = store.branch("main").unwrap();
    for (number, blob) in blobs.iter().enumerate() {
        let key = number.to_string();
        assert_eq!(read(&main, &key).as_ref(), Some(blob), "{number}");
        let mut reader = main.blobs().open(&key).unwrap().unwrap();
        for _ in 0..20 {
            let from = random.usize(..=blob.len());
            let mut part = vec![0; random.usize(..=200_000.min(blob.len() - from))];
            let to = match random.u8(..3) {
                0 => SeekFrom::Start(from as u64),
                1 => SeekFrom::End(from as i64 - blob.len() as i64),
                _ => SeekFrom::Current(from as i64 - reader.stream_position().unwrap() as i64),
            };
            assert_eq!(reader.seek(to).unwrap(), from as u64);
            reader.read_exact(&mut part).unwrap();
            assert_eq!(part, blob[from..from + part.len()], "seed {seed}");
        }
        assert!(reader.seek(SeekFrom::End(-(blob.len() as i64) - 1)).is_err());
        reader.seek(SeekFrom::Start(u64::MAX)).unwrap();
        assert_eq!(reader.read(&mut [0; 8]).unwrap(), 0, "behind the end there is nothing");
    }
    assert!(main.blobs().open("none").unwrap().is_none());
    is_whole(&store, "all sizes");
}

/// B2: chunks go with their rows, whoever replaces or deletes them.
#[test]
fn nothing_is_left_of_what_was_replaced_or_deleted() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    let blob = vec![1; 5 * CHUNK];
    let mut reader = {
        main.blobs().put("a", &blob[..]).unwrap();
        assert_eq!(entries(&main), 6);
        main.blobs().open("a").unwrap().unwrap()
    };
    main.blobs().put("a", &blob[..CHUNK]).unwrap();
    until("what it had is deleted", || entries(&main) == 2);
    let mut old = Vec::new();
    reader.read_to_end(&mut old).unwrap();
    assert_eq!(old, blob, "whoever reads goes on reading what it opened");
    main.transact(|tx| tx.blobs().delete("a").map(|was_there| assert!(was_there))).unwrap();
    until("all of it is deleted", || entries(&main) == 0);
    assert!(!main.blobs().delete("a").unwrap());
    for space in ["one", "two"] {
        main.space(space).unwrap().blobs().put("a", &blob[..]).unwrap();
    }
    assert_eq!(main.drop_space("one").unwrap(), 1);
    until("the chunks of the space are deleted", || entries(&main) == 6);
    assert_eq!(main.spaces().unwrap()[0].kinds, [Primitive::Blob]);
}

/// B3: what is not put leaves nothing, and the key as it was.
#[test]
fn a_reader_that_fails_leaves_nothing() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    main.blobs().put("a", &b"before"[..]).unwrap();
    let before = entries(&main);
    let blob = vec![1; 40 * CHUNK];
    let broken = Midway::new(&blob, 20 * CHUNK, || Err(io::Error::other("the line is cut")));
    let error = main.blobs().put("a", broken).unwrap_err();
    assert!(error.to_string().contains("the line is cut"), "{error}");
    assert_eq!(entries(&main), before);
    // The branch is reset meanwhile, or deleted.
    let fork = main.fork("fork").unwrap();
    let reset = Midway::new(&blob, 20 * CHUNK, || store.reset_branch("fork").map_err(io::Error::other));
    assert!(matches!(fork.blobs().put("b", reset), Err(StoreError::TransactionConflict { .. })));
    until("what came after the reset is gone, too", || entries(&fork) == before);
    let delete = Midway::new(&blob, 20 * CHUNK, || store.delete_branch("fork").map_err(io::Error::other));
    assert!(matches!(fork.blobs().put("b", delete), Err(StoreError::BranchNotFound { .. })));
    assert!(matches!(main.blobs().put(&"k".repeat(9000), &blob[..]), Err(StoreError::TooLarge { .. })));
    assert_eq!(read(&main, "a").unwrap(), b"before");
    is_whole(&store, "after failures");
}

/// B3: a fork and a copy that are made while a blob is put have no part of it for long.
#[test]
fn what_is_copied_midway_is_cleaned() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let store = Store::open(&path, Options::default()).unwrap();
    let main = store.branch("main").unwrap();
    main.blobs().put("small", &b"small"[..]).unwrap();
    let (blob, copy) = (vec![3; 30 * CHUNK], folder.path().join("copy"));
    let midway = Midway::new(&blob, 20 * CHUNK, || {
        let fork = main.fork("fork").map_err(io::Error::other)?;
        assert!(entries(&fork) > 10, "there are chunks");
        Store::backup(&path, &copy, None, &mut |_, _| {}).map_err(io::Error::other)?;
        // Time enough for the thread of the store to look: what is being put stays.
        std::thread::sleep(Duration::from_millis(1200));
        Ok(())
    });
    main.blobs().put("large", midway).unwrap();
    assert_eq!(read(&main, "large").as_ref(), Some(&blob));
    let fork = store.branch("fork").unwrap();
    until("the fork is clean", || entries(&fork) == 2);
    let copied = Store::open(&copy, Options::default()).unwrap();
    let there = copied.branch("main").unwrap();
    until("the copy is clean", || entries(&there) == 2);
    assert_eq!(read(&there, "small").unwrap(), b"small");
    is_whole(&store, "the store");
    is_whole(&copied, "the copy");
}

/// B4: merges, picks and reverts bring chunks with rows.
#[test]
fn a_merge_brings_blobs_whole() {
    let store = Store::memory();
    store.keep_history("main", Some(Keep::each_commit())).unwrap();
    let main = store.branch("main").unwrap();
    let of = |byte: u8| vec![byte; 3 * CHUNK + usize::from(byte)];
    main.blobs().put("both", &of(0)[..]).unwrap();
    main.blobs().put("kept", &of(9)[..]).unwrap();
    let fork = main.fork("fork").unwrap();
    fork.blobs().put("new", &of(1)[..]).unwrap();
    fork.blobs().put("both", &of(2)[..]).unwrap();
    main.blobs().put("both", &of(3)[..]).unwrap();
    // Both put the same under a key: no conflict, though their numbers are not alike.
    fork.blobs().put("same", &of(4)[..]).unwrap();
    main.blobs().put("same", &of(4)[..]).unwrap();
    assert!(matches!(
        store.merge("fork", "main", MergeOptions::default()),
        Err(StoreError::MergeConflict { count: 1, .. })
    ));
    let diff = store.diff("main", "fork", &Part::default(), 10).unwrap();
    assert!(diff.entries.iter().all(|entry| entry.primitive == Primitive::Blob), "no chunks: {diff:?}");
    let bytes = diff.entries.iter().find(|entry| entry.key == "new").unwrap().right.as_ref().unwrap();
    assert_eq!(bytes["bytes"], of(1).len());
    let mut value = |_: &duramen_store::Conflict| Resolution::Value("x".into());
    let options = MergeOptions { resolver: Some(&mut value), ..MergeOptions::default() };
    assert!(matches!(store.merge("fork", "main", options), Err(StoreError::InvalidInput { .. })));
    let before = main.snapshot().unwrap().version();
    let theirs = MergeOptions { strategy: Strategy::Theirs, ..MergeOptions::default() };
    store.merge("fork", "main", theirs).unwrap();
    for (key, byte) in [("new", 1), ("both", 2), ("same", 4), ("kept", 9)] {
        assert_eq!(read(&main, key).unwrap(), of(byte), "{key}");
    }
    until("four chunks and a row each are left", || entries(&main) == 4 * 5);
    is_whole(&store, "merged");
    // What was is brought back.
    assert_eq!(read(&main.at(&Moment::Version(before)).unwrap(), "both").unwrap(), of(3));
    main.blobs().delete("kept").unwrap();
    main.revert_to(&Moment::Version(before)).unwrap();
    assert_eq!(read(&main, "both").unwrap(), of(3));
    assert_eq!(read(&main, "kept").unwrap(), of(9));
    assert_eq!(read(&main, "new"), None);
    until("those of three are left", || entries(&main) == 3 * 5);
    is_whole(&store, "reverted");
    // Another store takes a branch with all of it.
    let other = Store::memory();
    other.import_branch("copy", &main.snapshot().unwrap(), &mut |_| {}).unwrap();
    assert_eq!(read(&other.branch("copy").unwrap(), "both").unwrap(), of(3));
}

fn raw<S: Scope>(scope: &S, key: &[u8], value: Option<&[u8]>) {
    scope
        .write(|edit| match value {
            Some(value) => edit.put(key, &mut |out| out.extend_from_slice(value)),
            None => edit.delete(key),
        })
        .unwrap();
}

/// B1: a row without its chunks is told, refused at an import, and an error to whoever reads it.
#[test]
fn a_row_without_its_chunks_is_damage() {
    let row = |bytes: u64| [&bytes.to_le_bytes()[..], &[7; 16], &[0; 32]].concat();
    let chunk = |number: u32| [&[0x63][..], &[7; 16], &number.to_be_bytes()].concat();
    type Forge<'f> = &'f dyn Fn(&Branch);
    let forged: [Forge<'_>; 9] = [
        &|main| raw(main, b"\x18\0a", Some(b"short")),
        &|main| raw(main, b"\x18\0a", Some(&row(5))),
        &|main| raw(main, b"\x18\0a", Some(&row(u64::MAX))),
        &|main| {
            raw(main, &chunk(0), Some(&[1; 6]));
            raw(main, b"\x18\0a", Some(&row(5)));
        },
        &|main| {
            raw(main, &chunk(1), Some(&[1; 5]));
            raw(main, b"\x18\0a", Some(&row(5)));
        },
        &|main| {
            raw(main, &chunk(0), Some(&[1; 5]));
            raw(main, &chunk(u32::MAX), Some(&[1; 5]));
            raw(main, b"\x18\0a", Some(&row(5)));
        },
        // Its hash is another's.
        &|main| {
            raw(main, &chunk(0), Some(&[1; 5]));
            raw(main, b"\x18\0a", Some(&row(5)));
        },
        // It is marked as one that is to be deleted.
        &|main| {
            let right = [&5_u64.to_le_bytes()[..], &[7; 16], blake3::hash(&[1; 5]).as_bytes()].concat();
            raw(main, b"\x18\0a", Some(&right));
            raw(main, &chunk(0), Some(&[1; 5]));
            raw(main, &[&[0x64][..], &[7; 16]].concat(), Some(b""));
        },
        // Two have the same chunks.
        &|main| {
            let right = [&5_u64.to_le_bytes()[..], &[7; 16], blake3::hash(&[1; 5]).as_bytes()].concat();
            raw(main, &chunk(0), Some(&[1; 5]));
            raw(main, b"\x18\0a", Some(&right));
            raw(main, b"\x18\0b", Some(&right));
        },
    ];
    for (number, forge) in forged.iter().enumerate() {
        let store = Store::memory();
        let main = store.branch("main").unwrap();
        forge(&main);
        assert!(!store.verify(&mut |_| {}).unwrap().is_whole(), "{number}");
        let refused = Store::memory().import_branch("b", &main.snapshot().unwrap(), &mut |_| {});
        assert!(matches!(refused, Err(StoreError::Damaged(_))), "{number}: {refused:?}");
        if let Ok(Some(mut reader)) = main.blobs().open("a") {
            let read = reader.read_to_end(&mut Vec::new());
            assert!(read.is_err() || number >= 5, "{number}");
        }
        if number == 8 {
            main.blobs().delete("b").unwrap();
        }
        main.blobs().put("a", &b"anew"[..]).unwrap();
        assert_eq!(read(&main, "a").unwrap(), b"anew");
        until("what belonged to nobody is gone", || entries(&main) == 2);
        is_whole(&store, "anew");
    }
}

/// B1 to B4: random changes of two branches against maps.
#[test]
fn blobs_are_those_that_were_put() {
    let seed = entropy::seed();
    let mut random = entropy::rng(seed);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store");
    let mut store = Store::open(&path, Options::default()).unwrap();
    store.fork("main", "fork").unwrap();
    let mut models = [BTreeMap::<String, Vec<u8>>::new(), BTreeMap::new()];
    let mut base = BTreeMap::new();
    let mut done = Vec::new();
    for _ in 0..150 {
        let at = random.usize(..2);
        let branch = store.branch(["main", "fork"][at]).unwrap();
        let key = format!("k{}", random.u8(..5));
        let what = random.u8(..10);
        match what {
            0 => {
                let options = MergeOptions { strategy: Strategy::Theirs, ..MergeOptions::default() };
                store.merge("fork", "main", options).unwrap();
                let keys: Vec<String> = models[1].keys().chain(base.keys()).cloned().collect();
                for key in keys {
                    if base.get(&key) != models[1].get(&key) {
                        match models[1].get(&key).cloned() {
                            Some(blob) => models[0].insert(key, blob),
                            None => models[0].remove(&key),
                        };
                    }
                }
                base.clone_from(&models[1]);
            }
            1 => {
                store.reset_branch("fork").unwrap();
                models[1] = models[0].clone();
                base.clone_from(&models[0]);
            }
            2 => assert_eq!(branch.blobs().delete(&key).unwrap(), models[at].remove(&key).is_some()),
            3 => {
                drop(branch);
                drop(store);
                store = Store::open(&path, Options::default()).unwrap();
            }
            4 => store.checkpoint().unwrap(),
            _ => {
                let len = random.usize(..3 * CHUNK);
                let blob = bytes(&mut random, len);
                branch.blobs().put(&key, &blob[..]).unwrap();
                models[at].insert(key, blob);
            }
        }
        done.push(what);
        for (name, model) in ["main", "fork"].iter().zip(&models) {
            let branch = store.branch(name).unwrap();
            let listed = branch.blobs().list("", None, 100).unwrap().items;
            assert!(listed.iter().eq(model.keys()), "seed {seed}, {done:?}: {name}");
        }
    }
    for (name, model) in ["main", "fork"].iter().zip(&models) {
        let branch = store.branch(name).unwrap();
        assert!(model.iter().all(|(key, blob)| read(&branch, key).as_ref() == Some(blob)), "seed {seed}");
        let rows: u64 = model.values().map(|blob| 1 + blob.len().div_ceil(CHUNK) as u64).sum();
        until("nothing else is left", || entries(&branch) == rows);
    }
    is_whole(&store, &format!("seed {seed}"));
}

/// B1: hidden keys of another form are refused, and nobody waits for them for ever.
#[test]
fn hidden_keys_of_another_form_are_refused() {
    let id = [7_u8; 16];
    for key in [
        [&[0x63][..], &id].concat(),
        [&[0x63][..], &id, &8192_u32.to_be_bytes()].concat(),
        [&[0x63][..], &id, &[255; 4], &[0]].concat(),
        [&[0x63][..], &id, &[255; 4], &[1, 2, 3]].concat(),
        vec![0x64],
        [&[0x64][..], &id, &[0]].concat(),
        [&[0x62][..], &5_i64.to_be_bytes(), b"\x20\0cell"].concat(),
    ] {
        let store = Store::memory();
        let main = store.branch("main").unwrap();
        raw(&main, &key, Some(b""));
        raw(&main, &[&[0x64][..], &id].concat(), Some(b""));
        let refused = Store::memory().import_branch("b", &main.snapshot().unwrap(), &mut |_| {});
        assert!(matches!(refused, Err(StoreError::Damaged(_))), "{key:?}: {refused:?}");
        // The thread of the store looks twice meanwhile, and others go on.
        for _ in 0..12 {
            main.kv().put("k", 1).unwrap();
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// B4: a target that was forked in the midst of a put has some of the chunks.
#[test]
fn a_merge_into_a_fork_that_was_made_midway_is_whole() {
    let store = Store::memory();
    let main = store.branch("main").unwrap();
    let blob: Vec<u8> = (0..40 * CHUNK).map(|at| at as u8).collect();
    for from_history in [false, true] {
        let midway = Midway::new(&blob, 20 * CHUNK, || {
            let fork = match from_history {
                true => {
                    store.tag("main", "midway").map_err(io::Error::other)?;
                    return Ok(());
                }
                false => main.fork("fork"),
            };
            let fork = fork.map_err(io::Error::other)?;
            assert!(entries(&fork) > 10, "there are chunks");
            Ok(())
        });
        main.blobs().put("film", midway).unwrap();
        if from_history {
            store.fork_at("main", &Moment::Tag("midway".into()), "past").unwrap();
        }
        let name = if from_history { "past" } else { "fork" };
        store.merge("main", name, MergeOptions::default()).unwrap();
        let fork = store.branch(name).unwrap();
        assert_eq!(read(&fork, "film").as_ref(), Some(&blob), "{name}");
        std::thread::sleep(Duration::from_millis(1200));
        assert_eq!(
            read(&fork, "film").as_ref(),
            Some(&blob),
            "{name}, after the thread of the store has looked"
        );
        is_whole(&store, name);
        main.blobs().delete("film").unwrap();
    }
}
