use super::{parse_version, Version};

#[test]
fn versions_are_read_from_what_servers_print() {
    let check = |text: &str, expected: Option<(u32, u32)>| {
        assert_eq!(parse_version(text), expected.map(|(major, minor)| Version { major, minor }), "{text}");
    };
    check("postgres (PostgreSQL) 18.6\n", Some((18, 6)));
    check("postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n", Some((15, 18)));
    check("postgres (PostgreSQL) 19beta1\n", Some((19, 0)));
    check("not a server\n", None);
    check("", None);
}
