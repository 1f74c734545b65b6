use std::fs;
use std::path::Path;

use crate::branches::checks::{compare_fingerprints, left_in_home, mounted_below, Leftovers};
use duramen_api::model::{ContentHash, MachineLimits, SourceFingerprint, Status, VolumeKind};

fn fingerprint(position: &str, rows_written: Option<u64>, tables: &[(&str, u64, &str)]) -> SourceFingerprint {
    let content = |&(name, count, hash): &(&str, u64, &str)| {
        (name.to_owned(), ContentHash { count, hash: hash.to_owned() })
    };
    let contents: std::collections::BTreeMap<_, _> = tables.iter().map(content).collect();
    let content_hash = contents.values().map(|content| content.hash.as_str()).collect();
    SourceFingerprint {
        taken_at: "2026-01-01T00:00:00Z".parse().expect("a time stamp"),
        method: "server".to_owned(),
        write_position: position.to_owned(),
        rows_written,
        contents,
        left_out: std::collections::BTreeMap::new(),
        content_hash,
    }
}

/// A source that could not be read looks the same before and after.
#[test]
fn a_source_that_was_not_read_is_not_unchanged() {
    let mut source = fingerprint("", None, &[]);
    source.left_out.insert("everything".to_owned(), "a login trigger may run there".to_owned());
    let (unchanged, detail) = compare_fingerprints(&source, &source);
    assert!(!unchanged);
    assert!(detail.contains("a login trigger may run there"), "{detail}");
}

#[test]
fn equal_fingerprints_are_unchanged() {
    let source = fingerprint("0/16B3748", Some(7), &[("d.public.flights", 3, "a")]);
    let (unchanged, detail) = compare_fingerprints(&source, &source);
    assert!(unchanged);
    assert!(detail.contains("stayed at 0/16B3748") && detail.contains("0 rows written"), "{detail}");
}

#[test]
fn a_moved_write_position_alone_is_told_but_no_change() {
    let before = fingerprint("0/FFFFFF00", Some(7), &[("t", 3, "a")]);
    let after = fingerprint("1/100", Some(7), &[("t", 3, "a")]);
    let (unchanged, detail) = compare_fingerprints(&before, &after);
    assert!(unchanged);
    assert!(detail.contains("moved by 512 bytes"), "{detail}");
}

#[test]
fn any_other_difference_is_a_change() {
    let before = fingerprint("0/1", Some(7), &[("t", 3, "a"), ("u", 1, "b")]);
    let cases = [
        (fingerprint("0/1", Some(7), &[("t", 3, "x"), ("u", 1, "b")]), "t differs (3 before, 3 after)"),
        (fingerprint("0/1", Some(7), &[("t", 3, "a")]), "u is gone"),
        (fingerprint("0/1", Some(7), &[("t", 3, "a"), ("u", 1, "b"), ("v", 0, "c")]), "v is new"),
        (fingerprint("0/1", Some(9), &[("t", 3, "a"), ("u", 1, "b")]), "2 rows were written"),
        (fingerprint("0/1", Some(0), &[("t", 3, "a"), ("u", 1, "b")]), "-7 rows were written"),
        (fingerprint("0/1", None, &[("t", 3, "a"), ("u", 1, "b")]), "statistics are missing"),
    ];
    for (after, said) in cases {
        let (unchanged, detail) = compare_fingerprints(&before, &after);
        assert!(!unchanged, "{said}");
        assert!(detail.contains(said), "{detail:?} lacks {said:?}");
    }
}

#[test]
fn a_source_of_files_has_no_write_position() {
    let source = fingerprint("", None, &[("base/1/2", 8192, "a")]);
    let (unchanged, detail) = compare_fingerprints(&source, &source);
    assert!(unchanged);
    assert!(detail.contains("does not run"), "{detail}");
}

#[test]
fn mounts_below_a_folder_are_found_and_others_are_not() {
    let table = "22 1 8:1 / / rw - ext4 /dev/a rw\n\
                 30 22 7:0 / /srv/my\\040home/volumes rw - btrfs /dev/loop0 rw\n\
                 31 22 7:1 / /srv/my\\040home/volumes-old rw - btrfs /dev/loop1 rw\n";
    assert_eq!(mounted_below(table, Path::new("/srv/my home/volumes")), ["/srv/my\\040home/volumes"]);
    assert!(mounted_below(table, Path::new("/srv/other")).is_empty());
}

#[test]
fn directories_of_branches_are_left_behind_and_snapshots_are_not() {
    let home = tempfile::tempdir().unwrap();
    assert!(left_in_home(home.path()).is_empty(), "a home without volumes");
    fs::create_dir_all(home.path().join("volumes/snapshots/flights.000001")).unwrap();
    fs::create_dir_all(home.path().join("volumes/branches")).unwrap();
    assert!(left_in_home(home.path()).is_empty());
    fs::create_dir_all(home.path().join("volumes/branches/b1")).unwrap();
    fs::create_dir_all(home.path().join("volumes/imports/flights-x")).unwrap();
    let found = left_in_home(home.path());
    assert_eq!(found.len(), 2, "{found:?}");
}

#[test]
fn a_process_that_works_in_the_volumes_is_left_behind() {
    let home = tempfile::tempdir().unwrap();
    let dir = home.path().join("volumes/snapshots");
    fs::create_dir_all(&dir).unwrap();
    let mut child = std::process::Command::new("sleep").arg("60").current_dir(&dir).spawn().unwrap();
    let found = left_in_home(home.path());
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(found, [format!("the process {}", child.id())]);
}

#[test]
fn leases_of_others_are_not_left_behind_by_the_run() {
    let status = |leases, to_delete| Status {
        version: String::new(),
        pid: 1,
        volumes: VolumeKind::Btrfs,
        volumes_reason: String::new(),
        degraded: false,
        pools: Vec::new(),
        cold: 0,
        leases,
        to_delete,
        settled: true,
        refills: Vec::new(),
        pool_error: None,
        warnings: Vec::new(),
        limits: MachineLimits::default(),
    };
    let mut left = Leftovers::default();
    left.look_at(&status(3, 0), 3);
    assert_eq!(left.outcome("leases"), (true, "nothing: leases".to_owned()));
    left.look_at(&status(5, 1), 3);
    left.add(["the process 7".to_owned()]);
    let (passed, detail) = left.outcome("leases");
    assert!(!passed);
    assert_eq!(detail, "2 leases; 1 branches that wait to be deleted; the process 7");
}
