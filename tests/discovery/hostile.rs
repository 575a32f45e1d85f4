//! Texts that would exhaust a careless reader, and mutations of real ones. The scan neither panics nor hangs.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use rmq_watcher::discovery::{Scanner, scan};
use rmq_watcher::domain::declaration::{FileProblem, FileProblemKind};
use tempfile::TempDir;

use crate::corpus::corpus;
use crate::folder::dag_file;

#[test]
fn deep_nesting_is_a_problem_of_its_file_alone() {
    let folder = TempDir::new().unwrap();
    let deep = 400_000;
    let texts = [
        "(".repeat(deep),
        "x = ".to_owned() + &"-".repeat(deep) + "1",
        "x = 1".to_owned() + &"+1".repeat(deep),
        "x = a".to_owned() + &".b".repeat(deep),
        "x = a".to_owned() + &"()".repeat(deep),
        "x = ".to_owned() + &"lambda:".repeat(deep) + "1",
        "@".repeat(deep),
        "f'{".repeat(deep),
    ];
    for (n, text) in texts.iter().enumerate() {
        let text = format!("# rmq_trigger\n{text}\n");
        fs::write(folder.path().join(format!("deep{n}.py")), text).unwrap();
    }
    fs::write(folder.path().join("good.py"), dag_file("good", "q.good")).unwrap();
    let scan = scan(folder.path()).unwrap();
    assert_eq!(scan.declarations.len(), 1);
    assert_eq!(scan.unreadable.len(), texts.len());
    for problem in &scan.unreadable {
        let kind = problem.kind;
        assert!(matches!(kind, FileProblemKind::TooDeep | FileProblemKind::Syntax), "{problem}");
    }
}

#[test]
fn nesting_as_deep_as_allowed_is_read() {
    let folder = TempDir::new().unwrap();
    let level = 2_900;
    let texts = [
        "x = ".to_owned() + &"-".repeat(level) + "1",
        "x = 1".to_owned() + &"+1".repeat(level),
        "x = a".to_owned() + &".b".repeat(level),
        "x = ".to_owned() + &"lambda:".repeat(level / 2) + "1",
        "x = ".to_owned() + &"1 if 1 else ".repeat(level / 2) + "1",
        "x = a".to_owned() + &"()".repeat(level / 2),
        "x = ".to_owned() + &"[".repeat(199) + &"]".repeat(199),
        (0..99).fold(String::new(), |text, n| text + &" ".repeat(n) + "if 1:\n") + &" ".repeat(99) + "pass",
    ];
    for (n, text) in texts.iter().enumerate() {
        let text = format!("{text}\n{}", dag_file(&format!("dag{n}"), "q"));
        fs::write(folder.path().join(format!("deep{n}.py")), text).unwrap();
    }
    let scan = scan(folder.path()).unwrap();
    assert_eq!(scan.unreadable, []);
    assert_eq!(scan.declarations.len(), texts.len());
}

/// A small generator of its own, so that a seed names a round for good.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % bound.max(1)
    }
}

fn mutate(text: &[u8], donor: &[u8], random: &mut Random) -> Vec<u8> {
    let mut text = text.to_vec();
    for _ in 0..=random.below(4) {
        let at = random.below(text.len() + 1);
        let end = (at + random.below(40)).min(text.len());
        match random.below(5) {
            0 => text.truncate(at),
            1 => drop(text.drain(at..end)),
            2 => {
                let from = random.below(donor.len());
                let to = (from + random.below(60)).min(donor.len());
                drop(text.splice(at..end, donor[from..to].iter().copied()));
            }
            3 => text.insert(at, b"()[]{}'\"\\\n\r\t:,@=*\0\xff#f"[random.below(21)]),
            _ => {
                let piece = text[at..end].to_vec();
                drop(text.splice(at..at, piece.repeat(1 + random.below(30))));
            }
        }
    }
    text
}

/// Every file of the corpus, in the order of names.
fn corpus_files() -> Vec<(String, Vec<u8>)> {
    let folder = corpus();
    let mut names = Vec::new();
    let mut folders = vec![folder.clone()];
    while let Some(below) = folders.pop() {
        for entry in fs::read_dir(below).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "py") {
                let name = path.strip_prefix(&folder).unwrap().to_str().unwrap().to_owned();
                names.push((name, fs::read(path).unwrap()));
            }
        }
    }
    names.sort();
    names
}

/// The folder `shared_names` of constants, each file of it mutated or not.
fn write_shared(folder: &Path, files: &[(String, Vec<u8>)], random: &mut Random) {
    for (name, text) in files.iter().filter(|(name, _)| name.starts_with("shared_names/")) {
        let donor = &files[random.below(files.len())].1;
        let text = if random.below(3) == 0 { mutate(text, donor, random) } else { text.clone() };
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

fn mentions(file: &Path) -> bool {
    let word = b"rmq_trigger";
    fs::read(file).unwrap().windows(word.len()).any(|window| window == word)
}

#[test]
fn mutated_files_never_make_the_scan_panic_or_hang() {
    let files = corpus_files();
    let seed = std::env::var("RMQ_TEST_SEED").map_or(1, |seed| seed.parse().unwrap());
    let rounds = if std::env::var_os("RMQ_TEST_ALL").is_some() { 80 } else { 8 };
    let rounds = std::env::var("RMQ_TEST_ROUNDS").map_or(rounds, |n| n.parse().unwrap());
    let mut random = Random(seed);
    let folder = TempDir::new().unwrap();
    // One scanner over all rounds: what it remembers of the files before is part of what is tried.
    let mut scanner = Scanner::new(folder.path());
    for round in 0..rounds {
        let count = 250;
        for n in 0..count {
            let (_, text) = &files[random.below(files.len())];
            let (_, donor) = &files[random.below(files.len())];
            let mut mutated = mutate(text, donor, &mut random);
            mutated.extend_from_slice(b"\n# rmq_trigger\n");
            fs::write(folder.path().join(format!("m{n}.py")), mutated).unwrap();
        }
        write_shared(folder.path(), &files, &mut random);
        let began = Instant::now();
        let found = scanner.scan().unwrap();
        assert!(began.elapsed() < Duration::from_secs(60), "seed {seed}, round {round}: {:?}", began.elapsed());
        assert!(found.listed >= count, "seed {seed}, round {round}");
        let failed = |problem: &&FileProblem| problem.kind == FileProblemKind::ParserFailed;
        let failed: Vec<_> = found.unreadable.iter().filter(failed).collect();
        assert!(failed.is_empty(), "seed {seed}, round {round}: {failed:?}");
        let fresh = scan(folder.path()).unwrap();
        assert!(
            fresh.declarations == found.declarations,
            "seed {seed}, round {round}: what is remembered is what is there"
        );
        assert!(fresh.refusals == found.refusals, "seed {seed}, round {round}: what is remembered is what is there");
        // A file that lost the word is looked at by those alone who remember that it had it.
        let mut remembered = found.unreadable.clone();
        remembered.retain(|problem| mentions(&folder.path().join(&problem.file)));
        assert!(fresh.unreadable == remembered, "seed {seed}, round {round}: what is remembered is what is there");
    }
}

/// Texts whose values or imports would take forever, or all memory, to find out.
#[test]
fn constants_that_explode_are_refusals_of_their_own() {
    let doubled = (0..60).fold("a0 = 'x'\n".to_owned(), |text, n| text + &format!("a{} = a{n} + a{n}\n", n + 1));
    let nested = (0..60).fold("a0 = ['x']\n".to_owned(), |text, n| text + &format!("a{} = [a{n}, a{n}]\n", n + 1));
    let chained = (0..20_000).fold("a0 = 'x'\n".to_owned(), |text, n| text + &format!("a{} = a{n}\n", n + 1));
    let powers = "a60 = 9 ** 9 ** 9 ** 9\n".to_owned();
    let many = "a60 = ('x' * 60000) * 60000\n".to_owned();
    let wide = format!("a60 = [{}]\n", "'x', ".repeat(200_000));
    let folder = TempDir::new().unwrap();
    let cases = [doubled, nested, chained.replace("a20000 ", "a60x "), powers, many, wide];
    for (n, constants) in cases.iter().enumerate() {
        let last = if n == 2 { "a19999" } else { "a60" };
        let text = dag_file(&format!("dag{n}"), "q").replace("\"q\"", last);
        fs::write(folder.path().join(format!("explode{n}.py")), format!("{constants}{text}")).unwrap();
        fs::write(folder.path().join(format!("consts{n}.py")), constants).unwrap();
        let imported = format!("from consts{n} import {last}\n{text}").replace("dag_id=\"dag", "dag_id=\"imported");
        fs::write(folder.path().join(format!("import{n}.py")), imported).unwrap();
    }
    for n in 0..40 {
        fs::write(folder.path().join(format!("step{n}.py")), format!("from step{} import name\n", n + 1)).unwrap();
    }
    let far = format!("from step0 import name\n{}", dag_file("far", "q").replace("\"q\"", "name"));
    fs::write(folder.path().join("far.py"), far).unwrap();
    fs::write(folder.path().join("good.py"), dag_file("good", "q.good")).unwrap();
    let began = Instant::now();
    let scan = scan(folder.path()).unwrap();
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
    let declared: Vec<_> = scan.declarations.iter().map(|declared| declared.dag_id.as_str()).collect();
    assert_eq!(declared, ["good"]);
    assert_eq!(scan.refusals.len(), 2 * cases.len() + 1, "{:?}", scan.refusals);
    assert_eq!(scan.unreadable, []);
}
