/**
 * What a reply, or the lack of one, means for the recipient: whether to retry, who can solve the problem,
 * and how. rules.ts maps texts to meanings, meanings.ts has the consequences of each; both are data.
 *
 * Applied independently of the rules:
 * - Only a 5xx to MAIL, RCPT, DATA or the dot is permanent. Before MAIL the server refuses this host, not
 *   the message, and another server or a later attempt may accept it.
 * - A 552 to RCPT is temporary (RFC 5321 §4.5.3.1.10: it formerly meant "too many recipients").
 * - A limit, greylisting or a temporary block is retried even after a 5xx, which several providers send,
 *   at the pace of the later retries.
 * - Only a permanent reply to RCPT or later that a rule recognises as concerning the mailbox suppresses.
 *   An unknown 5xx bounces without suppressing; an unknown 4xx is retried.
 */
import { type Answer, type Rule, ruleAmong } from './match.ts';
import { MEANINGS, type MeaningName, type Verdict, verdictOf } from './meanings.ts';
import { RULES } from './rules.ts';
import type { SmtpFailureCause, SmtpPhase } from './smtp-reply.ts';

const MESSAGE_PHASES: ReadonlySet<SmtpPhase> = new Set(['mail', 'rcpt', 'data_command', 'data']);

export function classifyReply(answer: Answer): Verdict {
  const means = meaningOf(answer);
  const verdict = verdictOf(means, { saidPermanent: isForGood(answer) });
  return asksForLess(answer, means) ? { ...verdict, slowDown: true } : verdict;
}

export function meaningOf(answer: Answer): MeaningName {
  return ruleFor(answer)?.means ?? unknown(answer);
}

/** The rule that matches a reply, or undefined. */
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

/** Any 421 or 4.7.x requests fewer connections, except greylisting, which only requests a later attempt. */
function asksForLess({ reply }: Answer, means: MeaningName): boolean {
  if (reply.code === 421) return true;
  const isPolicy = reply.code < 500 && reply.enhancedCode?.startsWith('4.7.') === true;
  return isPolicy && MEANINGS[means].category !== 'greylist';
}

type Failure = { phase: SmtpPhase; cause: SmtpFailureCause; inDoubt?: boolean };

/** The meaning of a timeout, a lost connection or an invalid reply: always retried. */
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
