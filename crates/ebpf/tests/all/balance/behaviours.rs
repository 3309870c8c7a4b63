//! Each behaviour, of the program in the driver; the model is asked about the same frames.

use super::Driver;
use super::support::cases;
use ringside_testkit::need_root;

#[test]
fn tcp_over_ipv4_goes_within_ipv4() {
    if need_root("tcp_over_ipv4_goes_within_ipv4") {
        cases::tcp_over_ipv4_goes_within_ipv4::<Driver>();
    }
}

#[test]
fn tcp_over_ipv4_goes_within_ipv6() {
    if need_root("tcp_over_ipv4_goes_within_ipv6") {
        cases::tcp_over_ipv4_goes_within_ipv6::<Driver>();
    }
}

#[test]
fn tcp_over_ipv6_goes_within_ipv6() {
    if need_root("tcp_over_ipv6_goes_within_ipv6") {
        cases::tcp_over_ipv6_goes_within_ipv6::<Driver>();
    }
}

#[test]
fn gue_goes_within_udp_whose_source_port_follows_the_flow() {
    if need_root("gue_goes_within_udp_whose_source_port_follows_the_flow") {
        cases::gue_goes_within_udp_whose_source_port_follows_the_flow::<Driver>();
    }
}

#[test]
fn direct_return_changes_hardware_addresses_alone() {
    if need_root("direct_return_changes_hardware_addresses_alone") {
        cases::direct_return_changes_hardware_addresses_alone::<Driver>();
    }
}

#[test]
fn the_padding_of_a_short_frame_stays_outside() {
    if need_root("the_padding_of_a_short_frame_stays_outside") {
        cases::the_padding_of_a_short_frame_stays_outside::<Driver>();
    }
}

#[test]
fn a_vip_without_a_port_has_all_ports_and_a_prefix_all_addresses() {
    if need_root("a_vip_without_a_port_has_all_ports_and_a_prefix_all_addresses") {
        cases::a_vip_without_a_port_has_all_ports_and_a_prefix_all_addresses::<Driver>();
    }
}

#[test]
fn flows_are_spread_and_each_stays_where_it_is() {
    if need_root("flows_are_spread_and_each_stays_where_it_is") {
        cases::flows_are_spread_and_each_stays_where_it_is::<Driver>();
    }
}

#[test]
fn with_affinity_to_the_source_a_client_has_one_real() {
    if need_root("with_affinity_to_the_source_a_client_has_one_real") {
        cases::with_affinity_to_the_source_a_client_has_one_real::<Driver>();
    }
}

#[test]
fn echo_requests_to_vips_are_answered_and_no_others() {
    if need_root("echo_requests_to_vips_are_answered_and_no_others") {
        cases::echo_requests_to_vips_are_answered_and_no_others::<Driver>();
    }
}

#[test]
fn errors_of_icmp_follow_the_flow_that_they_are_about() {
    if need_root("errors_of_icmp_follow_the_flow_that_they_are_about") {
        cases::errors_of_icmp_follow_the_flow_that_they_are_about::<Driver>();
    }
}

#[test]
fn options_of_ipv4_go_along() {
    if need_root("options_of_ipv4_go_along") {
        cases::options_of_ipv4_go_along::<Driver>();
    }
}

#[test]
fn fragments_follow_the_first_one() {
    if need_root("fragments_follow_the_first_one") {
        cases::fragments_follow_the_first_one::<Driver>();
    }
}

#[test]
fn remembered_flows_stay_when_a_real_comes() {
    if need_root("remembered_flows_stay_when_a_real_comes") {
        cases::remembered_flows_stay_when_a_real_comes::<Driver>();
    }
}

#[test]
fn flows_that_are_not_remembered_go_where_they_went_before_a_change() {
    if need_root("flows_that_are_not_remembered_go_where_they_went_before_a_change") {
        cases::flows_that_are_not_remembered_go_where_they_went_before_a_change::<Driver>();
    }
}

#[test]
fn tables_that_say_the_same_do_not_end_the_window_of_a_change() {
    if need_root("tables_that_say_the_same_do_not_end_the_window_of_a_change") {
        cases::tables_that_say_the_same_do_not_end_the_window_of_a_change::<Driver>();
    }
}

#[test]
fn a_real_that_drains_keeps_its_flows_until_the_deadline() {
    if need_root("a_real_that_drains_keeps_its_flows_until_the_deadline") {
        cases::a_real_that_drains_keeps_its_flows_until_the_deadline::<Driver>();
    }
}

#[test]
fn a_real_that_is_down_or_gone_loses_its_flows_at_once() {
    if need_root("a_real_that_is_down_or_gone_loses_its_flows_at_once") {
        cases::a_real_that_is_down_or_gone_loses_its_flows_at_once::<Driver>();
    }
}

#[test]
fn without_a_real_packets_of_a_vip_are_dropped_and_counted() {
    if need_root("without_a_real_packets_of_a_vip_are_dropped_and_counted") {
        cases::without_a_real_packets_of_a_vip_are_dropped_and_counted::<Driver>();
    }
}

#[test]
fn flows_are_forgotten_after_the_time_of_their_vip() {
    if need_root("flows_are_forgotten_after_the_time_of_their_vip") {
        cases::flows_are_forgotten_after_the_time_of_their_vip::<Driver>();
    }
}

#[test]
fn no_more_new_flows_are_remembered_than_a_second_allows() {
    if need_root("no_more_new_flows_are_remembered_than_a_second_allows") {
        cases::no_more_new_flows_are_remembered_than_a_second_allows::<Driver>();
    }
}

#[test]
fn quic_ids_lead_to_their_server_and_openings_do_not() {
    if need_root("quic_ids_lead_to_their_server_and_openings_do_not") {
        cases::quic_ids_lead_to_their_server_and_openings_do_not::<Driver>();
    }
}

#[test]
fn packets_too_big_for_the_tunnel_are_answered() {
    if need_root("packets_too_big_for_the_tunnel_are_answered") {
        cases::packets_too_big_for_the_tunnel_are_answered::<Driver>();
    }
}

#[test]
fn what_may_not_be_answered_is_dropped_as_too_big() {
    if need_root("what_may_not_be_answered_is_dropped_as_too_big") {
        cases::what_may_not_be_answered_is_dropped_as_too_big::<Driver>();
    }
}

#[test]
fn a_hop_that_is_not_known_is_counted_by_its_cause() {
    if need_root("a_hop_that_is_not_known_is_counted_by_its_cause") {
        cases::a_hop_that_is_not_known_is_counted_by_its_cause::<Driver>();
    }
}

#[test]
fn what_is_not_for_a_vip_passes_unchanged() {
    if need_root("what_is_not_for_a_vip_passes_unchanged") {
        cases::what_is_not_for_a_vip_passes_unchanged::<Driver>();
    }
}

#[test]
fn the_flow_that_was_idle_longest_goes_for_a_new_one() {
    if need_root("the_flow_that_was_idle_longest_goes_for_a_new_one") {
        cases::the_flow_that_was_idle_longest_goes_for_a_new_one::<Driver>();
    }
}

#[test]
fn flows_that_come_to_another_cpu_stay_where_they_are() {
    if need_root("flows_that_come_to_another_cpu_stay_where_they_are") {
        cases::flows_that_come_to_another_cpu_stay_where_they_are::<Driver>();
    }
}

#[test]
fn fragments_may_come_to_another_cpu_than_the_first_one() {
    if need_root("fragments_may_come_to_another_cpu_than_the_first_one") {
        cases::fragments_may_come_to_another_cpu_than_the_first_one::<Driver>();
    }
}

#[test]
fn other_cpus_are_asked_only_so_often_in_a_second() {
    if need_root("other_cpus_are_asked_only_so_often_in_a_second") {
        cases::other_cpus_are_asked_only_so_often_in_a_second::<Driver>();
    }
}
