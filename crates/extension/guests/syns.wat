;; An extension: how many TCP connections were begun to each port.
;;
;;   ringside analyze --extension syns.wat -r trace.pcap --json
;;
;; Each segment with SYN and without ACK is counted by its destination port, and in the end each
;; port that was asked for is a record: {"port":443,"syns":12}
(module
  (import "ringside" "emit" (func $emit (param i32 i32) (result i32)))
  (import "ringside" "count" (func $count (param i32 i32 i64) (result i32)))
  (import "ringside" "header" (func $header (param i32) (result i32)))

  ;; Six pages of 64 KiB: texts, the packet, and four of counts, 4 bytes for each port.
  (memory (export "memory") 6)
  (global $packet i32 (i32.const 0x10000))
  (global $counts i32 (i32.const 0x20000))
  (data (i32.const 0x00) "syns")
  (data (i32.const 0x08) ",\"syns\":")
  (data (i32.const 0x10) "{\"port\":")

  ;; The version of the interface that this is made for.
  (func (export "ringside_abi") (result i32)
    (i32.const 1))

  ;; Where packets are put: 65,536 bytes.
  (func (export "ringside_buffer") (result i32)
    (global.get $packet))

  (func (export "ringside_packet")
    (param $bytes i32) (param $wire_bytes i32) (param $time_ns i64)
    (param $link_type i32) (param $interface i32)
    (local $tcp i32)
    (local $entry i32)
    ;; 6 is TCP's number in IP. What has no such header has -1.
    (local.set $tcp (call $header (i32.const 6)))
    (if (i32.lt_s (local.get $tcp) (i32.const 0)) (then (return)))
    (local.set $tcp (i32.add (global.get $packet) (local.get $tcp)))
    ;; Of the flags, in the 14th byte, 0x02 is SYN and 0x10 is ACK.
    (if (i32.ne (i32.and (i32.load8_u offset=13 (local.get $tcp)) (i32.const 0x12))
                (i32.const 0x02))
      (then (return)))
    ;; The port is in the third and fourth byte, the high part first.
    (local.set $entry
      (i32.add (global.get $counts)
        (i32.shl
          (i32.or (i32.shl (i32.load8_u offset=2 (local.get $tcp)) (i32.const 8))
                  (i32.load8_u offset=3 (local.get $tcp)))
          (i32.const 2))))
    (i32.store (local.get $entry) (i32.add (i32.load (local.get $entry)) (i32.const 1)))
    ;; The counter "syns" stands in the account.
    (drop (call $count (i32.const 0) (i32.const 4) (i64.const 1))))

  ;; Behind the last packet.
  (func (export "ringside_end")
    (local $port i32)
    (local $syns i32)
    (local $at i32)
    (loop $each
      (local.set $syns
        (i32.load (i32.add (global.get $counts) (i32.shl (local.get $port) (i32.const 2)))))
      (if (local.get $syns)
        (then
          (local.set $at (call $number (i32.const 0x18) (local.get $port)))
          (i64.store (local.get $at) (i64.load (i32.const 0x08)))
          (local.set $at
            (call $number (i32.add (local.get $at) (i32.const 8)) (local.get $syns)))
          (i32.store8 (local.get $at) (i32.const 0x7d)) ;; }
          (drop (call $emit (i32.const 0x10) (i32.sub (local.get $at) (i32.const 0x0f))))))
      (local.set $port (i32.add (local.get $port) (i32.const 1)))
      (br_if $each (i32.lt_u (local.get $port) (i32.const 65536)))))

  ;; Writes a number in decimal, and says where it ends.
  (func $number (param $at i32) (param $value i32) (result i32)
    (if (i32.ge_u (local.get $value) (i32.const 10))
      (then
        (local.set $at
          (call $number (local.get $at) (i32.div_u (local.get $value) (i32.const 10))))))
    (i32.store8 (local.get $at)
      (i32.add (i32.const 0x30) (i32.rem_u (local.get $value) (i32.const 10))))
    (i32.add (local.get $at) (i32.const 1))))
