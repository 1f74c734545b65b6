//! The allocations of an engine are counted by a program of their own.

use std::process::Command;

/// What a million grants may ask of the allocator is a target: thousands, which a count of nothing would meet too.
#[test]
fn allocations_are_counted_and_do_not_grow_with_the_grants() {
    for engine in ["pack", "c1z3"] {
        let dir = tempfile::tempdir().unwrap();
        let count = |grants: u32| {
            let output = Command::new(env!("CARGO_BIN_EXE_duramen-count-allocations"))
                .arg(format!("{engine}:{grants}"))
                .arg(dir.path())
                .output()
                .unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            String::from_utf8(output.stdout).unwrap().trim().parse::<u64>().unwrap()
        };
        let (few, many) = (count(100), count(20_000));
        assert!(few > 50 && many < few + 20_000 / 10, "{engine}: {few} and {many}");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "{engine}");
    }
}
