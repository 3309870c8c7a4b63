//! What an interface must be, and what the system says of it.

use crate::BalancerError;
use ringside_balance::Config;
use ringside_netdev::{self as netdev, NetDevice};
use ringside_wire::MacAddr;

/// An interface of this name that can be balanced on, and its address in the link layer.
pub(crate) fn find(name: &str) -> Result<(NetDevice, MacAddr), BalancerError> {
    let device = netdev::by_name(name)?;
    let device = device.ok_or_else(|| BalancerError::NoInterface(name.to_owned()))?;
    if !device.is_up() {
        return Err(BalancerError::Down(name.to_owned()));
    }
    match <[u8; 6]>::try_from(&device.hardware_address[..]) {
        Ok(mac) => Ok((device, MacAddr(mac))),
        Err(_) => Err(BalancerError::NotEthernet(name.to_owned())),
    }
}

/// Looks whether an interface still has the hardware address that its program was made for.
#[derive(Debug)]
pub(crate) struct AddressWatch {
    interface: String,
    mac: MacAddr,
    has_said: bool,
}

impl AddressWatch {
    /// Of an interface that has this address.
    pub fn new(interface: &str, mac: MacAddr) -> AddressWatch {
        AddressWatch { interface: interface.to_owned(), mac, has_said: false }
    }

    /// Says one time that it has another one.
    pub fn look(&mut self) -> Option<String> {
        let has_changed = find(&self.interface).is_ok_and(|(_, mac)| mac != self.mac);
        if !has_changed || std::mem::replace(&mut self.has_said, true) {
            return None;
        }
        Some(format!("{} has another hardware address now: start anew", self.interface))
    }
}

/// Says where the host may not forward, so that its routes lead to no real.
pub(crate) fn forwarding_is_off(interface: &str, config: &Config) -> Vec<String> {
    let mut lines = Vec::new();
    for (version, folder) in [(4, "ipv4"), (6, "ipv6")] {
        let reals = config.vips.iter().flat_map(|vip| &vip.reals);
        let by_routes = reals.filter(|real| real.next_hop.is_none());
        let mut addresses = by_routes.map(|real| if real.address.is_ipv4() { 4 } else { 6 });
        let path = format!("/proc/sys/net/{folder}/conf/{interface}/forwarding");
        let is_off = std::fs::read_to_string(path).is_ok_and(|text| text.trim() == "0");
        if is_off && addresses.any(|address| address == version) {
            lines.push(format!(
                "IPv{version} is not forwarded from {interface}, so that packets to reals without \
                 next_hop are dropped as no_route: `sysctl -w \
                 net.{folder}.conf.{interface}.forwarding=1`"
            ));
        }
    }
    lines
}
