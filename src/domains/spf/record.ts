/**
 * Parses SPF records (RFC 7208 §4.5, §4.6, §12). Receivers treat a mistake anywhere in a record as an error of the
 * whole record.
 */
import { BlockList, isIP, isIPv6 } from 'node:net';
import { isDomainSpec, isMacroString } from './macros.ts';

const MECHANISMS = ['all', 'include', 'a', 'mx', 'ptr', 'ip4', 'ip6', 'exists'] as const;
type Mechanism = (typeof MECHANISMS)[number];

export type Term = {
  qualifier: '+' | '-' | '~' | '?';
  name: Mechanism;
  /** Domain with its macros, or address; '' means the domain of the record. */
  spec: string;
  /** In bits. */
  bits4: number;
  bits6: number;
};

export type SpfRecord = { terms: readonly Term[]; redirect: string | null };

type Problem = { problem: string };

export function isSpf(text: string): boolean {
  return /^v=spf1(?: |$)/i.test(text);
}

/** Limit in characters. RFC 7208 §3.4 recommends 512 octets for all TXT records at the name. */
const RECORD_LENGTH_MAX = 10_000;
const TERM = /^([+?~-]?)([a-z][a-z0-9_.-]*)(?:([:=/])(.*))?$/i;

export function parseSpf(text: string): SpfRecord | Problem {
  if (text.length > RECORD_LENGTH_MAX) return problem('more than 10,000 characters');
  const terms: Term[] = [];
  const modifiers = new Map<string, string>();
  for (const rawTerm of text.split(' ').slice(1).filter(Boolean)) {
    const [, qualifier = '', word = '', delimiter = '', rest = ''] = TERM.exec(rawTerm) ?? [];
    const name = word.toLowerCase();
    if (delimiter === '=' && qualifier === '') {
      const isKnown = name === 'redirect' || name === 'exp';
      const isRight = isKnown ? !modifiers.has(name) && isDomainSpec(rest) : isMacroString(rest);
      if (!isRight) return mistake(rawTerm);
      modifiers.set(name, rest);
      continue;
    }
    const term = termOf(name, delimiter === '/' ? `/${rest}` : rest, delimiter === ':');
    if (term === null || delimiter === '=') return mistake(rawTerm);
    terms.push({ ...term, qualifier: (qualifier || '+') as Term['qualifier'] });
  }
  return { terms, redirect: modifiers.get('redirect') ?? null };
}

function termOf(word: string, rest: string, hasSpec: boolean): Omit<Term, 'qualifier'> | null {
  const name = MECHANISMS.find((one) => one === word);
  if (name === undefined) return null;
  if (name === 'ip4' || name === 'ip6') return networkOf(name, rest);
  const isHost = name === 'a' || name === 'mx';
  const [, spec = '', v4, v6] =
    /^(.*?)(?:\/(0|[1-9]\d{0,2}))?(?:\/\/(0|[1-9]\d{0,2}))?$/.exec(rest) ?? [];
  const bits = { bits4: Number(v4 ?? 32), bits6: Number(v6 ?? 128) };
  if (bits.bits4 > 32 || bits.bits6 > 128 || (!isHost && (v4 ?? v6) !== undefined)) return null;
  if (hasSpec ? name === 'all' || !isDomainSpec(spec) : spec !== '') return null;
  if ((name === 'include' || name === 'exists') && !hasSpec) return null;
  return { name, spec, ...bits };
}

function networkOf(name: 'ip4' | 'ip6', rest: string): Omit<Term, 'qualifier'> | null {
  const [, spec = '', length] = /^([^/]+)(?:\/(0|[1-9]\d{0,2}))?$/.exec(rest) ?? [];
  const [family, longest] = name === 'ip4' ? [4, 32] : [6, 128];
  const bits = Number(length ?? longest);
  if (isIP(spec) !== family || bits > longest || spec.includes('%')) return null;
  return { name, spec, bits4: bits, bits6: bits };
}

const SHOWN_MAX = 60;

function mistake(term: string): Problem {
  const shown = term.replaceAll(/[^!-~]/g, '?').slice(0, SHOWN_MAX);
  return problem(`a mistake, "${shown}"`);
}

function problem(text: string): Problem {
  return { problem: text };
}

export function holds(
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
