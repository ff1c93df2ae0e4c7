/**
 * The form of a rule, and whether it matches a reply. The rules are in rules.ts and, for texts of reports,
 * in mail/reports/classify-report.ts.
 *
 * Rules about the mailbox are not applied to replies before RCPT: these concern the session or the sender
 * and must not affect the recipient. In a reply about our return path they are about that one.
 */
import { type Category, MEANINGS, type MeaningName } from './meanings.ts';
import type { SmtpPhase, SmtpReply } from './smtp-reply.ts';

/** All given members have to match: `enhanced`, `codes` and `text`. */
export type Rule = {
  means: MeaningName;
  /** Enhanced codes without their class: `1.1` is 5.1.1 and 4.1.1, `7.606-649` a range, `7.*` a subject. */
  enhanced?: readonly string[];
  codes?: readonly number[];
  /**
   * Phrases separated by ` | `, one of which has to occur; `a + b` requires both, `^a` the beginning of the
   * text, `<return-path>` a text that begins with a return path of ours and names no other address. Lower
   * case, single spaces, without words that contain an `@`. Not regular expressions, because the
   * text is untrusted and this is linear.
   */
  text?: string;
  /** A reply that this rule matches and no earlier one; rules.test.ts checks every example. */
  example: string;
  /** The step that the example answers; default RCPT. */
  phase?: SmtpPhase;
};

/** How a reply is recognised: by a text alone, or by codes as well. */
type Recognised = string | Pick<Rule, 'enhanced' | 'codes' | 'text'>;

/** Rules of one meaning by their examples; `[data] 550 …` is an example of another phase than RCPT. */
export function rulesFor(
  means: MeaningName,
  examples: Readonly<Record<string, Recognised>>,
): Rule[] {
  return Object.entries(examples).map(([key, how]) => {
    const [, phase, example = key] = /^\[(\w+)\] (.*)$/s.exec(key) ?? [];
    const by = typeof how === 'string' ? { text: how } : how;
    return { means, ...by, example, ...(phase !== undefined && { phase: phase as SmtpPhase }) };
  });
}

/**
 * Of verification.ts: a reply about our return path, without a word about the sender. It also takes the place of any
 * rule about the mailbox that such a text matches; these phrases count beside one about a blocklist as well.
 */
export const ABOUT_RETURN_PATH: Rule = {
  means: 'sender_unverified',
  text: '<return-path> + user unknown | <return-path> + unknown user | <return-path> + no such user | <return-path> + no such recipient | <return-path> + no such mailbox | <return-path> + unknown recipient',
  example:
    '550 5.1.1 <b-abcdefghijklmnopqrstuvwxyz234567abcdefghijklmnop@send.acme.test>: user unknown',
};

/** A reply of 400 or more and the step that it answers. */
export type Answer = { phase: SmtpPhase; reply: SmtpReply };

const RECIPIENT_PHASES: ReadonlySet<SmtpPhase> = new Set(['rcpt', 'data_command', 'data']);
const RECIPIENT_CATEGORIES: ReadonlySet<Category> = new Set(['mailbox', 'quota']);

/** The first of these rules that matches a reply, or undefined. */
export function ruleAmong(rules: readonly Rule[], { phase, reply }: Answer): Rule | undefined {
  const text = matchable(reply.message);
  const isAboutRecipient = RECIPIENT_PHASES.has(phase);
  const key = `${isAboutRecipient} ${reply.code} ${reply.enhancedCode} ${text}`;
  const known = remembered(rules);
  const before = known.get(key);
  if (before !== undefined) return before ?? undefined;
  const [, subject, detail] = reply.enhancedCode?.split('.').map(Number) ?? [];
  // The words of a report name the envelope without being about it.
  const isAboutSender = text.endsWith(ABOUT_SENDER) && rules.includes(ABOUT_RETURN_PATH);
  const match = preparedOf(rules).find(
    (prepared) =>
      (isAboutRecipient || isAboutSender || !prepared.isAboutRecipient) &&
      (prepared.rule.codes === undefined || prepared.rule.codes.includes(reply.code)) &&
      (prepared.subjects === null ||
        prepared.subjects.some((among) => isAmong(among, subject, detail))) &&
      (prepared.phrases === null || prepared.phrases.some((parts) => hasAll(text, parts))),
  );
  const found = isAboutSender && match?.isAboutRecipient === true ? ABOUT_RETURN_PATH : match?.rule;
  if (key.length <= REMEMBERED_CHARS_MAX) known.set(key, found ?? null);
  return found;
}

/** The part of a reply that is compared with rules, equal to the limit of ReplyParser. */
const COMPARED_CHARS_MAX = 2048;

/**
 * The text of a reply for matching: one line in lower case, without quoted addresses
 * (`no-such-user@acme.test` says nothing about the mailbox). `^` marks its beginning.
 */
function matchable(message: string): string {
  const words = message.slice(0, COMPARED_CHARS_MAX).toLowerCase().split(/\s/);
  const isAddress = (word: string) => word.includes('@');
  const text = `^${words.filter((word) => word !== '' && !isAddress(word)).join(' ')}`;
  const addresses = words.filter(isAddress);
  const isAboutSender =
    addresses.length > 0 &&
    addresses.every((word) => RETURN_PATH.test(word)) &&
    words.indexOf(addresses[0]!) < BEGINNING_WORDS;
  return isAboutSender ? text + ABOUT_SENDER : text;
}

const ABOUT_SENDER = ' <return-path>';
/** Reports name the envelope further on, after the reply that they quote. */
const BEGINNING_WORDS = 8;
/** mail/links/return-path.ts, also within an address that a forwarding server made of it (SRS). */
const RETURN_PATH = /\bb-[a-z2-7]{48}\b/;

/**
 * Recent results, because a provider with an outage sends one reply thousands of times, and matching is most
 * of the cost of reading a bounce. Null: no rule matched.
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
  /** One of them has to occur, with all of its parts; null: the rule has no `text`. */
  phrases: readonly (readonly string[])[] | null;
  subjects: readonly Subjects[] | null;
  isAboutRecipient: boolean;
};

/** Enhanced codes `x.first` to `x.last`, without their class. */
type Subjects = { subject: number; first: number; last: number };

/** Parsed once, because rules are matched with every reply that is not a success. */
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
