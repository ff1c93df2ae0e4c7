/**
 * The attempts at one recipient, from the events of the email, and their phases on one time scale.
 *
 * The service stores the milliseconds of the phases before the dialogue; the dialogue is what is left. An attempt of
 * the simulator, or of a version before the phases, has a dialogue only.
 */
import type { Email, TimelineEvent } from '../../../../../sdk/src/api.ts';

export const PHASES = ['queue', 'dns', 'wait', 'connect', 'tls', 'dialogue'] as const;
export type PhaseName = (typeof PHASES)[number];
export type Phase = { name: PhaseName; ms: number };

export type Attempt = {
  number: number;
  startedAt: string;
  /** Seconds since the end of the attempt before, or null for the first. */
  sinceLastS: number | null;
  durationMs: number;
  phases: Phase[];
  /** The session of an earlier message was used. */
  isReused: boolean;
  /** The step at which it ended. */
  endedAt: string | null;
  isInDoubt: boolean;
  transcript: readonly string[];
  server: { mx: string | null; ip: string | null; tls: Tls | null; tlsPolicy: string | null };
  reply: { code: number | null; enhancedCode: string | null; message: string } | null;
  event: TimelineEvent['type'];
};

type Tls = { version: string; cipher: string; verified: boolean; problem?: string | null };

/** The members of an attempt and its reply, which the API types as open objects. */
type StoredAttempt = {
  number?: number;
  started_at?: string;
  duration_ms?: number;
  phase_ms?: Partial<Record<'dns' | 'wait' | 'connect' | 'tls', number>>;
  phase?: string | null;
  in_doubt?: boolean;
  transcript?: string[];
  mx?: string | null;
  ip?: string | null;
  tls?: Tls | null;
  tls_policy?: string | null;
};
type StoredReply = { code?: number | null; enhanced_code?: string | null; message?: string };

export function attemptsOf(
  address: string,
  email: Pick<Email, 'created_at' | 'scheduled_at'>,
  events: readonly TimelineEvent[],
): Attempt[] {
  const attempts: Attempt[] = [];
  let dueAtMs = Date.parse(email.scheduled_at ?? email.created_at);
  for (const event of events) {
    if (event.recipient !== address || event.attempt === null) continue;
    const stored = event.attempt as StoredAttempt;
    const attempt = attemptOf(event, stored, { dueAtMs, isFirst: attempts.length === 0 });
    attempts.push(attempt);
    dueAtMs = Date.parse(attempt.startedAt) + attempt.durationMs;
  }
  return attempts;
}

function attemptOf(
  event: TimelineEvent,
  stored: StoredAttempt,
  { dueAtMs, isFirst }: { dueAtMs: number; isFirst: boolean },
): Attempt {
  const durationMs = stored.duration_ms ?? 0;
  const startedAt =
    stored.started_at ?? new Date(Date.parse(event.created_at) - durationMs).toISOString();
  const sinceDueMs = Math.max(0, Date.parse(startedAt) - dueAtMs);
  const transcript = stored.transcript ?? [];
  const reply = event.data['smtp'] as StoredReply | undefined;
  return {
    number: stored.number ?? 1,
    startedAt,
    sinceLastS: isFirst ? null : sinceDueMs / 1000,
    durationMs,
    phases: phasesOf(stored, isFirst ? sinceDueMs : 0),
    isReused: stored.phase_ms !== undefined && transcript[0]?.startsWith('C: ') === true,
    endedAt: stored.phase ?? null,
    isInDoubt: stored.in_doubt === true,
    transcript,
    server: {
      mx: stored.mx ?? null,
      ip: stored.ip ?? null,
      tls: stored.tls ?? null,
      tlsPolicy: stored.tls_policy ?? null,
    },
    reply: reply?.message === undefined ? null : replyOf(reply, reply.message),
    event: event.type,
  };
}

function replyOf(
  { code = null, enhanced_code: enhancedCode = null }: StoredReply,
  message: string,
) {
  return { code, enhancedCode, message };
}

function phasesOf(
  { phase_ms: times = {}, duration_ms: duration = 0 }: StoredAttempt,
  queueMs: number,
) {
  const timed = { dns: 0, wait: 0, connect: 0, tls: 0, ...times };
  const before = timed.dns + timed.wait + timed.connect + timed.tls;
  const all = { queue: queueMs, ...timed, dialogue: Math.max(0, duration - before) };
  return PHASES.map((name) => ({ name, ms: all[name] })).filter(({ ms }) => ms > 0);
}

export type Bar = Phase & { startPercent: number; widthPercent: number; isCut: boolean };

/** A wait in the queue takes at most this part of the scale; it is often a thousand times the attempt. */
const QUEUE_SHARE_MAX = 0.3;
/** A phase of a millisecond beside one of minutes is still seen. */
const SEEN_PERCENT = 0.6;

/** Places the phases of all attempts on one scale: equal lengths are equal times, except for a cut queue. */
export function barsOf(attempts: readonly Pick<Attempt, 'phases'>[]): Bar[][] {
  const totals = attempts.map(({ phases }) => sumOf(phases.filter(({ name }) => name !== 'queue')));
  const queueMaxMs = (Math.max(1, ...totals) * QUEUE_SHARE_MAX) / (1 - QUEUE_SHARE_MAX);
  const shown = attempts.map(({ phases }) =>
    phases.map((phase) => {
      const isCut = phase.name === 'queue' && phase.ms > queueMaxMs;
      return { ...phase, shownMs: isCut ? queueMaxMs : phase.ms, isCut };
    }),
  );
  const scaleMs = Math.max(
    1,
    ...shown.map((phases) => phases.reduce((sum, { shownMs }) => sum + shownMs, 0)),
  );
  return shown.map((phases) => {
    let atMs = 0;
    return phases.map(({ shownMs, ...phase }) => {
      const startPercent = (atMs / scaleMs) * 100;
      atMs += shownMs;
      const widthPercent = Math.max(SEEN_PERCENT, (shownMs / scaleMs) * 100);
      return { ...phase, startPercent, widthPercent };
    });
  });
}

function sumOf(phases: readonly Phase[]): number {
  return phases.reduce((sum, { ms }) => sum + ms, 0);
}
