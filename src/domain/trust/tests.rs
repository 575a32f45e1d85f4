//! What a listing is believed for, sentence by sentence of what users are told.

use super::*;
use crate::domain::declaration::FileProblemKind;

fn listing(listed: u64, readable: u64) -> Listing {
    let failing = (readable..listed).map(|n| format!("f{n}.py")).collect();
    Listing::Listed { listed, readable, failing, unreadable_directories: Vec::new() }
}

fn outage() -> Listing {
    Listing::Outage("the folder /dags does not exist".into())
}

/// A baseline that has believed a listing of so many files.
fn believed(files: u64) -> Baseline {
    judge(&Baseline::default(), &listing(files, files), true).baseline
}

/// Judges listings one after the other in timed cycles; what was trusted, and the baseline at the end.
fn cycles(mut baseline: Baseline, listings: &[Listing]) -> (Vec<bool>, Baseline) {
    let mut trusted = Vec::new();
    for listing in listings {
        let judged = judge(&baseline, listing, true);
        trusted.push(judged.trusted);
        baseline = judged.baseline;
    }
    (trusted, baseline)
}

#[test]
fn a_scan_that_is_not_believed_leaves_everything_but_its_own_count() {
    let before = Baseline { failing: [("a.py".to_owned(), 1)].into(), ..believed(10) };
    let judged = judge(&before, &listing(10, 4), true);
    assert!(!judged.trusted);
    assert_eq!(judged.baseline, Baseline { distrusted: 1, ..before });
}

#[test]
fn a_folder_setting_or_a_folder_that_cannot_be_read_is_not_believed_and_says_why() {
    for baseline in [Baseline::default(), believed(10), Baseline { distrusted: 3, ..believed(10) }] {
        let judged = judge(&baseline, &outage(), true);
        assert_eq!(judged.reason, Some(Distrust::Outage("the folder /dags does not exist".into())));
        assert_eq!((judged.trusted, judged.baseline), (false, baseline));
    }
}

#[test]
fn less_than_half_of_what_the_folder_held_is_not_believed_and_exactly_half_is() {
    for (readable, trusted) in [(0, false), (1, false), (4, false), (5, true), (9, true), (10, true), (11, true)] {
        assert_eq!(judge(&believed(10), &listing(11, readable), true).trusted, trusted, "{readable}");
    }
    for (readable, trusted) in [(5, false), (6, true)] {
        assert_eq!(judge(&believed(11), &listing(readable, readable), true).trusted, trusted, "{readable} of 11");
    }
}

#[test]
fn an_empty_listing_and_one_of_which_nothing_was_read_are_not_believed() {
    let shrunk = Distrust::Shrunk { readable: 0, mark: 10 };
    assert_eq!(judge(&believed(10), &listing(0, 0), true).reason, Some(shrunk));
    for baseline in [believed(10), believed(1), Baseline::default()] {
        let judged = judge(&baseline, &listing(3, 0), true);
        assert_eq!((judged.trusted, judged.reason), (false, Some(Distrust::NothingReadable { listed: 3 })));
    }
}

#[test]
fn a_listing_of_which_nothing_was_read_is_not_believed_whatever_was_known() {
    let empty_for_good = Baseline { mark: 0, believed: true, ..Baseline::default() };
    assert!(!judge(&empty_for_good, &listing(3, 0), true).trusted);
}

#[test]
fn which_way_a_file_refused_takes_no_part_in_it() {
    // Truncated files are listed and not understood; files on a storage that lost access are not even listed.
    for listed in [4, 100] {
        assert!(!judge(&believed(100), &listing(listed, 4), true).trusted);
    }
    for listed in [50, 100] {
        assert!(judge(&believed(100), &listing(listed, 50), true).trusted);
    }
}

#[test]
fn one_broken_file_among_many_is_about_the_code_and_stays_trusted() {
    let judged = judge(&believed(10), &listing(10, 9), true);
    assert_eq!((judged.trusted, judged.reason.clone(), judged.gave_in()), (true, None, false));
    assert_eq!(judged.baseline.failing, [("f9.py".to_owned(), 1)].into());
}

#[test]
fn what_is_not_believed_is_distrusted_for_three_cycles_in_a_row_and_believed_on_the_fourth() {
    for strange in [listing(0, 0), listing(4, 4), listing(10, 4), listing(10, 0)] {
        let (trusted, baseline) = cycles(believed(10), &vec![strange.clone(); 4]);
        assert_eq!(trusted, [false, false, false, true], "{strange:?}");
        assert_eq!(baseline.distrusted, 0);
    }
    let judged = judge(&Baseline { distrusted: 3, ..believed(10) }, &listing(4, 4), true);
    assert!(judged.gave_in() && judged.reason == Some(Distrust::Shrunk { readable: 4, mark: 10 }));
}

#[test]
fn a_listing_that_is_believed_in_between_starts_the_three_cycles_over() {
    let (trusted, _) = cycles(
        believed(10),
        &[listing(1, 1), listing(1, 1), listing(10, 10), listing(1, 1), listing(1, 1), listing(1, 1)],
    );
    assert_eq!(trusted, [false, false, true, false, false, false]);
}

#[test]
fn believing_the_shrink_brings_the_known_count_down_to_it() {
    let (_, baseline) = cycles(believed(100), &vec![listing(10, 10); 4]);
    assert_eq!(baseline.mark, 10);
}

#[test]
fn a_folder_that_lost_most_of_its_files_is_measured_against_its_new_size_and_the_next_collapse_meets_three_cycles() {
    let (_, small) = cycles(believed(100), &vec![listing(10, 10); 4]);
    let (trusted, _) = cycles(small.clone(), &[listing(5, 5), listing(10, 10), listing(6, 6)]);
    assert_eq!(trusted, [true, true, true]);
    let (trusted, _) = cycles(small, &vec![listing(4, 4); 4]);
    assert_eq!(trusted, [false, false, false, true]);
}

#[test]
fn a_folder_that_is_empty_for_good_is_believed_and_left_alone() {
    for start in [Baseline::default(), believed(10)] {
        let (_, baseline) = cycles(start, &vec![listing(0, 0); 4]);
        let judged = judge(&baseline, &listing(0, 0), true);
        assert_eq!((judged.trusted, judged.reason), (true, None));
        let (trusted, _) = cycles(baseline, &vec![listing(0, 0); 20]);
        assert_eq!(trusted, vec![true; 20]);
    }
}

#[test]
fn a_folder_whose_files_stopped_reading_is_believed_at_last_and_then_left_alone() {
    let (trusted, baseline) = cycles(believed(10), &vec![listing(10, 0); 12]);
    assert_eq!(trusted, [vec![false; 3], vec![true; 9]].concat());
    assert_eq!(judge(&baseline, &listing(10, 0), true).reason, None);
    let (trusted, _) = cycles(Baseline::default(), &vec![listing(10, 0); 5]);
    assert_eq!(trusted, [false, false, false, true, true], "on a cold start too");
}

#[test]
fn the_distrust_starts_over_only_when_a_file_reads_again() {
    let (_, given_in) = cycles(believed(10), &vec![listing(10, 0); 4]);
    let (trusted, _) = cycles(given_in.clone(), &[outage(), listing(0, 0), listing(7, 0), outage(), listing(10, 0)]);
    assert_eq!(trusted, [false, true, true, false, true], "neither an outage nor an empty listing reads a file");
    let (trusted, _) =
        cycles(given_in, &[listing(10, 1), listing(10, 0), listing(10, 0), listing(10, 0), listing(10, 0)]);
    assert_eq!(trusted, [true, false, false, false, true]);
}

#[test]
fn a_folder_unmounting_a_slice_per_cycle_is_compared_with_what_it_held() {
    let slices: Vec<Listing> = [90, 80, 70, 60, 50, 40, 30, 20].map(|files| listing(files, files)).into();
    let (trusted, _) = cycles(believed(100), &slices);
    assert_eq!(trusted, [true, true, true, true, true, false, false, false]);
}

#[test]
fn the_count_is_a_high_water_mark() {
    let (_, baseline) = cycles(believed(10), &[listing(20, 20), listing(12, 12)]);
    assert_eq!(baseline.mark, 20);
}

#[test]
fn an_outage_in_between_leaves_the_budget_exactly_where_it_was() {
    let degraded = || listing(10, 1);
    let (trusted, _) =
        cycles(believed(10), &[degraded(), outage(), degraded(), outage(), outage(), degraded(), outage(), degraded()]);
    assert_eq!(trusted, [false, false, false, false, false, false, false, true], "it neither refills nor spends it");
}

#[test]
fn who_has_believed_no_listing_takes_what_is_given_short_of_one_with_nothing_readable() {
    assert!(judge(&Baseline::default(), &listing(1000, 1), true).trusted);
    assert!(judge(&Baseline::default(), &listing(1, 1), true).trusted);
    assert_eq!(judge(&Baseline::default(), &listing(0, 0), true).reason, Some(Distrust::Empty));
    assert_eq!(judge(&Baseline::default(), &listing(9, 0), true).reason, Some(Distrust::NothingReadable { listed: 9 }));
}

#[test]
fn a_restart_into_a_half_mounted_folder_is_noticed_because_the_baseline_outlives_it() {
    let json = serde_json::to_string(&believed(100)).expect("a handful of numbers");
    let after: Baseline = serde_json::from_str(&json).expect("what was written");
    assert!(!judge(&after, &listing(40, 40), true).trusted);
}

#[test]
fn the_reason_is_one_sentence_with_what_is_left_of_the_distrust() {
    let said = |baseline: &Baseline, listing: &Listing| judge(baseline, listing, true).to_string();
    assert_eq!(
        said(&believed(10), &listing(4, 4)),
        "the scan of the DAG folder is not believed: 4 files can be read, less than half of the 10 that the folder held; \
         subscriptions stay as they are (distrusted for 1 of 3 cycles, then believed)"
    );
    assert_eq!(
        said(&believed(10), &outage()),
        "the scan of the DAG folder is not believed: the folder /dags does not exist; subscriptions stay as they are"
    );
    assert_eq!(
        said(&Baseline { distrusted: 3, ..believed(10) }, &listing(7, 0)),
        "the scan of the DAG folder is believed after 3 distrusted cycles: the folder lists 7 files and none of them can be \
         read; what is missing from it is counted as missing from now on"
    );
}

#[test]
fn a_file_that_fails_is_counted_in_trusted_timed_cycles_until_it_reads_again() {
    let (_, baseline) = cycles(believed(10), &[listing(10, 9), listing(10, 9)]);
    assert_eq!(baseline.failing, [("f9.py".to_owned(), 2)].into());
    assert_eq!(
        judge(&baseline, &listing(10, 1), true).baseline.failing,
        baseline.failing,
        "a distrusted scan counts nothing"
    );
    assert_eq!(judge(&baseline, &listing(10, 10), true).baseline.failing, BTreeMap::new());
}

#[test]
fn files_of_a_listing_that_is_believed_at_last_fail_for_the_first_time() {
    let (_, baseline) = cycles(believed(4), &vec![listing(4, 0); 4]);
    assert_eq!(baseline.failing.values().copied().collect::<Vec<_>>(), [1, 1, 1, 1]);
}

#[test]
fn a_wake_spends_no_distrust_however_often_it_comes() {
    let baseline = Baseline { distrusted: 3, ..believed(10) };
    for strange in [listing(1, 1), listing(0, 0), listing(10, 0), outage()] {
        let judged = judge(&baseline, &strange, false);
        assert_eq!((judged.trusted, &judged.baseline), (false, &baseline), "{strange:?}");
    }
    assert!(!judge(&Baseline::default(), &listing(0, 0), false).trusted);
}

#[test]
fn a_wake_that_is_believed_ends_counts_and_raises_none() {
    let before = Baseline {
        distrusted: 2,
        failing: [("f9.py".to_owned(), 1), ("gone.py".to_owned(), 5)].into(),
        ..believed(10)
    };
    let judged = judge(&before, &listing(10, 8), false);
    assert!(judged.trusted);
    assert_eq!(judged.baseline.distrusted, 0, "the folder was seen whole");
    assert_eq!(
        judged.baseline.failing,
        [("f9.py".to_owned(), 1)].into(),
        "f8.py fails, and is counted in the next cycle"
    );
    let more = judge(&before, &listing(20, 20), false);
    assert_eq!(more.baseline.mark, 20);
}

#[test]
fn what_a_believed_scan_could_not_read_is_remembered_by_name_and_an_older_finding_is_not() {
    let problem = |file: &str, line| FileProblem {
        file: file.to_owned(),
        line,
        kind: FileProblemKind::Syntax,
        text: "no".to_owned(),
    };
    let before = believed(10).with_unreadable(&[problem("old.py", None)]);
    let after = before.with_unreadable(&[problem("b.py", Some(3)), problem("a.py", None)]);
    let sentences: Vec<_> = after.unreadable.iter().map(|one| (one.kind.as_str(), one.sentence.as_str())).collect();
    assert_eq!(sentences, [("syntax", "a.py: no"), ("syntax", "b.py:3: no")]);
    let distrusted = judge(&after, &listing(9, 0), true);
    assert_eq!((distrusted.trusted, distrusted.baseline.unreadable), (false, after.unreadable));
}
