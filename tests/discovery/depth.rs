//! Every construct of Python's grammar that a text can repeat or nest, at the largest size that is read. Each file ends as
//! a problem of its own or as a proper reading; an overflow of the stack would abort the whole test program.

use std::fs;

use rmq_watcher::discovery::scan;
use rmq_watcher::domain::declaration::FileProblemKind;
use tempfile::TempDir;

use crate::folder::dag_file;
use crate::hostile::Random;

/// The largest file that is read, in bytes.
const MAX_FILE_BYTES: usize = 4 * 1024 * 1024;

/// One construct: what stands before, what is repeated, what stands in the middle, what is repeated behind, and the end.
struct Shape(&'static str, &'static str, &'static str, &'static str, &'static str);

/// What repeats without an end. Source: the grammars of Python 3.9 to 3.14, and what the parser makes of broken ones.
const SHAPES: [Shape; 113] = [
    // Lambdas: their commas end nothing.
    Shape("x = ", "lambda:", "1", "", ""),
    Shape("x = ", "lambda a,b:", "1", "", ""),
    Shape("x = ", "lambda a,b: ", "1", "", ""),
    Shape("x = ", "lambda a=1,*b,c=2,**d:", "1", "", ""),
    Shape("x = ", "lambda a,/,b,*,c:", "1", "", ""),
    Shape("x = ", "lambda a=", "1", ":1", ""),
    Shape("x = ", "lambda a,b=", "1", ",c=2:1", ""),
    Shape("x = ", "lambda a,b=lambda c,d:1,e=2:", "1", "", ""),
    Shape("x = [", "lambda a,b:", "1", "", "]"),
    Shape("f(", "lambda a,b:", "1", "", ")"),
    Shape("x = {1: ", "lambda a,b:", "1", "", "}"),
    Shape("x = ", "lambda a,", "", "", ""),
    Shape("x = ", "lambda a,b: 1 if c else ", "1", "", ""),
    Shape("x = ", "1 if 1 else lambda a,b:", "1", "", ""),
    // `yield` holds what follows its commas, where it may not stand too.
    Shape("x = ", "yield a, ", "1", "", ""),
    Shape("x = ", "yield from a, ", "1", "", ""),
    Shape("x = (", "yield a, ", "1", "", ")"),
    Shape("x = ", "yield ", "1", "", ""),
    Shape("x = ", "await a, ", "1", "", ""),
    // Comprehensions.
    Shape("x = [a ", "for a in b ", "", "", "]"),
    Shape("x = [a ", "for a, in b if c ", "", "", "]"),
    Shape("x = [a for a in b ", "if c ", "", "", "]"),
    Shape("x = [a ", "async for a in b ", "", "", "]"),
    Shape("x = ", "[a for a in ", "b", "]", ""),
    Shape("x = [a for a in b, ", "for a in b, ", "", "", "]"),
    // Operators of every direction.
    Shape("x = ", "1 if 1 else ", "1", "", ""),
    Shape("x = ", "1 if ", "1", " else 1", ""),
    Shape("x = ", "not ", "1", "", ""),
    Shape("x = ", "-", "1", "", ""),
    Shape("x = ", "~+-", "1", "", ""),
    Shape("x = ", "await ", "a", "", ""),
    Shape("x = 1", "**1", "", "", ""),
    Shape("x = 1", "**-1", "", "", ""),
    Shape("x = 1", "+1", "", "", ""),
    Shape("x = 1", "*1", "", "", ""),
    Shape("x = 1", "<1", "", "", ""),
    Shape("x = 1", " not in 1", "", "", ""),
    Shape("x = 1", " is not 1", "", "", ""),
    Shape("x = 1", " or 1", "", "", ""),
    Shape("x = 1", " and not 1", "", "", ""),
    Shape("x = 1", " or 1 and 1", "", "", ""),
    Shape("x = 1", "|1&1^1", "", "", ""),
    Shape("x = 1", "@1", "", "", ""),
    Shape("x = ", "*", "a", "", ""),
    Shape("x = ", "*a, ", "", "", ""),
    Shape("f(", "**", "a", "", ")"),
    Shape("f(", "**a, ", "", "", ")"),
    Shape("(a", ":=a", "", "", ")"),
    Shape("x = ", "(a := ", "1", ")", ""),
    Shape("x = [", "a := 1, ", "", "", "]"),
    // Chains, also of chains: what is closed is the head of what follows.
    Shape("x = a", ".b", "", "", ""),
    Shape("x = a", "()", "", "", ""),
    Shape("x = a", "[0]", "", "", ""),
    Shape("x = a", ".b(c, d=e)[f:g, h].i", "", "", ""),
    Shape("x = a", "[b, c]", "", "", ""),
    Shape("x = ", "f(", "1", ")", ""),
    Shape("x = ", "a[", "1", "]", ""),
    Shape("x = ", "a[1, b:", "1", "]", ""),
    Shape("x = ", "(", "1", ")", ""),
    Shape("x = ", "(1,", "", ")", ""),
    Shape("x = ", "[", "1", "]", ""),
    Shape("x = ", "{", "1", "}", ""),
    Shape("x = ", "{1: ", "1", "}", ""),
    Shape("x = ", "{**", "a", "}", ""),
    Shape("x = ", "f(a, *", "b", ", c=d)", ""),
    Shape("x = ", "(", "", "", ""),
    Shape("x = ", ")", "", "", ""),
    Shape("x = ", "-)", "1", "", ""),
    Shape("x = ", "(-]", "1", "", ""),
    Shape("x = (", "-;", "1", "", ""),
    Shape("x = [", "(1, 2+3), ", "", "", "]"),
    Shape("x = {", "'a': {'b': 1}, ", "", "", "}"),
    Shape("x = {", "1, ", "", "", "}"),
    // Strings.
    Shape("x = ", "'a' ", "", "", ""),
    Shape("x = ", "f'{a}' ", "", "", ""),
    Shape("x = ", "t'{a}' ", "", "", ""),
    Shape("x = ", "f'a' 'b' ", "", "", ""),
    Shape("x = ", "f'{", "a", "}'", ""),
    Shape("x = ", "t'{", "a", "}'", ""),
    Shape("x = ", "f'{a, f\"{", "b", "}\"}'", ""),
    Shape("x = f'{a", ":{a", "", "}", "}'"),
    Shape("x = f'''", "{a, b!r:>{c}}", "", "", "'''"),
    Shape("x = f'''", "{a:", "", "", ""),
    Shape("x = f'{", "lambda a,b:", "1", "", "}'"),
    Shape("x = f'''{'''\ny = ", "-", "1", "", ""),
    Shape("x = t'''{r'''\ny = ", "lambda a,b:", "1", "", ""),
    Shape("x = f'''{a!r'''\ny = ", "not ", "1", "", ""),
    // Statements.
    Shape("", "@a\n", "def f(): pass", "", ""),
    Shape("", "@", "a", "", ""),
    Shape("", "@a.b(c, d)\n", "class C: pass", "", ""),
    Shape("if a: pass\n", "elif a: pass\n", "else: pass", "", ""),
    Shape("if a: b; ", "if a: b; ", "", "", ""),
    Shape("", "if a: ", "b", "", ""),
    Shape("", "class A: ", "b", "", ""),
    Shape("", "async ", "a", "", ""),
    Shape("", "for a in b: pass\nelse: pass\n", "", "", ""),
    Shape("", "try: pass\nexcept A: pass\nelse: pass\nfinally: pass\n", "", "", ""),
    Shape("match a:\n  case b", "|b", "", "", ": pass"),
    Shape("match a:\n  case ", "[", "b", "]", ": pass"),
    Shape("match a:\n  case ", "A(b, c=", "d", ")", ": pass"),
    Shape("match a:\n  case ", "{1: ", "b", ", **c}", ": pass"),
    Shape("match a:\n  case b", " as b", "", "", ": pass"),
    Shape("match a:\n  case ", "*b, ", "", "", ": pass"),
    Shape("match a:\n", "  case b, c if d, e: pass\n", "", "", ""),
    Shape("with ", "a as b, ", "c", "", ": pass"),
    Shape("with (", "a as b, ", "", "", "): pass"),
    Shape("with ", "(a, ", "b", ")", ": pass"),
    Shape("def f[", "A, *B, **C, ", "", "", "](): pass"),
    Shape("type X[A: ", "a[", "b", "]", "] = c"),
    Shape("def f(", "a=1, ", "", "", "): pass"),
    Shape("", "a = ", "1", "", ""),
    Shape("del a", ", a", "", "", ""),
    Shape("", "a: ", "b", "", ""),
];

/// A text of at most `size` bytes in which the shape is repeated as often as fits.
fn text(shape: &Shape, size: usize) -> String {
    let Shape(before, open, middle, close, after) = shape;
    let times = size.saturating_sub(before.len() + middle.len() + after.len()) / (open.len() + close.len());
    format!("{before}{}{middle}{}{after}", open.repeat(times), close.repeat(times))
}

/// Scans texts as files that each declare a DAG too, and says which were refused as too deep.
///
/// # Panics
/// If one is neither read nor a problem of its own.
fn scan_each(texts: &[String], seed: u64) -> Vec<bool> {
    let folder = TempDir::new().unwrap();
    for (n, text) in texts.iter().enumerate() {
        let name = format!("deep{n}.py");
        fs::write(folder.path().join(name), format!("{}\n{text}\n", dag_file(&format!("dag{n}"), "q"))).unwrap();
    }
    let scan = scan(folder.path()).unwrap();
    assert_eq!(scan.listed, texts.len());
    let check = |(n, text): (usize, &String)| {
        let name = format!("deep{n}.py");
        let start: String = text.chars().take(60).collect();
        let read = scan.declarations.iter().filter(|declared| declared.origin.file == name).count();
        let problem = scan.unreadable.iter().find(|problem| problem.file == name);
        let kind = problem.map(|problem| problem.kind);
        match kind {
            None => assert_eq!(read, 1, "seed {seed}: {start}"),
            Some(FileProblemKind::TooDeep | FileProblemKind::Syntax) => assert_eq!(read, 0, "seed {seed}: {start}"),
            Some(kind) => panic!("seed {seed}: {kind:?}: {start}"),
        }
        kind == Some(FileProblemKind::TooDeep)
    };
    texts.iter().enumerate().map(check).collect()
}

fn is_long_round() -> bool {
    std::env::var_os("RMQ_TEST_ALL").is_some()
}

/// What nests is refused early; what is flat is read to its end, which takes long in an unoptimised build. So the plain
/// round takes a quarter of the size for those shapes that are not refused as too deep at a size that suffices for it.
#[test]
fn every_construct_at_the_largest_size_is_read_or_a_problem_of_its_file() {
    let small: Vec<String> = SHAPES.iter().map(|shape| text(shape, 128 * 1024)).collect();
    let refused = scan_each(&small, 0);
    // In steps, so that no more than a few large files lie on the disk.
    for (step, shapes) in SHAPES.chunks(8).enumerate() {
        let largest = |(n, shape)| {
            let is_whole = is_long_round() || refused[step * 8 + n];
            text(shape, if is_whole { MAX_FILE_BYTES - 400 } else { MAX_FILE_BYTES / 4 })
        };
        let texts: Vec<String> = shapes.iter().enumerate().map(largest).collect();
        scan_each(&texts, 0);
    }
}

#[test]
fn every_construct_just_below_and_above_the_bound_is_read_or_a_problem_of_its_file() {
    for times in [99, 199, 999, 1_499, 2_990, 3_010, 6_000] {
        let texts = SHAPES.each_ref().map(|shape| text(shape, times * (shape.1.len() + shape.3.len()) + 40));
        scan_each(&texts, 0);
    }
}

#[test]
fn deep_indentation_is_read_or_a_problem_of_its_file() {
    for head in ["if 1,:", "def f(a, b):", "class A:", "while lambda a,b: 1:", "for a in b, c:", "with a, b:", "try:"] {
        for start in ["", "x = (\n", "x = f('a', [\n"] {
            let blocks = |count| (0..count).fold(start.to_owned(), |text, n| text + &" ".repeat(n) + head + "\n");
            scan_each(&[blocks(98) + &" ".repeat(98) + "pass", blocks(2_850)], 0);
        }
    }
}

#[test]
fn mixed_constructs_are_read_or_a_problem_of_their_file() {
    let seed = std::env::var("RMQ_TEST_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let mut random = Random(seed);
    for _ in 0..if is_long_round() { 200 } else { 4 } {
        let texts: Vec<String> = (0..16).map(|_| mixed(&mut random)).collect();
        scan_each(&texts, seed);
    }
}

/// Constructs inside one another and one after another, each repeated up to a size, some with a piece cut out or moved.
fn mixed(random: &mut Random) -> String {
    let mut before = String::new();
    let mut after = String::new();
    let mut left = 1 << (8 + random.below(14));
    while left > 0 {
        let Shape(start, open, middle, close, end) = &SHAPES[random.below(SHAPES.len())];
        let times = match random.below(3) {
            0 => 1 + random.below(20),
            1 => 1 + random.below(3_000),
            _ => 1 + random.below(left),
        };
        let times = times.min(1 + left / (open.len() + close.len()));
        // An expression goes on where the last one stopped.
        let start = start.strip_prefix("x = ").unwrap_or(start);
        if before.is_empty() || random.below(8) == 0 {
            before.push_str(if random.below(2) == 0 { "\nx = " } else { "\n" });
        }
        before.push_str(start);
        before.push_str(&open.repeat(times));
        if random.below(2) == 0 {
            before.push_str(middle);
            before.push_str(&close.repeat(times));
            before.push_str(end);
        } else {
            after = close.repeat(times) + end + &after;
        }
        left = left.saturating_sub(times * (open.len() + close.len()) + 16);
    }
    before.push('1');
    let mut text = before + &after;
    for _ in 0..random.below(3) {
        let at = random.below(text.len());
        let end = (at + random.below(30)).min(text.len());
        let piece = text[at..end].to_owned();
        match random.below(3) {
            0 => text.replace_range(at..end, ""),
            1 => text.insert_str(random.below(text.len()), &piece.repeat(1 + random.below(400))),
            _ => text.insert_str(at, ["'''", "f'''{", "(", ")", "\n", ",", "'", ";", "}"][random.below(9)]),
        }
    }
    text.truncate(MAX_FILE_BYTES - 400);
    text
}
