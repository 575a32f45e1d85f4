//! A publisher that writes AMQP frames by hand: for messages that no well-behaved client library would send.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use super::Broker;

/// Property flags (AMQP 0-9-1, class basic), highest bit first.
pub const HEADERS: u16 = 1 << 13;
pub const CONTENT_ENCODING: u16 = 1 << 14;
pub const DELIVERY_MODE: u16 = 1 << 12;
pub const CORRELATION_ID: u16 = 1 << 10;
pub const MESSAGE_ID: u16 = 1 << 7;
pub const TYPE: u16 = 1 << 5;

pub fn short(bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![u8::try_from(bytes.len()).unwrap()];
    out.extend(bytes);
    out
}

pub fn long(bytes: &[u8]) -> Vec<u8> {
    let mut out = u32::try_from(bytes.len()).unwrap().to_be_bytes().to_vec();
    out.extend(bytes);
    out
}

fn frame(kind: u8, channel: u16, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![kind];
    out.extend(channel.to_be_bytes());
    out.extend(long(payload));
    out.push(0xce);
    out
}

fn method(class: u16, id: u16, arguments: &[u8]) -> Vec<u8> {
    let mut payload = class.to_be_bytes().to_vec();
    payload.extend(id.to_be_bytes());
    payload.extend(arguments);
    payload
}

/// A connection with a channel on which the broker confirms what is published.
pub struct Publisher(TcpStream);

impl Publisher {
    /// Connects to a broker's virtual host.
    ///
    /// # Panics
    /// If it cannot, or is refused.
    pub fn open(node: &Broker) -> Self {
        let mut raw = Self(TcpStream::connect(node.address()).unwrap());
        raw.0.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        raw.0.write_all(b"AMQP\x00\x00\x09\x01").unwrap();
        raw.expect(10, 10);
        let login = [long(b""), short(b"PLAIN"), long(b"\0guest\0guest"), short(b"en_US")].concat();
        raw.send(0, 10, 11, &login);
        raw.expect(10, 30);
        raw.send(0, 10, 31, &[0x07, 0xff, 0, 2, 0, 0, 0, 0]);
        raw.send(0, 10, 40, &[short(node.vhost().as_bytes()), vec![0, 0]].concat());
        raw.expect(10, 41);
        raw.send(1, 20, 10, &[0]);
        raw.expect(20, 11);
        raw.send(1, 85, 10, &[0]);
        raw.expect(85, 11);
        raw
    }

    /// Publishes one message to a queue over the default exchange and waits until the broker has it. `properties` are the
    /// values for the set `flags`, in order.
    ///
    /// # Panics
    /// If the broker closes the channel or the connection over it.
    pub fn publish(&mut self, queue: &str, flags: u16, properties: &[u8], body: &[u8]) {
        self.try_publish(queue, flags, properties, body).expect("the broker takes it");
    }

    /// The same for a message that the broker may refuse.
    ///
    /// # Errors
    /// What the broker closed the channel or the connection with, or how the connection ended.
    pub fn try_publish(&mut self, queue: &str, flags: u16, properties: &[u8], body: &[u8]) -> Result<(), String> {
        self.send(1, 60, 40, &[vec![0, 0], short(b""), short(queue.as_bytes()), vec![0]].concat());
        let mut header = vec![0, 60, 0, 0];
        header.extend((body.len() as u64).to_be_bytes());
        header.extend(flags.to_be_bytes());
        header.extend(properties);
        self.0.write_all(&frame(2, 1, &header)).unwrap();
        for part in body.chunks(100_000) {
            self.0.write_all(&frame(3, 1, part)).unwrap();
        }
        self.wait_for(60, 80)
    }

    fn send(&mut self, channel: u16, class: u16, id: u16, arguments: &[u8]) {
        self.0.write_all(&frame(1, channel, &method(class, id, arguments))).unwrap();
    }

    fn expect(&mut self, class: u16, id: u16) {
        self.wait_for(class, id).expect("the broker goes on");
    }

    /// Reads frames until this method comes.
    fn wait_for(&mut self, class: u16, id: u16) -> Result<(), String> {
        loop {
            let mut head = [0; 7];
            self.0.read_exact(&mut head).map_err(|error| error.to_string())?;
            let size = u32::from_be_bytes([head[3], head[4], head[5], head[6]]);
            let mut rest = vec![0; size as usize + 1];
            self.0.read_exact(&mut rest).unwrap();
            if head[0] != 1 {
                continue;
            }
            let found = (u16::from_be_bytes([rest[0], rest[1]]), u16::from_be_bytes([rest[2], rest[3]]));
            if found == (class, id) {
                return Ok(());
            }
            if matches!(found, (10, 50) | (20, 40)) {
                return Err(String::from_utf8_lossy(&rest).into_owned());
            }
        }
    }
}

/// Publishes one message over a connection of its own.
///
/// # Panics
/// As [`Publisher`].
pub fn publish(node: &Broker, queue: &str, flags: u16, properties: &[u8], body: &[u8]) {
    Publisher::open(node).publish(queue, flags, properties, body);
}
