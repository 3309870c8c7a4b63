use super::*;
use ringside_capture::keep::RulesBuilder;
use ringside_core::LinkType;
use ringside_filter::Compiler;

fn desk(rules: &str) -> RuleDesk {
    let set = language::parse(rules.as_bytes(), &mut Sets::none()).unwrap();
    let rules = RulesBuilder::new(set, Compiler::InProcess { optimise: true }).unwrap();
    RuleDesk::new(Box::new(rules.build([LinkType::ETHERNET]).unwrap()))
}

fn done(desk: &RuleDesk, command: RulesCommand) -> RulesReply {
    let reply = desk.answer(command);
    assert!(reply.ok, "{:?}", reply.error);
    *reply.rules.unwrap()
}

fn refused(desk: &RuleDesk, command: RulesCommand) -> String {
    let reply = desk.answer(command);
    assert!(!reply.ok);
    reply.error.unwrap()
}

fn add(rules: &str) -> RulesCommand {
    RulesCommand::Add { rules: rules.into(), upload: None }
}

fn upload(upload: u64, set: Option<&str>, text: &str) -> RulesCommand {
    RulesCommand::Upload { upload, set: set.map(Into::into), text: text.into() }
}

fn texts(desk: &RuleDesk) -> Vec<String> {
    let list = done(desk, RulesCommand::List { after: None }).list.unwrap();
    list.into_iter().map(|rule| rule.text).collect()
}

#[test]
fn rules_come_and_go() {
    let desk = desk("4: udp => drop");
    let reply = done(&desk, add("tcp => count\n2: port 80 => take"));
    assert_eq!((reply.changed, reply.rules), (vec![5, 2], 3));
    assert_eq!(texts(&desk), ["2: port 80 => take", "4: udp => drop", "5: tcp => count"]);
    let reply = done(&desk, RulesCommand::Delete { ids: vec![4, 9] });
    assert_eq!((reply.changed, reply.rules), (vec![4], 2));
    assert_eq!(done(&desk, RulesCommand::Flush {}).rules, 0);
}

#[test]
fn what_is_wrong_is_reported_and_what_came_before_it() {
    let desk = desk("4: udp => drop");
    let error = refused(&desk, add("7: tcp => count\n4: tcp => take\n8: any => drop"));
    assert!(error.contains("rule 4 is there already") && error.contains("1 rules were added"));
    assert_eq!(texts(&desk).len(), 2);
    let error = refused(&desk, add("tpc => drop"));
    assert!(error.contains("did you mean `tcp`"), "{error}");
    let error = refused(&desk, add("src ip @/etc/passwd => drop"));
    assert!(error.contains("files are not read here"), "{error}");
    let last = done(&desk, add("4294967295: any => count"));
    assert_eq!(last.rules, 3);
    assert!(refused(&desk, add("tcp => drop")).contains("no id is left"));
}

#[test]
fn a_load_comes_in_pieces_with_the_files_that_it_names() {
    let desk = desk("4: udp => drop");
    for piece in ["1: src ip @list", ".txt => dr", "op\n2: udp => count\n"] {
        done(&desk, upload(77, None, piece));
    }
    for piece in ["192.0.2.1\n198.51", ".100.0/24\n"] {
        done(&desk, upload(77, Some("list.txt"), piece));
    }
    assert!(refused(&desk, upload(78, None, "x")).contains("another client"));
    assert!(refused(&desk, RulesCommand::Load { upload: 78 }).contains("nothing was uploaded"));
    assert_eq!(done(&desk, RulesCommand::Load { upload: 77 }).rules, 2);
    assert_eq!(texts(&desk), ["1: src ip @list.txt => drop", "2: udp => count"]);
    // Wrong ones change nothing.
    done(&desk, upload(79, None, "1: nonsense => drop"));
    assert!(refused(&desk, RulesCommand::Load { upload: 79 }).contains("line 1, column 4"));
    assert_eq!(texts(&desk).len(), 2);
}

#[test]
fn a_long_list_comes_in_parts() {
    let rules: String = (0..30_000)
        .map(|id| {
            format!("{id}: src ip 10.0.0.1 dst ip 10.0.0.2 udp src port {id} dst port 5 => drop\n")
        })
        .collect();
    let desk = desk(&rules);
    let (mut ids, mut after, mut parts) = (Vec::new(), None, 0);
    loop {
        let reply = done(&desk, RulesCommand::List { after });
        let mut line = Vec::new();
        Reply::rules(reply.clone()).append_line(&mut line);
        assert!(line.len() < 2 * LIST_BYTES);
        ids.extend(reply.list.unwrap().iter().map(|rule| rule.id));
        after = ids.last().copied();
        parts += 1;
        if !reply.more {
            break;
        }
    }
    assert!(ids == (0..30_000).collect::<Vec<u32>>() && parts > 2);
}

#[test]
fn an_upload_has_an_end() {
    let desk = desk("");
    let piece = "#".repeat(16 << 20);
    let refused = (0..20).map(|_| desk.answer(upload(1, None, &piece))).find(|reply| !reply.ok);
    assert!(refused.unwrap().error.unwrap().contains("bytes at most"));
}
