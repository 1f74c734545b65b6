use super::Traceparent;

const GIVEN: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

#[test]
fn a_traceparent_is_read_and_written() {
    let read = Traceparent::parse(GIVEN).unwrap();
    assert_eq!(read.to_string(), GIVEN);
    assert!(read.sampled);
    assert!(!Traceparent::parse(&format!("{}00", &GIVEN[..53])).unwrap().sampled);
    // Other flags say nothing that is handed on.
    assert_eq!(Traceparent::parse(&format!("{}ff", &GIVEN[..53])), Some(read));
}

/// T-5
#[test]
fn no_text_but_a_traceparent_is_one() {
    let cut = &GIVEN[..54];
    for text in [
        "",
        cut,
        &format!("{GIVEN}0"),
        &format!("ff{}", &GIVEN[2..]),
        &format!("01{}", &GIVEN[2..]),
        &GIVEN.to_uppercase(),
        &GIVEN.replace('-', "_"),
        &format!("00-{}{}", "0".repeat(32), &GIVEN[35..]),
        &format!("{}{}{}", &GIVEN[..36], "0".repeat(16), &GIVEN[52..]),
        &format!("{cut}\u{e9}"),
        // Characters of several bytes: as many bytes as a traceparent has.
        &"\u{e9}".repeat(27),
        &format!("00-{}\u{e9}", &GIVEN[3..53]),
        &"0".repeat(1 << 20),
    ] {
        assert_eq!(Traceparent::parse(text), None, "{:.60}", text);
    }
}
