//! What the first packets of clients mean, and which are refused.

use super::*;

fn packet(version: u32, pairs: &[(&str, &str)]) -> Vec<u8> {
    let mut packet = version.to_be_bytes().to_vec();
    for text in pairs.iter().flat_map(|(name, value)| [name, value]) {
        packet.extend_from_slice(text.as_bytes());
        packet.push(0);
    }
    packet.push(0);
    packet
}

fn started(pairs: &[(&str, &str)]) -> Startup {
    match parse(&packet(NEWEST, pairs)) {
        Ok(First::Startup(startup)) => startup,
        other => panic!("{other:?}"),
    }
}

fn refused(pairs: &[(&str, &str)]) -> Wrong {
    parse(&packet(OLDEST, pairs)).expect_err("it is refused")
}

#[test]
fn what_is_for_the_branch_goes_on_and_what_is_ours_does_not() {
    let startup = started(&[
        ("user", "ci"),
        ("database", "flights@try"),
        ("application_name", "psql"),
        ("_pq_.compression", "zstd"),
        ("duramen.ttl", "90m"),
        ("options", "-c statement_timeout=5s -c duramen.policy=ddl  --work-mem=8MB"),
    ]);
    assert_eq!(startup.user, "ci");
    assert_eq!(startup.protocol_options, ["_pq_.compression"]);
    assert_eq!(startup.wishes, Wishes { policy: Some(Policy::Ddl), ttl_s: Some(5400) });
    let expected = [("application_name", "psql"), ("options", "-c statement_timeout=5s --work-mem=8MB")];
    let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(startup.parameters, expected);
}

#[test]
fn options_are_read_as_the_server_reads_them() {
    for (options, rest, policy) in [
        ("", "", None),
        ("-c duramen.policy=ddl", "", Some("ddl")),
        ("-cduramen.policy=ddl", "", Some("ddl")),
        ("--duramen.policy=ddl", "", Some("ddl")),
        (r"-c duramen.policy=role:a\ b", "", Some("role:a b")),
        ("-c duramen.role=app -c a=b", "-c a=b", Some("role:app")),
        (r"-c search_path=a\ b\\c", r"-c search_path=a\ b\\c", None),
        // The value of another setting, however it looks.
        (r"-c application_name=-c\ duramen.policy=ddl", r"-c application_name=-c\ duramen.policy=ddl", None),
        ("-c --duramen.policy=ddl", "-c --duramen.policy=ddl", None),
        ("-c", "-c", None),
        (r"\", r"\", None),
    ] {
        let mut wishes = Wishes::default();
        assert_eq!(own_options(options, &mut wishes).unwrap(), rest, "{options}");
        assert_eq!(wishes.policy, policy.map(|policy| policy.parse().unwrap()), "{options}");
    }
}

#[test]
fn what_is_not_given_has_the_usual_meaning() {
    let startup = started(&[("user", "ci")]);
    assert_eq!((startup.database, startup.wishes), (None, Wishes::default()));
    assert_eq!(started(&[("user", "ci"), ("database", "")]).database, None);
    assert_eq!(started(&[("user", "ci"), ("database", "ci")]).database, None, "as libpq does it");
    assert_eq!(started(&[("user", "ci"), ("database", "try")]).database.as_deref(), Some("try"));
    assert!(started(&[("user", "ci"), ("replication", "false")]).parameters.is_empty());
}

#[test]
fn what_cannot_go_through_is_refused_by_name() {
    for (pairs, code) in [
        (&[("user", "ci"), ("replication", "database")][..], "0A000"),
        (&[("user", "ci"), ("replication", "true")], "0A000"),
        (&[("database", "try")], "28000"),
        (&[("user", "")], "28000"),
        (&[("user", "ci"), ("duramen.ttl", "soon")], "22023"),
        (&[("user", "ci"), ("duramen.ttl", "-5")], "22023"),
        (&[("user", "ci"), ("duramen.policy", "root")], "22023"),
        (&[("user", "ci"), ("options", "-c duramen.plan=ddl")], "42704"),
    ] {
        assert_eq!(refused(pairs).code, code, "{pairs:?}");
    }
    for version in [2 << 16, 4 << 16] {
        assert_eq!(parse(&packet(version, &[("user", "ci")])).unwrap_err().code, "0A000");
    }
}

#[test]
fn what_is_no_packet_is_refused_and_never_a_panic() {
    let good = packet(NEWEST, &[("user", "ci"), ("database", "try"), ("options", r"-c a=\ b")]);
    for end in 0..good.len() {
        assert!(parse(&good[..end]).is_err(), "cut at {end}");
    }
    let mut random = duramen_base::entropy::rng(1);
    for _ in 0..20_000 {
        let mut bytes = good.clone();
        for _ in 0..random.usize(1..4) {
            let place = random.usize(0..bytes.len());
            bytes[place] = random.u8(..);
        }
        let _ = parse(&bytes);
    }
    let mut behind = good;
    behind.extend_from_slice(b"x\0");
    assert!(parse(&behind).is_err());
}

#[test]
fn requests_without_a_session_are_known() {
    let request = |code: u32, rest: &[u8]| [&code.to_be_bytes(), rest].concat();
    assert_eq!(parse(&request(80_877_103, &[])), Ok(First::Tls));
    assert_eq!(parse(&request(80_877_104, &[])), Ok(First::Gss));
    let cancel = parse(&request(80_877_102, &[0, 0, 0, 7, 1, 2, 3, 4]));
    assert_eq!(cancel, Ok(First::Cancel { session: 7, key: vec![1, 2, 3, 4] }));
    assert!(parse(&request(80_877_102, &[0, 0])).is_err());
}

#[test]
fn targets_say_whether_a_branch_is_made() {
    assert_eq!(Target::parse("try"), Target::Branch("try"));
    assert_eq!(Target::parse("flights@try"), Target::Created { source: "flights", branch: "try" });
    assert_eq!(Target::parse("@flights"), Target::Own { source: "flights" });
    assert_eq!(readings("a.b.c").collect::<Vec<_>>(), [("a.b.c", None), ("a", Some("b.c"))]);
    assert_eq!(readings("try").collect::<Vec<_>>(), [("try", None)]);
}
