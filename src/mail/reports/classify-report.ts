/**
 * What a report says about a recipient, classified by the rules for replies (replies/rules.ts): a
 * report is a reply that arrives later and through other servers. Where it quotes no reply, what the
 * mail system says by itself is compared with report-rules.ts first.
 *
 * The same caution holds as there: only a permanent refusal that is recognised as being about the mailbox
 * itself suppresses. What was said before the recipient was named (greeting, HELO, MAIL) is never about
 * the mailbox, and a delay is never permanent.
 */
import { meaningOf } from '../replies/classify.ts';
import { type Answer, ruleAmong } from '../replies/match.ts';
import { MEANINGS, type MeaningName, type Verdict, verdictOf } from '../replies/meanings.ts';
import { RULES } from '../replies/rules.ts';
import type { SmtpPhase, SmtpReply } from '../replies/smtp-reply.ts';
import { REPORT_RULES } from './report-rules.ts';

type Reported = {
  /** The most certain to be about this recipient first; '' for none. */
  texts: readonly string[];
  /** What the report says by itself, or null. */
  status: string | null;
  isDelay: boolean;
};

export type Classified = {
  verdict: Verdict;
  /** `5.1.1`, or null. */
  status: string | null;
  /** Of the reply that decided, or null: no server answered. */
  code: number | null;
};

const TEXT_CHARS_MAX = 4_000;
const REPLIES_MAX = 12;

export function classifyReported({ texts, status, isDelay }: Reported): Classified {
  const said = texts.filter((text) => text !== '').map((text) => text.slice(0, TEXT_CHARS_MAX));
  const { means, saidPermanent, ...rest } = readFirstKnown(said, status) ?? readCode(said, status);
  return { verdict: verdictOf(means, { saidPermanent: saidPermanent && !isDelay }), ...rest };
}

type Reading = Pick<Classified, 'status' | 'code'> & {
  means: MeaningName;
  saidPermanent: boolean;
};

function readFirstKnown(texts: readonly string[], status: string | null): Reading | null {
  for (const text of texts) {
    const reading = readText(text, status);
    if (reading !== null) return reading;
  }
  return null;
}

/** Null when no rule knows the words. */
function readText(text: string, status: string | null): Reading | null {
  const replies = repliesIn(text);
  if (replies.length === 0) return readOwnWords(text, status);
  for (const { reply, phase } of replies) {
    const enhancedCode = reply.enhancedCode ?? ofSameClass(status, reply.code);
    const reading = readReply({ phase, reply: { ...reply, enhancedCode } });
    if (reading !== null) return reading;
  }
  return null;
}

function ofSameClass(status: string | null, code: number): string | null {
  return status !== null && status.startsWith(`${Math.trunc(code / 100)}.`) ? status : null;
}

/** These replies follow from an earlier one, and mean nothing by themselves. */
const FOLLOWS_FROM_ANOTHER: ReadonlySet<MeaningName> = new Set([
  'too_many_recipients',
  'not_understood',
]);

function readReply(answer: Answer): Reading | null {
  const rule = ruleAmong(RULES, answer);
  if (rule === undefined || FOLLOWS_FROM_ANOTHER.has(rule.means)) return null;
  return readingOf(rule.means, answer.reply);
}

/** Any 5xx, a 552 to RCPT as well: the server that reports it has given up. */
function readingOf(means: MeaningName, { code, enhancedCode }: SmtpReply): Reading {
  return { means, saidPermanent: code >= 500, status: enhancedCode, code };
}

function readOwnWords(text: string, status: string | null): Reading | null {
  const enhancedCode = codeIn(text) ?? status;
  const reply = { code: codeOf(enhancedCode), enhancedCode, message: text };
  const own = ruleAmong(REPORT_RULES, { phase: 'rcpt', reply });
  const reading =
    own === undefined ? readReply({ phase: phaseIn(text), reply }) : readRule(own.means, reply);
  return reading && { ...reading, code: null };
}

/** Of a failure of the network, or after trying for too long, the next attempt may succeed. */
function readRule(means: MeaningName, reply: SmtpReply): Reading {
  const { category } = MEANINGS[means];
  const mayPass = category === 'network' || category === 'expired';
  const reading = readingOf(means, reply);
  return { ...reading, saidPermanent: reading.saidPermanent && !mayPass };
}

/** No rule knows the words: the code decides, wherever it stands. */
function readCode(texts: readonly string[], status: string | null): Reading {
  const [first] = texts.flatMap(repliesIn);
  const enhancedCode =
    first?.reply.enhancedCode ?? status ?? texts.map(codeIn).find((code) => code !== null) ?? null;
  const code = first?.reply.code ?? codeOf(enhancedCode);
  const reply = { code, enhancedCode, message: first?.reply.message ?? '' };
  const means = meaningOf({ phase: first?.phase ?? 'rcpt', reply });
  return { ...readingOf(means, reply), code: first?.reply.code ?? null };
}

function codeOf(enhancedCode: string | null): number {
  return enhancedCode?.startsWith('4') === true ? 450 : 550;
}

const ENHANCED = /(?<![\d.])([45]\.\d{1,3}\.\d{1,3})(?![\d.]*\d)/;

function codeIn(text: string): string | null {
  return ENHANCED.exec(text)?.[1] ?? null;
}

/** Not a number of seconds, a port, a part of an address or of a version. */
const REPLY =
  /(?:^|[\s:;([<>"'=#])([45]\d\d)(?=[\s:;,#<-]|$)(?!\s*(?:sec|min|hour|day|byte|octet|kb|mb|message|recipient))/gi;

/** The replies that the text quotes, in its order. */
function repliesIn(text: string): Answer[] {
  const replies: Answer[] = [];
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
    const reply = { code, enhancedCode: codeIn(message), message: withoutCode(message) };
    replies.push({ reply, phase });
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
