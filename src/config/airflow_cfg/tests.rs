#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

use super::*;

fn get(text: &str, section: &str, name: &str) -> Option<String> {
    AirflowCfg::parse(text).unwrap().get(section, name).unwrap()
}

#[test]
fn get_reads_names_comments_and_both_delimiters() {
    let text = "# c\n[core]\n; c\nDags_Folder = /d # kept\nhost: h = x\nempty =\n[api]\nhost = other\n";
    assert_eq!(get(text, "core", "Dags_Folder").as_deref(), Some("/d # kept"));
    assert_eq!(get(text, "core", "dags_folder"), None);
    assert_eq!(get(text, "core", "host").as_deref(), Some("h = x"));
    assert_eq!(get(text, "core", "empty").as_deref(), Some(""));
    assert_eq!(get(text, "api", "host").as_deref(), Some("other"));
    assert_eq!(get(text, "nowhere", "host"), None);
}

#[test]
fn get_joins_indented_lines() {
    let text = "[a]\nlist = one\n  two\n  # a comment within\n\n  three\n\n  [not a section]\nnext = 1\n";
    assert_eq!(get(text, "a", "list").as_deref(), Some("one\ntwo\n\nthree\n\n[not a section]"));
    assert_eq!(get(text, "a", "next").as_deref(), Some("1"));
}

#[test]
fn get_interpolates_percent_and_names() {
    let text = "[DEFAULT]\nroot = /r\n[a]\npct = 100%%\ndir = %(root)s/d\ndeep = %(dir)s/%(pct)s\n";
    assert_eq!(get(text, "a", "pct").as_deref(), Some("100%"));
    assert_eq!(get(text, "a", "deep").as_deref(), Some("/r/d/100%"));
    assert_eq!(get(text, "a", "root").as_deref(), Some("/r"));
}

#[test]
fn get_refuses_percent_signs_that_mean_nothing() {
    for value in ["50%", "%(missing)s", "%x", "%(open", "%(self)s"] {
        let cfg = AirflowCfg::parse(&format!("[a]\nself = {value}\nother = fine\n")).unwrap();
        assert_eq!(cfg.get("a", "self"), Err(InterpolationError), "{value}");
        assert_eq!(cfg.get("a", "other").unwrap().as_deref(), Some("fine"));
    }
}

#[test]
fn parse_names_the_line_that_python_refuses() {
    for (text, error) in [
        ("x = 1\n", CfgError::NoSection(1)),
        ("[a]\n\njust words\n", CfgError::NoOption(3)),
        ("[a]\n= 1\n", CfgError::NoOption(2)),
        ("[a]\nx = 1\nx = 2\n", CfgError::Duplicate(3)),
        ("[a]\n[b]\n[a]\n", CfgError::Duplicate(3)),
    ] {
        assert_eq!(AirflowCfg::parse(text), Err(error), "{text:?}");
    }
}
