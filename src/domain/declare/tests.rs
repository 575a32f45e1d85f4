use super::*;
use crate::domain::options::{CooldownEdge, Exchange, OnPaused, Options};

fn at(column: u32) -> Origin {
    Origin { file: "a.py".to_owned(), line: 1, column }
}

fn text(text: &str) -> Literal {
    Literal::Str(text.to_owned())
}

fn list(texts: &[&str]) -> Literal {
    Literal::List(texts.iter().map(|entry| text(entry)).collect())
}

fn dag() -> Argument {
    Argument { name: "dag_id".to_owned(), value: Ok(text("d")), origin: at(1) }
}

fn arguments(given: &[(&str, Literal)]) -> Vec<Argument> {
    let argument = |(column, (name, value)): (u32, &(&str, Literal))| Argument {
        name: (*name).to_owned(),
        value: Ok(value.clone()),
        origin: at(column),
    };
    (10..).zip(given).map(argument).collect()
}

fn declared(given: &[(&str, Literal)]) -> Declared {
    declare(&dag(), &arguments(given), &at(5))
}

/// Parameter, code and sentence of each refusal.
fn faults(given: &[(&str, Literal)]) -> Vec<(String, &'static str, String)> {
    let declared = declared(given);
    assert_eq!(declared.declarations, [], "{given:?}");
    let fault = |refusal: &Refusal| {
        (refusal.parameter.clone().unwrap_or_default(), refusal.reason.code(), refusal.reason.to_string())
    };
    declared.refusals.iter().map(fault).collect()
}

fn queues_named(declared: &Declared) -> Option<Vec<String>> {
    match &declared.refusals[0].names {
        Names::Keys(keys) => {
            Some(keys.iter().map(|key| format!("{}/{}/{}", key.dag_id, key.queue, key.conn_id)).collect())
        }
        Names::Unknown => None,
    }
}

fn options(given: &[(&str, Literal)]) -> Options {
    let declared = declared(&[&[("queue", text("q"))], given].concat());
    assert_eq!(declared.refusals, [], "{given:?}");
    declared.declarations[0].options.clone()
}

#[test]
fn queue_alone_is_a_declaration_with_every_default() {
    let made = declared(&[("queue", text("q"))]);
    assert_eq!(made.declarations, [Declaration::new("d", "q", "rmq_default", at(5)).expect("names")]);
    assert_eq!(made.refusals, []);
}

#[test]
fn queues_are_a_declaration_each_without_repetition() {
    let made = declared(&[("queues", list(&["a", "b", "a"])), ("conn_id", text("c")), ("cooldown", Literal::Int(5))]);
    let found: Vec<_> = made.declarations.iter().map(|made| (made.queue.as_str(), made.options.cooldown)).collect();
    assert_eq!(found, [("a", 5), ("b", 5)]);
}

#[test]
fn exchange_is_the_dag_s_own_queue_with_the_union_of_its_keys() {
    let made = declared(&[
        ("exchange", text("e")),
        ("routing_keys", list(&["x.#", "1.ok", "x.#"])),
        ("routing_key_ids", list(&["1", "2"])),
        ("routing_key_status", list(&["ok", "bad"])),
    ]);
    assert_eq!(made.declarations[0].queue.as_str(), "rmq_watcher.sub.d");
    let routing_keys = ["x.#", "1.ok", "1.bad", "2.ok", "2.bad"].map(str::to_owned).to_vec();
    assert_eq!(made.declarations[0].options.exchange, Some(Exchange { name: "e".to_owned(), routing_keys }));
    let made = declared(&[("exchange", text("e")), ("routing_key_ids", list(&["1"]))]);
    assert_eq!(
        made.declarations[0].options.exchange.as_ref().map(|e| e.routing_keys.clone()),
        Some(vec!["1.*".to_owned()])
    );
    let no_status = [("exchange", text("e")), ("routing_keys", list(&["k"])), ("routing_key_status", list(&[]))];
    assert_eq!(declared(&no_status).refusals, []);
}

#[test]
fn options_are_read_and_none_leaves_their_default() {
    let filter = Literal::Dict(vec![(
        text("filter_headers"),
        Literal::Dict(vec![(text("n"), Literal::Tuple(vec![Literal::Int(1)]))]),
    )]);
    let read = options(&[
        ("filter_data", filter),
        ("ack_unmatched", Literal::Bool(true)),
        ("cooldown", Literal::Int(300)),
        ("cooldown_edge", text("leading")),
        ("cooldown_key", text("body:a.b")),
        ("on_paused", text("run")),
        ("dedup_key", text("header:x")),
        ("max_concurrent_runs", Literal::Int(16)),
        ("ack_deadline_override", Literal::Int(60)),
    ]);
    let expected = Options {
        filter_data: Some(serde_json::json!({"filter_headers": {"n": [1]}})),
        ack_unmatched: true,
        cooldown: 300,
        cooldown_edge: CooldownEdge::Leading,
        cooldown_key: Some("body:a.b".to_owned()),
        on_paused: OnPaused::Run,
        dedup_key: Some("header:x".to_owned()),
        max_concurrent_runs: Some(16),
        ack_deadline_override: Some(60),
        ..Options::default()
    };
    assert_eq!(read, expected);
    let optional = ["filter_data", "max_concurrent_runs", "on_paused", "on_missing", "on_unreadable", "on_budget"];
    let optional = optional.into_iter().chain(["on_id_collision", "dedup_key", "cooldown_edge", "cooldown_key"]);
    let optional = optional.chain(["ack_deadline_override", "inputs", "ack_on", "queues", "exchange", "routing_keys"]);
    for name in optional.chain(["routing_key_ids"]) {
        assert_eq!(options(&[(name, Literal::None)]), Options::default(), "{name}");
    }
}

/// Arguments, the one that is refused, and the code of the reason.
type Case<'a> = (Vec<(&'a str, Literal)>, &'a str, &'a str);

fn refuse(cases: &[Case<'_>]) {
    for (given, parameter, code) in cases {
        let found = faults(given);
        let found: Vec<_> = found.iter().map(|(parameter, code, _)| (parameter.as_str(), *code)).collect();
        assert_eq!(found, [(*parameter, *code)], "{given:?}");
    }
}

#[test]
fn names_that_cannot_be_meant_are_refused() {
    let q = ("queue", text("q"));
    let number = Literal::Int;
    let long = text(&"ä".repeat(128));
    refuse(&[
        (vec![("queue", number(5))], "queue", "wrong_type"),
        (vec![("queue", text(""))], "queue", "invalid"),
        (vec![("queue", long.clone())], "queue", "invalid"),
        (vec![("queues", Literal::Tuple(vec![text("a")]))], "queues", "wrong_type"),
        (vec![("queues", text("ab"))], "queues", "wrong_type"),
        (vec![("queues", list(&[]))], "queues", "empty"),
        (vec![("queues", list(&["a", ""]))], "queues", "invalid"),
        (vec![("queues", Literal::List(vec![number(1)]))], "queues", "wrong_type"),
        (vec![], "queue", "no_queue"),
        (vec![("queue", Literal::None)], "queue", "no_queue"),
        (vec![q.clone(), ("queues", list(&["a"]))], "queues", "two_sources"),
        (vec![q.clone(), ("queue", text("b"))], "queue", "given_twice"),
        (vec![q.clone(), ("conn_id", Literal::None)], "conn_id", "wrong_type"),
        (vec![q.clone(), ("conn_id", text("a b"))], "conn_id", "invalid"),
    ]);
}

#[test]
fn exchanges_that_cannot_be_meant_are_refused() {
    let q = ("queue", text("q"));
    let e = ("exchange", text("e"));
    let long = text(&"ä".repeat(128));
    refuse(&[
        (vec![q.clone(), ("routing_keys", list(&["a"]))], "routing_keys", "without_exchange"),
        (vec![q.clone(), ("routing_key_ids", list(&["a"]))], "routing_key_ids", "without_exchange"),
        (vec![q.clone(), ("routing_key_status", text("a"))], "routing_key_status", "without_exchange"),
        (vec![("exchange", text("rmq_watcher.fire")), ("routing_keys", list(&["a"]))], "exchange", "reserved_exchange"),
        (vec![("exchange", text("")), ("routing_keys", list(&["a"]))], "exchange", "invalid"),
        (vec![e.clone()], "exchange", "no_routing_keys"),
        (vec![e.clone(), ("routing_keys", list(&[]))], "routing_keys", "empty"),
        (vec![e.clone(), ("routing_keys", Literal::List(vec![long]))], "routing_keys", "invalid"),
        (vec![e.clone(), ("routing_key_ids", list(&["a.b"]))], "routing_key_ids", "dotted"),
        (
            vec![e.clone(), ("routing_key_ids", list(&["a"])), ("routing_key_status", text("b.c"))],
            "routing_key_status",
            "dotted",
        ),
        (
            vec![e.clone(), ("routing_key_ids", list(&["a"])), ("routing_key_status", Literal::None)],
            "routing_key_status",
            "wrong_type",
        ),
        (
            vec![e.clone(), ("routing_key_ids", list(&["a"])), ("routing_key_status", list(&[]))],
            "exchange",
            "no_routing_keys",
        ),
        (
            vec![e, ("routing_key_ids", list(&[&"a".repeat(200)])), ("routing_key_status", text(&"b".repeat(100)))],
            "routing_key_ids",
            "invalid",
        ),
    ]);
}

#[test]
fn options_that_cannot_be_meant_are_refused() {
    let q = ("queue", text("q"));
    let number = Literal::Int;
    let nan = Literal::Dict(vec![(text("a"), Literal::List(vec![number(1), Literal::Float(f64::NAN)]))]);
    refuse(&[
        (vec![q.clone(), ("cooldown", Literal::Bool(true))], "cooldown", "wrong_type"),
        (vec![q.clone(), ("cooldown", Literal::Float(1.0))], "cooldown", "wrong_type"),
        (vec![q.clone(), ("cooldown", Literal::None)], "cooldown", "wrong_type"),
        (vec![q.clone(), ("cooldown", number(-1))], "cooldown", "out_of_range"),
        (vec![q.clone(), ("cooldown", number(4_294_968))], "cooldown", "out_of_range"),
        (vec![q.clone(), ("ack_unmatched", number(1))], "ack_unmatched", "wrong_type"),
        (vec![q.clone(), ("ack_unmatched", Literal::None)], "ack_unmatched", "wrong_type"),
        (vec![q.clone(), ("filter_data", list(&[]))], "filter_data", "wrong_type"),
        (vec![q.clone(), ("filter_data", nan)], "filter_data", "not_json"),
        (vec![q.clone(), ("inputs", Literal::Dict(vec![(number(1), number(2))]))], "inputs", "not_json"),
        (vec![q.clone(), ("inputs", text("x"))], "inputs", "wrong_type"),
        (vec![q.clone(), ("max_concurrent_runs", number(0))], "max_concurrent_runs", "out_of_range"),
        (vec![q.clone(), ("max_concurrent_runs", number(17))], "max_concurrent_runs", "out_of_range"),
        (vec![q.clone(), ("ack_deadline_override", number(0))], "ack_deadline_override", "out_of_range"),
        (vec![q.clone(), ("ack_deadline_override", Literal::Bool(true))], "ack_deadline_override", "wrong_type"),
        (vec![q.clone(), ("on_paused", text("ack"))], "on_paused", "not_a_choice"),
        (vec![q.clone(), ("on_missing", number(1))], "on_missing", "wrong_type"),
        (vec![q.clone(), ("on_unreadable", text("x"))], "on_unreadable", "not_a_choice"),
        (vec![q.clone(), ("on_budget", text("x"))], "on_budget", "not_a_choice"),
        (vec![q.clone(), ("on_id_collision", text("x"))], "on_id_collision", "not_a_choice"),
        (vec![q.clone(), ("ack_on", text("x"))], "ack_on", "not_a_choice"),
        (vec![q.clone(), ("dedup_key", text("header:"))], "dedup_key", "out_of_range"),
        (vec![q.clone(), ("cooldown_edge", text("leading"))], "cooldown_edge", "without_cooldown"),
        (vec![q.clone(), ("cooldown_key", text("message_id"))], "cooldown_key", "without_cooldown"),
        (vec![q.clone(), ("priority", number(1))], "priority", "unknown_argument"),
    ]);
}

#[test]
fn every_fault_is_told_at_once_in_the_order_of_the_text() {
    let found = faults(&[("cooldown", text("5")), ("queue", number()), ("on_paused", text("x"))]);
    let found: Vec<_> = found.iter().map(|(parameter, ..)| parameter.as_str()).collect();
    assert_eq!(found, ["cooldown", "queue", "on_paused"]);
}

fn number() -> Literal {
    Literal::Int(1)
}

#[test]
fn sentences_say_what_is_wrong_and_what_to_do() {
    let sentence = |given: &[(&str, Literal)]| faults(given)[0].2.clone();
    assert_eq!(
        sentence(&[("queue", text("q")), ("conn", text("c"))]),
        "there is no such argument; docs/configuration.md lists them all"
    );
    assert_eq!(sentence(&[("quues", text("q"))]), "there is no such argument; did you mean `queues`?");
    assert_eq!(
        sentence(&[("queues", Literal::Tuple(vec![]))]),
        "this has to be a list, and it is a tuple; write it in square brackets"
    );
    assert_eq!(sentence(&[("queues", list(&["a", ""]))]), "entry 2: `queue` is empty");
    let deep = Literal::Dict(vec![(text("a"), Literal::List(vec![number(), Literal::Set]))]);
    assert_eq!(
        sentence(&[("queue", text("q")), ("filter_data", deep)]),
        "[\"a\"][1] is a set, and only what JSON can hold is possible"
    );
    assert_eq!(
        sentence(&[("queue", text("q")), ("on_paused", text("ack"))]),
        "this has to be one of \"drop\", \"hold\", \"run\", and it is \"ack\""
    );
    assert_eq!(
        sentence(&[("queue", text("q")), ("cooldown", Literal::Int(-1))]),
        "this has to be a whole number of seconds from 0 to 4294967, and it is -1"
    );
}

#[test]
fn refusal_names_every_subscription_it_would_have_been() {
    let named = |given: &[(&str, Literal)]| queues_named(&declared(given));
    let bad = ("cooldown", text("x"));
    assert_eq!(
        named(&[("queues", list(&["a", "b"])), ("conn_id", text("c")), bad.clone()]),
        Some(vec!["d/a/c".to_owned(), "d/b/c".to_owned()])
    );
    assert_eq!(named(&[("queue", text("a")), bad.clone()]), Some(vec!["d/a/rmq_default".to_owned()]));
    let sub = Some(vec!["d/rmq_watcher.sub.d/rmq_default".to_owned()]);
    assert_eq!(named(&[("exchange", text("e"))]), sub);
    assert_eq!(named(&[("exchange", number()), ("routing_keys", number())]), sub);
    assert_eq!(
        named(&[("queue", text("a")), ("queues", list(&["b"]))]),
        Some(vec!["d/a/rmq_default".to_owned(), "d/b/rmq_default".to_owned()])
    );
}

#[test]
fn refusal_that_cannot_know_the_names_says_so() {
    let named = |given: &[(&str, Literal)]| queues_named(&declared(given));
    assert_eq!(named(&[("queue", number())]), None);
    assert_eq!(named(&[("queue", text(""))]), None);
    assert_eq!(named(&[("queues", list(&["a", ""]))]), None);
    assert_eq!(named(&[("queue", text("a")), ("conn_id", number())]), None);
    assert_eq!(named(&[("queue", text("a")), ("queue", text("b"))]), None);
    assert_eq!(named(&[("queue", text("a")), ("con_id", text("c"))]), None, "the slip may be the connection's");
    assert_eq!(named(&[]), None);
    let mut hidden = arguments(&[("queue", text("a"))]);
    hidden.push(Argument { name: "**".to_owned(), value: Err(RefusalReason::Unpacked), origin: at(30) });
    assert_eq!(queues_named(&declare(&dag(), &hidden, &at(5))), None);
    hidden.extend(arguments(&[("conn_id", text("c"))]));
    let made = declare(&dag(), &hidden, &at(5));
    assert_eq!(queues_named(&made), Some(vec!["d/a/c".to_owned()]));
    assert_eq!(made.refusals.len(), 1);
}

#[test]
fn dag_id_that_cannot_be_read_or_held_refuses_and_names_nobody() {
    for value in [Err(RefusalReason::NotLiteral { found: "a call" }), Ok(text("a b")), Ok(number())] {
        let dag = Argument { value, ..dag() };
        let made = declare(&dag, &arguments(&[("queue", text("q"))]), &at(5));
        assert_eq!(made.declarations, []);
        assert_eq!(made.refusals.len(), 1);
        assert_eq!(made.refusals[0].parameter.as_deref(), Some("dag_id"));
        assert_eq!((&made.refusals[0].dag_id, &made.refusals[0].names), (&None, &Names::Unknown));
    }
}

#[test]
fn dag_id_too_long_for_the_watcher_s_own_queues_is_refused() {
    let dag = |length: usize| Argument { value: Ok(text(&"x".repeat(length))), ..dag() };
    let exchange = arguments(&[("exchange", text("e")), ("routing_keys", list(&["k"]))]);
    assert_eq!(declare(&dag(239), &exchange, &at(5)).refusals, []);
    assert_eq!(declare(&dag(240), &exchange, &at(5)).refusals[0].reason.code(), "dag_id_too_long");
    let cooldown = arguments(&[("queue", text("q")), ("cooldown", number())]);
    assert_eq!(declare(&dag(235), &cooldown, &at(5)).refusals, []);
    assert_eq!(declare(&dag(236), &cooldown, &at(5)).refusals[0].reason.code(), "dag_id_too_long");
    let leading = arguments(&[("queue", text("q")), ("cooldown", number()), ("cooldown_edge", text("leading"))]);
    assert_eq!(declare(&dag(236), &leading, &at(5)).refusals, []);
}

#[test]
fn value_deeper_than_can_be_kept_is_refused() {
    let nested = |depth: usize| (0..depth).fold(number(), |inner, _| Literal::List(vec![inner]));
    let given = |depth| [("queue", text("q")), ("inputs", Literal::Dict(vec![(text("a"), nested(depth))]))];
    assert_eq!(declared(&given(90)).refusals, []);
    assert_eq!(faults(&given(101))[0].1, "not_json");
}
