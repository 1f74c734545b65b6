//! Where a host is: `ssh://USER@HOST:PORT`.

use std::fmt;
use std::str::FromStr;

/// The address of a host. What is in it can be an argument of ssh and stand in a line: it has no other characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    user: Option<String>,
    host: String,
    port: Option<u16>,
    reached_at: Option<String>,
}

/// What is wrong with an address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not the address of a host: {why}; write ssh://USER@HOST, ssh://USER@HOST:PORT, or ssh://USER@HOST?address=IP if others reach it by another address")]
pub struct AddressError {
    text: String,
    why: &'static str,
}

impl FromStr for Address {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        // A password is not shown.
        let wrong = |why| AddressError { text: text.chars().take(200).collect(), why };
        let rest = text.strip_prefix("ssh://").ok_or_else(|| wrong("it does not begin with ssh://"))?;
        let (rest, reached_at) = match rest.split_once("?address=") {
            Some((rest, address)) => (rest, Some(address)),
            None => (rest, None),
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (user, rest) = match rest.rsplit_once('@') {
            Some((user, rest)) => (Some(user), rest),
            None => (None, rest),
        };
        if user.is_some_and(|user| user.contains(':')) {
            return Err(AddressError {
                text: "ssh://...".to_owned(),
                why: "it holds a password, which does not belong into arguments: use keys",
            });
        }
        let (host, port) = match rest.strip_prefix('[') {
            Some(rest) => {
                let (host, rest) = rest.split_once(']').ok_or_else(|| wrong("a bracket is not closed"))?;
                let is_address = host.parse::<std::net::Ipv6Addr>().is_ok();
                if !is_address {
                    return Err(wrong("only an IPv6 address stands in brackets"));
                }
                (host, rest.strip_prefix(':').or((!rest.is_empty()).then_some(rest)))
            }
            None => match rest.split_once(':') {
                Some((host, port)) => {
                    if !is_name(host) {
                        return Err(wrong("the host's name is none"));
                    }
                    (host, Some(port))
                }
                None => {
                    if !is_name(rest) {
                        return Err(wrong("the host's name is none"));
                    }
                    (rest, None)
                }
            },
        };
        let port = match port {
            Some(port) => {
                Some(port.parse().ok().filter(|port| *port > 0).ok_or_else(|| wrong("the port is none"))?)
            }
            None => None,
        };
        if user.is_some_and(|user| !is_name(user)) {
            return Err(wrong("the user's name is none"));
        }
        if reached_at.is_some_and(|at| at.parse::<std::net::IpAddr>().is_err()) {
            return Err(wrong("address= is no IP address"));
        }
        let owned = |text: Option<&str>| text.map(str::to_owned);
        Ok(Self { user: owned(user), host: host.to_owned(), port, reached_at: owned(reached_at) })
    }
}

/// A name of a host or a user: nothing that ssh or a shell could take for anything else.
fn is_name(text: &str) -> bool {
    (1..=253).contains(&text.len())
        && text.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c))
}

impl Address {
    /// The user, if one is named.
    #[must_use]
    pub fn user(&self) -> Option<&str> {
        self.user.as_deref()
    }

    /// The host's name or address.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port of its sshd, if one is named.
    #[must_use]
    pub fn port(&self) -> Option<u16> {
        self.port
    }

    /// The address by which the other hosts reach it, if it is said.
    #[must_use]
    pub fn reached_at(&self) -> Option<&str> {
        self.reached_at.as_deref()
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(user) = &self.user {
            write!(f, "{user}@")?;
        }
        f.write_str(&self.host)?;
        match self.port {
            Some(port) => write!(f, ":{port}"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Address;

    #[test]
    fn only_what_cannot_be_taken_for_an_option_or_a_command_is_an_address() {
        for (text, told) in [
            ("ssh://a", "a"),
            ("ssh://postgres@db-1.example:2222", "postgres@db-1.example:2222"),
            ("ssh://u@[::1]:22", "u@::1:22"),
            ("ssh://u@a/?address=10.0.0.1", "u@a"),
            ("ssh://u@a?address=::1", "u@a"),
        ] {
            let address = text.parse::<Address>();
            assert_eq!(address.map(|address| address.to_string()).as_deref(), Ok(told), "{text}");
        }
        for text in [
            "a",
            "ssh://",
            "ssh://-oProxyCommand=x",
            "ssh://u@-oProxyCommand=x",
            "ssh://-l@a",
            "ssh://a b",
            "ssh://a;b",
            "ssh://$(x)@a",
            "ssh://u@a:0",
            "ssh://u@a:99999",
            "ssh://u@a:",
            "ssh://u@a\n",
            "ssh://u@a?address=x",
            "ssh://@a",
            "ssh://u:secret@a",
            "ssh://u@[x]",
            "ssh://'@a",
            "ssh://u@a%h",
            "ssh://u@a?other=1",
        ] {
            let refused = text.parse::<Address>().expect_err(text).to_string();
            assert!(!refused.contains("secret"), "{refused}");
        }
    }
}
