//! The house rules hold for the project itself.

#[test]
fn the_project_is_tidy() {
    let findings = xtask::tidy::check(&ringside_testkit::project_root()).unwrap();
    let text: Vec<String> = findings.iter().map(ToString::to_string).collect();
    assert!(text.is_empty(), "{} findings:\n{}", text.len(), text.join("\n"));
}
