/**
 * Reports in words only: who did not get the message, and what is said about each.
 *
 * Not one reader for each mail system: they come and go, and most have copied one another. What
 * they share is how a recipient stands on a line: alone, in front of a colon (Exim, qmail,
 * Sendmail, Courier, Yahoo, ...), or behind words that announce it (DragonFly, Domino, MailMarshal,
 * KDDI, ...). The best kind that occurs decides; all of that kind are recipients.
 *
 * Linear, whatever is written: of each address only what stands next to it is looked at, and only so
 * many addresses and recipients count.
 */
import { addressesIn, type Found } from './address.ts';
import { FIELDS_OF_THE_MESSAGE, WORDS_BEFORE_RECIPIENT } from './words.ts';

/** What follows an address, up to the next one, is said about it. */
export type TextClaim = { recipient: string; diagnostic: string };

/** More than that a report about one email does not name. */
export const RECIPIENTS_MAX = 20;
const CANDIDATES_MAX = 500;
const DIAGNOSTIC_LINES_MAX = 24;
const DIAGNOSTIC_CHARS_MAX = 4_000;
const PARAGRAPHS_MAX = 3;

/** How an address stands on its line, from the best on. */
const KINDS = ['named', 'leading', 'dialogue', 'mentioned'] as const;
type Kind = (typeof KINDS)[number];

/** `rest`: where what is said behind it begins on its line. */
type Candidate = { address: string; line: number; rest: number; kind: Kind };

/**
 * @param notRecipients who sent the message and who reports, in lower case
 * @param known addresses that did fail, by the report's own header; then only these
 */
export function readTextClaims(
  lines: readonly string[],
  { notRecipients, known }: { notRecipients: ReadonlySet<string>; known: readonly string[] },
): TextClaim[] {
  const candidates = candidatesIn(lines);
  const failed = known.slice(0, RECIPIENTS_MAX);
  const isFailed = new Set(failed.map((address) => address.toLowerCase()));
  const chosen =
    failed.length > 0
      ? candidates.filter(({ address }) => isFailed.has(address.toLowerCase()))
      : ofBestKind(candidates.filter(({ address }) => !notRecipients.has(address.toLowerCase())));
  const named = new Map<string, Candidate>();
  for (const candidate of chosen) {
    const key = candidate.address.toLowerCase();
    const before = named.get(key);
    if (before === undefined || isBetter(candidate, before)) named.set(key, candidate);
  }
  const starts = new Set(Array.from(named.values(), ({ line }) => line));
  const claims = [...named.values()].slice(0, RECIPIENTS_MAX).map((candidate) => ({
    recipient: candidate.address,
    diagnostic: diagnosticOf(lines, candidate, starts),
  }));
  return failed.length > 0 ? ofKnown(claims, failed) : claims;
}

function ofKnown(claims: readonly TextClaim[], known: readonly string[]): TextClaim[] {
  return known.map((recipient) => {
    const key = recipient.toLowerCase();
    const claim = claims.find((one) => one.recipient.toLowerCase() === key);
    return { recipient, diagnostic: claim?.diagnostic ?? '' };
  });
}

function ofBestKind(candidates: readonly Candidate[]): readonly Candidate[] {
  const best = KINDS.find((kind) => candidates.some((candidate) => candidate.kind === kind));
  const chosen = candidates.filter(({ kind }) => kind === best);
  // An address somewhere in a sentence is a guess; more than one is none.
  const addresses = new Set(chosen.map(({ address }) => address.toLowerCase()));
  return best === 'mentioned' && addresses.size > 1 ? [] : chosen;
}

function isBetter(candidate: Candidate, before: Candidate): boolean {
  return KINDS.indexOf(candidate.kind) < KINDS.indexOf(before.kind);
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
  const found = addressesIn(line);
  if (found.length === 0 || FIELDS_OF_THE_MESSAGE.test(line)) return [];
  return found.map((one, place) => {
    const frameEnd = endOfFrame(line, one.end);
    const kind = kindOf(line, { found: one, before: found[place - 1], frameEnd });
    return { address: one.address, line: index, rest: frameEnd, kind };
  });
}

/** What may stand around an address without saying anything. */
const OF_FRAME_BEFORE = /[\s<>("'*\u2022[|-]/;
const FRAME_BEHIND = /[\s>)"'\]]*(?:<mailto:[^>]*>)?[\s>)"'\]]*/y;
/** More than the longest of WORDS_BEFORE_RECIPIENT. */
const WORDS_CHARS_MAX = 60;

/** @param before the address in front of it on the same line */
function kindOf(
  line: string,
  { found, before, frameEnd }: { found: Found; before: Found | undefined; frameEnd: number },
): Kind {
  const from = before?.end ?? 0;
  const end = startOfFrame(line, found.start, from);
  if (end === 0) {
    return frameEnd === line.length || ':;,'.includes(line[frameEnd] ?? '') ? 'named' : 'leading';
  }
  // Behind another address and nothing else.
  if (end === from) return 'mentioned';
  const words = line.slice(Math.max(from, end - WORDS_CHARS_MAX), end).toLowerCase();
  if (WORDS_BEFORE_RECIPIENT.some((one) => words.endsWith(one))) return 'named';
  // `550 <jo@acme.test>... User unknown`, also behind an arrow.
  const isReply =
    from === 0 && /^[\s<>]*[45]\d\d[\s-]+(?:[45]\.\d+\.\d+\s*)?$/.test(line.slice(0, end));
  return isReply ? 'dialogue' : 'mentioned';
}

function startOfFrame(line: string, start: number, from: number): number {
  let at = start;
  while (at > from && OF_FRAME_BEFORE.test(line[at - 1]!)) at -= 1;
  return at;
}

function endOfFrame(line: string, end: number): number {
  FRAME_BEHIND.lastIndex = end;
  return end + (FRAME_BEHIND.exec(line)?.[0].length ?? 0);
}

function diagnosticOf(
  lines: readonly string[],
  { line, rest }: Candidate,
  starts: ReadonlySet<number>,
): string {
  const words = [(lines[line] ?? '').slice(rest).replace(/^[:;,.\s]+/, '')];
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
