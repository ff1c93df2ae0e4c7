/**
 * Builds the message that is sent for a submitted one (RFC 6409). Its octets do not change, with these exceptions:
 * - Bcc, fields for the service and results of checks are removed.
 * - Missing required fields are added at the beginning.
 * - A From or Sender that receivers may parse in different ways is rewritten.
 * - A tracked domain rewrites links (mail/html/tracked-message.ts), and a server without SMTPUTF8 gets an ASCII
 *   header (ascii-header.ts).
 */
import { dateText, type HeaderField, headerLine } from './header.ts';
import { type Header, readHeader } from './reader.ts';

type SubmittingClient = {
  /** The name in its EHLO; not trusted. */
  helo: string;
  address: string;
};

export type SubmissionTrace = {
  /** The submitting client; null hides it from recipients. */
  client: SubmittingClient | null;
  /** For example `ESMTPSA` (RFC 3848). */
  protocol: string;
  hostname: string;
  emailId: string;
  at: Date;
};

/** Limit on Received fields; more of them mean a loop (RFC 5321 §6.3). */
export const HOPS_MAX = 100;

/**
 * Fields that are removed: fields for the service, and results of checks by a receiving server (RFC 8601, 8617,
 * 7208). Here the client asserts those results. A server might believe them, because our signature covers the
 * message.
 */
const REMOVED =
  /^(?:bcc|return-path|authentication-results|received-spf|arc-.*|x-letterhaus-.*|resend-idempotency-key)$/i;

type Changes = {
  header: Header;
  trace: SubmissionTrace;
  /** Required fields that the message lacks. They are added at the beginning. */
  missingFields: readonly HeaderField[];
  /** Fields that replace fields of the same name. */
  replacements: readonly HeaderField[];
};

export function buildRawMessage(
  content: Buffer,
  { header, trace, missingFields, replacements }: Changes,
): Buffer {
  const kept = header.fields
    .filter(({ name }) => !REMOVED.test(name))
    .map(({ name, start, end }) => {
      const replacement = replacements.find(
        (field) => field.name.toLowerCase() === name.toLowerCase(),
      );
      return replacement === undefined
        ? content.subarray(start, end)
        : Buffer.from(headerLine(replacement));
    });
  const front = `${receivedLine(trace)}${missingFields.map(headerLine).join('')}`;
  const body = content.subarray(header.bodyStart);
  return Buffer.concat([Buffer.from(front), ...kept, Buffer.from('\r\n'), body]);
}

/** Returns the Received field (RFC 5321 §4.4). Its id is enough to find the client in the log. */
function receivedLine({ client, protocol, hostname, emailId, at }: SubmissionTrace): string {
  const from = client === null ? '' : `from ${clientText(client)}\r\n\t`;
  const by = `by ${hostname} with ${protocol} id ${emailId};`;
  return `Received: ${from}${by}\r\n\t${dateText(at)}\r\n`;
}

function clientText({ helo, address }: NonNullable<SubmissionTrace['client']>): string {
  const name = /^[A-Za-z0-9.:[\]_-]{1,255}$/.test(helo) ? helo : 'unknown';
  const plain = address.replace(/^::ffff:/i, '').replace(/%.*$/, '');
  return `${name} ([${plain.includes(':') ? `IPv6:${plain}` : plain}])`;
}

export type RawMessageParts = {
  raw: Buffer;
  headers: readonly HeaderField[];
  headerBytes: Buffer;
  body: Buffer;
  /** The header contains more fields than were parsed. */
  isCut: boolean;
};

export function splitRawMessage(raw: Buffer): RawMessageParts {
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
