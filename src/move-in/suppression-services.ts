/**
 * The suppression lists of other services, recognised by the names of their columns or members:
 *
 *     letterhaus   address (email), reason, created_at, expires_at: our own export, and lists of any origin
 *     resend       email, origin, created_at
 *     postmark     EmailAddress, SuppressionReason, Origin, CreatedAt
 *     sendgrid     email, created; bounces, blocks and invalid addresses: reason, status; spam reports: ip;
 *                  unsubscribes from a group: group_id
 *     mailgun      address, created_at; bounces: code, error; unsubscribes: tags
 *     amazon_ses   EmailAddress, Reason (BOUNCE, COMPLAINT), LastUpdateTime
 *
 * Bounces with the reply of a mail server are classified by our rules (`mail/replies`): only a reply that would
 * have suppressed the address here does so. Bounces without a reply are added if the service's list has only
 * permanent failures of mailboxes.
 */
import { explainAddress, parseAddress } from '../mail/address.ts';
import { MEANINGS } from '../mail/replies/meanings.ts';
import { classifyReported } from '../mail/reports/classify-report.ts';
import type { ImportedSuppression, SuppressionReason } from '../suppressions/suppression-store.ts';
import { COLUMNS_WITHOUT_NAMES, invalidTime, quoted, readRow, timeOf } from './csv.ts';
import { DAY_MS } from '../lib/units.ts';

export const IMPORT_FORMATS = [
  'letterhaus',
  'resend',
  'postmark',
  'sendgrid',
  'mailgun',
  'amazon_ses',
] as const;
export type ImportFormat = (typeof IMPORT_FORMATS)[number];

export const FORMAT_NAMES: Readonly<Record<ImportFormat, string>> = {
  letterhaus: 'Letterhaus',
  resend: 'Resend',
  postmark: 'Postmark',
  sendgrid: 'SendGrid',
  mailgun: 'Mailgun',
  amazon_ses: 'Amazon SES',
};

export const LEFT_OUT = {
  not_permanent:
    'The reply of the mail server does not say that the mailbox is gone, so it would not have suppressed the address here.',
  expired:
    'The domain did not exist at that time; such a suppression lasts 7 days here, and they have passed.',
  not_all_mail:
    'The recipient unsubscribed from a group or tag, not from all mail; give the reason unsubscribe to add these.',
} as const;
export type LeftOut = keyof typeof LEFT_OUT;

/** Text by names in lower case without separators; '' for empty values and for lists or objects. */
export type Fields = ReadonlyMap<string, string>;

/** Normalises a name, so that `Created At`, `created_at` and `CreatedAt` are equal. */
export function fieldName(name: string): string {
  return name.trim().toLowerCase().replaceAll(/[ _-]/g, '');
}

/** Names under which the services' APIs return their entries. */
const HOLDERS = new Set(['suppressions', 'suppresseddestinationsummaries', 'items', 'data']);

export function holdsEntries(name: string): boolean {
  return HOLDERS.has(fieldName(name));
}

export function fieldsOfJson(value: unknown): Fields | null {
  if (typeof value === 'string') return new Map([['address', value]]);
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return null;
  return new Map(Object.entries(value).map(([name, one]) => [fieldName(name), textOf(one)]));
}

function textOf(value: unknown): string {
  if (typeof value === 'string') return value.trim();
  if (typeof value === 'number') return String(value);
  if (Array.isArray(value)) return value.filter((one) => typeof one === 'string').join(',');
  return '';
}

export type ReadEntry =
  | (ImportedSuppression & {
      /** A rule of Letterhaus sets its end, not the file. */
      endsByRule?: boolean;
    })
  | { problem: string }
  | { leftOut: LeftOut };

export type Recognised =
  | { format: ImportFormat; read: (fields: Fields) => ReadEntry }
  /** The file does not say which of these reasons its entries state. */
  | { format: ImportFormat; reasons: readonly SuppressionReason[] };

type Options = {
  /** Reason of entries that state none; null when not given. */
  reason: SuppressionReason | null;
};

/** @returns null for an entry of no known list */
export function recognise(fields: Fields, { reason }: Options): Recognised | null {
  const format = formatOf(fields);
  switch (format) {
    case null:
      return null;
    case 'letterhaus':
      return { format, read: (entry) => readOwn(entry, reason ?? 'manual') };
    case 'postmark':
      return { format, read: readPostmark };
    case 'amazon_ses':
      return { format, read: readSes };
    case 'resend':
      return { format, read: readResend };
    case 'mailgun':
      return recogniseMailgun(fields, reason);
    case 'sendgrid':
      return recogniseSendGrid(fields, reason);
  }
}

export function formatOf(fields: Fields): ImportFormat | null {
  const has = (...names: string[]) => names.every((name) => fields.has(name));
  if (has('suppressionreason')) return 'postmark';
  if (has('emailaddress', 'reason') && isSes(fields)) return 'amazon_ses';
  if (has('email', 'origin')) return 'resend';
  if (has('email', 'created') || has('email', 'groupid')) return 'sendgrid';
  if (has('address') && isMailgun(fields)) return 'mailgun';
  if (has('address') || has('email') || has('emailaddress')) return 'letterhaus';
  return null;
}

function isSes(fields: Fields): boolean {
  return fields.has('lastupdatetime') || /^(BOUNCE|COMPLAINT)$/.test(fields.get('reason') ?? '');
}

function isMailgun(fields: Fields): boolean {
  if (fields.has('reason')) return false;
  if (fields.has('error') || fields.has('code') || fields.has('tags')) return true;
  return MAIL_TIME.test(fields.get('createdat') ?? '');
}

function readOwn(fields: Fields, reason: SuppressionReason): ReadEntry {
  const names = ['address', 'email', 'emailaddress'];
  const address = names.find((name) => fields.has(name)) ?? 'address';
  const cells = [address, 'reason', 'createdat', 'expiresat'].map((name) => fields.get(name) ?? '');
  return readRow(cells, COLUMNS_WITHOUT_NAMES, reason);
}

const RESEND_REASONS: Readonly<Record<string, SuppressionReason>> = {
  bounce: 'hard_bounce',
  complaint: 'complaint',
  manual: 'manual',
};

function readResend(fields: Fields): ReadEntry {
  const origin = fields.get('origin') ?? '';
  const reason = RESEND_REASONS[origin.toLowerCase()];
  if (reason === undefined) return unknownReason('origin', origin, Object.keys(RESEND_REASONS));
  return entryOf(fields, { address: 'email', time: 'createdat', reason });
}

const POSTMARK_REASONS = ['HardBounce', 'SpamComplaint', 'ManualSuppression'];

function readPostmark(fields: Fields): ReadEntry {
  const serviceReason = fields.get('suppressionreason') ?? '';
  const byRecipient = fields.get('origin')?.toLowerCase() === 'recipient';
  const reasons: Readonly<Record<string, SuppressionReason>> = {
    hardbounce: 'hard_bounce',
    spamcomplaint: 'complaint',
    // The recipient unsubscribed, or the customer or Postmark added the address.
    manualsuppression: byRecipient ? 'unsubscribe' : 'manual',
  };
  const reason = reasons[serviceReason.toLowerCase()];
  if (reason === undefined)
    return unknownReason('SuppressionReason', serviceReason, POSTMARK_REASONS);
  const address = ['emailaddress', 'recipientemail', 'recipient', 'email'].find((name) =>
    fields.has(name),
  );
  return entryOf(fields, { address: address ?? 'emailaddress', time: 'createdat', reason });
}

function readSes(fields: Fields): ReadEntry {
  const serviceReason = fields.get('reason') ?? '';
  const reasons: Readonly<Record<string, SuppressionReason>> = {
    bounce: 'hard_bounce',
    complaint: 'complaint',
  };
  const reason = reasons[serviceReason.toLowerCase()];
  if (reason === undefined) return unknownReason('Reason', serviceReason, ['BOUNCE', 'COMPLAINT']);
  return entryOf(fields, { address: 'emailaddress', time: 'lastupdatetime', reason });
}

function recogniseMailgun(fields: Fields, given: SuppressionReason | null): Recognised {
  const format = 'mailgun';
  const names = { address: 'address', time: 'createdat' };
  if (fields.has('code') || fields.has('error')) {
    const read = (entry: Fields) => {
      const error = entry.get('error') ?? '';
      // The list contains only permanent failures of mailboxes, some of them without a reply.
      if (error === '') return entryOf(entry, { ...names, reason: 'hard_bounce' });
      const code = entry.get('code') ?? '';
      const text = error.startsWith(code) ? error : `${code} ${error}`;
      return readBounce(entry, { ...names, text, status: null, given });
    };
    return { format, read };
  }
  if (fields.has('tags')) {
    const read = (entry: Fields): ReadEntry => {
      const tags = (entry.get('tags') ?? '').replaceAll(/[\s"'[\]]/g, '').split(/[,;]/);
      const isAll = tags.includes('*') || tags.every((tag) => tag === '');
      if (!isAll && given !== 'unsubscribe') return { leftOut: 'not_all_mail' };
      return entryOf(entry, { ...names, reason: 'unsubscribe' });
    };
    return { format, read };
  }
  if (given === null) return { format, reasons: ['complaint', 'unsubscribe'] };
  return { format, read: (entry) => entryOf(entry, { ...names, reason: given }) };
}

function recogniseSendGrid(fields: Fields, given: SuppressionReason | null): Recognised {
  const format = 'sendgrid';
  if (fields.has('groupid')) {
    const names = { address: 'email', time: 'createdat', reason: 'unsubscribe' as const };
    const leftOut = { leftOut: 'not_all_mail' as const };
    return { format, read: given === 'unsubscribe' ? (one) => entryOf(one, names) : () => leftOut };
  }
  const names = { address: 'email', time: 'created' };
  if (fields.has('reason') || fields.has('status')) {
    const read = (entry: Fields) => {
      const text = entry.get('reason') ?? '';
      const status = /^[45]\.\d{1,3}\.\d{1,3}$/.exec(entry.get('status') ?? '')?.[0] ?? null;
      return readBounce(entry, { ...names, text, status, given });
    };
    return { format, read };
  }
  const reason = fields.has('ip') ? 'complaint' : given;
  if (reason === null) return { format, reasons: ['complaint', 'unsubscribe'] };
  return { format, read: (entry) => entryOf(entry, { ...names, reason }) };
}

type Names = { address: string; time: string };

type Bounce = Names & {
  text: string;
  status: string | null;
  given: SuppressionReason | null;
};

/** With the reason hard_bounce given, a bounce with an unknown reply counts as one. */
function readBounce(fields: Fields, { text, status, given, ...names }: Bounce): ReadEntry {
  const { classification } = classifyReported({ texts: [text], status, isDelay: false });
  const isUnknown = classification.advice === MEANINGS.unknown_permanent.advice;
  if (!classification.suppress && !(isUnknown && given === 'hard_bounce')) {
    return { leftOut: 'not_permanent' };
  }
  const entry = entryOf(fields, { ...names, reason: 'hard_bounce' });
  if (classification.suppressDays === undefined || !('createdAt' in entry)) return entry;
  if (entry.createdAt === null) return { leftOut: 'expired' };
  const expiresAt = new Date(entry.createdAt.getTime() + classification.suppressDays * DAY_MS);
  return { ...entry, expiresAt, endsByRule: true };
}

function entryOf(
  fields: Fields,
  { address: name, time, reason }: Names & { reason: SuppressionReason },
): ImportedSuppression | { problem: string } {
  const raw = fields.get(name) ?? '';
  if (raw.includes('\u{fffd}')) return { problem: 'The address is not in UTF-8' };
  const address = parseAddress(raw);
  if (address === null) return { problem: explainAddress(raw) };
  const createdAt = timeOfService(fields.get(time) ?? '');
  if (createdAt === 'wrong') return { problem: invalidTime(time, fields.get(time) ?? '') };
  return { address, reason, createdAt, expiresAt: null };
}

/** RFC 5322, the time format of Mailgun. */
const MAIL_TIME =
  /^(?:[A-Za-z]{3}, *)?(\d{1,2}) ([A-Za-z]{3}) (\d{4}) (\d\d:\d\d(?::\d\d)?) (UTC|GMT|[+-]\d{4})$/;
/** Seconds since 1970, the time format of SendGrid and older clients of Amazon. */
const UNIX_TIME = /^\d{1,10}(?:\.\d{1,9})?$/;
const MONTHS = ['jan', 'feb', 'mar', 'apr', 'may', 'jun', 'jul', 'aug', 'sep', 'oct', 'nov', 'dec'];

function timeOfService(text: string): Date | 'wrong' | null {
  if (UNIX_TIME.test(text)) return new Date(Number(text) * 1_000);
  const [, day = '', month = '', year, clock, zone = ''] = MAIL_TIME.exec(text) ?? [];
  if (year === undefined) return timeOf(text);
  // Mailgun writes this year when an entry has no time.
  if (year === '0001') return null;
  const number = String(MONTHS.indexOf(month.toLowerCase()) + 1).padStart(2, '0');
  const offset = /\d/.test(zone) ? zone : 'Z';
  return timeOf(`${year}-${number}-${day.padStart(2, '0')}T${clock}${offset}`);
}

function unknownReason(name: string, text: string, known: readonly string[]): { problem: string } {
  return { problem: `${name}: ${quoted(text)} is not one of ${known.join(', ')}` };
}
