//! Who may use whom: the layer table of `docs/architecture.md`.

use crate::none;
use crate::repository::{Text, files, sources};

/// Modules of the library and of the binaries, and the modules each may name. Adapters never see each other.
const MAY_USE: &[(&str, &[&str])] = &[
    ("lib", &[]),
    ("domain", &[]),
    ("ports", &["domain"]),
    ("config", &["domain"]),
    ("telemetry", &["domain", "config"]),
    ("http_client", &["domain"]),
    ("store", &["domain", "ports", "config", "telemetry"]),
    ("broker", &["domain", "ports", "config", "telemetry", "http_client"]),
    ("airflow", &["domain", "ports", "config", "telemetry", "http_client"]),
    ("discovery", &["domain", "ports", "config", "telemetry"]),
    ("control", &["domain", "ports", "config", "telemetry"]),
    ("pipeline", &["domain", "ports", "store", "telemetry"]),
    ("reconcile", &["domain", "ports", "store", "telemetry", "pipeline"]),
    ("process", &["domain", "config", "telemetry"]),
    (
        "cli",
        &[
            "domain",
            "ports",
            "config",
            "telemetry",
            "store",
            "broker",
            "airflow",
            "discovery",
            "control",
            "process",
            "app",
        ],
    ),
    (
        "app",
        &[
            "domain",
            "ports",
            "config",
            "telemetry",
            "store",
            "broker",
            "airflow",
            "discovery",
            "control",
            "pipeline",
            "reconcile",
        ],
    ),
    ("bin/rmq-launcher", &["process"]),
    ("bin/rmq-watcher", &["app", "cli", "process"]),
];

/// Which module a file belongs to.
fn layer(path: &str) -> &str {
    let inner = path.trim_start_matches("src/").trim_end_matches(".rs");
    if inner.starts_with("bin/") {
        return inner;
    }
    inner.split('/').next().unwrap_or(inner)
}

/// How many `super` lead from a file's module to the crate's root.
fn depth(path: &str) -> usize {
    let inner = path.trim_start_matches("src/").trim_end_matches(".rs");
    inner.trim_end_matches("/mod").split('/').count()
}

/// The modules that a line of code names by `crate::…`, `rmq_watcher::…` or enough `super::…`.
fn named<'a>(code: &'a str, path: &str) -> Vec<&'a str> {
    let mut found = Vec::new();
    let up = "super::".repeat(depth(path));
    for root in ["crate::", "rmq_watcher::", &up] {
        let mut rest = code;
        while let Some(at) = rest.find(root) {
            let whole = !rest[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_' || c == ':');
            rest = &rest[at + root.len()..];
            if whole {
                found.extend(heads(rest));
            }
        }
    }
    found
}

/// The first names of a path, several where it opens with braces: `{a::b, c}` gives `a` and `c`.
fn heads(path: &str) -> Vec<&str> {
    let end = |text: &str| text.find(|c: char| !(c.is_alphanumeric() || c == '_')).unwrap_or(text.len());
    let Some(group) = path.strip_prefix('{') else {
        return vec![&path[..end(path)]];
    };
    let (mut level, mut names, mut fresh) = (0_usize, Vec::new(), true);
    for (at, c) in group.char_indices() {
        match c {
            '{' => level += 1,
            '}' if level == 0 => break,
            '}' => level -= 1,
            ',' if level == 0 => fresh = true,
            c if fresh && (c.is_alphanumeric() || c == '_') => {
                let name = &group[at..];
                names.push(&name[..end(name)]);
                fresh = false;
            }
            _ => {}
        }
    }
    names
}

fn breaches(files: &[Text]) -> Vec<String> {
    let mut found = Vec::new();
    for file in files {
        let own = layer(&file.path);
        let Some((_, allowed)) = MAY_USE.iter().find(|(name, _)| *name == own) else {
            found.push(file.at(1, &format!("the module `{own}` is not in the layer table")));
            continue;
        };
        for (line, code) in file.code() {
            for name in named(&code, &file.path) {
                let known = MAY_USE.iter().any(|(module, _)| *module == name);
                if known && name != own && !allowed.contains(&name) {
                    found.push(file.at(line, &format!("`{own}` may not use `{name}`")));
                }
            }
        }
    }
    found
}

#[test]
fn modules_use_only_what_the_layer_table_allows() {
    none(&breaches(&sources()));
}

#[test]
fn architecture_page_has_this_table() {
    let page = files(|path| path == "docs/architecture.md").remove(0);
    let (_, table) = page.text.split_once("| module | holds | may use |").expect("the page has a layer table");
    let ticked = |cell: &str| cell.split('`').skip(1).step_by(2).map(str::to_owned).collect::<Vec<_>>();
    let rows = table.lines().skip(2).take_while(|line| line.starts_with('|'));
    let documented: Vec<_> = rows
        .map(|row| {
            let cells: Vec<_> = row.trim_matches('|').split(" | ").collect();
            (ticked(cells[0]).concat(), ticked(cells[2]))
        })
        .collect();
    let held = MAY_USE.iter().map(|(module, others)| {
        ((*module).to_owned(), others.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
    });
    assert_eq!(documented, held.collect::<Vec<_>>());
}

#[test]
fn breach_of_a_layer_is_found_in_every_form() {
    let sample = [
        Text::new("src/domain/plan.rs", "use crate::store::Store;"),
        Text::new("src/broker/pool.rs", "fn f() { crate::airflow::go() }"),
        Text::new("src/airflow/mod.rs", "use super::broker::Pool;"),
        Text::new("src/store/a/b.rs", "use crate::{domain::ids, discovery::{walk, x}};"),
        Text::new("src/bin/rmq-launcher.rs", "use rmq_watcher::cli;"),
        Text::new("src/novel/mod.rs", ""),
    ];
    let found = breaches(&sample);
    assert_eq!(found.len(), 6, "{found:?}");
    assert_eq!(found[0], "src/domain/plan.rs:1: `domain` may not use `store`");
    assert!(found[3].contains("`discovery`"), "{found:?}");
}

#[test]
fn allowed_uses_and_comments_are_no_breach() {
    let sample = [
        Text::new("src/broker/pool.rs", "use crate::{domain::ids::X, ports};\n// crate::store\n"),
        Text::new("src/domain/a/b.rs", "//! [`crate::store`]\nuse super::super::ids;\nuse super::store::Y;"),
        Text::new("src/app.rs", "use crate::reconcile::run;"),
    ];
    none(&breaches(&sample));
}
