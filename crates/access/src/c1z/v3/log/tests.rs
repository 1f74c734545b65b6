use super::*;

fn all(bytes: &[u8]) -> Result<Vec<Vec<u8>>, Bad> {
    let (mut records, mut record, mut found) = (Records::new(bytes, None), Vec::new(), Vec::new());
    while records.next(&mut record)?.is_some() {
        found.push(record.clone());
    }
    Ok(found)
}

#[test]
fn records_of_every_length_around_a_block_come_back() {
    let lengths =
        [0, 1, 6, 7, 8, 100, BLOCK - 16, BLOCK - 15, BLOCK - 14, BLOCK - 13, BLOCK - 8, BLOCK - 7, BLOCK - 6];
    let lengths = lengths.into_iter().chain([BLOCK, BLOCK + 1, 3 * BLOCK, 3 * BLOCK - 21, 5]);
    let records: Vec<Vec<u8>> = lengths.zip(1u8..).map(|(length, byte)| vec![byte; length]).collect();
    let mut log = Vec::new();
    for record in &records {
        append(&mut log, record);
    }
    assert_eq!(all(&log).unwrap(), records);
}

#[test]
fn a_log_that_is_cut_or_flipped_anywhere_is_refused_or_ends_with_a_whole_record() {
    let mut log = Vec::new();
    let records: Vec<Vec<u8>> = (0..20u8).map(|byte| vec![byte; usize::from(byte) * 7]).collect();
    let mut ends = vec![0];
    for record in &records {
        append(&mut log, record);
        ends.push(log.len());
    }
    for cut in 0..log.len() {
        match all(&log[..cut]) {
            Ok(found) => assert!(ends.contains(&cut) && records.starts_with(&found), "cut at {cut}"),
            // Fewer than seven bytes of zeros are not a chunk, but the first bytes of one are not zeros.
            Err(bad) => assert!(bad.at <= cut as u64),
        }
    }
    for at in 0..log.len() {
        for bit in 0..8 {
            let mut flipped = log.clone();
            flipped[at] ^= 1 << bit;
            assert!(all(&flipped).is_err(), "bit {bit} of byte {at}");
        }
    }
}

#[test]
fn what_an_older_log_left_in_a_reused_file_is_not_read() {
    let chunk = |number: u32, payload: &[u8]| {
        let mut covered = vec![5];
        covered.extend_from_slice(&number.to_le_bytes());
        covered.extend_from_slice(payload);
        let mut out = masked_crc(&covered).to_le_bytes().to_vec();
        out.extend_from_slice(&(payload.len() as u16).to_le_bytes());
        out.extend_from_slice(&covered);
        out
    };
    let log = [chunk(9, b"new"), chunk(7, b"old")].concat();
    let (mut records, mut record) = (Records::new(&log, Some(9)), Vec::new());
    assert!(records.next(&mut record).unwrap().is_some());
    assert_eq!(record, b"new");
    assert!(records.next(&mut record).unwrap().is_none());
}
