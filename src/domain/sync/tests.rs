//! The life of a key, as a table: what is read, what the scan shows, what is done.

use super::super::declaration::Origin;
use super::super::ids::{ConnId, QueueName};
use super::super::options::Options;
use super::*;

fn key(dag: &str) -> Key {
    Key { dag_id: DagId::new(dag), queue: QueueName::new("q"), conn_id: ConnId::new("c") }
}

fn at(file: &str, line: u32) -> Origin {
    Origin { file: file.to_owned(), line, column: 1 }
}

fn declared(dag: &str, file: &str) -> Declaration {
    Declaration::new(dag, "q", "c", at(file, 1)).expect("valid names")
}

fn row(dag: &str, file: &str) -> Row {
    Row {
        id: SubscriptionId(7),
        key: key(dag),
        source: Source::DagFile,
        origin: at(file, 1).to_string(),
        origin_file: file.to_owned(),
        options: Options::default(),
        enabled: true,
        invalid: None,
        absent_cycles: 0,
        deleted_at_ms: None,
        created_at_ms: 0,
        updated_at_ms: 0,
    }
}

fn refusal(file: &str, dag: Option<&str>, names: Names) -> Refusal {
    let reason = RefusalReason::NoQueue;
    Refusal { origin: at(file, 3), dag_id: dag.map(DagId::new), parameter: None, reason, names }
}

/// A scan, filled in where a test cares.
#[derive(Clone, Debug, Default)]
struct Scan {
    declarations: Vec<Declaration>,
    refusals: Vec<Refusal>,
    failing: BTreeMap<String, u32>,
    unreadable_directories: Vec<String>,
    bundles: Vec<String>,
}

impl Scan {
    fn of(declarations: &[Declaration]) -> Self {
        Self { declarations: declarations.to_vec(), ..Self::default() }
    }

    fn scanned(&self) -> Scanned<'_> {
        Scanned {
            declarations: &self.declarations,
            refusals: &self.refusals,
            failing: &self.failing,
            unreadable_directories: &self.unreadable_directories,
            bundles: &self.bundles,
        }
    }

    fn timed(&self, row: &Row, active: Option<&HashSet<DagId>>) -> Plan {
        plan(std::slice::from_ref(row), self.scanned(), active, true)
    }

    fn acts(&self, row: &Row) -> Vec<RowChange> {
        self.timed(row, None).acts()
    }
}

impl Plan {
    fn acts(&self) -> Vec<RowChange> {
        self.changes.iter().map(|change| change.act.clone()).collect()
    }

    fn sentences(&self) -> Vec<String> {
        self.changes.iter().filter_map(|change| change.said.as_ref()).map(ToString::to_string).collect()
    }
}

const ID: SubscriptionId = SubscriptionId(7);

fn miss(absent_cycles: u32) -> Vec<RowChange> {
    vec![RowChange::Miss { id: ID, absent_cycles }]
}

fn no_dags() -> HashSet<DagId> {
    HashSet::new()
}

#[test]
fn a_missing_key_survives_three_trusted_scans_and_the_fourth_deletes_it() {
    for seen in 0..3 {
        assert_eq!(Scan::default().acts(&Row { absent_cycles: seen, ..row("d", "a.py") }), miss(seen));
    }
    let deleted = RowChange::Delete { id: ID, absent_cycles: 3, only_enabled: false };
    assert_eq!(Scan::default().acts(&Row { absent_cycles: 3, ..row("d", "a.py") }), [deleted]);
}

#[test]
fn each_miss_is_a_warning_with_the_attempts_left() {
    let said: Vec<_> = (0..4)
        .map(|seen| Scan::default().timed(&Row { absent_cycles: seen, ..row("d", "a.py") }, None))
        .map(|plan| (plan.changes[0].said.as_ref().expect("a line").level(), plan.sentences().remove(0)))
        .collect();
    let who = "subscription of DAG 'd' to queue 'q' (connection 'c')";
    let tails = [
        "is missing from the scan, miss 1 in a row: 2 attempts left; it stays as it is",
        "is missing from the scan, miss 2 in a row: 1 attempt left; it stays as it is",
        "is missing from the scan, miss 3 in a row: no attempts left, the next miss deletes it; it stays as it is",
        "was deleted, miss 4 in a row; if it is declared again it comes back enabled, as it was",
    ];
    assert_eq!(said, tails.map(|tail| (Level::Warning, format!("{who} {tail}"))));
}

#[test]
fn an_enabled_row_of_a_dag_that_airflow_does_not_have_goes_on_the_third_miss() {
    let dags = no_dags();
    for seen in 0..2 {
        let plan = Scan::default().timed(&Row { absent_cycles: seen, ..row("d", "a.py") }, Some(&dags));
        assert_eq!(plan.acts(), miss(seen));
    }
    let plan = Scan::default().timed(&Row { absent_cycles: 2, ..row("d", "a.py") }, Some(&dags));
    assert_eq!(plan.acts(), [RowChange::Delete { id: ID, absent_cycles: 2, only_enabled: true }]);
    assert!(
        plan.sentences()[0].contains("miss 3 in a row (more than 2 are too many for a DAG that Airflow does not have)")
    );
}

#[test]
fn the_attempts_left_of_a_dag_that_airflow_does_not_have_are_fewer() {
    let plan = Scan::default().timed(&Row { absent_cycles: 1, ..row("d", "a.py") }, Some(&no_dags()));
    assert!(plan.sentences()[0].contains("no attempts left"), "{:?}", plan.sentences());
}

#[test]
fn dags_that_cannot_be_read_are_all_active_and_so_is_one_that_is_listed() {
    let missing = Row { absent_cycles: 2, ..row("d", "a.py") };
    assert_eq!(Scan::default().timed(&missing, None).acts(), miss(2));
    assert_eq!(Scan::default().timed(&missing, Some(&HashSet::from([DagId::new("d")]))).acts(), miss(2));
}

#[test]
fn a_disabled_row_always_gets_the_full_grace() {
    let disabled = Row { enabled: false, absent_cycles: 2, ..row("d", "a.py") };
    assert_eq!(Scan::default().timed(&disabled, Some(&no_dags())).acts(), miss(2));
    let deleted = RowChange::Delete { id: ID, absent_cycles: 3, only_enabled: false };
    let plan = Scan::default().timed(&Row { absent_cycles: 3, ..disabled }, Some(&no_dags()));
    assert_eq!(plan.acts(), [deleted]);
    assert!(plan.sentences()[0].ends_with("if it is declared again it comes back disabled, as it was"));
}

#[test]
fn a_key_that_is_back_is_counted_anew_with_an_info_line() {
    let plan = Scan::of(&[declared("d", "a.py")]).timed(&Row { absent_cycles: 3, ..row("d", "a.py") }, None);
    assert_eq!(plan.acts(), [RowChange::Reset { id: ID, absent_cycles: 3 }]);
    assert_eq!(plan.changes[0].said.as_ref().map(Said::level), Some(Level::Info));
    assert!(plan.sentences()[0].ends_with("is in the scan again after 3 counted misses"));
}

#[test]
fn a_key_that_comes_back_after_its_row_was_deleted_keeps_its_flag_and_is_named_in_a_warning() {
    for (enabled, flag) in [(false, "disabled"), (true, "enabled")] {
        let tombstone = Row { enabled, deleted_at_ms: Some(5), ..row("d", "a.py") };
        let plan = Scan::of(&[declared("d", "b.py")]).timed(&tombstone, None);
        assert_eq!(plan.acts(), [RowChange::Revive { id: ID, declaration: declared("d", "b.py") }]);
        assert_eq!(plan.changes[0].said.as_ref().map(Said::level), Some(Level::Warning));
        assert_eq!(
            plan.sentences(),
            [format!(
                "subscription of DAG 'd' to queue 'q' (connection 'c') was deleted and is declared again at b.py:1:1; it is \
                 {flag} as it was before"
            )]
        );
    }
}

#[test]
fn a_tombstone_that_is_not_declared_is_left_alone() {
    let tombstone = Row { deleted_at_ms: Some(5), ..row("d", "a.py") };
    let refused = Scan { refusals: vec![refusal("a.py", Some("d"), Names::Keys(vec![key("d")]))], ..Scan::default() };
    assert_eq!(Scan::default().acts(&tombstone), []);
    assert_eq!(refused.acts(&tombstone), []);
}

#[test]
fn what_is_declared_for_the_first_time_is_inserted() {
    let found = plan(&[], Scan::of(&[declared("d", "a.py")]).scanned(), None, false);
    assert_eq!(found.acts(), [RowChange::Insert { declaration: declared("d", "a.py") }]);
    assert!(found.sentences()[0].ends_with("is new, declared at a.py:1:1"));
}

#[test]
fn a_change_of_options_or_of_the_place_is_taken_over_and_only_options_are_worth_a_line() {
    let mut other = declared("d", "a.py");
    other.options.cooldown = 5;
    let plan = Scan::of(std::slice::from_ref(&other)).timed(&row("d", "a.py"), None);
    assert_eq!(plan.acts(), [RowChange::Update { id: ID, declaration: other }]);
    assert!(plan.sentences()[0].ends_with("has new options, declared at a.py:1:1"));
    let moved = Scan::of(&[declared("d", "b.py")]).timed(&row("d", "a.py"), None);
    assert_eq!(moved.acts(), [RowChange::Update { id: ID, declaration: declared("d", "b.py") }]);
    assert_eq!(moved.sentences(), [""; 0]);
}

#[test]
fn a_refusal_makes_the_row_it_names_invalid_and_never_deletes_it() {
    let scan = Scan { refusals: vec![refusal("a.py", Some("d"), Names::Keys(vec![key("d")]))], ..Scan::default() };
    let reason = scan.refusals[0].to_string();
    let missed = Row { absent_cycles: 3, ..row("d", "a.py") };
    let acts = scan.acts(&missed);
    let back = RowChange::Reset { id: ID, absent_cycles: 3 };
    assert_eq!(acts, [RowChange::Invalidate { id: ID, reason: reason.clone() }, back]);
    assert_eq!(scan.acts(&Row { invalid: Some(reason), ..row("d", "a.py") }), [], "it is known already");
}

#[test]
fn a_row_that_was_invalid_is_valid_once_it_is_declared_again() {
    let invalid = Row { invalid: Some("no".into()), ..row("d", "a.py") };
    let plan = Scan::of(&[declared("d", "a.py")]).timed(&invalid, None);
    assert_eq!(plan.acts(), [RowChange::Update { id: ID, declaration: declared("d", "a.py") }]);
    assert!(plan.sentences()[0].ends_with("can be read again, declared at a.py:1:1"));
}

#[test]
fn what_is_declared_runs_though_a_refusal_names_it_too() {
    let refusals = vec![refusal("b.py", Some("d"), Names::Keys(vec![key("d")]))];
    let scan = Scan { refusals, ..Scan::of(&[declared("d", "a.py")]) };
    assert_eq!(scan.acts(&row("d", "a.py")), []);
}

#[test]
fn a_refusal_that_cannot_be_told_apart_hides_the_rows_of_its_file_and_dag_and_no_others() {
    let hides = |file: &str, dag: Option<&str>| {
        let refusals = vec![refusal(file, dag, Names::Unknown)];
        Scan { refusals, ..Scan::default() }.acts(&row("d", "a.py")).is_empty()
    };
    assert!(hides("a.py", None) && hides("a.py", Some("d")));
    assert!(!hides("a.py", Some("other")) && !hides("b.py", None) && !hides("b.py", Some("d")));
}

#[test]
fn a_refusal_that_names_nothing_hides_nothing() {
    let scan = Scan { refusals: vec![refusal("a.py", Some("d"), Names::Keys(Vec::new()))], ..Scan::default() };
    assert_eq!(scan.acts(&row("d", "a.py")), miss(0));
}

#[test]
fn a_file_that_cannot_be_read_holds_its_rows_for_one_cycle_and_then_joins_the_miss_count() {
    let failing = |streak| Scan { failing: [("a.py".to_owned(), streak)].into(), ..Scan::default() };
    assert_eq!(failing(1).acts(&row("d", "a.py")), []);
    assert_eq!(failing(2).acts(&row("d", "a.py")), miss(0));
    assert_eq!(failing(9).acts(&Row { absent_cycles: 1, ..row("d", "a.py") }), miss(1));
    assert_eq!(failing(1).acts(&row("d", "aa.py")), miss(0), "another file");
    let archive = Scan { failing: [("x.zip".to_owned(), 1)].into(), ..Scan::default() };
    assert_eq!(archive.acts(&row("d", "x.zip/a.py")), [], "a file within an archive");
}

#[test]
fn a_directory_that_cannot_be_listed_hides_its_rows_however_long() {
    let scan = |dir: &str| Scan { unreadable_directories: vec![dir.to_owned()], ..Scan::default() };
    let missed = Row { absent_cycles: 3, ..row("d", "team/sub/a.py") };
    for dir in ["team", "team/sub", ""] {
        assert_eq!(scan(dir).acts(&missed), [], "{dir:?}");
    }
    for dir in ["tea", "team/su", "sub", "team/sub/b"] {
        assert_eq!(scan(dir).acts(&missed).len(), 1, "{dir:?}");
    }
}

#[test]
fn what_hides_a_file_hides_it_also_under_the_name_it_had_before_folders_were_added_or_taken_away() {
    let scan = |bundles: &[&str], dir: &str| Scan {
        unreadable_directories: vec![dir.to_owned()],
        bundles: bundles.iter().map(ToString::to_string).collect(),
        ..Scan::default()
    };
    let covers = |scan: &Scan, file: &str| scan.acts(&row("d", file)).is_empty();
    let two = |dir: &str| scan(&["main", "b"], dir);
    for (dir, file) in
        [("b:", "team/a.py"), ("main:team", "team/a.py"), ("b:", "old:a.py"), ("b:team", "old:team/a.py")]
    {
        assert!(covers(&two(dir), file), "{dir} {file}");
    }
    for (dir, file) in
        [("b:", "main:a.py"), ("main:team", "b:team/a.py"), ("main:team", "a.py"), ("b:team", "old:a.py")]
    {
        assert!(!covers(&two(dir), file), "{dir} {file}");
    }
    assert!(covers(&scan(&[], "team"), "main:team/a.py") && !covers(&scan(&[], "team"), "main:a.py"));
    let refusals = vec![refusal("b:a.py", Some("d"), Names::Unknown)];
    let refused = Scan { refusals, ..scan(&["main", "b"], "b:none") };
    assert!(covers(&refused, "a.py") && !covers(&refused, "main:a.py"));
    let failing = Scan { failing: [("b:a.py".to_owned(), 1)].into(), ..scan(&["main", "b"], "b:none") };
    assert!(covers(&failing, "a.py") && !covers(&failing, "c.py"));
}

#[test]
fn a_row_made_by_hand_is_neither_missed_nor_taken_over() {
    let by_hand = Row { source: Source::Ui, absent_cycles: 3, ..row("d", "") };
    assert_eq!(Scan::default().timed(&by_hand, Some(&no_dags())), Plan::default());
    let scan = Scan::of(&[declared("d", "a.py")]);
    let plan = scan.timed(&by_hand, None);
    assert_eq!(plan.changes, []);
    assert_eq!(plan.conflicts.len(), 1);
    assert_eq!(plan.conflicts[0].level(), Level::Warning);
    assert!(plan.conflicts[0].to_string().contains("subscription 7, which was made by hand, has its place"));
    let codes: Vec<_> = plan.refusals.iter().map(|refusal| (refusal.reason.code(), refusal.names.clone())).collect();
    assert_eq!(codes, [("made_by_hand", Names::Keys(Vec::new()))]);
}

#[test]
fn a_row_made_by_hand_that_was_deleted_gives_its_place_to_a_declaration() {
    let tombstone = Row { source: Source::Ui, deleted_at_ms: Some(1), ..row("d", "") };
    let plan = Scan::of(&[declared("d", "a.py")]).timed(&tombstone, None);
    assert_eq!(plan.acts(), [RowChange::Revive { id: ID, declaration: declared("d", "a.py") }]);
    assert_eq!(plan.conflicts, []);
}

#[test]
fn a_wake_counts_no_miss_and_deletes_nothing() {
    for absent_cycles in 0..9 {
        let missed = Row { absent_cycles, ..row("d", "a.py") };
        assert_eq!(plan(&[missed], Scan::default().scanned(), Some(&no_dags()), false), Plan::default());
    }
}

#[test]
fn refusals_are_handed_on_in_the_order_of_their_places() {
    let refusals = vec![refusal("z.py", None, Names::Unknown), refusal("b.py", None, Names::Unknown)];
    let scan = Scan { refusals, ..Scan::of(&[declared("d", "m.py")]) };
    let plan = scan.timed(&Row { source: Source::Ui, ..row("d", "") }, None);
    let files: Vec<_> = plan.refusals.iter().map(|refusal| refusal.origin.file.as_str()).collect();
    assert_eq!(files, ["b.py", "m.py", "z.py"]);
}

mod properties;
