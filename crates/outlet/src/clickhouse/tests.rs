use crate::address::Address;
use crate::probe::Probe;

#[test]
fn a_table_has_a_column_for_each_field() {
    let address: Address = "clickhouse://h/net".parse().unwrap();
    let expected = "\
CREATE TABLE IF NOT EXISTS net.probes
(
    `time` DateTime64(9, 'UTC') DEFAULT fromUnixTimestamp64Nano(toInt64(`seen`), 'UTC'),
    `name` Nullable(String),
    `seen` UInt64 COMMENT 'nanoseconds since 1970, UTC',
    `ended` Nullable(UInt64) COMMENT 'nanoseconds since 1970, UTC',
    `took` Nullable(UInt64) COMMENT 'nanoseconds',
    `is_on` Nullable(Bool),
    `count` Nullable(UInt64),
    `bytes` Nullable(UInt64) COMMENT 'bytes',
    `port` Nullable(UInt16),
    `at` Nullable(IPv6) COMMENT 'IPv4 as ::ffff:a.b.c.d',
    `tags` Array(String)
)
ENGINE = MergeTree
PARTITION BY toYYYYMM(`time`)
ORDER BY `time`
SETTINGS non_replicated_deduplication_window = 10000";
    assert_eq!(address.create_table::<Probe>("probes").as_deref(), Some(expected));
    let address: Address = "otlp://h".parse().unwrap();
    assert_eq!(address.create_table::<Probe>("probes"), None);
}
