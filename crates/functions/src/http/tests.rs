//! What is public, what a policy admits, and what a resolver lets through.
#![allow(clippy::unwrap_used, reason = "tests")]

use std::net::{IpAddr, SocketAddr};

use reqwest::Url;

use super::address::{scope, Scope};
use super::call::HttpCall;
use super::policy::{HttpPolicy, PolicyError, Reach};
use super::request::{MAX_HEADERS, MAX_HEADER_BYTES};
use super::resolve::{screen, ResolveError};

fn policy(hosts: &str, allow_private: &str) -> HttpPolicy {
    HttpPolicy::from_settings(Some("on"), Some(hosts), Some(allow_private)).unwrap()
}

fn admits(policy: &HttpPolicy, host: &str) -> Option<Reach> {
    policy.admit(&Url::parse(&format!("https://{host}/")).unwrap()).ok()
}

fn addresses(texts: &[&str]) -> Vec<SocketAddr> {
    texts.iter().map(|text| SocketAddr::new(text.parse().unwrap(), 0)).collect()
}

#[test]
fn addresses_of_the_internet_are_public() {
    let public = [
        "1.1.1.1",
        "8.8.8.8",
        "9.255.255.255",
        "11.0.0.0",
        "100.63.255.255",
        "100.128.0.0",
        "126.255.255.255",
        "128.0.0.0",
        "168.63.129.15",
        "169.253.255.255",
        "169.255.0.0",
        "172.15.255.255",
        "172.32.0.0",
        "192.0.1.0",
        "192.167.255.255",
        "192.169.0.0",
        "198.17.255.255",
        "198.20.0.0",
        "223.255.255.255",
        "2001:200::1",
        "2606:4700::1111",
        "2a00:1450:4001:800::200e",
        "3ffe::1",
        "64:ff9b::8.8.8.8",
    ];
    for text in public {
        assert_eq!(scope(text.parse::<IpAddr>().unwrap()), Scope::Public, "{text}");
    }
}

#[test]
fn every_other_range_is_closed() {
    let private = [
        "10.0.0.0",
        "10.255.255.255",
        "100.64.0.1",
        "100.127.255.255",
        "100.100.100.200",
        "127.0.0.1",
        "127.255.255.254",
        "168.63.129.16",
        "169.254.169.254",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.170",
        "192.0.2.1",
        "192.88.99.1",
        "192.168.0.1",
        "198.18.0.1",
        "198.19.255.255",
        "198.51.100.1",
        "203.0.113.9",
        "::1",
        "::ffff:127.0.0.1",
        "::ffff:8.8.8.8",
        "::8.8.8.8",
        "64:ff9b::10.0.0.1",
        "64:ff9b::127.0.0.1",
        "64:ff9b:1::1",
        "100::1",
        "2001::1",
        "2001:2::1",
        "2001:10::1",
        "2001:20::1",
        "2001:db8::1",
        "2002:7f00:1::",
        "3fff::1",
        "4000::1",
        "5f00::1",
        "fc00::1",
        "fd00:ec2::254",
        "fe80::1",
        "febf::1",
        "fec0::1",
    ];
    for text in private {
        let scope = scope(text.parse::<IpAddr>().unwrap());
        assert!(matches!(scope, Scope::Private(_)), "{text}: {scope:?}");
    }
    let never = [
        "0.0.0.0",
        "0.1.2.3",
        "224.0.0.1",
        "239.255.255.255",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::ffff:0.0.0.0",
        "::ffff:224.0.0.1",
        "64:ff9b::0.0.0.0",
        "ff02::1",
    ];
    for text in never {
        let scope = scope(text.parse::<IpAddr>().unwrap());
        assert!(matches!(scope, Scope::Never(_)), "{text}: {scope:?}");
    }
}

#[test]
fn a_list_admits_its_names_and_those_under_its_domains() {
    let policy = policy("api.example.org, *.Example.COM ,m\u{fc}nchen.example,trailing.example.", "off");
    let admitted = [
        "api.example.org",
        "API.example.org",
        "api.example.org.",
        "api.example.org:8443",
        "a.example.com",
        "a.b.example.com",
        "xn--mnchen-3ya.example",
        "m\u{fc}nchen.example",
        "trailing.example",
    ];
    for host in admitted {
        assert_eq!(admits(&policy, host), Some(Reach::Public), "{host}");
    }
    let refused = [
        "example.org",
        "x.api.example.org",
        "api.example.org.evil.example",
        "evilapi.example.org",
        "example.com",
        "evilexample.com",
        "a.example.com.evil.example",
        "1.1.1.1",
        "[2606:4700::1111]",
    ];
    for host in refused {
        assert_eq!(admits(&policy, host), None, "{host}");
    }
    assert_eq!(admits(&HttpPolicy { enabled: true, ..HttpPolicy::default() }, "example.org"), None);
}

#[test]
fn a_star_admits_names_but_neither_addresses_nor_private_ones() {
    for allow_private in ["off", "on"] {
        let policy = policy("*", allow_private);
        assert_eq!(admits(&policy, "example.org"), Some(Reach::Public), "{allow_private}");
        assert_eq!(admits(&policy, "1.1.1.1"), None, "{allow_private}");
        assert_eq!(admits(&policy, "127.0.0.1"), None, "{allow_private}");
    }
    let policy = policy("*,db.internal,*.lan", "on");
    assert_eq!(admits(&policy, "db.internal"), Some(Reach::Private));
    assert_eq!(admits(&policy, "printer.lan"), Some(Reach::Private));
    assert_eq!(admits(&policy, "example.org"), Some(Reach::Public));
}

#[test]
fn addresses_need_the_switch_and_an_entry() {
    let listed = "127.0.0.1, ::1, [fd00::7], 8.8.8.8, 0.0.0.0, 224.0.0.1";
    let open = policy(listed, "on");
    for host in
        ["127.0.0.1", "127.1", "0x7f000001", "2130706433", "017700000001", "[::1]", "[fd00::7]", "8.8.8.8"]
    {
        assert_eq!(admits(&open, host), Some(Reach::Private), "{host}");
        assert_eq!(admits(&policy(listed, "off"), host), None, "{host}");
    }
    for host in ["0.0.0.0", "0", "224.0.0.1", "127.0.0.2", "[::2]", "[::ffff:127.0.0.1]"] {
        assert_eq!(admits(&open, host), None, "{host}");
    }
    // A domain that looks like an address's end is not a domain.
    let written =
        HttpPolicy { enabled: true, allowed_hosts: vec!["*.0.0.1".to_owned()], allow_private: true };
    assert_eq!(admits(&written, "127.0.0.1"), None);
}

#[test]
fn settings_that_cannot_be_understood_are_reported() {
    let read = |http, hosts| HttpPolicy::from_settings(http, hosts, None);
    assert_eq!(read(None, None), Ok(HttpPolicy::default()));
    assert_eq!(read(Some(""), Some("")), Ok(HttpPolicy::default()));
    assert!(read(Some("ON"), None).unwrap().enabled);
    assert!(matches!(read(Some("maybe"), None), Err(PolicyError::Switch { setting: "df.http", .. })));
    let entries = [
        "https://example.org",
        "example.org:443",
        "example.org/path",
        "user@example.org",
        "a*.example.org",
        "*example.org",
        "*.*.example.org",
        "*.",
        "*.10.0.0.1",
        "a b",
        "[::1]:80",
        "[::1",
        "%31",
        "1.2.3.4.5",
        ".",
    ];
    for entry in entries {
        let found = read(Some("on"), Some(entry));
        assert_eq!(found, Err(PolicyError::Host { entry: entry.to_owned() }), "{entry}");
    }
}

#[test]
fn one_address_out_of_reach_spoils_the_answer() {
    let screened = |texts: &[&str], reach| screen("host.example", addresses(texts), reach);
    assert_eq!(screened(&["1.1.1.1", "2606:4700::1111"], Reach::Public).unwrap().len(), 2);
    assert!(matches!(screened(&["1.1.1.1", "10.0.0.1"], Reach::Public), Err(ResolveError::Private { .. })));
    assert!(matches!(screened(&["::ffff:10.0.0.1"], Reach::Public), Err(ResolveError::Private { .. })));
    assert_eq!(screened(&["1.1.1.1", "10.0.0.1"], Reach::Private).unwrap().len(), 2);
    assert!(matches!(screened(&["0.0.0.0"], Reach::Private), Err(ResolveError::Never { .. })));
    assert!(matches!(screened(&[], Reach::Private), Err(ResolveError::Unknown { .. })));
    let text = screened(&["10.0.0.1"], Reach::Public).unwrap_err().to_string();
    assert!(text.contains("not in the allowed") && !text.contains("10.0.0.1"), "{text}");
}

#[test]
fn a_trace_is_handed_on_only_where_no_limit_and_no_header_is_in_its_way() {
    const TRACE: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let traced = |headers: Vec<(String, String)>| {
        let mut call = HttpCall { headers: headers.into_iter().collect(), ..HttpCall::default() };
        let before = call.headers.len();
        call.trace(TRACE.to_owned());
        call.headers.len() > before
    };
    let some = |many: usize| (0..many).map(|n| (format!("x-{n}"), String::new())).collect();
    assert!(traced(some(MAX_HEADERS - 1)));
    assert!(!traced(some(MAX_HEADERS)));
    let long = |bytes: usize| vec![("x".to_owned(), "y".repeat(bytes))];
    assert!(traced(long(MAX_HEADER_BYTES - 1 - "traceparent".len() - TRACE.len())));
    assert!(!traced(long(MAX_HEADER_BYTES - "traceparent".len() - TRACE.len())));
    assert!(!traced(vec![("TraceParent".to_owned(), "mine".to_owned())]));
}
