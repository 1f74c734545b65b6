//! The workload is what it is said to be, and every engine reads back what it was given.

use std::collections::HashSet;

use crate::packs::engine::EngineName;
use crate::packs::workload::Workload;
use crate::packs::{run_part, Part};

#[test]
fn every_grant_of_the_workload_differs_from_all_others() {
    let workload = Workload::new(12_345);
    let ids: HashSet<&str> = workload.rows().map(|row| row.id).collect();
    assert_eq!((workload.len(), ids.len(), workload.users()), (12_345, 12_345, 124));
    let row = workload.row(12_342);
    assert_eq!(row.id, "app:github:entitlement-0042:user:user-00000123");
    assert_eq!((row.entitlement, row.user), ("app:github:entitlement-0042", "user-00000123"));
    assert!(workload.rows().all(|row| row.id == format!("{}:user:{}", row.entitlement, row.user)));
    assert!((0..12_345).all(|at| workload.place(workload.row(at).id) == Some(at)));
    assert_eq!(workload.place("app:github:entitlement-0042:user:user-99999999"), None);
}

#[test]
fn each_engine_reads_back_every_row_and_leaves_nothing_behind() {
    for engine in EngineName::ALL {
        let dir = tempfile::tempdir().unwrap();
        let figures = run_part(Part { engine, grants: 250 }, dir.path()).unwrap();
        assert_eq!(
            (figures.rows_read, figures.rows_equal, figures.wrong_lookups),
            (250, 250, 0),
            "{engine:?}"
        );
        assert!(figures.write_ms.iter().chain(&figures.read_ms).all(|value| *value > 0.0));
        assert!(figures.file_bytes > 0.0 && figures.peak_rss_bytes > 0.0);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "{engine:?}");
    }
}

#[test]
fn a_part_is_named_by_engine_and_size() {
    let part: Part = "sqlite:1000".parse().unwrap();
    assert_eq!((part.engine, part.grants), (EngineName::Sqlite, 1000));
    assert_eq!(part.to_string(), "sqlite:1000");
    assert!("sqlite".parse::<Part>().is_err() && "oracle:1".parse::<Part>().is_err());
}
