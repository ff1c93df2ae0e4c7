/** The smaller parts of an email: each with its rule, and what to say when it is broken. */
import { checkCustomHeader } from '../mail/header.ts';
import { hostedAt, PUBLIC_URL_MAX_LENGTH } from '../mail/unsubscribe-link.ts';
import type { Complain, DraftInput, DraftRules, EmailDraft, Tag } from './draft.ts';

export const SUBJECT_MAX = 998;
export const TAGS_MAX = 75;
export const TAG_PATTERN = /^[A-Za-z0-9_-]{1,256}$/;
export const METADATA_NAME_MAX = 256;
export const METADATA_VALUE_MAX = 1_024;
export const EXPIRES_IN_S = { min: 60, max: 432_000 };
const HEADERS_MAX = 50;
const URL_MAX = 900;

const NO_PAGES =
  'needs POSTHORN_PUBLIC_URL, the https address at which recipients reach this service ' +
  `(${PUBLIC_URL_MAX_LENGTH} characters at most); set it, or give an https URL of yours`;

const CONTROL = /[\u0000-\u001f\u007f-\u009f]/;

export function readSubject(subject: string, complain: Complain): string {
  if (subject === '') complain('subject', 'is empty; say what the email is about');
  if (isLongerThan(SUBJECT_MAX, subject)) {
    complain('subject', `is longer than ${SUBJECT_MAX} characters`);
  }
  if (CONTROL.test(subject)) complain('subject', 'has control characters; remove line breaks');
  return subject;
}

/** Counts what people count: an emoji is one character. */
function isLongerThan(max: number, text: string): boolean {
  return text.length > 2 * max || (text.length > max && [...text].length > max);
}

export function readHeaders(input: DraftInput, complain: Complain): EmailDraft['headers'] {
  const headers = Object.entries(input.headers ?? {});
  if (headers.length > HEADERS_MAX) complain('headers', `are more than ${HEADERS_MAX}`);
  const seen = new Set<string>();
  for (const [name, value] of headers.slice(0, HEADERS_MAX)) {
    const isTwice = seen.has(name.toLowerCase());
    seen.add(name.toLowerCase());
    const problem = checkCustomHeader(name, value) ?? clashWithUnsubscribe(name, input);
    if (problem) complain(`headers.${shown(name)}`, problem);
    else if (isTwice) complain(`headers.${shown(name)}`, 'is there twice; capitals do not count');
  }
  return headers;
}

function clashWithUnsubscribe(name: string, { unsubscribe }: DraftInput): string | null {
  const clashes = Boolean(unsubscribe) && /^list-unsubscribe(-post)?$/i.test(name);
  return clashes ? 'is written for the field unsubscribe; leave one of them out' : null;
}

export function readTags(tags: readonly Tag[], complain: Complain): readonly Tag[] {
  if (tags.length > TAGS_MAX) complain('tags', `are more than ${TAGS_MAX}`);
  for (const [index, tag] of tags.slice(0, TAGS_MAX).entries()) {
    for (const part of ['name', 'value'] as const) {
      if (TAG_PATTERN.test(tag[part])) continue;
      complain(`tags[${index}].${part}`, 'must be 1-256 of A-Z, a-z, 0-9, underscore and hyphen');
    }
  }
  return tags;
}

export function readMetadata(
  metadata: Readonly<Record<string, string>>,
  complain: Complain,
): EmailDraft['metadata'] {
  const entries = Object.entries(metadata);
  if (entries.length > TAGS_MAX) complain('metadata', `has more than ${TAGS_MAX} members`);
  for (const [name, value] of entries.slice(0, TAGS_MAX)) {
    const field = `metadata.${shown(name)}`;
    if (name === '' || name.length > METADATA_NAME_MAX) {
      complain(field, `must have a name of 1-${METADATA_NAME_MAX} characters`);
    }
    if (value.length > METADATA_VALUE_MAX) {
      complain(field, `is longer than ${METADATA_VALUE_MAX} characters`);
    }
  }
  return metadata;
}

export function readExpiry(seconds: DraftInput['expires_in'], complain: Complain): number | null {
  if (seconds === null || seconds === undefined) return null;
  const { min, max } = EXPIRES_IN_S;
  if (Number.isInteger(seconds) && seconds >= min && seconds <= max) return seconds;
  complain('expires_in', `must be whole seconds, ${min} to ${max} (5 days)`);
  return null;
}

/**
 * RFC 8058: an https address that alone says who unsubscribes from what; with `true` pages of this
 * service are (mail/unsubscribe-link.ts).
 */
export function readUnsubscribe(
  { unsubscribe }: DraftInput,
  { pagesAt = null, takesMail = false }: Pick<DraftRules, 'pagesAt' | 'takesMail'>,
  complain: Complain,
): string | null {
  if (unsubscribe === true) {
    if (pagesAt !== null) return hostedAt(pagesAt, { byMail: takesMail });
    complain('unsubscribe', NO_PAGES);
  }
  if (typeof unsubscribe !== 'string') return null;
  const url = URL.parse(unsubscribe);
  const isPlain = /^https:\/\/[!-~]+$/i.test(unsubscribe) && !/[<>"]/.test(unsubscribe);
  if (isPlain && url?.protocol === 'https:' && !url.username && unsubscribe.length <= URL_MAX) {
    return unsubscribe;
  }
  complain('unsubscribe', `must be an https URL of at most ${URL_MAX} characters, %-escaped`);
  return null;
}

/** Names come from the client and go into answers and logs. */
function shown(name: string): string {
  const plain = name.replace(/[^!-~]/g, '?');
  return plain.length <= 64 ? plain : `${plain.slice(0, 64)}…`;
}
