//! The addresses and the protocol of a master, as the operator gives them and as its directory keeps them.

use std::net::Ipv6Addr;
use std::path::Path;
use std::str::FromStr;
use std::{fs, io};

use pccl_master::{Address, AddressError, Via};

/// A file of the master's directory: one line for the protocol, and one for each address.
const FILE: &str = "advertised";

/// A host with or without a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Advertised {
    /// A host with a port.
    Complete(Address),
    /// A host without a port. The port is the one on which the master listens.
    Host(String),
}

impl Advertised {
    /// The address, with this port if it has none.
    pub(crate) fn or_port(&self, port: u16) -> Result<Address, AddressError> {
        match self {
            Self::Complete(address) => Ok(address.clone()),
            Self::Host(host) => format!("{host}:{port}").parse(),
        }
    }

    /// All addresses, with this port for those that have none.
    pub(crate) fn all_or_port(all: &[Self], port: u16) -> Result<Vec<Address>, AddressError> {
        all.iter().map(|one| one.or_port(port)).collect()
    }
}

impl FromStr for Advertised {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        if let Ok(ip) = text.parse::<Ipv6Addr>() {
            return Ok(Self::Host(format!("[{ip}]")));
        }
        match text.parse() {
            Ok(address) => Ok(Self::Complete(address)),
            Err(AddressError::Port) if !text.contains(':') || text.ends_with(']') => {
                let host = Self::Host(text.into());
                host.or_port(1).map(|_| host)
            }
            Err(error) => Err(error),
        }
    }
}

/// Stores protocol and addresses in the directory, for invitations that are made there. The file is replaced
/// atomically.
pub(crate) fn remember(directory: &Path, via: Via, addresses: &[Address]) -> io::Result<()> {
    let addresses = addresses.iter().map(ToString::to_string);
    let lines: Vec<String> = std::iter::once(via.to_string()).chain(addresses).collect();
    let draft = directory.join(format!("{FILE}.draft"));
    fs::write(&draft, lines.join("\n") + "\n")?;
    fs::rename(&draft, directory.join(FILE))
}

/// What was stored last. Empty if nothing was stored, or the file cannot be parsed.
pub(crate) fn recall(directory: &Path) -> (Option<Via>, Vec<Address>) {
    let text = fs::read_to_string(directory.join(FILE)).unwrap_or_default();
    let via = text.lines().find_map(|line| line.parse().ok());
    let addresses = text.lines().filter_map(|line| line.parse().ok());
    (via, addresses.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> String {
        let advertised: Advertised = text.parse().unwrap();
        advertised.or_port(7).unwrap().to_string()
    }

    #[test]
    fn a_host_without_a_port_is_reached_where_the_master_listens() {
        let cases = [
            ("master.example", "master.example:7"),
            ("master.example:9", "master.example:9"),
            ("192.0.2.7", "192.0.2.7:7"),
            ("192.0.2.7:9", "192.0.2.7:9"),
            ("2001:db8::7", "[2001:db8::7]:7"),
            ("[2001:db8::7]", "[2001:db8::7]:7"),
            ("[2001:db8::7]:9", "[2001:db8::7]:9"),
        ];
        for (text, expected) in cases {
            assert_eq!(at(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_host_is_refused() {
        for nonsense in ["", "a b", "host:", "host:0", "host:99999", "hö", "[host]"] {
            assert!(
                nonsense.parse::<Advertised>().is_err(),
                "{nonsense:?} was taken"
            );
        }
    }
}
