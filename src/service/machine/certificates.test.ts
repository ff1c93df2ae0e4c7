/** Certificate files that are invalid or renewed, and the self-signed certificate. */
import assert from 'node:assert/strict';
import { X509Certificate } from 'node:crypto';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test, type TestContext } from 'node:test';
import { createLog } from './log.ts';
import { keepOwnCertificate, ReloadedCertificate, problemOf } from './certificates.ts';
import { makeSelfSigned } from '../../net/tls/self-signed.ts';

const NOW_MS = Date.parse('2026-11-21T08:00:00Z');
const YEAR_MS = 365 * 24 * 3_600_000;
const log = createLog({ level: 'silent', forPeople: false });

function folder(t: TestContext): string {
  const path = mkdtempSync(join(tmpdir(), 'letterhaus-certificate-'));
  t.after(() => rmSync(path, { recursive: true }));
  mkdirSync(join(path, 'secrets'));
  return path;
}

function pairIn(path: string, untilMs = NOW_MS + YEAR_MS) {
  const made = makeSelfSigned('mx.test', { fromMs: NOW_MS - YEAR_MS, untilMs });
  const files = { cert: join(path, 'cert.pem'), key: join(path, 'key.pem') };
  writeFileSync(files.cert, made.certificate);
  writeFileSync(files.key, made.privateKey);
  return files;
}

test('each kind of invalid certificate file is reported with its variable', (t) => {
  const path = folder(t);
  const files = pairIn(path);
  assert.equal(problemOf(files, NOW_MS), null);
  const said = (changed: Partial<typeof files>, nowMs = NOW_MS) =>
    problemOf({ ...files, ...changed }, nowMs) ?? '';
  assert.match(
    said({ cert: '/nowhere' }),
    /^LETTERHAUS_TLS_CERT: \/nowhere does not exist\. .*\.$/,
  );
  assert.match(said({ key: path }), /^LETTERHAUS_TLS_KEY: .* cannot be read \(EISDIR\)\. /);
  assert.match(said({ cert: files.key }), /^LETTERHAUS_TLS_CERT: .* is no certificate in PEM/);
  assert.match(said({ key: files.cert }), /^LETTERHAUS_TLS_KEY: .* is no private key in PEM/);
  assert.match(said({}, NOW_MS + 2 * YEAR_MS), /^LETTERHAUS_TLS_CERT: .* ended on Nov 21/);
  const other = join(path, 'other.pem');
  writeFileSync(other, readFileSync(files.key));
  pairIn(path);
  assert.match(said({ key: other }), /^LETTERHAUS_TLS_KEY: .* is not the key of .*cert\.pem/);
});

test('the self-signed certificate is generated once, private, and follows the host name', (t) => {
  const dataDir = folder(t);
  const keep = (hostname: string, nowMs = NOW_MS) => {
    const { cert } = keepOwnCertificate(
      { dataDir, hostname },
      { world: { now: () => nowMs }, log },
    );
    return { cert, certificate: new X509Certificate(readFileSync(cert)) };
  };
  const first = keep('mx.test');
  assert.equal(statSync(first.cert).mode & 0o777, 0o600);
  assert.equal(problemOf({ cert: first.cert, key: first.cert }, NOW_MS), null);
  assert.equal(keep('mx.test').certificate.serialNumber, first.certificate.serialNumber);
  const renamed = keep('other.test');
  assert.equal(renamed.certificate.subjectAltName, 'DNS:other.test');
  const renewed = keep('other.test', NOW_MS + 10 * YEAR_MS);
  assert.notEqual(renewed.certificate.serialNumber, renamed.certificate.serialNumber);
});

test('a renewed certificate is used without a restart, and an invalid one leaves the last valid one', (t) => {
  const path = folder(t);
  const files = pairIn(path);
  const clock = { ms: 0 };
  const certificate = new ReloadedCertificate(files, {
    of: 'the mail ports',
    world: { monotonicMs: () => clock.ms },
    log,
  });
  const first = certificate.context();
  assert.ok(first !== null);
  writeFileSync(files.cert, 'half of a certi');
  clock.ms += 60_000;
  assert.equal(certificate.context(), first);
  pairIn(path, NOW_MS + 2 * YEAR_MS);
  assert.equal(certificate.context(), first);
  clock.ms += 60_000;
  const second = certificate.context();
  assert.ok(second !== null && second !== first);
  clock.ms += 60_000;
  assert.equal(certificate.context(), second);
});
