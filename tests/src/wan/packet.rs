//! What a wire has to know of a packet of IP: where it goes, and which packets belong together with it.

/// Where a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Heading {
    /// The address that it goes to.
    pub to: [u8; 4],
    /// Its protocol and ports: the same for all packets of a connection in one direction.
    pub flow: u64,
}

/// Protocols whose header begins with two ports.
pub(super) const TCP: u8 = 6;
pub(super) const UDP: u8 = 17;

/// Reads a packet of IPv4; nothing else is carried.
pub fn heading(packet: &[u8]) -> Option<Heading> {
    let head: &[u8; 20] = packet.first_chunk()?;
    if head[0] >> 4 != 4 {
        return None;
    }
    let [.., a, b, c, d] = *head;
    let protocol = head[9];
    let rest = packet.get(usize::from(head[0] & 15) * 4..)?;
    let is_first_fragment = u16::from_be_bytes([head[6], head[7]]) & 0x1fff == 0;
    let ports = match (protocol, rest.first_chunk()) {
        (TCP | UDP, Some(ports)) if is_first_fragment => u32::from_be_bytes(*ports),
        (_, _) => 0,
    };
    Some(Heading {
        to: [a, b, c, d],
        flow: u64::from(protocol) << 32 | u64::from(ports),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(protocol: u8) -> Vec<u8> {
        let mut packet = vec![0; 28];
        packet[0] = 0x45;
        packet[9] = protocol;
        packet[16..20].copy_from_slice(&[10, 77, 0, 3]);
        packet[20..24].copy_from_slice(&[0x12, 0x34, 0x00, 0x50]);
        packet
    }

    #[test]
    fn a_packet_says_where_it_goes_and_of_which_connection_it_is() {
        let heading = heading(&packet(TCP)).unwrap();

        assert_eq!(heading.to, [10, 77, 0, 3]);
        assert_eq!(heading.flow, 0x0006_1234_0050);
    }

    #[test]
    fn what_has_no_ports_is_one_flow_per_protocol() {
        assert_eq!(heading(&packet(1)).unwrap().flow, 0x0001_0000_0000);
        let mut fragment = packet(UDP);
        fragment[7] = 9;
        assert_eq!(heading(&fragment).unwrap().flow, 0x0011_0000_0000);
    }

    #[test]
    fn what_is_short_or_of_another_version_has_no_heading() {
        let packet = packet(TCP);
        assert_eq!(heading(&packet[..19]), None);
        let mut six = packet.clone();
        six[0] = 0x60;
        assert_eq!(heading(&six), None);
        let mut long = packet;
        long[0] = 0x4f;
        assert_eq!(heading(&long), None);
    }
}
