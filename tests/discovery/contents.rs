//! Files as they come: zip files, encodings, odd names, and files that lost what they said.

use std::ffi::OsStr;
use std::fs;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use rmq_watcher::discovery::{Scan, Scanner, scan};
use rmq_watcher::domain::declaration::FileProblemKind;
use tempfile::TempDir;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use crate::folder::{dag_file, origins, queues, write};

fn zip_file(path: &Path, members: &[(&str, &[u8])], method: CompressionMethod) {
    let mut zip = ZipWriter::new(fs::File::create(path).unwrap());
    for (name, bytes) in members {
        zip.start_file(*name, SimpleFileOptions::default().compression_method(method)).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap();
}

fn kinds(scan: &Scan) -> Vec<(&str, FileProblemKind)> {
    scan.unreadable.iter().map(|problem| (problem.file.as_str(), problem.kind)).collect()
}

#[test]
fn zip_files_are_read_at_their_top_level_as_airflow_does() {
    for method in [CompressionMethod::Stored, CompressionMethod::Deflated] {
        let folder = TempDir::new().unwrap();
        let (a, b, c) = (dag_file("a", "q.a"), dag_file("b", "q.b"), dag_file("c", "q.c"));
        let members: [(&str, &[u8]); 4] =
            [("b.py", b.as_bytes()), ("a.py", a.as_bytes()), ("lib/c.py", c.as_bytes()), ("notes.txt", c.as_bytes())];
        fs::create_dir(folder.path().join("team")).unwrap();
        zip_file(&folder.path().join("team/flows.zip"), &members, method);
        let found = scan(folder.path()).unwrap();
        assert_eq!(origins(&found), ["team/flows.zip/a.py", "team/flows.zip/b.py"]);
        assert_eq!((found.unreadable.len(), found.listed, found.readable), (0, 1, 1));
    }
}

#[test]
fn zip_file_that_changes_is_read_again() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("flows.zip");
    let (a, b) = (dag_file("a", "q.a"), dag_file("b", "q.b"));
    zip_file(&path, &[("a.py", a.as_bytes())], CompressionMethod::Deflated);
    let mut scanner = Scanner::new(folder.path());
    for _ in 0..2 {
        assert_eq!(queues(&scanner.scan().unwrap()), ["q.a"]);
    }
    zip_file(&path, &[("a.py", a.as_bytes()), ("b.py", b.as_bytes())], CompressionMethod::Deflated);
    assert_eq!(queues(&scanner.scan().unwrap()), ["q.a", "q.b"]);
    // The same place, as a directory of that name would have it.
    fs::remove_file(&path).unwrap();
    write(folder.path(), "flows.zip/a.py", &a);
    assert_eq!(origins(&scanner.scan().unwrap()), ["flows.zip/a.py"]);
}

#[test]
fn broken_file_in_a_zip_file_is_a_problem_of_its_own() {
    let folder = TempDir::new().unwrap();
    let good = dag_file("a", "q.a");
    let members: [(&str, &[u8]); 3] =
        [("a.py", good.as_bytes()), ("b.py", b"import rmq_trigger\ndef (:\n"), ("c.py", b"x")];
    zip_file(&folder.path().join("flows.zip"), &members, CompressionMethod::Deflated);
    let scan = scan(folder.path()).unwrap();
    assert_eq!(origins(&scan), ["flows.zip/a.py"]);
    assert_eq!(kinds(&scan), [("flows.zip/b.py", FileProblemKind::Syntax)]);
    assert_eq!((scan.listed, scan.readable), (1, 0), "a zip file is read as a whole or it is not");
}

#[test]
fn zip_bombs_and_broken_zip_files_are_problems_of_that_file() {
    let folder = TempDir::new().unwrap();
    write(folder.path(), "good.py", &dag_file("good", "q.good"));
    let bomb = vec![b'#'; 5 * 1024 * 1024];
    zip_file(&folder.path().join("bomb.zip"), &[("a.py", &bomb)], CompressionMethod::Deflated);
    let many = vec![b'#'; 4 * 1024 * 1024];
    let names: Vec<String> = (0..18).map(|n| format!("m{n}.py")).collect();
    let members: Vec<(&str, &[u8])> = names.iter().map(|name| (name.as_str(), many.as_slice())).collect();
    zip_file(&folder.path().join("many.zip"), &members, CompressionMethod::Stored);
    fs::write(folder.path().join("text.zip"), "this is no zip file").unwrap();
    fs::write(folder.path().join("empty.zip"), "").unwrap();
    let whole = fs::read(folder.path().join("bomb.zip")).unwrap();
    fs::write(folder.path().join("cut.zip"), &whole[..whole.len() / 2]).unwrap();
    let scan = scan(folder.path()).unwrap();
    assert_eq!(origins(&scan), ["good.py"]);
    let (large, broken) = (FileProblemKind::TooLarge, FileProblemKind::Archive);
    let found = kinds(&scan);
    assert_eq!(
        found[..4],
        [("bomb.zip/a.py", large), ("cut.zip", broken), ("empty.zip", broken), ("many.zip/m16.py", large)]
    );
    assert_eq!(found.last(), Some(&("text.zip", broken)));
    assert_eq!((scan.listed, scan.readable), (6, 1));
}

#[test]
fn encrypted_and_mangled_members_are_problems_of_that_member() {
    let folder = TempDir::new().unwrap();
    let good = dag_file("a", "q.a");
    let path = folder.path().join("flows.zip");
    zip_file(&path, &[("a.py", good.as_bytes()), ("b.py", good.as_bytes())], CompressionMethod::Stored);
    let mut bytes = fs::read(&path).unwrap();
    // The flag of the first member, in its header and in the list of members.
    let central = bytes.windows(4).position(|window| window == b"PK\x01\x02").unwrap();
    bytes[6] |= 1;
    bytes[central + 8] |= 1;
    // A character of the second member's text, which its checksum then contradicts.
    let second = bytes.windows(4).enumerate().filter(|(_, window)| *window == b"PK\x03\x04").nth(1).unwrap().0;
    bytes[second + 50] ^= 1;
    fs::write(&path, bytes).unwrap();
    let scan = scan(folder.path()).unwrap();
    assert_eq!(
        kinds(&scan),
        [("flows.zip/a.py", FileProblemKind::Archive), ("flows.zip/b.py", FileProblemKind::Archive)]
    );
    assert!(scan.unreadable[0].text.contains("encrypted"), "{}", scan.unreadable[0]);
}

#[test]
fn file_in_another_encoding_that_it_names_is_read() {
    let folder = TempDir::new().unwrap();
    let latin = dag_file("latin", "q.\u{e4}").chars().map(|c| u8::try_from(u32::from(c)).unwrap()).collect::<Vec<u8>>();
    fs::write(folder.path().join("a.py"), [b"# -*- coding: latin-1 -*-\r\n", latin.as_slice()].concat()).unwrap();
    fs::write(folder.path().join("b.py"), &latin).unwrap();
    let marked = dag_file("marked", "q.marked").replace('\n', "\r\n").replace("@rmq", "\x0c\r\n@rmq");
    fs::write(folder.path().join("c.py"), format!("\u{feff}{marked}")).unwrap();
    fs::write(folder.path().join("d.py"), "# coding: utf-16\nrmq_trigger").unwrap();
    let scan = scan(folder.path()).unwrap();
    assert_eq!(queues(&scan), ["q.ä", "q.marked"]);
    assert_eq!(kinds(&scan), [("b.py", FileProblemKind::Encoding), ("d.py", FileProblemKind::Encoding)]);
    assert_eq!((scan.listed, scan.readable), (4, 2));
}

#[test]
fn binary_file_called_python_is_read_as_nothing_or_named() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("a.py"), [0_u8, 1, 2, 255, 254]).unwrap();
    fs::write(folder.path().join("b.py"), b"\0\xff rmq_trigger \0").unwrap();
    let scan = scan(folder.path()).unwrap();
    assert_eq!(kinds(&scan), [("b.py", FileProblemKind::Encoding)]);
}

#[test]
fn odd_names_stay_apart_and_on_one_line() {
    let folder = TempDir::new().unwrap();
    for (name, id) in [(&b"a\xff.py"[..], "ff"), (b"a\xfe.py", "fe"), (b"a\nb.py", "newline")] {
        fs::write(folder.path().join(OsStr::from_bytes(name)), dag_file(id, id)).unwrap();
    }
    assert_eq!(origins(&scan(folder.path()).unwrap()), ["a\\nb.py", "a\\xfe.py", "a\\xff.py"]);
}

#[test]
fn file_that_is_cut_off_is_a_broken_file_and_not_one_that_declares_nothing() {
    let folder = TempDir::new().unwrap();
    write(folder.path(), "a.py", &dag_file("a", "q.a"));
    write(folder.path(), "b.py", "x = 1\n");
    let mut scanner = Scanner::new(folder.path());
    assert_eq!(queues(&scanner.scan().unwrap()), ["q.a"]);
    // Replaced as a checkout does it: another file under the name.
    for name in ["a.py", "b.py"] {
        write(folder.path(), "new", "from airflow.sdk import (dag\n");
        fs::rename(folder.path().join("new"), folder.path().join(name)).unwrap();
    }
    for _ in 0..2 {
        let scan = scanner.scan().unwrap();
        assert_eq!(kinds(&scan), [("a.py", FileProblemKind::Syntax)], "one that never said a word is not parsed");
        assert_eq!((scan.listed, scan.readable), (2, 1));
    }
    // Also where it was gone in between.
    fs::remove_file(folder.path().join("a.py")).unwrap();
    assert_eq!(kinds(&scanner.scan().unwrap()), []);
    write(folder.path(), "a.py", "from airflow.sdk import (dag, task\n");
    assert_eq!(kinds(&scanner.scan().unwrap()), [("a.py", FileProblemKind::Syntax)]);
    // What was taken out in order declares nothing, and is not parsed from then on.
    write(folder.path(), "a.py", "x = 12\n");
    assert_eq!(kinds(&scanner.scan().unwrap()), []);
    write(folder.path(), "a.py", "def (: # now broken, and of no concern\n");
    assert_eq!(kinds(&scanner.scan().unwrap()), []);
}

#[test]
fn directory_that_is_renamed_renames_the_origins() {
    let folder = TempDir::new().unwrap();
    write(folder.path(), "one/a.py", &dag_file("a", "q.a"));
    let mut scanner = Scanner::new(folder.path());
    assert_eq!(origins(&scanner.scan().unwrap()), ["one/a.py"]);
    fs::rename(folder.path().join("one"), folder.path().join("two")).unwrap();
    assert_eq!(origins(&scanner.scan().unwrap()), ["two/a.py"]);
}

#[test]
fn explain_says_of_every_file_what_was_found() {
    let folder = TempDir::new().unwrap();
    let declared = dag_file("a", "q.a");
    write(folder.path(), "a.py", &declared);
    write(
        folder.path(),
        "b.py",
        &(declared.replace("\"a\"", "\"b\"") + &dag_file("c", "").replace("airflow.sdk", "airflow.sdk ")),
    );
    write(folder.path(), "broken.py", "import rmq_trigger\ndef (:\n");
    write(folder.path(), "nothing.py", "x = 1\n");
    write(folder.path(), "notes.txt", "");
    zip_file(&folder.path().join("z.zip"), &[("d.py", declared.as_bytes()), ("e.py", b"")], CompressionMethod::Stored);
    let (_, files) = Scanner::new(folder.path()).explain().unwrap();
    let files: Vec<_> = files.iter().map(|file| format!("{}: {}", file.file, file.verdict)).collect();
    assert_eq!(files.len(), 6, "{files:#?}");
    assert_eq!(files[0], "a.py: declares 1");
    assert_eq!(files[1], "b.py: declares 1, refused 1");
    assert!(files[2].starts_with("broken.py: unreadable: line 2 is not Python"), "{}", files[2]);
    assert_eq!(files[3..], ["nothing.py: nothing", "z.zip/d.py: refused 1", "z.zip/e.py: nothing"]);
}
