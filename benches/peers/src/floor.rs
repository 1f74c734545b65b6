//! The least that a durable commit can cost on this disk at this moment.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use duramen_base::clock;

use crate::engine::{Done, Failure};
use crate::latency::Latencies;

const RECORD: [u8; 128] = [0x5a; 128];
const FILE_BYTES: usize = 1 << 20;
const SYNCS: usize = 2_000;
const LIMIT: Duration = Duration::from_secs(1);

/// Overwrites 128 bytes after 128 bytes of a file that was filled with zeros before, with an fdatasync after
/// each: the median in microseconds.
///
/// # Errors
/// When the folder cannot be written.
pub(crate) fn measure(dir: &Path) -> Done<f64> {
    let path = dir.join("floor");
    let fail = || Failure::io(format!("cannot measure the sync floor in {}", dir.display()));
    let mut file = File::create(&path).map_err(fail())?;
    file.write_all(&vec![0; FILE_BYTES]).and_then(|()| file.sync_all()).map_err(fail())?;
    let mut latencies = Latencies::new();
    let begin = clock::now();
    for sync in 0..SYNCS {
        let offset = (sync * RECORD.len() % FILE_BYTES) as u64;
        let start = clock::now();
        file.write_all_at(&RECORD, offset).and_then(|()| file.sync_data()).map_err(fail())?;
        latencies.record(start.elapsed());
        if begin.elapsed() > LIMIT {
            break;
        }
    }
    std::fs::remove_file(&path).map_err(fail())?;
    latencies.us(0.5)
}
