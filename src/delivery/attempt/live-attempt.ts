/**
 * One attempt to deliver live mail to one recipient: signed bytes, hosts with TLS rules, session and outcome.
 *
 * The steps are delivery/message/message-builder.ts (bytes), delivery/route/mail-routing.ts (hosts),
 * delivery/route/tls-rules.ts (rules), hosts.ts (sessions and transactions) and outcome.ts (outcome). cutoff.ts ends
 * it at a stop. No outcome is stored here.
 *
 * Guarantee: the final dot is sent only with a SendPermission. After the dot the attempt always ends with an outcome,
 * even after an error. Before it the delivery may be released.
 */
import type { Logger } from 'pino';
import type { World } from '../../lib/world.ts';
import { domainOf, needsSmtpUtf8 } from '../../mail/address.ts';
import { dsnParametersFor } from '../../mail/dsn-parameters.ts';
import type { NextServer } from '../../mail/notice.ts';
import { makeReturnPath } from '../../mail/links/return-path.ts';
import type { MailHosts } from '../../net/dns/mx.ts';
import { refusalSubject } from '../../mail/replies/refusal-subject.ts';
import type { Transaction } from '../../net/smtp/client.ts';
import { lacksSmtpUtf8 } from '../../net/smtp/client-transaction.ts';
import { deferredByBlock } from '../blocks/block-outcomes.ts';
import type { AttemptBlocks } from '../blocks/attempt-blocks.ts';
import type { ProviderBlocks } from '../blocks/provider-blocks.ts';
import type { Delivery } from '../memory/delivery.ts';
import type { MailRouting } from '../route/mail-routing.ts';
import type { TlsRules, TlsRequest } from '../route/tls-rules.ts';
import { PhaseTimer } from './phase-timer.ts';
import type { SmtpConnections, Unavailable } from '../shaping/smtp-connections.ts';
import type { ContentMemory } from '../memory/content-memory.ts';
import type { CutAttempt, Cutoff } from './cutoff.ts';
import { providerAt, tryHosts } from './hosts.ts';
import {
  ASCII_FORM,
  assertUnchanged,
  DEFAULT_FORM,
  canBeAscii,
  type MessageBuilder,
  type MessageForm,
  type SignedMessage,
} from '../message/message-builder.ts';
import {
  attemptRecord,
  type AttemptResult,
  type Disposition,
  isUnanswered,
  type Outcome,
  outcomeOf,
} from './outcome.ts';
import type { AttemptContext } from './attempt-context.ts';
import { SendPermission, type SendPermissionOptions } from './send-permission.ts';

export type AttemptOptions = SendPermissionOptions & {
  world: World;
  log: Logger;
  builder: Pick<MessageBuilder, 'build'>;
  contents: Pick<ContentMemory, 'use' | 'unavailable'>;
  mailRouting: Pick<MailRouting, 'findRoute'>;
  tls: TlsRules;
  connections: SmtpConnections;
  blocks: Pick<ProviderBlocks, 'forAttempt' | 'blockOf'>;
  /** True with a relay, where a 250 means `sent`, not `delivered`. */
  viaRelay: boolean;
  /** Minimum TLS for every email; `enforced` with a relay, whose password must only reach a verified server. */
  leastTls: 'opportunistic' | 'enforced';
  /** True when this service receives reports at return paths, so other servers can be asked for them. */
  takesReports: boolean;
  /** Returns the 32-byte key that signs return paths. */
  returnPathSecret: () => Buffer;
};

type RoutedResult = Exclude<AttemptResult, { kind: 'unroutable' }>;
/** An attempt that ended without a result. `broken`: an error of the service after the final dot. */
type AttemptWithoutResult = CutAttempt | 'broken';

/** The facts of the attempt so far, which remain when it is ended without a result. */
type Progress = AttemptContext['progress'] & {
  message: SignedMessage | null;
  hosts: MailHosts | null;
  /** Set when a large message was loaded; its content is no longer in memory. */
  largeHasAsciiForm: boolean;
};

const NO_SERVER: Progress['server'] = {
  via: { mx: null, ip: null, tls: null, tls_policy: 'none' },
  source: '',
};

const WITHOUT_REPLY = {
  in_doubt: 'The service stopped before the server replied to the final dot.',
  broken: 'An error of the service lost the reply of the server to the final dot.',
  given_up:
    'The server was silent, and too many other messages of the project waited for silent servers.',
} as const;

/**
 * Milliseconds until a delivery is due again that was given up during a look-up or while it waited for a
 * connection.
 */
const UNCONNECTED_DELAY_MS = 60_000;

export function attemptLive(
  delivery: Delivery,
  cutoff: Cutoff,
  options: AttemptOptions,
): Promise<Disposition> {
  return new LiveAttempt(delivery, cutoff, options).run();
}

class LiveAttempt {
  readonly #delivery: Delivery;
  readonly #cutoff: Cutoff;
  readonly #options: AttemptOptions;
  readonly #permission: SendPermission;
  readonly #blocks: AttemptBlocks;
  readonly #progress: Progress;
  readonly #startedAt: Date;
  readonly #phases: PhaseTimer;

  constructor(delivery: Delivery, cutoff: Cutoff, options: AttemptOptions) {
    const { world, blocks } = options;
    this.#delivery = delivery;
    this.#cutoff = cutoff;
    this.#options = options;
    this.#permission = new SendPermission(delivery, cutoff, options);
    this.#blocks = blocks.forAttempt(delivery);
    const startedMs = world.monotonicMs();
    this.#progress = {
      startedMs,
      server: NO_SERVER,
      message: null,
      hosts: null,
      largeHasAsciiForm: false,
    };
    this.#startedAt = new Date(world.now());
    this.#phases = new PhaseTimer(world);
  }

  async run(): Promise<Disposition> {
    try {
      const result = await this.#sendUnlessCut();
      return await this.#blocks.applyBlocks(this.#dispositionAfter(result));
    } catch (error) {
      await this.#blocks.abandonProbes();
      throw error;
    }
  }

  async #sendUnlessCut(): Promise<AttemptResult | Unavailable | AttemptWithoutResult> {
    const hasSentDot = (): boolean => this.#permission.hasGrantedDot;
    const { message, slot } = this.#delivery;
    try {
      return await this.#cutoff.untilCut(this.#buildAndSend(), hasSentDot, slot?.signal);
    } catch (error) {
      if (!hasSentDot()) throw error;
      // A bug. It counts as an attempt, so that retries follow the schedule and end.
      this.#options.log.error(
        { err: error, email_id: message.id },
        'an attempt failed with an error after the final dot; it is settled as in doubt',
      );
      return 'broken';
    }
  }

  #dispositionAfter(result: AttemptResult | Unavailable | AttemptWithoutResult): Disposition {
    if (result === 'unsent') return { kind: 'release', delayMs: 0 };
    if (result === 'given_up' && this.#delivery.slot?.isConnecting !== true) {
      return { kind: 'release', delayMs: UNCONNECTED_DELAY_MS };
    }
    if (typeof result === 'string') return this.#settlementOf(this.#resultWithoutReply(result));
    if (result.kind === 'unavailable') return dispositionOfUnavailable(result);
    // Nothing was sent. The next claim retries it, or settles it as suppressed or failed.
    if (result.kind === 'failed' && result.cause === 'withheld') {
      return { kind: 'release', delayMs: 0 };
    }
    return this.#settlementOf(result);
  }

  /** Returns the result of an attempt without a reply to the final dot, or of one given up without a session. */
  #resultWithoutReply(attempt: Exclude<AttemptWithoutResult, 'unsent'>): RoutedResult {
    const isInDoubt = attempt !== 'given_up';
    const message = WITHOUT_REPLY[attempt];
    return {
      kind: 'failed',
      phase: isInDoubt ? 'data' : 'connect',
      cause: isInDoubt ? 'closed' : 'timeout',
      message,
      inDoubt: isInDoubt,
      ...this.#progress.server,
      transcript: [`(${message})`],
    };
  }

  #settlementOf(result: AttemptResult): Disposition {
    const { world, viaRelay } = this.#options;
    const { startedMs, message } = this.#progress;
    const outcome = outcomeOf(result, viaRelay ? 'sent' : 'delivered');
    if (this.#delivery.message.dsn !== undefined) outcome.nextServer = this.#nextServerOf(result);
    this.#recordForProvider(result, outcome);
    const durationMs = world.monotonicMs() - startedMs;
    const { times: phases } = this.#phases;
    const facts = { message, startedAt: this.#startedAt, durationMs, phases };
    const attempt = attemptRecord(this.#delivery, result, facts);
    return { kind: 'settle', outcome, attempt, startedMs, isUnanswered: isUnanswered(result) };
  }

  /** Returns `passed_on` if the server reports success itself: it has DSN, and this service receives reports. */
  #nextServerOf(result: AttemptResult): NextServer {
    const reportsSuccess = result.kind === 'replied' && result.hasDsn === true;
    return reportsSuccess && this.#options.takesReports ? 'passed_on' : 'relayed';
  }

  /** Records the outcome in the limits and blocks of the provider. */
  #recordForProvider(result: AttemptResult, outcome: Outcome): void {
    const { connections } = this.#options;
    const { hosts } = this.#progress;
    if (result.kind === 'unroutable') {
      if (result.noHosts.kind === 'temporary') {
        connections.uplink.reportUnresolved(this.#delivery.provider);
      }
      return;
    }
    if (hosts?.kind !== 'hosts') return;
    const provider = providerAt(hosts, result.via.mx);
    adjustWindow(connections, { provider, source: result.source }, outcome);
    if (result.kind !== 'replied') return;
    const refusedKind = refusalSubject(result, domainOf(this.#delivery.message.from.address));
    this.#blocks.noteReply({ provider, source: result.source, ip: result.via.ip, refusedKind });
  }

  async #buildAndSend(): Promise<AttemptResult | Unavailable> {
    const { builder, contents, mailRouting, tls, leastTls } = this.#options;
    const { destination, content, message: head } = this.#delivery;
    const lackOfMemory = content === null ? contents.unavailable(this.#delivery) : null;
    if (lackOfMemory !== null) return lackOfMemory;
    this.#phases.begin();
    const [message, hosts, sts] = await Promise.all([
      content && builder.build(content, this.#delivery),
      mailRouting.findRoute(destination),
      tls.policyOf(destination),
    ]);
    this.#phases.end('dns');
    Object.assign(this.#progress, { message, hosts });
    const demand = leastTls === 'enforced' ? 'enforced' : (head.tls ?? 'opportunistic');
    const tlsRequest = { destination, demand, sts } as const;
    const result = await this.#sendTo(hosts, tlsRequest, DEFAULT_FORM);
    if (lacksSmtpUtf8(result)) {
      return this.#mayRetryInAscii() ? this.#sendTo(hosts, tlsRequest, ASCII_FORM) : result;
    }
    if (result.kind !== 'failed' || result.cause !== 'tls') return result;
    const newerPolicy = await tls.newerPolicy(tlsRequest);
    if (newerPolicy === null) return result;
    return this.#sendTo(hosts, { ...tlsRequest, ...newerPolicy }, DEFAULT_FORM);
  }

  #mayRetryInAscii(): boolean {
    const { content } = this.#delivery;
    return content === null
      ? this.#progress.largeHasAsciiForm
      : canBeAscii(content, this.#delivery);
  }

  async #sendTo(
    hosts: MailHosts,
    tlsRequest: TlsRequest,
    form: MessageForm,
  ): Promise<AttemptResult | Unavailable> {
    const { tls, connections, world } = this.#options;
    this.#phases.begin();
    const tlsRules = await tls.forAttempt(hosts, tlsRequest);
    this.#phases.end('dns');
    const transaction = this.#newTransaction();
    const message = await this.#messageIn(form);
    if (message !== null) putMessage(transaction, message);
    return tryHosts(hosts, connections, {
      ...tlsRules,
      transaction,
      withMessage: message === null ? this.#loaderFor(transaction, form) : null,
      untilExpiryMs: this.#delivery.expiresAtMs - world.monotonicMs(),
      progress: this.#progress,
      checkServer: this.#blocks.checkServer.bind(this.#blocks),
      slot: this.#delivery.slot,
      phases: this.#phases,
    });
  }

  /** Returns the message of this attempt in the form, or null when it is large and is loaded for a ready server. */
  async #messageIn(form: MessageForm): Promise<SignedMessage | null> {
    const { content } = this.#delivery;
    if (content === null) return null;
    if (form !== DEFAULT_FORM) {
      this.#progress.message = await this.#options.builder.build(content, this.#delivery, form);
    }
    return this.#progress.message;
  }

  #newTransaction(): Transaction {
    const { address, message } = this.#delivery;
    return {
      envelopeFrom: this.#returnPath(),
      recipient: address,
      message: [],
      smtpUtf8: needsSmtpUtf8(address),
      dsn: dsnParametersFor(message.dsn, address, this.#options),
      mayProceed: (step) => this.#permission.request(step),
    };
  }

  /** Returns a function that loads the content, sends the message, and drops it from memory. */
  #loaderFor(transaction: Transaction, form: MessageForm): AttemptContext['withMessage'] {
    const { builder, contents } = this.#options;
    return (send) =>
      contents.use(this.#delivery, async (content) => {
        const message = await builder.build(content, this.#delivery, form);
        putMessage(transaction, message);
        this.#progress.message = { ...message, parts: [] };
        this.#progress.largeHasAsciiForm = message.smtpUtf8 && canBeAscii(content, this.#delivery);
        return send().finally(() => (transaction.message = []));
      });
  }

  /** Returns the address for bounces (RFC 5321 §4.4). Its signed token names the recipient. */
  #returnPath(): string {
    const { message, position } = this.#delivery;
    // RFC 3461 §6.1: a notice has an empty return path.
    if (message.dsn?.kind === 'notice') return '';
    return makeReturnPath({
      emailId: message.id,
      position,
      domain: `send.${domainOf(message.from.address)}`,
      secret: this.#options.returnPathSecret(),
    });
  }
}

function putMessage(transaction: Transaction, message: SignedMessage): void {
  assertUnchanged(message);
  transaction.message = message.parts;
  transaction.smtpUtf8 ||= message.smtpUtf8;
  transaction.is8Bit = message.is8Bit;
}

function dispositionOfUnavailable({ delayMs, block }: Unavailable): Disposition {
  if (block === undefined) return { kind: 'release', delayMs: Math.ceil(delayMs) };
  return { kind: 'defer', outcome: deferredByBlock(block), delayMs: Math.ceil(delayMs) };
}

function adjustWindow(
  connections: SmtpConnections,
  { provider, source }: { provider: string; source: string },
  outcome: Outcome,
): void {
  if (outcome.slowDown) {
    const { code = null, enhanced_code: enhanced = null, message = '' } = outcome.smtp ?? {};
    const reply = [code, enhanced, message].filter((part) => part !== null).join(' ');
    connections.reportSlowdownReply(provider, source, reply);
  } else if (outcome.status === 'delivered' || outcome.status === 'sent') {
    connections.recordAccepted(provider, source);
  }
}
