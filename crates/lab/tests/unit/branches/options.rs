use crate::branches::{Runner, Write};
use duramen_api::model::Policy;
use duramen_base::words::parse_count;

#[test]
fn counts_are_read_with_decimal_factors() {
    for (text, count) in [
        ("336776", 336_776),
        ("300k", 300_000),
        ("300K", 300_000),
        ("20M", 20_000_000),
        (" 1g ", 1_000_000_000),
        ("0", 0),
    ] {
        assert_eq!(parse_count(text), Ok(count), "{text}");
    }
}

#[test]
fn what_is_no_count_is_refused_with_an_example() {
    for text in ["", "k", "-1", "+1", "1.5M", "20 M", "1e6", "99999999999999999999", "99999999999999999k"] {
        let error = parse_count(text).unwrap_err();
        assert!(error.contains("300k"), "{text:?}: {error}");
    }
}

#[test]
fn each_write_asks_for_no_more_than_it_needs() {
    assert_eq!(Write::None.policy(), Policy::ReadOnly);
    assert_eq!(Write::Events.policy(), Policy::ReadWrite);
    assert_eq!(Write::Ddl.policy(), Policy::Ddl);
}

#[test]
fn runners_have_names_of_their_own() {
    let all = [Runner::Session, Runner::Wire, Runner::Psql, Runner::NodePg];
    assert_eq!(all.map(Runner::name), ["session", "wire", "psql", "node-pg"]);
}
