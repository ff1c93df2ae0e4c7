/**
 * Parses SPF records (RFC 7208 §4.5, §4.6, §12). Receivers treat a mistake anywhere in a record as an error of the
 * whole record.
 */
import { BlockList, isIP, isIPv6 } from 'node:net';
import { isDomainSpec, isMacroString } from './macros.ts';

const MECHANISMS = ['all', 'include', 'a', 'mx', 'ptr', 'ip4', 'ip6', 'exists'] as const;
type Mechanism = (typeof MECHANISMS)[number];

/** Limit in characters. RFC 7208 §3.4 recommends 512 octets for all TXT records at the name. */
const RECORD_LENGTH_MAX = 10_000;
const TERM = /^([+?~-]?)([a-z][a-z0-9_.-]*)(?:([:=/])(.*))?$/i;
/** Characters of a wrong term that the problem quotes. */
const TERM_CHARACTERS_MAX = 60;

export type Term = {
  qualifier: '+' | '-' | '~' | '?';
  name: Mechanism;
  /** Domain with its macros, or address; '' means the domain of the record. */
  spec: string;
  /** Prefix lengths of the networks of IPv4 and IPv6. */
  bits4: number;
  bits6: number;
};

export type SpfRecord = { terms: readonly Term[]; redirect: string | null };

type Problem = { problem: string };

export function isSpf(text: string): boolean {
  return /^v=spf1(?: |$)/i.test(text);
}

export function parseSpf(text: string): SpfRecord | Problem {
  if (text.length > RECORD_LENGTH_MAX) return problem('more than 10,000 characters');
  const terms: Term[] = [];
  const modifiers = new Map<string, string>();
  for (const rawTerm of text.split(' ').slice(1).filter(Boolean)) {
    const [, qualifier = '', word = '', delimiter = '', value = ''] = TERM.exec(rawTerm) ?? [];
    const name = word.toLowerCase();
    if (delimiter === '=' && qualifier === '') {
      const isKnown = name === 'redirect' || name === 'exp';
      const isValid = isKnown ? !modifiers.has(name) && isDomainSpec(value) : isMacroString(value);
      if (!isValid) return mistake(rawTerm);
      modifiers.set(name, value);
      continue;
    }
    const term = parseTerm(name, delimiter === '/' ? `/${value}` : value, delimiter === ':');
    if (term === null || delimiter === '=') return mistake(rawTerm);
    terms.push({ ...term, qualifier: (qualifier || '+') as Term['qualifier'] });
  }
  return { terms, redirect: modifiers.get('redirect') ?? null };
}

function parseTerm(word: string, value: string, hasSpec: boolean): Omit<Term, 'qualifier'> | null {
  const name = MECHANISMS.find((mechanism) => mechanism === word);
  if (name === undefined) return null;
  if (name === 'ip4' || name === 'ip6') return parseNetwork(name, value);
  const isHost = name === 'a' || name === 'mx';
  const [, spec = '', v4, v6] =
    /^(.*?)(?:\/(0|[1-9]\d{0,2}))?(?:\/\/(0|[1-9]\d{0,2}))?$/.exec(value) ?? [];
  const bits = { bits4: Number(v4 ?? 32), bits6: Number(v6 ?? 128) };
  if (bits.bits4 > 32 || bits.bits6 > 128 || (!isHost && (v4 ?? v6) !== undefined)) return null;
  if (hasSpec ? name === 'all' || !isDomainSpec(spec) : spec !== '') return null;
  if ((name === 'include' || name === 'exists') && !hasSpec) return null;
  return { name, spec, ...bits };
}

function parseNetwork(name: 'ip4' | 'ip6', value: string): Omit<Term, 'qualifier'> | null {
  const [, spec = '', length] = /^([^/]+)(?:\/(0|[1-9]\d{0,2}))?$/.exec(value) ?? [];
  const [family, longest] = name === 'ip4' ? [4, 32] : [6, 128];
  const bits = Number(length ?? longest);
  if (isIP(spec) !== family || bits > longest || spec.includes('%')) return null;
  return { name, spec, bits4: bits, bits6: bits };
}

function mistake(term: string): Problem {
  const printable = term.replaceAll(/[^!-~]/g, '?').slice(0, TERM_CHARACTERS_MAX);
  return problem(`a mistake, "${printable}"`);
}

function problem(text: string): Problem {
  return { problem: text };
}

/** Returns whether one of the networks, with the prefix length of their family, contains the address. */
export function networksContain(
  { bits4, bits6 }: Pick<Term, 'bits4' | 'bits6'>,
  networks: readonly string[],
  address: string,
): boolean {
  const list = new BlockList();
  const isV6 = isIPv6(address);
  for (const network of networks) {
    if (isIP(network) !== isIP(address)) continue;
    list.addSubnet(network, isV6 ? bits6 : bits4, isV6 ? 'ipv6' : 'ipv4');
  }
  return list.check(address, isV6 ? 'ipv6' : 'ipv4');
}
