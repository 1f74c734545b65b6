//! The calls as a program in C makes them: with pointers that are right, and with some that are not.

use std::ptr::{null, null_mut};

use super::*;

const NOTHING: DuramenBytes = DuramenBytes::EMPTY;

fn text(bytes: DuramenBytes) -> String {
    // SAFETY: a call gave these bytes, and they are freed after they were copied.
    let found = unsafe { std::slice::from_raw_parts(bytes.data, bytes.len).to_vec() };
    // SAFETY: as above.
    unsafe { duramen_bytes_free(bytes) };
    String::from_utf8(found).unwrap()
}

fn pieces() -> usize {
    let mut pieces = 0;
    // SAFETY: the one pointer can be written, and the other is null.
    unsafe { duramen_live(null_mut(), &mut pieces) };
    pieces
}

/// One test, because it counts what the whole process holds.
#[test]
fn calls_that_make_no_sense_are_errors_with_a_text_and_leave_nothing() {
    let mut graph = 0;
    // SAFETY: each pointer is null with no length, or that of a value that lives through the call.
    unsafe {
        assert_eq!(duramen_version(), 1);
        assert_eq!(duramen_open(null(), 0, 0, &mut graph, null_mut()), Status::Ok as i32);
        assert_eq!(duramen_open(null(), 0, 0, null_mut(), null_mut()), Status::Invalid as i32);

        let mut error = NOTHING;
        assert_eq!(duramen_open(null(), 5, 0, &mut 0, &mut error), Status::Invalid as i32);
        assert_eq!(text(error), "there is no pointer to the 5 bytes that are given");

        let mut error = NOTHING;
        let path = b"/nowhere/at/all.c1z";
        assert_eq!(duramen_open(path.as_ptr(), path.len(), 0, &mut 0, &mut error), Status::Failed as i32);
        assert!(text(error).contains("/nowhere/at/all.c1z"));

        // Nothing can be put or asked before there is a sync.
        let mut error = NOTHING;
        assert_eq!(duramen_put(graph, 4, null(), 0, &mut error), Status::NotFound as i32);
        assert_eq!(text(error), "there is no sync yet: start one");

        let start = |id: &[u8], kind: &[u8], error: *mut DuramenBytes| {
            duramen_start(graph, id.as_ptr(), id.len(), kind.as_ptr(), kind.len(), null(), 0, error)
        };
        assert_eq!(start(b"", b"full", null_mut()), Status::Invalid as i32);
        assert_eq!(start(b"id", b"quarterly", null_mut()), Status::Invalid as i32);
        assert_eq!(start(b"\xff", b"full", null_mut()), Status::Invalid as i32);
        assert_eq!(start(b"2aGyRUbxAdE4MTzLqMxgsT1HNjq", b"full", null_mut()), Status::Ok as i32);

        // Bytes of any kind are refused or taken, and never read beyond their end.
        let mut rows = Vec::new();
        for length in 0..80_u32 {
            rows.extend_from_slice(&length.wrapping_mul(0x9e37_79b9).to_le_bytes());
            for kind in 0..9 {
                for bytes in [&rows[..], &rows[..rows.len() - 3], &[0; 64][..], &[255; 64][..]] {
                    let mut error = NOTHING;
                    let mut page = NOTHING;
                    for status in [
                        duramen_put(graph, kind, bytes.as_ptr(), bytes.len(), &mut error),
                        duramen_delete(graph, kind, bytes.as_ptr(), bytes.len(), null_mut()),
                        duramen_list(graph, kind, bytes.as_ptr(), bytes.len(), &mut page, null_mut()),
                    ] {
                        assert!(
                            [Status::Ok as i32, Status::Invalid as i32].contains(&status),
                            "{kind}: {status}"
                        );
                    }
                    duramen_bytes_free(error);
                    duramen_bytes_free(page);
                }
            }
        }
        assert_eq!(duramen_list(graph, 4, null(), 0, null_mut(), null_mut()), Status::Invalid as i32);
        assert_eq!(duramen_checkpoint(graph, null(), 0, null_mut()), Status::Ok as i32);
        assert_eq!(duramen_supports_diff(graph, null_mut()), Status::Ok as i32);
        assert_eq!(duramen_end(graph, null_mut()), Status::Ok as i32);
        let mut found = NOTHING;
        assert_eq!(duramen_count(graph, &mut found, null_mut()), Status::Ok as i32);
        assert_eq!(found.len, 20);
        duramen_bytes_free(found);

        let mut losses = NOTHING;
        let mut error = NOTHING;
        assert_eq!(
            duramen_save(graph, path.as_ptr(), path.len(), &mut losses, &mut error),
            Status::Failed as i32
        );
        assert!(losses.data.is_null());
        duramen_bytes_free(error);

        assert_eq!(duramen_close(graph, null_mut()), Status::Ok as i32);
        for closed in [graph, 0, u64::MAX] {
            let (mut found, mut error) = (NOTHING, NOTHING);
            assert_eq!(duramen_sync(closed, &mut found, &mut error), Status::NoGraph as i32);
            assert_eq!(text(error), format!("there is no graph {closed}: it was closed, or never opened"));
            assert_eq!(duramen_close(closed, null_mut()), Status::NoGraph as i32);
        }
        duramen_bytes_free(NOTHING);
    }
    assert_eq!(pieces(), 0);
}
