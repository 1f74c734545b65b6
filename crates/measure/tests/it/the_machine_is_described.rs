//! The fingerprint says what is true of this machine, and leaves nothing behind.

use std::path::Path;
use std::time::Duration;

use duramen_base::clock;
use duramen_measure::host::{file_system_in, fsync_floor, Host, HostError};

#[test]
fn the_fingerprint_is_filled_in() {
    let dir = tempfile::tempdir().unwrap();
    let begin = clock::now();
    let host = Host::fingerprint(dir.path()).unwrap();
    assert!(begin.elapsed() < Duration::from_secs(20));
    assert!(!host.cpu.is_empty() && !host.file_system.is_empty());
    assert!(host.kernel.starts_with("Linux "), "{}", host.kernel);
    assert!(host.cores >= 1);
    assert!(host.memory_bytes > 64 << 20);
    assert!(host.load_average.iter().all(|load| *load >= 0.0));
    assert!(host.fsync_floor_us > 0.0);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn the_field_names_are_those_of_the_format() {
    let host = Host::fingerprint(&std::env::temp_dir()).unwrap();
    let json = serde_json::to_value(&host).unwrap();
    let mut names: Vec<_> = json.as_object().unwrap().keys().map(String::as_str).collect();
    names.sort_unstable();
    let expected =
        ["cores", "cpu", "file_system", "fsync_floor_us", "kernel", "load_average", "memory_bytes"];
    assert_eq!(names, expected);
}

#[test]
fn a_missing_folder_is_an_error_that_names_it() {
    let error = Host::fingerprint(Path::new("/no/such/folder")).unwrap_err();
    assert!(matches!(error, HostError::Read { .. }), "{error:?}");
    assert!(error.to_string().contains("/no/such/folder"), "{error}");
}

#[test]
fn memory_has_a_low_floor() {
    let shm = Path::new("/dev/shm");
    if duramen_measure::host::file_system(shm).is_ok_and(|kind| kind == "tmpfs") {
        if let Ok(floor) = fsync_floor(shm) {
            assert!(floor < Duration::from_millis(50), "{floor:?}");
        }
    }
}

#[test]
fn the_innermost_and_last_mount_counts() {
    let table = "\
21 1 8:1 / / rw,relatime shared:1 - ext4 /dev/a rw
30 21 0:20 / /var/lib rw shared:2 - xfs /dev/b rw
31 30 0:21 / /var/lib rw - btrfs /dev/c rw
32 21 0:22 / /var/lib\\040x rw master:1 propagate_from:2 - zfs pool rw
33 21 0:23 / /back\\134slash rw - tmpfs none rw
a line of another kind
";
    let of = |dir: &str| file_system_in(table, Path::new(dir)).unwrap();
    assert_eq!(of("/home"), "ext4");
    assert_eq!(of("/var/lib/data"), "btrfs");
    assert_eq!(of("/var/library"), "ext4");
    assert_eq!(of("/var/lib x"), "zfs");
    assert_eq!(of("/back\\slash/a"), "tmpfs");
    assert_eq!(file_system_in("", Path::new("/")), None);
}
