//! What is made up: names, companies and addresses out of lists, chosen by what is drawn for a value.

use super::pseudonym::Pseudonyms;
use crate::model::Fake;
use fake::locales::{Data, EN};

/// How often another one is chosen where the first does not fit into its column.
const TRIES: u8 = 16;
/// What is behind what is made up for a unique column: so many digits of base 36, 62 bits.
const SUFFIX: usize = 12;

/// What is made up for a value, of at most `limit` characters, different for different values if it must be `unique`. `None`
/// if nothing fits.
pub(super) fn fake(
    drawn: &Pseudonyms,
    what: Fake,
    value: &[u8],
    limit: Option<u32>,
    unique: bool,
) -> Option<String> {
    let fits = |text: &String| limit.is_none_or(|limit| text.chars().count() <= limit as usize);
    let made = (0..TRIES).map(|attempt| {
        let mut lot = Lot(drawn.number("fake", &[&[attempt], value]));
        let mut text = lot.made(what);
        if unique {
            text.push(' ');
            let mut number = drawn.number("fake and unique", &[value]);
            for _ in 0..SUFFIX {
                text.push(char::from_digit((number % 36) as u32, 36).unwrap_or('0'));
                number /= 36;
            }
        }
        text
    });
    made.into_iter().find(fits)
}

/// A number from which choices are taken.
struct Lot(u128);

impl Lot {
    fn below(&mut self, count: usize) -> usize {
        let count = count.max(1) as u128;
        let chosen = self.0 % count;
        self.0 /= count;
        usize::try_from(chosen).unwrap_or(0)
    }

    fn of(&mut self, list: &'static [&'static str]) -> &'static str {
        let at = self.below(list.len());
        list.get(at).copied().unwrap_or_default()
    }

    fn zip(&mut self) -> String {
        format!("{:05}", 10_000 + self.below(90_000))
    }

    fn made(&mut self, what: Fake) -> String {
        match what {
            Fake::FirstName => self.of(EN::NAME_FIRST_NAME).to_owned(),
            Fake::LastName => self.of(EN::NAME_LAST_NAME).to_owned(),
            Fake::Name => format!("{} {}", self.of(EN::NAME_FIRST_NAME), self.of(EN::NAME_LAST_NAME)),
            Fake::Company => format!("{} {}", self.of(EN::NAME_LAST_NAME), self.of(EN::COMPANY_SUFFIX)),
            Fake::Street => format!(
                "{} {} {}",
                1 + self.below(199),
                self.of(EN::NAME_LAST_NAME),
                self.of(EN::ADDRESS_STREET_SUFFIX)
            ),
            Fake::City => format!("{} {}", self.of(EN::ADDRESS_CITY_PREFIX), self.of(EN::NAME_FIRST_NAME)),
            Fake::Zip => self.zip(),
            Fake::Country => self.of(EN::ADDRESS_COUNTRY).to_owned(),
            Fake::Address => {
                format!("{}, {} {}", self.made(Fake::Street), self.zip(), self.made(Fake::City))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use duramen_postgres::Secret;
    use std::collections::HashSet;

    #[test]
    fn what_is_made_up_follows_from_the_value_and_fits() {
        let drawn = Pseudonyms::new(&Secret::derived(&[7; 32], "a test"));
        for what in [Fake::Name, Fake::FirstName, Fake::LastName, Fake::Company, Fake::Address, Fake::City] {
            let one = fake(&drawn, what, b"Anna", None, false).expect("a fake");
            assert_eq!(Some(&one), fake(&drawn, what, b"Anna", None, false).as_ref());
            assert_ne!(Some(&one), fake(&drawn, what, b"Bert", None, false).as_ref());
            assert!(one.is_ascii() && one.len() > 2, "{one}");
        }
        assert!(fake(&drawn, Fake::Name, b"x", Some(12), false).expect("a short one").len() <= 12);
        assert_eq!(fake(&drawn, Fake::Address, b"x", Some(5), false), None);
        let many: HashSet<_> =
            (0..5000_u32).map(|n| fake(&drawn, Fake::LastName, &n.to_be_bytes(), None, true)).collect();
        assert_eq!(many.len(), 5000, "unique where that is asked for");
    }
}
