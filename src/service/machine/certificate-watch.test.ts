/** Shows when a certificate becomes a condition of the operator, on times that the test sets. */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { hostname, tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import type { NewCondition } from '../../core/operator-events.ts';
import { makeSelfSigned } from '../../net/tls/self-signed.ts';
import { CertificateWatch, certificateUses } from './certificate-watch.ts';
import { DAY_MS } from '../../lib/units.ts';

const NOW_MS = Date.parse('2026-11-21T08:00:00Z');

const NAMES = {
  host: '127.0.0.1',
  hostname: 'mail.example.org',
  isHostnameConfigured: true,
  publicUrl: null,
  trackingUrl: null,
  trustedProxies: [],
  acme: null,
  dataDir: '',
  inboundPort: null,
  submissionPorts: [],
};

function watched(t: TestContext, changed: Partial<Parameters<typeof certificateUses>[0]> = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'letterhaus-certificate-'));
  t.after(() => rmSync(folder, { recursive: true }));
  const files = { cert: join(folder, 'cert.pem'), key: join(folder, 'key.pem') };
  const clock = { ms: NOW_MS };
  const open = new Map<string, NewCondition>();
  const write = (name: string, leftDays: number, lifeDays = leftDays + 1): void => {
    const untilMs = clock.ms + leftDays * DAY_MS;
    const validity = { fromMs: untilMs - lifeDays * DAY_MS, untilMs };
    const made = makeSelfSigned(name, validity);
    writeFileSync(files.cert, made.certificate);
    writeFileSync(files.key, made.privateKey);
  };
  write('mail.example.org', 90);
  const config = { ...NAMES, apiTlsFiles: null, tlsFiles: files, ...changed };
  const isApi = changed.publicUrl !== undefined || changed.host !== undefined;
  const uses = isApi
    ? certificateUses({ ...config, apiTlsFiles: files }, null)
    : certificateUses(config, files);
  const watch = new CertificateWatch(uses, {
    world: { now: () => clock.ms },
    operatorEvents: {
      raise: (condition) => void open.set(condition.type, condition),
      clear: ({ type }) => void open.delete(type),
    },
  });
  const check = (): string[] => {
    watch.check();
    return [...open.keys()].toSorted();
  };
  return { files, clock, open, write, check };
}

test('a certificate of 91 days is reported from 15 days before its end until it is renewed', (t) => {
  const { clock, open, write, check } = watched(t);
  assert.deepEqual(check(), []);
  clock.ms += 74 * DAY_MS;
  assert.deepEqual(check(), []);
  clock.ms += DAY_MS;
  assert.deepEqual(check(), ['certificate.expiring']);
  const { subject, message, details, lapsesAfterMs } = open.get('certificate.expiring')!;
  assert.equal(subject, `${hostname()}, mail`);
  assert.match(message, /ends on 2027-02-19, in 15 days\.$/);
  assert.equal(details?.['ends_at'], '2027-02-19T08:00:00.000Z');
  assert.ok(lapsesAfterMs! > 60_000, 'it ends when this machine is removed');
  clock.ms += 16 * DAY_MS;
  assert.deepEqual(check(), ['certificate.expiring']);
  assert.match(open.get('certificate.expiring')!.message, / ended on 2027-02-19/);
  write('mail.example.org', 90);
  assert.deepEqual(check(), []);
});

test('a certificate of a year is reported 21 days before its end, and one of 45 days 7.5 days before', (t) => {
  const { write, check } = watched(t);
  const reported = (leftDays: number, lifeDays: number): boolean => {
    write('mail.example.org', leftDays, lifeDays);
    return check().includes('certificate.expiring');
  };
  assert.deepEqual([reported(22, 365), reported(21, 365)], [false, true]);
  assert.deepEqual([reported(8, 45), reported(7, 45)], [false, true]);
});

test('a certificate for another name is reported with both names; a wildcard matches the name', (t) => {
  const { open, write, check } = watched(t);
  write('other.example.org', 90);
  assert.deepEqual(check(), ['certificate.mismatch']);
  const { message, details } = open.get('certificate.mismatch')!;
  assert.match(message, /is for other\.example\.org, and clients connect to mail\.example\.org/);
  assert.deepEqual(details?.['missing'], ['mail.example.org']);
  write('*.example.org', 90);
  assert.deepEqual(check(), []);
});

test('the API needs the names of the public and of the tracking URL, or the name in HOST', (t) => {
  const urls = {
    publicUrl: 'https://mail.example.org:8443',
    trackingUrl: 'https://links.example.org',
  };
  const { open, check } = watched(t, urls);
  assert.deepEqual(check(), ['certificate.mismatch']);
  assert.deepEqual(open.get('certificate.mismatch')?.details?.['missing'], ['links.example.org']);
  assert.deepEqual(watched(t, { host: 'api.example.org' }).check(), ['certificate.mismatch']);
  assert.deepEqual(watched(t, { publicUrl: 'https://192.0.2.7' }).check(), [
    'certificate.mismatch',
  ]);
  const behindProxy = { publicUrl: 'https://x.example.org', trustedProxies: ['127.0.0.1'] };
  assert.deepEqual(watched(t, behindProxy).check(), []);
  assert.deepEqual(watched(t, { host: '0.0.0.0' }).check(), []);
});

test('unusable files count at the second check, because a renewal replaces one after the other', (t) => {
  const { files, open, write, check } = watched(t);
  write('mail.example.org', 10, 90);
  assert.deepEqual(check(), ['certificate.expiring']);
  const before = readFileSync(files.key);
  write('mail.example.org', 90);
  writeFileSync(files.key, before);
  assert.deepEqual(check(), ['certificate.expiring'], 'the renewal may be half done');
  assert.deepEqual(check(), ['certificate.expiring', 'certificate.mismatch']);
  assert.match(
    open.get('certificate.mismatch')!.message,
    /LETTERHAUS_TLS_KEY: .* is not the key of/,
  );
  rmSync(files.cert);
  assert.deepEqual(check(), ['certificate.expiring', 'certificate.mismatch']);
  assert.match(open.get('certificate.mismatch')!.message, /cert\.pem does not exist/);
  write('mail.example.org', 90);
  assert.deepEqual(check(), []);
});

test('a file without the issuer of its first certificate is reported', (t) => {
  const certs = join(import.meta.dirname, '../../../test/support/certs');
  const pem = (name: string) => readFileSync(join(certs, name), 'utf8');
  const { files, open, check } = watched(t, { hostname: 'other.test' });
  const withChain = (...names: string[]): string[] => {
    writeFileSync(files.cert, ['other-name.pem', ...names].map(pem).join(''));
    writeFileSync(files.key, pem('other-name.pem'));
    return check();
  };
  assert.deepEqual(withChain('ca.pem'), []);
  assert.deepEqual(withChain('trusted.pem'), ['certificate.mismatch']);
  assert.match(open.get('certificate.mismatch')!.message, /none of them has issued it/);
  assert.match(open.get('certificate.mismatch')!.remedy, /its issuer: CN=ca/);
  assert.deepEqual(withChain(), [], 'clients may know the authority');
});

test('a certificate counts as ended when the certificate of its issuer has ended', (t) => {
  const { files, clock, check } = watched(t);
  const validity = { fromMs: clock.ms, untilMs: clock.ms + 10 * DAY_MS };
  const issuer = makeSelfSigned('mail.example.org', validity).certificate;
  writeFileSync(files.cert, readFileSync(files.cert, 'utf8') + issuer);
  assert.deepEqual(check(), ['certificate.expiring']);
});
