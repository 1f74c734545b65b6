//! By which names the door may be called. A page that somebody was led to can have its own name point to this machine (DNS
//! rebinding), and would then read replies as its own: so a name that is not ours is refused.

use hyper::{
    header::{HOST, ORIGIN},
    http::uri::Authority,
    HeaderMap, Uri,
};
use std::net::{IpAddr, Ipv6Addr};

/// The names of the door.
#[derive(Debug)]
pub(super) struct Names(Vec<String>);

impl Names {
    /// Those of the certificate, and of the machine.
    pub(super) fn new(certificate: &[String]) -> Names {
        let machine = rustix::system::uname().nodename().to_str().map(str::to_ascii_lowercase).ok();
        Names(certificate.iter().cloned().chain(machine).chain(["localhost".to_owned()]).collect())
    }

    /// Whether it is ours: a name of the door, or an address, which nobody can have point elsewhere.
    fn has(&self, host: &str) -> bool {
        let host = host.to_ascii_lowercase();
        let host = host.strip_suffix('.').unwrap_or(&host);
        let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let is_address = match inner {
            Some(inner) => inner.parse::<Ipv6Addr>().is_ok(),
            None => host.parse::<IpAddr>().is_ok(),
        };
        is_address
            || self.0.iter().any(|name| match name.strip_prefix("*.") {
                Some(domain) => host.split_once('.').is_some_and(|(_, rest)| rest == domain),
                None => name == host,
            })
    }

    /// The name by which a request called the door, with its port if it gave one. Nothing, if it is not ours, or there is none,
    /// or more than one.
    pub(super) fn called(&self, uri: &Uri, headers: &HeaderMap) -> Option<Authority> {
        let mut all = headers.get_all(HOST).iter();
        let header = all.next().filter(|_| all.next().is_none())?;
        let header = Authority::try_from(header.as_bytes()).ok()?;
        // A request in absolute form names it twice.
        let named = uri.authority().unwrap_or(&header);
        [named, &header]
            .into_iter()
            .all(|name| !name.as_str().contains('@') && self.has(name.host()))
            .then(|| named.clone())
    }
}

/// Whether a page of another site sent this: a browser then says where it is from, and adds what it knows of passwords.
pub(super) fn is_from_elsewhere(called: &Authority, headers: &HeaderMap) -> bool {
    headers.get_all(ORIGIN).iter().any(|origin| {
        let own = origin.to_str().ok().and_then(|origin| origin.split_once("://"));
        own.is_none_or(|(_, authority)| !authority.eq_ignore_ascii_case(called.as_str()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    fn called(names: &Names, uri: &str, hosts: &[&str]) -> Option<String> {
        let mut headers = HeaderMap::new();
        for host in hosts {
            headers.append(HOST, HeaderValue::from_str(host).unwrap());
        }
        names.called(&uri.parse().unwrap(), &headers).map(|name| name.to_string())
    }

    /// H7.
    #[test]
    fn only_its_own_names_and_addresses_are_answered() {
        let names = Names::new(&["db.example".to_owned(), "*.lab.example".to_owned()]);
        for host in
            ["127.0.0.1:6433", "[::1]:6433", "localhost", "LOCALHOST:1", "db.example.", "a.lab.example"]
        {
            assert!(called(&names, "/", &[host]).is_some(), "{host}");
        }
        for host in
            ["evil.example", "127.0.0.1.evil.example", "a.b.lab.example", "lab.example", "", "a@localhost"]
        {
            assert_eq!(called(&names, "/", &[host]), None, "{host}");
        }
        assert_eq!(called(&names, "/", &[]), None);
        assert_eq!(called(&names, "/", &["localhost", "localhost"]), None);
        assert_eq!(called(&names, "http://evil.example/", &["localhost"]), None);
        assert_eq!(called(&names, "http://localhost/", &["evil.example"]), None);
    }

    /// H7.
    #[test]
    fn a_page_of_another_site_is_told_apart() {
        let called: Authority = "localhost:6433".parse().unwrap();
        let from = |origin: &'static str| {
            let headers = HeaderMap::from_iter([(ORIGIN, HeaderValue::from_static(origin))]);
            is_from_elsewhere(&called, &headers)
        };
        assert!(!is_from_elsewhere(&called, &HeaderMap::new()) && !from("https://localhost:6433"));
        assert!(from("https://localhost:1") && from("https://evil.example") && from("null"));
    }
}
