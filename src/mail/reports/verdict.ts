/**
 * What a report says about a recipient, classified by the rules for replies (replies/classify.ts): a
 * report is a reply that arrives later and through other servers.
 *
 * The same caution holds as there: only a permanent refusal that is recognised as being about the mailbox
 * itself suppresses. What was said before the recipient was named (greeting, HELO, MAIL) is never about
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

type Said = {
  /** The most certain to be about this recipient first; '' for none. */
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
  const replies = repliesIn(text);
  if (replies.length === 0) return judgeOwnWords(text, status);
  for (const { reply, phase } of replies) {
    const enhancedCode = reply.enhancedCode ?? ofSameClass(status, reply.code);
    const judged = judgeReply({
      phase: lastPhase(reply.code, phase),
      reply: { ...reply, enhancedCode },
    });
    if (judged !== null) return judged;
  }
  return null;
}

/** A 552 to RCPT is temporary (RFC 5321 §4.5.3.1.10), but the server that reports it has given up. */
function lastPhase(code: number, phase: SmtpPhase): SmtpPhase {
  return code === 552 && phase === 'rcpt' ? 'data' : phase;
}

/** These replies follow from an earlier one, and mean nothing by themselves. */
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

/** Without a code the words decide whether it is permanent: a network failure is not. */
function judgeMeaning(name: MeaningName, status: string | null): Judged {
  const meaning = MEANINGS[name];
  const { category, blame, advice } = meaning;
  const isPermanent = status?.startsWith('4') !== true && !('passes' in meaning);
  const permanent = isPermanent && category !== 'network' && category !== 'expired';
  const suppress = permanent && 'suppress' in meaning;
  const days = suppress && 'suppressDays' in meaning ? { suppressDays: meaning.suppressDays } : {};
  return { verdict: { permanent, category, blame, advice, suppress, ...days }, status, code: null };
}

/** No rule knows the words: the code decides, wherever it stands. */
function judgeByCode(texts: readonly string[], status: string | null): Judged {
  const [first] = texts.flatMap(repliesIn);
  const enhancedCode =
    first?.reply.enhancedCode ?? status ?? texts.map(codeIn).find((code) => code !== null) ?? null;
  const code = first?.reply.code ?? codeOf(enhancedCode);
  const reply = { code, enhancedCode, message: first?.reply.message ?? '' };
  const verdict = classifyReply({ phase: lastPhase(code, first?.phase ?? 'rcpt'), reply });
  return { verdict, status: enhancedCode, code: first?.reply.code ?? null };
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

type QuotedReply = { reply: SmtpReply; phase: SmtpPhase };

/** The replies that the text quotes, in its order. */
function repliesIn(text: string): QuotedReply[] {
  const replies: QuotedReply[] = [];
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
    replies.push({
      reply: { code, enhancedCode, message: withoutCode(message) },
      phase,
    });
  }
  return replies;
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

/** The command that the server answered, as far as the report says. */
function phaseIn(text: string): SmtpPhase {
  return PHASES.find(([, pattern]) => pattern.test(text))?.[0] ?? 'rcpt';
}
