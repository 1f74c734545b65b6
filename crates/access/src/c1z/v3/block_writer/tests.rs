use super::*;

#[test]
fn the_shared_prefix_is_found_at_every_length() {
    let text: Vec<u8> = (0..40).collect();
    for length in 0..40 {
        for at in 0..=length {
            let mut other = text[..length].to_vec();
            if let Some(byte) = other.get_mut(at) {
                *byte ^= 0x80;
            }
            assert_eq!(shared_prefix(&text, &other), at, "{length} bytes, another one at {at}");
            assert_eq!(shared_prefix(&other, &text), at);
        }
    }
}

#[test]
fn a_block_is_laid_out_as_its_ancestors_have_it() {
    let (mut block, mut out) = (BlockWriter::new(2), b"before".to_vec());
    assert_eq!(block.len(&out), 0);
    for (key, value) in [("tweedledee", "1"), ("tweedledum", "22"), ("two", "")] {
        block.add(&mut out, key.as_bytes(), b"!", value.as_bytes());
    }
    assert_eq!((block.len(&out), block.last()), (out.len() - 6, &b"two"[..]));
    block.finish(&mut out);
    let expected = [
        b"before\x00\x0b\x01tweedledee!1".as_slice(),
        b"\x08\x03\x02um!22",
        b"\x00\x04\x00two!",
        &[0, 0, 0, 0, 23, 0, 0, 0, 2, 0, 0, 0],
    ];
    assert_eq!(out, expected.concat());
    // The next block shares nothing with the one before, and counts from its own beginning.
    let start = out.len();
    block.add(&mut out, b"two", b"", b"");
    block.finish(&mut out);
    assert_eq!(out[start..], *b"\x00\x03\x00two\0\0\0\0\x01\0\0\0");
}
