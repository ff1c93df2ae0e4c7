/**
 * Parses reports that are only text: the failed recipients, and the text about each.
 *
 * There is no parser per mail system, because there are many, and most copied each other. They share the position of
 * a recipient on its line: alone, before a colon (Exim, qmail, Sendmail, Courier, Yahoo, …), or after an announcing
 * phrase (DragonFly, Domino, MailMarshal, KDDI, …). All addresses of the best position that occurs are recipients.
 *
 * Linear in any text: only the neighbourhood of each address is read, within a bound, and the numbers of addresses
 * and recipients are limited.
 */
import { addressKey } from '../address.ts';
import { MESSAGE_FIELD, RECIPIENT_PHRASES } from './report-phrases.ts';

/** `diagnostic`: the text after the address, up to the next address. */
export type TextEntry = { recipient: string; diagnostic: string };

/** Limit on the recipients of a report about one email. */
export const RECIPIENTS_MAX = 20;
const CANDIDATES_MAX = 500;
const DIAGNOSTIC_LINES_MAX = 24;
const DIAGNOSTIC_CHARS_MAX = 4_000;
const PARAGRAPHS_MAX = 3;

/** Positions of an address on its line, the best first. */
const POSITIONS = ['named', 'leading', 'dialogue', 'mentioned'] as const;
type Position = (typeof POSITIONS)[number];

/** `textStart`: the offset of the text after the address, on its line. */
type Candidate = { address: string; line: number; textStart: number; position: Position };

/** Characters around an address that have no meaning. */
const FRAME_BEFORE = /[\s<>("'*\u2022[|-]/;
const FRAME_BEHIND = /[\s>)"'\]]*(?:<mailto:[^>]*>)?[\s>)"'\]]*/y;
/** Longer than the longest of RECIPIENT_PHRASES. */
const WORDS_CHARS_MAX = 60;
/** Limit for a line or the value of a field. Real reports name few. */
const ADDRESSES_MAX = 50;
const LOCAL_CHARS_MAX = 64;
const QUOTED_CHARS_MAX = 62;
const DOMAIN_CHARS_MAX = 255;
const QUOTE = '"';
const FIELD_CHARS_MAX = 4_096;
/** `+`, `=` and backslash, which RFC 6533 §3 requires to be escaped. */
const ESCAPED_ASCII: ReadonlySet<number> = new Set([0x2b, 0x3d, 0x5c]);
/** Sets of characters as bits. Characters outside of ASCII belong to every set. */
const LOCAL = 1;
const DOMAIN_BEGINNING = 2;
const DOMAIN = 4;
const ALPHANUMERIC = 8;
const SETS = Uint8Array.from({ length: 128 }, (_, code) => {
  const character = String.fromCharCode(code);
  return (
    (/[\w!#$%&'*+/=?^`{|}~.-]/.test(character) ? LOCAL : 0) |
    (/\w/.test(character) ? DOMAIN_BEGINNING : 0) |
    (/[\w.-]/.test(character) ? DOMAIN : 0) |
    (/[A-Za-z0-9]/.test(character) ? ALPHANUMERIC : 0)
  );
});

/**
 * @param notRecipients senders of the message and of the report, as addressKey
 * @param known failed addresses in the report's own header; if there are any, only these are recipients
 */
export function readTextEntries(
  lines: readonly string[],
  { notRecipients, known }: { notRecipients: ReadonlySet<string>; known: readonly string[] },
): TextEntry[] {
  const candidates = candidatesIn(lines);
  const failed = known.slice(0, RECIPIENTS_MAX);
  const isFailed = new Set(failed.map((address) => addressKey(address)));
  const chosen =
    failed.length > 0
      ? candidates.filter(({ address }) => isFailed.has(addressKey(address)))
      : bestCandidates(candidates.filter(({ address }) => !notRecipients.has(addressKey(address))));
  const named = new Map<string, Candidate>();
  for (const candidate of chosen) {
    const key = addressKey(candidate.address);
    const before = named.get(key);
    if (before === undefined || isBetter(candidate, before)) named.set(key, candidate);
  }
  const starts = new Set(Array.from(named.values(), ({ line }) => line));
  const entries = [...named.values()].slice(0, RECIPIENTS_MAX).map((candidate) => ({
    recipient: candidate.address,
    diagnostic: diagnosticOf(lines, candidate, starts),
  }));
  return failed.length > 0 ? entriesOfFailed(entries, failed) : entries;
}

function entriesOfFailed(entries: readonly TextEntry[], known: readonly string[]): TextEntry[] {
  return known.map((recipient) => {
    const key = addressKey(recipient);
    const entry = entries.find(({ recipient: named }) => addressKey(named) === key);
    return { recipient, diagnostic: entry?.diagnostic ?? '' };
  });
}

function bestCandidates(candidates: readonly Candidate[]): readonly Candidate[] {
  const best = POSITIONS.find((position) =>
    candidates.some((candidate) => candidate.position === position),
  );
  const chosen = candidates.filter(({ position }) => position === best);
  // An address within a sentence is only a guess; several guesses are discarded.
  const addresses = new Set(chosen.map(({ address }) => addressKey(address)));
  return best === 'mentioned' && addresses.size > 1 ? [] : chosen;
}

function isBetter(candidate: Candidate, before: Candidate): boolean {
  return POSITIONS.indexOf(candidate.position) < POSITIONS.indexOf(before.position);
}

function candidatesIn(lines: readonly string[]): Candidate[] {
  const candidates: Candidate[] = [];
  for (const [index, line] of lines.entries()) {
    if (candidates.length >= CANDIDATES_MAX) break;
    candidates.push(...candidatesOn(line, index));
  }
  return candidates;
}

function candidatesOn(line: string, index: number): Candidate[] {
  const addresses = addressesIn(line);
  if (addresses.length === 0 || MESSAGE_FIELD.test(line)) return [];
  return addresses.map((found, place) => {
    const frameEnd = endOfFrame(line, found.end);
    const position = positionOf(line, { found, before: addresses[place - 1], frameEnd });
    return { address: found.address, line: index, textStart: frameEnd, position };
  });
}

function positionOf(
  line: string,
  {
    found,
    before,
    frameEnd,
  }: { found: FoundAddress; before: FoundAddress | undefined; frameEnd: number },
): Position {
  const from = before?.end ?? 0;
  const end = startOfFrame(line, found.start, from);
  if (end === 0) {
    return frameEnd === line.length || ':;,'.includes(line[frameEnd] ?? '') ? 'named' : 'leading';
  }
  // The address directly follows another one.
  if (end === from) return 'mentioned';
  const words = line.slice(Math.max(from, end - WORDS_CHARS_MAX), end).toLowerCase();
  if (RECIPIENT_PHRASES.some((phrase) => words.endsWith(phrase))) return 'named';
  // A reply like `550 <jo@acme.test>... User unknown`, also after an arrow.
  const isReply =
    from === 0 && /^[\s<>]*[45]\d\d[\s-]+(?:[45]\.\d+\.\d+\s*)?$/.test(line.slice(0, end));
  return isReply ? 'dialogue' : 'mentioned';
}

function startOfFrame(line: string, start: number, from: number): number {
  let at = start;
  while (at > from && FRAME_BEFORE.test(line[at - 1]!)) at -= 1;
  return at;
}

function endOfFrame(line: string, end: number): number {
  FRAME_BEHIND.lastIndex = end;
  return end + (FRAME_BEHIND.exec(line)?.[0].length ?? 0);
}

function diagnosticOf(
  lines: readonly string[],
  { line, textStart }: Candidate,
  starts: ReadonlySet<number>,
): string {
  const words = [(lines[line] ?? '').slice(textStart).replace(/^[:;,.\s]+/, '')];
  let paragraphs = 0;
  for (let at = line + 1; at < lines.length && at <= line + DIAGNOSTIC_LINES_MAX; at += 1) {
    const text = (lines[at] ?? '').trim();
    if (starts.has(at) || /^-{3,}/.test(text)) break;
    if (text === '' && words.some((word) => word !== '')) paragraphs += 1;
    if (paragraphs >= PARAGRAPHS_MAX) break;
    if (text !== '') words.push(text);
  }
  return words.join(' ').slice(0, DIAGNOSTIC_CHARS_MAX).replace(/\s+/g, ' ').trim();
}

export type FoundAddress = { address: string; start: number; end: number };

export function addressesIn(text: string): FoundAddress[] {
  const addresses: FoundAddress[] = [];
  const hasQuotes = text.includes(QUOTE);
  let last = 0;
  for (let at = text.indexOf('@'); at !== -1; at = text.indexOf('@', Math.max(at + 1, last))) {
    const quoted = hasQuotes ? quotedAround(text, at, last) : null;
    const start = quoted?.start ?? startOfLocal(text, at, last);
    const end = endOfDomain(text, quoted?.at ?? at);
    if (end === null || start === null) continue;
    last = end;
    const address = cleanAddress(text.slice(start, end));
    if (address !== '') addresses.push({ address, start, end });
    if (addresses.length >= ADDRESSES_MAX) break;
  }
  return addresses;
}

/** Returns the first address of a field: `rfc822; <jo@acme.test>`, `utf-8; ...` (RFC 6533 §3). */
export function addressIn(value: string): string | null {
  const text = value
    .slice(0, FIELD_CHARS_MAX)
    .replace(/\\x\{([0-9a-f]{1,6})\}/gi, (escaped, hex: string) => {
      const codePoint = Number.parseInt(hex, 16);
      const isAllowed = ESCAPED_ASCII.has(codePoint) || codePoint > 0x7f;
      return isAllowed && codePoint <= 0x10ffff ? String.fromCodePoint(codePoint) : escaped;
    });
  const [first] = addressesIn(text);
  return first?.address ?? null;
}

function startOfLocal(text: string, at: number, from: number): number | null {
  const least = Math.max(from, at - LOCAL_CHARS_MAX);
  let start = at;
  while (start > least && isInSet(LOCAL, text, start - 1)) start -= 1;
  return start === at ? null : start;
}

/** Returns a quoted local part that precedes or contains this `@`, and the `@` after it. */
function quotedAround(
  text: string,
  at: number,
  from: number,
): { start: number; at: number } | null {
  const isBehind = text[at - 1] === QUOTE;
  const inner = isBehind ? at - 1 : at;
  const least = Math.max(from, inner - QUOTED_CHARS_MAX - 1);
  const open = text.slice(least, inner).lastIndexOf(QUOTE) + least;
  if (open < least) return null;
  const close = text.slice(inner, open + QUOTED_CHARS_MAX + 2).indexOf(QUOTE) + inner;
  const isWhole = close >= inner && close > open + 1 && text[close + 1] === '@';
  if (!isWhole || /[\r\n]/.test(text.slice(open, close))) return null;
  return endOfDomain(text, close + 1) === null ? null : { start: open, at: close + 1 };
}

function endOfDomain(text: string, at: number): number | null {
  if (!isInSet(DOMAIN_BEGINNING, text, at + 1)) return null;
  const most = Math.min(text.length, at + 1 + DOMAIN_CHARS_MAX);
  let end = at + 2;
  while (end < most && isInSet(DOMAIN, text, end)) end += 1;
  while (end > at + 2 && !isInSet(ALPHANUMERIC, text, end - 1)) end -= 1;
  return end;
}

function isInSet(set: number, text: string, at: number): boolean {
  const code = text.charCodeAt(at);
  // NaN, the code after the end, is in no set.
  return code < 128 ? (SETS[code]! & set) !== 0 : code >= 128;
}

/** Removes quotes, and the `=` of an adjacent field. */
function cleanAddress(address: string): string {
  return address.replace(/^(?:mailto:|['`=]+)/i, '').replace(/^@.*/, '');
}
