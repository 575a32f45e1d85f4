//! Who we are to Airflow: one way to log in, or none.
//!
//! Two ways at once are a problem, wherever each was set: which of them was meant cannot be known, and a forgotten one
//! would be the one that fails.

use std::path::PathBuf;

use super::airflow::{Credentials, PasswordSource};
use super::keys::{self, Key};
use super::problem::{Origin, Problem};
use super::reader::{Raw, Reader, show_path};
use crate::domain::connection::Secret;

/// Every credential key as it was found.
struct Given {
    username: Option<(String, Origin)>,
    password: Option<(Secret, Origin)>,
    password_file: Option<(PathBuf, Origin)>,
    token_file: Option<(PathBuf, Origin)>,
    token_command: Option<(Vec<String>, Origin)>,
}

pub(super) fn read(reader: &mut Reader<'_>) -> Credentials {
    let problems_before = reader.problems.len();
    let given = Given::read(reader);
    // Where one of the keys was refused, a missing partner is no news.
    if reader.problems.len() == problems_before {
        given.check(&mut reader.problems);
    }
    given.choose()
}

impl Given {
    fn read(reader: &mut Reader<'_>) -> Self {
        let environment = reader.environment();
        let text = |raw: &Raw| raw.text().map(str::to_owned);
        let secret = |raw: &Raw| raw.text().map(Secret::new);
        let path = |raw: &Raw| raw.path(environment);
        Self {
            username: reader.optional(&keys::AIRFLOW_USERNAME, text, String::clone),
            password: reader.optional(&keys::AIRFLOW_PASSWORD, secret, |_| String::new()),
            password_file: reader.optional(&keys::AIRFLOW_PASSWORD_FILE, path, |p| show_path(p)),
            token_file: reader.optional(&keys::AIRFLOW_TOKEN_FILE, path, |p| show_path(p)),
            token_command: reader.optional(&keys::AIRFLOW_TOKEN_COMMAND, Raw::list, |_| String::new()),
        }
    }

    /// The keys that are set, and where.
    fn set(&self) -> Vec<(&'static Key, &Origin)> {
        [
            (&keys::AIRFLOW_TOKEN_FILE, self.token_file.as_ref().map(|(_, o)| o)),
            (&keys::AIRFLOW_TOKEN_COMMAND, self.token_command.as_ref().map(|(_, o)| o)),
            (&keys::AIRFLOW_PASSWORD, self.password.as_ref().map(|(_, o)| o)),
            (&keys::AIRFLOW_PASSWORD_FILE, self.password_file.as_ref().map(|(_, o)| o)),
            (&keys::AIRFLOW_USERNAME, self.username.as_ref().map(|(_, o)| o)),
        ]
        .into_iter()
        .filter_map(|(key, origin)| Some((key, origin?)))
        .collect()
    }

    fn check(&self, problems: &mut Vec<Problem>) {
        let set = self.set();
        let mut say = |(key, origin): (&Key, &Origin), sentence: String| {
            problems.push(Problem::said(&key.path(), origin, sentence));
        };
        let is_user = |key: &Key| *key == keys::AIRFLOW_USERNAME;
        match set[..] {
            [] => {}
            [(key, origin)] if is_user(key) => {
                say((key, origin), "airflow.password or airflow.password_file is missing beside it".to_owned())
            }
            [(key, origin)] if key.name.starts_with("password") => {
                say((key, origin), "airflow.username is missing beside it".to_owned());
            }
            [_] => {}
            [(first, _), (second, _)] if is_user(second) && first.name.starts_with("password") => {}
            [first, ..] => {
                let others: Vec<String> = set[1..].iter().map(|(key, _)| key.path()).collect();
                let sentence = format!(
                    "{} is set too; keep one way to log in: username with password, username with password_file, token_file, or token_command",
                    others.join(" and ")
                );
                say(first, sentence);
            }
        }
    }

    fn choose(self) -> Credentials {
        let password = match (self.password, self.password_file) {
            (Some((value, _)), _) => Some(PasswordSource::Value(value)),
            (None, Some((path, _))) => Some(PasswordSource::File(path)),
            (None, None) => None,
        };
        match (self.token_file, self.token_command, self.username, password) {
            (Some((path, _)), ..) => Credentials::TokenFile(path),
            (None, Some((command, _)), ..) => Credentials::TokenCommand(command),
            (None, None, Some((username, _)), Some(password)) => Credentials::Password { username, password },
            (None, None, ..) => Credentials::Missing,
        }
    }
}
