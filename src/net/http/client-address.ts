/**
 * Which client a request comes from, for counting its failed authentications: an IPv4 address, or
 * the /64 of an IPv6 address (one customer has at least that much of it).
 */
import { BlockList, isIP, isIPv4, isIPv6 } from 'node:net';

/**
 * @param address as a socket or a trusted proxy names it; what is no address at all is kept as it is
 */
export function clientOf(address: string): string {
  const plain = address.replace(/^::ffff:(?=\d+\.\d+\.\d+\.\d+$)/i, '').replace(/%.*$/, '');
  if (isIPv4(plain) || !isIPv6(plain)) return plain.slice(0, 64);
  const [head = '', tail] = plain.toLowerCase().split('::');
  const groups = head === '' ? [] : head.split(':');
  if (tail !== undefined) {
    // A dotted end stands for two groups.
    const rest =
      tail === '' ? [] : tail.split(':').flatMap((g) => (g.includes('.') ? [g, g] : [g]));
    groups.push(...Array.from({ length: 8 - groups.length - rest.length }, () => '0'), ...rest);
  }
  return `${groups
    .slice(0, 4)
    .map((group) => group.replace(/^0+(?=.)/, ''))
    .join(':')}::/64`;
}

/**
 * Which addresses stand for many clients, so that none of their limits fits: these networks
 * (`10.0.0.0/8` or an address), and this machine, where a proxy may be that nobody named.
 */
export function sharedAddresses(networks: readonly string[]): (address: string) => boolean {
  const shared = new BlockList();
  for (const network of ['127.0.0.0/8', '::1', ...networks]) {
    const [ip = '', bits] = network.split('/');
    const family = isIPv4(ip) ? 'ipv4' : 'ipv6';
    shared.addSubnet(
      ip,
      bits === undefined ? (family === 'ipv4' ? 32 : 128) : Number(bits),
      family,
    );
  }
  return (address) => {
    const plain = address.replace(/%.*$/, '');
    return isIP(plain) !== 0 && shared.check(plain, isIPv4(plain) ? 'ipv4' : 'ipv6');
  };
}
