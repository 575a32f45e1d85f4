//! Texts that would exhaust a careless reader, and mutations of real ones. The scan neither panics nor hangs.

use std::fs;
use std::path::Path;

use rmq_watcher::discovery::scan;
use rmq_watcher::domain::declaration::FileProblemKind;
use tempfile::TempDir;

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

#[test]
fn mutated_files_never_make_the_scan_panic_or_hang() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/dagfiles");
    let mut seeds: Vec<Vec<u8>> = Vec::new();
    for entry in fs::read_dir(corpus).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "py") {
            seeds.push(fs::read(path).unwrap());
        }
    }
    seeds.sort();
    let seed = std::env::var("RMQ_WATCHER_TEST_SEED").map_or(1, |seed| seed.parse().unwrap());
    let rounds = std::env::var("RMQ_WATCHER_TEST_ROUNDS").map_or(8, |n| n.parse().unwrap());
    let mut random = Random(seed);
    let folder = TempDir::new().unwrap();
    for round in 0..rounds {
        let count = 250;
        for n in 0..count {
            let text = &seeds[random.below(seeds.len())];
            let donor = &seeds[random.below(seeds.len())];
            let mut mutated = mutate(text, donor, &mut random);
            mutated.extend_from_slice(b"\n# rmq_trigger\n");
            fs::write(folder.path().join(format!("m{n}.py")), mutated).unwrap();
        }
        let scan = scan(folder.path()).unwrap();
        assert_eq!(scan.listed, count, "seed {seed}, round {round}");
        let failed = |problem: &&_| {
            let problem: &rmq_watcher::domain::declaration::FileProblem = problem;
            problem.kind == FileProblemKind::ParserFailed
        };
        let failed: Vec<_> = scan.unreadable.iter().filter(failed).collect();
        assert!(failed.is_empty(), "seed {seed}, round {round}: {failed:?}");
    }
}
