use std::fs;
use std::path::{Path, PathBuf};

use duramen_postgres::{Installation, Version};

use super::candidates;
use crate::branches::psql::Psql;

fn installation(root: &Path, major: u32, minor: u32, has_psql: bool) -> Installation {
    let bin_dir = root.join(format!("{major}.{minor}"));
    fs::create_dir(&bin_dir).unwrap();
    if has_psql {
        fs::write(bin_dir.join("psql"), "").unwrap();
    }
    Installation { bin_dir, version: Version { major, minor } }
}

#[test]
fn the_client_of_the_very_server_comes_first_and_the_path_last() {
    let folder = tempfile::tempdir().unwrap();
    let of = |major, minor, has_psql| installation(folder.path(), major, minor, has_psql);
    let all = [of(18, 7, true), of(18, 6, true), of(18, 5, false), of(15, 18, true)];
    let at = |version: &str| folder.path().join(version).join("psql");
    let path = PathBuf::from("psql");
    assert_eq!(candidates(&all, Some("18.6 (from a package)")), [at("18.6"), at("18.7"), path.clone()]);
    assert_eq!(candidates(&all, Some("18.5")), [at("18.7"), at("18.6"), path.clone()]);
    assert_eq!(candidates(&all, None), [at("18.7"), at("18.6"), path.clone()], "what a new source has");
    assert_eq!(candidates(&[], None), [PathBuf::from("psql")]);
    assert_eq!(candidates(&all, Some("16.1")), [path]);
}

#[tokio::test]
async fn a_missing_psql_is_told_with_what_to_install() {
    let found = Psql::first_of(vec!["/nowhere/psql".into(), "/bin/false".into()]).await;
    let error = found.unwrap_err().to_string();
    for part in ["/nowhere/psql", "/bin/false: exit status: 1", "install Debian's package postgresql-client"]
    {
        assert!(error.contains(part), "{error}");
    }
}
