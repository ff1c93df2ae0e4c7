/**
 * One attempt to deliver to one recipient of live mail: the signed bytes, the route and its TLS rules, the
 * hosts in turn, and what the result means.
 *
 * In this order: message.ts (bytes), delivery/route/mail-routing.ts (route), delivery/route/tls-rules.ts (rules), hosts.ts (session and
 * transaction), outcome.ts (meaning). Nothing is written to the database here.
 *
 * Guarantee: the final dot is written only while this worker holds the delivery under a fresh lease, outcomes
 * are being written, the address is not suppressed, and no stop has begun (`mayProceed`). Once the dot is
 * written the attempt ends with an outcome, also after an error; before that the delivery may be released.
 */
import type { Logger } from 'pino';
import { LiveSet } from '../../lib/live-set.ts';
import type { World } from '../../lib/world.ts';
import { domainOf, needsSmtpUtf8 } from '../../mail/address.ts';
import { parametersFor } from '../../mail/dsn-parameters.ts';
import type { NextServer } from '../../mail/notice.ts';
import { makeReturnPath } from '../../mail/links/return-path.ts';
import type { Route } from '../../net/dns/mx.ts';
import { refusalSubject } from '../../mail/replies/blocks.ts';
import type { Transaction } from '../../net/smtp/client.ts';
import { lacksSmtpUtf8 } from '../../net/smtp/transaction.ts';
import type { Queryable } from '../../database/database.ts';
import { stoppedNow } from '../queue/queue-store.ts';
import type { SettleHealth } from '../../settle/health.ts';
import { deferredByBlock } from '../blocks/outcomes.ts';
import type { Connections, Postponed } from '../shaping/connections.ts';
import type { Contents } from './contents.ts';
import type { Delivery } from '../queue/fair-queue.ts';
import { providerAt, type RouteAttempt, tryHosts } from './hosts.ts';
import type { MailRouting } from '../route/mail-routing.ts';
import {
  ASCII_FORM,
  assertAsSigned,
  hasAsciiForm,
  type MessageBuilder,
  type MessageForm,
  type SignedMessage,
  USUAL_FORM,
} from './message.ts';
import {
  type Attempted,
  attemptRecord,
  type AttemptResult,
  isUnanswered,
  type Outcome,
  outcomeOf,
} from './outcome.ts';
import type { BlockVisit, ProviderBlocks } from '../blocks/provider-blocks.ts';
import type { TlsRules, TlsWanted } from '../route/tls-rules.ts';

export type AttemptOptions = {
  db: Queryable;
  world: World;
  log: Logger;
  lease: { holder(): string | null; isFresh(): boolean };
  builder: Pick<MessageBuilder, 'build'>;
  contents: Pick<Contents, 'use' | 'postponement'>;
  mailRouting: Pick<MailRouting, 'find'>;
  tls: TlsRules;
  connections: Connections;
  blocks: Pick<ProviderBlocks, 'visit' | 'blockOf'>;
  settling: { health: Pick<SettleHealth, 'isStuck' | 'recovers'> };
  /** Mail goes through a relay: a 250 means `sent`, not `delivered`. */
  viaRelay: boolean;
  /** The minimum, whatever the email asks for: a relay's password needs a verified server. */
  leastTls: 'opportunistic' | 'enforced';
  /** Reports to return paths arrive, so that other servers can be asked for them. */
  takesReports: boolean;
  /** Signs return paths: 32 bytes. */
  returnPathSecret: () => Buffer;
};

/** The state of an attempt in progress. */
type Progress = RouteAttempt['progress'] & {
  message?: SignedMessage;
  route?: Route;
  /** Of a large message, once it was loaded. */
  hasAsciiForm?: boolean;
  hasWrittenDot: boolean;
};

const NO_SESSION: Progress['session'] = {
  via: { mx: null, ip: null, tls: null, tls_policy: 'none' },
  source: '',
};

export async function attemptLive(
  delivery: Delivery,
  cutoff: Cutoff,
  options: AttemptOptions,
): Promise<Attempted> {
  const visit = options.blocks.visit(delivery);
  try {
    return await visit.judge(await attemptOnce(delivery, cutoff, { ...options, visit }));
  } catch (error) {
    await visit.abandon();
    throw error;
  }
}

type VisitOptions = AttemptOptions & { visit: BlockVisit };

async function attemptOnce(
  delivery: Delivery,
  cutoff: Cutoff,
  options: VisitOptions,
): Promise<Attempted> {
  const { world, connections, log } = options;
  const startedMs = world.monotonicMs();
  const startedAt = new Date(world.now());
  const progress: Progress = { startedMs, session: NO_SESSION, hasWrittenDot: false };
  const sending = buildAndSend(delivery, options, { progress, cutoff });
  const ended = await cutoff
    .unlessCut(sending, () => progress.hasWrittenDot, delivery.place?.signal)
    .catch((error: unknown) => {
      if (!progress.hasWrittenDot) throw error;
      // A bug. It counts as an attempt, so that retries follow the schedule and end.
      log.error(
        { err: error, email_id: delivery.message.id },
        'an attempt failed with an error after the final dot; it is settled as in doubt',
      );
      return 'broken' as const;
    });
  // The worker is stopping, and nothing was sent.
  if (ended === 'unsent') return { kind: 'release', delayMs: 0 };
  if (ended === 'given_up' && delivery.place?.isConnecting !== true) {
    return { kind: 'release', delayMs: UNCONNECTED_DELAY_MS };
  }
  const result = typeof ended === 'string' ? cutResult(progress, ended) : ended;
  if (result.kind === 'postponed') return afterPostponement(result);
  // Nothing was sent: the current holder of the recipient tries again, or settles why it was stopped.
  if (result.kind === 'failed' && result.cause === 'withheld') {
    return { kind: 'release', delayMs: 0 };
  }
  const { message = null, route } = progress;
  const outcome = outcomeOf(result, options.viaRelay ? 'sent' : 'delivered');
  if (delivery.message.dsn !== undefined) outcome.nextServer = nextServerOf(result, options);
  if (route?.kind === 'hosts' && result.kind !== 'unroutable') {
    const provider = providerAt(route, result.via.mx);
    adjustWindow(connections, provider, { source: result.source, outcome });
    noteAnswer(options.visit, result, { provider, delivery });
  }
  if (result.kind === 'unroutable' && result.route.kind === 'temporary') {
    connections.uplink.unresolved(delivery.provider);
  }
  const durationMs = world.monotonicMs() - startedMs;
  const attempt = attemptRecord(delivery, result, { message, startedAt, durationMs });
  return { kind: 'ended', outcome, attempt, startedMs, isUnanswered: isUnanswered(result) };
}

/** A server with DSN reports the success itself, to the return path, if this service takes reports. */
function nextServerOf(result: AttemptResult, { takesReports }: AttemptOptions): NextServer {
  return takesReports && result.kind === 'replied' && result.hasDsn === true
    ? 'passed_on'
    : 'relayed';
}

function afterPostponement({ delayMs, block }: Postponed): Attempted {
  if (block === undefined) return { kind: 'release', delayMs: Math.ceil(delayMs) };
  return { kind: 'put_off', outcome: deferredByBlock(block), delayMs: Math.ceil(delayMs) };
}

function noteAnswer(
  visit: BlockVisit,
  result: Exclude<AttemptResult, { kind: 'unroutable' }>,
  { provider, delivery }: { provider: string; delivery: Delivery },
): void {
  if (result.kind !== 'replied') return;
  const about = refusalSubject(result, domainOf(delivery.message.from.address));
  visit.note({ provider, source: result.source, ip: result.via.ip, about });
}

async function buildAndSend(
  delivery: Delivery,
  options: VisitOptions,
  { progress, cutoff }: { progress: Progress; cutoff: Cutoff },
): Promise<AttemptResult | Postponed> {
  const { world, builder, connections, contents, leastTls } = options;
  const startedMs = world.monotonicMs();
  const { destination, content } = delivery;
  const postponed = content === null ? contents.postponement(delivery) : null;
  if (postponed !== null) return postponed;
  const [message, route, sts] = await Promise.all([
    content && builder.build(content, delivery),
    options.mailRouting.find(destination),
    options.tls.policyOf(destination),
  ]);
  Object.assign(progress, { route, ...(message && { message }) });
  const postponableMs = delivery.expiresAtMs - startedMs;
  const sendUnder = async (wanted: TlsWanted, form = USUAL_FORM) => {
    const tls = await options.tls.forAttempt(route, wanted);
    const transaction = transactionOf(delivery, options, { progress, cutoff });
    const isUsual = form === USUAL_FORM;
    const signed = isUsual ? message : content && (await builder.build(content, delivery, form));
    if (signed !== null) fill(transaction, signed, delivery);
    if (signed !== null && !isUsual) progress.message = signed;
    const withMessage =
      signed === null ? loadFor(transaction, delivery, { ...options, progress }, form) : null;
    const gate = options.visit.gate.bind(options.visit);
    const { place } = delivery;
    const attempt = { transaction, withMessage, postponableMs, progress, gate, place };
    return tryHosts(route, connections, { ...tls, ...attempt });
  };
  const demand = leastTls === 'enforced' ? 'enforced' : (delivery.message.tls ?? 'opportunistic');
  const wanted = { destination, demand, sts } as const;
  const result = await sendUnder(wanted);
  if (lacksSmtpUtf8(result)) {
    const hasForm = content === null ? progress.hasAsciiForm : hasAsciiForm(content, delivery);
    return hasForm === true ? sendUnder(wanted, ASCII_FORM) : result;
  }
  if (result.kind !== 'failed' || result.cause !== 'tls') return result;
  const newer = await options.tls.newerPolicy(wanted);
  return newer === null ? result : sendUnder({ ...wanted, ...newer });
}

/**
 * While outcomes are not written, no final dot is written, because a crash would repeat the message.
 * An attempt waits this long for the database; after that its lease has expired anyway.
 */
const OUTCOMES_MOVE_WITHIN_MS = 10_000;

/** After a longer wait, suppression and removal of the sending domain are checked again. */
export const RECHECK_AFTER_MS = 2_000;

function transactionOf(
  delivery: Delivery,
  options: AttemptOptions,
  { progress, cutoff }: { progress: Progress; cutoff: Cutoff },
): Transaction {
  const { world, lease, settling } = options;
  const signal = delivery.place?.signal;
  const isGivenUp = (): boolean => signal?.aborted === true;
  const isOurs = (): boolean =>
    !cutoff.isClosed && !isGivenUp() && lease.isFresh() && lease.holder() === delivery.holder;
  return {
    envelopeFrom: returnPathOf(delivery, options),
    recipient: delivery.address,
    message: [],
    smtpUtf8: needsSmtpUtf8(delivery.address),
    dsn: parametersFor(delivery.message.dsn, delivery.address, options),
    mayProceed: (step) => {
      const decide = (): boolean => {
        const may = isOurs();
        progress.hasWrittenDot = may && step === 'data';
        return may;
      };
      const { isStuck } = settling.health;
      const isLate = step === 'data' && world.monotonicMs() - progress.startedMs > RECHECK_AFTER_MS;
      // Checked before waiting: after a freeze the lease has expired, and the attempt ends at once.
      if (!isOurs() || (!isStuck && !isLate)) return decide();
      const waitAndDecide = async (): Promise<boolean> => {
        if (isStuck && !(await settling.health.recovers(OUTCOMES_MOVE_WITHIN_MS))) return false;
        if (isLate && (await isStopped(delivery, options))) return false;
        return decide();
      };
      return waitAndDecide();
    },
  };
}

/** Suppressed or without a sending domain by now, or unknown. The next claim settles which it is. */
function isStopped({ message, address }: Delivery, { db, log }: AttemptOptions): Promise<boolean> {
  return stoppedNow(db, { ...message, address }).then(
    ({ suppressed, domainDeleted }) => suppressed || domainDeleted,
    (error: unknown) => {
      log.warn({ err: error, email_id: message.id }, 'a message is withheld: it cannot be checked');
      return true;
    },
  );
}

function fill(transaction: Transaction, message: SignedMessage, { address }: Delivery): void {
  assertAsSigned(message);
  transaction.message = message.parts;
  transaction.smtpUtf8 = message.smtpUtf8 || needsSmtpUtf8(address);
  transaction.is8Bit = message.is8Bit;
}

/** Loads and signs a large message when a server is ready for it, and drops it afterwards. */
function loadFor(
  transaction: Transaction,
  delivery: Delivery,
  { builder, contents, progress }: AttemptOptions & { progress: Progress },
  form: MessageForm,
): RouteAttempt['withMessage'] {
  return (send) =>
    contents.use(delivery, async (content) => {
      const signed = await builder.build(content, delivery, form);
      fill(transaction, signed, delivery);
      progress.message = { ...signed, parts: [] };
      progress.hasAsciiForm = signed.smtpUtf8 && hasAsciiForm(content, delivery);
      return send().finally(() => (transaction.message = []));
    });
}

/** RFC 5321 §4.4: bounces come to this address; its signed token names the recipient. */
function returnPathOf(delivery: Delivery, { returnPathSecret }: AttemptOptions): string {
  // RFC 3461 §6.1: nobody is notified about a notice.
  if (delivery.message.dsn?.kind === 'notice') return '';
  return makeReturnPath({
    emailId: delivery.message.id,
    position: delivery.position,
    domain: `send.${domainOf(delivery.message.from.address)}`,
    secret: returnPathSecret(),
  });
}

const IN_DOUBT = {
  in_doubt: 'The service was stopped before the server had answered the final dot.',
  broken: 'An error of the service hid what the server answered to the final dot.',
} as const;

const GIVEN_UP =
  'The server was silent, and too many other messages of the project waited for silent servers.';
/** A delivery that was given up during a look-up or in a queue for a connection is due again after this time. */
const UNCONNECTED_DELAY_MS = 60_000;

/** The final dot was written and the reply is not known, or the attempt was given up without a session. */
function cutResult(
  { session }: Progress,
  why: keyof typeof IN_DOUBT | 'given_up',
): Exclude<AttemptResult, { kind: 'unroutable' }> {
  const isGivenUp = why === 'given_up';
  const message = isGivenUp ? GIVEN_UP : IN_DOUBT[why];
  return {
    kind: 'failed',
    phase: isGivenUp ? 'connect' : 'data',
    cause: isGivenUp ? 'timeout' : 'closed',
    message,
    inDoubt: !isGivenUp,
    ...session,
    transcript: [`(${message})`],
  };
}

function adjustWindow(
  connections: Connections,
  provider: string,
  { source, outcome }: { source: string; outcome: Outcome },
): void {
  if (outcome.slowDown) connections.shrink(provider, source, outcome.smtp?.message ?? '');
  else if (outcome.status === 'delivered' || outcome.status === 'sent') {
    connections.grow(provider, source);
  }
}

/** `given_up`: by `Slots`, for want of room. */
type CutOff = 'unsent' | 'in_doubt' | 'given_up';

/** An attempt under way. `all`: also when its final dot is written. */
type Cuttable = { cut: (all: boolean) => void };

/**
 * How a stop ends the attempts under way. First it ends those that have not written the final dot: the
 * receiver does not have the message, and the next start sends it. Then it waits for the replies to
 * the others; those without a reply end in doubt.
 */
export class Cutoff {
  readonly #attempts = new LiveSet<Cuttable>();
  #stage: 'none' | 'unsent' | 'all' = 'none';

  /** No further final dot is written. */
  get isClosed(): boolean {
    return this.#stage !== 'none';
  }

  /** Ends the attempts that have not written the final dot. */
  cutUnsent(): void {
    this.#stage = 'unsent';
    for (const attempt of this.#attempts) attempt.cut(false);
  }

  cutAll(): void {
    this.#stage = 'all';
    for (const attempt of this.#attempts) attempt.cut(true);
  }

  /** The result of the attempt, or how the stop ended it. */
  async unlessCut<Result>(
    attempt: Promise<Result>,
    hasWrittenDot: () => boolean,
    signal?: AbortSignal,
  ): Promise<Result | CutOff> {
    const cut = Promise.withResolvers<CutOff>();
    const cuttable: Cuttable = {
      cut: (all) => {
        if (!hasWrittenDot()) cut.resolve('unsent');
        else if (all) cut.resolve('in_doubt');
      },
    };
    this.#attempts.add(cuttable);
    if (this.isClosed) cuttable.cut(this.#stage === 'all');
    const giveUp = (): void => {
      if (!hasWrittenDot()) cut.resolve('given_up');
    };
    signal?.addEventListener('abort', giveUp);
    if (signal?.aborted === true) giveUp();
    try {
      return await Promise.race([attempt, cut.promise]);
    } finally {
      this.#attempts.delete(cuttable);
      signal?.removeEventListener('abort', giveUp);
    }
  }
}
