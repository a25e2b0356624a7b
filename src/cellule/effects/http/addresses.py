"""Which addresses of the internet an adapter may connect to: public ones, and others only by grant.

The tables are ours, taken from the registries of special-purpose addresses: what Python calls global differs
between its versions. An address that carries another (IPv4-mapped, NAT64) is judged by the one it carries.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

Address = IPv4Address | IPv6Address

_NEVER_4 = {
    "0.0.0.0/8": "an address of this network only",
    "224.0.0.0/4": "a multicast address",
    "240.0.0.0/4": "a reserved address",
}
_PRIVATE_4 = {
    "10.0.0.0/8": "a private address",
    "100.64.0.0/10": "an address of a carrier's own network",
    "127.0.0.0/8": "an address of this machine",
    "169.254.0.0/16": "a link-local address",
    "172.16.0.0/12": "a private address",
    "192.0.0.0/24": "an address for protocols",
    "192.0.2.0/24": "an address for documents",
    "192.88.99.0/24": "an address of a 6to4 relay",
    "192.168.0.0/16": "a private address",
    "198.18.0.0/15": "an address for benchmarks",
    "198.51.100.0/24": "an address for documents",
    "203.0.113.0/24": "an address for documents",
}
_NEVER_6 = {"::/128": "no address", "ff00::/8": "a multicast address"}
_PRIVATE_6 = {
    "::1/128": "an address of this machine",
    "fc00::/7": "a private address",
    "fe80::/10": "a link-local address",
    "fec0::/10": "a private address of old",
    "2001::/23": "an address for protocols",
    "2001:db8::/32": "an address for documents",
    "2002::/16": "a 6to4 address",
    "3fff::/20": "an address for documents",
}
_NEVER: list[tuple[IPv4Network | IPv6Network, str]] = [
    *((IPv4Network(each), why) for each, why in _NEVER_4.items()),
    *((IPv6Network(each), why) for each, why in _NEVER_6.items()),
]
_PRIVATE: list[tuple[IPv4Network | IPv6Network, str]] = [
    *((IPv4Network(each), why) for each, why in _PRIVATE_4.items()),
    *((IPv6Network(each), why) for each, why in _PRIVATE_6.items()),
]
_GLOBAL_6 = IPv6Network("2000::/3")
_NAT64 = IPv6Network("64:ff9b::/96")


def address_fault(text: str, *, private: bool) -> str:
    """Say why `text` may not be connected to; empty when it may.

    >>> address_fault("93.184.216.34", private=False)
    ''
    >>> address_fault("::ffff:10.0.0.1", private=False)
    'a private address'
    """
    address = _carried(ip_address(text))
    for network, why in _NEVER:
        if address in network:
            return why
    if private:
        return ""
    for network, why in _PRIVATE:
        if address in network:
            return why
    if isinstance(address, IPv6Address) and address not in _GLOBAL_6:
        return "an address outside the public ranges"
    return ""


def _carried(address: Address) -> Address:
    if isinstance(address, IPv4Address):
        return address
    if address.ipv4_mapped is not None:
        return address.ipv4_mapped
    # With a zone the address equals no network's; the number alone is judged.
    number = int(address)
    if IPv6Address(number) in _NAT64:
        return IPv4Address(number & 0xFFFF_FFFF)
    return IPv6Address(number)
