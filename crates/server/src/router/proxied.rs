//! Who a connection is really from, where a proxy in front of the router says so.
//!
//! Source: "The PROXY protocol, versions 1 & 2" (HAProxy); version 2 alone is spoken.

use super::startup::Wrong;
use ipnet::IpNet;
use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
};
use tokio::{io::AsyncReadExt, net::TcpStream};

/// How a header begins.
const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
/// What stands before addresses: the signature, version and command, family and kind, and a length.
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
    let mut preface = [0; PREFACE];
    stream.read_exact(&mut preface).await?;
    let Some([version_and_command, family, high, low]) = preface.strip_prefix(&SIGNATURE) else {
        return Err(wrong("it begins with something else"));
    };
    let length = usize::from(u16::from_be_bytes([*high, *low]));
    if PREFACE + length > HEADER_MAX {
        return Err(wrong("it is too long"));
    }
    let mut rest = vec![0; length];
    stream.read_exact(&mut rest).await?;
    match version_and_command {
        0x20 => Ok(proxy),
        0x21 => source(*family, &rest),
        _ => Err(wrong("its version is another one")),
    }
}

/// The source out of what follows a preface: both addresses, both ports, and what the proxy adds.
fn source(family: u8, rest: &[u8]) -> Result<SocketAddr, Unknown> {
    let found = match family {
        0x11 => rest.first_chunk::<12>().map(|all| {
            let [a, b, c, d, _, _, _, _, high, low, _, _] = *all;
            (IpAddr::V4(Ipv4Addr::new(a, b, c, d)), [high, low])
        }),
        0x21 => rest.first_chunk::<36>().and_then(|all| {
            let address: [u8; 16] = *all.first_chunk()?;
            Some((IpAddr::V6(Ipv6Addr::from(address)), [all[32], all[33]]))
        }),
        _ => None,
    };
    let (address, port) = found.ok_or_else(|| wrong("it holds no address of a TCP client"))?;
    Ok(SocketAddr::new(address.to_canonical(), u16::from_be_bytes(port)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::{io::AsyncWriteExt, net::TcpListener};

    /// What is read of bytes that a proxy sends, and what is left unread.
    async fn read(bytes: &[u8]) -> (Result<SocketAddr, Unknown>, Vec<u8>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut proxy = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (mut stream, _) = listener.accept().await.unwrap();
        proxy.write_all(bytes).await.unwrap();
        drop(proxy);
        let client = client_of(&mut stream, "192.0.2.1:1000".parse().unwrap()).await;
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).await.unwrap();
        (client, rest)
    }

    fn header(command: u8, family: u8, rest: &[u8]) -> Vec<u8> {
        let length = u16::try_from(rest.len()).unwrap().to_be_bytes();
        [&SIGNATURE[..], &[command, family], &length, rest].concat()
    }

    #[tokio::test]
    async fn a_header_says_who_it_is_and_nothing_behind_it_is_read() {
        let four = [203, 0, 113, 7, 192, 0, 2, 2, 0x12, 0x67, 0x19, 0x20];
        let six = [
            &[0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7][..],
            &[0; 16],
            &[0x12, 0x67, 0x19, 0x20],
        ]
        .concat();
        let mapped = [&[0; 10][..], &[0xff, 0xff, 127, 0, 0, 1], &[0; 16], &[0, 9, 0, 9]].concat();
        // With what a proxy adds (PP2_TYPE_NOOP).
        let more = [&four[..], &[4, 0, 1, 0]].concat();
        for (header, expected) in [
            (header(0x21, 0x11, &four), "203.0.113.7:4711"),
            (header(0x21, 0x11, &more), "203.0.113.7:4711"),
            (header(0x21, 0x21, &six), "[2001:db8::7]:4711"),
            (header(0x21, 0x21, &mapped), "127.0.0.1:9"),
            (header(0x20, 0x11, &four), "192.0.2.1:1000"),
            (header(0x20, 0, &[]), "192.0.2.1:1000"),
        ] {
            let (client, rest) = read(&[&header[..], b"rest"].concat()).await;
            assert_eq!((client.unwrap().to_string().as_str(), rest.as_slice()), (expected, &b"rest"[..]));
        }
        let whole = header(0x21, 0x11, &four);
        for end in 0..whole.len() {
            assert!(read(&whole[..end]).await.0.is_err(), "{end}");
        }
        for wrong in [
            b"PROXY TCP4 203.0.113.7 192.0.2.2 4711 6432\r\n".to_vec(),
            header(0x21, 0x11, &four[..11]),
            header(0x21, 0x31, &[0; 216]),
            header(0x21, 0, &[]),
            header(0x11, 0x11, &four),
            header(0x22, 0x11, &four),
            header(0x21, 0x11, &[0; 5000]),
        ] {
            assert!(matches!(read(&wrong).await.0, Err(Unknown::Wrong(_))), "{wrong:?}");
        }
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
