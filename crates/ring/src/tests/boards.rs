//! Boards: what is read is one publication, from inside and from outside.

use super::*;

#[test]
fn a_board_shows_the_last_publication_to_everybody() {
    let ring = CaptureRing::create(layout(2, 0), HugePages::No).unwrap();
    let view = RingView::attach(ring.fd().try_clone_to_owned().unwrap()).unwrap();
    assert_eq!(ring.read_board::<3>(1, Board::Recorder), None);
    let mut writer = ring.board_writer(1, Board::Recorder).unwrap();
    for round in 1..=5 {
        writer.publish(&[round, round + 1, round + 2]);
        let expected = Some([round, round + 1, round + 2]);
        assert_eq!(ring.read_board(1, Board::Recorder), expected);
        assert_eq!(view.read_board(1, Board::Recorder), expected);
    }
    for (lane, board) in [(0, Board::Worker), (0, Board::Recorder), (1, Board::Worker)] {
        assert_eq!(view.read_board::<1>(lane, board), None, "lane {lane}, {board:?}");
    }
    assert!(ring.board_writer(1, Board::Recorder).is_none(), "one writer");
    assert!(ring.board_writer(2, Board::Worker).is_none(), "no such lane");
}

#[test]
fn a_board_that_changes_all_the_time_is_never_read_mixed() {
    const ROUNDS: u64 = 200_000;
    let ring = CaptureRing::create(layout(2, 0), HugePages::No).unwrap();
    let mut writer = ring.board_writer(0, Board::Worker).unwrap();
    writer.publish(&[1; BOARD_WORDS]);
    std::thread::scope(|scope| {
        scope.spawn(move || (2..=ROUNDS).for_each(|round| writer.publish(&[round; BOARD_WORDS])));
        let mut last = 0;
        while last < ROUNDS {
            // A writer without a pause may keep a reader out; it then tries again.
            let Some(words) = ring.read_board::<BOARD_WORDS>(0, Board::Worker) else { continue };
            assert!(words.iter().all(|word| *word == words[0]), "{words:?}");
            assert!(words[0] >= last);
            last = words[0];
        }
    });
}
