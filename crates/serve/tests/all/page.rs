//! The page, and the document that describes the API.

use crate::common::{limits, web, with_service};
use flate2::Compression;
use flate2::write::GzEncoder;
use ringside_core::Ledger;
use ringside_serve::Config;
use ringside_testkit::{need_tool, project_root, skip};
use std::io::Write;
use std::process::Command;

/// What the page may weigh, compressed.
const PAGE_BYTES_MAX: usize = 150 << 10;
const ASSETS: [&str; 4] = ["index.html", "app.js", "app.css", "icon.svg"];

fn asset(name: &str) -> String {
    std::fs::read_to_string(web().join("dist").join(name)).unwrap()
}

#[test]
fn the_page_is_small_and_needs_no_other_host() {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    ASSETS.iter().for_each(|name| encoder.write_all(asset(name).as_bytes()).unwrap());
    let bytes = encoder.finish().unwrap().len();
    assert!(bytes <= PAGE_BYTES_MAX, "{bytes} bytes");
    for name in ASSETS {
        // Names of XML, which nothing fetches.
        let text = asset(name).replace("http://www.w3.org/", "");
        assert!(!text.contains("http://") && !text.contains("https://"), "{name}");
    }
    let page = asset("index.html");
    assert!(!page.contains("<style") && !page.contains("<script>"), "CSP would refuse it");
}

#[test]
fn the_page_is_what_its_sources_say() {
    let test = "page::the_page_is_what_its_sources_say";
    if !need_tool(test, "node") {
        return;
    }
    let packages = project_root().join("target/web/node_modules/.package-lock.json");
    if !packages.exists() {
        skip(test, "its packages are not here: crates/serve/web/build fetches them");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut build = Command::new(web().join("build"));
    let outcome = build.arg("--offline").arg(folder.path()).output().unwrap();
    assert!(outcome.status.success(), "{outcome:?}");
    for name in ASSETS {
        let built = std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert!(built == asset(name), "{name} is older than its sources: crates/serve/web/build");
    }
}

#[test]
fn every_way_of_the_document_leads_somewhere() {
    let config = Config { limits: limits(), ..Config::default() };
    with_service(Ledger::default(), config, |service| {
        let id = service.captures()["captures"][0]["id"].to_string();
        let document = service.get("/api/v1/openapi.json").json();
        assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
        let paths = document["paths"].as_object().unwrap();
        assert!(paths.len() >= 12, "{}", paths.len());
        for (path, ways) in paths {
            for (method, way) in ways.as_object().unwrap() {
                assert!(way["summary"].is_string() && way["responses"].is_object(), "{path}");
                // A stream has no end to wait for.
                if method == "get" && path != "/api/v1/events" {
                    let answer = service.get(&path.replace("{id}", &id));
                    let declared = way["responses"].get(answer.status.to_string());
                    let is_known = declared.is_some() || answer.body.contains("--recordings");
                    assert!(is_known, "{path}: {answer:?}");
                }
            }
        }
    });
}
