/**
 * A message that goes on as it was written (RFC 6409): its octets stay what they are, but for the
 * fields that are nobody's business (Bcc), the ones that are for us, and those in front that every
 * message needs. Pure. Next: dkim.ts signs it.
 */
import { dateText } from './compose.ts';
import { type HeaderField, headerLine } from './header.ts';
import { type Header, readHeader } from './mime-reader.ts';

export type Trace = {
  /** As the client named itself; not trusted. */
  helo: string;
  remoteAddress: string;
  /** RFC 3848: `ESMTPSA`. */
  protocol: string;
  hostname: string;
  emailId: string;
  at: Date;
};

/** Of mailing programs and of our own: they end here. */
const TAKEN_OUT = /^(?:bcc|return-path|x-posthorn-.*|resend-idempotency-key)$/i;

/** @param missing fields to be put in front, because the message lacks them */
export function passedOn(
  content: Buffer,
  { header, trace, missing }: { header: Header; trace: Trace; missing: readonly HeaderField[] },
): Buffer {
  const kept = header.fields
    .filter(({ name }) => !TAKEN_OUT.test(name))
    .map(({ start, end }) => content.subarray(start, end));
  const front = `${receivedLine(trace)}${missing.map(headerLine).join('')}`;
  const body = content.subarray(header.bodyStart);
  return Buffer.concat([Buffer.from(front), ...kept, Buffer.from('\r\n'), body]);
}

/** RFC 5321 §4.4 */
function receivedLine({ helo, remoteAddress, protocol, hostname, emailId, at }: Trace): string {
  const name = /^[A-Za-z0-9.:[\]_-]{1,255}$/.test(helo) ? helo : 'unknown';
  const plain = remoteAddress.replace(/^::ffff:/i, '').replace(/%.*$/, '');
  const address = plain.includes(':') ? `IPv6:${plain}` : plain;
  return (
    `Received: from ${name} ([${address}])\r\n` +
    `\tby ${hostname} with ${protocol} id ${emailId};\r\n\t${dateText(at)}\r\n`
  );
}

export type WrittenParts = {
  /** As on the wire. */
  headers: readonly HeaderField[];
  headerBytes: Buffer;
  body: Buffer;
  /** There are more fields than these. */
  isCut: boolean;
};

/** What there is to sign. */
export function partsAsWritten(raw: Buffer): WrittenParts {
  const { fields, bodyStart, isCut } = readHeader(raw);
  const headers = fields.map(({ name, start, end }) => {
    const text = raw.toString('utf8', start, end);
    const value = text.slice(text.indexOf(':') + 1).replace(/\r\n$/, '');
    return { name, value };
  });
  const headerEnd = fields.at(-1)?.end ?? 0;
  const headerBytes = raw.subarray(0, headerEnd);
  return { headers, headerBytes, body: raw.subarray(bodyStart), isCut };
}
