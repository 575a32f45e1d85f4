//! The state directory alone: found whatever else is wrong, and never guessed.

use std::fs;
use std::path::{Path, PathBuf};

use rmq_watcher::config::environment::Environment;
use rmq_watcher::config::{Problems, Settings, Sources, state_dir_with};

const DIR: &str = "RMQ_WATCHER__STATE__DIR";

struct Place {
    home: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self { home: tempfile::tempdir().unwrap() }
    }

    /// A place whose `$AIRFLOW_HOME/rmq-watcher.toml` says this.
    fn with_file(text: &str) -> Self {
        let place = Self::new();
        fs::write(place.home.path().join("rmq-watcher.toml"), text).unwrap();
        place
    }

    fn environment(&self, more: &[(&str, &str)]) -> Environment {
        let home = ("AIRFLOW_HOME".to_owned(), self.home.path().display().to_string());
        let more = more.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        Environment::new(more.chain([home]), None)
    }

    fn find(&self, more: &[(&str, &str)]) -> Result<PathBuf, Problems> {
        state_dir_with(self.environment(more), None, Path::new("/no/such/file"))
    }

    fn default(&self) -> PathBuf {
        self.home.path().join("rmq-watcher")
    }

    #[track_caller]
    fn expect_problem(&self, more: &[(&str, &str)], parts: &[&str]) {
        let text = self.find(more).unwrap_err().to_string();
        assert!(parts.iter().all(|part| text.contains(part)), "{parts:?} in: {text}");
    }
}

#[test]
fn it_is_the_one_that_the_watcher_uses() {
    for (text, more) in [
        ("", &[][..]),
        ("[state]\ndir = \"/somewhere/else\"", &[]),
        ("[state]\ndir = \"/somewhere/else\"", &[(DIR, "/from/environment")]),
        ("", &[(DIR, "/from/environment")]),
    ] {
        let place = Place::with_file(text);
        let sources =
            Sources::gather_with(place.environment(more), None, Default::default(), Path::new("/no/such/file"));
        let whole = Settings::load(&sources.unwrap()).unwrap();
        assert_eq!(place.find(more).unwrap(), whole.state_dir, "{text} {more:?}");
    }
}

#[test]
fn what_is_wrong_elsewhere_does_not_concern_it() {
    let wrong = "[consume]\nprefetch = 0\n[nonsense]\nx = 1\n[airflow]\nusrname = 3\nurl = \"none\"\n";
    let place = Place::with_file(wrong);
    let more = [("RMQ_WATCHER__LOG__LEVEL", "loud"), ("RMQ_WATCHER__NONSENSE", "1")];
    assert_eq!(place.find(&more).unwrap(), place.default());
    let place = Place::with_file(&format!("{wrong}[state]\ndir = \"/here\"\n"));
    assert_eq!(place.find(&more).unwrap(), Path::new("/here"));
}

#[test]
fn broken_configuration_file_matters_only_where_nothing_else_names_it() {
    let place = Place::with_file("[state\ndir = ");
    assert_eq!(place.find(&[(DIR, "/here")]).unwrap(), Path::new("/here"));
    place.expect_problem(&[], &["configuration file", "line 1", "is not TOML"]);
    let more = [("RMQ_WATCHER_CONFIG", "/no/such/file.toml")];
    Place::new().expect_problem(&more, &["/no/such/file.toml", "cannot be read"]);
    let more = [more[0], (DIR, "/here")];
    assert_eq!(Place::new().find(&more).unwrap(), Path::new("/here"));
}

#[test]
fn unreadable_airflow_cfg_does_not_concern_it() {
    let place = Place::new();
    fs::create_dir(place.home.path().join("airflow.cfg")).unwrap();
    assert!(
        Sources::gather_with(place.environment(&[]), None, Default::default(), Path::new("/no/such/file")).is_err()
    );
    assert_eq!(place.find(&[]).unwrap(), place.default());
}

#[test]
fn file_that_a_flag_names_must_be_there() {
    let place = Place::new();
    let flag = Path::new("/no/such/file.toml");
    let error = state_dir_with(place.environment(&[(DIR, "/here")]), Some(flag), flag).unwrap_err().to_string();
    assert!(error.contains("/no/such/file.toml"), "{error}");
}

#[test]
fn wrong_or_nearly_right_name_of_it_is_no_default() {
    Place::new().expect_problem(&[(DIR, "relative/path")], &["state.dir", DIR, "absolute path"]);
    Place::with_file("[state]\ndir = 5").expect_problem(&[], &["state.dir", "absolute path"]);
    Place::with_file("[state]\ndri = \"/here\"").expect_problem(&[], &["state.dri", "did you mean state.dir"]);
    Place::with_file("[stat]\ndir = \"/here\"").expect_problem(&[], &["[stat]", "did you mean [state]"]);
    Place::with_file("state = \"/here\"").expect_problem(&[], &["state", "expected a section"]);
    Place::new().expect_problem(&[("RMQ_WATCHER__STATE__DRI", "/here")], &["RMQ_WATCHER__STATE__DRI", DIR]);
}
