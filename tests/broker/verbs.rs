//! What each verb is on the wire.

use std::cell::RefCell;
use std::rc::Rc;

use rmq_watcher::domain::connection::AmqpSettings;
use rmq_watcher::domain::ids::DeliveryTag;
use rmq_watcher::ports::{Consumer, Settled, Settler, Verb};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::harness::{next, run};
use crate::stage::{Stage, declare};
use crate::support::{Broker, BrokerVersion, QueueKind, ports};

/// A settling method as the broker reads it.
#[derive(Debug, PartialEq, Eq)]
enum Frame {
    Ack { tag: u64, multiple: bool },
    Reject { tag: u64, requeue: bool },
    Nack { tag: u64, multiple: bool, requeue: bool },
}

#[test]
fn real_each_verb_is_one_method_of_its_own_on_the_wire() {
    for version in BrokerVersion::ALL {
        for kind in [QueueKind::Classic, QueueKind::Quorum] {
            run(each_verb(version, kind));
        }
    }
}

async fn each_verb(version: BrokerVersion, kind: QueueKind) {
    let node = Broker::shared(version);
    let tap = Tap::to(node.address().port());
    let queue = declare(&node, kind, Value::Null);
    let at = Stage::at(node, queue).await.with(|settings| AmqpSettings { port: tap.port, ..settings });
    at.publish_numbers(2).await;
    let mut consumer = at.attach(2).await;
    let settler = consumer.settler();
    let verbs = [Verb::GiveBackTried, Verb::GiveBackUntried, Verb::DeadLetter, Verb::Ack];
    let mut tags = Vec::new();
    for verb in verbs {
        let DeliveryTag(tag) = next(&mut consumer).await.tag;
        assert_eq!(settler.settle(DeliveryTag(tag), verb).await, Settled::Sent);
        tags.push(tag);
    }
    assert!(settler.barrier().await);
    let [tried, untried, dead, ack] = tags[..] else { panic!("{tags:?}") };
    assert_eq!(
        tap.settlements(),
        [
            Frame::Reject { tag: tried, requeue: true },
            Frame::Nack { tag: untried, multiple: false, requeue: true },
            Frame::Reject { tag: dead, requeue: false },
            Frame::Ack { tag: ack, multiple: false },
        ],
        "{version:?} {kind:?}"
    );
}

/// A way to a server that keeps what clients say.
struct Tap {
    port: u16,
    said: Rc<RefCell<Vec<u8>>>,
}

impl Tap {
    /// It serves one connection, until its `LocalSet` ends.
    fn to(server: u16) -> Self {
        let listener = ports::listen();
        listener.set_nonblocking(true).unwrap();
        let (port, said) = (listener.local_addr().unwrap().port(), Rc::<RefCell<Vec<u8>>>::default());
        let listener = TcpListener::from_std(listener).unwrap();
        let heard = Rc::clone(&said);
        tokio::task::spawn_local(async move {
            let (near, _) = listener.accept().await.unwrap();
            let far = TcpStream::connect(("127.0.0.1", server)).await.unwrap();
            let (mut from_client, mut to_client) = near.into_split();
            let (mut from_server, mut to_server) = far.into_split();
            tokio::task::spawn_local(async move { tokio::io::copy(&mut from_server, &mut to_client).await });
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = from_client.read(&mut bytes).await {
                heard.borrow_mut().extend(&bytes[..count]);
                if to_server.write_all(&bytes[..count]).await.is_err() {
                    return;
                }
            }
        });
        Self { port, said }
    }

    /// Every settling method so far.
    fn settlements(&self) -> Vec<Frame> {
        let said = self.said.borrow();
        let (mut rest, mut found) = (&said[b"AMQP\0\0\x09\x01".len()..], Vec::new());
        while rest.len() > 7 {
            let size = u32::from_be_bytes(rest[3..7].try_into().unwrap()) as usize;
            found.extend((rest[0] == 1).then(|| settlement(&rest[7..7 + size])).flatten());
            rest = &rest[7 + size + 1..];
        }
        found
    }
}

fn settlement(method: &[u8]) -> Option<Frame> {
    let (class, id) =
        (u16::from_be_bytes(method[..2].try_into().unwrap()), u16::from_be_bytes(method[2..4].try_into().unwrap()));
    let tag = || u64::from_be_bytes(method[4..12].try_into().unwrap());
    let bit = |n: u8| method[12] >> n & 1 == 1;
    match (class, id) {
        (60, 80) => Some(Frame::Ack { tag: tag(), multiple: bit(0) }),
        (60, 90) => Some(Frame::Reject { tag: tag(), requeue: bit(0) }),
        (60, 120) => Some(Frame::Nack { tag: tag(), multiple: bit(0), requeue: bit(1) }),
        _ => None,
    }
}
