/**
 * What an answer, or the lack of one, means for the recipient: retry or give up, whose business it
 * is, what to do about it. rules.ts leads from words to a meaning, meanings.ts says what follows from it;
 * both are data.
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
import { type Answer, type Rule, ruleAmong } from './match.ts';
import { MEANINGS, type MeaningName, type Verdict, verdictOf } from './meanings.ts';
import { RULES } from './rules.ts';
import type { SmtpFailureCause, SmtpPhase } from './smtp-reply.ts';

const MESSAGE_PHASES: ReadonlySet<SmtpPhase> = new Set(['mail', 'rcpt', 'data_command', 'data']);

/** What a reply of 400 or more means, and what follows. */
export function classifyReply(answer: Answer): Verdict {
  const means = meaningOf(answer);
  const verdict = verdictOf(means, { saidPermanent: isForGood(answer) });
  return asksForLess(answer, means) ? { ...verdict, slowDown: true } : verdict;
}

/** The name of what a reply of 400 or more means. */
export function meaningOf(answer: Answer): MeaningName {
  return ruleFor(answer)?.means ?? unknown(answer);
}

/** The rule that recognises an answer, or undefined. */
export function ruleFor(answer: Answer): Rule | undefined {
  return ruleAmong(RULES, answer);
}

function unknown({ phase, reply }: Answer): MeaningName {
  if (phase === 'auth') return 'login_refused';
  if (!MESSAGE_PHASES.has(phase) && reply.code >= 500) return 'session_refused';
  return reply.code >= 500 ? 'unknown_permanent' : 'unknown_temporary';
}

function isForGood({ phase, reply }: Answer): boolean {
  return (
    reply.code >= 500 && MESSAGE_PHASES.has(phase) && !(reply.code === 552 && phase === 'rcpt')
  );
}

/** Any 421 or 4.7.x asks for fewer connections; greylisting asks for a later attempt only. */
function asksForLess({ reply }: Answer, means: MeaningName): boolean {
  if (reply.code === 421) return true;
  const isPolicy = reply.code < 500 && reply.enhancedCode?.startsWith('4.7.') === true;
  return isPolicy && MEANINGS[means].category !== 'greylist';
}

type Failure = { phase: SmtpPhase; cause: SmtpFailureCause; inDoubt?: boolean };

/** What silence, a lost connection or nonsense means: always to be tried again. */
export function classifyFailure(failure: Failure): Verdict {
  return verdictOf(meaningOfFailure(failure), { saidPermanent: false });
}

const MEANING_OF_CAUSE: Readonly<Record<SmtpFailureCause, MeaningName>> = {
  unreachable: 'unreachable',
  timeout: 'fell_silent',
  closed: 'fell_silent',
  garbage: 'spoke_nonsense',
  tls: 'no_tls',
  withheld: 'taken_over',
};

function meaningOfFailure({ phase, cause, inDoubt }: Failure): MeaningName {
  if (inDoubt === true) return 'lost_in_doubt';
  return phase === 'connect' ? 'unreachable' : MEANING_OF_CAUSE[cause];
}
