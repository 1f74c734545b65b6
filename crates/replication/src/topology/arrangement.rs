//! Which standbys there are, where each streams from, whom commits wait for, and what follows from that.

use std::fmt;
use std::str::FromStr;

use super::quorum::Quorum;

/// The most standbys of an arrangement that is brought up.
pub const MOST: usize = 6;

/// A standby of an arrangement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standby {
    /// What it calls itself (`application_name`).
    pub name: String,
    /// The standby that it streams from; `None`: the primary.
    pub upstream: Option<String>,
}

/// A primary with its standbys.
///
/// It is written as `synchronous_standby_names` is, with the asynchronous standbys behind it. `c<b` is a standby `c` of the
/// standby `b`.
///
/// ```
/// use duramen_replication::topology::Arrangement;
///
/// let arrangement: Arrangement = "FIRST 1 (a, b), c, d<c".parse()?;
/// assert_eq!(arrangement.setting(), "FIRST 1 (a, b)");
/// assert_eq!(arrangement.standbys().len(), 4);
/// assert_eq!(arrangement.slug(), "first1(a,b),c,d<c");
/// # Ok::<(), String>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Arrangement {
    quorum: Quorum,
    /// Those that commits may wait for, in the order of their priority.
    named: Vec<String>,
    standbys: Vec<Standby>,
}

/// What is done to a standby.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing.
    Plain,
    /// The way to it and back is longer.
    Slow,
    /// It stays connected, and answers nothing.
    Hang,
    /// The same, until the primary gives it up (`wal_sender_timeout`).
    Vanish,
    /// Its processes are killed, which closes its connections.
    Die,
}

impl Fault {
    /// All, in the order in which they are tried.
    pub const ALL: [Fault; 5] = [Fault::Plain, Fault::Slow, Fault::Hang, Fault::Vanish, Fault::Die];

    /// Its name in figures and options.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Fault::Plain => "plain",
            Fault::Slow => "slow",
            Fault::Hang => "hang",
            Fault::Vanish => "vanish",
            Fault::Die => "die",
        }
    }

    /// What happens, in words that follow the name of the standby.
    #[must_use]
    pub fn in_words(self) -> &'static str {
        match self {
            Fault::Plain => "is left alone",
            Fault::Slow => "is far away",
            Fault::Hang => "hangs",
            Fault::Vanish => "vanishes from the network",
            Fault::Die => "dies",
        }
    }
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Fault::ALL.into_iter().find(|fault| fault.name() == text).ok_or_else(|| {
            let all = Fault::ALL.map(Fault::name).join(", ");
            format!("there is no fault {text:?}; there are {all}")
        })
    }
}

/// What is to be seen of commits while something is done to a standby.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    /// They go on as before.
    GoOn,
    /// Each waits for that standby, and takes as long as it does.
    Wait,
    /// They stop until the primary has given that standby up; then the next one takes its place.
    TakeOver,
    /// They stop for as long as it lasts.
    Stop,
}

impl Expected {
    /// In words: "commits ...".
    #[must_use]
    pub fn in_words(self) -> &'static str {
        match self {
            Expected::GoOn => "go on",
            Expected::Wait => "wait for it",
            Expected::TakeOver => "stop until it is given up",
            Expected::Stop => "stop",
        }
    }
}

impl Arrangement {
    /// What is measured if nothing else is asked for.
    #[must_use]
    pub fn catalog() -> Vec<Arrangement> {
        CATALOG.iter().filter_map(|text| text.parse().ok()).collect()
    }

    /// Of servers that are there: what the setting says, the names that it gives a priority in that order, and all standbys.
    #[must_use]
    pub fn found(quorum: Quorum, named: Vec<String>, standbys: Vec<Standby>) -> Self {
        Self { quorum, named, standbys }
    }

    /// The value of `synchronous_standby_names`.
    #[must_use]
    pub fn setting(&self) -> String {
        let names = self.named.join(", ");
        match self.quorum {
            Quorum::Nobody => String::new(),
            Quorum::First(count) => format!("FIRST {count} ({names})"),
            Quorum::Any(count) => format!("ANY {count} ({names})"),
        }
    }

    /// Whom commits wait for.
    #[must_use]
    pub fn quorum(&self) -> Quorum {
        self.quorum
    }

    /// How many standbys a commit waits for.
    #[must_use]
    pub fn wanted(&self) -> usize {
        match self.quorum {
            Quorum::Nobody => 0,
            Quorum::First(count) | Quorum::Any(count) => count,
        }
    }

    /// Those that commits may wait for, in the order of their priority.
    #[must_use]
    pub fn named(&self) -> &[String] {
        &self.named
    }

    /// All of them.
    #[must_use]
    pub fn standbys(&self) -> &[Standby] {
        &self.standbys
    }

    /// As a part of a figure's name.
    #[must_use]
    pub fn slug(&self) -> String {
        // Names may come from servers of others.
        let plain = |letter: char| match letter {
            'a'..='z' | '0'..='9' | '(' | ')' | ',' | '<' | '_' | '-' => letter,
            _ => '_',
        };
        self.to_string().to_lowercase().replace(' ', "").chars().map(plain).collect()
    }

    /// Those to which something is done: the one with the highest priority, and the middle of a cascade.
    #[must_use]
    pub fn victims(&self) -> Vec<&str> {
        let first = self.named.first().map(String::as_str);
        let is_direct = |name: &&str| {
            self.standbys.iter().any(|standby| standby.name == *name && standby.upstream.is_none())
        };
        let middle = self.standbys.iter().filter_map(|standby| standby.upstream.as_deref()).find(is_direct);
        let mut victims: Vec<&str> = first.into_iter().collect();
        victims.extend(middle.filter(|middle| Some(*middle) != first));
        victims
    }

    /// What commits do while something is done to a standby. A standby that is connected keeps its place whatever it answers,
    /// so that what hangs is worse than what is dead.
    #[must_use]
    pub fn expected(&self, victim: &str, fault: Fault) -> Expected {
        let Some(place) = self.named.iter().position(|name| name == victim) else { return Expected::GoOn };
        let others_do = self.named.len() > self.wanted();
        let depends = match self.quorum {
            Quorum::Nobody => false,
            Quorum::First(count) => place < count,
            Quorum::Any(_) => !others_do,
        };
        match fault {
            Fault::Plain => Expected::GoOn,
            Fault::Slow if depends => Expected::Wait,
            Fault::Hang if depends => Expected::Stop,
            Fault::Vanish if depends && others_do => Expected::TakeOver,
            Fault::Vanish | Fault::Die if !others_do && self.wanted() > 0 => Expected::Stop,
            _ => Expected::GoOn,
        }
    }
}

/// What is measured if nothing else is asked for.
const CATALOG: &[&str] = &[
    "FIRST 1 (a, b, c)",
    "FIRST 2 (a, b, c)",
    "ANY 1 (a, b, c)",
    "ANY 2 (a, b, c)",
    "FIRST 1 (a), b",
    "FIRST 1 (a, b), c<b",
    "FIRST 1 (a), c<a",
];

impl fmt::Display for Arrangement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let beside = self.standbys.iter().filter(|standby| !self.named.contains(&standby.name));
        let beside: Vec<String> = beside
            .map(|standby| match &standby.upstream {
                Some(upstream) => format!("{}<{upstream}", standby.name),
                None => standby.name.clone(),
            })
            .collect();
        let setting = self.setting();
        match (setting.is_empty(), beside.is_empty()) {
            (true, _) => write!(f, "ASYNC ({})", beside.join(", ")),
            (false, true) => f.write_str(&setting),
            (false, false) => write!(f, "{setting}, {}", beside.join(", ")),
        }
    }
}

impl FromStr for Arrangement {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let how = "write it as 'FIRST 1 (a, b), c, d<c', 'ANY 2 (a, b, c)' or 'ASYNC (a, b)'";
        let refused = |what: &str| format!("{text:?} is no arrangement of standbys: {what}; {how}");
        let (head, rest) = text.split_once('(').ok_or_else(|| refused("it has no list in brackets"))?;
        let (inside, behind) = rest.split_once(')').ok_or_else(|| refused("its bracket is not closed"))?;
        let words: Vec<String> = head.split_whitespace().map(str::to_ascii_lowercase).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let count = |word: &str| word.parse::<usize>().ok().filter(|count| *count > 0);
        let quorum = match words[..] {
            ["async"] => Quorum::Nobody,
            ["first", n] => Quorum::First(count(n).ok_or_else(|| refused("it needs a number"))?),
            ["any", n] => Quorum::Any(count(n).ok_or_else(|| refused("it needs a number"))?),
            _ => return Err(refused("it begins with none of FIRST n, ANY n and ASYNC")),
        };
        let mut standbys = Vec::new();
        let mut named = Vec::new();
        for (list, is_named) in [(inside, true), (behind, false)] {
            for word in list.split(',').map(str::trim).filter(|word| !word.is_empty()) {
                let (name, upstream) = match word.split_once('<') {
                    Some((name, upstream)) => (name.trim(), Some(upstream.trim().to_owned())),
                    None => (word, None),
                };
                let is_plain = name.len() <= 16
                    && name.starts_with(|letter: char| letter.is_ascii_lowercase())
                    && name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
                if !is_plain {
                    return Err(refused("a name is up to 16 lower-case letters and digits"));
                }
                if standbys.iter().any(|standby: &Standby| standby.name == name) {
                    return Err(refused("a standby is named twice"));
                }
                if is_named && quorum != Quorum::Nobody {
                    if upstream.is_some() {
                        return Err(refused("commits can only wait for standbys of the primary itself"));
                    }
                    named.push(name.to_owned());
                }
                let is_there = |upstream: &String| standbys.iter().any(|standby| standby.name == *upstream);
                if !upstream.as_ref().is_none_or(is_there) {
                    return Err(refused("a standby streams from one that is not named before it"));
                }
                standbys.push(Standby { name: name.to_owned(), upstream });
            }
        }
        if standbys.is_empty() || standbys.len() > MOST {
            return Err(refused(&format!("it has from one to {MOST} standbys")));
        }
        let arrangement = Self { quorum, named, standbys };
        if arrangement.named.len() < arrangement.wanted() {
            return Err(refused("commits would wait for more standbys than it names"));
        }
        Ok(arrangement)
    }
}
