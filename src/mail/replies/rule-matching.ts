/**
 * The form of a rule, and matching a reply with it. rules.ts contains the rules; mail/reports/classify-report.ts has
 * those for reports.
 *
 * Rules about the mailbox do not apply to replies before RCPT: such a reply concerns the session or the sender, and
 * must not affect the recipient. In a reply about our return path, the mailbox is the sender's.
 */
import { type Category, MEANINGS, type MeaningName } from './meanings.ts';
import type { SmtpPhase, SmtpReply } from './smtp-reply.ts';

/** A rule matches if all of `enhanced`, `codes` and `text` that it has match. */
export type Rule = {
  meaning: MeaningName;
  /** Enhanced codes without their class: `1.1` is 5.1.1 and 4.1.1, `7.606-649` a range, `7.*` a whole subject. */
  enhanced?: readonly string[];
  codes?: readonly number[];
  /**
   * Phrases separated by ` | `; one of them must occur. `a + b` requires both. `^a` matches at the beginning.
   * `<return-path>` matches a text that begins with one of our return paths and names no other address. Phrases are
   * in lower case, with single spaces, without words that contain an `@`. They are not regular expressions, because
   * the text is untrusted and this matching is linear.
   */
  text?: string;
  /** A reply that this rule matches and no earlier rule does. rules.test.ts checks it. */
  example: string;
  /** The step of the example; absent: RCPT. */
  phase?: SmtpPhase;
};

/** How a rule recognises a reply: by text alone, or also by codes. */
type Criteria = string | Pick<Rule, 'enhanced' | 'codes' | 'text'>;

/**
 * A reply about our return path that does not mention the sender. In such a reply, this rule also replaces every
 * rule about the mailbox. Its phrases count even beside the name of a blocklist.
 */
export const ABOUT_RETURN_PATH: Rule = {
  meaning: 'sender_unverified',
  text: '<return-path> + user unknown | <return-path> + unknown user | <return-path> + no such user | <return-path> + no such recipient | <return-path> + no such mailbox | <return-path> + unknown recipient',
  example:
    '550 5.1.1 <b-abcdefghijklmnopqrstuvwxyz234567abcdefghijklmnop@send.acme.test>: user unknown',
};
const RECIPIENT_PHASES: ReadonlySet<SmtpPhase> = new Set(['rcpt', 'data_command', 'data']);
const RECIPIENT_CATEGORIES: ReadonlySet<Category> = new Set(['mailbox', 'quota']);
/** Limit on the compared text, in characters; ReplyParser keeps as many bytes. */
const COMPARED_CHARS_MAX = 2048;
const ABOUT_SENDER = ' <return-path>';
/** Reports name the envelope later, after the reply that they quote. */
const BEGINNING_WORDS = 8;
/** A return path of ours (mail/links/return-path.ts), also inside an address that a forwarder rewrote (SRS). */
const RETURN_PATH = /\bb-[a-z2-7]{48}\b/;
/**
 * Recent results by reply, each null when no rule matched. During an outage a provider sends the same reply thousands
 * of times, and matching is most of the cost of reading a bounce.
 */
const RECENT_RESULTS = new WeakMap<readonly Rule[], Map<string, Rule | null>>();
const RECENT_RESULTS_MAX = 2_000;
const RECENT_CHARS_MAX = 600;
/** Parsed rules: parsing them for every failed reply would be slow. */
const PREPARED_RULES = new WeakMap<readonly Rule[], readonly PreparedRule[]>();

/** Returns rules of one meaning, keyed by their examples. `[data] 550 …` is a reply to another step than RCPT. */
export function rulesFor(
  meaning: MeaningName,
  examples: Readonly<Record<string, Criteria>>,
): Rule[] {
  return Object.entries(examples).map(([key, criteria]) => {
    const [, phase, example = key] = /^\[(\w+)\] (.*)$/s.exec(key) ?? [];
    const conditions = typeof criteria === 'string' ? { text: criteria } : criteria;
    return {
      meaning,
      ...conditions,
      example,
      ...(phase !== undefined && { phase: phase as SmtpPhase }),
    };
  });
}

/** A reply of 400 or more, and the step to which the server replied. */
export type PhaseReply = { phase: SmtpPhase; reply: SmtpReply };

export function findRule(rules: readonly Rule[], { phase, reply }: PhaseReply): Rule | undefined {
  const text = normalizeReply(reply.message);
  const isAboutRecipient = RECIPIENT_PHASES.has(phase);
  const key = `${isAboutRecipient} ${reply.code} ${reply.enhancedCode} ${text}`;
  const results = recentResults(rules);
  const recent = results.get(key);
  if (recent !== undefined) return recent ?? undefined;
  const [, subject, detail] = reply.enhancedCode?.split('.').map(Number) ?? [];
  // Reports quote the envelope sender in any context, so this applies to replies only.
  const isAboutSender = text.endsWith(ABOUT_SENDER) && rules.includes(ABOUT_RETURN_PATH);
  const match = prepareRules(rules).find(
    (prepared) =>
      (isAboutRecipient || isAboutSender || !prepared.isAboutRecipient) &&
      (prepared.rule.codes === undefined || prepared.rule.codes.includes(reply.code)) &&
      (prepared.codeRanges === null ||
        prepared.codeRanges.some((range) => isInRange(range, subject, detail))) &&
      (prepared.phrases === null || prepared.phrases.some((parts) => containsAll(text, parts))),
  );
  const found = isAboutSender && match?.isAboutRecipient === true ? ABOUT_RETURN_PATH : match?.rule;
  if (key.length <= RECENT_CHARS_MAX) results.set(key, found ?? null);
  return found;
}

/**
 * Returns the text to match: one line in lower case, with `^` at its beginning. Addresses are removed, because
 * `no-such-user@acme.test` says nothing about the mailbox.
 */
function normalizeReply(message: string): string {
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

function recentResults(rules: readonly Rule[]): Map<string, Rule | null> {
  let results = RECENT_RESULTS.get(rules);
  if (results === undefined || results.size >= RECENT_RESULTS_MAX) {
    results = new Map();
    RECENT_RESULTS.set(rules, results);
  }
  return results;
}

type PreparedRule = {
  rule: Rule;
  /** Phrases as lists of parts, or null when the rule has no `text`. */
  phrases: readonly (readonly string[])[] | null;
  codeRanges: readonly CodeRange[] | null;
  isAboutRecipient: boolean;
};

/** Enhanced codes `x.first` to `x.last`, without their class. */
type CodeRange = { subject: number; first: number; last: number };

function prepareRules(rules: readonly Rule[]): readonly PreparedRule[] {
  const known = PREPARED_RULES.get(rules);
  if (known !== undefined) return known;
  const prepared = rules.map((rule) => ({
    rule,
    phrases: rule.text?.split(' | ').map((phrase) => phrase.split(' + ')) ?? null,
    codeRanges: rule.enhanced?.map(parseCodeRange) ?? null,
    isAboutRecipient: RECIPIENT_CATEGORIES.has(MEANINGS[rule.meaning].category),
  }));
  PREPARED_RULES.set(rules, prepared);
  return prepared;
}

function parseCodeRange(pattern: string): CodeRange {
  const [subject = '', detail = ''] = pattern.split('.');
  const [first = '', last = first] = detail === '*' ? ['0', '999'] : detail.split('-');
  return { subject: Number(subject), first: Number(first), last: Number(last) };
}

function isInRange(range: CodeRange, subject: number | undefined, detail = -1): boolean {
  return subject === range.subject && detail >= range.first && detail <= range.last;
}

function containsAll(text: string, parts: readonly string[]): boolean {
  for (const part of parts) if (!text.includes(part)) return false;
  return true;
}
