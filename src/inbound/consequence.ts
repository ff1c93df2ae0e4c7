/**
 * What a report does to the recipient whose return path it came to: pure decisions, no I/O. What a bounce
 * means is decided in mail/reports/ (classify-report.ts).
 *
 * The token says whom it is about; the report only says what happened. A bounce and a complaint
 * count, and a confirmation where a relay took the email; a delay, an automatic reply and anything
 * else change nothing. A bounce makes the recipient `bounced` whatever the verdict says of trying again: the
 * server that took the email has given up, and the verdict only decides reason and suppression. What is suppressed is the address that we mailed, never one that a report
 * names.
 */
import type { StoredStatus } from '../core/statuses.ts';
import type { World } from '../core/world.ts';
import type { Report, ReportedRecipient } from '../mail/reports/read-report.ts';
import { COMPLAINT, reasonOf, type Verdict, verdictOf } from '../mail/replies/meanings.ts';
import type { SentRecipient } from '../store/inbound.ts';
import { newSettlement, type Settlement } from '../store/settle.ts';

/**
 * A forwarded email bounces in the name of another address: the forwarding is broken, the mailbox
 * that we know may be well.
 */
const OTHER_ADDRESS_SUPPRESSED_DAYS = 7;

type Change = {
  status: StoredStatus;
  reason: object | null;
  smtp: object | null;
  suppress: { reason: 'hard_bounce' | 'complaint'; days: number | null } | null;
  mailboxFull?: boolean;
};

export type Consequence = {
  settlement: Settlement;
  /** The mailbox was full, for good (store/suppressions.ts). */
  mailboxFull: boolean;
};

/** What is to be written; null: nothing changes. */
export function consequenceOf(
  report: Report,
  recipient: SentRecipient,
  world: Pick<World, 'newId'>,
): Consequence | null {
  const change = changeBy(report, recipient);
  if (change === null) return null;
  return {
    settlement: newSettlement(recipient, change, world, AFTER_DELIVERY),
    mailboxFull: change.mailboxFull ?? false,
  };
}

/** A report settles a recipient that no worker holds any more. */
const AFTER_DELIVERY = {
  claim: 0,
  attempt: null,
  retryMs: null,
  provider: '',
  late: true,
} as const;

function changeBy(report: Report, recipient: SentRecipient): Change | null {
  switch (report.kind) {
    case 'bounce':
      return bounced(report, recipient);
    case 'complaint':
      return {
        status: 'complained',
        reason: { ...COMPLAINT },
        smtp: null,
        suppress: { reason: 'complaint', days: null },
      };
    case 'delivered':
      return { status: 'delivered', reason: null, smtp: null, suppress: null };
    case 'delay':
    case 'auto_reply':
    case 'other':
      return null;
  }
}

function bounced({ recipients }: Report, { address }: SentRecipient): Change {
  const isOurs = ({ recipient }: ReportedRecipient) =>
    recipient === null || recipient.toLowerCase() === address.toLowerCase();
  // Of several none of which is ours, the one that does least.
  const reported =
    recipients.find(isOurs) ??
    recipients.find(({ verdict }) => verdict?.suppress !== true) ??
    recipients[0];
  const verdict = reported?.verdict ?? WITHOUT_REASON;
  const aboutOurs = reported === undefined || isOurs(reported);
  return {
    status: 'bounced',
    reason: reasonOf(verdict),
    smtp: {
      code: reported?.code ?? null,
      enhanced_code: reported?.status ?? null,
      message: reported?.diagnostic ?? '',
      mx: null,
      ip: null,
      tls: null,
      tls_policy: null,
    },
    suppress: suppressionBy(verdict, aboutOurs),
    mailboxFull: verdict.mailboxFull === true && aboutOurs,
  };
}

const WITHOUT_REASON = verdictOf('returned_without_reason', { saidPermanent: true });

function suppressionBy(verdict: Verdict, isOurs: boolean): Change['suppress'] {
  if (!verdict.suppress) return null;
  const days = verdict.suppressDays ?? null;
  if (isOurs) return { reason: 'hard_bounce', days };
  return { reason: 'hard_bounce', days: Math.min(days ?? Infinity, OTHER_ADDRESS_SUPPRESSED_DAYS) };
}
