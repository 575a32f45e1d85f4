//! The faulty wire.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use crate::support::{ProxyMode, TcpProxy, ports};

/// A server that sends every byte back.
fn echo() -> std::net::SocketAddr {
    let listener: TcpListener = ports::listen();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut back = stream.try_clone().unwrap();
                std::io::copy(&mut &stream, &mut back).ok();
            });
        }
    });
    address
}

fn client(proxy: &TcpProxy) -> TcpStream {
    let stream = TcpStream::connect(proxy.address()).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    stream
}

fn ask(stream: &mut TcpStream) -> std::io::Result<()> {
    stream.write_all(b"ping")?;
    let mut answer = [0; 4];
    stream.read_exact(&mut answer)?;
    assert_eq!(&answer, b"ping");
    Ok(())
}

#[test]
fn bytes_pass_and_an_orderly_end_stays_orderly() {
    let proxy = TcpProxy::to(echo());
    let mut stream = client(&proxy);
    ask(&mut stream).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0);
    assert_eq!(proxy.accepted(), 1);
}

#[test]
fn frozen_link_is_silent_until_the_wire_passes_again() {
    let proxy = TcpProxy::to(echo());
    let mut stream = client(&proxy);
    ask(&mut stream).unwrap();
    proxy.set(ProxyMode::Freeze);
    stream.write_all(b"ping").unwrap();
    stream.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    let silent = stream.read(&mut [0; 4]).unwrap_err().kind();
    assert!(matches!(silent, ErrorKind::WouldBlock | ErrorKind::TimedOut));
    proxy.set(ProxyMode::Pass);
    stream.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let mut answer = [0; 4];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"ping");
}

#[test]
fn reset_link_ends_with_a_reset_and_new_links_do_too() {
    let proxy = TcpProxy::to(echo());
    let mut stream = client(&proxy);
    ask(&mut stream).unwrap();
    proxy.set(ProxyMode::Reset);
    let kind = stream.read(&mut [0; 4]).unwrap_err().kind();
    assert_eq!(kind, ErrorKind::ConnectionReset);
    let mut late = client(&proxy);
    assert!(ask(&mut late).is_err());
    proxy.set(ProxyMode::Pass);
    ask(&mut client(&proxy)).unwrap();
}
