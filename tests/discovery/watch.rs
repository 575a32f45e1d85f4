//! The watch: what wakes, what does not, and what is not lost.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::time::Duration;

use rmq_watcher::discovery::{Places, Scanner, Watch};
use tempfile::TempDir;
use tokio::time::timeout;

use crate::folder::write;

const SOON: Duration = Duration::from_secs(30);

/// The runtime of the watcher: one thread.
fn within(check: impl AsyncFnOnce()) {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(check());
}

/// What the watcher does in each cycle.
fn scan(watch: &mut Watch, scanner: &mut Scanner) {
    watch.settle();
    scanner.scan().unwrap();
    watch.arms().rearm(scanner.places()).unwrap();
}

/// A watch that is armed for what is there.
async fn armed(folder: &Path) -> (Watch, Scanner) {
    let (mut watch, mut scanner) = (Watch::new().unwrap(), Scanner::new(folder));
    scan(&mut watch, &mut scanner);
    timeout(SOON, watch.changed()).await.expect("once after it was armed");
    scan(&mut watch, &mut scanner);
    (watch, scanner)
}

#[test]
fn every_change_that_a_scan_could_see_wakes_wherever_it_is() {
    within(async || {
        let folder = TempDir::new().unwrap();
        write(folder.path(), "team/deep/a.py", "");
        let (mut watch, mut scanner) = armed(folder.path()).await;
        let path = |name: &str| folder.path().join(name);
        let changes: [(&str, &dyn Fn()); 10] = [
            ("written", &|| fs::write(path("team/deep/a.py"), "x = 1").unwrap()),
            ("created", &|| fs::write(path("team/b.py"), "").unwrap()),
            ("renamed", &|| fs::rename(path("team/b.py"), path("team/c.py")).unwrap()),
            ("rights", &|| crate::folder::set_mode(&path("team/c.py"), 0o600)),
            ("removed", &|| fs::remove_file(path("team/c.py")).unwrap()),
            ("directory made", &|| fs::create_dir(path("new")).unwrap()),
            ("written there", &|| fs::write(path("new/d.py"), "").unwrap()),
            ("rules", &|| fs::write(path("new/.airflowignore"), "d").unwrap()),
            ("yaml", &|| fs::write(path("rmq_triggers.yaml"), "").unwrap()),
            ("directory removed", &|| fs::remove_dir_all(path("team")).unwrap()),
        ];
        for (what, change) in changes {
            change();
            timeout(SOON, watch.changed()).await.unwrap_or_else(|_| panic!("{what} did not wake"));
            scan(&mut watch, &mut scanner);
            // A directory that is watched for the first time wakes once more.
            if what == "directory made" {
                timeout(SOON, watch.changed()).await.expect("once for the new directory");
                scan(&mut watch, &mut scanner);
            }
        }
    });
}

#[test]
fn what_a_scan_does_not_look_at_does_not_wake() {
    within(async || {
        let folder = TempDir::new().unwrap();
        write(folder.path(), "a.py", "x = 1");
        let (mut watch, _) = armed(folder.path()).await;
        for name in [".a.py.swp", "a.py~", "notes.txt", "__pycache__/a.pyc", ".git/index"] {
            write(folder.path(), name, "x");
        }
        fs::read(folder.path().join("a.py")).unwrap();
        // Events come in order: whatever those above told has come before this.
        assert!(timeout(Duration::from_millis(50), watch.changed()).await.is_err(), "nothing that matters");
        write(folder.path(), "a.py", "x = 2");
        timeout(SOON, watch.changed()).await.expect("a change that matters");
    });
}

#[test]
fn change_that_nobody_waited_for_is_told_by_the_next_call() {
    within(async || {
        let folder = TempDir::new().unwrap();
        let (mut watch, _) = armed(folder.path()).await;
        // Given up before anything came, and again after it came.
        assert!(timeout(Duration::from_millis(1), watch.changed()).await.is_err());
        write(folder.path(), "a.py", "x = 2");
        timeout(SOON, watch.changed()).await.expect("told all the same");
    });
}

#[test]
fn flood_of_changes_that_overflows_the_queue_is_a_change() {
    within(async || {
        let folder = TempDir::new().unwrap();
        let (mut watch, _) = armed(folder.path()).await;
        let limit: usize =
            fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap().trim().parse().unwrap();
        // None of them matters by itself; equal events in a row are one, so two names take turns.
        let (a, b) = (folder.path().join("a.txt"), folder.path().join("b.txt"));
        for _ in 0..=limit / 4 {
            for name in [&a, &b] {
                fs::write(name, "").unwrap();
                fs::remove_file(name).unwrap();
            }
        }
        timeout(SOON, watch.changed()).await.expect("an overflow is a change");
    });
}

#[test]
fn directory_that_is_gone_is_no_trouble_and_the_rest_is_watched() {
    within(async || {
        let folder = TempDir::new().unwrap();
        let mut watch = Watch::new().unwrap();
        let directories = vec![folder.path().join("gone"), folder.path().to_owned()];
        watch.arms().rearm(&Places { directories, ..Places::default() }).unwrap();
        timeout(SOON, watch.changed()).await.expect("once after it was armed");
        write(folder.path(), "a.py", "");
        timeout(SOON, watch.changed()).await.expect("a change");
    });
}

#[test]
fn directory_that_left_the_scan_is_watched_no_more() {
    within(async || {
        let folder = TempDir::new().unwrap();
        write(folder.path(), "team/a.py", "");
        let (mut watch, mut scanner) = armed(folder.path()).await;
        write(folder.path(), ".airflowignore", "team");
        timeout(SOON, watch.changed()).await.expect("the rules changed");
        scan(&mut watch, &mut scanner);
        write(folder.path(), "team/a.py", "x = 1");
        assert!(timeout(Duration::from_millis(50), watch.changed()).await.is_err(), "left out");
    });
}

#[test]
fn link_on_the_way_to_the_folder_that_is_switched_wakes_and_its_neighbours_do_not() {
    within(async || {
        let place = TempDir::new().unwrap();
        write(place.path(), "revs/1/dags/a.py", "");
        write(place.path(), "revs/2/dags/a.py", "");
        let switch = |to: &str| {
            symlink(to, place.path().join("new")).unwrap();
            fs::rename(place.path().join("new"), place.path().join("repo.git")).unwrap();
        };
        switch("revs/1");
        for folder in ["repo.git", "repo.git/dags"] {
            let (mut watch, mut scanner) = armed(&place.path().join(folder)).await;
            write(place.path(), "busy.py", "");
            assert!(timeout(Duration::from_millis(50), watch.changed()).await.is_err(), "a neighbour");
            switch("revs/2");
            timeout(SOON, watch.changed()).await.unwrap_or_else(|_| panic!("{folder} was switched"));
            scan(&mut watch, &mut scanner);
            timeout(SOON, watch.changed()).await.expect("once for the new folder");
            scan(&mut watch, &mut scanner);
            write(place.path(), "revs/2/dags/a.py", "x = 1");
            timeout(SOON, watch.changed()).await.expect("the new folder is watched");
            switch("revs/1");
        }
    });
}
