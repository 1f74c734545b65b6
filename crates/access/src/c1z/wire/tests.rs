use super::*;

#[test]
fn a_number_is_read_as_it_was_written() {
    for shift in 0..64 {
        for value in [1u64 << shift, (1u64 << shift) - 1, u64::MAX >> shift] {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            assert_eq!(out.len(), varint_len(value), "{value}");
            let mut at = 0;
            assert_eq!(varint(&out, &mut at).unwrap(), value);
            assert_eq!(at, out.len());
            for cut in 0..out.len() {
                assert!(varint(&out[..cut], &mut 0).is_err());
            }
        }
    }
    assert!(varint(&[0xff; 10], &mut 0).is_err(), "more than 64 bits");
    assert!(varint(&[0x80; 11], &mut 0).is_err());
}

#[test]
fn a_message_of_any_length_has_its_length_in_front() {
    for length in [0usize, 1, 127, 128, 16_383, 16_384, 100_000] {
        let mut out = Vec::new();
        put_message(&mut out, 7, |out| out.extend(std::iter::repeat_n(3, length)));
        let field = Fields::new(&out).next().unwrap().unwrap();
        assert_eq!(field.number, 7);
        assert_eq!(field.bytes().unwrap(), vec![3; length]);
        assert_eq!(field.raw.len(), out.len());
    }
}

#[test]
fn no_bytes_make_the_walk_panic_or_run_over_the_end() {
    let mut random = fastrand::Rng::with_seed(7);
    for _ in 0..20_000 {
        let bytes: Vec<u8> = (0..random.usize(0..24)).map(|_| random.u8(..)).collect();
        let mut fields = Fields::new(&bytes);
        let mut total = 0;
        while let Ok(Some(field)) = fields.next() {
            total += field.raw.len();
        }
        assert!(total <= bytes.len());
    }
}
