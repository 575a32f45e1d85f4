//! What holds whatever is declared, missing, refused or hidden, over many cycles.

use proptest::prelude::*;

use super::*;

fn of(rows: &mut [Row], id: SubscriptionId) -> &mut Row {
    rows.iter_mut().find(|row| row.id == id).expect("a known row")
}

/// Writes a plan, as the state file does.
fn write(rows: &mut Vec<Row>, plan: &Plan) {
    for act in plan.acts() {
        match act {
            RowChange::Insert { declaration } => {
                let next = rows.iter().map(|row| row.id.0).max().unwrap_or(0) + 1;
                let file = declaration.origin.file.clone();
                let base = super::row(declaration.dag_id.as_str(), &file);
                rows.push(Row { id: SubscriptionId(next), options: declaration.options, ..base });
            }
            RowChange::Revive { id, declaration } | RowChange::Update { id, declaration } => {
                let row = of(rows, id);
                let absent_cycles = if row.is_tombstone() { 0 } else { row.absent_cycles };
                let origin = declaration.origin.to_string();
                let (options, origin_file) = (declaration.options, declaration.origin.file);
                let source = Source::DagFile;
                *row = Row {
                    origin,
                    origin_file,
                    options,
                    source,
                    absent_cycles,
                    invalid: None,
                    deleted_at_ms: None,
                    ..row.clone()
                };
            }
            RowChange::Invalidate { id, reason } => of(rows, id).invalid = Some(reason),
            RowChange::Reset { id, .. } => of(rows, id).absent_cycles = 0,
            RowChange::Miss { id, absent_cycles } => of(rows, id).absent_cycles = absent_cycles + 1,
            RowChange::Delete { id, .. } => {
                let row = of(rows, id);
                (row.deleted_at_ms, row.absent_cycles) = (Some(1), 0);
            }
        }
    }
}

/// What happens in one cycle to each of a handful of keys.
#[derive(Clone, Copy, Debug)]
enum Fate {
    Declared,
    Elsewhere,
    NewOptions,
    Refused,
    Unnamed,
    Missing,
    Failing(u32),
    Hidden,
}

fn fate() -> impl Strategy<Value = Fate> {
    let missing = Just(Fate::Missing);
    let others = prop_oneof![
        Just(Fate::Declared),
        Just(Fate::Elsewhere),
        Just(Fate::NewOptions),
        Just(Fate::Refused),
        Just(Fate::Unnamed),
        (1_u32..4).prop_map(Fate::Failing),
        Just(Fate::Hidden),
    ];
    prop_oneof![2 => missing, 1 => others]
}

const DAGS: [&str; 3] = ["d0", "d1", "d2"];

#[derive(Clone, Debug)]
struct Cycle {
    fates: [Fate; 3],
    timed: bool,
    active: Option<Vec<usize>>,
    /// A person switches this one before the cycle.
    toggled: Option<usize>,
}

fn cycle() -> impl Strategy<Value = Cycle> {
    let active = proptest::option::of(proptest::collection::vec(0_usize..3, 0..3));
    let toggled = proptest::option::weighted(0.2, 0_usize..3);
    ([fate(), fate(), fate()], proptest::bool::weighted(0.8), active, toggled)
        .prop_map(|(fates, timed, active, toggled)| Cycle { fates, timed, active, toggled })
}

fn scan(fates: [Fate; 3]) -> Scan {
    let mut scan = Scan::default();
    for (dag, fate) in DAGS.into_iter().zip(fates) {
        let file = format!("{dag}/a.py");
        match fate {
            Fate::Declared => scan.declarations.push(declared(dag, &file)),
            Fate::Elsewhere => scan.declarations.push(declared(dag, "elsewhere.py")),
            Fate::NewOptions => {
                let mut declaration = declared(dag, &file);
                declaration.options.cooldown = 9;
                scan.declarations.push(declaration);
            }
            Fate::Refused => scan.refusals.push(refusal(&file, Some(dag), Names::Keys(vec![key(dag)]))),
            Fate::Unnamed => scan.refusals.push(refusal(&file, None, Names::Unknown)),
            Fate::Missing => {}
            Fate::Failing(streak) => drop(scan.failing.insert(file, streak)),
            Fate::Hidden => scan.unreadable_directories.push(dag.to_owned()),
        }
    }
    scan
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn planning_twice_changes_nothing_and_no_scan_changes_a_flag_or_an_id(cycles in proptest::collection::vec(cycle(), 1..25)) {
        let mut rows = vec![Row { id: SubscriptionId(1), source: Source::Ui, ..row("by_hand", "") }];
        // Misses that were really counted since the key was last seen, by our own count.
        let mut counted = BTreeMap::<SubscriptionId, u32>::new();
        for Cycle { fates, timed, active, toggled } in cycles {
            if let Some(row) = toggled.and_then(|at| rows.iter_mut().find(|row| row.key == key(DAGS[at]))) {
                row.enabled = !row.enabled;
            }
            let scan = scan(fates);
            let active = active.map(|dags| dags.into_iter().map(|at| DagId::new(DAGS[at])).collect::<HashSet<_>>());
            let before = rows.clone();
            let plan = super::plan(&rows, scan.scanned(), active.as_ref(), timed);
            write(&mut rows, &plan);
            for (old, new) in before.iter().zip(&rows) {
                prop_assert_eq!((old.id, &old.key, old.enabled), (new.id, &new.key, new.enabled));
            }
            prop_assert_eq!(&before[0], &rows[0], "a row made by hand");
            for act in plan.acts() {
                match act {
                    RowChange::Miss { id, .. } => *counted.entry(id).or_default() += 1,
                    RowChange::Reset { id, .. } | RowChange::Revive { id, .. } => drop(counted.remove(&id)),
                    RowChange::Delete { id, only_enabled, .. } => {
                        prop_assert!(timed);
                        let before = before.iter().find(|row| row.id == id).expect("a known row");
                        let misses = counted.remove(&id).unwrap_or(0) + 1;
                        let surely_gone = active.as_ref().is_some_and(|dags| !dags.contains(&before.key.dag_id));
                        let early = before.enabled && surely_gone;
                        prop_assert!(misses >= if early { 3 } else { 4 }, "{misses}");
                        prop_assert!(before.enabled || !only_enabled);
                    }
                    RowChange::Insert { .. } | RowChange::Update { .. } | RowChange::Invalidate { .. } => {}
                }
            }
            let again = super::plan(&rows, scan.scanned(), active.as_ref(), false);
            prop_assert_eq!(again.changes, Vec::new());
        }
    }

    #[test]
    fn a_key_that_is_never_seen_again_is_deleted_after_three_or_four_timed_cycles(enabled: bool, active in proptest::option::of(proptest::bool::ANY)) {
        let mut rows = vec![Row { enabled, ..row("d", "a.py") }];
        let dags = active.map(|active| if active { HashSet::from([DagId::new("d")]) } else { HashSet::new() });
        let mut cycles = 0;
        while !rows[0].is_tombstone() {
            let plan = super::plan(&rows, Scan::default().scanned(), dags.as_ref(), true);
            prop_assert_eq!(plan.changes.len(), 1);
            write(&mut rows, &plan);
            cycles += 1;
        }
        prop_assert_eq!(cycles, if enabled && active == Some(false) { 3 } else { 4 });
    }
}
