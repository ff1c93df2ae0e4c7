/**
 * Networks in CIDR form (RFC 4632): their one stored form, and whether an address is in one of them. A single address
 * is a network, too.
 */
import { BlockList, isIP, isIPv4 } from 'node:net';
import { plainAddress } from './ip-addresses.ts';

const IPV4_BITS = 32;
const IPV6_BITS = 128;
/** Precedes the IPv4 address in an IPv4-mapped one (RFC 4291 §2.5.5.2). */
const MAPPED_PREFIX = 0xffffn;

/**
 * Returns the network in its one form, so that equal networks are equal texts: bits behind the prefix are zero,
 * IPv6 is compressed, IPv4-mapped addresses are IPv4, and a single address has no prefix. Returns null for other text.
 */
export function parseNetwork(text: string): string | null {
  const [ip = '', prefix, ...rest] = text.trim().split('/');
  const family = isIP(ip);
  if (family === 0 || ip.includes('%') || rest.length > 0) return null;
  const bitsMax = family === 4 ? IPV4_BITS : IPV6_BITS;
  if (prefix !== undefined && !/^\d{1,3}$/.test(prefix)) return null;
  const bits = prefix === undefined ? bitsMax : Number(prefix);
  if (bits > bitsMax) return null;
  const number = family === 4 ? numberOfIpv4(ip) : numberOfIpv6(ip);
  const isMapped = family === 6 && bits >= 96 && number >> 32n === MAPPED_PREFIX;
  if (isMapped) return formatNetwork(number & 0xffff_ffffn, bits - 96, IPV4_BITS);
  return formatNetwork(number, bits, bitsMax);
}

/** @param networks results of parseNetwork @param address of a socket, or as a trusted proxy reports it */
export function isInNetworks(networks: readonly string[], address: string): boolean {
  const plain = plainAddress(address);
  const family = isIP(plain);
  if (family === 0) return false;
  const list = new BlockList();
  for (const network of networks) {
    const [ip = '', bits] = network.split('/');
    const isOfIpv4 = isIPv4(ip);
    const bitsMax = isOfIpv4 ? IPV4_BITS : IPV6_BITS;
    list.addSubnet(ip, bits === undefined ? bitsMax : Number(bits), isOfIpv4 ? 'ipv4' : 'ipv6');
  }
  return list.check(plain, family === 4 ? 'ipv4' : 'ipv6');
}

function formatNetwork(number: bigint, bits: number, bitsMax: number): string {
  const hostBits = BigInt(bitsMax - bits);
  const network = (number >> hostBits) << hostBits;
  const address = bitsMax === IPV4_BITS ? ipv4Of(network) : ipv6Of(network);
  return bits === bitsMax ? address : `${address}/${bits}`;
}

function numberOfIpv4(ip: string): bigint {
  return ip.split('.').reduce((sum, octet) => sum * 256n + BigInt(octet), 0n);
}

function numberOfIpv6(ip: string): bigint {
  const [head = '', tail] = compressed(ip).split('::');
  const groupsOf = (text: string) => (text === '' ? [] : text.split(':'));
  const [before, after] = [groupsOf(head), groupsOf(tail ?? '')];
  const zeros = Array.from({ length: 8 - before.length - after.length }, () => '0');
  return [...before, ...zeros, ...after].reduce(
    (sum, group) => sum * 65_536n + BigInt(`0x${group}`),
    0n,
  );
}

function ipv4Of(number: bigint): string {
  return [24n, 16n, 8n, 0n].map((shift) => (number >> shift) & 0xffn).join('.');
}

function ipv6Of(number: bigint): string {
  const groups = Array.from({ length: 8 }, (_, at) => (number >> BigInt(112 - 16 * at)) & 0xffffn);
  return compressed(groups.map((group) => group.toString(16)).join(':'));
}

/** Returns an IPv6 address in the form of RFC 5952, without a dotted end: URLs have it (WHATWG URL §3.5). */
function compressed(ip: string): string {
  return new URL(`http://[${ip}]`).hostname.slice(1, -1);
}
