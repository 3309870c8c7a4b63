//! A packet as one JSON object. What a packet does not have is absent; nothing is made up.

mod application;

use super::tcp::flags;
use ringside_core::{Frame, LinkType};
use ringside_wire::{
    FlowKey, Fragment, Icmp, Icmpv6, Layer, LayerKind, Layers, Level, Mpls, Sctp, Sll, Stop, Tcp,
    TunnelId, Udp, Vlan, dissect,
};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// Describes a packet: time, interface, lengths, layers, the innermost addresses and ports, tags,
/// labels, tunnel, TCP fields, and why the dissection ended. The caller adds the packet's number.
/// `interface_names` are by index, for frames that begin with the index.
pub fn packet_json(
    frame: &Frame<'_>,
    link: LinkType,
    interface_names: &BTreeMap<u32, String>,
) -> Value {
    let layers = dissect(frame.bytes, link);
    let mut object = Map::new();
    let at = frame.meta.timestamp;
    object.insert("time".into(), at.to_string().into());
    if let Ok(instant) = jiff::Timestamp::from_nanosecond(at.0.into()) {
        object.insert("time_rfc3339".into(), format!("{instant:.9}").into());
    }
    object.insert("interface".into(), frame.meta.interface.0.into());
    object.insert("captured_bytes".into(), frame.bytes.len().into());
    object.insert("wire_bytes".into(), frame.meta.wire_bytes.into());
    let names: Vec<&str> = layers.iter().map(|layer| layer.kind.name()).collect();
    object.insert("layers".into(), names.into());
    if let Some(index) = interface_index(frame.bytes, &layers) {
        object.insert("interface_index".into(), index.into());
        if let Some(name) = interface_names.get(&index) {
            object.insert("interface_name".into(), name.as_str().into());
        }
    }
    network(&mut object, frame.bytes, &layers);
    transport(&mut object, frame.bytes, &layers);
    payload(&mut object, frame.bytes, &layers);
    tags(&mut object, frame.bytes, &layers);
    if let Some(tunnel) = TunnelId::innermost(frame.bytes, &layers) {
        object.insert("tunnel".into(), json!({ "kind": tunnel.name(), "id": tunnel.number() }));
    }
    stop(&mut object, layers.stop(), link);
    object.into()
}

/// The index of the interface from which a frame of several came.
fn interface_index(bytes: &[u8], layers: &Layers) -> Option<u32> {
    let layer = layers.find(LayerKind::Sll2)?;
    Sll::new_v2(bytes.get(layer.start()..)?).ok()?.interface()
}

/// Addresses and protocol of the innermost IP header; also those of the outer one where
/// there is a tunnel.
fn network(object: &mut Map<String, Value>, bytes: &[u8], layers: &Layers) {
    let levels = [("", Level::Inner), ("outer_", Level::Outer)];
    for (prefix, level) in levels.into_iter().take(1 + usize::from(layers.is_tunnelled())) {
        let Some(layer) = layers.network(level) else { continue };
        let Some((source, destination)) = super::ip::addresses(bytes, layer) else { continue };
        object.insert(format!("{prefix}src"), source.to_string().into());
        object.insert(format!("{prefix}dst"), destination.to_string().into());
        if let (Level::Inner, Some((key, _))) = (level, FlowKey::of(bytes, layers, level)) {
            object.insert("protocol".into(), key.protocol.0.into());
        }
    }
    match layers.fragment(Level::Inner) {
        Fragment::No => {}
        Fragment::First => drop(object.insert("fragment".into(), "first".into())),
        Fragment::Later => drop(object.insert("fragment".into(), "later".into())),
    }
}

fn transport(object: &mut Map<String, Value>, bytes: &[u8], layers: &Layers) {
    let Some(layer) = layers.transport(Level::Inner) else { return };
    let here = bytes.get(layer.start()..).unwrap_or(&[]);
    match layer.kind {
        LayerKind::Tcp => {
            let Ok(tcp) = Tcp::new(here) else { return };
            ports(object, tcp.source().0, tcp.destination().0);
            let mut fields = Map::new();
            let mut letters = String::new();
            flags(&mut letters, tcp.flags());
            fields.insert("flags".into(), letters.into());
            fields.insert("seq".into(), tcp.sequence().into());
            if tcp.has(Tcp::ACK) {
                fields.insert("ack".into(), tcp.acknowledgment().into());
            }
            fields.insert("win".into(), tcp.window().into());
            object.insert("tcp".into(), fields.into());
        }
        LayerKind::Udp => {
            let Ok(udp) = Udp::new(here) else { return };
            ports(object, udp.source().0, udp.destination().0);
        }
        LayerKind::Sctp => {
            let Ok(sctp) = Sctp::new(here) else { return };
            ports(object, sctp.source().0, sctp.destination().0);
        }
        LayerKind::Icmp => {
            let Ok(icmp) = Icmp::new(here) else { return };
            object.insert("icmp".into(), json!({ "type": icmp.kind(), "code": icmp.code() }));
        }
        LayerKind::Icmpv6 => {
            let Ok(icmp) = Icmpv6::new(here) else { return };
            object.insert("icmp".into(), json!({ "type": icmp.kind(), "code": icmp.code() }));
        }
        _ => {}
    }
}

/// What the innermost transport carries, where nothing else follows it.
fn payload(object: &mut Map<String, Value>, bytes: &[u8], layers: &Layers) {
    let (Some(layer), Stop::Complete) = (layers.last(), layers.stop()) else { return };
    let here = bytes.get(layer.start()..).unwrap_or(&[]);
    let carried = bytes.get(layers.payload()).unwrap_or(&[]);
    match layer.kind {
        LayerKind::Tcp => {
            let Ok(tcp) = Tcp::new(here) else { return };
            application::fields(object, true, [tcp.source().0, tcp.destination().0], carried);
        }
        LayerKind::Udp => {
            let Ok(udp) = Udp::new(here) else { return };
            application::fields(object, false, [udp.source().0, udp.destination().0], carried);
        }
        _ => {}
    }
}

fn ports(object: &mut Map<String, Value>, source: u16, destination: u16) {
    object.insert("src_port".into(), source.into());
    object.insert("dst_port".into(), destination.into());
}

/// VLAN ids and MPLS labels, outermost first.
fn tags(object: &mut Map<String, Value>, bytes: &[u8], layers: &Layers) {
    let here = |layer: Layer| bytes.get(layer.start()..).unwrap_or(&[]);
    let is_tag = |layer: &Layer| matches!(layer.kind, LayerKind::Vlan | LayerKind::QinQ);
    let tags = layers.iter().filter(is_tag).filter_map(|layer| Vlan::new(here(layer)).ok());
    let ids: Vec<u16> = tags.map(|tag| tag.id()).collect();
    if !ids.is_empty() {
        object.insert("vlan".into(), ids.into());
    }
    let stacks = layers.iter().filter(|layer| layer.kind == LayerKind::Mpls);
    let stacks = stacks.filter_map(|layer| Mpls::new(here(layer)).ok());
    let labels: Vec<u32> =
        stacks.flat_map(|stack| stack.labels()).map(|label| label.value()).collect();
    if !labels.is_empty() {
        object.insert("mpls".into(), labels.into());
    }
}

fn stop(object: &mut Map<String, Value>, stop: Stop, link: LinkType) {
    object.insert("stop".into(), stop.name().into());
    match stop {
        Stop::Truncated(kind) | Stop::Malformed(kind) => {
            object.insert("stop_layer".into(), kind.name().into());
        }
        Stop::Unknown { protocol } => {
            object.insert("stop_protocol".into(), protocol.into());
        }
        Stop::UnknownLink => {
            object.insert("link_type".into(), link.0.into());
            if let Some(name) = link.name() {
                object.insert("link_type_name".into(), name.into());
            }
        }
        Stop::Complete | Stop::LaterFragment | Stop::DepthLimit => {}
    }
}
