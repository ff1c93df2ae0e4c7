/**
 * Classifies a reply, or the lack of one: whether to retry, who can solve the problem, and how. rules.ts maps texts
 * to meanings, and meanings.ts contains what follows from each; both are data.
 *
 * These rules always apply:
 * - Only a 5xx to MAIL, RCPT, DATA or the final dot is permanent. Before MAIL, the server refuses this host, not the
 *   message. Another server or a later attempt may accept it.
 * - A 552 to RCPT is temporary (RFC 5321 §4.5.3.1.10: it formerly meant "too many recipients").
 * - Limits, greylisting and temporary blocks are retried even after a 5xx, which several providers send. The first
 *   retry then waits longer.
 * - Only a permanent reply to RCPT or later suppresses, and only if a rule recognises that it concerns the mailbox.
 *   An unknown 5xx bounces without suppression; an unknown 4xx is retried.
 */
import { type PhaseReply, type Rule, findRule } from './rule-matching.ts';
import { MEANINGS, type MeaningName, type Classification, classificationOf } from './meanings.ts';
import { RULES } from './rules.ts';
import type { SmtpFailureCause, SmtpPhase } from './smtp-reply.ts';

const MESSAGE_PHASES: ReadonlySet<SmtpPhase> = new Set(['mail', 'rcpt', 'data_command', 'data']);
const MEANING_OF_CAUSE: Readonly<Record<SmtpFailureCause, MeaningName>> = {
  unreachable: 'unreachable',
  timeout: 'connection_lost',
  closed: 'connection_lost',
  garbage: 'protocol_violated',
  tls: 'no_tls',
  withheld: 'lease_lost',
};

export function classifyReply(phaseReply: PhaseReply): Classification {
  const meaning = meaningOf(phaseReply);
  const classification = classificationOf(meaning, { isPermanent: isPermanentReply(phaseReply) });
  return asksToSlowDown(phaseReply, meaning)
    ? { ...classification, slowDown: true }
    : classification;
}

export function meaningOf(phaseReply: PhaseReply): MeaningName {
  return ruleFor(phaseReply)?.meaning ?? meaningOfCode(phaseReply);
}

export function ruleFor(phaseReply: PhaseReply): Rule | undefined {
  return findRule(RULES, phaseReply);
}

function meaningOfCode({ phase, reply }: PhaseReply): MeaningName {
  if (phase === 'auth') return 'login_refused';
  if (!MESSAGE_PHASES.has(phase) && reply.code >= 500) return 'session_refused';
  return reply.code >= 500 ? 'unknown_permanent' : 'unknown_temporary';
}

function isPermanentReply({ phase, reply }: PhaseReply): boolean {
  return (
    reply.code >= 500 && MESSAGE_PHASES.has(phase) && !(reply.code === 552 && phase === 'rcpt')
  );
}

/** Any 421 or 4.7.x asks for fewer connections, except greylisting, which only asks for a later attempt. */
function asksToSlowDown({ reply }: PhaseReply, meaning: MeaningName): boolean {
  if (reply.code === 421) return true;
  const isPolicy = reply.code < 500 && reply.enhancedCode?.startsWith('4.7.') === true;
  return isPolicy && MEANINGS[meaning].category !== 'greylist';
}

type Failure = { phase: SmtpPhase; cause: SmtpFailureCause; inDoubt?: boolean };

/** Classifies a timeout, a lost connection or an invalid reply. All are retried. */
export function classifyFailure(failure: Failure): Classification {
  return classificationOf(meaningOfFailure(failure), { isPermanent: false });
}

function meaningOfFailure({ phase, cause, inDoubt }: Failure): MeaningName {
  if (inDoubt === true) return 'lost_in_doubt';
  return phase === 'connect' ? 'unreachable' : MEANING_OF_CAUSE[cause];
}
