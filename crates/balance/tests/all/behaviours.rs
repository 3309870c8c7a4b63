//! Each behaviour, of the model.

use crate::support::{Model, cases};

#[test]
fn tcp_over_ipv4_goes_within_ipv4() {
    cases::tcp_over_ipv4_goes_within_ipv4::<Model>();
}

#[test]
fn tcp_over_ipv4_goes_within_ipv6() {
    cases::tcp_over_ipv4_goes_within_ipv6::<Model>();
}

#[test]
fn tcp_over_ipv6_goes_within_ipv6() {
    cases::tcp_over_ipv6_goes_within_ipv6::<Model>();
}

#[test]
fn gue_goes_within_udp_whose_source_port_follows_the_flow() {
    cases::gue_goes_within_udp_whose_source_port_follows_the_flow::<Model>();
}

#[test]
fn direct_return_changes_hardware_addresses_alone() {
    cases::direct_return_changes_hardware_addresses_alone::<Model>();
}

#[test]
fn the_padding_of_a_short_frame_stays_outside() {
    cases::the_padding_of_a_short_frame_stays_outside::<Model>();
}

#[test]
fn a_vip_without_a_port_has_all_ports_and_a_prefix_all_addresses() {
    cases::a_vip_without_a_port_has_all_ports_and_a_prefix_all_addresses::<Model>();
}

#[test]
fn flows_are_spread_and_each_stays_where_it_is() {
    cases::flows_are_spread_and_each_stays_where_it_is::<Model>();
}

#[test]
fn with_affinity_to_the_source_a_client_has_one_real() {
    cases::with_affinity_to_the_source_a_client_has_one_real::<Model>();
}

#[test]
fn echo_requests_to_vips_are_answered_and_no_others() {
    cases::echo_requests_to_vips_are_answered_and_no_others::<Model>();
}

#[test]
fn errors_of_icmp_follow_the_flow_that_they_are_about() {
    cases::errors_of_icmp_follow_the_flow_that_they_are_about::<Model>();
}

#[test]
fn options_of_ipv4_go_along() {
    cases::options_of_ipv4_go_along::<Model>();
}

#[test]
fn fragments_follow_the_first_one() {
    cases::fragments_follow_the_first_one::<Model>();
}

#[test]
fn remembered_flows_stay_when_a_real_comes() {
    cases::remembered_flows_stay_when_a_real_comes::<Model>();
}

#[test]
fn flows_that_are_not_remembered_go_where_they_went_before_a_change() {
    cases::flows_that_are_not_remembered_go_where_they_went_before_a_change::<Model>();
}

#[test]
fn tables_that_say_the_same_do_not_end_the_window_of_a_change() {
    cases::tables_that_say_the_same_do_not_end_the_window_of_a_change::<Model>();
}

#[test]
fn a_real_that_drains_keeps_its_flows_until_the_deadline() {
    cases::a_real_that_drains_keeps_its_flows_until_the_deadline::<Model>();
}

#[test]
fn a_real_that_is_down_or_gone_loses_its_flows_at_once() {
    cases::a_real_that_is_down_or_gone_loses_its_flows_at_once::<Model>();
}

#[test]
fn without_a_real_packets_of_a_vip_are_dropped_and_counted() {
    cases::without_a_real_packets_of_a_vip_are_dropped_and_counted::<Model>();
}

#[test]
fn flows_are_forgotten_after_the_time_of_their_vip() {
    cases::flows_are_forgotten_after_the_time_of_their_vip::<Model>();
}

#[test]
fn no_more_new_flows_are_remembered_than_a_second_allows() {
    cases::no_more_new_flows_are_remembered_than_a_second_allows::<Model>();
}

#[test]
fn quic_ids_lead_to_their_server_and_openings_do_not() {
    cases::quic_ids_lead_to_their_server_and_openings_do_not::<Model>();
}

#[test]
fn packets_too_big_for_the_tunnel_are_answered() {
    cases::packets_too_big_for_the_tunnel_are_answered::<Model>();
}

#[test]
fn what_may_not_be_answered_is_dropped_as_too_big() {
    cases::what_may_not_be_answered_is_dropped_as_too_big::<Model>();
}

#[test]
fn a_hop_that_is_not_known_is_counted_by_its_cause() {
    cases::a_hop_that_is_not_known_is_counted_by_its_cause::<Model>();
}

#[test]
fn what_is_not_for_a_vip_passes_unchanged() {
    cases::what_is_not_for_a_vip_passes_unchanged::<Model>();
}

#[test]
fn the_flow_that_was_idle_longest_goes_for_a_new_one() {
    cases::the_flow_that_was_idle_longest_goes_for_a_new_one::<Model>();
}

#[test]
fn flows_that_come_to_another_cpu_stay_where_they_are() {
    cases::flows_that_come_to_another_cpu_stay_where_they_are::<Model>();
}

#[test]
fn fragments_may_come_to_another_cpu_than_the_first_one() {
    cases::fragments_may_come_to_another_cpu_than_the_first_one::<Model>();
}

#[test]
fn other_cpus_are_asked_only_so_often_in_a_second() {
    cases::other_cpus_are_asked_only_so_often_in_a_second::<Model>();
}
