//! Quotas of a volume store. As root, where the kernel has them; as another user there are none.

use crate::store_home::StoreHome;
use duramen_postgres::volume::{Account, Quota};
use rustix::io::Errno;
use std::{fs, io, io::Write, path::Path};

const MIB: u64 = 1 << 20;

/// Writes until the file system refuses, with ever smaller pieces: nothing at all fits after it.
pub(crate) fn fill(volume: &Path) {
    let mut file = fs::File::create(volume.join("filling")).unwrap();
    for size in [MIB as usize, 64 << 10, 4 << 10] {
        while file.write_all(&vec![b'x'; size]).and_then(|()| file.sync_all()).is_ok() {}
    }
}

fn is_over_quota(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::DQUOT)
}

/// Invariant B33: whatever is raised, lowered or counted elsewhere for a volume with nothing left of its quota needs
/// nothing of that quota.
#[test]
fn the_quota_of_a_volume_that_is_full_to_the_last_byte_can_be_raised() {
    let home = StoreHome::new();
    let store = home.open();
    let Ok(quotas) = store.quotas() else {
        assert!(!rustix::process::geteuid().is_root(), "as root there are quotas: {store:?}");
        return;
    };
    let (snapshot, clone) = (store.root.join("snapshot"), store.root.join("clone"));
    store.volumes.create(&snapshot).unwrap();
    store.volumes.freeze(&snapshot).unwrap();
    let quota = Quota { bytes: 64 * MIB, account: Account::Reserve };
    store.volumes.clone_volume(&snapshot, &clone, Some(quota)).unwrap();
    fill(&clone);
    // What is used is used up exactly.
    quotas.limit(&clone, Some(quotas.used(&clone).unwrap())).unwrap();
    let refused = fs::write(clone.join("more"), "x").unwrap_err();
    assert!(is_over_quota(&refused), "{refused}");

    quotas.count_in(&clone, Account::Common).unwrap();
    quotas.limit(&clone, Some(quotas.used(&clone).unwrap() + 16 * MIB)).unwrap();
    fs::write(clone.join("more"), vec![b'x'; 8 * MIB as usize]).unwrap();
    fill(&clone);
    quotas.limit(&clone, Some(MIB)).unwrap();
    quotas.limit(&clone, None).unwrap();
    fs::write(clone.join("more still"), vec![b'x'; 8 * MIB as usize]).unwrap();
    store.volumes.delete(&clone).unwrap();
    store.volumes.delete(&snapshot).unwrap();
    store.close().unwrap();
}
