//! From Airflow's connections to AMQP settings: defaults, TLS, timing, hosts, doubts.

use std::path::PathBuf;
use std::time::Duration;

use rmq_watcher::config::connections::amqp::AmqpError;
use rmq_watcher::domain::connection::{AmqpSettings, TlsSettings};

use crate::support::settings_of;

fn clean(value: &str) -> AmqpSettings {
    let (settings, warnings) = settings_of(value).unwrap();
    assert!(warnings.is_empty(), "{value}: {warnings:?}");
    settings
}

/// Settings, and the one warning, which must hold `part`.
fn doubted(value: &str, part: &str) -> AmqpSettings {
    let (settings, warnings) = settings_of(value).unwrap();
    assert_eq!(warnings.len(), 1, "{value}: {warnings:?}");
    assert!(warnings[0].contains(part), "{value}: {warnings:?}");
    settings
}

#[test]
fn settings_of_an_empty_connection_are_the_providers_defaults() {
    for value in ["amqp://", "{\"conn_type\":\"generic\"}", "{}", "amqp://@:0/"] {
        let settings = clean(value);
        assert_eq!(settings.hosts, ["localhost"]);
        assert_eq!(settings.port, 5672);
        assert_eq!(settings.login, "guest");
        assert_eq!(settings.password.expose(), "guest");
        assert_eq!(settings.vhost, "/");
        assert_eq!(settings.tls, None);
        assert_eq!(settings.heartbeat_secs, 30);
        assert_eq!(settings.connect_timeout, Duration::from_secs(15));
        assert_eq!(settings.rpc_timeout, Duration::from_secs(30));
        assert_eq!(settings.management_url, None);
    }
}

#[test]
fn settings_take_every_given_field() {
    let settings = clean(
        "amqp://u%40d:p%2Fw@h1,h2:5999/my%2Fvhost?management_url=http%3A%2F%2Fm%3A15672/&heartbeat=10&connect_timeout=2.5&rpc_timeout=7",
    );
    assert_eq!(settings.hosts, ["h1", "h2"]);
    assert_eq!(settings.port, 5999);
    assert_eq!(settings.login, "u@d");
    assert_eq!(settings.password.expose(), "p/w");
    assert_eq!(settings.vhost, "my/vhost");
    assert_eq!(settings.heartbeat_secs, 10);
    assert_eq!(settings.connect_timeout, Duration::from_millis(2500));
    assert_eq!(settings.rpc_timeout, Duration::from_secs(7));
    assert_eq!(settings.management_url.as_deref(), Some("http://m:15672"));
}

#[test]
fn settings_accept_three_types_and_name_any_other() {
    for conn_type in ["amqp", "amqps", "generic", "AMQP"] {
        clean(&format!("{{\"conn_type\":\"{conn_type}\"}}"));
    }
    let error = settings_of("postgresql://h").unwrap_err();
    assert_eq!(error, AmqpError::Type("`postgres`".to_owned()));
    assert!(error.to_string().contains("`postgres`"));
}

#[test]
fn hosts_are_names_or_addresses() {
    for (host, expected) in [
        ("::1", vec!["::1"]),
        ("[::1]", vec!["::1"]),
        ("[::1], h2 ,10.0.0.1,", vec!["::1", "h2", "10.0.0.1"]),
        ("fe80::1%eth0", vec!["fe80::1%eth0"]),
        ("ünïcode.example", vec!["ünïcode.example"]),
    ] {
        assert_eq!(clean(&format!("{{\"host\":\"{host}\"}}")).hosts, expected);
    }
    assert_eq!(clean("amqp://u:p@[::1]:5672/").hosts, ["::1"]);
    for host in ["h:5673", "amqps://h", "a b", "u@h", "h/v", ",", "[h]", "h1,h2:1"] {
        let value = format!("{{\"host\":\"{host}\"}}");
        assert_eq!(settings_of(&value).unwrap_err(), AmqpError::Host, "{host}");
    }
}

#[test]
fn settings_refuse_ports_out_of_range() {
    for port in ["-5", "65536", "99999"] {
        let value = format!("{{\"host\":\"h\",\"port\":{port}}}");
        assert_eq!(settings_of(&value).unwrap_err(), AmqpError::Port);
    }
}

#[test]
fn settings_refuse_what_the_protocol_cannot_carry() {
    let long = "v".repeat(256);
    assert_eq!(settings_of(&format!("amqp://h/{long}")).unwrap_err(), AmqpError::Vhost);
    assert_eq!(settings_of("amqp://u:a%00b@h").unwrap_err(), AmqpError::Nul("password"));
    assert_eq!(settings_of("amqp://a%00b@h").unwrap_err(), AmqpError::Nul("login"));
}

#[test]
fn a_torn_password_is_refused_and_a_fragment_doubted() {
    for value in ["amqp://u:12/w@host/vh", "amqp://u:1#w@host/vh", "amqp://u:1?w@host/vh"] {
        assert_eq!(settings_of(value).unwrap_err(), AmqpError::Torn, "{value}");
    }
    doubted("amqp://u:p@host/vh#rest", "%23");
    clean("amqp://host/vh?contact=a@b");
    assert_eq!(clean("amqp://u:p@host/v@h").vhost, "v@h");
}

#[test]
fn amqps_speaks_tls_whatever_the_extra_says() {
    assert_eq!(clean("amqps://h").port, 5671);
    assert_eq!(clean("amqps://h").tls, Some(TlsSettings::default()));
    assert_eq!(clean("amqps://h:5672").port, 5672);
    for extra in ["false", "null", "0", "\"\""] {
        let value = format!("{{\"conn_type\":\"amqps\",\"extra\":{{\"ssl_enabled\":{extra}}}}}");
        assert!(settings_of(&value).unwrap().0.tls.is_some(), "{extra}");
    }
    doubted("amqps://h?ssl_enabled=false", "ignored");
}

#[test]
fn ssl_enabled_is_truth_with_texts_read_as_meant() {
    for (text, is_on) in [
        ("true", true),
        ("1", true),
        ("\"true\"", true),
        ("\"Yes\"", true),
        ("[1]", true),
        ("false", false),
        ("0", false),
        ("null", false),
        ("\"\"", false),
        ("[]", false),
        ("0.0", false),
    ] {
        let settings = clean(&format!("{{\"extra\":{{\"ssl_enabled\":{text}}}}}"));
        assert_eq!(settings.tls.is_some(), is_on, "{text}");
        assert_eq!(settings.port, if is_on { 5671 } else { 5672 });
    }
    for text in ["false", "False", " no ", "0", "off", "None"] {
        let value = format!("{{\"extra\":{{\"ssl_enabled\":\"{text}\"}}}}");
        assert_eq!(doubted(&value, "taken as false").tls, None);
    }
    assert!(doubted("{\"extra\":{\"ssl_enabled\":\"ture\"}}", "taken as true").tls.is_some());
}

#[test]
fn nested_tls_keys_win_over_flat_ones() {
    let expected = TlsSettings {
        ca_certs: Some(PathBuf::from("/nested/ca.pem")),
        client: Some((PathBuf::from("/flat/c.pem"), PathBuf::from("/nested/k.pem"))),
        verify_none: false,
    };
    let flat = r#""ssl_enabled":true,"ca_certs":"/flat/ca.pem","certfile":"/flat/c.pem","cert_reqs":"CERT_NONE""#;
    let nested = r#"{"ca_certs":"/nested/ca.pem","keyfile":"/nested/k.pem","cert_reqs":"CERT_REQUIRED"}"#;
    let as_text = serde_json::to_string(nested).unwrap();
    for nested in [nested, &as_text] {
        let settings = clean(&format!("{{\"extra\":{{{flat},\"ssl_options\":{nested}}}}}"));
        assert_eq!(settings.tls.as_ref(), Some(&expected));
    }
}

#[test]
fn doubtful_tls_keys_warn_and_never_weaken() {
    let with = |extra: &str| format!("{{\"conn_type\":\"amqps\",\"extra\":{{{extra}}}}}");
    assert!(doubted(&with("\"cert_reqs\":\"CERT_NONE\""), "CERT_NONE").tls.unwrap().verify_none);
    for odd in ["\"cert_none\"", "0.5", "\"ssl.CERT_NONE\""] {
        let settings = doubted(&with(&format!("\"cert_reqs\":{odd}")), "is checked");
        assert!(!settings.tls.unwrap().verify_none, "{odd}");
    }
    assert_eq!(doubted(&with("\"certfile\":\"/c\""), "without `keyfile`").tls.unwrap().client, None);
    assert_eq!(doubted(&with("\"keyfile\":\"/k\""), "without `certfile`").tls.unwrap().client, None);
    doubted("{\"extra\":{\"ca_certs\":\"/ca.pem\"}}", "plain text is spoken");
}

#[test]
fn unreadable_tls_keys_are_errors() {
    for (extra, key) in [
        ("\"ssl_options\":\"not json\"", "ssl_options"),
        ("\"ssl_options\":[1]", "ssl_options"),
        ("\"ca_certs\":5", "ca_certs"),
        ("\"certfile\":[\"/c\"],\"keyfile\":\"/k\"", "certfile"),
    ] {
        let value = format!("{{\"conn_type\":\"amqps\",\"extra\":{{{extra}}}}}");
        let error = settings_of(&value).unwrap_err();
        assert!(matches!(error, AmqpError::TlsExtra { key: found, .. } if found == key), "{error:?}");
    }
}

#[test]
fn timing_takes_numbers_and_texts_of_numbers() {
    for (text, heartbeat) in
        [("10", 10), ("10.9", 10), ("\"30\"", 30), ("\" 4_5 \"", 45), ("65535", 65535), ("null", 30)]
    {
        let settings = clean(&format!("{{\"extra\":{{\"heartbeat\":{text}}}}}"));
        assert_eq!(settings.heartbeat_secs, heartbeat, "{text}");
    }
    for (text, millis) in [("0.5", 500), ("\"2\"", 2000), ("86400", 86_400_000)] {
        let settings = clean(&format!("{{\"extra\":{{\"rpc_timeout\":{text}}}}}"));
        assert_eq!(settings.rpc_timeout, Duration::from_millis(millis), "{text}");
    }
}

#[test]
fn timing_falls_back_with_a_warning() {
    let rejected = [
        "-1",
        "\"-1\"",
        "0.5",
        "\"inf\"",
        "\"nan\"",
        "\"Infinity\"",
        "65536",
        "1e300",
        "\"1e400\"",
        "\"thirty\"",
        "\"\"",
        "true",
        "false",
        "[30]",
        "{}",
    ];
    for text in rejected {
        let settings = doubted(&format!("{{\"extra\":{{\"heartbeat\":{text}}}}}"), "`heartbeat`");
        assert_eq!(settings.heartbeat_secs, 30, "{text}");
    }
    for key in ["connect_timeout", "rpc_timeout"] {
        for text in ["0", "-1", "\"nan\"", "\"inf\"", "1e300", "86401", "1e-9", "\"x\"", "true", "[]"] {
            let settings = doubted(&format!("{{\"extra\":{{\"{key}\":{text}}}}}"), key);
            assert_eq!(settings.connect_timeout, Duration::from_secs(15));
            assert_eq!(settings.rpc_timeout, Duration::from_secs(30));
        }
    }
}

#[test]
fn heartbeat_zero_is_the_servers_and_a_warning() {
    for text in ["0", "\"0\"", "0.0", "-0.0"] {
        let settings = doubted(&format!("{{\"extra\":{{\"heartbeat\":{text}}}}}"), "stays undetected");
        assert_eq!(settings.heartbeat_secs, 0);
    }
}

#[test]
fn management_url_is_an_address_or_ignored() {
    for bad in ["\"m:15672\"", "\"ftp://m\"", "\"http://u:p@m\"", "5", "\"http://\""] {
        let value = format!("{{\"extra\":{{\"management_url\":{bad}}}}}");
        assert_eq!(doubted(&value, "management_url").management_url, None);
    }
    clean("{\"extra\":{\"management_url\":\"\",\"unknown\":[1,{\"x\":null}]}}");
}
