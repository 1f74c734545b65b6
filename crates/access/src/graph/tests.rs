//! Blocks that no writer would write, and batches of long ids.

use crate::graph::format::bytes::{put_bytes, put_u64};
use crate::graph::format::records::RecordPage;
use crate::graph::format::rows::{Rows, BLOCK_ROWS};
use crate::graph::model::GrantRef;
use crate::graph::tail::Tail;
use crate::graph::write::journal::frame_end;

#[test]
fn a_count_of_records_is_not_believed() {
    let mut raw = Vec::new();
    put_u64(&mut raw, 0);
    put_bytes(&mut raw, b"key");
    put_bytes(&mut raw, b"");
    assert_eq!(RecordPage::decode(&raw, 1).unwrap().len(), 1);
    for forged in [0, 2, 1000, u32::MAX] {
        assert!(RecordPage::decode(&raw, forged).is_err(), "{forged}");
    }
}

#[test]
fn counts_of_rows_and_times_are_not_believed() {
    let block = |rows: u64, times: u64| {
        let mut raw = vec![1];
        put_u64(&mut raw, rows);
        put_u64(&mut raw, 0);
        put_u64(&mut raw, rows);
        (0..rows).for_each(|_| put_u64(&mut raw, 1));
        put_u64(&mut raw, times);
        (0..times).for_each(|_| raw.extend_from_slice(&[2, 2]));
        if times > 0 {
            raw.push(u8::from(times == 1));
            if times > 1 {
                (0..rows).for_each(|row| raw.push(if row < times { 2 } else { 0 }));
            }
        }
        put_u64(&mut raw, 0);
        raw
    };
    let mut rows = Rows::default();
    let most = BLOCK_ROWS as u64;
    for (count, times) in [(1, 0), (most, 0), (most, 1), (3, 3)] {
        rows.decode(&block(count, times)).unwrap();
        assert_eq!((rows.rows.len() as u64, rows.times.len() as u64), (count, times));
    }
    for (count, times) in [(most + 1, 0), (3, 4), (1, 100_000), (1 << 20, 0)] {
        assert!(rows.decode(&block(count, times)).is_err(), "{count} rows, {times} times");
    }
}

/// Without it, 65,536 grants with ids of a kilobyte would be one frame that is longer than any is believed to be.
#[test]
fn a_frame_of_long_ids_has_fewer_rows() {
    let mut tail = Tail::default();
    for number in 0..24_000 {
        let principal = format!("{number:04000}");
        let grant = GrantRef {
            id: &format!("e:user:{principal}"),
            entitlement: "e",
            resource_type: "app",
            resource: "x",
            principal_type: "user",
            principal: &principal,
            discovered_at: None,
            rest: None,
        };
        tail.push(&grant).unwrap();
    }
    let (mut begin, mut frames) = (0, 0);
    while begin < tail.rows.len() {
        let end = frame_end(&tail, begin);
        assert!(end > begin && (end - begin) * 4000 <= 32 << 20, "{begin} to {end}");
        (begin, frames) = (end, frames + 1);
    }
    assert_eq!(frames, 3);
}
