use super::*;

#[test]
fn numbers_are_octal_or_big_endian() {
    assert_eq!(number(b"0000644\0"), Some(0o644));
    assert_eq!(number(b"   17 "), Some(0o17));
    assert_eq!(number(b"\x80\0\0\0\0\0\0\0\0\0\x01\x02"), Some(0x102));
    assert_eq!(number(b"18"), None);
    assert_eq!(number(b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"), None);
}

#[test]
fn fields_before_a_header_are_lines_of_a_length_a_name_and_a_value() {
    let mut fields = Fields::default();
    fields.read(b"12 size=123\n12 path=a/b\n20 mtime=1350244992\n").unwrap();
    assert_eq!((fields.name.as_deref(), fields.size), (Some("a/b"), Some(123)));
    for wrong in ["5", "99 size=1\n", "9 size=x\n", "2 \n", "0 size=1\n", "9 size=1 "] {
        assert!(Fields::default().read(wrong.as_bytes()).is_err(), "{wrong:?}");
    }
}
