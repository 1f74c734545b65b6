//! What the machine itself costs: one sync, and reading the clock.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use duramen_base::clock;
use duramen_measure::histogram::LatencyHistogram;

/// Syncs of one measurement of the floor.
const SYNCS: u64 = 50;
const RECORD_BYTES: u64 = 128;
const LIMIT: Duration = Duration::from_millis(50);

/// What it takes to write 128 bytes into a file of zeros and to wait until they are durable: a commit at the level
/// strict cannot be faster, except in company.
pub(crate) fn sync_floor(dir: &Path, into: &mut LatencyHistogram) -> io::Result<()> {
    let path = dir.join("fsync-floor");
    let file = File::options().write(true).create(true).truncate(true).open(&path)?;
    file.write_all_at(&vec![0; (SYNCS * RECORD_BYTES) as usize], 0)?;
    file.sync_all()?;
    let begin = clock::now();
    for record in 0..SYNCS {
        let sync = clock::now();
        file.write_all_at(&[0x5a; RECORD_BYTES as usize], record * RECORD_BYTES)?;
        file.sync_data()?;
        into.record(sync.elapsed());
        if begin.elapsed() > LIMIT {
            break;
        }
    }
    drop(file);
    std::fs::remove_file(&path)
}

/// What reading the clock twice adds to every latency.
pub(crate) fn timer() -> LatencyHistogram {
    let mut took = LatencyHistogram::fine();
    took.extend((0..20_000).map(|_| clock::now().elapsed()));
    took
}
