//! Where etcd is: `etcd://a,b,c/FLEET`, and by what right it is asked.

use std::path::PathBuf;

/// The port of etcd unless an address says another one.
const PORT: u16 = 2379;
/// The fleet's name unless an address says another one.
const FLEET: &str = "default";
/// The longest name of a fleet or a node, in bytes.
pub const NAME_MAX: usize = 40;

/// Where etcd is, and which fleet is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// `HOST:PORT` of its members.
    pub members: Vec<String>,
    /// Whether they speak TLS.
    pub tls: bool,
    /// The fleet.
    pub fleet: String,
}

/// By what right etcd is asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Access {
    /// The certificate (PEM) that vouches for the members; those of the system else.
    pub authority: Option<PathBuf>,
    /// A certificate of our own, and its key (PEM).
    pub identity: Option<(PathBuf, PathBuf)>,
    /// A user, and the file with its password.
    pub user: Option<(String, PathBuf)>,
}

/// Why a text is not an etcd address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not an etcd address: {what}; write it like etcds://10.0.0.1,10.0.0.2,10.0.0.3:2379 (etcd:// without TLS), with /NAME after it for a fleet of that name")]
pub struct BadAddress {
    /// The text.
    pub text: String,
    /// What is wrong.
    pub what: &'static str,
}

impl std::str::FromStr for Address {
    type Err = BadAddress;

    /// # Examples
    /// ```
    /// use duramen_fleet::address::Address;
    /// let address: Address = "etcd://10.0.0.1,10.0.0.2:4001/lab".parse()?;
    /// assert_eq!(address.members, ["10.0.0.1:2379", "10.0.0.2:4001"]);
    /// assert_eq!((address.fleet.as_str(), address.tls), ("lab", false));
    /// # Ok::<(), duramen_fleet::address::BadAddress>(())
    /// ```
    fn from_str(text: &str) -> Result<Address, BadAddress> {
        let bad = |what| BadAddress { text: text.to_owned(), what };
        let (tls, rest) = match text.split_once("://") {
            Some(("etcd", rest)) => (false, rest),
            Some(("etcds", rest)) => (true, rest),
            _ => return Err(bad("it begins with neither etcd:// nor etcds://")),
        };
        if rest.contains('@') {
            return Err(bad("users and passwords are not part of it (--etcd-user, --etcd-password-file)"));
        }
        let (members, fleet) = rest.split_once('/').unwrap_or((rest, FLEET));
        let fleet = if fleet.is_empty() { FLEET } else { fleet };
        if !is_name(fleet) {
            return Err(bad("the fleet's name is not made of a-z 0-9 and -"));
        }
        let members: Option<Vec<String>> = members.split(',').map(member).collect();
        let members = members.ok_or_else(|| bad("a member is not HOST or HOST:PORT"))?;
        Ok(Address { members, tls, fleet: fleet.to_owned() })
    }
}

impl Address {
    /// A member that is asked without TLS and not on this machine, if there is one: what is said to it can be read and changed on the way.
    ///
    /// # Examples
    /// ```
    /// use duramen_fleet::address::Address;
    /// let open = |text: &str| text.parse::<Address>().map(|address| address.open_member().map(str::to_owned));
    /// assert_eq!(open("etcd://127.0.0.1,10.0.0.2")?.as_deref(), Some("10.0.0.2:2379"));
    /// assert_eq!(open("etcds://10.0.0.2")?, None);
    /// assert_eq!(open("etcd://localhost,[::1]:4001")?, None);
    /// # Ok::<(), duramen_fleet::address::BadAddress>(())
    /// ```
    #[must_use]
    pub fn open_member(&self) -> Option<&str> {
        let is_open = |member: &&String| !self.tls && !is_loopback(member);
        self.members.iter().find(is_open).map(String::as_str)
    }

    /// The members as etcd's client takes them.
    #[must_use]
    pub fn endpoints(&self) -> Vec<String> {
        let scheme = if self.tls { "https" } else { "http" };
        self.members.iter().map(|member| format!("{scheme}://{member}")).collect()
    }
}

fn is_loopback(member: &str) -> bool {
    let host = member.rsplit_once(':').map_or(member, |(host, _)| host);
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    match host.parse::<std::net::IpAddr>() {
        Ok(address) => address.to_canonical().is_loopback(),
        Err(_) => host.eq_ignore_ascii_case("localhost"),
    }
}

fn member(text: &str) -> Option<String> {
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | ':' | '[' | ']');
    if text.is_empty() || !text.chars().all(allowed) {
        return None;
    }
    // The colons of an IPv6 address stand in brackets.
    let has_port = match text.rsplit_once(']') {
        Some((_, after)) => !after.is_empty(),
        None => text.contains(':'),
    };
    match has_port {
        true => {
            let (host, port) = text.rsplit_once(':')?;
            port.parse::<u16>().ok().filter(|port| *port > 0 && !host.is_empty())?;
            Some(text.to_owned())
        }
        false => Some(format!("{text}:{PORT}")),
    }
}

/// Whether a text can name a node or a fleet: it becomes part of a host name in certificates.
///
/// # Examples
/// ```
/// use duramen_fleet::address::is_name;
/// assert!(is_name("rack-7a"));
/// assert!(!is_name("Rack") && !is_name("a.b") && !is_name("-a") && !is_name(""));
/// ```
#[must_use]
pub fn is_name(text: &str) -> bool {
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    (1..=NAME_MAX).contains(&text.len())
        && text.chars().all(allowed)
        && !text.starts_with('-')
        && !text.ends_with('-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_others_refused() {
        let read = |text: &str| text.parse::<Address>();
        let one = read("etcds://[::1],[2001:db8::1]:2380,db-1/prod").unwrap();
        assert_eq!(one.members, ["[::1]:2379", "[2001:db8::1]:2380", "db-1:2379"]);
        assert_eq!(one.endpoints()[0], "https://[::1]:2379");
        assert_eq!(read("etcd://a/").unwrap().fleet, "default");
        for text in [
            "",
            "a,b",
            "http://a",
            "etcd://",
            "etcd://a,,b",
            "etcd://a:0",
            "etcd://a:x",
            "etcd://:1",
            "etcd://u:p@a",
            "etcd://a/B",
            "etcd://a/../b",
            "etcd://a\n",
        ] {
            assert!(read(text).is_err(), "{text:?}");
        }
    }
}
