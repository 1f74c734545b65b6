//! How a volume store divides its space between data and everything else. As root, where it lies in a file of its own.

use crate::{quotas::fill, store_home::StoreHome};
use duramen_postgres::volume::{self, Account, Quota};
use std::{fs, path::Path};

const MIB: u64 = 1 << 20;

/// What an import does that needs nearly all of the store for a while: of many files all but a few go again, and those are
/// everywhere.
fn fill_for_a_while(volume: &Path) {
    let file = |number: u32| volume.join(format!("{number}"));
    let content = |number: u32| vec![number as u8; if number < 3 { 256 << 10 } else { 4 << 20 }];
    let mut number = 0;
    while fs::write(file(number), content(number)).is_ok() {
        number += 1;
    }
    fill(volume);
    flush(volume);
    fs::remove_file(volume.join("filling")).unwrap();
    // What lies in front, beside what the snapshot and its clone have, holds least of all.
    let stays = |at: u32| at == 1 || (at > 40 && at % 16 == 1) || at + 8 > number;
    (0..=number).filter(|at| !stays(*at)).for_each(|at| fs::remove_file(file(at)).unwrap());
    flush(volume);
}

/// Small files, which lie in the metadata, until the file system counts as full.
fn use_up_metadata(volume: &Path) {
    for number in 0..20_000 {
        fs::write(volume.join(format!("small {number}")), [b'x'; 1500]).unwrap();
        if number % 100 == 0 {
            flush(volume);
            if volume::free_bytes(volume).unwrap() == 0 {
                return;
            }
        }
    }
    panic!("there was room for 30 MB of metadata");
}

fn flush(volume: &Path) {
    rustix::fs::syncfs(fs::File::open(volume).unwrap()).unwrap();
}

/// Invariant B56. Leases were refused until somebody balanced the file system.
#[test]
fn a_store_that_was_full_of_data_once_has_room_for_metadata_again() {
    let home = StoreHome::new();
    let store = home.open();
    if !rustix::process::geteuid().is_root() {
        assert!(!store.is_unbalanced());
        return;
    }
    assert!(!store.is_unbalanced());
    assert!(!store.balance().unwrap(), "there is nothing to do in a new store");
    let [snapshot, clone, import] = ["snapshot", "clone", "import"].map(|name| store.root.join(name));
    store.volumes.create(&snapshot).unwrap();
    fs::write(snapshot.join("table"), vec![b't'; 1 << 20]).unwrap();
    store.volumes.freeze(&snapshot).unwrap();
    let quota = Quota { bytes: 64 * MIB, account: Account::Common };
    store.volumes.clone_volume(&snapshot, &clone, Some(quota)).unwrap();
    fs::write(clone.join("row"), vec![b'r'; 1 << 20]).unwrap();
    store.volumes.create(&import).unwrap();
    fill_for_a_while(&import);
    use_up_metadata(&import);
    assert!(store.is_unbalanced());
    let quotas = store.quotas().ok();
    let room = || {
        quotas.map(|quotas| {
            quotas.keep_reserve();
            quotas.room().unwrap()
        })
    };
    let looks = || (store.volumes.identity(&snapshot), quotas.map(|quotas| quotas.used(&clone).unwrap()));
    let (before, had) = (looks(), room());
    assert!(had.is_none_or(|had| had < 16 * MIB), "{had:?} of {:?}", store.free_bytes());
    assert!(had.is_some() || store.free_bytes().unwrap() == 0);

    let mut slices = 0;
    while store.is_unbalanced() {
        assert!(store.balance().unwrap(), "a piece holds little");
        slices += 1;
    }
    assert!((1..=8).contains(&slices), "{slices}");
    assert!(room().is_none_or(|room| room > 512 * MIB), "{:?}", room());
    assert!(store.free_bytes().unwrap() > 512 * MIB);
    assert_eq!(looks(), before, "a snapshot counts as unchanged, and the bytes of a clone as its own");
    assert!(fs::read(clone.join("table")).unwrap().iter().all(|byte| *byte == b't'));
    assert!(fs::read(clone.join("row")).unwrap().iter().all(|byte| *byte == b'r'));
    for number in (0..1000).filter(|number| import.join(format!("{number}")).exists()) {
        let content = fs::read(import.join(format!("{number}"))).unwrap();
        assert!(content.len() <= 4 << 20 && content.iter().all(|byte| *byte == number as u8));
    }
    // A daemon that closes does not wait for it.
    store.end_balance();
    assert!(!store.balance().unwrap());
    for volume in [&clone, &snapshot, &import] {
        store.volumes.delete(volume).unwrap();
    }
    store.close().unwrap();
}
