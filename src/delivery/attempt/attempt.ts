/**
 * One attempt to deliver live mail to one recipient: signed bytes, route with TLS rules, hosts in turn, and outcome.
 *
 * The steps are message.ts (bytes), delivery/route/mail-routing.ts (route), delivery/route/tls-rules.ts (rules),
 * hosts.ts (session and transaction) and outcome.ts (outcome). cutoff.ts ends it at a stop. No outcome is stored here.
 *
 * Guarantee: the final dot is sent only while this worker leases the delivery under a fresh lease, outcomes can be
 * stored, the address is not suppressed, and no stop has begun (`mayProceed`). After the dot the attempt always ends
 * with an outcome, even after an error. Before it the delivery may be released.
 */
import type { Logger } from 'pino';
import type { World } from '../../lib/world.ts';
import { domainOf, needsSmtpUtf8 } from '../../mail/address.ts';
import { parametersFor } from '../../mail/dsn-parameters.ts';
import type { NextServer } from '../../mail/notice.ts';
import { makeReturnPath } from '../../mail/links/return-path.ts';
import type { MailHosts } from '../../net/dns/mx.ts';
import { refusalSubject } from '../../mail/replies/blocks.ts';
import type { Transaction } from '../../net/smtp/client.ts';
import { lacksSmtpUtf8 } from '../../net/smtp/client-transaction.ts';
import type { Queryable } from '../../database/database.ts';
import { readStopReasons } from '../queue/queue-store.ts';
import type { SettleHealth } from '../../settle/health.ts';
import { deferredByBlock } from '../blocks/block-outcomes.ts';
import type { SmtpConnections, Unavailable } from '../shaping/smtp-connections.ts';
import type { Contents } from './contents.ts';
import type { Cutoff } from './cutoff.ts';
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
  DEFAULT_FORM,
} from './message.ts';
import {
  type Disposition,
  attemptRecord,
  type AttemptResult,
  isUnanswered,
  type Outcome,
  outcomeOf,
} from './outcome.ts';
import type { AttemptBlocks } from '../blocks/attempt-blocks.ts';
import type { ProviderBlocks } from '../blocks/provider-blocks.ts';
import type { TlsRules, TlsRequest } from '../route/tls-rules.ts';

export type AttemptOptions = {
  db: Queryable;
  world: World;
  log: Logger;
  lease: { holder(): string | null; isFresh(): boolean };
  builder: Pick<MessageBuilder, 'build'>;
  contents: Pick<Contents, 'use' | 'unavailable'>;
  mailRouting: Pick<MailRouting, 'findRoute'>;
  tls: TlsRules;
  connections: SmtpConnections;
  blocks: Pick<ProviderBlocks, 'forAttempt' | 'blockOf'>;
  settling: { health: Pick<SettleHealth, 'isStuck' | 'waitForRecovery'> };
  /** True with a relay, where a 250 means `sent`, not `delivered`. */
  viaRelay: boolean;
  /** Minimum TLS for every email; `enforced` with a relay, whose password must only reach a verified server. */
  leastTls: 'opportunistic' | 'enforced';
  /** True when this service receives reports at return paths, so other servers can be asked for them. */
  takesReports: boolean;
  /** Returns the 32-byte key that signs return paths. */
  returnPathSecret: () => Buffer;
};

type Progress = RouteAttempt['progress'] & {
  message?: SignedMessage;
  route?: MailHosts;
  hasAsciiForm?: boolean;
  hasSentDot: boolean;
};

const NO_SESSION: Progress['session'] = {
  via: { mx: null, ip: null, tls: null, tls_policy: 'none' },
  source: '',
};

export async function attemptLive(
  delivery: Delivery,
  cutoff: Cutoff,
  options: AttemptOptions,
): Promise<Disposition> {
  const visit = options.blocks.forAttempt(delivery);
  try {
    return await visit.applyBlocks(await attemptOnce(delivery, cutoff, { ...options, visit }));
  } catch (error) {
    await visit.abandonProbes();
    throw error;
  }
}

type VisitOptions = AttemptOptions & { visit: AttemptBlocks };

async function attemptOnce(
  delivery: Delivery,
  cutoff: Cutoff,
  options: VisitOptions,
): Promise<Disposition> {
  const { world, connections, log } = options;
  const startedMs = world.monotonicMs();
  const startedAt = new Date(world.now());
  const progress: Progress = { startedMs, session: NO_SESSION, hasSentDot: false };
  const sending = buildAndSend(delivery, options, { progress, cutoff });
  const ended = await cutoff
    .unlessCut(sending, () => progress.hasSentDot, delivery.slot?.signal)
    .catch((error: unknown) => {
      if (!progress.hasSentDot) throw error;
      // A bug. It counts as an attempt, so that retries follow the schedule and end.
      log.error(
        { err: error, email_id: delivery.message.id },
        'an attempt failed with an error after the final dot; it is settled as in doubt',
      );
      return 'broken' as const;
    });
  if (ended === 'unsent') return { kind: 'release', delayMs: 0 };
  if (ended === 'given_up' && delivery.slot?.isConnecting !== true) {
    return { kind: 'release', delayMs: UNCONNECTED_DELAY_MS };
  }
  const result = typeof ended === 'string' ? cutResult(progress, ended) : ended;
  if (result.kind === 'unavailable') return afterUnavailable(result);
  // Nothing was sent. The current holder of the recipient tries again, or settles why it was stopped.
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
    connections.uplink.reportUnresolved(delivery.provider);
  }
  const durationMs = world.monotonicMs() - startedMs;
  const attempt = attemptRecord(delivery, result, { message, startedAt, durationMs });
  return { kind: 'settle', outcome, attempt, startedMs, isUnanswered: isUnanswered(result) };
}

/** Returns `passed_on` if the server reports success itself: it has DSN, and this service receives reports. */
function nextServerOf(result: AttemptResult, { takesReports }: AttemptOptions): NextServer {
  return takesReports && result.kind === 'replied' && result.hasDsn === true
    ? 'passed_on'
    : 'relayed';
}

function afterUnavailable({ delayMs, block }: Unavailable): Disposition {
  if (block === undefined) return { kind: 'release', delayMs: Math.ceil(delayMs) };
  return { kind: 'defer', outcome: deferredByBlock(block), delayMs: Math.ceil(delayMs) };
}

function noteAnswer(
  visit: AttemptBlocks,
  result: Exclude<AttemptResult, { kind: 'unroutable' }>,
  { provider, delivery }: { provider: string; delivery: Delivery },
): void {
  if (result.kind !== 'replied') return;
  const about = refusalSubject(result, domainOf(delivery.message.from.address));
  visit.noteReply({ provider, source: result.source, ip: result.via.ip, about });
}

async function buildAndSend(
  delivery: Delivery,
  options: VisitOptions,
  { progress, cutoff }: { progress: Progress; cutoff: Cutoff },
): Promise<AttemptResult | Unavailable> {
  const { world, builder, connections, contents, leastTls } = options;
  const startedMs = world.monotonicMs();
  const { destination, content } = delivery;
  const unavailable = content === null ? contents.unavailable(delivery) : null;
  if (unavailable !== null) return unavailable;
  const [message, route, sts] = await Promise.all([
    content && builder.build(content, delivery),
    options.mailRouting.findRoute(destination),
    options.tls.policyOf(destination),
  ]);
  Object.assign(progress, { route, ...(message && { message }) });
  const untilExpiryMs = delivery.expiresAtMs - startedMs;
  const sendUnder = async (wanted: TlsRequest, form = DEFAULT_FORM) => {
    const tls = await options.tls.forAttempt(route, wanted);
    const transaction = transactionOf(delivery, options, { progress, cutoff });
    const isDefault = form === DEFAULT_FORM;
    const signed = isDefault ? message : content && (await builder.build(content, delivery, form));
    if (signed !== null) fill(transaction, signed, delivery);
    if (signed !== null && !isDefault) progress.message = signed;
    const withMessage =
      signed === null ? loadFor(transaction, delivery, { ...options, progress }, form) : null;
    const gate = options.visit.checkServer.bind(options.visit);
    const { slot } = delivery;
    const attempt = { transaction, withMessage, untilExpiryMs, progress, gate, slot };
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
 * Limit on the wait for the database before the final dot, because a crash before the outcome is stored repeats the
 * message. After this time the lease has expired anyway.
 */
const OUTCOMES_STORED_WITHIN_MS = 10_000;

/** Milliseconds after which suppression and removal of the sending domain are checked again. */
export const RECHECK_AFTER_MS = 2_000;

function transactionOf(
  delivery: Delivery,
  options: AttemptOptions,
  { progress, cutoff }: { progress: Progress; cutoff: Cutoff },
): Transaction {
  const { world, lease, settling } = options;
  const signal = delivery.slot?.signal;
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
        progress.hasSentDot = may && step === 'data';
        return may;
      };
      const { isStuck } = settling.health;
      const isLate = step === 'data' && world.monotonicMs() - progress.startedMs > RECHECK_AFTER_MS;
      // Checked before waiting: after a freeze the lease has expired, and the attempt ends at once.
      if (!isOurs() || (!isStuck && !isLate)) return decide();
      const waitAndDecide = async (): Promise<boolean> => {
        if (isStuck && !(await settling.health.waitForRecovery(OUTCOMES_STORED_WITHIN_MS)))
          return false;
        if (isLate && (await isStopped(delivery, options))) return false;
        return decide();
      };
      return waitAndDecide();
    },
  };
}

/** Returns whether the email must not be sent, or cannot be checked. The next claim settles the reason. */
function isStopped({ message, address }: Delivery, { db, log }: AttemptOptions): Promise<boolean> {
  return readStopReasons(db, { ...message, address }).then(
    ({ suppressed, domainDeleted }) => suppressed || domainDeleted,
    (error: unknown) => {
      log.warn(
        { err: error, email_id: message.id },
        'a message was not sent, because its recipient and domain could not be checked',
      );
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

/** Returns the address for bounces (RFC 5321 §4.4). Its signed token names the recipient. */
function returnPathOf(delivery: Delivery, { returnPathSecret }: AttemptOptions): string {
  // RFC 3461 §6.1: a notice has an empty return path.
  if (delivery.message.dsn?.kind === 'notice') return '';
  return makeReturnPath({
    emailId: delivery.message.id,
    position: delivery.position,
    domain: `send.${domainOf(delivery.message.from.address)}`,
    secret: returnPathSecret(),
  });
}

const IN_DOUBT = {
  in_doubt: 'The service stopped before the server answered the final dot.',
  broken: 'An error of the service lost the answer of the server to the final dot.',
} as const;

const GIVEN_UP =
  'The server was silent, and too many other messages of the project waited for silent servers.';
/**
 * Milliseconds until a delivery is due again that was given up during a look-up or while it waited for a
 * connection.
 */
const UNCONNECTED_DELAY_MS = 60_000;

/** Returns the result of an attempt without a reply to the final dot, or of one given up without a session. */
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
  connections: SmtpConnections,
  provider: string,
  { source, outcome }: { source: string; outcome: Outcome },
): void {
  if (outcome.slowDown)
    connections.reportSlowdownReply(provider, source, outcome.smtp?.message ?? '');
  else if (outcome.status === 'delivered' || outcome.status === 'sent') {
    connections.recordAccepted(provider, source);
  }
}
