/**
 * Mails the operator about conditions (core/operator-events.ts). A worker sends this as ordinary live mail.
 *
 * Each poll plans the due mails (operator-mail-store.ts), has them accepted under an idempotency key, and then takes
 * them off the queue. When a worker dies in between, the next poll of any worker repeats the request, which is
 * recognised as a repetition. While no mail can be accepted everything waits, and the condition `operator.unreachable`
 * has the reason.
 */
import type { Logger } from 'pino';
import type { Config } from '../config/config.ts';
import { CONDITION_LAPSES_AFTER_MS, type OperatorEvents } from '../core/operator-events.ts';
import type { UnreadyCode } from '../core/unready.ts';
import { isRefusal } from '../core/refusals.ts';
import type { World } from '../lib/world.ts';
import { type Address, domainOf, formatMailbox } from '../mail/address.ts';
import { type AcceptEmail, acceptOwnMail } from '../accept/accept.ts';
import type { AcceptResult } from '../accept/accept-results.ts';
import { parseDraft } from '../accept/draft.ts';
import {
  deletePlannedMail,
  findOperatorSender,
  hasQueuedOperatorMail,
  NOT_MAILED,
  findOrCreateMailKey,
  type OperatorSender,
  type PlannedMail,
  listPlannedMail,
  planOperatorMail,
} from './operator-mail-store.ts';
import { type Database, DatabaseUnavailable } from '../database/database.ts';
import { composeOperatorMail } from './operator-mail-text.ts';

const POLL_EVERY_MS = 2_000;
/** Milliseconds between checks whether mail could be sent, while none is queued. */
const SENDER_CHECK_EVERY_MS = 60_000;
const REPORTS_SHOWN_MAX = 50;
/**
 * In these states other mail is refused, to keep space for outcomes or because nothing can be signed. Mail about these
 * states, a few kilobytes an hour, is accepted.
 */
const ACCEPTED_IN_STATES: readonly UnreadyCode[] = ['disk_full', 'database_full', 'secret_key'];
const TEMPORARY_REFUSALS = new Set(['rate_limit_error', 'service_unavailable']);

const CONDITION = { type: NOT_MAILED, subject: 'mail to the operator' } as const;

type Problem = { message: string; remedy: string };

const REMEDY = 'Reports wait in the queue meanwhile; letterhaus attention lists open conditions.';

const NO_DOMAIN: Problem = {
  message: 'Mail to the operator cannot be sent: no live domain is verified, or all are paused.',
  remedy: `Add and verify a domain (letterhaus domains add). ${REMEDY}`,
};

type OperatorMailOptions = {
  db: Database;
  config: Pick<Config, 'hostname' | 'allowPrivateNetworks'>;
  to: Address;
  /** null for postmaster at the sending domain. */
  from: Config['operatorFrom'];
  /** Accepts an email without the refusals of readiness. */
  accept: AcceptEmail;
  /** Current reasons why mail is not accepted. */
  unready: () => readonly { code: UnreadyCode }[];
  operatorEvents: OperatorEvents;
  world: Pick<World, 'monotonicMs'>;
  log: Pick<Logger, 'warn' | 'info'>;
};

export class OperatorMail {
  readonly #options: OperatorMailOptions;
  #timer: NodeJS.Timeout | undefined;
  #polling: Promise<void> = Promise.resolve();
  #isStopped = true;
  #senderCheckedAtMs = -Infinity;
  #hasFailed = false;

  constructor(options: OperatorMailOptions) {
    this.#options = options;
  }

  start(): void {
    if (!this.#isStopped) return;
    this.#isStopped = false;
    this.#schedulePoll(0);
  }

  async stop(): Promise<void> {
    this.#isStopped = true;
    clearTimeout(this.#timer);
    await this.#polling;
  }

  #schedulePoll(waitMs: number): void {
    if (this.#isStopped) return;
    this.#timer = setTimeout(() => {
      this.#polling = this.#sendDueMail()
        .then(() => void (this.#hasFailed = false))
        .catch((error: unknown) => this.#logFailure(error))
        .finally(() => this.#schedulePoll(POLL_EVERY_MS));
    }, waitMs).unref();
  }

  /** Logs a lasting failure once. */
  #logFailure(error: unknown): void {
    if (error instanceof DatabaseUnavailable || this.#hasFailed) return;
    this.#hasFailed = true;
    this.#options.log.warn({ err: error }, 'mail to the operator failed; the next poll retries it');
  }

  async #sendDueMail(): Promise<void> {
    const { db, from, to, unready, world, operatorEvents } = this.#options;
    if (unready().some(({ code }) => !ACCEPTED_IN_STATES.includes(code))) return;
    const nowMs = world.monotonicMs();
    const isSenderChecked = nowMs - this.#senderCheckedAtMs < SENDER_CHECK_EVERY_MS;
    if (isSenderChecked && !(await hasQueuedOperatorMail(db))) return;
    this.#senderCheckedAtMs = nowMs;
    const domain = from === null ? null : domainOf(from.address);
    const sender = await findOperatorSender(db, { domain, to });
    const problem = senderProblem(sender, domain);
    if (sender === null || problem !== null) return this.#raise(problem ?? NO_DOMAIN);
    await planOperatorMail(db);
    for (const mail of await listPlannedMail(db, REPORTS_SHOWN_MAX)) {
      const result = await this.#send(mail, sender);
      if (result.kind === 'refused') return this.#reportRefusal(result);
      await deletePlannedMail(db, mail.id);
    }
    operatorEvents.clear(CONDITION);
  }

  async #send(mail: PlannedMail, sender: OperatorSender): Promise<AcceptResult> {
    const { db, config, to, from, accept, log } = this.#options;
    const { subject, text } = composeOperatorMail(mail, config.hostname);
    const input = {
      from: from === null ? `Letterhaus <postmaster@${sender.domain}>` : formatMailbox(from),
      to,
      subject,
      text,
      headers: { 'Auto-Submitted': 'auto-generated' },
    };
    const { allowPrivateNetworks } = config;
    const draft = parseDraft(input, { environment: 'live', allowPrivateNetworks });
    if (isRefusal(draft)) return { kind: 'refused', ...draft };
    const keyId = await findOrCreateMailKey(db, sender);
    const name = `operator-mail-${mail.id}`;
    const result = await acceptOwnMail(accept, { ...sender, keyId }, { draft, name });
    if (result.kind === 'accepted') {
      log.info({ event: mail.kind, reports: mail.total }, 'mail to the operator was accepted');
    }
    return result;
  }

  #reportRefusal({ refused, message }: Extract<AcceptResult, { kind: 'refused' }>): void {
    if (TEMPORARY_REFUSALS.has(refused)) return;
    this.#raise({ message: `Mail to the operator is refused: ${message}`, remedy: REMEDY });
  }

  #raise(problem: Problem): void {
    this.#options.operatorEvents.raise({
      ...CONDITION,
      ...problem,
      lapsesAfterMs: CONDITION_LAPSES_AFTER_MS,
    });
  }
}

function senderProblem(sender: OperatorSender | null, domain: string | null): Problem | null {
  if (sender === null) {
    if (domain === null) return NO_DOMAIN;
    return {
      message: `Mail to the operator cannot be sent: ${domain} is no verified live domain, or is paused.`,
      remedy: `Verify it (letterhaus domains verify ${domain}), or change LETTERHAUS_OPERATOR_FROM. ${REMEDY}`,
    };
  }
  if (!sender.isSuppressed) return null;
  return {
    message: `Mail to the operator cannot be sent: its address is on the suppression list of the project that has ${sender.domain}.`,
    remedy: `Remove it (letterhaus suppressions remove <address> --project ${sender.projectId}), or change LETTERHAUS_OPERATOR_ADDRESS. ${REMEDY}`,
  };
}
