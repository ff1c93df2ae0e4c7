/**
 * How mail servers say it: rules from an answer to its meaning, first match wins.
 *
 * The order is the safety. Reputation, authentication, rate and content are recognised by their
 * words first, because servers hide them behind codes that speak of the mailbox ("550 5.1.1
 * blocked using ..."), and a good address must not end on the suppression list for that. Then
 * enhanced codes decide, then words where the code says little, then the bare code.
 *
 * `example` is an answer to RCPT unless `phase` says otherwise; the test runs every one.
 */
import type { MeaningName } from './classify-meanings.ts';
import { MAILBOX, MAILBOX_WORDS } from './classify-rules-mailbox.ts';
import { OTHER } from './classify-rules-other.ts';
import { AUTHENTICATION, CONTENT, REPUTATION } from './classify-rules-sender.ts';
import type { SmtpPhase } from './smtp-reply.ts';

export type Rule = {
  means: MeaningName;
  /** Enhanced codes without their class: `1.1` is 5.1.1 and 4.1.1, `7.*` a whole subject. */
  enhanced?: readonly string[];
  codes?: readonly number[];
  /**
   * Phrases separated by ` | `, one of which is in the text: lower case, single spaces, without
   * the words that hold an `@`. No patterns: the text is a stranger's, and this is linear.
   */
  text?: string;
  example: string;
  phase?: SmtpPhase;
};

export const RULES: readonly Rule[] = [
  ...REPUTATION,
  ...AUTHENTICATION,
  ...CONTENT,
  ...MAILBOX,
  ...MAILBOX_WORDS,
  ...OTHER,
];
