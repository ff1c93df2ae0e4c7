/**
 * Decides by IP addresses: where this service may connect (`AddressGuard`), which client an address identifies
 * (`clientOf`, `sharedAddresses`), and whether an address leads to this machine (`isLoopback`).
 *
 * Customers choose webhook URLs, and recipients choose MX records. Both can point at 127.0.0.1, at a cloud's metadata
 * service or at an internal database (SSRF). Every outgoing connection is checked by its address, never by a name. The
 * ranges are IANA's special-purpose registries (RFC 6890) and the translation prefixes that embed an IPv4 address in an
 * IPv6 address.
 */
import { BlockList, isIP, isIPv4, isIPv6 } from 'node:net';

/** [network, prefix length, description]. */
type Range = readonly [string, number, string];

const REFUSED_IPV4: readonly Range[] = [
  ['0.0.0.0', 8, 'an address of "this network"'],
  ['10.0.0.0', 8, 'a private address'],
  ['100.64.0.0', 10, 'a carrier-grade NAT address'],
  ['127.0.0.0', 8, 'a loopback address'],
  ['168.63.129.16', 32, 'a metadata address of a cloud'],
  ['169.254.0.0', 16, 'a link-local address'],
  ['172.16.0.0', 12, 'a private address'],
  ['192.0.0.0', 24, 'a protocol-assignment address'],
  ['192.0.2.0', 24, 'a documentation address'],
  ['192.88.99.0', 24, 'a 6to4 relay address'],
  ['192.168.0.0', 16, 'a private address'],
  ['198.18.0.0', 15, 'a benchmarking address'],
  ['198.51.100.0', 24, 'a documentation address'],
  ['203.0.113.0', 24, 'a documentation address'],
  ['224.0.0.0', 4, 'a multicast address'],
  ['240.0.0.0', 4, 'a reserved address'],
];

/**
 * The first match gives the reason. IPv4-mapped addresses are all refused, because no legitimate AAAA record
 * contains one. NAT64, 6to4 and Teredo are refused because they reach IPv4 hosts.
 */
const REFUSED_IPV6: readonly Range[] = [
  ['::', 128, 'the unspecified address'],
  ['::1', 128, 'a loopback address'],
  ['::ffff:0:0', 96, 'an IPv4-mapped address'],
  ['64:ff9b::', 96, 'a NAT64 address'],
  ['64:ff9b:1::', 48, 'a NAT64 address'],
  ['100::', 64, 'a discard-only address'],
  ['2001::', 32, 'a Teredo address'],
  ['2001::', 23, 'a protocol-assignment address'],
  ['2001:db8::', 32, 'a documentation address'],
  ['2002::', 16, 'a 6to4 address'],
  ['3fff::', 20, 'a documentation address'],
  ['5f00::', 16, 'a segment-routing address'],
  ['fc00::', 7, 'a unique-local address'],
  ['fe80::', 10, 'a link-local address'],
  ['fec0::', 10, 'a site-local address'],
  ['ff00::', 8, 'a multicast address'],
];

type DescribedList = readonly [list: BlockList, description: string];

/** Made for the first address, because making them takes 6 ms of every start. */
let lists: { ipv4: DescribedList[]; ipv6: DescribedList[]; global: BlockList } | null = null;

function listsOfRanges() {
  const toLists = (ranges: readonly Range[], type: 'ipv4' | 'ipv6') =>
    ranges.map(([network, bits, text]): DescribedList => [blockList(network, bits, type), text]);
  lists ??= {
    ipv4: toLists(REFUSED_IPV4, 'ipv4'),
    ipv6: toLists(REFUSED_IPV6, 'ipv6'),
    // IANA's global unicast block. An address outside of it is not public.
    global: blockList('2000::', 3, 'ipv6'),
  };
  return lists;
}

export type AddressGuard = {
  /** Permits private networks, `http://` and any port: for development and tests only. */
  readonly allowPrivate: boolean;
  /** Returns why a connection to this address is refused, as a sentence; null when it is permitted. */
  refusalReason(ip: string): string | null;
};

export function isPublicAddress(ip: string): boolean {
  return nonPublicReason(ip) === null;
}

/**
 * @param options.ownAddresses this machine's addresses, refused even if public: an MX record that points at this
 * machine would make the service deliver to itself in a loop
 */
export function createAddressGuard(options: {
  allowPrivate: boolean;
  ownAddresses?: readonly string[];
}): AddressGuard {
  const own = new BlockList();
  for (const address of options.ownAddresses ?? []) {
    const bare = withoutZone(address);
    if (isIP(bare) !== 0) own.addAddress(bare, familyOf(bare));
  }
  return {
    allowPrivate: options.allowPrivate,
    refusalReason(ip) {
      if (isIP(ip) === 0) return `"${ip}" is not an IP address`;
      if (options.allowPrivate) return null;
      const reason = nonPublicReason(ip);
      if (reason !== null) return `${ip} is ${reason}`;
      return own.check(ip, familyOf(ip)) ? `${ip} is an address of this machine` : null;
    },
  };
}

function nonPublicReason(ip: string): string | null {
  const version = isIP(ip);
  // Only link-local addresses have a zone ("fe80::1%eth0").
  if (version === 0 || ip.includes('%')) return 'not a plain IP address';
  const { ipv4, ipv6, global } = listsOfRanges();
  if (version === 4) return firstMatchingRange(ipv4, ip, 'ipv4');
  const reason = firstMatchingRange(ipv6, ip, 'ipv6');
  if (reason !== null) return reason;
  return global.check(ip, 'ipv6') ? null : 'not a global unicast address';
}

function firstMatchingRange(
  described: readonly DescribedList[],
  ip: string,
  type: 'ipv4' | 'ipv6',
): string | null {
  return described.find(([list]) => list.check(ip, type))?.[1] ?? null;
}

function blockList(network: string, bits: number, type: 'ipv4' | 'ipv6'): BlockList {
  const list = new BlockList();
  list.addSubnet(network, bits, type);
  return list;
}

function familyOf(ip: string): 'ipv4' | 'ipv6' {
  return isIP(ip) === 6 ? 'ipv6' : 'ipv4';
}

function withoutZone(ip: string): string {
  return ip.split('%')[0] ?? ip;
}

/** Returns the address for logs: IPv4 in its own form, without a zone. Other text is shortened. */
export function plainAddress(address: string): string {
  return address
    .replace(/^::ffff:(?=\d+\.\d+\.\d+\.\d+$)/i, '')
    .replace(/%.*$/, '')
    .slice(0, 64);
}

/**
 * Returns the client of a request, for rate limits: an IPv4 address, or the /64 of an IPv6 address, which is the
 * smallest network of a customer.
 * @param address from a socket or a trusted proxy; other text is returned unchanged
 */
export function clientOf(address: string): string {
  const plain = plainAddress(address);
  if (isIPv4(plain) || !isIPv6(plain)) return plain;
  const [head = '', tail] = plain.toLowerCase().split('::');
  const groups = head === '' ? [] : head.split(':');
  if (tail !== undefined) {
    // A dotted end replaces two groups.
    const tailGroups =
      tail === '' ? [] : tail.split(':').flatMap((g) => (g.includes('.') ? [g, g] : [g]));
    groups.push(
      ...Array.from({ length: 8 - groups.length - tailGroups.length }, () => '0'),
      ...tailGroups,
    );
  }
  return `${groups
    .slice(0, 4)
    .map((group) => group.replace(/^0+(?=.)/, ''))
    .join(':')}::/64`;
}

/** Returns the /24 of an address, or its /48 of IPv6, for records that must not identify a person. */
export function networkOf(address: string): string {
  const client = clientOf(address);
  if (isIPv4(client)) return client.replace(/\d+$/, '0');
  return client.replace(/^((?:[^:]+:){2}[^:]+):.*$/, '$1::');
}

const LOOPBACK = ['127.0.0.0/8', '::1'] as const;

/** Returns whether an address leads to this machine. A host name, such as `localhost`, is no address. */
export const isLoopback = sharedAddresses([]);

/**
 * Returns whether many clients share an address, so that limits per client do not apply. These are addresses in the
 * given networks (`10.0.0.0/8` or an address), and loopback, where an unconfigured proxy may run.
 */
export function sharedAddresses(networks: readonly string[]): (address: string) => boolean {
  const shared = new BlockList();
  for (const network of [...LOOPBACK, ...networks]) {
    const [ip = '', bits] = network.split('/');
    const bitsMax = isIPv4(ip) ? 32 : 128;
    shared.addSubnet(ip, bits === undefined ? bitsMax : Number(bits), familyOf(ip));
  }
  return (address) => {
    const plain = address.replace(/%.*$/, '');
    return isIP(plain) !== 0 && shared.check(plain, familyOf(plain));
  };
}
