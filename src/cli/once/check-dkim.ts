/**
 * Verifies the DKIM signatures of a message as a receiver does (RFC 6376 §6, RFC 8463): relaxed/relaxed
 * canonicalization, rsa-sha256 and ed25519-sha256. Shares no code with the signer.
 */
import { createHash, createPublicKey, verify, type KeyObject } from 'node:crypto';

export type DkimResult = { domain: string; algorithm: string; ok: boolean };

type Field = { name: string; raw: string };
type Tags = Readonly<Record<string, string>>;

/**
 * Returns one result per DKIM-Signature field, in the order of the fields.
 * @param message bytes as latin1 characters, CRLF line ends
 * @param keyRecords the TXT records of a name
 */
export function checkDkim(message: string, keyRecords: (name: string) => string[]): DkimResult[] {
  const end = message.indexOf('\r\n\r\n');
  const fields = fieldsOf(message.slice(0, end + 2));
  const body = message.slice(end + 4);
  return fields
    .filter(({ name }) => name === 'dkim-signature')
    .map((field) => checkSignature(field, { fields, body, keyRecords }));
}

function checkSignature(
  field: Field,
  {
    fields,
    body,
    keyRecords,
  }: {
    fields: Field[];
    body: string;
    keyRecords: (name: string) => string[];
  },
): DkimResult {
  const tags = tagsOf(field.raw.slice(field.raw.indexOf(':') + 1));
  const { d: domain = '', s: selector = '', a: algorithm = '' } = tags;
  const [record = ''] = keyRecords(`${selector}._domainkey.${domain}`);
  const key = publicKeyOf(algorithm, tagsOf(record)['p'] ?? '');
  const bodyHash = createHash('sha256').update(relaxedBody(body), 'latin1').digest('base64');
  const isIntact = tags['c'] === 'relaxed/relaxed' && tags['bh'] === bodyHash;
  const isSigned = key !== null && signatureHolds({ algorithm, key, tags, field, fields });
  return { domain, algorithm, ok: isIntact && isSigned };
}

function signatureHolds(parts: {
  algorithm: string;
  key: KeyObject;
  tags: Tags;
  field: Field;
  fields: Field[];
}): boolean {
  const { algorithm, key, tags, field, fields } = parts;
  const own = relaxedField(field).replace(/([;:]\s*b=)[^;]*/, '$1');
  const data = Buffer.from(signedFields(tags['h'] ?? '', fields) + own, 'latin1');
  const signature = Buffer.from(tags['b'] ?? '', 'base64');
  if (algorithm === 'rsa-sha256') return verify('sha256', data, key, signature);
  return verify(null, createHash('sha256').update(data).digest(), key, signature);
}

/** A repeated name in `h=` selects fields from last to first; a surplus name selects nothing (§5.4.2). */
function signedFields(names: string, fields: Field[]): string {
  const left = [...fields];
  return names
    .split(':')
    .map((name) => {
      const index = left.findLastIndex((field) => field.name === name.trim().toLowerCase());
      const [field] = index < 0 ? [] : left.splice(index, 1);
      return field === undefined ? '' : `${relaxedField(field)}\r\n`;
    })
    .join('');
}

function publicKeyOf(algorithm: string, base64: string): KeyObject | null {
  try {
    const bytes = Buffer.from(base64, 'base64');
    if (algorithm === 'rsa-sha256') {
      return createPublicKey({ key: bytes, format: 'der', type: 'spki' });
    }
    if (algorithm !== 'ed25519-sha256') return null;
    const jwk = { kty: 'OKP', crv: 'Ed25519', x: bytes.toString('base64url') };
    return createPublicKey({ key: jwk, format: 'jwk' });
  } catch {
    return null;
  }
}

function fieldsOf(header: string): Field[] {
  const raws = header.split(/\r\n(?![ \t])/).filter((raw) => raw !== '');
  return raws.map((raw) => ({ name: raw.slice(0, raw.indexOf(':')).trim().toLowerCase(), raw }));
}

function tagsOf(text: string): Tags {
  const pairs = text.split(';').map((pair) => pair.replace(/\s+/g, ''));
  return Object.fromEntries(
    pairs.map((pair) => [pair.slice(0, pair.indexOf('=')), pair.slice(pair.indexOf('=') + 1)]),
  );
}

/** RFC 6376 §3.4.2 */
function relaxedField({ name, raw }: Field): string {
  const value = raw.slice(raw.indexOf(':') + 1).replace(/\r\n/g, '');
  return `${name}:${value.replace(/[ \t]+/g, ' ').trim()}`;
}

/** RFC 6376 §3.4.4 */
function relaxedBody(body: string): string {
  const lines = body.replace(/[ \t]+/g, ' ').replace(/ \r\n/g, '\r\n');
  const trimmed = lines.replace(/(\r\n)+$/, '');
  return trimmed === '' ? '' : `${trimmed}\r\n`;
}
