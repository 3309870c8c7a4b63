use super::*;
use crate::Limits;

#[test]
fn the_table_is_as_large_as_it_is_said_to_be() {
    let bytes = Transactions::bytes(Limits::TRANSACTIONS);
    assert!((30 << 20..44 << 20).contains(&bytes), "{bytes}");
}
