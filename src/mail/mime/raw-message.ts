/**
 * A message that is sent as an SMTP client wrote it (RFC 6409): its octets do not change, except that Bcc,
 * fields for the service and results of checks are removed, missing required fields are added at the beginning, and a
 * From or Sender that receivers may read in different ways is written anew; and unless its domain is tracked
 * (mail/html/tracked-message.ts), or a server has no SMTPUTF8 (ascii-header.ts).
 */
import { dateText, type HeaderField, headerLine } from './header.ts';
import { type Header, readHeader } from './reader.ts';

export type Trace = {
  /** The client of the submission, if all recipients may see it. */
  client: { /** The name in its EHLO; not trusted. */ helo: string; address: string } | null;
  /** RFC 3848: `ESMTPSA`. */
  protocol: string;
  hostname: string;
  emailId: string;
  at: Date;
};

/** Maximum number of Received fields; above it the message is in a loop (RFC 5321 §6.3). */
export const HOPS_MAX = 100;

/**
 * Fields that are removed: those for the service, and those by which a receiving server says what it has
 * checked (RFC 8601, 8617, 7208). Here they are the client's own claims; a server may believe them, for
 * they arrive under our signature.
 */
const TAKEN_OUT =
  /^(?:bcc|return-path|authentication-results|received-spf|arc-.*|x-letterhaus-.*|resend-idempotency-key)$/i;

type Changes = {
  header: Header;
  trace: Trace;
  /** Required fields that the message lacks, added at the beginning. */
  missing: readonly HeaderField[];
  /** Fields that take the place of those of their name. */
  instead: readonly HeaderField[];
};

export function passedOn(content: Buffer, { header, trace, missing, instead }: Changes): Buffer {
  const kept = header.fields
    .filter(({ name }) => !TAKEN_OUT.test(name))
    .map(({ name, start, end }) => {
      const other = instead.find((field) => field.name.toLowerCase() === name.toLowerCase());
      return other === undefined ? content.subarray(start, end) : Buffer.from(headerLine(other));
    });
  const front = `${receivedLine(trace)}${missing.map(headerLine).join('')}`;
  const body = content.subarray(header.bodyStart);
  return Buffer.concat([Buffer.from(front), ...kept, Buffer.from('\r\n'), body]);
}

/** RFC 5321 §4.4. The id is sufficient for finding the client in the log. */
function receivedLine({ client, protocol, hostname, emailId, at }: Trace): string {
  const from = client === null ? '' : `from ${clientText(client)}\r\n\t`;
  const by = `by ${hostname} with ${protocol} id ${emailId};`;
  return `Received: ${from}${by}\r\n\t${dateText(at)}\r\n`;
}

function clientText({ helo, address }: NonNullable<Trace['client']>): string {
  const name = /^[A-Za-z0-9.:[\]_-]{1,255}$/.test(helo) ? helo : 'unknown';
  const plain = address.replace(/^::ffff:/i, '').replace(/%.*$/, '');
  return `${name} ([${plain.includes(':') ? `IPv6:${plain}` : plain}])`;
}

export type WrittenParts = {
  raw: Buffer;
  /** As transmitted. */
  headers: readonly HeaderField[];
  headerBytes: Buffer;
  body: Buffer;
  /** There are more fields than were read. */
  isCut: boolean;
};

/** The header and the body to sign. */
export function partsAsWritten(raw: Buffer): WrittenParts {
  const { fields, bodyStart, isCut } = readHeader(raw);
  const headers = fields.map(({ name, start, end }) => {
    const text = raw.toString('utf8', start, end);
    const value = text.slice(text.indexOf(':') + 1).replace(/\r\n$/, '');
    return { name, value };
  });
  const headerEnd = fields.at(-1)?.end ?? 0;
  const headerBytes = raw.subarray(0, headerEnd);
  return { raw, headers, headerBytes, body: raw.subarray(bodyStart), isCut };
}
