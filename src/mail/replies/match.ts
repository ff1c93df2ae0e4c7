/**
 * The form of a rule, and whether it recognises an answer. The rules are in rules.ts and, for the words of
 * reports, in reports/classify-report.ts.
 *
 * A rule about the mailbox is not compared with what was said before RCPT: there the server speaks of the
 * session or the sender, and its answer must not cost the recipient anything.
 */
import { type Category, MEANINGS, type MeaningName } from './meanings.ts';
import type { SmtpPhase, SmtpReply } from './smtp-reply.ts';

/** All that is given has to fit: `enhanced`, `codes` and `text`. */
export type Rule = {
  means: MeaningName;
  /**
   * Enhanced codes without their class: `1.1` is 5.1.1 and 4.1.1, `7.606-649` a range, `7.*` a
   * whole subject.
   */
  enhanced?: readonly string[];
  codes?: readonly number[];
  /**
   * Phrases separated by ` | `, one of which is in the text; `a + b` is there when both are, `^a`
   * when the text begins with it. Lower case, single spaces, without the words that hold an `@`. No
   * patterns: the text is a stranger's, and this is linear.
   */
  text?: string;
  /** An answer that the rule recognises and no rule before it; rules.test.ts runs every one. */
  example: string;
  /** What the example answers; RCPT when absent. */
  phase?: SmtpPhase;
};

/** A reply of 400 or more, and what it answered. */
export type Answer = { phase: SmtpPhase; reply: SmtpReply };

const RECIPIENT_PHASES: ReadonlySet<SmtpPhase> = new Set(['rcpt', 'data_command', 'data']);
const RECIPIENT_CATEGORIES: ReadonlySet<Category> = new Set(['mailbox', 'quota']);

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

/** Of an answer so much is compared with the rules: what ReplyParser lets through. */
const COMPARED_CHARS_MAX = 2048;

/**
 * The words of an answer for comparing: one line in lower case, without the addresses it quotes
 * (`no-such-user@acme.test` says nothing about the mailbox). `^` marks where it begins.
 */
function matchable(message: string): string {
  const words = message.slice(0, COMPARED_CHARS_MAX).toLowerCase().split(/\s/);
  return `^${words.filter((word) => word !== '' && !word.includes('@')).join(' ')}`;
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

function isAmong(among: Subjects, subject: number | undefined, detail = -1): boolean {
  return subject === among.subject && detail >= among.first && detail <= among.last;
}

function hasAll(text: string, parts: readonly string[]): boolean {
  for (const part of parts) if (!text.includes(part)) return false;
  return true;
}
