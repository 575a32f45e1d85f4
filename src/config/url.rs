//! A base address of an HTTP service, checked by hand: scheme, host, port, path, and nothing that could be a secret.

/// `http://host[:port][/path]` without a trailing slash, user, password, query or fragment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct BaseUrl(String);

impl BaseUrl {
    /// Takes an address; `None` where it is not one.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let (scheme, rest) = text.split_once("://")?;
        let scheme = scheme.to_ascii_lowercase();
        if scheme != "http" && scheme != "https" {
            return None;
        }
        let forbidden = |c: char| c.is_whitespace() || c.is_control() || "?#@\\\"<>^`{|}".contains(c);
        if rest.contains(forbidden) {
            return None;
        }
        let (authority, path) = match rest.split_once('/') {
            Some((authority, path)) => (authority, path.trim_end_matches('/')),
            None => (rest, ""),
        };
        check_authority(authority)?;
        let slash = if path.is_empty() { "" } else { "/" };
        Some(Self(format!("{scheme}://{authority}{slash}{path}")))
    }

    /// The address.
    pub(crate) fn into_text(self) -> String {
        self.0
    }
}

fn check_authority(authority: &str) -> Option<()> {
    let port = if let Some(bracketed) = authority.strip_prefix('[') {
        let (address, after) = bracketed.split_once(']')?;
        address.parse::<std::net::Ipv6Addr>().ok()?;
        if after.is_empty() { None } else { Some(after.strip_prefix(':')?) }
    } else {
        let (host, port) = match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        };
        if host.is_empty() || host.contains(['[', ']', '%', ',']) {
            return None;
        }
        port
    };
    match port {
        None => Some(()),
        Some(port) => {
            let is_number = port.bytes().all(|b| b.is_ascii_digit());
            (is_number && port.parse::<u16>().ok()? > 0).then_some(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parse_takes_addresses_and_drops_trailing_slashes() {
        for (text, expected) in [
            ("http://localhost:8080", "http://localhost:8080"),
            (" HTTPS://airflow.example/base// ", "https://airflow.example/base"),
            ("http://[::1]:8080/", "http://[::1]:8080"),
            ("http://[::1]", "http://[::1]"),
        ] {
            assert_eq!(BaseUrl::parse(text).map(BaseUrl::into_text).as_deref(), Some(expected));
        }
    }

    #[test]
    fn parse_refuses_what_is_no_base_address() {
        for text in [
            "",
            "localhost:8080",
            "ftp://h",
            "http://",
            "http:///x",
            "http://:80",
            "http://h:0",
            "http://h:x",
            "http://h:99999",
            "http://u:p@h",
            "http://h?x",
            "http://h#x",
            "http://a b",
            "http://[::1",
            "http://[x]",
            "http://[::1]x",
        ] {
            assert_eq!(BaseUrl::parse(text), None, "{text}");
        }
    }
}
