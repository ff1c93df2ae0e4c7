/** Recipients of an email by equal status and reason, trouble first, so that a reason is read once. */
import type { Email, Recipient } from '../../../../../sdk/src/api.ts';

export type RecipientGroup = {
  key: string;
  status: Recipient['status'];
  /** The first one's; equal for all but the wording of the reply. */
  reason: Recipient['reason'];
  smtp: Recipient['smtp'];
  recipients: Recipient[];
};

/** Statuses that need the reader come first. */
const ORDER: readonly Recipient['status'][] = [
  'complained',
  'bounced',
  'failed',
  'suppressed',
  'deferred',
  'sending',
  'queued',
  'scheduled',
  'canceled',
  'sent',
  'delivered',
];
const HAS_THE_EMAIL: ReadonlySet<string> = new Set(['delivered', 'sent']);

export function groupRecipients({ recipients }: Pick<Email, 'recipients'>): RecipientGroup[] {
  const groups = new Map<string, RecipientGroup>();
  for (const recipient of recipients) {
    const { status, reason, smtp } = recipient;
    const key = keyOf(recipient);
    const known = groups.get(key);
    if (known) known.recipients.push(recipient);
    else groups.set(key, { key, status, reason, smtp, recipients: [recipient] });
  }
  return [...groups.values()].toSorted(
    (one, other) => ORDER.indexOf(one.status) - ORDER.indexOf(other.status),
  );
}

/** Servers word the same reply with an id of their own, so the text does not count. */
function keyOf({ status, reason, smtp }: Recipient): string {
  if (HAS_THE_EMAIL.has(status)) return status;
  return [status, reason?.advice, smtp?.code, smtp?.enhanced_code].join('|');
}

export function hasTheEmail({ status }: Pick<Recipient, 'status'>): boolean {
  return HAS_THE_EMAIL.has(status);
}

/** "451 4.7.0", or null without a reply. */
export function codesOf(smtp: Recipient['smtp']): string | null {
  return [smtp?.code, smtp?.enhanced_code].filter((part) => part != null).join(' ') || null;
}

/** The two halves of an advice: what is wrong, and what to do, or null where there is nothing to do. */
export function splitAdvice(advice: string): { cause: string; remedy: string | null } {
  const [, cause = advice, remedy] = /^(.*?)[:;] (.*)$/s.exec(advice) ?? [];
  const text = cause.replace(/\.$/, '');
  return {
    cause: /^[A-Z][a-z' ]/.test(text) ? text.charAt(0).toLowerCase() + text.slice(1) : text,
    remedy: remedy === undefined ? null : remedy.charAt(0).toUpperCase() + remedy.slice(1),
  };
}
