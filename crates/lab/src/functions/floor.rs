//! What the disk itself costs: one sync, as a commit has it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use duramen_base::clock;
use duramen_measure::histogram::LatencyHistogram;

/// Syncs of one measurement of the floor.
const SYNCS: u64 = 200;
const LIMIT: Duration = Duration::from_millis(200);
/// The server writes its log in pages of this size.
const PAGE: usize = 8192;

/// What it takes to write one page over another and to wait until it is durable: what the server does to commit into a
/// segment of its log that exists.
pub(crate) fn sync_floor(dir: &Path, into: &mut LatencyHistogram) -> io::Result<()> {
    let path = dir.join("fsync-floor");
    let file = File::options().write(true).create(true).truncate(true).open(&path)?;
    file.write_all_at(&vec![0; SYNCS as usize * PAGE], 0)?;
    file.sync_all()?;
    let begin = clock::now();
    for page in 0..SYNCS {
        let sync = clock::now();
        file.write_all_at(&[0x5a; PAGE], page * PAGE as u64)?;
        file.sync_data()?;
        into.record(sync.elapsed());
        if begin.elapsed() > LIMIT {
            break;
        }
    }
    drop(file);
    std::fs::remove_file(&path)
}
