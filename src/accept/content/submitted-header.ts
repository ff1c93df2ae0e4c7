/**
 * Checks the header of a message submitted by SMTP, and reads its author. A header that mail cannot carry, that is only
 * partly read, or that receivers may read differently is refused.
 */
import { isUtf8 } from 'node:buffer';
import { type Address, domainOf, explainAddress, type Mailbox } from '../../mail/address.ts';
import {
  addressInAnyForm,
  readAddressList,
  readHeaderMailbox,
  unambiguousAddress,
} from '../../mail/address-fields.ts';
import { HOPS_MAX } from '../../mail/mime/raw-message.ts';
import { fieldValues, type Header, VALUE_CHARS_MAX } from '../../mail/mime/reader.ts';
import type { AddProblem } from '../draft.ts';

/** Limit on a line (RFC 5322 §2.1.1): some servers cut or refuse longer lines. */
const LINE_OCTETS_MAX = 998;
/** Receivers accept headers up to 256 KB, most of them less. */
const HEADER_BYTES_MAX = 256 * 1024;
/** Lower than the number of fields that the reader reads, so fields that servers add in front are signed too. */
const FIELDS_MAX = 1_000;
/** Limit on the whole From field, with its folds. One line has at most 998 octets. */
const FROM_OCTETS_MAX = 1_000;

type ReceivedContent = {
  /** CRLF line ends. */
  content: Buffer;
  longestLine: number;
};

/** Reports all problems of the header. @returns the author; null when From is missing or names no single address */
export function readAuthor(
  message: ReceivedContent,
  header: Header,
  addProblem: AddProblem,
): Mailbox | null {
  refuseUnsendable(message, header, addProblem);
  refuseAmbiguousFields(message.content, header, addProblem);
  refuseRepeatedFields(header, addProblem);
  const from = readFrom(header, addProblem);
  if (from !== null) refuseOtherSenders(header, domainOf(from.address), addProblem);
  return from;
}

function refuseUnsendable(
  { content, longestLine }: ReceivedContent,
  { fields, bodyStart, isCut }: Header,
  addProblem: AddProblem,
): void {
  if (longestLine > LINE_OCTETS_MAX) {
    addProblem(
      '',
      `A line of the message has ${longestLine} octets, and mail carries ${LINE_OCTETS_MAX}; ` +
        'let your mail library encode the text as quoted-printable or base64.',
    );
  }
  if (content.includes(0)) {
    addProblem(
      '',
      'The message has a NUL octet in it, which mail cannot carry; encode it as base64.',
    );
  }
  if (isCut || fields.length > FIELDS_MAX || bodyStart > HEADER_BYTES_MAX) {
    addProblem('', 'The header has more than 256 KB or 1,000 fields; make it shorter.');
  }
  if (fieldValues(fields, 'received').length > HOPS_MAX) {
    addProblem('', `The message passed more than ${HOPS_MAX} servers; it is in a mail loop.`);
  }
  if (fields.some(({ name }) => name === '')) {
    addProblem('', 'The header has a line that is no field; an empty line ends the header.');
  }
  if (!isUtf8(content.subarray(0, bodyStart))) {
    addProblem('', 'The header has text that is not UTF-8; encode it (RFC 2047).');
  }
}

const COLON = 0x3a;

/** Refuses obsolete syntax (RFC 5322 §4), which receivers read differently or not at all. */
function refuseAmbiguousFields(
  content: Buffer,
  { fields, bodyStart }: Header,
  addProblem: AddProblem,
): void {
  for (const { name, start, end } of fields) {
    if (name === '') continue;
    // The reader reads only the beginning of a longer field.
    if (end - start > VALUE_CHARS_MAX) addProblem(name, 'is longer than 64 KB');
    if (content[start + name.length] !== COLON)
      addProblem(name, 'has white space before its colon');
  }
  if (/\n[ \t]+\r\n/.test(content.toString('latin1', 0, bodyStart))) {
    addProblem(
      '',
      'The header has a line of white space only, which some servers read as its end.',
    );
  }
}

/** Fields that may occur once (RFC 5322 §3.6). Receivers refuse a second one, or show one that is not signed. */
const SINGLE_FIELDS = new Set(
  'from sender reply-to to cc message-id in-reply-to references subject date mime-version content-type content-transfer-encoding x-letterhaus-scheduled-at'.split(
    ' ',
  ),
);

function refuseRepeatedFields({ fields }: Header, addProblem: AddProblem): void {
  const seen = new Set<string>();
  for (const { name } of fields) {
    const key = name.toLowerCase();
    if (seen.has(key)) addProblem(name, 'appears twice in the header; it may appear once');
    if (SINGLE_FIELDS.has(key)) seen.add(key);
  }
}

function readFrom({ fields }: Header, addProblem: AddProblem): Mailbox | null {
  const found = fields.find(({ name }) => name.toLowerCase() === 'from');
  if (found === undefined) {
    addProblem('From', 'is missing; add the sender of the message');
    return null;
  }
  const { value, start, end } = found;
  if (end - start > FROM_OCTETS_MAX) {
    addProblem('From', `has more than ${FROM_OCTETS_MAX} octets; make the name shorter`);
    return null;
  }
  const from = readHeaderMailbox(value);
  if (from !== null) return from;
  const isList = readAddressList(value).length > 1;
  addProblem('From', isList ? 'has several addresses; it may have one' : explainAddress(value));
  return null;
}

/**
 * Refuses fields that name another author. Some mail programs show the Sender beside From, and some show the Resent
 * fields as the author. The domain of the key is checked against From only; its senders against both.
 */
function refuseOtherSenders({ fields }: Header, domain: string, addProblem: AddProblem): void {
  for (const { name, value } of fields) {
    if (/^resent-/i.test(name)) {
      addProblem(name, 'marks a message that a person resends; send a new message instead');
    }
    if (name.toLowerCase() !== 'sender') continue;
    const sender = addressOfSender(value);
    if (sender === null || domainOf(sender) !== domain) {
      addProblem(name, `may have one address, of the domain of From (${domain}); leave it out`);
    }
  }
}

/** Returns the address of a Sender; null when it has none, or several. */
export function addressOfSender(value: string): Address | null {
  return unambiguousAddress(value) ?? (readHeaderMailbox(value) && addressInAnyForm(value));
}
