//! Names are safe wherever they are used, and a seed makes a run repeatable. Alone in its process, because it sets the
//! environment.

use std::collections::HashSet;

use duramen_base::{clock, entropy};

#[test]
fn tokens_are_plain_names() {
    for len in 0..70 {
        let token = entropy::token(len);
        assert_eq!(token.len(), len);
        assert!(token.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit()), "{token}");
        assert!(!token.starts_with(|c: char| c.is_ascii_digit()), "{token}");
    }
}

#[test]
fn tokens_do_not_repeat() {
    let tokens: HashSet<String> = (0..1000).map(|_| entropy::token(16)).collect();
    assert_eq!(tokens.len(), 1000);
}

#[test]
fn every_character_comes_about() {
    let seen: HashSet<char> = (0..200).flat_map(|_| entropy::token(32).chars().collect::<Vec<_>>()).collect();
    assert_eq!(seen.len(), 32);
}

#[test]
fn random_bytes_differ() {
    assert_ne!(entropy::random_bytes::<16>(), entropy::random_bytes::<16>());
}

#[test]
#[allow(unsafe_code, reason = "the environment is what is tested")]
fn the_environment_fixes_the_seed() {
    // SAFETY: no other test of this program reads or writes the environment.
    let set = |value: &str| unsafe { std::env::set_var(entropy::SEED_VARIABLE, value) };
    set("18446744073709551615");
    assert_eq!(entropy::seed(), u64::MAX);
    set(" 0x1F ");
    assert_eq!(entropy::seed(), 31);
    set("");
    assert_ne!(entropy::seed(), entropy::seed());
    // SAFETY: as above.
    unsafe { std::env::remove_var(entropy::SEED_VARIABLE) };
    assert_ne!(entropy::seed(), entropy::seed());
}

#[test]
fn a_word_is_a_seed_that_never_changes() {
    // The test vectors of FNV-1a with 64 bits.
    assert_eq!(entropy::seed_from_text("a"), 0xaf63_dc4c_8601_ec8c);
    assert_eq!(entropy::seed_from_text("foobar"), 0x8594_4171_f739_67e8);
}

#[test]
fn a_generator_repeats_itself() {
    let draw = |seed| {
        let mut rng = entropy::rng(seed);
        (0..100).map(|_| rng.u32(..)).collect::<Vec<_>>()
    };
    assert_eq!(draw(3), draw(3));
    assert_ne!(draw(3), draw(4));
}

#[test]
fn both_clocks_go_forward() {
    let (monotonic, wall) = (clock::now(), clock::unix_ms());
    std::thread::sleep(std::time::Duration::from_millis(20));
    assert!(clock::ms(monotonic.elapsed()) >= 20.0);
    assert!(clock::unix_ms() > wall);
    #[cfg(feature = "jiff")]
    assert_eq!(clock::utc_now().as_millisecond() / 100_000, clock::unix_ms() / 100_000);
}
