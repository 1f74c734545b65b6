//! Which addresses belong to the public internet.
//!
//! The ranges are those of the IANA registries of special-purpose addresses, read strictly: what is not plainly
//! public is not public.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// How far an address reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// An address of the public internet.
    Public,
    /// An address of this host, of its network or of its provider, with the name of the range. An operator may
    /// open these.
    Private(&'static str),
    /// An address that is never one peer's: nobody can open these.
    Never(&'static str),
}

/// The scope of an address.
pub(super) fn scope(address: IpAddr) -> Scope {
    match address {
        IpAddr::V4(address) => scope_v4(address),
        IpAddr::V6(address) => scope_v6(address),
    }
}

fn scope_v4(address: Ipv4Addr) -> Scope {
    use Scope::{Never, Private, Public};
    match address.octets() {
        // Linux connects to the loopback interface for 0.0.0.0, so it would be a second name of it.
        [0, ..] => Never("unspecified"),
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => Private("private"),
        [100, 64..=127, ..] => Private("shared (carrier-grade NAT)"),
        [127, ..] => Private("loopback"),
        [169, 254, ..] => Private("link-local"),
        // The agent of one large cloud answers every virtual machine here.
        [168, 63, 129, 16] => Private("cloud platform"),
        [192, 0, 0, _] => Private("protocol assignment"),
        [192, 0, 2, _] | [198, 51, 100, _] | [203, 0, 113, _] => Private("documentation"),
        [192, 88, 99, _] => Private("6to4 relay"),
        [198, 18..=19, ..] => Private("benchmarking"),
        [224..=239, ..] => Never("multicast"),
        [240..=255, ..] => Never("reserved or broadcast"),
        _ => Public,
    }
}

fn scope_v6(address: Ipv6Addr) -> Scope {
    use Scope::{Never, Private, Public};
    match address.segments() {
        [0, 0, 0, 0, 0, 0, 0, 0] => Never("unspecified"),
        [0, 0, 0, 0, 0, 0, 0, 1] => Private("loopback"),
        [0, 0, 0, 0, 0, 0xffff, ..] => match scope_v4(low_v4(address)) {
            never @ Never(_) => never,
            _ => Private("IPv4-mapped"),
        },
        // How a host without IPv4 reaches the IPv4 internet: as public as the address inside.
        [0x64, 0xff9b, 0, 0, 0, 0, _, _] => scope_v4(low_v4(address)),
        [0xff00..=0xffff, ..] => Never("multicast"),
        [0xfc00..=0xfdff, ..] => Private("unique local"),
        [0xfe80..=0xfebf, ..] => Private("link-local"),
        [0xfec0..=0xfeff, ..] => Private("site-local"),
        [0x2001, 0x0db8, ..] | [0x3fff, 0..=0x0fff, ..] => Private("documentation"),
        [0x2001, 0..=0x01ff, ..] => Private("protocol assignment"),
        [0x2002, ..] => Private("6to4"),
        [0x2000..=0x3fff, ..] => Public,
        _ => Private("reserved"),
    }
}

/// The IPv4 address in the last 32 bits.
fn low_v4(address: Ipv6Addr) -> Ipv4Addr {
    let [.., a, b, c, d] = address.octets();
    Ipv4Addr::new(a, b, c, d)
}
