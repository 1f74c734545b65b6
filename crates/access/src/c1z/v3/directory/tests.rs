use std::ops::ControlFlow;

use super::*;
use crate::c1z::ReadOptions;

/// Each row of each file that the SDK wrote is, byte by byte, the one that Pebble finds there: also those that are no rows
/// of a graph. (Rows of indexes and digests in logs are not kept here, and left out there.)
#[test]
fn keys_and_values_are_those_that_pebble_finds() {
    let kept = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/c1z/sdk/files");
    let folder = std::env::var_os("DURAMEN_C1Z_FILES").map_or(kept, std::path::PathBuf::from);
    let mut files = 0;
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|it| it != "c1z") {
            continue;
        }
        let lines = std::fs::read(path.with_extension("jsonl.zst")).unwrap();
        let lines = String::from_utf8(zstd::decode_all(lines.as_slice()).unwrap()).unwrap();
        let expected: serde_json::Value = serde_json::from_str(lines.lines().last().unwrap()).unwrap();
        let envelope = Arc::new(Envelope::open(&path, &ReadOptions::default()).unwrap());
        let tree = Directory { envelope: &envelope, check_sha256: true, keep_indexes: false }.tree().unwrap();
        let mut rows = Vec::new();
        let walked = tree.each(&[], None, &mut |key, value| {
            if !matches!(key, [key::VERSION, family::INDEX | family::DIGEST, ..]) {
                rows.push((key.to_vec(), value.to_vec()));
            }
            Ok(ControlFlow::Continue(()))
        });
        assert!(walked.is_ok(), "{path:?}");
        rows.sort();
        let mut hash = xxhash_rust::xxh64::Xxh64::new(0);
        for bytes in rows.iter().flat_map(|(key, value)| [key, value]) {
            hash.update(&(bytes.len() as u32).to_le_bytes());
            hash.update(bytes);
        }
        let found = (rows.len() as u64, format!("{:016x}", hash.digest()));
        let expected = (expected["rows"].as_u64().unwrap(), expected["xxh64"].as_str().unwrap().to_owned());
        assert_eq!(found, expected, "{path:?}");
        files += 1;
    }
    assert!(files >= 28, "{files} files");
}
