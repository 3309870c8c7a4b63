//! The options of a DHCP message: which they are, and how their values are written.

use super::values;
use crate::application::Text;
use crate::cursor::Stop;
use crate::put;
use ringside_proto::Dhcp;
use ringside_proto::dhcp::DhcpOption;
use std::fmt::Write;

/// How a value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// A list of IPv4 addresses.
    Addresses,
    /// A list of pairs of addresses.
    AddressPairs,
    /// Numbers of 32 bits, or 16 bits.
    Longs,
    Shorts,
    /// Single bytes with dots between them.
    Bytes,
    /// Yes or no, each byte.
    Flags,
    Text,
    /// As its length allows: addresses, a number, or bytes.
    Any,
    /// With a function of its own.
    MessageType,
    Parameters,
    ClientId,
    NodeType,
    Overload,
    UserClass,
    DomainName,
    RelayInformation,
    ClasslessRoutes,
}

/// Options whose meaning is known (RFC 2132, the registry of IANA), by number.
#[rustfmt::skip]
const OPTIONS: &[(u8, &str, Format)] = {
    use Format::*;
    &[
        (0, "PAD", Any), (1, "Subnet-Mask", Addresses), (2, "Time-Zone", Longs),
        (3, "Default-Gateway", Addresses), (4, "Time-Server", Addresses),
        (5, "IEN-Name-Server", Addresses), (6, "Domain-Name-Server", Addresses),
        (7, "LOG", Addresses), (8, "CS", Addresses), (9, "LPR-Server", Addresses),
        (10, "IM", Addresses), (11, "RL", Addresses), (12, "Hostname", Text), (13, "BS", Shorts),
        (14, "DP", Text), (15, "Domain-Name", Text), (16, "SS", Addresses), (17, "RP", Text),
        (18, "EP", Text), (19, "IPF", Flags), (20, "SRT", Flags), (21, "PF", AddressPairs),
        (22, "RSZ", Shorts), (23, "TTL", Bytes), (24, "MTU-Timeout", Longs),
        (25, "MTU-Table", Shorts), (26, "MTU", Shorts), (27, "LSN", Flags), (28, "BR", Addresses),
        (29, "MD", Flags), (30, "MS", Flags), (31, "Router-Discovery", Flags),
        (32, "RSA", Addresses), (33, "Static-Route", AddressPairs), (34, "UT", Flags),
        (35, "AT", Longs), (36, "IE", Flags), (37, "TT", Bytes), (38, "KI", Longs),
        (39, "KG", Flags), (40, "YD", Text), (41, "YS", Addresses), (42, "NTP", Addresses),
        (43, "Vendor-Option", Bytes), (44, "Netbios-Name-Server", Addresses),
        (45, "WDD", Addresses), (46, "Netbios-Node", NodeType), (47, "Netbios-Scope", Text),
        (48, "XFS", Addresses), (49, "XDM", Addresses), (50, "Requested-IP", Addresses),
        (51, "Lease-Time", Longs), (52, "OO", Overload), (53, "DHCP-Message", MessageType),
        (54, "Server-ID", Addresses), (55, "Parameter-Request", Parameters), (56, "MSG", Text),
        (57, "MSZ", Shorts), (58, "RN", Longs), (59, "RB", Longs), (60, "Vendor-Class", Text),
        (61, "Client-ID", ClientId), (64, "N+D", Shorts), (65, "N+S", Addresses),
        (66, "TFTP", Text), (67, "BF", Text), (68, "MH", Addresses), (69, "SMTP", Addresses),
        (70, "POP3", Addresses), (71, "NNTP", Addresses), (72, "WWW", Addresses),
        (73, "FG", Addresses), (74, "IRC", Addresses), (75, "STS", Addresses),
        (76, "STDA", Addresses), (77, "User-Class", UserClass), (78, "SLP-DA", Bytes),
        (79, "SLP-SCOPE", Bytes), (80, "SLP-NA", Text), (81, "FQDN", DomainName),
        (82, "Agent-Information", RelayInformation), (83, "ARMT", Bytes), (88, "TZSTR", Text),
        (89, "FQDNS", Bytes), (90, "AUTH", Bytes), (91, "Last-Transaction-Time", Longs),
        (92, "Associated-IP", Addresses), (93, "ARCH", Shorts), (94, "NDI", Bytes),
        (95, "LDAP", Text), (97, "GUID", Bytes), (98, "UAP", Text), (100, "POSIX-TZ", Text),
        (101, "TZ-Name", Text), (112, "NI", Addresses), (113, "NITAG", Text), (114, "URL", Text),
        (116, "NOAUTO", Flags), (117, "NSSEARCH", Shorts), (118, "SUBNET", Addresses),
        (121, "Classless-Static-Route", ClasslessRoutes),
        (150, "TFTP-Server-Address", Addresses), (161, "MUD-URL", Text),
        (249, "Classless-Static-Route-Microsoft", ClasslessRoutes), (255, "END", Any),
    ]
};

/// Name and format of an option.
pub(super) fn known(code: u8) -> (&'static str, Format) {
    match OPTIONS.binary_search_by_key(&code, |option| option.0) {
        Ok(index) => OPTIONS.get(index).map_or(("Unknown", Format::Any), |o| (o.1, o.2)),
        Err(_) => ("Unknown", Format::Any),
    }
}

/// All options behind the cookie; the pads and the end of them with -vvv alone.
pub(super) fn print(text: &mut Text<'_>, dhcp: &Dhcp<'_>) -> Result<(), Stop> {
    text.out.push_str("\n\t  Vendor-rfc1048 Extensions");
    put!(text, "\n\t    Magic Cookie 0x{:08x}", Dhcp::MAGIC_COOKIE);
    let mut options = dhcp.options().peekable();
    while let Some(option) = options.next() {
        let mut occurs = 1;
        while option.code == DhcpOption::PAD
            && options.next_if(|next| next.code == DhcpOption::PAD).is_some()
        {
            occurs += 1;
        }
        let is_frame = matches!(option.code, DhcpOption::PAD | DhcpOption::END);
        if is_frame && text.verbosity < 3 {
            if option.code == DhcpOption::END {
                break;
            }
            continue;
        }
        let length = option.length.ok_or(Stop::Cut)?;
        put!(text, "\n\t    {} ({}), length {length}", known(option.code).0, option.code);
        if occurs > 1 {
            put!(text, ", occurs {occurs}");
        }
        if length == 0 {
            continue;
        }
        text.out.push_str(": ");
        if !option.is_whole() {
            return Err(Stop::Cut);
        }
        values::print(text, &option);
    }
    Ok(())
}
