/**
 * The sentences of a diagnosis (diagnosis.ts): the last attempt, the limit a recipient waits for, and the next step.
 * Pure functions.
 *
 * When several limits apply, the one that ends last or needs an action is named. A hold or a pause comes before any
 * time, a suspension that deferred the delivery before the retry schedule, and the provider's limits before the
 * project's turn.
 */
import type { RouteFinding } from '../../core/dns/dns-findings.ts';
import { explainProviderWait } from '../../delivery/shaping/provider-state.ts';
import { AHEAD_MAX, type RecipientState, type SenderState } from './diagnosis-store.ts';
import type { EmailDetail, RecipientView } from '../email-store.ts';
import type { StoredProviderState } from '../../delivery/shaping/provider-state-store.ts';

export const WAIT_LIMITS = [
  'attempt',
  'database',
  'hold',
  'pause',
  'sender',
  'signing_key',
  'schedule',
  'retry',
  'suspension',
  'rate',
  'connections',
  'project',
  'service',
  'installation',
] as const;

export type Wait = {
  limit: (typeof WAIT_LIMITS)[number];
  /** One sentence, with the figure and the setting. */
  message: string;
  until: Date | null;
};

type WaitFacts = {
  state: RecipientState & { provider: string; dueAt: Date };
  recipient: RecipientView;
  sender: SenderState;
  scheduledAt: Date | null;
  /** The last report of a worker, or null when the provider has its configured limits. */
  provider: StoredProviderState | null;
  /** Number of the project's recipients at the provider that are due earlier. */
  ahead: number;
  isSettlingStalled: boolean;
};

export function explainWait(waiting: WaitFacts): Wait {
  const { state, sender, isSettlingStalled } = waiting;
  if (state.isWithWorker) {
    if (isSettlingStalled) return DATABASE;
    return explainProvider(waiting) ?? ATTEMPT;
  }
  return (
    explainHold(waiting) ??
    explainInstallationHold(waiting) ??
    explainDueTime(waiting) ??
    (sender.hasWorkers ? null : NO_WORKER) ??
    explainSigningKey(waiting, null) ??
    explainProvider(waiting) ??
    explainTurn(waiting)
  );
}

const ATTEMPT: Wait = {
  limit: 'attempt',
  message: 'A worker is delivering the email now.',
  until: null,
};
const DATABASE: Wait = {
  limit: 'database',
  message: 'The database accepts no writes, so no message can be finished.',
  until: null,
};
const NO_WORKER: Wait = {
  limit: 'service',
  message: 'No worker is running. Start the service.',
  until: null,
};

function explainHold({ state, sender }: WaitFacts): Wait | null {
  if (!state.isOnHold) return null;
  const expiry = `Unless released, it expires at ${sender.expiresAt.toISOString()}.`;
  if (sender.isPaused) {
    const message = `The sending domain is paused because of bounces or complaints, so its emails are on hold. ${expiry} Resume it with letterhaus projects set-reputation-alert --resume.`;
    return { limit: 'pause', message, until: null };
  }
  if (state.dropsAt !== null) {
    const message = `It will be dropped from the queue at ${state.dropsAt.toISOString()}. Until then this can be undone.`;
    return { limit: 'hold', message, until: null };
  }
  const message = `An operator put it on hold. ${expiry} Release it with letterhaus queue release.`;
  return { limit: 'hold', message, until: null };
}

function explainInstallationHold({ sender }: WaitFacts): Wait | null {
  if (sender.onHoldSince === null) return null;
  const since = sender.onHoldSince.toISOString();
  const message = `The service was restored from a backup and has been on hold since ${since}. It sends nothing until you run letterhaus release.`;
  return { limit: 'installation', message, until: null };
}

/**
 * Deliveries resume within 10 s after a suspension (delivery/queue/dispatcher.ts). The report of a provider's state
 * is a few seconds old.
 */
const RESUMES_WITHIN_MS = 15_000;

function explainDueTime(waiting: WaitFacts): Wait | null {
  const { state, recipient, sender, scheduledAt, provider } = waiting;
  if (state.dueInMs <= 0) return null;
  const { dueAt: until } = state;
  const at = until.toISOString();
  if (scheduledAt !== null && recipient.status === 'scheduled') {
    return { limit: 'schedule', message: `It is scheduled for ${at}.`, until };
  }
  if (sender.domainStatus !== 'verified' && sender.domainStatus !== 'degraded') {
    const message = `The sending domain is ${sender.domainStatus === null ? 'removed' : 'not verified'}. Its records are checked again at the next attempt, ${at}.`;
    return { limit: 'sender', message, until };
  }
  const unsigned = explainSigningKey(waiting, until);
  if (unsigned !== null) return unsigned;
  const suspension = explainProvider(waiting);
  if (suspension?.limit === 'suspension') {
    const isDueThen = state.dueInMs <= (provider?.forMs ?? 0) + RESUMES_WITHIN_MS;
    if (isDueThen) return { ...suspension, until };
  }
  const message =
    recipient.attempts === 0
      ? `It is due at ${at}.`
      : `Attempt ${recipient.attempts} was deferred. The next attempt is at ${at}, by the retry schedule.`;
  return { limit: 'retry', message, until };
}

function explainSigningKey({ sender }: WaitFacts, until: Date | null): Wait | null {
  if (!sender.isKeyUnusable) return null;
  const next = until === null ? '' : ` The next attempt is at ${until.toISOString()}.`;
  const message = `The secret key of this service cannot decrypt the DKIM key of the sending domain, so its emails cannot be signed.${next}`;
  return { limit: 'signing_key', message, until };
}

function explainProvider({ provider, state }: WaitFacts): Wait | null {
  const wait = provider && explainProviderWait(state.provider, provider);
  return wait && { ...wait, until: null };
}

function explainTurn({ ahead, state }: WaitFacts): Wait {
  const count = ahead >= AHEAD_MAX ? `${AHEAD_MAX} or more` : String(ahead);
  const message =
    ahead === 0
      ? 'It is due. The next free worker delivers it.'
      : `${count} recipients of this project at ${state.provider} are due earlier. Projects are served in turn.`;
  return { limit: 'project', message, until: null };
}

const PHASE_TEXTS: Readonly<Record<string, string>> = {
  dns: 'at the look-up of its mail servers',
  connect: 'at the connection',
  tls: 'at the TLS handshake',
  greeting: 'in its greeting',
  ehlo: 'to EHLO',
  starttls: 'to STARTTLS',
  auth: 'to AUTH',
  mail: 'to MAIL, which names the sender',
  rcpt: 'to RCPT, which names the recipient',
  data_command: 'to DATA',
  body: 'while the message was sent',
  data: 'to the message',
};

/** Describes the last attempt in one sentence, or why there was none. */
export function describeLastAttempt(
  { attempts, smtp, status, reason }: RecipientView,
  state: RecipientState | undefined,
): string {
  if (state?.attempt == null || smtp === null) {
    if (reason !== null) return reason.advice;
    if (status === 'canceled') return 'The email was canceled before it was sent.';
    if (status === 'suppressed')
      return 'The address is on the suppression list, so no attempt is made.';
    return attempts === 0
      ? 'No attempt has been made yet.'
      : `Attempt ${attempts} ended without a reply from a mail server.`;
  }
  const step = PHASE_TEXTS[String(state.attempt['phase'])] ?? '';
  const server = smtp.mx === null ? 'DNS' : smtp.ip === null ? smtp.mx : `${smtp.mx} [${smtp.ip}]`;
  const code = [smtp.code, smtp.enhanced_code].filter((one) => one !== null).join(' ');
  const replyText = smtp.message.replaceAll('\n', ' ');
  if (smtp.code !== null) {
    return `Attempt ${attempts}: ${server} replied ${step}: ${code} ${replyText}`;
  }
  return `Attempt ${attempts} failed ${step}${smtp.mx === null ? '' : ` of ${server}`}: ${replyText}`;
}

export function lastAttemptOf(
  { smtp }: RecipientView,
  { attempt, attemptedAt }: RecipientState,
): {
  number: number | null;
  ended_at: string | null;
  duration_ms: number | null;
  phase: string | null;
  in_doubt: boolean;
  smtp: RecipientView['smtp'];
  dialogue: string[];
} | null {
  if (attempt === null) return null;
  const { number, duration_ms, phase, in_doubt, transcript } = attempt;
  return {
    number: typeof number === 'number' ? number : null,
    ended_at: attemptedAt?.toISOString() ?? null,
    duration_ms: typeof duration_ms === 'number' ? duration_ms : null,
    phase: typeof phase === 'string' ? phase : null,
    in_doubt: in_doubt === true,
    smtp,
    dialogue: Array.isArray(transcript) ? transcript.map(String) : [],
  };
}

export function describeNextStep(
  { status, reason }: RecipientView,
  wait: Wait | null,
  route: RouteFinding | null,
): string {
  if (status === 'delivered' || status === 'sent') {
    return status === 'sent'
      ? 'The relay accepted the email. Its log shows what happened next.'
      : "The recipient's server accepted the email. If it is not in the mailbox, check the spam folder and quarantine.";
  }
  if (status === 'canceled')
    return 'Nothing to do: it was canceled. Send it again if you still need it.';
  if (status === 'suppressed') {
    return 'If the address works again, remove it from the suppression list and send the email again.';
  }
  const isWaiting = wait !== null;
  if (isWaiting && NEXT_STEP_OF_LIMIT[wait.limit] !== undefined)
    return NEXT_STEP_OF_LIMIT[wait.limit]!;
  if (reason !== null) return reason.advice;
  if (route?.verdict === 'none') return `Check the address: ${route.problem}.`;
  return isWaiting
    ? 'Nothing to do: the service attempts the delivery when it is due.'
    : 'See the timeline.';
}

/** Next steps for limits that waiting does not end. */
const NEXT_STEP_OF_LIMIT: Partial<Record<Wait['limit'], string>> = {
  database: 'The operator must restore the database.',
  hold: 'Ask an admin to release it (page Queue, or letterhaus queue release), or cancel it.',
  pause: 'Fix the cause of the bounces or complaints, then ask the operator to resume the domain.',
  sender: 'Publish the DNS records of the sending domain, then verify it.',
  signing_key:
    'The operator must restore the secret key or the domain (letterhaus domains verify says how). It is sent afterwards.',
  schedule: 'Nothing to do: it is sent at its scheduled time. Reschedule it to send it earlier.',
  service: 'The operator must start the service.',
  installation: 'The operator must release the service (letterhaus release).',
};

export function describeEmail({ status, recipients }: EmailDetail): string {
  const counts = Object.entries(Object.groupBy(recipients, (one) => one.status)).map(
    ([name, ones]) => `${ones.length} ${name}`,
  );
  const what = recipients.length === 1 ? '1 recipient' : `${recipients.length} recipients`;
  return `The email is ${status}: of ${what}, ${counts.join(', ')}.`;
}
