/**
 * Reports in words only: who did not get the message, and what is said about each.
 *
 * Not one reader for each mail system: they come and go, and most have copied one another. What
 * they share is how a recipient stands on a line: alone, in front of a colon (Exim, qmail,
 * Sendmail, Courier, Yahoo, ...), or behind words that announce it (DragonFly, Domino, MailMarshal,
 * KDDI, ...). The best kind that occurs decides; all of that kind are recipients.
 */
import { addressesIn, type Found } from './bounce-address.ts';
import { FIELDS_OF_THE_MESSAGE, WORDS_BEFORE_RECIPIENT } from './bounce-words.ts';

/** What follows an address, up to the next one, is said about it. */
export type TextClaim = { recipient: string; diagnostic: string };

const RECIPIENTS_MAX = 100;
const DIAGNOSTIC_LINES_MAX = 24;
const PARAGRAPHS_MAX = 3;

/** How an address stands on its line, from the best on. */
const KINDS = ['named', 'leading', 'dialogue', 'mentioned'] as const;
type Kind = (typeof KINDS)[number];

type Candidate = { address: string; line: number; rest: string; kind: Kind };

/**
 * @param notRecipients who sent the message and who reports, in lower case
 * @param known addresses that did fail, by the report's own header; then only these
 */
export function readTextClaims(
  lines: readonly string[],
  { notRecipients, known }: { notRecipients: ReadonlySet<string>; known: readonly string[] },
): TextClaim[] {
  const candidates = lines.flatMap((line, index) => candidatesOn(line, index));
  const isKnown = new Set(known.map((address) => address.toLowerCase()));
  const chosen =
    known.length > 0
      ? candidates.filter(({ address }) => isKnown.has(address.toLowerCase()))
      : ofBestKind(candidates.filter(({ address }) => !notRecipients.has(address.toLowerCase())));
  const named = new Map<string, Candidate>();
  for (const candidate of chosen) {
    const key = candidate.address.toLowerCase();
    const before = named.get(key);
    if (before === undefined || isBetter(candidate, before)) named.set(key, candidate);
  }
  const starts = new Set(Array.from(named.values(), ({ line }) => line));
  const claims = Array.from(named.values(), (candidate) => ({
    recipient: candidate.address,
    diagnostic: diagnosticOf(lines, candidate, starts),
  }));
  return known.length > 0 ? ofKnown(claims, known) : claims.slice(0, RECIPIENTS_MAX);
}

function ofKnown(claims: readonly TextClaim[], known: readonly string[]): TextClaim[] {
  return known.slice(0, RECIPIENTS_MAX).map((recipient) => {
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

function candidatesOn(line: string, index: number): Candidate[] {
  const found = addressesIn(line);
  if (found.length === 0 || FIELDS_OF_THE_MESSAGE.test(line)) return [];
  return found.map((one, place) => {
    const kind = kindOf(line, one, place === 0);
    return { address: one.address, line: index, rest: restOf(line, one), kind };
  });
}

/** What may stand around an address without saying anything. */
const FRAME_BEFORE = /[\s<>("'*\u2022[|-]*$/;
const REST_OF_FRAME = /^[\s>)"'\]]*(?:<mailto:[^>]*>)?[\s>)"'\]]*/;

function kindOf(line: string, { start, end }: Found, isFirst: boolean): Kind {
  const before = line.slice(0, start).replace(FRAME_BEFORE, '').toLowerCase();
  const after = line.slice(end).replace(REST_OF_FRAME, '');
  if (before.trim() === '' && isFirst) {
    return after === '' || /^[:;,]/.test(after) ? 'named' : 'leading';
  }
  if (WORDS_BEFORE_RECIPIENT.some((words) => before.endsWith(words))) return 'named';
  // `550 <jo@acme.test>... User unknown`, also behind an arrow.
  return /^[\s<>]*[45]\d\d[\s-]+(?:[45]\.\d+\.\d+\s*)?$/.test(before) ? 'dialogue' : 'mentioned';
}

function restOf(line: string, { end }: Found): string {
  return line
    .slice(end)
    .replace(REST_OF_FRAME, '')
    .replace(/^[:;,.\s]+/, '');
}

function diagnosticOf(
  lines: readonly string[],
  { line, rest }: Candidate,
  starts: ReadonlySet<number>,
): string {
  const words = [rest];
  let paragraphs = 0;
  for (let at = line + 1; at < lines.length && at <= line + DIAGNOSTIC_LINES_MAX; at += 1) {
    const text = (lines[at] ?? '').trim();
    if (starts.has(at) || /^-{3,}/.test(text)) break;
    if (text === '' && words.some((word) => word !== '')) paragraphs += 1;
    if (paragraphs >= PARAGRAPHS_MAX) break;
    if (text !== '') words.push(text);
  }
  return words.join(' ').replace(/\s+/g, ' ').trim();
}
