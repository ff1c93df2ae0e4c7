/**
 * Parses the machine-readable fields of a report (RFC 3464, RFC 6533): one group of fields for each recipient.
 *
 * Lenient, because many systems write reports. A group begins with its first recipient, even if an empty line is
 * missing or doubled, and fields may precede the recipient. If a group has no Diagnostic-Code, an extension field
 * that quotes a reply replaces it (RFC 3464 §2.4), as in the reports of Exchange and IronPort.
 */
import { takeOutComments } from '../mime/comments.ts';
import type { HeaderField } from '../mime/header.ts';
import { decodeWords } from '../mime/decode.ts';
import { readHeader } from '../mime/reader.ts';
import { addressIn } from './text-entries.ts';

export type StatusEntry = {
  /** Final-Recipient, else Original-Recipient, or null when neither is an address. */
  recipient: string | null;
  /** Original-Recipient: the address that the sender used; null when absent. */
  original: string | null;
  /** `failed`, `delayed`, `delivered`, `relayed`, `expanded`; '' when absent. */
  action: string;
  /** The server says until when it retries. */
  isRetried: boolean;
  status: string | null;
  /** The server's replies, the Diagnostic-Code first, without their type. */
  diagnostics: readonly string[];
};

const PARAGRAPHS_MAX = 500;
const VALUE_CHARS_MAX = 4_096;
const RECIPIENT_FIELDS = ['final-recipient', 'original-recipient', 'x-actual-recipient'] as const;
/** Fields that occur at most once in a group. A second one begins the next group. */
const RECIPIENT_GROUP_FIELDS: ReadonlySet<string> = new Set([
  ...RECIPIENT_FIELDS,
  'action',
  'status',
  'diagnostic-code',
  'remote-mta',
  'will-retry-until',
  'last-attempt-date',
]);
/** Extension fields that always hold a diagnostic: of Exchange and IronPort, of Exim. */
const DIAGNOSTIC_FIELDS: ReadonlySet<string> = new Set([
  'x-supplementary-info',
  'x-exim-diagnostic',
]);
const DIAGNOSTIC_CHARS_MAX = 8_000;
/** Exchange and IronPort put server, status and diagnostic in brackets: `<192.0.2.9 #5.0.0 smtp; 550 …>`. */
const BRACKETED = /^#?<\s*(?:[^\s<>#;]+\s+)?#(?:([245]\.\d{1,3}\.\d{1,3})(?![\d.]))?\s*([^]*)$/;
/** `smtp;`, `x-postfix;` and similar. */
const TYPE = /^[\w-]{1,30} *; */;

export function readStatusEntries(text: string): StatusEntry[] {
  return splitGroups(text)
    .map(toEntry)
    .filter((entry): entry is StatusEntry => entry !== null);
}

/** The fields of one recipient. */
type FieldGroup = Map<string, string>;

function splitGroups(text: string): FieldGroup[] {
  const groups: FieldGroup[] = [];
  for (const paragraph of text.split(/\r?\n[ \t]*\r?\n/, PARAGRAPHS_MAX))
    addGroups(groups, paragraph);
  return groups;
}

function addGroups(groups: FieldGroup[], paragraph: string): void {
  let isNewGroup = true;
  const extensions: HeaderField[] = [];
  for (const field of parseFields(paragraph)) {
    const name = field.name.toLowerCase();
    if (name.startsWith('x-') && !RECIPIENT_GROUP_FIELDS.has(name)) extensions.push(field);
    if (!RECIPIENT_GROUP_FIELDS.has(name)) continue;
    const last = groups.at(-1);
    if (last === undefined || beginsAnother(last, name, isNewGroup)) {
      if (!isNewGroup) addExtensions(last, extensions);
      groups.push(new Map());
    }
    isNewGroup = false;
    const group = groups.at(-1)!;
    if (!group.has(name)) group.set(name, field.value);
  }
  addExtensions(groups.at(-1), extensions);
}

/** Extension fields belong to the recipient of their group, before or after it. */
function addExtensions(group: FieldGroup | undefined, extensions: HeaderField[]): void {
  for (const { name, value } of extensions.splice(0)) {
    const key = name.toLowerCase();
    if (group?.has(key) === false) group.set(key, value);
  }
}

function parseFields(paragraph: string): readonly HeaderField[] {
  return readHeader(Buffer.from(paragraph.replace(/^[\r\n]+/, ''))).fields;
}

/** A repeated Final-Recipient begins a group, and after an empty line, any other repeated field. */
function beginsAnother(group: FieldGroup, name: string, isNewGroup: boolean): boolean {
  if (name === 'final-recipient') return group.has(name);
  return (
    isNewGroup &&
    group.has(name) &&
    RECIPIENT_FIELDS.some((recipientField) => group.has(recipientField))
  );
}

function toEntry(group: FieldGroup): StatusEntry | null {
  if (!RECIPIENT_FIELDS.some((name) => group.has(name))) return null;
  const recipients = RECIPIENT_FIELDS.map((name) => addressOf(group, name));
  const diagnostics = diagnosticsOf(group);
  return {
    recipient: recipients.find((address) => address !== null) ?? null,
    original: addressOf(group, 'original-recipient'),
    action: /^[a-z]+/.exec((group.get('action') ?? '').toLowerCase())?.[0] ?? '',
    isRetried: group.has('will-retry-until'),
    status: moreSpecific(
      /\b[245]\.\d{1,3}\.\d{1,3}\b/.exec(group.get('status') ?? '')?.[0] ?? null,
      diagnostics.find(({ status }) => status !== null)?.status ?? null,
    ),
    diagnostics: diagnostics.map(({ text }) => text).filter((text) => text !== ''),
  };
}

/** Returns the address outside of comments (RFC 3464 §2.1.2); some servers write it only within a comment. */
function addressOf(group: FieldGroup, name: string): string | null {
  const value = decodeWords(group.get(name) ?? '').slice(0, VALUE_CHARS_MAX);
  return addressIn(takeOutComments(value)?.text ?? '') ?? addressIn(value);
}

/** Returns the more exact status: 5.0.0 says less than the status in a diagnostic. */
function moreSpecific(status: string | null, inDiagnostic: string | null): string | null {
  const isVague = status === null || status.endsWith('.0.0');
  return isVague && inDiagnostic !== null && status?.[0] !== '2' ? inDiagnostic : status;
}

type Diagnostic = { text: string; status: string | null };

function diagnosticsOf(group: FieldGroup): Diagnostic[] {
  const fields = [...group].filter(
    ([name, value]) =>
      DIAGNOSTIC_FIELDS.has(name) || (!RECIPIENT_GROUP_FIELDS.has(name) && quotesReply(value)),
  );
  return [group.get('diagnostic-code') ?? '', ...fields.map(([, value]) => value)].map(
    readDiagnostic,
  );
}

/** Matches `550 5.1.1 …`, `smtp; 550-…` and `<mx.acme.test #5.1.1 smtp; 550 …>`, but not an id such as `550A3F`. */
function quotesReply(value: string): boolean {
  return /^["']?[45]\d\d(?:[ -]+[45]\.\d{1,3}\.\d{1,3}\b|-| +\D)/.test(readDiagnostic(value).text);
}

function readDiagnostic(value: string): Diagnostic {
  const line = value.slice(0, DIAGNOSTIC_CHARS_MAX).replace(/\s+/g, ' ').trim();
  const [, status = null, inner] = BRACKETED.exec(line) ?? [];
  const text = inner === undefined ? line : inner.replace(/> ?(?:#SMTP#)?$/i, '');
  return { text: text.replace(TYPE, '').trim(), status };
}
