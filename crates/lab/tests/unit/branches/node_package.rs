use std::fs;

use serde_json::Value;

use super::{is_installed, FOLDER, LOCK, MANIFEST, VERSION};

#[test]
fn all_that_is_fetched_is_pinned_by_version_and_digest_and_names_no_registry() {
    let manifest: Value = serde_json::from_str(MANIFEST).unwrap();
    assert_eq!(manifest["dependencies"]["pg"], VERSION);
    assert!(FOLDER.ends_with(VERSION));
    let lock: Value = serde_json::from_str(LOCK).unwrap();
    let packages = lock["packages"].as_object().unwrap();
    assert_eq!(packages["node_modules/pg"]["version"], VERSION);
    for (name, package) in packages.iter().filter(|(name, _)| !name.is_empty()) {
        assert!(package["integrity"].as_str().is_some_and(|digest| digest.starts_with("sha512-")), "{name}");
        assert!(package["resolved"].is_null(), "{name}");
    }
}

#[test]
fn only_the_wanted_version_counts_as_installed() {
    let folder = tempfile::tempdir().unwrap();
    assert!(!is_installed(folder.path()));
    let package = folder.path().join("node_modules/pg");
    fs::create_dir_all(&package).unwrap();
    for (version, wanted) in [("1.0.0", false), (VERSION, true)] {
        fs::write(package.join("package.json"), format!(r#"{{"version": "{version}"}}"#)).unwrap();
        assert_eq!(is_installed(folder.path()), wanted, "{version}");
    }
}
