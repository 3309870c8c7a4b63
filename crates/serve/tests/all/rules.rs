//! Rules, changed and changed back.

use crate::common::{Served, limits, with_service};
use ringside_core::Ledger;
use ringside_serve::Config;
use serde_json::{Value, json};

/// Texts of the rules with their ids.
fn rules(service: &Served, path: &str) -> Vec<(u64, String)> {
    let answer = service.get(path);
    assert_eq!(answer.status, 200, "{answer:?}");
    let of =
        |rule: &Value| (rule["id"].as_u64().unwrap(), rule["text"].as_str().unwrap().to_owned());
    answer.json()["rules"].as_array().unwrap().iter().map(of).collect()
}

#[test]
fn what_was_changed_is_undone_step_by_step() {
    let config = Config { limits: limits(), ..Config::default() };
    with_service(Ledger::default(), config, |service| {
        let id = service.captures()["captures"][0]["id"].as_u64().unwrap();
        let path = format!("/api/v1/captures/{id}/rules");
        let undo = || service.post(&format!("{path}/undo"), &json!({}));
        assert_eq!(rules(service, &path), []);
        let added =
            service.post(&path, &json!({ "add": ["3: udp port 53 => drop", "tcp => count"] }));
        assert_eq!(added.json()["changed"], json!([3, 4]), "{added:?}");
        let both = rules(service, &path);
        let ids: Vec<u64> = both.iter().map(|(id, _)| *id).collect();
        assert_eq!(ids, [3, 4]);
        assert_eq!(rules(service, &format!("{path}?after=3")), both[1..]);

        assert_eq!(service.post(&path, &json!({ "delete": [3, 9] })).json()["changed"], json!([3]));
        assert_eq!(rules(service, &path), both[1..]);
        assert_eq!(undo().json()["undo"], 1);
        assert_eq!(rules(service, &path), both);
        assert_eq!(undo().json()["undo"], 0);
        assert_eq!(rules(service, &path), []);
        assert_eq!(undo().status, 404);
    });
}

#[test]
fn a_wrong_order_changes_nothing_and_says_why() {
    let config = Config { limits: limits(), ..Config::default() };
    with_service(Ledger::default(), config, |service| {
        let id = service.captures()["captures"][0]["id"].as_u64().unwrap();
        let path = format!("/api/v1/captures/{id}/rules");
        for (order, status, words) in [
            (json!({}), 400, "one of both"),
            (json!({ "add": ["udp => drop"], "delete": [1] }), 400, "one of both"),
            (json!({ "delete": vec![1; 101] }), 400, "100 rules at most"),
            (json!({ "add": ["udp => fly"] }), 409, "fly"),
            (json!({ "add": ["src ip @/etc/passwd => drop"] }), 409, "files are not read here"),
            (json!({ "flush": true }), 400, "flush"),
        ] {
            let answer = service.post(&path, &order);
            assert_eq!(answer.status, status, "{order}: {answer:?}");
            assert!(answer.body.contains(words), "{order}: {answer:?}");
        }
        assert_eq!(rules(service, &path), []);
        assert_eq!(service.post("/api/v1/captures/1/rules", &json!({ "delete": [1] })).status, 404);
        let trial = json!({ "rules": ["udp => drop"] });
        assert_eq!(service.post("/api/v1/rules/test", &trial).status, 404, "nothing is recorded");
    });
}
