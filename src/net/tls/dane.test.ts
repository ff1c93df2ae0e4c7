/** TLSA records against certificates. test/journey/tls-dane.test.ts sends mail to such servers. */
import assert from 'node:assert/strict';
import { createHash, X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { daneProblem, usableRecords } from './dane.ts';
import type { TlsaRecord } from '../dns/resolver.ts';

const read = (name: string): X509Certificate =>
  new X509Certificate(
    readFileSync(
      new URL(`../../../test/support/certs/${name}.pem`, import.meta.url),
      'utf8',
    ).replace(/^[^]*(?=-----BEGIN CERTIFICATE)/, ''),
  );
const [ca, trusted, other, expired, selfSigned] = [
  'ca',
  'trusted',
  'other-name',
  'expired',
  'self-signed',
].map(read) as [
  X509Certificate,
  X509Certificate,
  X509Certificate,
  X509Certificate,
  X509Certificate,
];

const nowMs = Date.UTC(2026, 10, 22);

/** Returns a record for the certificate, as its owner would publish it. */
function record(
  certificate: X509Certificate,
  [usage, selector, matching]: readonly [number, number, number],
): TlsaRecord {
  const spki = certificate.publicKey.export({ type: 'spki', format: 'der' });
  const bytes = selector === 0 ? certificate.raw : spki;
  const hash = (name: string): string => createHash(name).update(bytes).digest('hex');
  const dataHex = [bytes.toString('hex'), hash('sha256'), hash('sha512')][matching] ?? '';
  return { usage, selector, matching, dataHex };
}

function problem(chain: X509Certificate[], records: TlsaRecord[], names = ['mx.test']) {
  return daneProblem(chain, { records, names, nowMs });
}

test('DANE-EE accepts exactly that certificate or key, regardless of names and dates', () => {
  for (const selector of [0, 1]) {
    for (const matching of [0, 1, 2]) {
      const kind = [3, selector, matching] as const;
      assert.equal(problem([trusted], [record(trusted, kind)]), null, kind.join(' '));
      assert.equal(problem([expired], [record(expired, kind)], ['elsewhere.test']), null);
      assert.equal(problem([selfSigned], [record(selfSigned, kind)]), null);
      assert.match(`${problem([trusted], [record(other, kind)])}`, /not the one/);
    }
  }
});

test('DANE-TA accepts a certificate of that authority with valid name and dates', () => {
  for (const selector of [0, 1]) {
    for (const matching of [0, 1, 2]) {
      const anchor = record(ca, [2, selector, matching]);
      assert.equal(problem([trusted, ca], [anchor]), null);
      assert.equal(problem([other, ca], [anchor], ['mx.test', 'other.test']), null);
      assert.match(`${problem([other, ca], [anchor])}`, /not for mx\.test/);
      assert.match(`${problem([expired, ca], [anchor])}`, /expired/);
      assert.match(`${problem([selfSigned, ca], [anchor])}`, /no authority/);
      assert.match(
        `${problem([trusted], [record(trusted, [2, selector, matching])])}`,
        /no authority/,
      );
    }
  }
});

test('an authority that the server does not send is used only if the record contains it', () => {
  assert.equal(problem([trusted], [record(ca, [2, 0, 0])]), null);
  assert.equal(problem([trusted], [record(ca, [2, 1, 0])]), null);
  assert.match(`${problem([trusted], [record(ca, [2, 0, 1])])}`, /no authority/);
  assert.match(`${problem([selfSigned], [record(ca, [2, 1, 0])])}`, /no authority/);
});

test('one matching record is enough, and a missing certificate fails', () => {
  const records = [record(other, [3, 1, 1]), record(ca, [2, 0, 1]), record(trusted, [3, 1, 1])];
  assert.equal(problem([trusted], records), null);
  assert.match(`${problem([], records)}`, /no certificate/);
});

test('records that cannot be checked are unusable', () => {
  const good = record(trusted, [3, 1, 1]);
  assert.deepEqual(usableRecords([good]), [good]);
  for (const wrong of [
    { ...good, usage: 0 },
    { ...good, usage: 1 },
    { ...good, usage: 255 },
    { ...good, selector: 2 },
    { ...good, matching: 3 },
    { ...good, dataHex: good.dataHex.slice(2) },
    { ...good, dataHex: '' },
    { ...good, matching: 0 },
    { ...good, matching: 0, selector: 0, dataHex: 'ff'.repeat(60_000) },
  ]) {
    assert.deepEqual(usableRecords([wrong]), [], JSON.stringify(wrong).slice(0, 80));
  }
});

test('a weaker digest beside a stronger one of the same kind is ignored', () => {
  const strong = record(trusted, [3, 1, 2]);
  const anchor = record(ca, [2, 1, 1]);
  assert.deepEqual(usableRecords([record(other, [3, 1, 1]), strong, anchor]), [strong, anchor]);
});
