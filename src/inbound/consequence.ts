/**
 * The effect of a report on the recipient whose return path received it. The return path identifies the recipient; the
 * content of the report never does. A report may have several results: the one about that recipient decides
 * (mail/reports/deciding-result.ts).
 *
 * - A bounce makes the recipient `bounced`, even if the reply was temporary: the server that accepted the
 *   email has given up. Its classification (mail/reports/classify-report.ts) decides the reason and the
 *   suppression.
 * - A complaint makes it `complained`.
 * - A delivery confirmation after a relay makes it `delivered`.
 * - All others change nothing. A sender who requested it is notified of a delay or a relay.
 *
 * The address that was mailed is suppressed, never an address from the report.
 */
import type { StoredStatus } from '../core/statuses.ts';
import type { World } from '../lib/world.ts';
import { decodeXtext } from '../mail/dsn-parameters.ts';
import { decidingResult, type DecidingResult } from '../mail/reports/deciding-result.ts';
import type { Report } from '../mail/reports/read-report.ts';
import { addressIn } from '../mail/reports/text-entries.ts';
import {
  COMPLAINT,
  reasonOf,
  type Classification,
  classificationOf,
} from '../mail/replies/meanings.ts';
import type { SentRecipient } from './report-store.ts';
import { newSettlement, type NewSuppression, type Settlement } from '../settle/settlement.ts';

/**
 * Days of suppression when the report names another address: the forwarding is broken, but the mailbox that was
 * mailed may work.
 */
const OTHER_ADDRESS_SUPPRESSED_DAYS = 7;

/** A report changes only a recipient that no worker claims. */
const AFTER_DELIVERY = {
  claim: 0,
  attempt: null,
  retryMs: null,
  provider: '',
  late: true,
} as const;

type Change = {
  status: StoredStatus;
  reason: object | null;
  smtp: object | null;
  suppress: NewSuppression | null;
  mailboxFull?: boolean;
};

export type Consequence = {
  settlement: Settlement;
  /** The mailbox was full at a permanent failure (suppressions/suppression-store.ts). */
  mailboxFull: boolean;
};

export function consequenceOf(
  report: Report,
  recipient: SentRecipient,
  world: Pick<World, 'newId'>,
): Consequence | null {
  const change = changeOf(report, recipient);
  if (change === null) return null;
  return {
    settlement: newSettlement(recipient, change, world, AFTER_DELIVERY),
    mailboxFull: change.mailboxFull ?? false,
  };
}

/**
 * Returns a result that changes no status, for a sender who requested it. It is a delay, or a relay: a server without
 * DSN has the message now and will report nothing more (RFC 3464 §2.3.3). Returns null for other reports.
 */
export function interimResultOf(
  report: Report,
  recipient: SentRecipient,
  world: Pick<World, 'newId'>,
): Settlement | null {
  const deciding = decidingResult(report, recipient.address, orcptOf(recipient));
  if (deciding === null) return null;
  const { kind, reported } = deciding;
  const facts = { reason: null, smtp: smtpOf(reported), suppress: null };
  if (kind === 'delay') {
    return newSettlement(recipient, { status: 'deferred', ...facts }, world, AFTER_DELIVERY);
  }
  if (reported?.isRelayed !== true) return null;
  const relayed = { status: 'delivered', nextServer: 'relayed', ...facts } as const;
  return newSettlement(recipient, relayed, world, AFTER_DELIVERY);
}

function orcptOf({ address, email: { dsn } }: SentRecipient): string | null {
  const orcpt = dsn?.kind === 'request' ? dsn.recipients[address]?.orcpt : null;
  return orcpt == null ? null : addressIn(decodeXtext(orcpt));
}

function changeOf(report: Report, recipient: SentRecipient): Change | null {
  if (report.kind === 'complaint') {
    return {
      status: 'complained',
      reason: { ...COMPLAINT },
      smtp: null,
      suppress: { reason: 'complaint', days: null },
    };
  }
  const deciding = decidingResult(report, recipient.address, orcptOf(recipient));
  if (deciding?.kind === 'bounce') return bounceChange(deciding);
  if (deciding?.kind !== 'delivered') return null;
  return { status: 'delivered', reason: null, smtp: null, suppress: null };
}

function bounceChange({ reported, isAboutOurs }: DecidingResult): Change {
  const classification = reported?.classification ?? WITHOUT_REASON;
  return {
    status: 'bounced',
    reason: reasonOf(classification),
    smtp: smtpOf(reported),
    suppress: suppressionBy(classification, isAboutOurs),
    mailboxFull: classification.mailboxFull === true && isAboutOurs,
  };
}

function smtpOf(reported: DecidingResult['reported']): object {
  return {
    code: reported?.code ?? null,
    enhanced_code: reported?.status ?? null,
    message: reported?.diagnostic ?? '',
    mx: null,
    ip: null,
    tls: null,
    tls_policy: null,
  };
}

const WITHOUT_REASON = classificationOf('returned_without_reason', { isPermanent: true });

function suppressionBy(classification: Classification, isOurs: boolean): Change['suppress'] {
  if (!classification.suppress) return null;
  const days = classification.suppressDays ?? null;
  if (isOurs) return { reason: 'hard_bounce', days };
  return { reason: 'hard_bounce', days: Math.min(days ?? Infinity, OTHER_ADDRESS_SUPPRESSED_DAYS) };
}
