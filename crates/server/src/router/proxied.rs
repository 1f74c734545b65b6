//! Who a connection is really from, where a proxy in front of the router says so.
//!
//! Source: "The PROXY protocol, versions 1 & 2" (HAProxy); version 2 alone is spoken.

use super::startup::Wrong;
use ipnet::IpNet;
use ppp::v2::{Addresses, Command, Header};
use std::{
    io,
    net::{IpAddr, SocketAddr},
};
use tokio::{io::AsyncReadExt, net::TcpStream};

/// What stands before addresses: a signature, version and command, family, and a length.
const PREFACE: usize = 16;
/// The longest header, what proxies add to addresses included.
const HEADER_MAX: usize = 4096;

/// Why nobody knows who a connection is from.
#[derive(Debug)]
pub(super) enum Unknown {
    /// The proxy says something else.
    Wrong(Wrong),
    /// The connection broke.
    Broken,
}

impl From<io::Error> for Unknown {
    fn from(_: io::Error) -> Unknown {
        Unknown::Broken
    }
}

fn wrong(what: &str) -> Unknown {
    Unknown::Wrong(Wrong {
        code: "08P01",
        message: format!(
            "a connection from a proxy has to begin with a header of the PROXY protocol, version 2: {what}"
        ),
        hint: "Have the proxy send it, or take its address out of --pg-proxy-protocol.",
    })
}

/// Whether an address is that of a proxy, which says who its clients are.
pub(super) fn is_proxy(proxies: &[IpNet], address: IpAddr) -> bool {
    proxies.iter().any(|proxy| proxy.contains(&address))
}

/// Reads the header that a proxy sends first, and nothing behind it. A proxy that speaks for itself, to see whether the router
/// is there, has its own address.
pub(super) async fn client_of(stream: &mut TcpStream, proxy: SocketAddr) -> Result<SocketAddr, Unknown> {
    let mut header = vec![0; PREFACE];
    stream.read_exact(&mut header).await?;
    if !header.starts_with(ppp::v2::PROTOCOL_PREFIX) {
        return Err(wrong("it begins with something else"));
    }
    let rest = usize::from(u16::from_be_bytes([header[14], header[15]]));
    if PREFACE + rest > HEADER_MAX {
        return Err(wrong("it is too long"));
    }
    header.resize(PREFACE + rest, 0);
    stream.read_exact(&mut header[PREFACE..]).await?;
    client(&header, proxy)
}

fn client(header: &[u8], proxy: SocketAddr) -> Result<SocketAddr, Unknown> {
    let header = Header::try_from(header).map_err(|error| wrong(&error.to_string()))?;
    match (header.command, header.addresses) {
        (Command::Local, _) => Ok(proxy),
        (_, Addresses::IPv4(from)) => Ok(SocketAddr::new(from.source_address.into(), from.source_port)),
        (_, Addresses::IPv6(from)) => {
            Ok(SocketAddr::new(IpAddr::from(from.source_address).to_canonical(), from.source_port))
        }
        _ => Err(wrong("it holds no address")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ppp::v2::{Builder, Protocol, Version};

    fn header(command: Command, from: SocketAddr, to: SocketAddr) -> Vec<u8> {
        Builder::with_addresses(Version::Two | command, Protocol::Stream, (from, to)).build().unwrap()
    }

    #[test]
    fn a_header_says_who_it_is() {
        let proxy: SocketAddr = "192.0.2.1:1000".parse().unwrap();
        for (from, to) in
            [("203.0.113.7:4711", "192.0.2.2:6432"), ("[2001:db8::7]:4711", "[2001:db8::1]:6432")]
        {
            let (from, to): (SocketAddr, SocketAddr) = (from.parse().unwrap(), to.parse().unwrap());
            assert_eq!(client(&header(Command::Proxy, from, to), proxy).unwrap(), from);
            assert_eq!(client(&header(Command::Local, from, to), proxy).unwrap(), proxy);
        }
        let whole = header(Command::Proxy, proxy, proxy);
        for end in 0..whole.len() {
            assert!(client(&whole[..end], proxy).is_err(), "{end}");
        }
        assert!(client(b"PROXY TCP4 203.0.113.7 192.0.2.2 4711 6432\r\n", proxy).is_err());
    }

    #[test]
    fn proxies_are_those_of_the_list() {
        let proxies: Vec<IpNet> = ["192.0.2.1/32", "2001:db8::/64"].map(|net| net.parse().unwrap()).into();
        for (address, expected) in
            [("192.0.2.1", true), ("192.0.2.2", false), ("2001:db8::9", true), ("2001:db8:1::9", false)]
        {
            assert_eq!(is_proxy(&proxies, address.parse().unwrap()), expected, "{address}");
        }
        assert!(!is_proxy(&[], "127.0.0.1".parse().unwrap()));
    }
}
