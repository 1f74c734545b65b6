//! Texts that keep their shape: letters become letters, digits digits, and the rest stays where it is.
//!
//! A permutation of the texts of one shape: a Feistel network over the letters and digits of a text, whose halves are added
//! to by what is drawn for the other half, each place modulo the letters or digits that may stand there. Letters beyond ASCII
//! become ASCII ones, and are part of what the network is keyed by: of two texts that differ in them alone, it is only next to
//! certain that they stay different.

use super::pseudonym::Pseudonyms;

/// Rounds where a text has few places, as in the standard for such networks (FF1); and where it has so many that a half of
/// them cannot be tried out.
const ROUNDS: u8 = 10;
const ROUNDS_OF_LONG: u8 = 6;
const LONG: usize = 16;

/// A letter or digit of a text: where it stands, the first of its kind, how many of these there are, and which one it is.
#[derive(Clone, Copy)]
struct Place {
    at: usize,
    first: u8,
    of: u8,
    value: u8,
}

impl Place {
    fn of(at: usize, letter: char) -> Option<Place> {
        let place = |first: u8, of, value| Some(Place { at, first, of, value });
        match letter {
            '0'..='9' => place(b'0', 10, letter as u8 - b'0'),
            'a'..='z' => place(b'a', 26, letter as u8 - b'a'),
            'A'..='Z' => place(b'A', 26, letter as u8 - b'A'),
            _ if !letter.is_ascii() && letter.is_uppercase() => place(b'A', 26, (letter as u32 % 26) as u8),
            _ if !letter.is_ascii() && letter.is_alphanumeric() => {
                place(b'a', 26, (letter as u32 % 26) as u8)
            }
            _ => None,
        }
    }
}

/// Replaces the letters and digits of `text`. Equal ones under equal `tweak` become equal.
fn permute(drawn: &Pseudonyms, tweak: &[u8], text: &mut [char]) {
    let foreign: String = text.iter().filter(|letter| !letter.is_ascii()).collect();
    let mut places: Vec<Place> =
        text.iter().enumerate().filter_map(|(at, letter)| Place::of(at, *letter)).collect();
    let fixed = [tweak, foreign.as_bytes()];
    if let [only] = &mut places[..] {
        // A network needs two halves. Never by nothing.
        let by = 1 + drawn.number("one place", &[fixed[0], fixed[1], &[only.of]]) % u128::from(only.of - 1);
        only.value = ((u128::from(only.value) + by) % u128::from(only.of)) as u8;
    } else if !places.is_empty() {
        let rounds = if places.len() < LONG { ROUNDS } else { ROUNDS_OF_LONG };
        let middle = places.len() / 2;
        let mut key = Vec::with_capacity(places.len());
        let mut stream = vec![0; 2 * places.len()];
        for round in 0..rounds {
            let (left, right) = places.split_at_mut(middle);
            let (seen, changed) = if round % 2 == 0 { (left, right) } else { (right, left) };
            key.clear();
            key.extend(seen.iter().flat_map(|place| [place.of, place.value]));
            let stream = &mut stream[..2 * changed.len()];
            drawn.fill("shape", &[fixed[0], fixed[1], &[round], &key], stream);
            for (place, two) in changed.iter_mut().zip(stream.chunks_exact(2)) {
                let by = u16::from_le_bytes([two[0], two[1]]) % u16::from(place.of);
                place.value = ((u16::from(place.value) + by) % u16::from(place.of)) as u8;
            }
        }
    }
    for place in places {
        text[place.at] = char::from(place.first + place.value);
    }
}

/// Any text.
pub(super) fn any(drawn: &Pseudonyms, text: &str) -> String {
    let mut letters: Vec<char> = text.chars().collect();
    permute(drawn, b"any", &mut letters);
    letters.into_iter().collect()
}

/// An e-mail address. The end of its domain becomes one of the same length that is nobody's: mail to it goes nowhere.
pub(super) fn email(drawn: &Pseudonyms, text: &str) -> String {
    let Some((before, end)) = text.rsplit_once('@').and_then(|(_, domain)| {
        let end = domain.rsplit_once('.').map_or(domain, |(_, end)| end);
        Some((&text[..text.len() - end.len()], end)).filter(|_| !end.is_empty())
    }) else {
        return any(drawn, text);
    };
    if !end.chars().all(|letter| letter.is_alphabetic() || letter == '-') {
        return any(drawn, text);
    }
    let mut letters: Vec<char> = before.chars().collect();
    permute(drawn, format!("email {}", end.to_lowercase()).as_bytes(), &mut letters);
    letters.extend(nobodys(end.chars().count()));
    letters.into_iter().collect()
}

/// The end of a domain, of a length: reserved for tests and examples (RFC 2606), or never to be a country's.
fn nobodys(length: usize) -> Vec<char> {
    match length {
        4 => "test".chars().collect(),
        7 => "example".chars().collect(),
        _ => vec!['z'; length],
    }
}

/// A telephone number.
pub(super) fn phone(drawn: &Pseudonyms, text: &str) -> String {
    let mut letters: Vec<char> = text.chars().collect();
    let digits: Vec<usize> = (0..letters.len()).filter(|at| letters[*at].is_ascii_digit()).collect();
    let zeros = digits.iter().take_while(|at| letters[**at] == '0').count();
    let international = text.trim_start().starts_with('+') && zeros == 0 || zeros == 2;
    let kept = if international { zeros + 2 } else { zeros };
    // Of what is too short nothing is known to be a code.
    let from = if digits.len() >= kept + 4 && kept > 0 { digits[kept - 1] + 1 } else { 0 };
    let tweak: String = letters[..from].iter().collect();
    permute(drawn, format!("phone {tweak}").as_bytes(), &mut letters[from..]);
    letters.into_iter().collect()
}

/// The number of a payment card.
pub(super) fn card(drawn: &Pseudonyms, text: &str) -> String {
    let digits: Vec<char> = text.chars().filter(char::is_ascii_digit).collect();
    let others = text.chars().any(|letter| letter.is_alphanumeric() && !letter.is_ascii_digit());
    if others || !(12..=19).contains(&digits.len()) {
        return any(drawn, text);
    }
    let (body, check) = digits.split_at(digits.len() - 1);
    let offset = digit(check[0]) + 10 - luhn(body);
    let mut masked = body.to_vec();
    let issuer: String = body[..6].iter().collect();
    permute(drawn, format!("card {issuer}").as_bytes(), &mut masked[6..]);
    // As far from the right check digit as it was: at it, if it was.
    let check = (luhn(&masked) + offset) % 10;
    masked.push(char::from(b'0' + u8::try_from(check).unwrap_or(0)));
    refill(text, char::is_ascii_digit, masked)
}

/// The check digit that belongs behind these.
pub(super) fn luhn(body: &[char]) -> u32 {
    let doubled = |digit: u32| if digit > 4 { 2 * digit - 9 } else { 2 * digit };
    let sum: u32 = body
        .iter()
        .rev()
        .enumerate()
        .map(|(place, letter)| if place % 2 == 0 { doubled(digit(*letter)) } else { digit(*letter) })
        .sum();
    (10 - sum % 10) % 10
}

fn digit(letter: char) -> u32 {
    letter.to_digit(10).unwrap_or(0)
}

/// An international bank account number.
pub(super) fn iban(drawn: &Pseudonyms, text: &str) -> String {
    let letters: Vec<char> = text.chars().filter(char::is_ascii_alphanumeric).collect();
    let is_one = (15..=34).contains(&letters.len())
        && letters[..2].iter().all(char::is_ascii_alphabetic)
        && letters[2..4].iter().all(char::is_ascii_digit)
        && text.is_ascii();
    if !is_one {
        return any(drawn, text);
    }
    let country = &letters[..2];
    let offset = digit(letters[2]) * 10 + digit(letters[3]) + 100 - iban_check(country, &letters[4..]);
    let mut masked = letters.clone();
    let tweak: String = country.iter().map(char::to_ascii_uppercase).collect();
    permute(drawn, format!("iban {tweak}").as_bytes(), &mut masked[4..]);
    let check = (iban_check(country, &masked[4..]) + offset) % 100;
    for (place, digit) in [(2, check / 10), (3, check % 10)] {
        masked[place] = char::from(b'0' + u8::try_from(digit).unwrap_or(0));
    }
    refill(text, char::is_ascii_alphanumeric, masked)
}

/// The check digits of an account number of a country.
pub(super) fn iban_check(country: &[char], account: &[char]) -> u32 {
    let mut rest = 0;
    for letter in account.iter().chain(country).chain(&['0', '0']) {
        let value = letter.to_digit(36).unwrap_or(0);
        rest = (if value > 9 { rest * 100 } else { rest * 10 } + value) % 97;
    }
    98 - rest
}

/// A text whose letters of a kind are replaced one by one.
fn refill(text: &str, of_kind: impl Fn(&char) -> bool, by: Vec<char>) -> String {
    let mut by = by.into_iter();
    text.chars().map(|letter| if of_kind(&letter) { by.next().unwrap_or(letter) } else { letter }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use duramen_postgres::Secret;
    use std::collections::HashSet;

    fn drawn() -> Pseudonyms {
        Pseudonyms::new(&Secret::derived(&[7; 32], "a test"))
    }

    fn layout(text: &str) -> String {
        let kind = |letter: char| match letter {
            '0'..='9' => '9',
            'a'..='z' => 'a',
            'A'..='Z' => 'A',
            other => other,
        };
        text.chars().map(kind).collect()
    }

    /// V1: small domains are gone through whole.
    #[test]
    fn no_two_texts_of_a_shape_become_one() {
        let drawn = drawn();
        for (shape, count) in [("{}", 10_usize), ("x-{:02}", 100), ("{:03}", 1000), ("{:04} Ab", 10_000)] {
            let mut seen = HashSet::new();
            let mut same = 0;
            for number in 0..count {
                let width = [1, 2, 3, 4][count.ilog10() as usize - 1];
                let text = match shape {
                    "x-{:02}" => format!("x-{number:02}"),
                    "{:04} Ab" => format!("{number:04} Ab"),
                    _ => format!("{number:0width$}"),
                };
                let masked = any(&drawn, &text);
                assert_eq!(layout(&masked), layout(&text));
                same += usize::from(masked == text);
                assert!(seen.insert(masked), "{text} becomes what another does");
            }
            assert!(same <= 3 + count / 1000, "{same} of {count} texts stand for themselves");
        }
    }

    #[test]
    fn cards_stay_valid_if_they_were_and_only_then() {
        let drawn = drawn();
        let valid = |text: &str| {
            let digits: Vec<char> = text.chars().filter(char::is_ascii_digit).collect();
            luhn(&digits[..digits.len() - 1]) == digit(digits[digits.len() - 1])
        };
        for text in ["4111 1111 1111 1111", "378282246310005", "5555-5555-5555-4444", "6011111111111117"] {
            let masked = card(&drawn, text);
            assert!(valid(text) && valid(&masked), "{text} became {masked}");
            assert_eq!((layout(&masked), &masked[..6]), (layout(text), &text[..6]));
            assert_ne!(masked, text);
        }
        let seen: HashSet<String> =
            (0..10).map(|last| card(&drawn, &format!("411111111111111{last}"))).collect();
        assert_eq!(
            (seen.len(), seen.iter().filter(|it| valid(it)).count()),
            (10, 1),
            "wrong ones stay apart"
        );
        assert_eq!(layout(&card(&drawn, "visa 4111")), "aaaa 9999");
    }

    #[test]
    fn ibans_stay_valid_if_they_were() {
        let drawn = drawn();
        let valid = |text: &str| {
            let letters: Vec<char> = text.chars().filter(char::is_ascii_alphanumeric).collect();
            iban_check(&letters[..2], &letters[4..]) == digit(letters[2]) * 10 + digit(letters[3])
        };
        for text in ["DE89 3704 0044 0532 0130 00", "CH9300762011623852957", "GB29NWBK60161331926819"] {
            let masked = iban(&drawn, text);
            assert!(valid(text) && valid(&masked), "{text} became {masked}");
            assert_eq!((layout(&masked), &masked[..2]), (layout(text), &text[..2]));
            assert_ne!(masked, text);
        }
        assert!(!valid(&iban(&drawn, "DE88 3704 0044 0532 0130 00")), "a wrong one becomes a wrong one");
        let seen: HashSet<String> =
            (0..100).map(|check| iban(&drawn, &format!("DE{check:02}370400440532013000"))).collect();
        assert_eq!(seen.len(), 100);
        assert_eq!(layout(&iban(&drawn, "DE89")), "AA99");
    }

    #[test]
    fn addresses_of_mail_lead_nowhere() {
        let drawn = drawn();
        for (text, end) in [
            ("anna.meyer+x@firma.ch", ".zz"),
            ("a@b.com", ".zzz"),
            ("Anna@mail.example.info", ".test"),
            ("root@localhost", "@zzzzzzzzz"),
        ] {
            let masked = email(&drawn, text);
            assert!(masked.ends_with(end), "{masked}");
            let before = text.rsplit_once(['.', '@']).expect("an end").0;
            assert_eq!(layout(&masked[..before.len()]), layout(before), "{masked}");
            assert_ne!(masked[..before.len()], *before);
        }
        assert_ne!(
            email(&drawn, "anna@firma.ch"),
            email(&drawn, "anna@firma.de"),
            "another end is another address"
        );
        for text in ["no address", "@", "a@", "a@1.2.3.4", "it's \"odd\"@x y"] {
            assert_eq!(layout(&email(&drawn, text)).chars().count(), text.chars().count(), "{text}");
        }
        assert_eq!(email(&drawn, ""), "");
    }

    #[test]
    fn telephone_numbers_keep_their_codes() {
        let drawn = drawn();
        for (text, kept) in [
            ("+41 79 123 45 67", "+41"),
            ("0041791234567", "0041"),
            ("079 123 45 67", "0"),
            ("(030) 123-4567", "(0"),
            ("123", ""),
        ] {
            let masked = phone(&drawn, text);
            assert_eq!(layout(&masked), layout(text));
            assert!(masked.starts_with(kept), "{masked}");
            assert_ne!(masked, text);
        }
    }

    #[test]
    fn letters_of_all_scripts_are_replaced() {
        let drawn = drawn();
        for text in [
            "Zo\u{eb} M\u{fc}ller",
            "\u{674e}\u{5c0f}\u{9f8d}",
            "\u{dc}nal",
            "\u{416}\u{430}\u{43d}\u{43d}\u{430} 7",
        ] {
            let masked = any(&drawn, text);
            assert!(masked.is_ascii() && masked.chars().count() == text.chars().count(), "{masked}");
        }
        assert_ne!(any(&drawn, "Zo\u{eb}"), any(&drawn, "Zo\u{e9}"));
    }
}
