use super::matches;

#[test]
fn a_pattern_must_cover_the_whole_name() {
    for (pattern, name, expected) in [
        ("get", "get", true),
        ("get", "get2", false),
        ("get2", "get", false),
        ("*", "", true),
        ("put*", "put_strict_1", true),
        ("*strict*", "put_strict_1", true),
        ("put_*_?", "put_strict_1", true),
        ("put_*_?", "put_strict_32", false),
        ("*1", "range100", false),
        ("*0", "range100", true),
        ("?", "", false),
    ] {
        assert_eq!(matches(pattern, name), expected, "{pattern} on {name}");
    }
}
