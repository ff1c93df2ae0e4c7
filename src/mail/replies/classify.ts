/**
 * What an answer, or the lack of one, means for the recipient: retry or give up, whose business it
 * is, what to do about it. Pure data behind it: rules.ts (words to meanings) and
 * meanings.ts (meanings to advice).
 *
 * Held whatever the rules say:
 * - Only a 5xx to MAIL, RCPT, DATA or the dot is permanent. Before that the server talks about us,
 *   not about the message, and the next server or a later hour may be kinder.
 * - A 552 to RCPT is temporary (RFC 5321 §4.5.3.1.10: it once meant "too many recipients").
 * - A limit, a greylist or a block for a while passes, also when it is said with a 5xx, as several
 *   providers do: it is tried again, at the pace of the later retries.
 * - Only a permanent answer from RCPT on, recognised as being about the mailbox itself,
 *   suppresses. An unknown 5xx bounces and suppresses nothing; an unknown 4xx is tried again.
 */
import {
  type Blame,
  type Category,
  MEANINGS,
  type Meaning,
  type MeaningName,
  type Rule,
} from './meanings.ts';
import { RULES } from './rules.ts';
import type { SmtpFailureCause, SmtpPhase, SmtpReply } from './smtp-reply.ts';

export type Verdict = {
  /** Whether trying again is pointless. */
  permanent: boolean;
  category: Category;
  blame: Blame;
  /** One sentence: what to do about it. */
  advice: string;
  /** The address belongs on the suppression list, */
  suppress: boolean;
  /** for so many days; for ever when absent. */
  suppressDays?: number;
  /** The provider wants fewer connections from us. */
  slowDown?: true;
  /** To be tried again, but not within minutes: the server said 5xx. */
  retrySlowly?: true;
};

const MESSAGE_PHASES: ReadonlySet<SmtpPhase> = new Set(['mail', 'rcpt', 'data_command', 'data']);
const RECIPIENT_PHASES: ReadonlySet<SmtpPhase> = new Set(['rcpt', 'data_command', 'data']);
const RECIPIENT_CATEGORIES: ReadonlySet<Category> = new Set(['mailbox', 'quota']);

/** Of an answer so much is compared with the rules: what ReplyParser lets through. */
const COMPARED_CHARS_MAX = 2048;

type Prepared = {
  rule: Rule;
  /** One of them has to be there, with all of its parts; null: the words do not matter. */
  phrases: readonly (readonly string[])[] | null;
  subjects: readonly Subjects[] | null;
  isAboutRecipient: boolean;
};

/** Enhanced codes `x.first` to `x.last`, without their class. */
type Subjects = { subject: number; first: number; last: number };

/** Split once: rules are tried on every answer that is not a yes. */
const PREPARED = new WeakMap<readonly Rule[], readonly Prepared[]>();

function preparedOf(rules: readonly Rule[]): readonly Prepared[] {
  const known = PREPARED.get(rules);
  if (known !== undefined) return known;
  const prepared = rules.map((rule) => ({
    rule,
    phrases: rule.text?.split(' | ').map((phrase) => phrase.split(' + ')) ?? null,
    subjects: rule.enhanced?.map(subjectsOf) ?? null,
    isAboutRecipient: RECIPIENT_CATEGORIES.has(MEANINGS[rule.means].category),
  }));
  PREPARED.set(rules, prepared);
  return prepared;
}

function subjectsOf(pattern: string): Subjects {
  const [subject = '', detail = ''] = pattern.split('.');
  const [first = '', last = first] = detail === '*' ? ['0', '999'] : detail.split('-');
  return { subject: Number(subject), first: Number(first), last: Number(last) };
}

type Answer = { phase: SmtpPhase; reply: SmtpReply };

/** What a reply of 400 or more means. */
export function classifyReply(answer: Answer): Verdict {
  return verdictOn(answer, meaningOf(answer));
}

/** What a reply asks for when this is what it means. */
export function verdictOn({ phase, reply }: Answer, name: MeaningName): Verdict {
  const meaning: Meaning = MEANINGS[name];
  const refused =
    reply.code >= 500 && MESSAGE_PHASES.has(phase) && !(reply.code === 552 && phase === 'rcpt');
  const permanent = refused && meaning.passes !== true;
  const suppress = permanent && meaning.suppress === true && RECIPIENT_PHASES.has(phase);
  return {
    permanent,
    category: meaning.category,
    blame: meaning.blame,
    advice: meaning.advice,
    suppress,
    ...(suppress && meaning.suppressDays !== undefined
      ? { suppressDays: meaning.suppressDays }
      : {}),
    ...(asksForLess(reply, meaning) ? { slowDown: true } : {}),
    ...(refused && !permanent ? { retrySlowly: true } : {}),
  };
}

/** The name of what a reply of 400 or more means. */
export function meaningOf(answer: Answer): MeaningName {
  return ruleFor(answer)?.means ?? unknown(answer);
}

/** The rule that recognises an answer, or undefined. */
export function ruleFor(answer: Answer): Rule | undefined {
  return ruleAmong(RULES, answer);
}

/** The first of these rules that recognises an answer, or undefined. */
export function ruleAmong(rules: readonly Rule[], { phase, reply }: Answer): Rule | undefined {
  const text = matchable(reply.message);
  const isAboutRecipient = RECIPIENT_PHASES.has(phase);
  const key = `${isAboutRecipient} ${reply.code} ${reply.enhancedCode} ${text}`;
  const known = remembered(rules);
  const before = known.get(key);
  if (before !== undefined) return before ?? undefined;
  const [, subject, detail] = reply.enhancedCode?.split('.').map(Number) ?? [];
  const found = preparedOf(rules).find(
    (prepared) =>
      (isAboutRecipient || !prepared.isAboutRecipient) &&
      (prepared.rule.codes === undefined || prepared.rule.codes.includes(reply.code)) &&
      (prepared.subjects === null ||
        prepared.subjects.some((among) => isAmong(among, subject, detail))) &&
      (prepared.phrases === null || prepared.phrases.some((parts) => hasAll(text, parts))),
  )?.rule;
  if (key.length <= REMEMBERED_CHARS_MAX) known.set(key, found ?? null);
  return found;
}

/**
 * What was recognised lately: a provider with an outage sends one reply thousands of times, and comparing
 * it with every phrase is most of what reading a bounce costs. Null: no rule.
 */
const REMEMBERED = new WeakMap<readonly Rule[], Map<string, Rule | null>>();
const REMEMBERED_MAX = 2_000;
const REMEMBERED_CHARS_MAX = 600;

function remembered(rules: readonly Rule[]): Map<string, Rule | null> {
  let known = REMEMBERED.get(rules);
  if (known === undefined || known.size >= REMEMBERED_MAX) {
    known = new Map();
    REMEMBERED.set(rules, known);
  }
  return known;
}

function hasAll(text: string, parts: readonly string[]): boolean {
  for (const part of parts) if (!text.includes(part)) return false;
  return true;
}

function isAmong(among: Subjects, subject: number | undefined, detail = -1): boolean {
  return subject === among.subject && detail >= among.first && detail <= among.last;
}

/** What silence, a lost connection or nonsense means: always to be tried again. */
export function classifyFailure(failure: {
  phase: SmtpPhase;
  cause: SmtpFailureCause;
  inDoubt?: boolean;
}): Verdict {
  const { category, blame, advice } = MEANINGS[meaningOfFailure(failure)];
  return { permanent: false, category, blame, advice, suppress: false };
}

const MEANING_OF_CAUSE: Readonly<Record<SmtpFailureCause, MeaningName>> = {
  unreachable: 'unreachable',
  timeout: 'fell_silent',
  closed: 'fell_silent',
  garbage: 'spoke_nonsense',
  tls: 'no_tls',
  withheld: 'taken_over',
};

function meaningOfFailure(failure: {
  phase: SmtpPhase;
  cause: SmtpFailureCause;
  inDoubt?: boolean;
}): MeaningName {
  if (failure.inDoubt === true) return 'lost_in_doubt';
  return failure.phase === 'connect' ? 'unreachable' : MEANING_OF_CAUSE[failure.cause];
}

function unknown({ phase, reply }: Answer): MeaningName {
  if (phase === 'auth') return 'login_refused';
  if (!MESSAGE_PHASES.has(phase) && reply.code >= 500) return 'session_refused';
  return reply.code >= 500 ? 'unknown_permanent' : 'unknown_temporary';
}

/** Greylisting asks for a later attempt, not for fewer connections. */
function asksForLess(reply: SmtpReply, meaning: Meaning): boolean {
  if (meaning.slowDown === true || reply.code === 421) return true;
  return (
    reply.code < 500 &&
    reply.enhancedCode?.startsWith('4.7.') === true &&
    meaning.category !== 'greylist'
  );
}

/**
 * The words of an answer for comparing: one line in lower case, without the addresses it quotes
 * (`no-such-user@acme.test` says nothing about the mailbox). `^` marks where it begins.
 */
function matchable(message: string): string {
  const words = message.slice(0, COMPARED_CHARS_MAX).toLowerCase().split(/\s/);
  return `^${words.filter((word) => word !== '' && !word.includes('@')).join(' ')}`;
}
