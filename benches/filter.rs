//! How long a filter takes, beside `serde_json::from_slice` over the same body in the same run.
//!
//! `cargo bench --bench filter` prints nanoseconds (medians of rounds) and ratios; only the ratios compare between machines.

#![expect(clippy::print_stdout, reason = "a benchmark prints what it measured")]
#![expect(clippy::unwrap_used, reason = "a benchmark stops at the first surprise")]

use std::hint::black_box;
use std::time::Instant;

use rmq_watcher::domain::envelope::{Field, Table};
use rmq_watcher::domain::filter::{Content, Filter, Filters, Message};
use serde_json::{Value, json};

const ROUNDS: usize = 21;

fn main() {
    let small =
        r#"{"event": "order.created", "id": 4711, "country": "DE", "items": [{"sku": "a-1", "n": 2}], "paid": true}"#
            .to_owned();
    let large = large_of(10_000);
    let huge = large_of(1_000_000);
    let headers: Table = [
        ("x-type", Field::Text(b"payment".to_vec())),
        ("region", Field::Text(b"eu".to_vec())),
        ("attempt", Field::I32(3)),
        ("x-trace", Field::Text(b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".to_vec())),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .into_iter()
    .collect();
    let header = json!({"x-type": "payment", "region": {"$in": ["us", "eu"]}, "attempt": {"$lt": 5}});
    let body = json!({"body.event": "order.created", "body.country": "DE", "body.items.0.n": {"$ge": 2}});
    let last = json!({"body.rows.0.name": "row 0", "body.end": 1});
    println!("{:<34} {:>8} {:>12} {:>12} {:>7}", "filter", "bytes", "ns", "from_slice", "ratio");
    for (name, conditions, text, verdict) in [
        ("headers, match", &header, &small, "match"),
        ("headers, miss", &json!({"x-type": "refund"}), &small, "miss"),
        ("headers, regex", &json!({"x-trace": {"$regex": "^00-[0-9a-f]{32}-"}}), &small, "match"),
        ("small body, match", &body, &small, "match"),
        ("small body, miss", &json!({"body.event": "order.deleted"}), &small, "miss"),
        ("10 kB body, match", &last, &large, "match"),
        ("10 kB body, miss", &json!({"body.end": 2}), &large, "miss"),
        ("1 MB body, match", &last, &huge, "match"),
    ] {
        let filter = Filter::parse(&json!({ "filter_headers": conditions })).unwrap();
        let message = Message { headers: &headers, body: Content::Bytes(text.as_bytes()) };
        assert_eq!(filter.evaluate(&message).code(), verdict, "{name}");
        row(name, text, &mut || drop(black_box(filter.evaluate(black_box(&message)))));
    }
    let ten = (0..10).map(|n| Filter::parse(&json!({"filter_headers": {"body.end": n}})).unwrap());
    let filters = Filters::new(ten);
    let message = Message { headers: &headers, body: Content::Bytes(large.as_bytes()) };
    row("10 kB body, ten filters together", &large, &mut || drop(black_box(filters.evaluate(black_box(&message)))));
}

fn row(name: &str, text: &str, evaluate: &mut dyn FnMut()) {
    let took = nanoseconds(evaluate);
    let baseline =
        nanoseconds(&mut || drop(black_box(serde_json::from_slice::<Value>(black_box(text.as_bytes())).unwrap())));
    println!("{name:<34} {:>8} {took:>12.0} {baseline:>12.0} {:>7.2}", text.len(), took / baseline);
}

/// The median of rounds, each long enough to measure.
fn nanoseconds(measured: &mut dyn FnMut()) -> f64 {
    let start = Instant::now();
    measured();
    let times = (2_000_000 / start.elapsed().as_nanos().max(20)).max(1) as u32;
    let mut rounds: Vec<f64> = (0..ROUNDS)
        .map(|_| {
            let start = Instant::now();
            (0..times).for_each(|_| measured());
            start.elapsed().as_nanos() as f64 / f64::from(times)
        })
        .collect();
    rounds.sort_by(f64::total_cmp);
    rounds[ROUNDS / 2]
}

/// A body of about so many bytes, with what is asked for at both ends.
fn large_of(bytes: usize) -> String {
    let row = |n: usize| json!({"id": n, "name": format!("row {n}"), "price": 19.99, "tags": ["a", "bé"], "ok": true, "note": null});
    let length = row(100).to_string().len();
    let rows: Vec<Value> = (0..bytes / length).map(row).collect();
    json!({"rows": rows, "end": 1}).to_string()
}
