//! Networks from which a user may connect: addresses with a length of prefix.

use std::net::IpAddr;

/// An address and how many of its leading bits count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    prefix: u32,
}

impl Network {
    /// Reads `10.0.0.0/8` or `fd00::/8`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (address, prefix) = text.split_once('/')?;
        let address: IpAddr = address.parse().ok()?;
        let is_number = !prefix.is_empty() && prefix.bytes().all(|b| b.is_ascii_digit());
        let prefix: u32 = prefix.parse().ok().filter(|_| is_number)?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        (prefix <= bits).then_some(Self { address, prefix })
    }

    /// Whether `address` is in it. An IPv4 address in the clothes of IPv6 is one of IPv4.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address.to_canonical(), address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let prefix =
                    if self.address.is_ipv6() { self.prefix.saturating_sub(96) } else { self.prefix };
                let drop = 32 - prefix;
                let cut = |address: std::net::Ipv4Addr| u32::from(address).checked_shr(drop).unwrap_or(0);
                cut(own) == cut(other)
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let drop = 128 - self.prefix;
                let cut = |address: std::net::Ipv6Addr| u128::from(address).checked_shr(drop).unwrap_or(0);
                cut(own) == cut(other)
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leading_bits_count() {
        for (network, address, inside) in [
            ("10.0.0.0/8", "10.9.8.7", true),
            ("10.0.0.0/8", "11.0.0.0", false),
            ("10.1.2.3/32", "10.1.2.3", true),
            ("10.1.2.3/32", "10.1.2.4", false),
            ("0.0.0.0/0", "1.2.3.4", true),
            ("0.0.0.0/0", "::1", false),
            ("127.0.0.1/32", "::ffff:127.0.0.1", true),
            ("fd00::/8", "fd12::1", true),
            ("fd00::/8", "fe80::1", false),
            ("::/0", "fe80::1", true),
            ("::1/128", "127.0.0.1", false),
        ] {
            let parsed = Network::parse(network).unwrap();
            assert_eq!(parsed.contains(address.parse().unwrap()), inside, "{address} in {network}");
        }
    }

    #[test]
    fn what_is_no_network_is_refused() {
        for text in ["", "1.2.3.4", "1.2.3.4/", "1.2.3.4/33", "::/129", "1.2.3/8", "x/8", "1.2.3.4/+8", "/8"]
        {
            assert_eq!(Network::parse(text), None, "{text}");
        }
    }
}
