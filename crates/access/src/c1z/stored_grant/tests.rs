use super::*;
use crate::c1z::losses::Losses;
use crate::graph::Any;

fn record(grant: &Grant) -> Vec<u8> {
    let mut out = Vec::new();
    storage::put_grant(&mut out, &GrantRef::from(grant), &mut Losses::default());
    out
}

fn grant(random: &mut fastrand::Rng) -> Grant {
    let name = |random: &mut fastrand::Rng, what: &str| format!("{what}-{}", random.u8(..3));
    let mut grant = Grant {
        id: name(random, "grant"),
        entitlement: EntitlementRef {
            resource: ResourceId::new(name(random, "app"), name(random, "git")),
            id: name(random, "entitlement"),
        },
        principal: PrincipalRef {
            id: ResourceId::new(name(random, "user"), name(random, "gr\u{fc}n")),
            parent: None,
        },
        ..Grant::default()
    };
    match random.u8(..8) {
        0 => grant.principal.parent = Some(ResourceId::new("org", "o")),
        1 => grant.annotations.push(Any { type_url: "t".to_owned(), value: vec![0x80] }),
        2 => grant.sources.push(("s".to_owned(), true)),
        3 => grant.extra.storage = b"\x52\x01x".to_vec(),
        4 => grant.id.clear(),
        _ => {}
    }
    if random.bool() {
        grant.discovered_at =
            Some(Timestamp { seconds: random.i64(-2..3) * 1_000_000_000, nanos: random.i32(0..2) });
    }
    grant
}

/// What the reader of whole records says of a record, and what the reader in bulk says of it.
fn both(reader: &mut GrantReader, record: &[u8]) -> (Option<Grant>, [Option<Grant>; 2]) {
    let borrowed = reader.borrowed(record).map(|row| row.to_grant()).ok();
    let owned = reader.grant(record).ok();
    (storage::grant(record).ok(), [borrowed, owned])
}

#[test]
fn every_record_reads_as_it_does_alone() {
    let mut random = fastrand::Rng::with_seed(1);
    let mut reader = GrantReader::default();
    let mut plain = 0;
    for _ in 0..3_000 {
        let record = record(&grant(&mut random));
        plain += usize::from(reader.plain(&record).is_some());
        let (alone, [borrowed, owned]) = both(&mut reader, &record);
        assert!(alone.is_some());
        assert_eq!((&borrowed, &owned), (&alone, &alone));
    }
    assert!((500..2_500).contains(&plain), "{plain} plain records");
}

#[test]
fn damaged_records_are_refused_or_read_as_they_are_alone() {
    let mut random = fastrand::Rng::with_seed(2);
    let mut reader = GrantReader::default();
    let mut refused = 0;
    for _ in 0..20_000 {
        let mut record = record(&grant(&mut random));
        for _ in 0..random.usize(1..3) {
            let at = random.usize(..record.len());
            record[at] = random.u8(..);
        }
        record.truncate(random.usize(record.len() / 2..=record.len()));
        let (alone, [borrowed, owned]) = both(&mut reader, &record);
        refused += usize::from(alone.is_none());
        assert_eq!((&borrowed, &owned), (&alone, &alone), "{}", record.escape_ascii());
    }
    assert!(refused > 5_000);
}

#[test]
fn fields_in_another_order_or_twice_mean_what_they_mean_alone() {
    let mut reader = GrantReader::default();
    let fields: [&[u8]; 6] = [
        b"\x12\x01g",
        b"\x12\x01h",
        b"\x1a\x09\x0a\x01a\x12\x01b\x1a\x01c",
        b"\x1a\x03\x0a\x01x",
        b"\x22\x06\x0a\x01u\x12\x01v",
        b"\x22\x00",
    ];
    for first in fields {
        for second in fields {
            for third in fields {
                let record = [first, second, third].concat();
                let (alone, [borrowed, owned]) = both(&mut reader, &record);
                assert!(alone.is_some());
                assert_eq!((&borrowed, &owned), (&alone, &alone), "{}", record.escape_ascii());
            }
        }
    }
}
