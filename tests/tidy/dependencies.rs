//! What the project is built from: the rules of `deny.toml`, held without a network over `cargo metadata`, and that every
//! dependency is used and has its reason in `docs/adr/0010-choose-dependencies.md`.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

use crate::none;
use crate::repository::{Text, files, top};

/// The rules, from `deny.toml`.
struct Rules {
    licenses: BTreeSet<String>,
    banned: BTreeSet<String>,
    once: BTreeSet<String>,
    registries: BTreeSet<String>,
}

impl Rules {
    fn read(text: &str) -> Self {
        let table: toml::Table = text.parse().expect("deny.toml is TOML");
        let list = |section: &str, key: &str| -> BTreeSet<String> {
            let list = table[section][key].as_array().expect("a list");
            let name = |item: &toml::Value| {
                let name = item.get("crate").unwrap_or(item);
                name.as_str().expect("a name").to_owned()
            };
            list.iter().map(name).collect()
        };
        let denied = table["bans"]["deny"].as_array().expect("a list");
        let once = denied
            .iter()
            .filter(|item| item.get("deny-multiple-versions").is_some())
            .map(|item| item["crate"].as_str().unwrap().to_owned())
            .collect::<BTreeSet<_>>();
        let banned = &list("bans", "deny") - &once;
        Self { licenses: list("licenses", "allow"), registries: list("sources", "allow-registry"), banned, once }
    }
}

/// A license expression is fulfilled when what must hold together is all allowed, in one of its alternatives.
fn licensed(expression: &str, allowed: &BTreeSet<String>) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<_> = spaced.split_whitespace().collect();
    let (fulfilled, rest) = either(&words, allowed);
    fulfilled && rest.is_empty()
}

fn either<'a>(words: &'a [&'a str], allowed: &BTreeSet<String>) -> (bool, &'a [&'a str]) {
    let (mut fulfilled, mut rest) = both(words, allowed);
    while let ["OR", after @ ..] = rest {
        let (next, left) = both(after, allowed);
        fulfilled |= next;
        rest = left;
    }
    (fulfilled, rest)
}

fn both<'a>(words: &'a [&'a str], allowed: &BTreeSet<String>) -> (bool, &'a [&'a str]) {
    let (mut fulfilled, mut rest) = one(words, allowed);
    while let ["AND", after @ ..] = rest {
        let (next, left) = one(after, allowed);
        fulfilled &= next;
        rest = left;
    }
    (fulfilled, rest)
}

fn one<'a>(words: &'a [&'a str], allowed: &BTreeSet<String>) -> (bool, &'a [&'a str]) {
    match words {
        ["(", inner @ ..] => {
            let (fulfilled, rest) = either(inner, allowed);
            (fulfilled, rest.strip_prefix(&[")"]).unwrap_or(rest))
        }
        [license, "WITH", exception, rest @ ..] => (allowed.contains(&format!("{license} WITH {exception}")), rest),
        [license, rest @ ..] => (allowed.contains(*license), rest),
        [] => (false, words),
    }
}

/// Breaches of the rules by the packages of `cargo metadata`.
fn breaches(packages: &[Value], rules: &Rules) -> Vec<String> {
    let mut found = Vec::new();
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in packages {
        let (name, version) = (package["name"].as_str().unwrap(), package["version"].as_str().unwrap());
        versions.entry(name).or_default().push(version);
        let license = package["license"].as_str().unwrap_or("none stated");
        if !licensed(license, &rules.licenses) {
            found.push(format!("{name} {version}: the license {license} is not allowed"));
        }
        if rules.banned.contains(name) {
            found.push(format!("{name} {version}: banned in deny.toml"));
        }
        // The project itself has no source.
        if let Some(source) = package["source"].as_str() {
            let from = source.trim_start_matches("registry+");
            if !rules.registries.contains(from) {
                found.push(format!("{name} {version}: from {source}"));
            }
        }
    }
    for (name, versions) in versions {
        if rules.once.contains(name) && versions.len() > 1 {
            found.push(format!("{name}: in the versions {}", versions.join(", ")));
        }
    }
    found
}

/// The packages that are built on Linux.
fn packages() -> Vec<Value> {
    let done = Command::new(std::env::var_os("CARGO").expect("run by cargo"))
        .args(["metadata", "--format-version=1", "--locked", "--filter-platform=x86_64-unknown-linux-gnu"])
        .current_dir(top())
        .output()
        .unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let metadata: Value = serde_json::from_slice(&done.stdout).unwrap();
    let nodes = metadata["resolve"]["nodes"].as_array().unwrap();
    let built: BTreeSet<_> = nodes.iter().map(|node| node["id"].as_str().unwrap()).collect();
    let packages = metadata["packages"].as_array().unwrap();
    let of_linux = packages.iter().filter(|package| built.contains(package["id"].as_str().unwrap()));
    of_linux.cloned().collect()
}

fn rules() -> Rules {
    Rules::read(&std::fs::read_to_string(top().join("deny.toml")).unwrap())
}

/// Names of a section of `Cargo.toml`.
fn named(manifest: &str, section: &str) -> BTreeSet<String> {
    let table: toml::Table = manifest.parse().unwrap();
    let names = table.get(section).and_then(toml::Value::as_table);
    names.into_iter().flatten().map(|(name, _)| name.clone()).collect()
}

/// Dependencies that no code names.
fn unused(names: &BTreeSet<String>, code: &[Text]) -> Vec<String> {
    let mentioned = |name: &str| {
        let ident = name.replace('-', "_");
        let forms = [format!("{ident}::"), format!("use {ident};"), format!("{ident}!")];
        code.iter().flat_map(Text::code).any(|(_, line)| forms.iter().any(|form| line.contains(form.as_str())))
    };
    let unused = names.iter().filter(|name| !mentioned(name));
    unused.map(|name| format!("{name}: no code names it")).collect()
}

/// Names in the first column of the record's tables against those of `Cargo.toml`.
fn unexplained(record: &str, names: &BTreeSet<String>) -> Vec<String> {
    let rows = record.lines().filter_map(|line| line.strip_prefix("| `"));
    let explained: BTreeSet<_> = rows
        .filter_map(|row| row.split('|').next())
        .flat_map(|cell| cell.split('`'))
        .map(|name| name.trim_matches([' ', ',']).to_owned())
        .filter(|name| !name.is_empty())
        .collect();
    let missing = names.difference(&explained);
    let gone = explained.difference(names);
    missing
        .map(|name| format!("{name}: not in the record"))
        .chain(gone.map(|name| format!("{name}: in the record, not in Cargo.toml")))
        .collect()
}

fn manifest() -> String {
    std::fs::read_to_string(top().join("Cargo.toml")).unwrap()
}

#[test]
fn packages_keep_the_rules_of_deny_toml() {
    none(&breaches(&packages(), &rules()));
}

#[test]
fn package_that_breaks_a_rule_is_found() {
    let rules = Rules::read(
        "[licenses]\nallow = ['MIT', 'Apache-2.0']\n[sources]\nallow-registry = ['https://r']\n\
         [bans]\ndeny = ['openssl', { crate = 'tokio', deny-multiple-versions = true }]\n",
    );
    let package = |name: &str, version: &str, license: &str, source: &str| serde_json::json!({"name": name, "version": version, "license": license, "source": source});
    let good = [package("tokio", "1", "MIT", "registry+https://r")];
    none(&breaches(&good, &rules));
    let bad = [
        package("tokio", "1", "MIT", "registry+https://r"),
        package("tokio", "2", "GPL-3.0", "registry+https://r"),
        package("openssl", "1", "MIT", "registry+https://r"),
        package("mine", "1", "MIT", "git+https://somewhere"),
    ];
    assert_eq!(breaches(&bad, &rules).len(), 4);
}

#[test]
fn license_expressions_are_read_as_written() {
    let allowed = ["MIT", "Apache-2.0", "ISC"].map(str::to_owned).into();
    for good in ["MIT", "GPL-3.0 OR MIT", "MIT/GPL-2.0", "(MIT OR GPL-3.0) AND ISC", "MIT AND ISC"] {
        assert!(licensed(good, &allowed), "{good}");
    }
    for bad in ["GPL-3.0", "MIT AND GPL-3.0", "(GPL-3.0) OR (MIT AND BSD-3)", "Apache-2.0 WITH X", "", "none stated"] {
        assert!(!licensed(bad, &allowed), "{bad}");
    }
}

#[test]
fn every_dependency_is_used() {
    let manifest = manifest();
    let sources = files(|path| path.starts_with("src/") && path.ends_with(".rs"));
    none(&unused(&named(&manifest, "dependencies"), &sources));
    let all = files(|path| path.ends_with(".rs"));
    none(&unused(&named(&manifest, "dev-dependencies"), &all));
}

#[test]
fn unused_dependency_is_found() {
    let names = ["a-b".to_owned(), "c".to_owned()].into();
    let code = [Text::new("src/x.rs", "use a_b::X; // c::d")];
    assert_eq!(unused(&names, &code), ["c: no code names it"]);
}

#[test]
fn every_dependency_has_its_reason() {
    let manifest = manifest();
    let record = std::fs::read_to_string(top().join("docs/adr/0010-choose-dependencies.md")).unwrap();
    let names = &named(&manifest, "dependencies") | &named(&manifest, "dev-dependencies");
    none(&unexplained(&record, &names));
}

#[test]
fn dependency_without_a_reason_is_found() {
    let names = ["a".to_owned(), "b".to_owned()].into();
    let record = "| crate | why |\n|---|---|\n| `a`, `z` | x |\n";
    assert_eq!(unexplained(record, &names).len(), 2);
}
