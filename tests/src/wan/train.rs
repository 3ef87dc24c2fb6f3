//! Many packets of a connection that a kernel hands over as one, and takes as one: the header of the first
//! and the payload of all. A kernel does for a large packet what it does for a small one, so this is what
//! makes the wire fast. Each packet of a train has a fate of its own; what arrives together is a shorter train.
//!
//! In front of it is what Linux' `virtio_net.h` describes, in the byte order of the machine: ten bytes that say
//! how to cut it into packets, and where a checksum has to be computed.

use std::ops::Range;

use super::packet::{TCP, UDP};
use super::resets::checksum;

/// Bytes in front of every packet.
pub const FRONT: usize = 10;

/// Room for the headers of a train, with the bytes in front.
pub const HEADERS_MAX: usize = FRONT + 120;

/// What is read at once at most.
pub const TRAIN_MAX: usize = FRONT + 65_535;

const NEEDS_CHECKSUM: u8 = 1;
const OF_TCP: u8 = 1;
const OF_UDP: u8 = 5;
/// A bit beside the others: the first packet tells of congestion.
const ECN: u8 = 0x80;

/// How a train is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Train {
    /// Bytes of the headers of IP and of what is on it.
    headers: usize,
    /// Bytes of the header of IP alone.
    ip: usize,
    /// Bytes of payload of each packet but the last.
    step: usize,
    /// Bytes of payload of all.
    payload: usize,
}

impl Train {
    /// Reads it from what a device gave. None if it is no packet of IPv4, or not what it says of itself.
    pub fn of(read: &[u8]) -> Option<Self> {
        let (front, packet) = read.split_first_chunk::<FRONT>()?;
        let ip = usize::from(packet.first()? & 15) * 4;
        if packet.first()? >> 4 != 4 || packet.len() < ip.max(20) {
            return None;
        }
        let above = match (front[1] & !ECN, packet.get(9)?) {
            (0, _) => {
                return Some(Self {
                    headers: packet.len(),
                    ip,
                    step: 0,
                    payload: 0,
                });
            }
            (OF_TCP, &TCP) => usize::from(packet.get(ip + 12)? >> 4) * 4,
            (OF_UDP, &UDP) => 8,
            (_, _) => return None,
        };
        let headers = ip + above;
        let step = usize::from(u16::from_ne_bytes([front[4], front[5]]));
        let payload = packet.len().checked_sub(headers)?;
        let is_one = step > 0 && payload > 0 && headers <= HEADERS_MAX - FRONT;
        is_one.then_some(Self {
            headers,
            ip,
            step,
            payload,
        })
    }

    /// Its packets.
    pub fn packets(&self) -> usize {
        match self.step {
            0 => 1,
            step => self.payload.div_ceil(step),
        }
    }

    /// Bytes of one of them, with its headers.
    pub fn bytes(&self, packet: usize) -> usize {
        self.headers + self.payload_of(packet..packet + 1).len()
    }

    /// Where the payload of some of them is, from the beginning of the payload of all.
    fn payload_of(&self, packets: Range<usize>) -> Range<usize> {
        let at = |packet: usize| (packet * self.step).min(self.payload);
        at(packets.start)..at(packets.end)
    }

    /// Writes the headers of a train of some of its packets, and says where in `read` their payload is: both
    /// one after the other are what a device takes. `read` is what the train was read from.
    pub fn part(
        &self,
        read: &[u8],
        packets: Range<usize>,
        headers: &mut [u8; HEADERS_MAX],
    ) -> (usize, Range<usize>) {
        let length = FRONT + self.headers;
        let payload = self.payload_of(packets.clone());
        let place = length + payload.start..length + payload.end;
        if self.step == 0 || packets == (0..self.packets()) {
            // As it came.
            return (0, 0..read.len());
        }
        headers[..length].copy_from_slice(&read[..length]);
        self.rewrite(&mut headers[..length], packets, payload);
        (length, place)
    }

    /// Makes the headers of all those of some.
    fn rewrite(&self, headers: &mut [u8], packets: Range<usize>, payload: Range<usize>) {
        let (front, head) = headers.split_at_mut(FRONT);
        front[0] |= NEEDS_CHECKSUM;
        if packets.len() == 1 {
            // Kind and step: it is no train any more.
            front[1] = 0;
            front[4..6].fill(0);
        } else if packets.start > 0 {
            front[1] &= !ECN;
        }
        let add = |bytes: &mut [u8], more: usize| {
            let number = u16::from_be_bytes([bytes[0], bytes[1]]).wrapping_add(more as u16);
            bytes[..2].copy_from_slice(&number.to_be_bytes());
        };
        let total = self.headers + payload.len();
        head[2..4].copy_from_slice(&(total as u16).to_be_bytes());
        add(&mut head[4..6], packets.start);
        head[10..12].fill(0);
        let sum = checksum(head[..self.ip].iter().copied());
        head[10..12].copy_from_slice(&sum.to_be_bytes());
        let above = total - self.ip;
        let [high, low] = (above as u16).to_be_bytes();
        let pseudo = [0, head[9], high, low];
        let pseudo = !checksum(head[12..20].iter().copied().chain(pseudo));
        let is_last = packets.end == self.packets();
        if head[9] == TCP {
            let head = &mut head[self.ip..];
            let number = u32::from_be_bytes([head[4], head[5], head[6], head[7]]);
            let number = number.wrapping_add(payload.start as u32);
            head[4..8].copy_from_slice(&number.to_be_bytes());
            // The first one tells that the window was cut, the last one of an end and to hand on.
            head[13] &= !(if packets.start > 0 { CWR } else { 0 });
            head[13] &= !(if is_last { 0 } else { FIN | PSH });
            head[16..18].copy_from_slice(&pseudo.to_be_bytes());
        } else {
            let head = &mut head[self.ip..];
            head[4..6].copy_from_slice(&[high, low]);
            head[6..8].copy_from_slice(&pseudo.to_be_bytes());
        }
    }
}

const FIN: u8 = 1;
const PSH: u8 = 8;
const CWR: u8 = 0x80;

#[cfg(test)]
mod tests {
    use super::*;

    /// Payload of each packet but the last.
    const STEP: usize = 1000;

    /// A train of TCP with so much payload, each byte of it another than its neighbours.
    fn train(payload: usize) -> Vec<u8> {
        let mut read = vec![0; FRONT + 52];
        read[..FRONT].copy_from_slice(&[NEEDS_CHECKSUM, OF_TCP, 52, 0, 0, 0, 20, 0, 16, 0]);
        read[4..6].copy_from_slice(&(STEP as u16).to_ne_bytes());
        let head = &mut read[FRONT..];
        head[0] = 0x45;
        head[2..4].copy_from_slice(&((52 + payload) as u16).to_be_bytes());
        head[4..6].copy_from_slice(&7_u16.to_be_bytes());
        head[9] = TCP;
        head[12..20].copy_from_slice(&[10, 77, 0, 1, 10, 77, 0, 2]);
        head[24..28].copy_from_slice(&(u32::MAX - 500).to_be_bytes());
        head[32] = 8 << 4;
        head[33] = CWR | FIN | PSH | 16;
        read.extend((0..payload).map(|at| at as u8));
        read
    }

    fn part(read: &[u8], packets: Range<usize>) -> Vec<u8> {
        let mut headers = [0; HEADERS_MAX];
        let (length, place) = Train::of(read).unwrap().part(read, packets, &mut headers);
        [&headers[..length], &read[place]].concat()
    }

    #[test]
    fn a_train_is_so_many_packets_and_the_last_one_is_shorter() {
        let train = Train::of(&train(2500)).unwrap();

        assert_eq!(train.packets(), 3);
        assert_eq!(
            [0, 1, 2].map(|packet| train.bytes(packet)),
            [1052, 1052, 552]
        );
    }

    #[test]
    fn all_of_it_is_what_it_was() {
        let read = train(2500);

        assert_eq!(part(&read, 0..3), read);
    }

    #[test]
    fn a_part_is_a_train_of_its_own_with_the_numbers_of_its_first_packet() {
        let read = train(3500);

        let middle = part(&read, 1..3);

        let cut = Train::of(&middle).unwrap();
        assert_eq!((cut.packets(), cut.bytes(0)), (2, 1052));
        let head = &middle[FRONT..];
        assert_eq!(u16::from_be_bytes([head[2], head[3]]), 2052);
        assert_eq!(u16::from_be_bytes([head[4], head[5]]), 8);
        assert_eq!(checksum(head[..20].iter().copied()), 0);
        // Numbers begin anew behind the last one.
        assert_eq!(head[24..28], 499_u32.to_be_bytes());
        assert_eq!(head[33], 16);
        assert_eq!(middle[FRONT + 52..], read[FRONT + 1052..FRONT + 3052]);
    }

    #[test]
    fn a_packet_by_itself_is_no_train() {
        let read = train(2500);

        let last = part(&read, 2..3);

        assert_eq!(last[..2], [NEEDS_CHECKSUM, 0]);
        assert_eq!(last[4..6], [0, 0]);
        assert_eq!(last[FRONT + 33], FIN | PSH | 16);
        assert_eq!(Train::of(&last).unwrap().packets(), 1);
        assert_eq!(Train::of(&last).unwrap().bytes(0), 552);
        let first = part(&read, 0..1);
        assert_eq!(first[FRONT + 33], CWR | 16);
    }

    #[test]
    fn parts_together_carry_every_byte_once() {
        let read = train(64_000);
        for cut in 1..64 {
            let (one, other) = (part(&read, 0..cut), part(&read, cut..64));
            let payload = [&one[FRONT + 52..], &other[FRONT + 52..]].concat();
            assert_eq!(payload, read[FRONT + 52..]);
        }
    }

    #[test]
    fn the_checksum_that_is_left_to_compute_begins_with_addresses_and_length() {
        let read = train(2500);

        let part = part(&read, 0..2);

        // What RFC 9293 has in front of a segment of 2032 bytes, summed by hand.
        let sum: u32 = [0x0a4d, 1, 0x0a4d, 2, 6, 2032].iter().sum();
        let head = &part[FRONT..];
        assert_eq!(u32::from(u16::from_be_bytes([head[36], head[37]])), sum);
    }

    #[test]
    fn what_is_no_train_is_refused_or_one_packet() {
        let mut read = train(2500);
        read[1] = 4;
        assert_eq!(Train::of(&read), None);
        read[1] = OF_TCP;
        read[FRONT] = 0x65;
        assert_eq!(Train::of(&read), None);
        assert_eq!(Train::of(&train(0)), None);
        assert_eq!(Train::of(&read[..20]), None);
        let mut plain = train(100);
        plain[1] = 0;
        assert_eq!(Train::of(&plain).unwrap().packets(), 1);
        assert_eq!(Train::of(&plain).unwrap().bytes(0), 152);
    }
}
