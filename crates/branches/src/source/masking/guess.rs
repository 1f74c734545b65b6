//! What the name of a column, or a value, looks like.

use super::shape;
use crate::model::Personal;
use std::net::IpAddr;

/// Words of tables that hold people, whose plain `name` is a person's.
const PEOPLE: &[&str] = &[
    "account",
    "author",
    "client",
    "contact",
    "customer",
    "driver",
    "employee",
    "guest",
    "lead",
    "member",
    "owner",
    "patient",
    "people",
    "person",
    "profile",
    "recipient",
    "staff",
    "student",
    "subscriber",
    "teacher",
    "user",
];

/// Names that speak for themselves, without what divides their words.
const NAMES: &[(&str, Personal)] = &[
    ("email", Personal::Email),
    ("mailaddress", Personal::Email),
    ("phone", Personal::Phone),
    ("mobile", Personal::Phone),
    ("telephone", Personal::Phone),
    ("cellnumber", Personal::Phone),
    ("fax", Personal::Phone),
    ("cardnumber", Personal::Card),
    ("creditcard", Personal::Card),
    ("ccnumber", Personal::Card),
    ("iban", Personal::Iban),
    ("firstname", Personal::FirstName),
    ("givenname", Personal::FirstName),
    ("forename", Personal::FirstName),
    ("middlename", Personal::FirstName),
    ("lastname", Personal::LastName),
    ("surname", Personal::LastName),
    ("familyname", Personal::LastName),
    ("maidenname", Personal::LastName),
    ("fullname", Personal::Name),
    ("displayname", Personal::Name),
    ("personname", Personal::Name),
    ("customername", Personal::Name),
    ("contactname", Personal::Name),
    ("username", Personal::Name),
    ("streetaddress", Personal::Street),
    ("addressline", Personal::Street),
    ("street", Personal::Street),
    ("remoteaddr", Personal::Ip),
    ("postcode", Personal::Zip),
    ("postalcode", Personal::Zip),
    ("zipcode", Personal::Zip),
    ("socialsecurity", Personal::NationalId),
    ("nationalid", Personal::NationalId),
    ("passport", Personal::NationalId),
    ("taxid", Personal::NationalId),
    ("driverlicense", Personal::NationalId),
    ("driverslicense", Personal::NationalId),
    ("birthday", Personal::Birthday),
    ("birthdate", Personal::Birthday),
    ("dateofbirth", Personal::Birthday),
    ("password", Personal::Secret),
    ("passwd", Personal::Secret),
    ("apikey", Personal::Secret),
    ("accesstoken", Personal::Secret),
    ("refreshtoken", Personal::Secret),
];
/// Those that must be a word by themselves.
const WORDS: &[(&str, Personal)] = &[
    ("mail", Personal::Email),
    ("tel", Personal::Phone),
    // Before addresses: `ip_address` is one of these.
    ("ip", Personal::Ip),
    ("ipaddr", Personal::Ip),
    ("ipaddress", Personal::Ip),
    ("address", Personal::Address),
    ("city", Personal::City),
    ("zip", Personal::Zip),
    ("ssn", Personal::NationalId),
    ("ahv", Personal::NationalId),
    ("nino", Personal::NationalId),
    ("dob", Personal::Birthday),
    ("born", Personal::Birthday),
];
/// The share of values that must look alike, in hundredths, and how many there must be at least.
const SHARE: usize = 60;
const LEAST: usize = 3;

/// What a column holds by its name, and that of its table.
pub(super) fn by_name(table: &str, column: &str) -> Option<Personal> {
    let words = words(column);
    let joined = words.concat();
    let found = NAMES.iter().find(|(name, _)| joined.contains(name));
    let found = found.or_else(|| WORDS.iter().find(|(word, _)| words.iter().any(|it| it == word)));
    if let Some((_, kind)) = found {
        return Some(*kind);
    }
    let of_people = self::words(table).iter().any(|word| PEOPLE.contains(&word.trim_end_matches('s')));
    (joined == "name" && of_people).then_some(Personal::Name)
}

/// The words of a name, in small letters: `firstName`, `first_name` and `first-name` have the same.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut small = false;
    for letter in name.chars() {
        if !letter.is_alphanumeric() || letter.is_uppercase() && small {
            words.push(String::new());
        }
        small = letter.is_lowercase();
        if letter.is_alphanumeric() {
            words.last_mut().expect("there is one").extend(letter.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// What most of some values look like.
pub(super) fn by_content<'a>(values: impl Iterator<Item = &'a str>) -> Option<Personal> {
    type Looks = fn(&str) -> bool;
    const KINDS: [(Personal, Looks); 5] = [
        (Personal::Email, is_email),
        (Personal::Iban, is_iban),
        (Personal::Card, is_card),
        (Personal::Ip, is_ip),
        (Personal::Phone, is_phone),
    ];
    let mut counts = [0_usize; KINDS.len()];
    let mut all = 0;
    for value in values.map(str::trim).filter(|value| !value.is_empty()) {
        all += 1;
        for (count, (_, looks)) in counts.iter_mut().zip(KINDS) {
            *count += usize::from(looks(value));
        }
    }
    let enough = |count: usize| count >= LEAST && count * 100 >= all * SHARE;
    counts.iter().zip(KINDS).find(|(count, _)| enough(**count)).map(|(_, (kind, _))| kind)
}

fn is_email(value: &str) -> bool {
    let Some((local, domain)) = value.rsplit_once('@') else { return false };
    let plain =
        |text: &str| !text.is_empty() && !text.contains(|it: char| it.is_whitespace() || "<>,;".contains(it));
    plain(local) && plain(domain) && domain.contains('.') && value.len() <= 254
}

fn is_iban(value: &str) -> bool {
    let letters: Vec<char> = value.chars().filter(|letter| *letter != ' ').collect();
    if !(15..=34).contains(&letters.len()) || !letters.iter().all(char::is_ascii_alphanumeric) {
        return false;
    }
    let check: Option<u32> = letters[2..4].iter().collect::<String>().parse().ok();
    letters[..2].iter().all(char::is_ascii_alphabetic)
        && check == Some(shape::iban_check(&letters[..2], &letters[4..]))
}

fn is_card(value: &str) -> bool {
    let digits: Vec<char> = value.chars().filter(|letter| !" -".contains(*letter)).collect();
    (13..=19).contains(&digits.len())
        && digits.iter().all(char::is_ascii_digit)
        && digits.iter().any(|digit| *digit != '0')
        && digits[digits.len() - 1].to_digit(10) == Some(shape::luhn(&digits[..digits.len() - 1]))
}

fn is_ip(value: &str) -> bool {
    value.split('/').next().is_some_and(|address| address.parse::<IpAddr>().is_ok())
}

fn is_phone(value: &str) -> bool {
    let digits = value.chars().filter(char::is_ascii_digit).count();
    let divided = value.starts_with(['+', '0', '(']);
    divided
        && (7..=15).contains(&digits)
        && value.chars().all(|letter| letter.is_ascii_digit() || " -().+/".contains(letter))
        // A day is none, nor is a number with a fraction.
        && value.parse::<f64>().is_err() | !value.contains('.')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_what_a_column_holds() {
        for (table, column, expected) in [
            ("users", "email", Some(Personal::Email)),
            ("users", "contactEMail", Some(Personal::Email)),
            ("users", "mobile_phone", Some(Personal::Phone)),
            ("users", "name", Some(Personal::Name)),
            ("products", "name", None),
            ("orders", "shipping_address", Some(Personal::Address)),
            ("orders", "description", None),
            ("users", "firstName", Some(Personal::FirstName)),
            ("logs", "remote_addr", Some(Personal::Ip)),
            ("logs", "ip_address", Some(Personal::Ip)),
            ("orders", "ship_address", Some(Personal::Address)),
            ("trips", "ship", None),
            ("users", "date_of_birth", Some(Personal::Birthday)),
            ("users", "password_digest", Some(Personal::Secret)),
            ("users", "hotel", None),
        ] {
            assert_eq!(by_name(table, column), expected, "{table}.{column}");
        }
    }

    #[test]
    fn values_tell_what_a_column_holds() {
        for (values, expected) in [
            (&["a@b.example", "c@d.example", "e@f.example", "none"][..], Some(Personal::Email)),
            (&["4111111111111111", "5555 5555 5555 4444", "378282246310005"], Some(Personal::Card)),
            (&["4111111111111112", "5555555555554445", "1234567890123456"], None),
            (
                &["DE89370400440532013000", "CH93 0076 2011 6238 5295 7", "GB29NWBK60161331926819"],
                Some(Personal::Iban),
            ),
            (&["+41 79 123 45 67", "(030) 1234567", "079 123 45 67"], Some(Personal::Phone)),
            (&["10.0.0.1", "::1", "192.168.1.1/24"], Some(Personal::Ip)),
            (&["1234567", "2345678", "3456789"], None),
            (&["2020-01-01", "2020-01-02", "2020-01-03"], None),
            (&["a@b.example"], None),
            (&["", "", ""], None),
        ] {
            assert_eq!(by_content(values.iter().copied()), expected, "{values:?}");
        }
    }
}
