/**
 * Sends the delivery notices that senders of submitted messages request (RFC 3461), as ordinary mail of the project
 * with the null reverse-path.
 *
 * Each check claims due notices (notices/notice-store.ts), has them accepted under an idempotency key, and then takes
 * them off the queue. When a worker dies in between, the next check of any worker repeats the request, which is
 * recognised as a repetition. Only senders at the project's own verified domains get notices, so that nobody can have
 * strangers mailed by naming them in an envelope. Notices request no notices.
 */
import type { Logger } from 'pino';
import { waitAtMost } from '../lib/at-most.ts';
import type { Config } from '../config/config.ts';
import { Overloaded, type RefusalCode } from '../core/refusals.ts';
import type { World } from '../lib/world.ts';
import { messageIdOf } from '../mail/compose.ts';
import { EMAIL_DEFAULTS } from '../mail/email.ts';
import { composeNotice, type NoticeFacts, noticeSender, NOTICE_SUBJECTS } from '../mail/notice.ts';
import { type AcceptEmail, acceptOwnMail } from '../accept/accept.ts';
import type { AcceptResult } from '../accept/accept-results.ts';
import type { EmailDraft } from '../accept/draft.ts';
import { AcceptedUnknown } from '../accept/store/lost-commits.ts';
import {
  loadMessages,
  messageIdIn,
  type StoredMessage,
} from '../delivery/message/message-store.ts';
import { claimNotices, type DueNotice, endNotice } from './notice-store.ts';
import { type Database, DatabaseUnavailable } from '../database/database.ts';
import { type Address, domainOf, type Mailbox } from '../mail/address.ts';

const POLL_EVERY_MS = 3_000;
const STOP_WITHIN_MS = 3_000;
const CLAIM_MAX = 20;
/** Space for signatures. */
const SIGNATURE_BYTES = 5_000;

/** Temporary refusals. After any other one, such as of a revoked key, nobody gets the notice. */
const TEMPORARY_REFUSALS = new Set<RefusalCode>([
  'rate_limit_error',
  'service_unavailable',
  'domain_not_verified',
]);

type NoticeSenderOptions = {
  db: Database;
  config: Pick<Config, 'hostname'>;
  accept: AcceptEmail;
  world: Pick<World, 'now' | 'newId'>;
  log: Pick<Logger, 'warn' | 'info'>;
};

export class NoticeSender {
  readonly #options: NoticeSenderOptions;
  #timer: NodeJS.Timeout | undefined;
  #polling: Promise<void> = Promise.resolve();
  #isStopped = true;
  #hasFailed = false;

  constructor(options: NoticeSenderOptions) {
    this.#options = options;
  }

  start(): void {
    if (!this.#isStopped) return;
    this.#isStopped = false;
    this.#schedulePoll(POLL_EVERY_MS);
  }

  /** Waits only briefly for a check that a silent database delays: its notices are claimed again. */
  async stop(): Promise<void> {
    this.#isStopped = true;
    clearTimeout(this.#timer);
    await waitAtMost(STOP_WITHIN_MS, this.#polling);
  }

  #schedulePoll(waitMs: number): void {
    if (this.#isStopped) return;
    this.#timer = setTimeout(() => {
      this.#polling = this.#sendDueNotices()
        .then((hasMore) => {
          this.#hasFailed = false;
          this.#schedulePoll(hasMore ? 0 : POLL_EVERY_MS);
        })
        .catch((error: unknown) => {
          this.#logFailure(error);
          this.#schedulePoll(POLL_EVERY_MS);
        });
    }, waitMs).unref();
  }

  /** Logs a lasting failure once. */
  #logFailure(error: unknown): void {
    const isExpected = [DatabaseUnavailable, Overloaded, AcceptedUnknown].some(
      (known) => error instanceof known,
    );
    if (isExpected || this.#hasFailed) return;
    this.#hasFailed = true;
    this.#options.log.warn(
      { err: error },
      'this worker could not send delivery notices; the next check retries them',
    );
  }

  /**
   * Sends due notices. One that fails waits for its next claim.
   * @returns whether there may be more
   */
  async #sendDueNotices(): Promise<boolean> {
    const due = await claimNotices(this.#options.db, CLAIM_MAX);
    const failures: unknown[] = [];
    for (const notice of due) {
      if (this.#isStopped) return false;
      await this.#send(notice).catch((error: unknown) => failures.push(error));
    }
    if (failures.length > 0) throw failures[0];
    return due.length === CLAIM_MAX;
  }

  async #send(notice: DueNotice): Promise<void> {
    const { db, log } = this.#options;
    const { projectId, environment, emailId, kind } = notice;
    const message = (await loadMessages(db, [{ projectId, environment, id: emailId }])).get(
      emailId,
    );
    const draft = message === undefined ? null : this.#composeDraft(notice, message);
    if (draft === null) return endNotice(db, notice);
    const result = await this.#accept(notice, draft);
    if (result.kind === 'refused' && TEMPORARY_REFUSALS.has(result.refused)) return;
    await endNotice(db, notice);
    const logFields = { email_id: emailId, project_id: projectId, notice: kind };
    if (result.kind === 'refused') {
      log.warn(
        { ...logFields, reason: result.message },
        'a delivery notice was refused and is not sent',
      );
    } else {
      log.info(logFields, 'a delivery notice was accepted for sending');
    }
  }

  /** Returns null when nobody may get the notice. */
  #composeDraft(notice: DueNotice, original: StoredMessage): EmailDraft | null {
    const { world, config } = this.#options;
    const { dsn: request, submitted } = original;
    if (request?.kind !== 'request' || request.sender === null || submitted === null) return null;
    if (!notice.isAllowed || notice.isTooOld) return null;
    const { facts, createdAt: at, recipient } = notice;
    const from = noticeSender(original.from);
    const to = request.sender;
    const emailId = world.newId();
    const messageId = messageIdOf(emailId, domainOf(from.address));
    const raw = composeNotice({
      facts,
      at,
      request,
      recipient,
      from,
      to,
      messageId,
      hostname: config.hostname,
      original: {
        raw: submitted.raw,
        messageId: messageIdIn(original),
        arrivedAt: original.createdAt,
        expiresAt: original.expiresAt,
      },
      now: new Date(world.now()),
    });
    return draftOf({ from, to, messageId, emailId, raw, action: facts.action });
  }

  #accept(notice: DueNotice, draft: EmailDraft): Promise<AcceptResult> {
    const { emailId, position, kind } = notice;
    const name = `notice-${emailId}-${position}-${kind}`;
    return acceptOwnMail(this.#options.accept, { ...notice, domain: null }, { draft, name });
  }
}

function draftOf(notice: {
  from: Mailbox;
  to: Address;
  messageId: string;
  emailId: string;
  raw: Buffer;
  action: NoticeFacts['action'];
}): EmailDraft {
  const { from, to, messageId, emailId, raw, action } = notice;
  return {
    email: {
      ...EMAIL_DEFAULTS,
      from,
      to: [{ name: null, address: to }],
      subject: NOTICE_SUBJECTS[action],
      text: '',
      tags: [{ name: 'letterhaus_notice', value: action }],
      submitted: { raw, messageId },
      dsn: { kind: 'notice' },
    },
    bcc: [],
    recipients: [{ kind: 'to', address: to }],
    emailId,
    scheduledAt: null,
    expiresInS: null,
    sizeBytes: raw.length + SIGNATURE_BYTES,
  };
}
