//! Requests that cannot be read: each is answered as the API's document says, by an object.

use crate::common::{limits, with_service};
use ringside_core::Ledger;
use ringside_serve::{Config, document};
use serde_json::Value;

const JSON: (&str, &str) = ("Content-Type", "application/json");

#[test]
fn what_cannot_be_read_is_a_problem_that_the_route_declares() {
    let document: Value = serde_json::to_value(document()).unwrap();
    let config = Config { limits: limits(), ..Config::default() };
    with_service(Ledger::default(), config, |service| {
        for (method, route, path, body, status) in [
            ("get", "/api/v1/captures/{id}", "/api/v1/captures/-1", "", 404),
            ("get", "/api/v1/captures/{id}/ledger", "/api/v1/captures/one/ledger", "", 404),
            ("get", "/api/v1/captures/{id}/rules", "/api/v1/captures/1/rules?after=-1", "", 400),
            ("post", "/api/v1/captures/{id}/rules", "/api/v1/captures/1/rules", "no JSON", 400),
            ("post", "/api/v1/captures/{id}/rules", "/api/v1/captures/1/rules", "[1]", 400),
            ("post", "/api/v1/captures/{id}/rules/undo", "/api/v1/captures/x/rules/undo", "", 404),
            ("post", "/api/v1/rules/test", "/api/v1/rules/test", "{\"rules\": 5}", 400),
            ("get", "/api/v1/find", "/api/v1/find?limit=many", "", 400),
            ("get", "/api/v1/find", "/api/v1/find?recording=none", "", 404),
            ("get", "/api/v1/packets", "/api/v1/packets?recording=none", "", 404),
            ("post", "/api/v1/rules/test", "/api/v1/rules/test?recording=n", "{\"rules\":[]}", 404),
            ("get", "/api/v1/packets", "/api/v1/packets?fliter=udp", "", 400),
            ("get", "/api/v1/records/{kind}", "/api/v1/records/flows?limit=-1", "", 400),
            ("get", "/api/v1/talkers", "/api/v1/talkers?nothing=1", "", 400),
            ("get", "/api/v1/calls/{call_id}/ladder", "/api/v1/calls/a/ladder?limit=x", "", 400),
            ("get", "/api/v1/sql", "/api/v1/sql?limit=1.5", "", 400),
        ] {
            let upper = method.to_uppercase();
            let answer = service.ask(&upper, path, &[JSON], body);
            assert_eq!(answer.status, status, "{upper} {path}: {answer:?}");
            assert!(!answer.error().is_empty(), "{answer:?}");
            let declared = &document["paths"][route][method]["responses"];
            assert!(declared[status.to_string()].is_object(), "{upper} {route}: {declared}");
        }
        let path = "/api/v1/captures/1/rules";
        let answer = service.ask("POST", path, &[("Content-Type", "text/plain")], "{}");
        assert_eq!(answer.status, 400, "{answer:?}");
        assert!(answer.error().contains("application/json"), "{answer:?}");
    });
}
