//! Which generations of a source are kept though nothing needs them: `7 daily, 4 weekly`.

use serde::{de::Error as _, Deserialize, Deserializer, Serialize, Serializer};
use std::{borrow::Cow, collections::BTreeMap, fmt, str::FromStr};
use utoipa::{
    openapi::{schema::SchemaType, ObjectBuilder, RefOr, Schema, Type},
    PartialSchema, ToSchema,
};

/// How many generations one part of a rule keeps at most.
pub const KEEP_MAX: u32 = 1000;

/// Of which stretches of time the newest generation of each is kept. In UTC; weeks begin on Monday.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Period {
    /// Each generation is one of its own.
    Last,
    /// An hour.
    Hourly,
    /// A day.
    Daily,
    /// A week.
    Weekly,
    /// A month.
    Monthly,
    /// A year.
    Yearly,
}

impl Period {
    /// All of them, the shortest first.
    pub const ALL: [Period; 6] =
        [Period::Last, Period::Hourly, Period::Daily, Period::Weekly, Period::Monthly, Period::Yearly];

    /// The word for it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Period::Last => "last",
            Period::Hourly => "hourly",
            Period::Daily => "daily",
            Period::Weekly => "weekly",
            Period::Monthly => "monthly",
            Period::Yearly => "yearly",
        }
    }
}

/// A rule for keeping generations: `7 daily, 4 weekly` keeps the newest generation of each of the last seven days of which
/// there are any, and of each of the last four such weeks. The empty text keeps what branches need, and nothing else.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Keep {
    counts: BTreeMap<Period, u32>,
}

/// A rule that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} does not say what is kept: {problem}; write for instance \"7 daily, 4 weekly\", with last, hourly, daily, weekly, monthly or yearly")]
pub struct BadKeep {
    text: String,
    problem: String,
}

impl Keep {
    /// Whether nothing is kept by it.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// Its parts: how many generations of which stretches, the shortest first.
    pub fn parts(&self) -> impl Iterator<Item = (Period, u32)> + '_ {
        self.counts.iter().map(|(period, count)| (*period, *count))
    }
}

impl FromStr for Keep {
    type Err = BadKeep;

    fn from_str(text: &str) -> Result<Keep, BadKeep> {
        let bad = |problem: String| BadKeep { text: text.to_owned(), problem };
        let mut counts = BTreeMap::new();
        if text.trim().is_empty() {
            return Ok(Keep::default());
        }
        for part in text.split(',') {
            let mut words = part.split_whitespace();
            let (Some(count), Some(word), None) = (words.next(), words.next(), words.next()) else {
                return Err(bad(format!("{:?} is not a number and a word", part.trim())));
            };
            let number = count.bytes().all(|byte| byte.is_ascii_digit()).then(|| count.parse::<u32>().ok());
            let count = number.flatten().filter(|count| (1..=KEEP_MAX).contains(count));
            let count = count.ok_or_else(|| bad(format!("a number is 1 to {KEEP_MAX}")))?;
            let period = Period::ALL.into_iter().find(|period| period.name() == word);
            let period = period.ok_or_else(|| bad(format!("{word:?} is not a stretch of time")))?;
            if counts.insert(period, count).is_some() {
                return Err(bad(format!("{word} stands there twice")));
            }
        }
        Ok(Keep { counts })
    }
}

impl fmt::Display for Keep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (period, count)) in self.parts().enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            write!(f, "{comma}{count} {}", period.name())?;
        }
        Ok(())
    }
}

impl Serialize for Keep {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Keep {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Keep, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

impl PartialSchema for Keep {
    fn schema() -> RefOr<Schema> {
        ObjectBuilder::new()
            .schema_type(SchemaType::new(Type::String))
            .description(Some(
                "Which generations are kept: numbers and words, separated by commas, as in `7 daily, 4 weekly`. Words are \
                 last, hourly, daily, weekly, monthly and yearly; a number is 1 to 1,000. Empty: none.",
            ))
            .pattern(Some(
                "^( *[0-9]{1,4} +(last|hourly|daily|weekly|monthly|yearly) *(, *[0-9]{1,4} +(last|hourly|daily|weekly|monthly|yearly) *)*)?$",
            ))
            .build()
            .into()
    }
}

impl ToSchema for Keep {
    fn name() -> Cow<'static, str> {
        Cow::Borrowed("Keep")
    }
}

#[cfg(test)]
#[path = "../tests/unit/keep.rs"]
mod tests;
