//! What a client says first: the start-up packet, and what of it is for us.
//!
//! Source: the PostgreSQL documentation, "Message Formats" (StartupMessage, CancelRequest, SSLRequest, GSSENCRequest) and
//! "Message Flow", "Start-up".

use duramen_api::model::Policy;
use jiff::SignedDuration;

/// The longest start-up packet, as in PostgreSQL.
pub(super) const PACKET_MAX: usize = 10_000;
/// The newest version of the protocol that is spoken: 3.2.
pub(super) const NEWEST: u32 = 3 << 16 | 2;
/// Version 3.1 was never used.
const OLDEST: u32 = 3 << 16;
/// What stands before options of the protocol.
const PROTOCOL_OPTION: &str = "_pq_.";
/// What stands before parameters for us.
const OURS: &str = "duramen.";

/// What a client's first packet, its length left out, asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum First {
    /// TLS, please.
    Tls,
    /// Encryption by GSSAPI, please.
    Gss,
    /// A statement of a session is to be cancelled.
    Cancel {
        /// Which session.
        session: u32,
        /// Its secret key.
        key: Vec<u8>,
    },
    /// A session, please.
    Startup(Startup),
}

/// The start of a session.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Startup {
    /// The version of the protocol.
    pub(super) version: u32,
    /// Options of the protocol, none of which is known here.
    pub(super) protocol_options: Vec<String>,
    /// The name of the token.
    pub(super) user: String,
    /// What the client wants to enter; nothing if it names none. Those who were given none send the name of their user.
    pub(super) database: Option<String>,
    /// How a branch that is created is to be.
    pub(super) wishes: Wishes,
    /// What the branch's server is told.
    pub(super) parameters: Vec<(String, String)>,
}

/// How a branch that is created is to be.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Wishes {
    pub(super) policy: Option<Policy>,
    pub(super) ttl_s: Option<i64>,
}

/// Why a first packet is refused: a SQLSTATE, and what is wrong.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Wrong {
    pub(super) code: &'static str,
    pub(super) message: String,
    pub(super) hint: &'static str,
}

fn wrong(code: &'static str, message: impl Into<String>, hint: &'static str) -> Wrong {
    Wrong { code, message: message.into(), hint }
}

const PROTOCOL_VIOLATION: &str = "08P01";

/// Reads a first packet.
pub(super) fn parse(packet: &[u8]) -> Result<First, Wrong> {
    let malformed = |what: &str| wrong(PROTOCOL_VIOLATION, format!("invalid start-up packet: {what}"), "");
    let (code, body) = packet.split_first_chunk().ok_or_else(|| malformed("it has no version"))?;
    let code = u32::from_be_bytes(*code);
    match code {
        80_877_103 => Ok(First::Tls),
        80_877_104 => Ok(First::Gss),
        80_877_102 => {
            let (session, key) = body.split_first_chunk().ok_or_else(|| malformed("no session to cancel"))?;
            Ok(First::Cancel { session: u32::from_be_bytes(*session), key: key.to_vec() })
        }
        version if version >> 16 == OLDEST >> 16 => startup(version, body, &malformed).map(First::Startup),
        version => {
            let message = format!(
                "unsupported frontend protocol {}.{}: 3.0 to 3.2 are spoken here",
                version >> 16,
                version & 0xffff
            );
            Err(wrong("0A000", message, ""))
        }
    }
}

fn startup(version: u32, body: &[u8], malformed: &impl Fn(&str) -> Wrong) -> Result<Startup, Wrong> {
    let pairs = body.strip_suffix(&[0]).ok_or_else(|| malformed("it has no end"))?;
    let pairs = match pairs {
        [] => None,
        pairs => Some(pairs.strip_suffix(&[0]).ok_or_else(|| malformed("it has no end"))?),
    };
    let texts = pairs.into_iter().flat_map(|pairs| pairs.split(|byte| *byte == 0));
    let mut texts =
        texts.map(|text| std::str::from_utf8(text).map_err(|_| malformed("a parameter is not UTF-8 text")));
    let (mut user, mut database, mut parameters) = (None, None, Vec::new());
    let (mut protocol_options, mut wishes) = (Vec::new(), Wishes::default());
    while let Some(name) = texts.next().transpose()? {
        if name.is_empty() {
            return Err(malformed("something stands behind its end"));
        }
        let value = texts.next().transpose()?.ok_or_else(|| malformed("a parameter has no value"))?;
        match name {
            "user" => user = Some(value.to_owned()),
            "database" => database = Some(value.to_owned()),
            "replication" if !matches!(value, "false" | "off" | "no" | "0") => {
                let (message, hint) = if value == "database" {
                    (
                        "logical replication does not go through the router (replication=database)",
                        "Branches write no log that could be decoded (wal_level=minimal); read rows by COPY, or subscribe to the source.",
                    )
                } else {
                    (
                        "replication does not go through the router (replication=on)",
                        "Branches write no log that others could follow; take a dump, or a pack.",
                    )
                };
                return Err(wrong("0A000", message, hint));
            }
            "replication" => {}
            "options" => {
                let rest = own_options(value, &mut wishes)?;
                if !rest.is_empty() {
                    parameters.push((name.to_owned(), rest));
                }
            }
            name if name.starts_with(PROTOCOL_OPTION) => protocol_options.push(name.to_owned()),
            name => match ours(name) {
                Some(ours) => wishes.take(&ours, value)?,
                None => parameters.push((name.to_owned(), value.to_owned())),
            },
        }
    }
    let user = user.filter(|user| !user.is_empty());
    let user = user.ok_or_else(|| {
        let hint = "The user is the name of a token, and the password its secret.";
        wrong("28000", "no user name in the start-up packet", hint)
    })?;
    let database = database.filter(|name| !name.is_empty() && *name != user);
    Ok(Startup { version, protocol_options, user, database, wishes, parameters })
}

impl Wishes {
    fn take(&mut self, name: &str, value: &str) -> Result<(), Wrong> {
        const INVALID: &str = "22023";
        match name {
            "policy" => {
                let policy = value.parse().map_err(|error: String| wrong(INVALID, error, ""))?;
                self.policy = Some(policy);
            }
            "role" => {
                let role = format!("role:{value}");
                self.policy = Some(role.parse().map_err(|error: String| wrong(INVALID, error, ""))?);
            }
            "ttl" => {
                let seconds = value
                    .parse()
                    .ok()
                    .or_else(|| value.parse::<SignedDuration>().ok().map(|duration| duration.as_secs()));
                let seconds = seconds.filter(|seconds: &i64| *seconds > 0);
                self.ttl_s = Some(seconds.ok_or_else(|| {
                    let message = format!("duramen.ttl={value:?} is not a time");
                    wrong(INVALID, message, "Write it as seconds, or like 90m or 2h.")
                })?);
            }
            _ => {
                let message = format!("there is no start-up parameter duramen.{name}");
                return Err(wrong(
                    "42704",
                    message,
                    "There are duramen.policy, duramen.role and duramen.ttl.",
                ));
            }
        }
        Ok(())
    }
}

/// What a parameter that is ours is called among those. Capitals make no difference, as in all names of settings.
fn ours(name: &str) -> Option<String> {
    let (first, rest) = (name.get(..OURS.len())?, name.get(OURS.len()..)?);
    first.eq_ignore_ascii_case(OURS).then(|| rest.to_ascii_lowercase())
}

/// Takes what is ours out of the command-line arguments in `options`, and leaves the rest as it is written. Arguments are
/// separated by white space, and a backslash takes the next character as it is.
fn own_options(options: &str, wishes: &mut Wishes) -> Result<String, Wrong> {
    let arguments = split(options);
    let mut rest: Vec<&str> = Vec::new();
    let mut index = 0;
    while let Some((written, meant)) = arguments.get(index) {
        index += 1;
        // `-c name=value`, `-cname=value` or `--name=value`.
        let (setting, used) = match meant.strip_prefix("--").or_else(|| meant.strip_prefix("-c")) {
            Some("") if meant == "-c" => (arguments.get(index).map(|(_, meant)| meant.as_str()), 2),
            setting => (setting, 1),
        };
        let ours = setting.and_then(|setting| setting.split_once('=')).and_then(|(name, value)| {
            // In the long form `-` stands for `_`, of which our names have none.
            ours(name).map(|name| (name, value))
        });
        match ours {
            Some((name, value)) => {
                wishes.take(&name, value)?;
                index += used - 1;
            }
            None => {
                rest.push(written);
                // The value of another setting is none of ours, however it looks.
                rest.extend(arguments[index..].iter().take(used - 1).map(|(written, _)| written));
                index += used - 1;
            }
        }
    }
    Ok(rest.join(" "))
}

/// The arguments, as they are written and as they are meant.
fn split(options: &str) -> Vec<(&str, String)> {
    let mut found = Vec::new();
    let mut characters = options.char_indices().peekable();
    loop {
        while characters.next_if(|(_, c)| c.is_ascii_whitespace()).is_some() {}
        let Some((start, _)) = characters.peek().copied() else { return found };
        let mut meant = String::new();
        while let Some((_, character)) = characters.next_if(|(_, c)| !c.is_ascii_whitespace()) {
            match character {
                '\\' => meant.extend(characters.next().map(|(_, next)| next)),
                other => meant.push(other),
            }
        }
        let end = characters.peek().map_or(options.len(), |(end, _)| *end);
        found.push((&options[start..end], meant));
    }
}

/// What a client wrote as its database.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Target<'a> {
    /// A branch that is there, or a database in it.
    Branch(&'a str),
    /// A branch of a source, made if it is not there.
    Created { source: &'a str, branch: &'a str },
    /// A new branch of a source, for this connection.
    Own { source: &'a str },
}

impl Target<'_> {
    pub(super) fn parse(database: &str) -> Target<'_> {
        match database.split_once('@') {
            None => Target::Branch(database),
            Some(("", source)) => Target::Own { source },
            Some((source, branch)) => Target::Created { source, branch },
        }
    }
}

/// The readings of `BRANCH` and `BRANCH.DATABASE`, in the order in which they are tried: names of branches may have dots.
pub(super) fn readings(name: &str) -> impl Iterator<Item = (&str, Option<&str>)> {
    let split = name.split_once('.').map(|(branch, database)| (branch, Some(database)));
    [(name, None)].into_iter().chain(split)
}

#[cfg(test)]
#[path = "../../tests/unit/startup.rs"]
mod tests;
