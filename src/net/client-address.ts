/**
 * Which client a request comes from, for counting its failed authentications: an IPv4 address, or
 * the /64 of an IPv6 address (one customer has at least that much of it).
 */
import { isIPv4, isIPv6 } from 'node:net';

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
