//! From host names to addresses, side by side.
//!
//! Serves one attempt to connect. A look-up cannot be ended: where a resolver hangs, its thread waits on, and only the waiting
//! for it is bounded here. Invariant: with several hosts, those that resolve are left at least half of the attempt's time,
//! whatever the look-ups of the others do.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};

use futures_util::future::join_all;
use tokio::time::{Instant, timeout_at};

use super::fault::{self, Place, Step};
use crate::domain::connection::AmqpSettings;
use crate::domain::fault::BrokerFault;

/// The addresses of each host, in the order of the hosts, or why there are none.
pub(super) async fn addresses(
    settings: &AmqpSettings,
    deadline: Instant,
) -> Vec<Result<Vec<(String, SocketAddr)>, BrokerFault>> {
    let look_up = async |host: &str| Ok(tokio::net::lookup_host((host, settings.port)).await?.collect());
    addresses_by(settings, deadline, look_up).await
}

async fn addresses_by<'a, F: Future<Output = io::Result<Vec<SocketAddr>>>>(
    settings: &'a AmqpSettings,
    deadline: Instant,
    look_up: impl Fn(&'a str) -> F,
) -> Vec<Result<Vec<(String, SocketAddr)>, BrokerFault>> {
    let began = Instant::now();
    let left = deadline.saturating_duration_since(began);
    let share = if settings.hosts.len() > 1 { left / 2 } else { left };
    let of_host = async |host: &'a String| {
        let found = match host.parse::<IpAddr>() {
            Ok(ip) => Ok(Ok(vec![SocketAddr::new(ip, settings.port)])),
            Err(_) => timeout_at(began + share, look_up(host)).await,
        };
        let place = Place::new(settings, host);
        match found {
            Ok(Ok(list)) => Ok(list.into_iter().map(|address| (host.clone(), address)).collect()),
            Ok(Err(error)) => Err(fault::resolve(&place, &error)),
            Err(_) => Err(fault::connect_timed_out(&place, Step::Resolve, share)),
        }
    };
    join_all(settings.hosts.iter().map(of_host)).await
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::domain::connection::Secret;
    use crate::domain::fault::BrokerFaultKind;
    use crate::domain::ids::ConnId;

    fn settings(hosts: &[&str]) -> AmqpSettings {
        AmqpSettings {
            conn_id: ConnId::new("c"),
            hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
            port: 5672,
            login: "user".to_owned(),
            password: Secret::new("secret"),
            vhost: "/".to_owned(),
            tls: None,
            heartbeat_secs: 30,
            connect_timeout: Duration::from_secs(10),
            rpc_timeout: Duration::from_secs(5),
            management_url: None,
        }
    }

    /// A resolver in which `hung` never answers, `slow` takes 3 s, `none` does not exist.
    async fn look_up(host: &str) -> io::Result<Vec<SocketAddr>> {
        match host {
            "hung" => std::future::pending().await,
            "none" => Err(io::Error::other("no such name")),
            host => {
                if host.starts_with("slow") {
                    tokio::time::sleep(Duration::from_secs(3)).await;
                }
                Ok(vec![SocketAddr::from(([192, 0, 2, 1], 5672))])
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_name_that_hangs_leaves_the_other_hosts_half_of_the_time() {
        let settings = settings(&["hung", "slow1", "none", "slow2", "::1"]);
        let began = Instant::now();
        let found = addresses_by(&settings, began + Duration::from_secs(10), look_up).await;
        assert_eq!(began.elapsed(), Duration::from_secs(5));
        let hung = found[0].as_ref().unwrap_err();
        assert_eq!(hung.kind, BrokerFaultKind::TimedOut);
        assert!(hung.text.contains("hung") && hung.text.contains("not resolved within 5 s"), "{}", hung.text);
        assert_eq!(found[1].as_ref().unwrap()[0].0, "slow1");
        assert_eq!(found[2].as_ref().unwrap_err().kind, BrokerFaultKind::Unreachable);
        assert_eq!(found[3].as_ref().unwrap()[0].0, "slow2");
        assert!(found[4].as_ref().unwrap()[0].1.is_ipv6());
    }

    #[tokio::test(start_paused = true)]
    async fn names_are_looked_up_side_by_side_and_a_single_one_has_all_the_time() {
        let began = Instant::now();
        let several = settings(&["slow1", "slow2", "slow3", "slow4"]);
        let found = addresses_by(&several, began + Duration::from_secs(10), look_up).await;
        assert!(found.iter().all(Result::is_ok));
        assert_eq!(began.elapsed(), Duration::from_secs(3));
        let began = Instant::now();
        let found = addresses_by(&settings(&["hung"]), began + Duration::from_secs(10), look_up).await;
        assert!(found[0].is_err());
        assert_eq!(began.elapsed(), Duration::from_secs(10));
    }
}
