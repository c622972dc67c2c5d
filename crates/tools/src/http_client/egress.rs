//! The egress rules. Connections to private, loopback and link-local addresses are denied, unless they belong to an
//! allowed network.
//!
//! The resolver checks the same addresses that the connection uses, so DNS rebinding cannot bypass the rules. IP
//! addresses in URLs never reach a resolver. They are checked before each request and each redirect.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use futures::future::BoxFuture;
use ipnet::IpNet;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::{Host, Url};

/// A connection that the egress rules deny.
#[derive(Debug, Clone, thiserror::Error)]
#[error(
    "`{host}` is {address}, which is not a public address; list its network in the provider's `egressAllow` or in TOOLWRIGHT_EGRESS_ALLOW to permit it"
)]
pub struct EgressDenied {
    /// The requested host.
    pub host: String,
    /// The address of the host.
    pub address: IpAddr,
}

/// Egress rules. They allow public addresses, and the addresses of the networks in `allow`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct EgressPolicy {
    allow: Vec<IpNet>,
}

impl EgressPolicy {
    /// Returns rules that allow public addresses and the networks in `allow`.
    pub fn allowing(allow: impl IntoIterator<Item = IpNet>) -> Self {
        Self { allow: allow.into_iter().collect() }
    }

    /// Returns rules that allow every address, for targets that the operator configured.
    pub fn unrestricted() -> Self {
        let any = |zero: IpAddr| IpNet::new(zero, 0).ok();
        let all = [any(IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED)), any(IpAddr::V6(std::net::Ipv6Addr::UNSPECIFIED))];
        Self::allowing(all.into_iter().flatten())
    }

    /// Returns a copy of these rules that also allows the networks in `more`.
    pub fn with_networks(&self, more: &[IpNet]) -> Self {
        Self { allow: self.allow.iter().chain(more).copied().collect() }
    }

    /// Whether a connection to `address` is allowed.
    pub fn permits(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        is_public(address) || self.allow.iter().any(|net| net.contains(&address))
    }

    /// Rejects a URL whose host is an IP address that the rules deny.
    pub fn check_literal(&self, url: &Url) -> Result<(), EgressDenied> {
        let address = match url.host() {
            Some(Host::Ipv4(address)) => IpAddr::V4(address),
            Some(Host::Ipv6(address)) => IpAddr::V6(address),
            _ => return Ok(()),
        };
        if self.permits(address) { Ok(()) } else { Err(EgressDenied { host: address.to_string(), address }) }
    }
}

/// Resolves host names.
pub trait DnsResolver: Send + Sync {
    /// Returns the addresses of `host`.
    fn lookup(&self, host: String) -> BoxFuture<'static, std::io::Result<Vec<IpAddr>>>;
}

/// The resolver of the operating system.
#[derive(Debug, Clone, Copy)]
pub struct SystemDnsResolver;

impl DnsResolver for SystemDnsResolver {
    fn lookup(&self, host: String) -> BoxFuture<'static, std::io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            let addresses = tokio::net::lookup_host((host.as_str(), 0)).await?;
            Ok(addresses.map(|address| address.ip()).collect())
        })
    }
}

/// A resolver that returns allowed addresses only.
pub(super) struct EgressResolver {
    pub resolver: Arc<dyn DnsResolver>,
    pub egress: EgressPolicy,
}

impl Resolve for EgressResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let host = name.as_str().to_owned();
        let found = self.resolver.lookup(host.clone());
        let egress = self.egress.clone();
        Box::pin(async move {
            let (allowed, refused): (Vec<_>, Vec<_>) = found.await?.into_iter().partition(|ip| egress.permits(*ip));
            match (allowed.is_empty(), refused.first()) {
                (true, Some(address)) => Err(EgressDenied { host, address: *address }.into()),
                _ => {
                    let addresses: Addrs = Box::new(allowed.into_iter().map(|ip| SocketAddr::new(ip, 0)));
                    Ok(addresses)
                }
            }
        })
    }
}

fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => is_public_v4(v4),
        IpAddr::V6(v6) => is_public_v6(v6),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let special = address.is_private()
        || address.is_loopback()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_broadcast()
        || address.is_documentation()
        || a == 0
        || a >= 240
        || (a == 100 && (64..128).contains(&b)) // carrier-grade NAT
        || (a == 198 && (b == 18 || b == 19)) // benchmarking
        || (a == 192 && b == 0 && c == 0) // protocol assignments
        || (a == 192 && b == 88 && c == 99); // deprecated 6to4 relays
    !special
}

/// Whether an IPv6 address is public. Apart from NAT64, only global unicast addresses (`2000::/3`) are public. All
/// other ranges are reserved, among them addresses that embed an IPv4 address for a translator of the local network,
/// such as `::ffff:0:127.0.0.1`.
fn is_public_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    // NAT64 and 6to4 addresses embed an IPv4 address. They are public if the embedded address is public.
    let embedded = match segments {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => Some((high, low)),
        [0x2002, high, low, ..] => Some((high, low)),
        _ => None,
    };
    if let Some((high, low)) = embedded {
        let v4 = Ipv4Addr::from((u32::from(high) << 16) | u32::from(low));
        return is_public_v4(v4);
    }
    let [first, second, ..] = segments;
    let special = match (first, second) {
        (0x2001, ..0x0200) => true,                    // Teredo and other special assignments
        (0x2001, 0x0db8) | (0x3fff, ..0x1000) => true, // documentation
        _ => false,
    };
    first & 0xe000 == 0x2000 && !special
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_public_addresses_are_permitted_by_default() {
        let egress = EgressPolicy::default();
        for public in ["1.1.1.1", "93.184.216.34", "172.15.0.1", "172.32.0.1", "2606:4700::1111", "64:ff9b::101:101"] {
            assert!(egress.permits(public.parse().unwrap()), "{public}");
        }
        for special in [
            "127.0.0.1",
            "127.255.0.9",
            "10.1.2.3",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "169.254.169.254",
            "0.0.0.0",
            "100.64.0.1",
            "198.18.0.1",
            "192.0.0.8",
            "224.0.0.1",
            "255.255.255.255",
            "240.0.0.1",
            "192.0.2.1",
            "192.88.99.1",
            "5f00::1",
            "::1",
            "::",
            "fe80::1",
            "fc00::1",
            "fd12::1",
            "ff02::1",
            "fec0::1",
            "2001:db8::1",
            "2001::1",
            "100::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b:1::1",
            "2002:7f00:1::",
            "::7f00:1",
        ] {
            assert!(!egress.permits(special.parse().unwrap()), "{special}");
        }
    }

    /// Tests the first and the last address of every range in the IANA registries of special-purpose addresses, except
    /// the ranges that the registries mark as globally reachable.
    #[test]
    fn ranges_of_the_iana_registries_are_denied() {
        let egress = EgressPolicy::default();
        for range in [
            "0.0.0.0/8",
            "10.0.0.0/8",
            "100.64.0.0/10",
            "127.0.0.0/8",
            "169.254.0.0/16",
            "172.16.0.0/12",
            "192.0.0.0/24",
            "192.0.2.0/24",
            "192.88.99.0/24",
            "192.168.0.0/16",
            "198.18.0.0/15",
            "198.51.100.0/24",
            "203.0.113.0/24",
            "224.0.0.0/4",
            "240.0.0.0/4",
            "255.255.255.255/32",
            "::1/128",
            "::/128",
            "::/96",
            "::ffff:0:0:0/96",
            "64:ff9b:1::/48",
            "100::/64",
            "100:0:0:1::/64",
            "2001::/23",
            "2001::/32",
            "2001:2::/48",
            "2001:10::/28",
            "2001:20::/28",
            "2001:30::/28",
            "2001:db8::/32",
            "3fff::/20",
            "5f00::/16",
            "fc00::/7",
            "fe80::/10",
            "fec0::/10",
            "ff00::/8",
        ] {
            let net: IpNet = range.parse().unwrap();
            let (first, last) = match net {
                IpNet::V4(net) => (IpAddr::V4(net.network()), IpAddr::V4(net.broadcast())),
                IpNet::V6(net) => (IpAddr::V6(net.network()), IpAddr::V6(net.broadcast())),
            };
            assert!(!egress.permits(first) && !egress.permits(last), "{range}");
        }
        // An IPv4-mapped, NAT64 or 6to4 address is denied if its IPv4 address is denied.
        for v4 in ["127.0.0.1", "10.0.0.1", "169.254.169.254", "192.168.0.1"] {
            let [a, b, c, d] = v4.parse::<Ipv4Addr>().unwrap().octets();
            let sixtofour = format!("2002:{a:02x}{b:02x}:{c:02x}{d:02x}::1");
            for address in [format!("::ffff:{v4}"), format!("64:ff9b::{v4}"), format!("::{v4}"), sixtofour] {
                assert!(!egress.permits(address.parse().unwrap()), "{address}");
            }
            assert!(!egress.permits(format!("::ffff:0:{v4}").parse().unwrap()), "{v4}");
        }
        for public in [
            "8.8.8.8",
            "::ffff:8.8.8.8",
            "64:ff9b::8.8.8.8",
            "2001:200::1",
            "2001:db9::1",
            "2a00::1",
            "3fff:1000::1",
            "3ffe::1",
        ] {
            assert!(egress.permits(public.parse().unwrap()), "{public}");
        }
    }

    #[test]
    fn addresses_outside_an_allowed_network_remain_denied() {
        let egress =
            EgressPolicy::allowing(["127.0.0.1/32".parse().unwrap()]).with_networks(&["10.1.0.0/16".parse().unwrap()]);
        assert!(egress.permits("127.0.0.1".parse().unwrap()));
        assert!(egress.permits("::ffff:127.0.0.1".parse().unwrap()));
        assert!(egress.permits("10.1.9.9".parse().unwrap()));
        assert!(!egress.permits("127.0.0.2".parse().unwrap()));
        assert!(!egress.permits("10.2.0.1".parse().unwrap()));
    }

    #[test]
    fn loopback_address_in_any_notation_is_rejected() {
        let egress = EgressPolicy::default();
        for url in [
            "http://2130706433/",
            "http://0x7f.1/",
            "http://127.1/",
            "http://[::1]/",
            "http://[::ffff:7f00:1]/",
            "http://017700000001/",
        ] {
            assert!(egress.check_literal(&Url::parse(url).unwrap()).is_err(), "{url}");
        }
    }
}
