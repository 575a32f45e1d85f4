//! Several folders: what is read once, under which names, and what an outage of one costs.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use rmq_watcher::config::dags::{DagFolders, DagRoot};
use rmq_watcher::discovery::{Scan, ScanError, Scanner};
use rmq_watcher::domain::declaration::FileProblemKind;
use tempfile::TempDir;

use crate::folder::{dag_file, origins, scan_as_nobody, set_mode, write};

fn folders(roots: &[(&str, &Path)]) -> DagFolders {
    let root = |(bundle, path): &(&str, &Path)| DagRoot { bundle: (*bundle).to_owned(), path: (*path).to_owned() };
    DagFolders { roots: roots.iter().map(root).collect(), ..DagFolders::default() }
}

fn scan(roots: &[(&str, &Path)]) -> Result<Scan, ScanError> {
    Scanner::of(folders(roots)).scan()
}

#[test]
fn each_of_several_folders_is_read_under_the_name_of_its_bundle() {
    let (a, b) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    write(a.path(), "team/x.py", &dag_file("a", "q.a"));
    write(b.path(), "team/x.py", &dag_file("b", "q.b"));
    let scan = scan(&[("main", a.path()), ("extra", b.path())]).unwrap();
    assert_eq!(origins(&scan), ["extra:team/x.py", "main:team/x.py"]);
    assert_eq!((scan.listed, scan.readable), (2, 2));
    assert_eq!(scan.bundles, ["main", "extra"]);
    let alone = self::scan(&[("main", a.path())]).unwrap();
    assert_eq!((alone.declarations[0].origin.file.as_str(), alone.bundles.len()), ("team/x.py", 0));
}

#[test]
fn overlapping_folders_are_read_once_and_the_innermost_has_the_file() {
    let outer = TempDir::new().unwrap();
    write(outer.path(), "a.py", &dag_file("a", "q.a"));
    write(outer.path(), "team/b.py", &dag_file("b", "q.b"));
    let inner = outer.path().join("team");
    let link = outer.path().join("link");
    symlink(&inner, &link).unwrap();
    for roots in [
        &[("outer", outer.path()), ("inner", inner.as_path())][..],
        &[("inner", inner.as_path()), ("outer", outer.path())],
        &[("outer", outer.path()), ("inner", inner.as_path()), ("again", outer.path()), ("link", link.as_path())],
    ] {
        let scan = scan(roots).unwrap();
        assert_eq!(origins(&scan), ["inner:b.py", "outer:a.py"], "{roots:?}");
        assert_eq!((scan.refusals.len(), scan.listed), (0, 2));
    }
}

#[test]
fn a_folder_that_cannot_be_listed_leaves_its_subscriptions_unknown_and_serves_the_others() {
    let (a, b) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    write(a.path(), "a.py", &dag_file("a", "q.a"));
    write(b.path(), "b.py", &dag_file("b", "q.b"));
    let gone = b.path().join("gone");
    let scan = scan(&[("a", a.path()), ("b", &gone)]).unwrap();
    assert_eq!(origins(&scan), ["a:a.py"]);
    assert_eq!(scan.unreadable.len(), 1);
    assert_eq!(
        (scan.unreadable[0].file.as_str(), scan.unreadable[0].kind),
        ("b:", FileProblemKind::DirectoryUnreadable)
    );
    assert!(scan.unreadable[0].covers("b:b.py") && !scan.unreadable[0].covers("a:a.py"));
}

#[test]
fn no_folder_that_can_be_listed_is_an_outage() {
    let folder = TempDir::new().unwrap();
    let (one, two) = (folder.path().join("one"), folder.path().join("two"));
    let error = scan(&[("a", &two), ("b", &one)]).unwrap_err();
    assert!(matches!(&error, ScanError::ListFolder { folder, .. } if *folder == two), "{error}");
    fs::create_dir(&one).unwrap();
    assert!(scan(&[("a", &two), ("b", &one)]).is_ok());
}

#[test]
fn a_setting_that_names_no_folder_is_an_error_with_its_reason_and_never_empty() {
    let fault = DagFolders { fault: Some("the setting is empty".to_owned()), ..DagFolders::default() };
    assert_eq!(Scanner::of(fault).scan().unwrap_err().to_string(), "the setting is empty");
    assert!(Scanner::of(DagFolders::default()).scan().is_err());
}

#[test]
fn a_sub_directory_without_rights_leaves_its_subscriptions_unknown() {
    let folder = TempDir::new().unwrap();
    write(folder.path(), "good.py", &dag_file("good", "q.good"));
    write(folder.path(), "closed/deep/a.py", &dag_file("a", "q.a"));
    set_mode(folder.path(), 0o755);
    set_mode(&folder.path().join("closed"), 0o000);
    let scan = scan_as_nobody(folder.path()).unwrap();
    set_mode(&folder.path().join("closed"), 0o700);
    assert!(scan.unreadable[0].covers("closed/deep/a.py") && !scan.unreadable[0].covers("good.py"));
    assert_eq!((scan.listed, scan.readable), (1, 1), "what cannot be listed cannot be counted");
}
