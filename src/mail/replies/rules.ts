/**
 * How mail servers say it: rules from an answer to its meaning, first match wins.
 *
 * The order is the safety. Enhanced codes that have one meaning only come first. Then reputation,
 * rate, authentication and content are recognised by their words, because servers hide them behind
 * codes that speak of the mailbox ("550 5.1.1 blocked using ..."), and a good address must not end
 * on the suppression list for that. Then the enhanced codes about the mailbox, then words where
 * the code says little, then whole subjects of enhanced codes, then the bare code.
 *
 * `example` is an answer to RCPT unless `phase` says otherwise; the test runs every one, and every
 * phrase by itself.
 */
import type { Rule } from './meanings.ts';
import { AUTHENTICATION } from './authentication.ts';
import { CODES } from './codes.ts';
import { CONTENT } from './content.ts';
import { LAST_RESORTS } from './last-resorts.ts';
import { MAILBOX } from './mailbox.ts';
import { POLICY } from './policy.ts';
import { RATE } from './rate.ts';
import { REPUTATION } from './reputation.ts';

export const RULES: readonly Rule[] = [
  ...CODES,
  ...RATE,
  ...REPUTATION,
  ...AUTHENTICATION,
  ...CONTENT,
  ...MAILBOX,
  ...POLICY,
  ...LAST_RESORTS,
];
