//! What an operator allows HTTP steps to reach.

use std::net::{IpAddr, Ipv6Addr};

use reqwest::Url;
use thiserror::Error;

use super::address::{scope, Scope};
use super::error::HttpError;

/// What HTTP steps may reach: nothing, unless an operator says so.
///
/// The worker reads it from its own session, so that `ALTER DATABASE ... SET` and `ALTER ROLE ... SET` by an operator
/// decide and a submitter's `SET` does not.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HttpPolicy {
    /// Whether HTTP steps run at all (`df.http`).
    pub enabled: bool,
    /// The hosts that may be called (`df.http_allowed_hosts`), without ports, because every port of them is open:
    /// names, names under a domain (`*.example.org`, which does not hold `example.org` itself), addresses, and `*`
    /// for every name that resolves to public addresses.
    pub allowed_hosts: Vec<String>,
    /// Whether a host that is in the list otherwise than by `*` may have a private address or be one
    /// (`df.http_allow_private`).
    pub allow_private: bool,
}

/// A setting of the HTTP steps that cannot be understood.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// A switch is neither on nor off.
    #[error("the setting {setting} is {value:?}: set it to 'on' or 'off'")]
    Switch {
        /// The name of the setting.
        setting: &'static str,
        /// What it holds.
        value: String,
    },
    /// An entry of the list of hosts names no host.
    #[error(
        "the setting df.http_allowed_hosts holds {entry:?}, which names no host: write example.org, *.example.org, \
         an address or *, without scheme, port and path, and commas between the entries"
    )]
    Host {
        /// The entry.
        entry: String,
    },
}

/// Which addresses a connection may go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// To those of the public internet only.
    Public,
    /// To private ones as well.
    Private,
}

/// How the list of hosts holds a host.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Listed {
    /// By its name, by its domain, or as an address.
    Named,
    /// As one of all names.
    Any,
}

impl HttpPolicy {
    /// The policy that the three settings `df.http`, `df.http_allowed_hosts` and `df.http_allow_private` describe;
    /// a setting that is absent or empty closes.
    ///
    /// ```
    /// use duramen_functions::http::HttpPolicy;
    /// let policy = HttpPolicy::from_settings(Some("on"), Some("api.example.org, *.example.com"), None)?;
    /// assert!(policy.enabled && !policy.allow_private);
    /// assert_eq!(policy.allowed_hosts, ["api.example.org", "*.example.com"]);
    /// # Ok::<(), duramen_functions::http::PolicyError>(())
    /// ```
    ///
    /// # Errors
    /// A switch that is neither on nor off, or an entry that names no host. HTTP steps had better stay disabled then.
    pub fn from_settings(
        http: Option<&str>,
        allowed_hosts: Option<&str>,
        allow_private: Option<&str>,
    ) -> Result<Self, PolicyError> {
        let mut hosts = Vec::new();
        for entry in allowed_hosts.unwrap_or_default().split(',').map(str::trim) {
            if entry.is_empty() {
                continue;
            }
            hosts.push(normal(entry).ok_or_else(|| PolicyError::Host { entry: entry.to_owned() })?);
        }
        Ok(Self {
            enabled: switch("df.http", http)?,
            allowed_hosts: hosts,
            allow_private: switch("df.http_allow_private", allow_private)?,
        })
    }

    /// Whether the host of a URL may be called, and at which addresses.
    pub(super) fn admit(&self, url: &Url) -> Result<Reach, HttpError> {
        let host = url.host_str().unwrap_or_default();
        let listed = self.listed(host);
        if let Some(address) = literal(host) {
            let open = listed == Some(Listed::Named) && self.allow_private;
            return match scope(address) {
                Scope::Never(kind) => {
                    Err(HttpError::Refused(format!("{host} is a {kind} address, which no server can have")))
                }
                _ if open => Ok(Reach::Private),
                _ => Err(HttpError::Refused(format!(
                    "host {host} is not in the allowed hosts: an address in place of a name needs \
                     df.http_allow_private = 'on' and an entry of its own in df.http_allowed_hosts"
                ))),
            };
        }
        match listed {
            Some(Listed::Named) if self.allow_private => Ok(Reach::Private),
            Some(_) => Ok(Reach::Public),
            None => Err(HttpError::Refused(format!(
                "host {host} is not in the allowed hosts: an operator of the database adds it to \
                 df.http_allowed_hosts (ALTER DATABASE ... SET ...)"
            ))),
        }
    }

    /// How the list holds a host, given as a URL has it.
    fn listed(&self, host: &str) -> Option<Listed> {
        let is_name = literal(host).is_none();
        let host = host.strip_suffix('.').unwrap_or(host);
        let mut any = None;
        // An entry that is not a host matches nothing: `from_settings` has reported it.
        for entry in self.allowed_hosts.iter().filter_map(|entry| normal(entry)) {
            if entry == "*" {
                any = Some(Listed::Any);
                continue;
            }
            let matches = match entry.strip_prefix("*.") {
                Some(domain) => is_name && host.strip_suffix(domain).is_some_and(|left| left.ends_with('.')),
                None => entry == host,
            };
            if matches {
                return Some(Listed::Named);
            }
        }
        any
    }
}

/// The address that the host of a URL is, if it is not a name. The parser of URLs has already turned every other
/// spelling (`127.1`, `0x7f000001`, `017700000001`) into the usual one.
pub(super) fn literal(host: &str) -> Option<IpAddr> {
    match host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(inside) => inside.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
        None => host.parse().ok(),
    }
}

/// An entry of the list as URLs spell it: lower case, no dot at the end, letters beyond ASCII encoded.
fn normal(entry: &str) -> Option<String> {
    let entry = entry.trim();
    if entry == "*" {
        return Some(entry.to_owned());
    }
    if entry.parse::<Ipv6Addr>().is_ok() {
        return normal(&format!("[{entry}]"));
    }
    let (star, host) = match entry.strip_prefix("*.") {
        Some(domain) => ("*.", domain),
        None => ("", entry),
    };
    // What else can stand in a URL would be lost without a word.
    if host.contains(['*', '/', '\\', '?', '#', '@', '%']) || host.contains(char::is_whitespace) {
        return None;
    }
    if !host.starts_with('[') && host.contains(':') || host.starts_with('[') && !host.ends_with(']') {
        return None;
    }
    let url = Url::parse(&format!("http://{host}/")).ok()?;
    let host = url.host_str()?;
    let host = host.strip_suffix('.').unwrap_or(host);
    if host.is_empty() || (!star.is_empty() && literal(host).is_some()) {
        return None;
    }
    Some(format!("{star}{host}"))
}

/// A switch, as PostgreSQL spells them.
fn switch(setting: &'static str, value: Option<&str>) -> Result<bool, PolicyError> {
    let value = value.unwrap_or_default().trim();
    match value.to_ascii_lowercase().as_str() {
        "" | "off" | "false" | "no" | "0" => Ok(false),
        "on" | "true" | "yes" | "1" => Ok(true),
        _ => Err(PolicyError::Switch { setting, value: value.to_owned() }),
    }
}
