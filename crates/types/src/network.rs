//! Parses the IP networks in egress rules.

use std::net::IpAddr;

use ipnet::IpNet;
use serde::{Deserialize, Deserializer};

/// Parses a network such as `10.0.0.0/8`. An address without a prefix length is the network with only this address.
pub fn parse_network(text: &str) -> Result<IpNet, String> {
    let address = || text.parse::<IpAddr>().map(IpNet::from);
    text.parse()
        .or_else(|_| address())
        .map_err(|_| format!("must be a network such as `10.0.0.0/8` or an address such as `10.0.0.1`, got `{text}`"))
}

/// Deserializes a list of networks with [`parse_network`], for `deserialize_with`. `null` is an empty list.
pub fn null_or_networks<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<IpNet>, D::Error> {
    let texts: Option<Vec<String>> = Option::deserialize(d)?;
    texts
        .unwrap_or_default()
        .iter()
        .map(|text| parse_network(text))
        .collect::<Result<_, _>>()
        .map_err(serde::de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_without_a_prefix_length_is_a_network_with_one_address() {
        for (text, network) in
            [("127.0.0.1", "127.0.0.1/32"), ("::1", "::1/128"), ("10.0.0.0/8", "10.0.0.0/8"), ("fd00::/8", "fd00::/8")]
        {
            assert_eq!(parse_network(text).unwrap().to_string(), network);
        }
        for text in ["", "localhost", "10.0.0.0/33", "10.0.0"] {
            assert!(parse_network(text).unwrap_err().contains("`10.0.0.0/8`"), "{text}");
        }
    }
}
