use super::*;
use ringside_testkit::fuzz;

fn program() -> ClassicProgram {
    libpcap::compile("tcp port 80", LinkType::ETHERNET, true).unwrap()
}

#[test]
fn requests_and_answers_survive_the_border() {
    let request = Request { link_type: LinkType::RAW, optimise: true, expression: "ip6 or é" };
    let bytes = encode_request(&request);
    let back = decode_request(&bytes).unwrap();
    assert_eq!((back.link_type, back.optimise, back.expression), (LinkType::RAW, true, "ip6 or é"));

    assert_eq!(decode_answer(&encode_answer(Ok(program()))), Some(Ok(program())));
    let refusal = Err("syntax error".to_owned());
    assert_eq!(decode_answer(&encode_answer(refusal.clone())), Some(refusal));
}

#[test]
fn damaged_messages_are_refused_and_never_panic() {
    let request = Request { link_type: LinkType::ETHERNET, optimise: false, expression: "ip" };
    let good = encode_request(&request);
    for cut in 0..good.len() {
        assert!(decode_request(&good[..cut]).is_none());
    }
    let answer = encode_answer(Ok(program()));
    for cut in 0..answer.len() {
        assert!(decode_answer(&answer[..cut]).is_none());
    }
    fuzz("filter-child-messages", 500_000, &[good, answer], |bytes| {
        decode_request(bytes);
        if let Some(Ok(program)) = decode_answer(bytes) {
            // Whatever came over: the checks or the evaluator must hold.
            let _ = crate::validate(&program);
            crate::evaluate(&program, &[0x45; 60], 60);
        }
    });
}
