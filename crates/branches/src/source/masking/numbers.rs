//! Numbers and times in the binary form in which servers send and take them: moved a little, or made coarser.

use super::{class::Class, pseudonym::Pseudonyms};
use crate::model::{Generalise, Noise, Unit};

/// Sign words of `numeric` for NaN and the infinities.
const NEGATIVE: u16 = 0x4000;
const DAY_US: i64 = 86_400_000_000;
const HOUR_US: i64 = 3_600_000_000;
/// Days from the first of January 1970 to that of 2000, from which servers count.
const EPOCH: i64 = 10_957;

/// A number without an exponent, or one that stays as it is.
enum Number {
    /// So many units of the last of so many places.
    Exact(i128, u16),
    Float(f64),
    /// Not a number, or infinite.
    Special,
}

/// A number, moved by what is drawn for it. `None` if there is no such number in its type.
pub(super) fn noise(drawn: &Pseudonyms, class: Class, noise: Noise, value: &[u8]) -> Option<Vec<u8>> {
    let lot = drawn.number("noise", &[value]);
    match read(class, value)? {
        Number::Special => Some(value.to_owned()),
        Number::Float(number) => {
            let most = match noise {
                Noise::Percent(percent) => number.abs() * f64::from(percent) / 100.0,
                Noise::By(by) => f64::from(by),
            };
            // 53 bits are what a fraction has.
            let part = (lot >> 75) as f64 / (1_u64 << 52) as f64 - 1.0;
            let moved = number + part * most;
            write(class, Number::Float(if moved * number < 0.0 { 0.0 } else { moved }))
        }
        Number::Exact(number, scale) => {
            let most = match noise {
                Noise::Percent(percent) => {
                    (number.unsigned_abs().checked_mul(u128::from(percent))? / 100).max(1)
                }
                Noise::By(by) => u128::from(by).checked_mul(10_u128.checked_pow(scale.into())?)?,
            };
            let by = lot % most.checked_mul(2)?.checked_add(1)?;
            let moved =
                number.checked_add(i128::try_from(by).ok()?)?.checked_sub(i128::try_from(most).ok()?)?;
            let moved = if number < 0 { moved.min(0) } else { moved.max(0) };
            write(class, Number::Exact(within(class, moved), scale))
        }
    }
}

/// A number or time, made coarser. `None` if there is no such value in its type.
pub(super) fn generalise(class: Class, how: Generalise, value: &[u8]) -> Option<Vec<u8>> {
    match how {
        Generalise::Bucket(size) => match read(class, value)? {
            Number::Special => Some(value.to_owned()),
            Number::Float(number) => {
                write(class, Number::Float((number / f64::from(size)).floor() * f64::from(size)))
            }
            Number::Exact(number, scale) => {
                let size = i128::from(size).checked_mul(10_i128.checked_pow(scale.into())?)?;
                write(class, Number::Exact(number.checked_sub(number.rem_euclid(size))?, scale))
            }
        },
        Generalise::To(unit) => in_days(class, value, |days, within| {
            let (days, within) = match unit {
                Unit::Hour => (days, within - within % HOUR_US),
                Unit::Day => (days, 0),
                Unit::Month | Unit::Year => {
                    let (year, month, _) = civil(days + EPOCH);
                    (days_of(year, if unit == Unit::Year { 1 } else { month }, 1) - EPOCH, 0)
                }
            };
            Some((days, within))
        }),
        Generalise::Prefix(_) => None,
    }
}

/// A time, moved by what is drawn for a person: by one to `most` days, to either side.
pub(super) fn shift(
    drawn: &Pseudonyms,
    class: Class,
    most: u32,
    person: &[u8],
    value: &[u8],
) -> Option<Vec<u8>> {
    let lot = drawn.number("shift", &[person]);
    let by = i64::try_from(1 + lot / 2 % u128::from(most.max(1))).ok()?;
    let by = if lot.is_multiple_of(2) { by } else { -by };
    in_days(class, value, |days, within| Some((days.checked_add(by)?, within)))
}

/// What is drawn for a person goes by: integers of all widths are the same ones.
pub(super) fn person(class: Class, value: &[u8]) -> Option<Vec<u8>> {
    match class {
        Class::Int2 | Class::Int4 | Class::Int8 => match read(class, value)? {
            Number::Exact(number, _) => Some(number.to_be_bytes().to_vec()),
            _ => None,
        },
        _ => Some(value.to_owned()),
    }
}

/// The integers of a type go so far, and no noise goes beyond.
fn within(class: Class, number: i128) -> i128 {
    match class {
        Class::Int2 => number.clamp(i16::MIN.into(), i16::MAX.into()),
        Class::Int4 => number.clamp(i32::MIN.into(), i32::MAX.into()),
        Class::Int8 => number.clamp(i64::MIN.into(), i64::MAX.into()),
        _ => number,
    }
}

fn read(class: Class, value: &[u8]) -> Option<Number> {
    let float = |number: f64| if number.is_finite() { Number::Float(number) } else { Number::Special };
    Some(match class {
        Class::Int2 => Number::Exact(i16::from_be_bytes(value.try_into().ok()?).into(), 0),
        Class::Int4 => Number::Exact(i32::from_be_bytes(value.try_into().ok()?).into(), 0),
        Class::Int8 => Number::Exact(i64::from_be_bytes(value.try_into().ok()?).into(), 0),
        Class::Float4 => float(f32::from_be_bytes(value.try_into().ok()?).into()),
        Class::Float8 => float(f64::from_be_bytes(value.try_into().ok()?)),
        Class::Numeric => return decimal(value),
        _ => return None,
    })
}

fn write(class: Class, number: Number) -> Option<Vec<u8>> {
    Some(match (class, number) {
        (Class::Int2, Number::Exact(number, _)) => i16::try_from(number).ok()?.to_be_bytes().to_vec(),
        (Class::Int4, Number::Exact(number, _)) => i32::try_from(number).ok()?.to_be_bytes().to_vec(),
        (Class::Int8, Number::Exact(number, _)) => i64::try_from(number).ok()?.to_be_bytes().to_vec(),
        (Class::Numeric, Number::Exact(number, scale)) => of_decimal(number, scale)?,
        // The nearest one that there is.
        (Class::Float4, Number::Float(number)) => (number as f32).to_be_bytes().to_vec(),
        (Class::Float8, Number::Float(number)) => number.to_be_bytes().to_vec(),
        _ => return None,
    })
}

/// A `numeric`: how many digits of base 10,000 there are, the power of the first, the sign, how many places are shown, and
/// the digits.
fn decimal(value: &[u8]) -> Option<Number> {
    let word = |at: usize| Some(u16::from_be_bytes(value.get(2 * at..2 * at + 2)?.try_into().ok()?));
    let (count, weight, sign, scale) = (word(0)?, word(1)?.cast_signed(), word(2)?, word(3)?);
    if sign & !NEGATIVE != 0 {
        return Some(Number::Special);
    }
    let mut number: i128 = 0;
    for place in 0..count {
        let digit = i128::from(word(4 + usize::from(place))?);
        // The power of ten of its last place, in units of the last place that is shown.
        let power = 4 * (i32::from(weight) - i32::from(place)) + i32::from(scale);
        let ten = |power: i32| 10_i128.checked_pow(power.unsigned_abs());
        let part = if power >= 0 { digit.checked_mul(ten(power)?)? } else { digit / ten(power)? };
        number = number.checked_add(part)?;
    }
    Some(Number::Exact(if sign == NEGATIVE { -number } else { number }, scale))
}

fn of_decimal(number: i128, scale: u16) -> Option<Vec<u8>> {
    let padding = (4 - scale % 4) % 4;
    let mut rest = number.unsigned_abs().checked_mul(10_u128.pow(padding.into()))?;
    let mut digits: Vec<u16> = Vec::new();
    while rest > 0 {
        digits.push(u16::try_from(rest % 10_000).ok()?);
        rest /= 10_000;
    }
    let fractions = i16::try_from((scale + padding) / 4).ok()?;
    let weight = if digits.is_empty() { 0 } else { i16::try_from(digits.len()).ok()? - fractions - 1 };
    digits.reverse();
    while digits.last() == Some(&0) {
        digits.pop();
    }
    let sign = if number < 0 { NEGATIVE } else { 0 };
    let head = [u16::try_from(digits.len()).ok()?, weight.cast_unsigned(), sign, scale];
    Some(head.iter().chain(&digits).flat_map(|word| word.to_be_bytes()).collect())
}

/// Changes a date or time, told as days and microseconds of the day. Infinite ones stay.
fn in_days(class: Class, value: &[u8], change: impl Fn(i64, i64) -> Option<(i64, i64)>) -> Option<Vec<u8>> {
    match class {
        Class::Date => {
            let days = i32::from_be_bytes(value.try_into().ok()?);
            if [i32::MIN, i32::MAX].contains(&days) {
                return Some(value.to_owned());
            }
            let days = i32::try_from(change(days.into(), 0)?.0).ok()?;
            Some(days.to_be_bytes().to_vec()).filter(|_| ![i32::MIN, i32::MAX].contains(&days))
        }
        Class::Timestamp { .. } => {
            let micros = i64::from_be_bytes(value.try_into().ok()?);
            if [i64::MIN, i64::MAX].contains(&micros) {
                return Some(value.to_owned());
            }
            let (days, within) = change(micros.div_euclid(DAY_US), micros.rem_euclid(DAY_US))?;
            let micros = days.checked_mul(DAY_US)?.checked_add(within)?;
            Some(micros.to_be_bytes().to_vec()).filter(|_| ![i64::MIN, i64::MAX].contains(&micros))
        }
        _ => None,
    }
}

/// Year, month and day of a number of days since the first of January 1970, in the Gregorian calendar, which servers use for
/// all times. Eras of 400 years begin on the first of March.
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let (era, of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

fn days_of(year: i64, month: i64, day: i64) -> i64 {
    let year = year - i64::from(month <= 2);
    let (era, of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let of_year = (153 * (if month > 2 { month - 3 } else { month + 9 }) + 2) / 5 + day - 1;
    era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;
    use duramen_postgres::Secret;

    fn drawn() -> Pseudonyms {
        Pseudonyms::new(&Secret::derived(&[7; 32], "a test"))
    }

    #[test]
    fn days_and_dates_are_the_same() {
        for days in (-800_000..800_000).step_by(97) {
            let (year, month, day) = civil(days);
            assert_eq!(days_of(year, month, day), days);
        }
        assert_eq!((civil(0), civil(EPOCH), civil(-1)), ((1970, 1, 1), (2000, 1, 1), (1969, 12, 31)));
        let date = |days: i32| generalise(Class::Date, Generalise::To(Unit::Month), &days.to_be_bytes());
        assert_eq!(date(59), Some(31_i32.to_be_bytes().to_vec()), "the 29th of February 2000");
        assert_eq!(date(i32::MAX), Some(i32::MAX.to_be_bytes().to_vec()), "infinity stays");
    }

    #[test]
    fn decimals_are_read_and_written_as_servers_do() {
        for (number, scale, expected) in [
            (0, 0, vec![0, 0, 0, 0]),
            (12_345, 2, vec![2, 0, 0, 2, 123, 4500]),
            (-25, 2, vec![1, 0xffff, NEGATIVE, 2, 2500]),
            (100_000_000, 0, vec![1, 2, 0, 0, 1]),
            (5, 6, vec![1, 0xfffe, 0, 6, 500]),
        ] {
            let bytes: Vec<u8> = expected.iter().flat_map(|word: &u16| word.to_be_bytes()).collect();
            assert_eq!(of_decimal(number, scale), Some(bytes.clone()), "{number}");
            assert!(
                matches!(decimal(&bytes), Some(Number::Exact(found, places)) if (found, places) == (number, scale))
            );
        }
        let nan: Vec<u8> = [0_u16, 0, 0xc000, 0].iter().flat_map(|word| word.to_be_bytes()).collect();
        assert_eq!(noise(&drawn(), Class::Numeric, Noise::Percent(10), &nan), Some(nan.clone()));
        assert!(decimal(&[0, 9, 0, 0, 0, 0, 0, 0]).is_none(), "digits are missing");
    }

    #[test]
    fn noise_keeps_signs_and_stays_near() {
        let drawn = drawn();
        let mut moved = 0;
        for number in (-2000..2000_i32).step_by(7) {
            let of = |how| {
                let bytes = noise(&drawn, Class::Int4, how, &number.to_be_bytes()).expect("a number");
                i32::from_be_bytes(bytes.try_into().expect("four bytes"))
            };
            let (percent, by) = (of(Noise::Percent(10)), of(Noise::By(5)));
            assert!((percent - number).abs() <= (number.abs() / 10).max(1), "{number} became {percent}");
            assert!((by - number).abs() <= 5 && by.signum() * number.signum() >= 0, "{number} became {by}");
            moved += u32::from(percent != number);
        }
        assert!(moved > 400, "{moved}");
        let most = i16::MAX.to_be_bytes();
        assert!(noise(&drawn, Class::Int2, Noise::Percent(100), &most).is_some(), "within its type");
        let half = 0.5_f64.to_be_bytes();
        let bytes = noise(&drawn, Class::Float8, Noise::Percent(10), &half).expect("a number");
        let float = f64::from_be_bytes(bytes.try_into().expect("eight bytes"));
        assert!((0.45..=0.55).contains(&float) && (float - 0.5).abs() > 1e-9, "{float}");
    }

    /// V2: whatever the width of the integer that names a person.
    #[test]
    fn all_dates_of_a_person_move_alike() {
        let drawn = drawn();
        let of = |person: &[u8], days: i32| {
            let bytes = shift(&drawn, Class::Date, 30, person, &days.to_be_bytes()).expect("a date");
            i32::from_be_bytes(bytes.try_into().expect("four bytes")) - days
        };
        let mut seen = std::collections::HashSet::new();
        for id in 0..200_i32 {
            let narrow = person(Class::Int4, &id.to_be_bytes()).expect("a person");
            let wide = person(Class::Int8, &i64::from(id).to_be_bytes()).expect("a person");
            let by = of(&narrow, 9000);
            assert_eq!((of(&narrow, -50), of(&wide, 1)), (by, by));
            assert!((1..=30).contains(&by.abs()), "{by}");
            seen.insert(by);
        }
        assert!(seen.len() > 50, "{}", seen.len());
        let bytes = shift(&drawn, Class::Timestamp { zoned: true }, 30, &[1], &5_i64.to_be_bytes());
        let micros = i64::from_be_bytes(bytes.expect("a time").try_into().expect("eight bytes"));
        assert_eq!(micros.rem_euclid(DAY_US), 5, "the time of day stays");
    }
}
