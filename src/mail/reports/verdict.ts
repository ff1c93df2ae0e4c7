/**
 * What a report's words mean for its recipient, by the rules for replies (classify.ts): a report is
 * a reply that comes late and by way of others.
 *
 * Careful as there: only a permanent refusal that is recognised as being about the mailbox itself
 * suppresses. What was said before the recipient was named (greeting, HELO, MAIL) is never about
 * the mailbox, and a delay is never permanent.
 */
import { classifyReply, ruleAmong, type Verdict, verdictOn } from '../replies/classify.ts';
import { MEANINGS, type MeaningName } from '../replies/meanings.ts';
import { REPORTED } from '../replies/reported.ts';
import { RULES } from '../replies/rules.ts';
import type { SmtpPhase, SmtpReply } from '../replies/smtp-reply.ts';

export type Judged = {
  verdict: Verdict;
  /** `5.1.1`, or null. */
  status: string | null;
  /** Of the reply that decided, or null: no server answered. */
  code: number | null;
};

export type Said = {
  /** From the most to the least certain to be about this recipient; '' where nothing was said. */
  texts: readonly string[];
  /** What the report says by itself, or null. */
  status: string | null;
  isDelay: boolean;
};

const TEXT_CHARS_MAX = 4_000;
const REPLIES_MAX = 12;

export function judge(said: Said): Judged {
  const texts = said.texts
    .filter((text) => text !== '')
    .map((text) => text.slice(0, TEXT_CHARS_MAX));
  for (const text of texts) {
    const judged = judgeText(text, said.status);
    if (judged !== null) return asReported(judged, said);
  }
  return asReported(judgeByCode(texts, said.status), said);
}

function asReported({ verdict, ...rest }: Judged, { isDelay }: Said): Judged {
  if (!isDelay) return { verdict, ...rest };
  const { category, blame, advice } = verdict;
  return { verdict: { permanent: false, suppress: false, category, blame, advice }, ...rest };
}

/** Null when no rule knows the words. */
function judgeText(text: string, status: string | null): Judged | null {
  const heard = repliesIn(text);
  if (heard.length === 0) return judgeOwnWords(text, status);
  for (const { reply, phase } of heard) {
    const enhancedCode = reply.enhancedCode ?? ofSameClass(status, reply.code);
    const judged = judgeReply({
      phase: lastPhase(reply.code, phase),
      reply: { ...reply, enhancedCode },
    });
    if (judged !== null) return judged;
  }
  return null;
}

/** To RCPT a 552 asks for another try; in a report whoever could try has given up. */
function lastPhase(code: number, phase: SmtpPhase): SmtpPhase {
  return code === 552 && phase === 'rcpt' ? 'data' : phase;
}

/** A refusal of every recipient follows from others; it says nothing by itself. */
const FOLLOWS_FROM_ANOTHER: ReadonlySet<MeaningName> = new Set([
  'too_many_recipients',
  'not_understood',
]);

function judgeReply(answer: { phase: SmtpPhase; reply: SmtpReply }): Judged | null {
  const rule = ruleAmong(RULES, answer);
  if (rule === undefined || FOLLOWS_FROM_ANOTHER.has(rule.means)) return null;
  const { code, enhancedCode } = answer.reply;
  return { verdict: verdictOn(answer, rule.means), status: enhancedCode, code };
}

function judgeOwnWords(text: string, status: string | null): Judged | null {
  const enhancedCode = codeIn(text) ?? status;
  const reply = { code: codeOf(enhancedCode), enhancedCode, message: text };
  const own = ruleAmong(REPORTED, { phase: 'rcpt', reply });
  if (own !== undefined) return judgeMeaning(own.means, enhancedCode);
  const judged = judgeReply({ phase: phaseIn(text), reply });
  return judged === null ? null : { ...judged, code: null };
}

/** Without a code the words decide whether it was for good: not where a network was in the way. */
function judgeMeaning(name: MeaningName, status: string | null): Judged {
  const meaning = MEANINGS[name];
  const { category, blame, advice } = meaning;
  const isForGood = status?.startsWith('4') !== true && !('passes' in meaning);
  const permanent = isForGood && category !== 'network' && category !== 'expired';
  const suppress = permanent && 'suppress' in meaning;
  const days = suppress && 'suppressDays' in meaning ? { suppressDays: meaning.suppressDays } : {};
  return { verdict: { permanent, category, blame, advice, suppress, ...days }, status, code: null };
}

/** Nobody knows the words: the code, from wherever it comes. */
function judgeByCode(texts: readonly string[], status: string | null): Judged {
  const [heard] = texts.flatMap(repliesIn);
  const enhancedCode =
    heard?.reply.enhancedCode ?? status ?? texts.map(codeIn).find((code) => code !== null) ?? null;
  const code = heard?.reply.code ?? codeOf(enhancedCode);
  const reply = { code, enhancedCode, message: heard?.reply.message ?? '' };
  const verdict = classifyReply({ phase: lastPhase(code, heard?.phase ?? 'rcpt'), reply });
  return { verdict, status: enhancedCode, code: heard?.reply.code ?? null };
}

function codeOf(enhancedCode: string | null): number {
  return enhancedCode?.startsWith('4') === true ? 450 : 550;
}

function ofSameClass(status: string | null, code: number): string | null {
  return status !== null && status.startsWith(`${Math.trunc(code / 100)}.`) ? status : null;
}

const ENHANCED = /(?<![\d.])([45]\.\d{1,3}\.\d{1,3})(?![\d.]*\d)/;

function codeIn(text: string): string | null {
  return ENHANCED.exec(text)?.[1] ?? null;
}

/** Not a number of seconds, a port, a part of an address or of a version. */
const REPLY =
  /(?:^|[\s:;([<>"'=#])([45]\d\d)(?=[\s:;,#<-]|$)(?!\s*(?:sec|min|hour|day|byte|octet|kb|mb|message|recipient))/gi;

type Heard = { reply: SmtpReply; phase: SmtpPhase };

/** What servers answered, in the order in which it is told. */
function repliesIn(text: string): Heard[] {
  const heard: Heard[] = [];
  const phase = phaseIn(text);
  const starts = Array.from(text.matchAll(REPLY)).slice(0, REPLIES_MAX);
  for (const [index, match] of starts.entries()) {
    const start = match.index + match[0].length;
    const code = Number(match[1]);
    // A reply of several lines repeats its code.
    let next = index + 1;
    while (Number(starts[next]?.[1]) === code && isContinued(text, starts[next - 1]!)) next += 1;
    const end = starts[next]?.index ?? text.length;
    const message = text.slice(start, end).replace(new RegExp(`\\b${code}-`, 'g'), ' ');
    const enhancedCode = codeIn(message);
    heard.push({
      reply: { code, enhancedCode, message: withoutCode(message) },
      phase,
    });
  }
  return heard;
}

function isContinued(text: string, match: RegExpExecArray): boolean {
  return text[match.index + match[0].length] === '-';
}

function withoutCode(message: string): string {
  return message
    .replace(/(?<![\d.])[45]\.\d{1,3}\.\d{1,3}(?![\d.]*\d)/g, ' ')
    .replace(/^[\s:;,#-]+(?=[\w<])/, '')
    .trim();
}

const PHASES: readonly [SmtpPhase, RegExp][] = [
  [
    'data',
    /end of (?:data|message|mail)|end-of-data|after (?:i sent|sending) (?:the )?(?:data|message)/i,
  ],
  ['data', /(?:to|after|following|our) data\b|data command|after pipelined data|message body/i],
  [
    'mail',
    /(?:to|after|following|our|pipelined) mail\b|mail from command|like sender|sender was rejected/i,
  ],
  ['mail', /initial connection|greeting|\b(?:helo|ehlo)\b|refused to talk to (?:me|us)/i],
];

/** What the server answered to, as far as the report says. */
function phaseIn(text: string): SmtpPhase {
  return PHASES.find(([, pattern]) => pattern.test(text))?.[0] ?? 'rcpt';
}
