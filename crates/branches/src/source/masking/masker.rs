//! What one rule does to one value, in the binary form in which servers send and take it.

use super::{
    catalogue::{Column, Table},
    class::{Class, HASHABLE},
    fakes,
    json::{self, Path},
    numbers,
    pseudonym::Pseudonyms,
    shape,
};
use crate::model::{Fake, Generalise, Mask, Noise, Shift, Unit};

/// The most days that dates are moved by, and hundredths that numbers are.
const MOST_DAYS: u32 = 36_500;
const MOST_PERCENT: u32 = 100;
/// The first byte of a `jsonb` on its way.
const JSONB_VERSION: u8 = 1;

/// A rule whose values are made in this program.
#[derive(Debug)]
pub(super) enum Masker {
    Hash(Class),
    Text(Texts),
    Fake {
        what: Fake,
        limit: Option<u32>,
        unique: bool,
    },
    Noise(Class, Noise),
    Shift {
        class: Class,
        days: u32,
        person: Class,
    },
    Generalise(Class, Generalise),
    Prefix(u32),
    Json {
        class: Class,
        paths: Vec<(Path, Leaf)>,
    },
    /// The server made it: it comes as it goes.
    Made,
}

/// Texts that keep their shape.
#[derive(Debug, Clone, Copy)]
pub(super) enum Texts {
    Shape,
    Email,
    Phone,
    Card,
    Iban,
}

/// What becomes of a value within JSON.
#[derive(Debug)]
pub(super) enum Leaf {
    Null,
    Hash,
    Constant(String),
    Text(Texts),
    Fake(Fake),
}

impl Texts {
    fn of(mask: &Mask) -> Option<Texts> {
        Some(match mask {
            Mask::Shape => Texts::Shape,
            Mask::Email => Texts::Email,
            Mask::Phone => Texts::Phone,
            Mask::Card => Texts::Card,
            Mask::Iban => Texts::Iban,
            _ => return None,
        })
    }

    fn masked(self, drawn: &Pseudonyms, text: &str) -> String {
        match self {
            Texts::Shape => shape::any(drawn, text),
            Texts::Email => shape::email(drawn, text),
            Texts::Phone => shape::phone(drawn, text),
            Texts::Card => shape::card(drawn, text),
            Texts::Iban => shape::iban(drawn, text),
        }
    }
}

impl Leaf {
    fn of(mask: &Mask) -> Option<Leaf> {
        Some(match mask {
            Mask::Null => Leaf::Null,
            Mask::Hash => Leaf::Hash,
            Mask::Constant(text) => Leaf::Constant(text.clone()),
            Mask::Fake(what) => Leaf::Fake(*what),
            mask => Leaf::Text(Texts::of(mask)?),
        })
    }

    fn masked(&self, drawn: &Pseudonyms, text: &str) -> Option<Option<String>> {
        Some(match self {
            Leaf::Null => None,
            Leaf::Constant(text) => Some(text.clone()),
            Leaf::Hash => Some(String::from_utf8(drawn.of(Class::Text(None), text.as_bytes())?).ok()?),
            Leaf::Text(texts) => Some(texts.masked(drawn, text)),
            Leaf::Fake(what) => Some(fakes::fake(drawn, *what, text.as_bytes(), None, false)?),
        })
    }
}

/// Whether what a rule makes follows from the value alone, and is another for another value: what foreign keys need.
pub(super) fn keeps_keys(mask: &Mask) -> bool {
    *mask == Mask::Hash || Texts::of(mask).is_some()
}

/// Whether a rule makes equal values of different ones.
fn repeats(mask: &Mask) -> bool {
    matches!(mask, Mask::Noise(_) | Mask::Generalise(_) | Mask::Shift(_))
}

/// Why a rule cannot be one for a column, if it cannot.
pub(super) fn misfit(mask: &Mask, table: &Table, column: &Column) -> Option<String> {
    let class = column.class();
    let named = format!("{}.{}", table.plain_name(), column.name);
    let wants = |fits: bool, what: &str| {
        let message = || {
            format!("{named} is of the type {}, and {mask} is for {what}: use another rule", column.type_name)
        };
        (!fits).then(message)
    };
    let is = |of: fn(Class) -> bool| class.is_some_and(of);
    let asks = |fits: bool, what: String| (!fits).then(|| format!("the rule of {named} {what}"));
    if repeats(mask) && column.unique_alone {
        return Some(format!(
            "{named} is unique, and {mask} makes equal values of different ones: use hash or shape"
        ));
    }
    match mask {
        Mask::Null | Mask::Keep | Mask::Constant(_) | Mask::Shuffle => None,
        Mask::Hash if !is(Class::is_hashable) => Some(format!(
            "{named} is of the type {}, which has no hash: use null or constant (hash works for {HASHABLE})",
            column.type_name
        )),
        Mask::Hash => None,
        Mask::Shape | Mask::Email | Mask::Phone | Mask::Card | Mask::Iban | Mask::Fake(_) => {
            wants(is(Class::is_text), "text, varchar and char")
        }
        Mask::Noise(noise) => wants(is(Class::is_number), "numbers").or_else(|| {
            let fits = match noise {
                Noise::Percent(percent) => (1..=MOST_PERCENT).contains(percent),
                Noise::By(by) => *by > 0,
            };
            asks(fits, format!("takes a percent of 1 to {MOST_PERCENT}, or a \"by\" of 1 or more"))
        }),
        Mask::Shift(shift) => wants(is(Class::is_time), "dates and timestamps")
            .or_else(|| asks((1..=MOST_DAYS).contains(&shift.days), format!("takes 1 to {MOST_DAYS} days")))
            .or_else(|| {
                let person = table.column_named(&shift.person);
                let fits =
                    person.is_some_and(|it| !it.generated && it.class().is_some_and(Class::is_hashable));
                asks(
                    fits,
                    format!("takes as person a column of the table that is not generated, of {HASHABLE}"),
                )
            }),
        Mask::Generalise(Generalise::Bucket(size)) => wants(is(Class::is_number), "numbers, as a bucket,")
            .or_else(|| asks(*size > 0, "takes a bucket of 1 or more".to_owned())),
        Mask::Generalise(Generalise::To(unit)) => {
            wants(is(Class::is_time), "dates and timestamps, as a unit,").or_else(|| {
                let fits = class != Some(Class::Date) || matches!(unit, Unit::Month | Unit::Year);
                asks(fits, "makes a date no coarser: use month or year".to_owned())
            })
        }
        Mask::Generalise(Generalise::Prefix(_)) => wants(is(Class::is_text), "texts, as a prefix,"),
        Mask::Json(paths) => {
            let fits = class.is_some_and(|it| it.is_text() || matches!(it, Class::Json | Class::Jsonb));
            wants(fits, "json, jsonb and texts")
                .or_else(|| asks(!paths.is_empty(), "names no path".to_owned()))
                .or_else(|| {
                    paths.iter().find_map(|(path, mask)| {
                        asks(
                            Path::parse(path).is_some(),
                            format!(
                                "has {path:?}, which is not a valid path: write $.key, $.list[*] or $.\"odd key\""
                            ),
                        )
                        .or_else(|| {
                            asks(Leaf::of(mask).is_some(), format!("has {mask}, which is none within JSON"))
                        })
                    })
                })
        }
        Mask::Sql(text) => asks(!text.trim().is_empty(), "is an empty expression".to_owned()),
    }
}

impl Masker {
    /// That of a rule that fits its column. `None` for those that the server applies by itself.
    pub(super) fn of(mask: &Mask, table: &Table, column: &Column) -> Option<Masker> {
        let class = column.class();
        Some(match mask {
            Mask::Null | Mask::Keep | Mask::Constant(_) | Mask::Shuffle => return None,
            Mask::Hash => Masker::Hash(class?),
            Mask::Fake(what) => {
                let limit = if let Class::Text(limit) = class? { limit } else { None };
                Masker::Fake { what: *what, limit, unique: column.unique }
            }
            Mask::Noise(noise) => Masker::Noise(class?, *noise),
            Mask::Shift(Shift { days, person }) => {
                Masker::Shift { class: class?, days: *days, person: table.column_named(person)?.class()? }
            }
            Mask::Generalise(Generalise::Prefix(letters)) => Masker::Prefix(*letters),
            Mask::Generalise(how) => Masker::Generalise(class?, *how),
            Mask::Json(paths) => {
                let paths = paths.iter().map(|(path, mask)| Some((Path::parse(path)?, Leaf::of(mask)?)));
                Masker::Json { class: class?, paths: paths.collect::<Option<_>>()? }
            }
            Mask::Sql(_) => Masker::Made,
            mask => Masker::Text(Texts::of(mask)?),
        })
    }

    /// What stands for a value. `person` is the one whose date it is, where the rule asks for that. `None` if nothing can.
    pub(super) fn apply(&self, drawn: &Pseudonyms, value: &[u8], owner: Option<&[u8]>) -> Option<Vec<u8>> {
        let text = || std::str::from_utf8(value).ok();
        match self {
            Masker::Made => Some(value.to_owned()),
            Masker::Hash(class) => drawn.of(*class, value),
            Masker::Text(texts) => Some(texts.masked(drawn, text()?).into_bytes()),
            Masker::Fake { what, limit, unique } => {
                Some(fakes::fake(drawn, *what, value, *limit, *unique)?.into_bytes())
            }
            Masker::Noise(class, noise) => numbers::noise(drawn, *class, *noise, value),
            Masker::Generalise(class, how) => numbers::generalise(*class, *how, value),
            Masker::Prefix(letters) => {
                Some(text()?.chars().take(*letters as usize).collect::<String>().into_bytes())
            }
            Masker::Shift { class, days, person } => {
                // Nobody's dates move each by themselves.
                let owner = owner.map_or(Some(value.to_owned()), |it| numbers::person(*person, it))?;
                numbers::shift(drawn, *class, *days, &owner, value)
            }
            Masker::Json { class, paths } => {
                let (head, text) =
                    if *class == Class::Jsonb { value.split_at_checked(1)? } else { (&[][..], value) };
                if !head.is_empty() && head != [JSONB_VERSION] {
                    return None;
                }
                if class.is_text() && serde_json::from_slice::<serde::de::IgnoredAny>(text).is_err() {
                    return None;
                }
                let places: Vec<&Path> = paths.iter().map(|(path, _)| path).collect();
                let mut replace = |path: usize, text: &str| paths[path].1.masked(drawn, text);
                let mut out = head.to_owned();
                out.extend(json::replace(text, &places, &mut replace)?);
                Some(out)
            }
        }
    }
}
